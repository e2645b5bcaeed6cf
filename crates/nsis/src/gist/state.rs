//! The state blocks.
//!
//! A [`RoutingState`] is what is known of one flow, session and application: who the peers are, one [`Half`] for each way
//! along the flow. In the middle of a path the half that leads downstream belongs to a querying node, the one that leads
//! upstream to a responding node, since there the peer has asked. Peers are blocks of their own ([`super::peer`]), shared by
//! all sessions.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::gist::{Direction, Mri, SessionId};

use super::association::Handshake;
use super::machine::State;
use crate::nslp::{SendMessage, Validity};

/// Where a block stands in its slab.
pub(crate) type Index = u32;
/// No block.
pub(crate) const NONE: Index = u32::MAX;

/// What names a routing state: MRI, SID and NSLPID (RFC 5971 section 4.2.1), the MRI as it leads downstream.
///
/// Two that differ do so in the session, which is compared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) session: SessionId,
    pub(crate) nslpid: u16,
    pub(crate) mri: Mri,
}

impl Key {
    /// That of a flow whose MRI leads anywhere.
    #[inline]
    pub(crate) fn new(nslpid: u16, session: SessionId, mri: Mri) -> Key {
        let mri = match mri.direction() {
            Direction::Downstream => mri,
            Direction::Upstream => mri.inverted(),
        };
        Key { mri, session, nslpid }
    }

    /// Its MRI in a direction.
    #[inline]
    pub(crate) fn mri(&self, direction: Direction) -> Mri {
        match direction {
            Direction::Downstream => self.mri,
            Direction::Upstream => self.mri.inverted(),
        }
    }
}

/// What is known of one flow, session and application.
///
/// In the order of use, as [`Half`]: what a message of the node before looks at, the name and the half that leads upstream,
/// lies together, so that among many sessions it waits for two or three lines of the cache, and not for four or five.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RoutingState {
    pub(crate) key: Key,
    pub(crate) upstream: Half,
    pub(crate) downstream: Half,
    /// Its neighbours in the list of those with the same destination; see [`super::store`].
    pub(crate) next: Index,
    pub(crate) previous: Index,
}

impl RoutingState {
    pub(crate) fn new(key: Key) -> RoutingState {
        let (downstream, upstream) = (Half::default(), Half::default());
        RoutingState { key, downstream, upstream, next: NONE, previous: NONE }
    }

    #[inline]
    pub(crate) fn half(&self, direction: Direction) -> &Half {
        match direction {
            Direction::Downstream => &self.downstream,
            Direction::Upstream => &self.upstream,
        }
    }

    #[inline]
    pub(crate) fn half_mut(&mut self, direction: Direction) -> &mut Half {
        match direction {
            Direction::Downstream => &mut self.downstream,
            Direction::Upstream => &mut self.upstream,
        }
    }
}

/// The way to one peer. What each message looks at comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Half {
    pub(crate) state: State,
    pub(crate) validity: Validity,
    /// IP hops to the peer; 0 where that is not known.
    pub(crate) ip_distance: u8,
    /// What messages need that are sent this way.
    pub(crate) needs: Needs,
    /// The peer.
    pub(crate) peer: Index,
    /// The association that messages to it use, if they do.
    pub(crate) association: Index,
    /// How long it is kept without use, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// Querying: when it ends if it is not used. Responding: when it ends if it is not refreshed.
    pub(crate) expires_at: Time,
    /// Querying: when a Query is due, to refresh it or again. Responding: when the Confirm must have come.
    pub(crate) next_at: Time,
    /// Fires at the earlier of both, or before and is armed again.
    pub(crate) timer: Option<TimerId>,
    /// What waits for the peer to be found.
    pub(crate) queue: Index,
    /// The state of the interfaces that `hop` was found in; see [`super::Gist::epoch`].
    pub(crate) epoch: u32,
    /// A hash of the hop by which the last Query left.
    pub(crate) hop: u32,
    /// Number of the last Query, which its cookie is made of. The first is drawn at random.
    pub(crate) query: u32,
    /// Its neighbours in the list of those that use this association; see [`super::association`].
    pub(crate) next_user: u32,
    pub(crate) previous_user: u32,
    /// Queries that were sent since the last Response, all unanswered.
    pub(crate) unanswered: u8,
    /// The last Query has offered an association.
    pub(crate) offered: bool,
}

