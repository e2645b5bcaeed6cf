//! Views of the engine's state for listings, in the order of the slab, a page at a time, so that even a million
//! streams can be listed without blocking the engine for long.

use alloc::vec::Vec;

use earmark_core::admission::{ClaimId, Demand, Owner};
use earmark_core::{InterfaceId, RowFilter, Time};
use earmark_token::{HeldToken, User};
use earmark_wire::yessir::Style;

use crate::api::{Answer, Application, Stream};
use crate::instance::Yessir;
use crate::roles::Role;
use crate::state::{Holder, Index, Leg, NONE};

/// A stream that requests bandwidth.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// The stream.
    pub stream: Stream,
    /// SSRC of its sender.
    pub ssrc: u32,
    /// Individual style, or shared with the other senders of its session.
    pub style: Style,
    /// Requested demand; a rate of zero if it is not known yet.
    pub asked: Demand,
    /// Whether its rate is measured from its reports.
    pub measured: bool,
    /// Expiry time without another report.
    pub expires_at: Time,
    /// Outgoing links.
    pub legs: Vec<LegView>,
    /// User that a token of the request names.
    pub user: Option<User>,
}

/// An outgoing link of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LegView {
    /// The link.
    pub interface: InterfaceId,
    /// Claim, individual or shared.
    pub claim: Option<ClaimId>,
    /// Whether the claim covers the request.
    pub full: bool,
    /// Whether it waits for released bandwidth.
    pub waiting: bool,
    /// The counter c of the study: how often it entered the queue.
    pub waits: u32,
}

/// An application of this host.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplicationView {
    /// A sender with an announced stream.
    Sender {
        /// The application.
        application: Application,
        /// The stream.
        stream: Stream,
        /// Last answer of each receiver.
        answers: Vec<(core::net::IpAddr, Answer)>,
    },
    /// A listener.
    Listener {
        /// The application.
        application: Application,
        /// Destination port; the source of the stream does not matter.
        port: u16,
        /// Announced streams.
        streams: Vec<(Stream, Answer)>,
    },
}

impl Yessir {
    /// Returns whether streams of senders without YESSIR are measured on any interface.
    pub fn measures(&self) -> bool {
        !self.config.measured.is_empty()
    }

    /// Returns the octets of the tables of sessions on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.store.table_octets()
    }

    /// Returns the number of streams.
    pub fn session_count(&self) -> usize {
        self.store.sessions.len()
    }

    /// Returns all streams.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        (0..self.session_slots()).filter_map(|slot| self.session_at(slot, &RowFilter::ALL))
    }

    /// Returns the number of slots of the table of streams, empty ones included. A stream stays in its slot.
    pub fn session_slots(&self) -> u32 {
        self.store.sessions.capacity() as u32
    }

    /// Returns the stream in a slot, if there is one that the filter includes by its addresses. Costs a step for each of its
    /// links.
    pub fn session_at(&self, slot: u32, filter: &RowFilter) -> Option<SessionView> {
        let stream = self.store.sessions.get(slot as usize)?.stream;
        let is_included = filter.admits_to(stream.destination, stream.destination_port)
            && filter.admits_from(stream.source, stream.source_port);
        is_included.then(|| self.session_view(slot))
    }

    /// Returns a stream's session.
    pub fn session(&self, stream: &Stream) -> Option<SessionView> {
        self.store.find(stream).map(|index| self.session_view(index))
    }

    /// Returns the stream of a claim and its position among the links of the stream; of streams that share, the first.
    pub fn reservation_of(&self, claim: ClaimId, owner: Owner) -> Option<(SessionView, usize)> {
        let place = |index: Index| {
            let session = self.session_view(index);
            let leg = session.legs.iter().position(|leg| leg.claim == Some(claim))?;
            Some((session, leg))
        };
        match self.store.leg(self.leg_of_claim(claim, owner)?).holder {
            Holder::Session(index) => place(index),
            Holder::Pool(pool) => self.store.pool(pool).members.iter().copied().find_map(place),
        }
    }

    /// Returns all applications of this host, in order.
    pub fn applications(&self) -> impl Iterator<Item = ApplicationView> {
        self.roles.by_application.iter().map(|(&application, role)| match *role {
            Role::Sender(index) => {
                let sender = &self.roles.senders[index as usize];
                let answers = sender.answers.iter().map(|(&who, answer)| (who, answer.clone()));
                let stream = sender.stream;
                ApplicationView::Sender { application, stream, answers: answers.collect() }
            }
            Role::Listener(index) => {
                let listener = &self.roles.listeners[index as usize];
                let known = listener.streams.iter();
                let streams = known.map(|(&stream, known)| (stream, known.answer.clone()));
                let port = listener.port;
                ApplicationView::Listener { application, port, streams: streams.collect() }
            }
        })
    }

    fn session_view(&self, index: Index) -> SessionView {
        let session = self.store.session(index);
        let shared = session.pool != NONE;
        let legs = self.store.legs_of(Holder::Session(index)).map(|leg| {
            let own = self.store.leg(leg);
            let pooled =
                shared.then(|| self.store.leg_on(Holder::Pool(session.pool), own.interface));
            let Leg { interface, claim, full, waiting, waits, .. } =
                *pooled.flatten().map_or(own, |leg| self.store.leg(leg));
            LegView { interface, claim, full, waiting, waits }
        });
        SessionView {
            stream: session.stream,
            ssrc: session.ssrc,
            style: if shared { Style::Shared } else { Style::Individual },
            asked: session.asked,
            user: session.token().and_then(HeldToken::user),
            measured: session.extra.as_ref().is_some_and(|extra| extra.measurement.is_some()),
            expires_at: session.expires_at,
            legs: legs.collect(),
        }
    }
}
