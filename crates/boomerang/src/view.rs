//! What the engine shows of its state, for listings. Blocks are shown in the order of their slabs, a page at a time, so that
//! even a million of them can be listed without holding the engine up for long.

use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{Flow, InterfaceId, Rate, Time};
use earmark_wire::boomerang::{Keys, Rates, Shape};

use crate::api::{Application, Direction, Selector};
use crate::initiator::Phase;
use crate::instance::Boomerang;
use crate::state::{Half, Index, Session, flag};

/// One session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionView {
    /// Which packets, in the forward direction.
    pub selector: Selector,
    /// The initiating node, or the one that made the aggregate.
    pub initiator: IpAddr,
    /// What it has in the forward direction; of a session to a group, on the first branch.
    pub forward: Option<HalfView>,
    /// What it has in the reverse direction.
    pub reverse: Option<HalfView>,
    /// On how many links it has something.
    pub links: usize,
    /// Whether it waits for its initiating node to show the key.
    pub locked: bool,
    /// Whether its refreshes do not come here.
    pub offloaded: bool,
}

/// What a session has in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfView {
    /// On which link.
    pub interface: InterfaceId,
    /// How much.
    pub rate: Rate,
    /// When it ends without a refresh.
    pub expires_at: Time,
    /// What it holds of the ledger.
    pub claim: ClaimId,
}

/// One session of this host's own.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopView {
    /// Whose.
    pub application: Application,
    /// Which packets.
    pub selector: Selector,
    /// Where its messages begin.
    pub source: IpAddr,
    /// Where they turn round.
    pub destination: IpAddr,
    /// What it asks for.
    pub asked: Rates,
    /// What was granted, if it was.
    pub granted: Option<Rates>,
    /// Seconds between refreshes.
    pub interval: u8,
    /// Whether it is being given back.
    pub releasing: bool,
}

impl Boomerang {
    /// How many sessions pass by here, and how many are this host's own.
    pub fn population(&self) -> (usize, usize) {
        (self.store.sessions.len(), self.loops.list.len())
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        let indexed = self.store.sessions.iter();
        indexed.filter_map(|(index, session)| self.session_view(index as Index, session))
    }

    /// The session that the packets of a flow belong to: of all whose masks fit, the most specific one. Costs a look-up a
    /// mask.
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

    /// The session that a claim is behind, and which of its directions.
    pub fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
    ) -> Option<(SessionView, Direction, HalfView)> {
        let (index, slot) = self.half_of(claim, owner)?;
        let session = self.store.session(index);
        let half = half_view(&session.half_at(slot))?;
        Some((self.session_view(index, session)?, Direction::of_slot(slot), half))
    }

    /// All sessions of this host's own.
    pub fn loops(&self) -> impl Iterator<Item = LoopView> {
        self.loops.list.iter().map(|(_, state)| LoopView {
            application: state.application,
            selector: Selector::of_keys(&state.keys, &state.shape),
            source: state.source,
            destination: state.destination,
            asked: state.wishes.first().copied().unwrap_or_default(),
            granted: state.granted,
            interval: state.interval,
            releasing: state.phase == Phase::Release,
        })
    }

    fn session_view(&self, index: Index, session: &Session) -> Option<SessionView> {
        let (keys, shape): (Keys, Shape) = self.keys_of(index)?;
        Some(SessionView {
            selector: Selector::of_keys(&keys, &shape),
            initiator: self.store.initiator(index),
            forward: half_view(session.half(Direction::Forward)),
            reverse: half_view(session.half(Direction::Reverse)),
            links: (0..session.slots()).filter(|&slot| session.half_at(slot).is_there()).count(),
            locked: session.flags & flag::LOCKED != 0,
            offloaded: session.flags & flag::OFFLOADED != 0,
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