impl Default for Half {
    fn default() -> Half {
        Half {
            state: State::Idle,
            validity: Validity::Bad,
            unanswered: 0,
            ip_distance: 0,
            needs: Needs::Nothing,
            offered: false,
            peer: NONE,
            association: NONE,
            next_user: NONE,
            previous_user: NONE,
            queue: NONE,
            query: 0,
            hop: 0,
            epoch: 0,
            lifetime_ms: 0,
            next_at: Time::MAX,
            expires_at: Time::MAX,
            timer: None,
        }
    }
}

/// What messages need of the way they take; each serves those before it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// Datagrams do.
    #[default]
    Nothing,
    /// An association.
    Reliable,
    /// One whose peer has proved who it is.
    Secure,
}

/// A half of a routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: Index,
    /// Where the half leads.
    pub(crate) direction: Direction,
}

/// What waits for a peer to be found.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) messages: VecDeque<Waiting>,
    /// Octets of all of them.
    pub(crate) octets: u32,
    /// The earliest of their deadlines, or before.
    pub(crate) deadline: Time,
    /// What the Confirm needs, while an association is being opened for it.
    pub(crate) handshake: Option<Box<Handshake>>,
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) message: SendMessage,
    pub(crate) data: Box<[u8]>,
    /// Until then.
    pub(crate) deadline: Time,
}

/// Payload of the wheel: what a timer is for and which block, in one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(u32);

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Half(Place),
    Peer(Index),
    Association(Index),
}

impl Timer {
    pub(crate) fn new(due: Due) -> Timer {
        let (index, tag) = match due {
            Due::Half(Place { index, direction: Direction::Downstream }) => (index, 0),
            Due::Half(Place { index, direction: Direction::Upstream }) => (index, 1),
            Due::Peer(index) => (index, 2),
            Due::Association(index) => (index, 3),
        };
        // Limits keep tables far below 2^30 blocks.
        Timer(index << 2 | tag)
    }

    pub(crate) fn due(self) -> Due {
        let index = self.0 >> 2;
        match self.0 & 3 {
            0 => Due::Half(Place { index, direction: Direction::Downstream }),
            1 => Due::Half(Place { index, direction: Direction::Upstream }),
            2 => Due::Peer(index),
            _ => Due::Association(index),
        }
    }
}

/// How a message came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    /// The whole message, from its common header on.
    pub(crate) octets: &'a [u8],
    /// Through which interface; for an association, the one that leads to its peer.
    pub(crate) interface: InterfaceId,
    /// Who sent it, as IP has it.
    pub(crate) source: core::net::IpAddr,
    /// UDP port that it came from.
    pub(crate) source_port: u16,
    /// Where it went.
    pub(crate) destination: core::net::IpAddr,
    /// With which TTL it came; `None` over an association.
    pub(crate) ttl: Option<u8>,
    /// Over which association.
    pub(crate) association: Index,
    /// The IP source is that of the peer.
    pub(crate) source_is_peer: bool,
    /// Which application it is for.
    pub(crate) nslpid: u16,
    /// By how many nodes it may still be handled, this one no more counted.
    pub(crate) hops: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stay_small() {
        assert!(size_of::<Half>() <= 80, "{}", size_of::<Half>());
        assert!(size_of::<RoutingState>() <= 256, "{}", size_of::<RoutingState>());
        assert_eq!(size_of::<Timer>(), 4);
    }

    #[test]
    fn a_timer_knows_what_it_is_for() {
        for index in [0, 1, (1 << 30) - 1] {
            for direction in [Direction::Downstream, Direction::Upstream] {
                let due = Due::Half(Place { index, direction });
                assert_eq!(Timer::new(due).due(), due);
            }
            assert_eq!(Timer::new(Due::Peer(index)).due(), Due::Peer(index));
            assert_eq!(Timer::new(Due::Association(index)).due(), Due::Association(index));
        }
    }
}
