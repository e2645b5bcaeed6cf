//! The state blocks.
//!
//! A [`Session`] is what a node knows of one reservation, whatever its part in it: who asks (`back`, towards the QNI), who
//! is asked next (`on`, towards the QNR), with which sequence numbers, until when, and what it holds of the link that its
//! packets leave by. What few sessions need stands in [`Extra`], which is there only as long as it says something.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::{BoundSessionId, MessageId, PacketClassifier, Rsn};

use super::api::{Application, OnRefusal};
use crate::nslp::{Attributes, PeerHandle};

/// Where a block stands in its slab.
pub(super) type Index = u32;
/// No block.
pub(super) const NONE: Index = u32::MAX;

/// One reservation, in one direction.
///
/// In the order of use: what a RESERVE that refreshes looks at comes first and lies together, so that among many sessions it
/// waits for two or three lines of the cache, and not for five.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// The flow, and which way along it RESERVEs go: downstream where the data sender asks, upstream where the receiver
    /// does.
    pub(super) mri: PathCoupled,
    /// The peer towards the QNI; none where this node is the QNI.
    pub(super) back: Option<PeerHandle>,
    /// That of `back`.
    pub(super) rsn: Rsn,
    pub(super) flags: Flags,
    pub(super) attributes: Attributes,
    /// How long it lives after a message, milliseconds.
    pub(super) lifetime_ms: u32,
    /// Without another message of `back`; never where this node is the QNI.
    pub(super) expires_at: Time,
    /// When `on` is to be told again; never where nobody is.
    pub(super) refresh_at: Time,
    /// Fires when the first of all is due, or before and is armed again.
    pub(super) timer: Option<TimerId>,
    pub(super) extra: Option<Box<Extra>>,
    /// The peer towards the QNR; none where it is not known yet, or nobody comes after this node.
    pub(super) on: Option<PeerHandle>,
    /// This node's own; the epoch is the same for all.
    pub(super) own_rsn: u32,
    /// What is asked of the next node, as it was sent last.
    pub(super) qspec: Box<[u8]>,
    /// What it holds of the link behind `interface`.
    pub(super) claim: Option<ClaimId>,
    /// Through which interface its packets leave; none where they end here.
    pub(super) interface: Option<InterfaceId>,
    /// The ring of the sessions with the same `on`; itself where it is alone.
    pub(super) ring: Ring,
    /// The rule of policy that it is counted under.
    pub(super) rule: Option<u16>,
    /// Which fields of the MRI tell its packets.
    pub(super) classifier: Option<PacketClassifier>,
}

/// Neighbours in a ring of sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) previous: Index,
    pub(super) next: Index,
}

/// What can be said of a session by yes and no.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags(u16);

impl Flags {
    /// Messages go no further by the nature of the session: its flow ends here, or its scope.
    pub(super) const ENDS_HERE: u16 = 1 << 0;
    /// GIST has found nobody further on.
    pub(super) const LAST: u16 = 1 << 1;
    /// The next node is known to have the reservation: refreshes may leave out the QSPEC.
    pub(super) const CONFIRMED: u16 = 1 << 2;
    /// The next node wants full refreshes.
    pub(super) const FULL_ONLY: u16 = 1 << 3;
    /// The reservation is gone, and only the state of the protocol is left.
    pub(super) const REMOVED: u16 = 1 << 4;
    /// PROXY, in all messages of the session.
    pub(super) const PROXY: u16 = 1 << 5;
    /// SCOPING, in RESERVEs of the QNI.
    pub(super) const SCOPING: u16 = 1 << 6;
    /// BREAK, in all messages of the session.
    pub(super) const BREAK: u16 = 1 << 7;
    /// REPLACE, in RESERVEs.
    pub(super) const REPLACE: u16 = 1 << 8;

    /// It is torn down, and only an answer to that is waited for.
    pub(super) const TORN: u16 = 1 << 9;
    /// It goes on at the next level of aggregation, in an aggregate of this node.
    pub(super) const IN_AGGREGATE: u16 = 1 << 10;
    /// It has come at the next level of aggregation.
    pub(super) const FROM_AGGREGATE: u16 = 1 << 11;
    /// It is an aggregate of this node: its flows are in traffic control, and not it.
    pub(super) const AGGREGATE: u16 = 1 << 12;

    /// Whether all of these are set.
    #[inline]
    pub(super) const fn has(self, flags: u16) -> bool {
        self.0 & flags == flags
    }

