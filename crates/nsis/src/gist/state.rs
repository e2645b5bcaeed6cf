//! State blocks of GIST.
//!
//! A [`RoutingState`] belongs to one flow, session and application. It has the peers, one [`Half`] for each direction
//! along the flow. In the middle of a path the downstream half belongs to a querying node, and the upstream half to a
//! responding node, because the upstream peer sent the Query. Peers are separate blocks ([`super::peer`]), shared by
//! all sessions.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_wire::gist::{Direction, Mri, SessionId};

use super::handshake::Handshake;
use super::machine::State;
use super::prefix_form::PrefixForm;
use crate::nslp::{Attributes, SendMessage, Validity};

/// Slot of a block in its slab.
pub(crate) type Index = u32;
/// No block.
pub(crate) const NONE: Index = u32::MAX;

/// Fingerprint of a missing hop.
pub(crate) const NO_HOP: u32 = 0;

/// Key of a routing state: MRI, SID and NSLPID (RFC 5971 section 4.2.1), with the downstream MRI.
///
/// Different keys usually differ in the session, which is compared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) session: SessionId,
    pub(crate) nslpid: u16,
    pub(crate) mri: Mri,
}

impl Key {
    /// Creates the key of a flow from an MRI in either direction.
    #[inline]
    pub(crate) fn new(nslpid: u16, session: SessionId, mri: Mri) -> Key {
        let mri = match mri.direction() {
            Direction::Downstream => mri,
            Direction::Upstream => mri.inverted(),
        };
        Key { mri, session, nslpid }
    }

    /// Returns the MRI in a direction.
    #[inline]
    pub(crate) fn mri(&self, direction: Direction) -> Mri {
        match direction {
            Direction::Downstream => self.mri,
            Direction::Upstream => self.mri.inverted(),
        }
    }
}

/// Routing state of one flow, session and application.
///
/// The fields are in the order of use, as in [`Half`]: a message from the previous node reads the key and the upstream
/// half, which lie together. Among many sessions this costs two or three cache misses instead of four or five.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RoutingState {
    pub(crate) key: Key,
    pub(crate) upstream: Half,
    pub(crate) downstream: Half,
    /// Links of the list of routing states with the same destination; see [`super::store`].
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

/// State of one direction, with its peer. Fields that each message reads come first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Half {
    pub(crate) state: State,
    pub(crate) validity: Validity,
    /// IP hops to the peer; 0 if unknown.
    pub(crate) ip_distance: u8,
    /// Whether the half has used a secured association: nothing in the clear touches it any more (a node "MAY adopt a policy of
    /// using secured messaging associations", RFC 5971 section 4.4.6). `needs` asks for one before.
    pub(crate) secured: bool,
    /// Peer in this direction.
    pub(crate) peer: Index,
    /// Association for messages to the peer, if any.
    pub(crate) association: Index,
    /// Lifetime without use, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// Querying: end of the state unless it is used. Responding: end of the state unless it is refreshed.
    pub(crate) expires_at: Time,
    /// Querying: when the next Query is due, as a refresh or a retransmission. Responding: deadline of the Confirm.
    pub(crate) next_at: Time,
    /// Fires at the earlier of both times; if it fires too early, it is armed again.
    pub(crate) timer: Option<TimerId>,
    /// Queue of the messages that wait for the peer.
    pub(crate) queue: Index,
    /// Number of changes of interfaces when `hop` was looked up; see [`super::Gist::epoch`].
    pub(crate) epoch: u32,
    /// Number of changes of routes and interfaces when the last Query was sent; see [`super::Gist::route_changes`].
    pub(crate) route_changes: u32,
    /// Hash of the hop of the last Query; [`NO_HOP`] if the flow has had no route since.
    pub(crate) hop: u32,
    /// Number of the last Query, from which its cookie is derived. The first one is random.
    pub(crate) query: u32,
    /// Links of the list of halves that use the association; see [`super::association`].
    pub(crate) next_user: u32,
    pub(crate) previous_user: u32,
    /// Queries sent since the last Response.
    pub(crate) unanswered: u8,
    /// Handshakes in succession that the peer has refused, or whose association it has closed.
    pub(crate) refused: u8,
    /// Whether the last Query had a stack proposal: the Response has one only then (RFC 5971 section 5.1.2), and messages that
    /// need an association may have come since.
    pub(crate) offered: bool,
    /// Needs of the messages in this direction.
    pub(crate) needs: Needs,
    /// How the peer writes the prefixes of the flow.
    pub(crate) prefix_form: PrefixForm,
}

