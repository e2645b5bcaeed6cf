//! Views of the engine's state for listings, in the order of the slabs, a page at a time, so that even a million
//! blocks can be listed without blocking the engine for long.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{Flow, InterfaceId, Rate, RowFilter, Time};
use earmark_token::{HeldToken, User};
use earmark_wire::boomerang::{Keys, Rates, Shape};

use crate::api::Application;
use crate::instance::Boomerang;
use crate::loops::Phase;
use crate::selector::{Direction, Selector};
use crate::state::{Half, Index, Session, flag};

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// Packets in the forward direction.
    pub selector: Selector,
    /// The initiating node, or the node that made the aggregate.
    pub initiator: IpAddr,
    /// Half in the forward direction; of a session to a group, on the first branch.
    pub forward: Option<HalfView>,
    /// Half in the reverse direction.
    pub reverse: Option<HalfView>,
    /// Halves of a session to a group, on the branches but the first.
    pub branches: Vec<HalfView>,
    /// Whether it is locked until its initiating node returns the key.
    pub locked: bool,
    /// Whether the offload handles its refreshes.
    pub offloaded: bool,
    /// User that a token of the request names.
    pub user: Option<User>,
}

/// Reservation of a session in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfView {
    /// The link.
    pub interface: InterfaceId,
    /// Reserved rate.
    pub rate: Rate,
    /// Expiry time without a refresh.
    pub expires_at: Time,
    /// Claim in the ledger.
    pub claim: ClaimId,
}

impl SessionView {
    /// Returns the reservations of the session on all links.
    pub fn halves(&self) -> impl Iterator<Item = (Direction, HalfView)> {
        let forward = self.forward.into_iter().chain(self.branches.iter().copied());
        let reverse = self.reverse.into_iter().map(|half| (Direction::Reverse, half));
        forward.map(|half| (Direction::Forward, half)).chain(reverse)
    }
}

/// One session of this host's own.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopView {
    /// The application.
    pub application: Application,
    /// Packets of the session.
    pub selector: Selector,
    /// Address that its messages start from.
    pub source: IpAddr,
    /// The far end.
    pub destination: IpAddr,
    /// Requested rates.
    pub asked: Rates,
    /// Granted rates, if any.
    pub granted: Option<Rates>,
    /// Seconds between refreshes.
    pub interval: u8,
    /// Whether it is being released.
    pub releasing: bool,
}

impl Boomerang {
    /// Returns the octets of the tables of sessions on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.store.table_octets()
    }

    /// Returns the number of sessions, and of this host's own loops.
    pub fn population(&self) -> (usize, usize) {
        (self.store.sessions.len(), self.loops.list.len())
    }

    /// Returns all sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        (0..self.session_slots()).filter_map(|slot| self.session_at(slot, &RowFilter::ALL))
    }

    /// Returns the number of slots of the table of sessions, empty ones included. A session stays in its slot.
    pub fn session_slots(&self) -> u32 {
        self.store.sessions.capacity() as u32
    }

    /// Returns the session in a slot, if there is one that the filter includes by its addresses. O(1).
    pub fn session_at(&self, slot: u32, filter: &RowFilter) -> Option<SessionView> {
        let session = self.store.sessions.get(slot as usize)?;
        let Selector { source, destination, source_port, destination_port, .. } =
            self.store.selector(slot)?;
        let is_included = filter.admits_to(destination.address(), destination_port.unwrap_or(0))
            && filter.admits_from(source.address(), source_port.unwrap_or(0));
        is_included.then(|| self.session_view(slot, session)).flatten()
    }

    /// Returns the session that the packets of a flow belong to: the most specific one of all matching masks. Costs a
    /// lookup per mask.
    pub fn session_for(&self, flow: &Flow) -> Option<SessionView> {
        let keys = Keys {
            source: flow.source?,
            destination: flow.destination,
            source_port: flow.source_port,
            destination_port: flow.destination_port,
            protocol: flow.protocol,
            tos: 0,
            flags: 0,
        };
        let mut octets = [0; 40];
        let length = keys.emit_to(&mut octets).ok()?;
        let index = self.store.longest_match(octets.get(..length)?)?;
        self.session_view(index, self.store.session(index))
    }

    /// Returns the session and direction of a claim.
    pub fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
    ) -> Option<(SessionView, Direction, HalfView)> {
        let (index, slot) = self.store.half_of(claim, owner)?;
        let session = self.store.session(index);
        let half = half_view(&session.half_at(slot))?;
        Some((self.session_view(index, session)?, Direction::of_slot(slot), half))
    }

    /// Returns all sessions of this host's own.
    pub fn loops(&self) -> impl Iterator<Item = LoopView> {
        self.loops.list.iter().map(|(_, state)| LoopView {
            application: state.application,
            selector: Selector::of_keys(&state.keys, &state.shape),
            source: state.source,
            destination: state.destination,
            asked: state.requested.first().copied().unwrap_or_default(),
            granted: state.granted,
            interval: state.interval,
            releasing: state.phase == Phase::Release,
        })
    }

    fn session_view(&self, index: Index, session: &Session) -> Option<SessionView> {
        let (keys, shape): (Keys, Shape) = self.store.keys(index)?;
        Some(SessionView {
            selector: Selector::of_keys(&keys, &shape),
            initiator: self.store.initiator(index),
            forward: half_view(session.half(Direction::Forward)),
            reverse: half_view(session.half(Direction::Reverse)),
            branches: (2..session.slots())
                .filter_map(|slot| half_view(&session.half_at(slot)))
                .collect(),
            locked: session.flags & flag::LOCKED != 0,
            offloaded: session.flags & flag::OFFLOADED != 0,
            user: session.token().and_then(HeldToken::user),
        })
    }
}

fn half_view(half: &Half) -> Option<HalfView> {
    half.is_there().then(|| HalfView {
        interface: half.interface,
        rate: Rate::from_bps(half.rate.into()),
        expires_at: half.expires_at,
        claim: half.claim,
    })
}
