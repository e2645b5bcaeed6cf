//! A message on one of its passes, and what a node does with it.

use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_wire::boomerang::{Editor, QosView, Rates, View};

use crate::api::Direction;
use crate::counters::RefusalReason;

/// A message on one of its passes.
#[derive(Clone, Copy)]
pub(crate) struct Passing<'a> {
    pub(crate) view: View<'a>,
    pub(crate) direction: Direction,
    /// The initiating node: whose session it is.
    pub(crate) initiator: IpAddr,
    /// Where the message goes next, and the packets of this direction with it.
    pub(crate) toward: IpAddr,
    /// Where it came in, and the packets of this direction with it; `None`: from this host.
    pub(crate) incoming: Option<InterfaceId>,
    /// Whose it is, and with it what has to be looked at.
    pub(crate) origin: Origin,
}

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// That of others: all is looked at.
    Others,
    /// This host's own, from which nothing need be proved.
    Own,
    /// That of others, which has been granted already ([`crate::Command::Settled`]): it is counted, and not asked any more.
    Settled,
}

/// What is changed in a message before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edits {
    pub(crate) nack: bool,
    pub(crate) key: Option<u64>,
    /// Lower the refresh interval to this.
    pub(crate) interval: Option<u8>,
    pub(crate) rates: Option<Rates>,
    /// So many pairs of a list of downgrades, from its beginning, become zero.
    pub(crate) zeroed: usize,
}

impl Edits {
    pub(crate) const NONE: Edits =
        Edits { nack: false, key: None, interval: None, rates: None, zeroed: 0 };

    /// Changes the copy of a message, ICMP header and all, that `view` looks at.
    pub(crate) fn apply(&self, message: &mut [u8], view: &View<'_>) {
        let mut editor = Editor::new(message, view);
        if self.nack {
            editor.set_nack();
        }
        if let Some(key) = self.key {
            editor.set_key(key);
        }
        if let Some(interval) = self.interval {
            editor.lower_refresh_interval(interval);
        }
        if let Some(rates) = self.rates {
            editor.set_rates(rates);
        }
        (0..self.zeroed).for_each(|number| editor.zero_element(number));
    }
}

/// What became of a message: where it leaves, if that had to be found out, and how it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) interface: Option<InterfaceId>,
    pub(crate) edits: Edits,
}

impl Passing<'_> {
    /// What of two rates this pass is about.
    #[inline]
    pub(crate) fn part_of(&self, rates: Rates) -> u32 {
        match self.direction {
            Direction::Forward => rates.forward,
            Direction::Reverse => rates.reverse,
        }
    }

    /// Whether the initiating node gives everything back: it asks for nothing, and nobody has lowered it to that.
    #[inline]
    pub(crate) fn is_release(&self) -> bool {
        let nothing = match self.view.qos() {
            QosView::Bitrate(rates) => rates == Rates::ZERO,
            QosView::Downgrade(vector) => vector.iter().all(|octets| *octets == [0; 8]),
        };
        nothing && !self.view.flags().is_nack()
    }
}

/// A refusal: why, and what could be had instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: RefusalReason,
    /// Bits per second.
    pub(crate) offer: u32,
}

impl Refused {
    /// Nothing can be had.
    pub(crate) const fn flatly(reason: RefusalReason) -> Refused {
        Refused { reason, offer: 0 }
    }
}
