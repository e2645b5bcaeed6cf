//! What two neighbours say to each other beyond their messages: that one arrived, that all of them still hold, and that
//! they are there at all (RFC 2961; Hello of RFC 3209 section 5).
//!
//! # Telling
//!
//! A Path or Resv to a neighbour that takes part carries a number under which the [`Book`] keeps what it says. News get
//! a new number and wait in the [`Retries`] until they are acknowledged; who waits too long is sent again, made anew
//! from the state, for state is all that is kept. Once acknowledged, the number stands in the neighbour's [`Roster`],
//! the state is no longer refreshed by itself, and each interval all numbers of a roster go out in a few short
//! messages. A neighbour that answers that it does not know a number, or that shows by a new epoch that it knows none, is
//! told again. Whatever was never acknowledged is refreshed as RFC 2205 has it.
//!
//! Tears, errors and confirmations have no state to be made from; a copy of each waits in their place.
//!
//! What several inputs bring about for one partner can leave in one datagram: see [`Bundler`].
//!
//! # Listening
//!
//! State blocks keep the name under which a neighbour last spoke of them, and [`names::Names`] finds them by it. A
//! message that was overtaken by a later one is dropped, and a number in a summary is as good as the message itself.
//!
//! # Odd cases
//!
//! - **Who the next hop is** tells the route. A Path to one that has not been heard yet goes without number, since a node
//!   that does not know the class would refuse it; the first message from there shows what it can do.
//! - **A neighbour stops to take part**: what it was told is sent once more, without numbers, and is refreshed as usual.
//! - **What is refused** is not acknowledged. The error says that it arrived, and it is refreshed by itself until it is
//!   taken.
//! - **A Resv for several senders** in one message of a foreign node has one number for several states. It is not
//!   remembered, so the node is asked for the whole message each time.
//! - **Path messages to groups** carry no number: who would have to acknowledge them is not known (RFC 2961 section
//!   4.7). Summaries of foreign nodes that name them are understood.

mod arrive;
mod book;
mod bundle;
mod hello;
pub(crate) mod names;
mod partner;
mod repeat;
mod retries;
mod roster;
mod send;
mod summary;
mod tell;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::timer::TimerId;
use earmark_core::{Effects, InterfaceId, Interfaces, Neighbor, Outgoing, Time};

use crate::config::{Config, Reduction};
use crate::state::{Index, NONE};
use crate::view::{NeighborView, ReductionView};
pub(crate) use arrive::unbundled;
use book::{Book, Standing};
pub use bundle::{Bundled, Bundler, Envelope};
pub use hello::Liveness;
use partner::Partners;
use retries::Retries;
pub(crate) use send::{Letter, Sending};

/// The exchange of one node with all its neighbours.
#[derive(Debug)]
pub(crate) struct Exchange {
    settings: Reduction,
    book: Book,
    partners: Partners,
    retries: Retries,
    /// Messages that no state stands behind, by their numbers, until they are acknowledged.
    copies: BTreeMap<u32, Copy>,
    /// Partners that have something to be told again.
    forgetful: Vec<Index>,
    /// Partners that wait for acknowledgements.
    unanswered: Vec<Index>,
    answer_timer: Option<TimerId>,
    retry_timer: Option<(TimerId, Time)>,
    /// When the next burst of messages that are sent again may begin.
    next_burst: Time,
    /// Whether a message was sent that may travel with others, since Bundles were made last.
    has_company: bool,
    bundler: Bundler,
    /// Spreads acknowledgements and summary refreshes.
    jitter: Stream,
    /// Instances of Hello.
    instances: Stream,
}

/// A message as it was sent.
#[derive(Debug)]
struct Copy {
    how: Outgoing,
    octets: Box<[u8]>,
}

impl Exchange {
    /// Draws from the streams `rsvp/epoch`, `rsvp/exchange` and `rsvp/hello`.
    pub(crate) fn new(config: &Config, random: &RandomStreams) -> Exchange {
        Exchange {
            settings: config.reduction.clone(),
            book: Book::new(random.stream("rsvp/epoch").next_u64()),
            partners: Partners::default(),
            retries: Retries::new(&config.reduction.retransmission),
            copies: BTreeMap::new(),
            forgetful: Vec::new(),
            unanswered: Vec::new(),
            answer_timer: None,
            retry_timer: None,
            next_burst: Time::ZERO,
            has_company: false,
            bundler: Bundler::default(),
            jitter: random.stream("rsvp/exchange"),
            instances: random.stream("rsvp/hello"),
        }
    }

    /// Takes back what was told under an entry, for its state is gone or goes without number from now on.
    pub(crate) fn forget(&mut self, entry: Index) {
        if entry != NONE {
            self.open(entry);
            self.book.remove(entry);
        }
    }

    /// Whether what was told is acknowledged and part of summary refreshes, so that it needs no refresh of its own.
    pub(crate) fn is_listed(&self, entry: Index) -> bool {
        entry != NONE && matches!(self.book.standing(entry), Standing::Listed { .. })
    }

    /// A neighbour without state, as far as the exchange knows it.
    pub(crate) fn view(&self, interface: InterfaceId, address: IpAddr) -> NeighborView {
        let partner = self.partners.find(interface, address).and_then(|i| self.partners.get(i));
        NeighborView {
            address,
            interface,
            senders: 0,
            reservations: 0,
            heard: partner.map_or(Time::ZERO, |partner| partner.heard),
            reduction: partner.filter(|partner| partner.capable).map(|partner| ReductionView {
                epoch: partner.epoch,
                summarized: partner.roster.len(),
                to_repeat: partner.forgotten.len(),
                summaries_sent: partner.summaries.0,
                summaries_received: partner.summaries.1,
            }),
            hello: partner.map_or(Liveness::Unknown, |partner| partner.hello.liveness()),
        }
    }

    /// Where partners are.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (InterfaceId, IpAddr)> {
        self.partners.addresses()
    }

    /// Our epoch, and how many messages wait for their acknowledgement.
    pub(crate) fn outlook(&self) -> (u32, usize) {
        (self.book.epoch(), self.retries.len())
    }

    /// Makes Bundles of what was sent to partners.
    pub(crate) fn bundle<E>(&mut self, interfaces: &Interfaces, out: &mut Effects<E>) -> Bundled {
        if !core::mem::take(&mut self.has_company) {
            return Bundled::default();
        }
        let (partners, flags) = (&self.partners, self.settings.flags());
        self.bundler.bundle(out, |Neighbor { interface, address }| {
            // It may have ceased to be one since it was written to.
            let partner = partners.find(interface, address).and_then(|index| partners.get(index));
            let link =
                partner.filter(|partner| partner.capable).and(interfaces.by_id(interface))?;
            Some(Envelope { source: link.address_like(address)?, flags, mtu: link.mtu })
        })
    }

    /// Takes an entry out of whatever roster it stands in.
    fn open(&mut self, entry: Index) {
        let Standing::Listed { partner, place } = self.book.standing(entry) else { return };
        self.book.set_standing(entry, Standing::Open);
        let id = self.book.id(entry);
        let Some(roster) = self.partners.get_mut(partner).map(|partner| &mut partner.roster) else {
            return;
        };
        for (moved, place) in roster.remove(id, place).into_iter().flatten() {
            if let Some(entry) = self.book.find(moved) {
                self.book.set_standing(entry, Standing::Listed { partner, place });
            }
        }
    }
}
