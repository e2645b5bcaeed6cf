//! A message on one of its passes, and how a node changes it.

use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_wire::boomerang::{Editor, QosView, Rates, View};

use crate::counters::RefusalReason;
use crate::selector::Direction;

/// A message in transit, or at its initiator, in one direction.
#[derive(Clone, Copy)]
pub(crate) struct TransitMessage<'a> {
    pub(crate) view: View<'a>,
    pub(crate) direction: Direction,
    /// The initiating node, to which the session belongs.
    pub(crate) initiator: IpAddr,
    /// The far end that the initiating node addresses, or a group.
    pub(crate) far_end: IpAddr,
    /// Whether this is a reply in transit, and not a request.
    pub(crate) is_reply: bool,
    /// Interface that the message arrived through; [`crate::arrival::OWN`] for this host's own.
    pub(crate) arrival: InterfaceId,
    /// Whether only routers of the same administration are behind that interface.
    pub(crate) from_core: bool,
    /// Whether the next hop depends on the flow, and not only on the destination of the message.
    pub(crate) differs_by_flow: bool,
    /// Incoming interface of the message, and of the packets of this direction; `None` for this host's own.
    pub(crate) incoming: Option<InterfaceId>,
    /// Origin of the message, which decides what is checked.
    pub(crate) origin: Origin,
}

/// Origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In transit: everything is checked.
    Others,
    /// This host's own, which needs no credential.
    Own,
    /// In transit, granted already by the offload ([`crate::Command::Settled`]): counted, but not checked against
    /// limits.
    Settled,
}

/// Changes to a message before it is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edits {
    pub(crate) nack: bool,
    pub(crate) key: Option<u64>,
    /// Refresh interval to lower to, seconds.
    pub(crate) interval: Option<u8>,
    pub(crate) rates: Option<Rates>,
    /// Number of pairs of a list of downgrades, from its beginning, to set to zero.
    pub(crate) zeroed: usize,
}

impl Edits {
    pub(crate) const NONE: Edits =
        Edits { nack: false, key: None, interval: None, rates: None, zeroed: 0 };

    /// Returns whether there are no changes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.nack
            && self.key.is_none()
            && self.interval.is_none()
            && self.rates.is_none()
            && self.zeroed == 0
    }

    /// Applies the changes to a copy of the message that `view` reads, ICMP header included.
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

/// Result of processing a message: its outgoing interface, if that was looked up, and its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) interface: Option<InterfaceId>,
    pub(crate) edits: Edits,
}

impl TransitMessage<'_> {
    /// Returns the destination of the message, and of the packets of this direction.
    #[inline]
    pub(crate) fn toward(&self) -> IpAddr {
        match self.direction {
            Direction::Forward => self.far_end,
            Direction::Reverse => self.initiator,
        }
    }

    /// Returns the rate of this pass.
    #[inline]
    pub(crate) fn part_of(&self, rates: Rates) -> u32 {
        match self.direction {
            Direction::Forward => rates.forward,
            Direction::Reverse => rates.reverse,
        }
    }

    /// Returns whether the message requests a rate on this pass.
    pub(crate) fn requests_on_pass(&self) -> bool {
        match self.view.qos() {
            QosView::Bitrate(rates) => self.part_of(rates) > 0,
            QosView::Downgrade(vector) => {
                vector.iter().any(|octets| self.part_of(Rates::from_octets(*octets)) > 0)
            }
        }
    }

    /// Returns whether the message is a release: it requests zero rates, and no node has lowered them to zero.
    #[inline]
    pub(crate) fn is_release(&self) -> bool {
        let nothing = match self.view.qos() {
            QosView::Bitrate(rates) => rates == Rates::ZERO,
            QosView::Downgrade(vector) => vector.iter().all(|octets| *octets == [0; 8]),
        };
        nothing && !self.view.flags().is_nack()
    }
}

/// A refusal, with its reason and the available rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: RefusalReason,
    /// Available rate, bits per second.
    pub(crate) offer: u32,
}

impl Refused {
    /// Refuses without an offer.
    pub(crate) const fn without_offer(reason: RefusalReason) -> Refused {
        Refused { reason, offer: 0 }
    }
}