impl Default for Half {
    fn default() -> Half {
        Half {
            state: State::Idle,
            validity: Validity::Bad,
            unanswered: 0,
            refused: 0,
            ip_distance: 0,
            secured: false,
            needs: Needs::Nothing,
            prefix_form: PrefixForm::default(),
            offered: false,
            peer: NONE,
            association: NONE,
            next_user: NONE,
            previous_user: NONE,
            queue: NONE,
            query: 0,
            hop: NO_HOP,
            epoch: 0,
            route_changes: 0,
            lifetime_ms: 0,
            next_at: Time::MAX,
            expires_at: Time::MAX,
            timer: None,
        }
    }
}

impl Half {
    /// Returns the earliest deadline, except those of the queue.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.next_at.min(self.expires_at)
    }

    /// Returns whether the half has a peer that has queried this node: it counts for the interface of the peer.
    pub(crate) fn has_querier(&self) -> bool {
        self.state.is_responding() && self.peer != NONE
    }

    /// Returns whether the half waits for its association.
    pub(crate) fn awaits_association(&self) -> bool {
        self.state == State::WaitAssociation
    }
}

/// Transport that messages need, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// Datagrams suffice.
    #[default]
    Nothing,
    /// An association.
    Reliable,
    /// An association with an authenticated peer.
    Secure,
}

impl From<Attributes> for Needs {
    fn from(attributes: Attributes) -> Needs {
        match attributes {
            Attributes { secure: true, .. } => Needs::Secure,
            Attributes { reliable: true, .. } => Needs::Reliable,
            Attributes { .. } => Needs::Nothing,
        }
    }
}

/// Names a half of a routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfId {
    pub(crate) index: Index,
    /// Direction of the half.
    pub(crate) direction: Direction,
}

/// The half that a step is about; the routing state may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfRef {
    pub(crate) key: Key,
    pub(crate) direction: Direction,
    pub(crate) index: Index,
}

impl HalfRef {
    pub(crate) fn half_id(&self) -> HalfId {
        HalfId { index: self.index, direction: self.direction }
    }

    /// Returns the half in the other direction.
    pub(crate) fn other_id(&self) -> HalfId {
        HalfId { index: self.index, direction: self.direction.inverted() }
    }

    /// Returns the MRI that leads to the peer.
    pub(crate) fn mri(&self) -> Mri {
        self.key.mri(self.direction)
    }
}

/// Messages that wait for a peer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) messages: VecDeque<Waiting>,
    /// Octets of all messages.
    pub(crate) octets: u32,
    /// Earliest deadline of the messages, or a time before.
    pub(crate) deadline: Time,
    /// Data for the Confirm, while an association is being opened for it.
    pub(crate) handshake: Option<Box<Handshake>>,
}

/// A waiting message.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) message: SendMessage,
    pub(crate) data: Box<[u8]>,
    /// Timeout of the message.
    pub(crate) deadline: Time,
}

/// Payload of the timing wheel: purpose and block of a timer, in one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(u32);

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerPurpose {
    Half(HalfId),
    Peer(Index),
    Association(Index),
}

impl Timer {
    pub(crate) fn new(due: TimerPurpose) -> Timer {
        let (index, tag) = match due {
            TimerPurpose::Half(HalfId { index, direction: Direction::Downstream }) => (index, 0),
            TimerPurpose::Half(HalfId { index, direction: Direction::Upstream }) => (index, 1),
            TimerPurpose::Peer(index) => (index, 2),
            TimerPurpose::Association(index) => (index, 3),
        };
        // The limits keep tables far below 2^30 blocks.
        Timer(index << 2 | tag)
    }

    pub(crate) fn purpose(self) -> TimerPurpose {
        let index = self.0 >> 2;
        match self.0 & 3 {
            0 => TimerPurpose::Half(HalfId { index, direction: Direction::Downstream }),
            1 => TimerPurpose::Half(HalfId { index, direction: Direction::Upstream }),
            2 => TimerPurpose::Peer(index),
            _ => TimerPurpose::Association(index),
        }
    }
}

/// Returns a duration in milliseconds, as state blocks store it.
pub(crate) fn millis(time: Duration) -> u32 {
    let millis = time.as_secs().saturating_mul(1_000).saturating_add(time.subsec_millis().into());
    u32::try_from(millis).unwrap_or(u32::MAX)
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
    fn timer_encodes_its_purpose() {
        for index in [0, 1, (1 << 30) - 1] {
            for direction in [Direction::Downstream, Direction::Upstream] {
                let due = TimerPurpose::Half(HalfId { index, direction });
                assert_eq!(Timer::new(due).purpose(), due);
            }
            assert_eq!(Timer::new(TimerPurpose::Peer(index)).purpose(), TimerPurpose::Peer(index));
            assert_eq!(
                Timer::new(TimerPurpose::Association(index)).purpose(),
                TimerPurpose::Association(index)
            );
        }
    }
}