    /// Sets or clears them.
    #[inline]
    pub(super) const fn set(&mut self, flags: u16, on: bool) {
        if on {
            self.0 |= flags;
        } else {
            self.0 &= !flags;
        }
    }

    /// With these set.
    pub(super) const fn with(mut self, flags: u16, on: bool) -> Flags {
        self.set(flags, on);
        self
    }
}

/// What most sessions do not need.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// Whose session it is at the QNI, or who waits for it at the QNR.
    pub(super) application: Option<Application>,
    /// Other sessions that it is bound to.
    pub(super) bound: Vec<BoundSessionId>,
    /// Unknown objects that go into all RESERVEs, as they stand on the wire.
    pub(super) kept: Vec<u8>,
    /// A request of this node's own that waits for its answer.
    pub(super) request: Option<Asking>,
    /// The node that came next before the way has changed, and has to be told.
    pub(super) old_branch: Option<OldBranch>,
    /// The peer that asked before another took its place, until when it is not listened to.
    pub(super) former: Option<(PeerHandle, Time)>,
    /// Flows that share the reservation: those of before, where a RESERVE with another MRI did not replace them.
    pub(super) sharing: Vec<PathCoupled>,
    /// What a QNI goes back to if a change is refused.
    pub(super) before: Option<Box<[u8]>>,
    /// What a QNI does with a refusal.
    pub(super) on_refusal: OnRefusal,
    /// Its messages are bound to others (MSG-ID).
    pub(super) message_id: Option<MessageId>,
    /// When an acknowledgement is overdue.
    pub(super) acknowledged_by: Option<Time>,
    /// The session of the way back that was made for it.
    pub(super) reverse: Option<SessionId>,
}

impl Extra {
    fn is_empty(&self) -> bool {
        let Extra {
            application,
            bound,
            kept,
            request,
            old_branch,
            former,
            sharing,
            before,
            on_refusal: _,
            message_id,
            acknowledged_by,
            reverse,
        } = self;
        application.is_none()
            && bound.is_empty()
            && kept.is_empty()
            && request.is_none()
            && old_branch.is_none()
            && former.is_none()
            && sharing.is_empty()
            && before.is_none()
            && message_id.is_none()
            && acknowledged_by.is_none()
            && reverse.is_none()
    }
}

/// A RESERVE of this node's own with an RII, until it is answered (RFC 5974 section 5.2.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) rii: u32,
    /// When it is repeated, or given up.
    pub(super) at: Time,
    /// The wait behind that, milliseconds.
    pub(super) wait_ms: u32,
    pub(super) until: Time,
}

/// A branch that packets do not take any more (RFC 5974 section 5.2.5.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct OldBranch {
    pub(super) peer: PeerHandle,
    pub(super) mri: PathCoupled,
}

impl Session {
    /// Where RESERVEs go.
    #[inline]
    pub(super) const fn towards_qnr(&self) -> Mri {
        Mri::PathCoupled(self.mri)
    }

    /// Where RESPONSEs go.
    #[inline]
    pub(super) const fn towards_qni(&self) -> Mri {
        Mri::PathCoupled(self.mri).inverted()
    }

    #[inline]
    pub(super) const fn direction(&self) -> Direction {
        self.mri.direction
    }

    /// Whether this node has asked for the session.
    pub(super) const fn is_initiator(&self) -> bool {
        self.back.is_none()
    }

    /// Whether nobody comes after this node.
    pub(super) const fn is_last(&self) -> bool {
        self.flags.has(Flags::ENDS_HERE) || self.flags.has(Flags::LAST)
    }

    /// What few sessions need.
    pub(super) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Gives the room back where nothing is left to say.
    pub(super) fn trim(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_empty()) {
            self.extra = None;
        }
    }

    pub(super) fn application(&self) -> Option<Application> {
        self.extra.as_ref()?.application
    }

    /// When something is to be done next.
    #[inline]
    pub(super) fn due(&self) -> Time {
        let due = self.expires_at.min(self.refresh_at);
        match &self.extra {
            None => due,
            Some(extra) => {
                let request = extra.request.map_or(Time::MAX, |request| request.at);
                due.min(request).min(extra.acknowledged_by.unwrap_or(Time::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 32 octets for the claim, 24 for the timer, as much for a small QSPEC and some for the index, a session is to
    /// take no more than 400.
    #[test]
    fn blocks_stay_small() {
        assert!(size_of::<Session>() <= 264, "{}", size_of::<Session>());
        assert!(size_of::<Option<Box<Session>>>() == 8);
    }
}
