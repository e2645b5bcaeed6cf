//! State blocks of QoS NSLP.
//!
//! A [`Session`] is one reservation at a node in any role: the previous peer (`back`, towards the QNI), the next peer
//! (`on`, towards the QNR), the sequence numbers, the lifetime, and the claim on the outgoing link. Rarely needed
//! fields are in [`Extra`], which exists only while one of them is set.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_token::{User, Verified};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::nsis::SessionAuth;
use earmark_wire::qos_nslp::{BoundSessionId, Extra as Objects, MessageId, PacketClassifier, Rsn};

use super::api::{Application, OnRefusal};
use crate::nslp::{Attributes, PeerHandle};

/// Slot of a block in its slab.
pub(super) type Index = u32;
/// No block.
pub(super) const NONE: Index = u32::MAX;

/// One reservation, in one direction.
///
/// The fields are in the order of use: those that a refresh reads come first and lie together. Among many sessions this
/// costs two or three cache misses instead of five.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Flow, and the direction of RESERVEs: downstream if the data sender is the QNI, upstream if the receiver is.
    pub(super) mri: PathCoupled,
    /// Peer towards the QNI; `None` if this node is the QNI.
    pub(super) back: Option<PeerHandle>,
    /// Sequence number of `back`.
    pub(super) rsn: Rsn,
    pub(super) flags: Flags,
    pub(super) attributes: Attributes,
    /// Interface that leads to `back`; counts for nothing if this node is the QNI.
    pub(super) arrival: InterfaceId,
    /// Lifetime after a refresh, milliseconds.
    pub(super) lifetime_ms: u32,
    /// End of the state without a refresh by `back`; never if this node is the QNI.
    pub(super) expires_at: Time,
    /// When the next refresh for `on` is due; never without a next node.
    pub(super) refresh_at: Time,
    /// Fires at the earliest deadline; if it fires too early, it is armed again.
    pub(super) timer: Option<TimerId>,
    pub(super) extra: Option<Box<Extra>>,
    /// Peer towards the QNR; `None` if it is unknown, or if this is the last node.
    pub(super) on: Option<PeerHandle>,
    /// Sequence number of this node; the epoch is the same for all sessions.
    pub(super) own_rsn: u32,
    /// QSPEC for the next node, as last sent.
    pub(super) qspec: Box<[u8]>,
    /// Claim on the link of `interface`.
    pub(super) claim: Option<ClaimId>,
    /// Outgoing interface; `None` if the packets end here.
    pub(super) interface: Option<InterfaceId>,
    /// Links of the ring of sessions with the same `on`; a session alone links to itself.
    pub(super) ring: Ring,
    /// Policy rule that accounts for the session.
    pub(super) rule: Option<u16>,
    /// Fields of the MRI that select the packets.
    pub(super) classifier: Option<PacketClassifier>,
}

/// Links in a ring of sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) previous: Index,
    pub(super) next: Index,
}

/// A further flow of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharingFlow {
    pub(super) mri: PathCoupled,
    /// Peer towards the QNI.
    pub(super) back: PeerHandle,
    /// Interface that leads to `back`.
    pub(super) arrival: InterfaceId,
    /// Sequence number of `back` for this flow.
    pub(super) rsn: Rsn,
    /// Sequence number under which the next node has got the QSPEC for this flow.
    pub(super) own_rsn: u32,
    /// Lifetime after a refresh, milliseconds.
    pub(super) lifetime_ms: u32,
    /// End of the flow without a refresh.
    pub(super) expires_at: Time,
}

/// Flags of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags(u16);

impl Flags {
    /// The session ends at this node: the flow does, or "the SCOPING flag is set", or "the Proxy scope flag is set and the QNE
    /// is a P-QNE" (RFC 5974 section 5.4.1).
    pub(super) const ENDS_HERE: u16 = 1 << 0;
    /// GIST has found no next node, so that this one "MUST take over as the last node" (section 5.2.5.1). Without the flag, a
    /// session without a next node waits for the first one.
    pub(super) const LAST: u16 = 1 << 1;
    /// The next node is known to have the reservation: "state refresh should be performed with reduced refreshes" (section
    /// 3.2.5).
    pub(super) const CONFIRMED: u16 = 1 << 2;
    /// The next node needs full refreshes: "the QNE must stop sending reduced refreshes to this peer if the error indicates
    /// that support for this feature is lacking" (section 3.2.5).
    pub(super) const FULL_ONLY: u16 = 1 << 3;
    /// The reservation is gone, and only the protocol state is left, for a response or until the QNI decides (sections 4.6.1
    /// and 5.4.1). Last nodes have no claim even with a reservation.
    pub(super) const REMOVED: u16 = 1 << 4;
    /// PROXY, in all messages of the session: "the path is terminated at a pre-defined Proxy QNE" (section 3.2.7).
    pub(super) const PROXY: u16 = 1 << 5;
    /// SCOPING, in RESERVEs of the QNI: "the scope is 'single hop'" (section 3.2.7).
    pub(super) const SCOPING: u16 = 1 << 6;
    /// "If a stateful QoS NSLP QNE receives a RESERVE message with the BREAK flag set, then the BREAK flag of newly generated
    /// messages (e.g., RESERVE or RESPONSE) MUST be set" (section 5.4.1).
    pub(super) const BREAK: u16 = 1 << 7;
    /// REPLACE, in RESERVEs: "when not set, indicates that the reservation on the old branch should be kept" (section
    /// 3.2.12).
    pub(super) const REPLACE: u16 = 1 << 8;
    /// The session is torn down: "the stateful QNE SHOULD still keep the NSLP operational state until a RESPONSE for the tear
    /// going towards the QNI is received" (section 5.4.1).
    pub(super) const TORN: u16 = 1 << 9;
    /// The session continues at the next level of aggregation, in an aggregate of this node (sections 4.5 and 6.6).
    pub(super) const IN_AGGREGATE: u16 = 1 << 10;
    /// The session arrived at the next level of aggregation (sections 4.5 and 6.6).
    pub(super) const FROM_AGGREGATE: u16 = 1 << 11;
    /// A RESERVE arrived over a secured channel: nothing in the clear touches the session any more (section 7).
    pub(super) const SECURED: u16 = 1 << 12;
    /// The last RESERVE arrived over an association. An explicitly routed message, which GIST has "flagged to the receiving NSLP
    /// to indicate that routing state was not validated" (RFC 5971 section 4.3.2), needs one, too.
    pub(super) const OVER_ASSOCIATION: u16 = 1 << 13;
    /// A message of the session has exceeded a datagram, so that this node, the QNI, has asked for associations, which is done
    /// once (RFC 5971 section 4.3.3).
    pub(super) const OVERSIZE: u16 = 1 << 14;
    /// The next node has another previous node now, as its NOTIFY "route change" says. It is refreshed again when the previous
    /// node of this one refreshes: until then GIST would take every refresh for another change of route (section 5.2.5.4).
    pub(super) const LEFT: u16 = 1 << 15;

    /// Returns whether all of these flags are set.
    #[inline]
    pub(super) const fn has(self, flags: u16) -> bool {
        self.0 & flags == flags
    }

    /// Sets or clears flags.
    #[inline]
    pub(super) const fn set(&mut self, flags: u16, on: bool) {
        if on {
            self.0 |= flags;
        } else {
            self.0 &= !flags;
        }
    }

    /// Returns the flags with these set or cleared.
    pub(super) const fn with(mut self, flags: u16, on: bool) -> Flags {
        self.set(flags, on);
        self
    }
}

/// Rarely needed fields of a session.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// Application at the QNI, or at the QNR.
    pub(super) application: Option<Application>,
    /// Sessions that this one is bound to.
    pub(super) bound: Vec<BoundSessionId>,
    /// Unknown objects for all RESERVEs, and behind them the SESSION_AUTH objects for full RESERVEs, in wire format.
    pub(super) kept: Vec<u8>,
    /// Offset of the SESSION_AUTH objects in `kept`.
    pub(super) auth_at: usize,
    /// User whose name a token among them proves.
    pub(super) verified: Option<Box<Verified>>,
    /// Pending request of this node.
    pub(super) request: Option<PendingRequest>,
    /// Old next node after a route change, which must get a tear.
    pub(super) old_branch: Option<OldBranch>,
    /// Former previous peer.
    pub(super) former: Option<FormerPeer>,
    /// Former next peer of a receiver-initiated session: GIST learns that peer from its Queries.
    pub(super) former_next: Option<FormerPeer>,
    /// Further flows that share the reservation.
    pub(super) sharing: Vec<SharingFlow>,
    /// QSPEC that a QNI restores if a change is refused.
    pub(super) before: Option<Box<[u8]>>,
    /// Reaction of a QNI to a refusal.
    pub(super) on_refusal: OnRefusal,
    /// Binding of its messages to others (MSG-ID).
    pub(super) message_id: Option<MessageId>,
    /// Deadline of an acknowledgement.
    pub(super) acknowledged_by: Option<Time>,
    /// Session of the reverse direction that was created for this one.
    pub(super) reverse: Option<SessionId>,
    /// Time of the last refresh that could not be sent towards the sender, and the number of those in a row.
    pub(super) lost_refreshes: (Time, u32),
}

impl Extra {
    /// Returns the objects for refreshes.
    pub(super) fn kept_in_refreshes(&self) -> &[u8] {
        self.kept.get(..self.auth_at).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        let Extra {
            application,
            bound,
            kept,
            auth_at: _,
            verified,
            request,
            old_branch,
            former,
            former_next,
            sharing,
            before,
            on_refusal: _,
            message_id,
            acknowledged_by,
            reverse,
            lost_refreshes: (_, lost),
        } = self;
        application.is_none()
            && bound.is_empty()
            && kept.is_empty()
            && verified.is_none()
            && request.is_none()
            && old_branch.is_none()
            && former.is_none()
            && former_next.is_none()
            && sharing.is_empty()
            && before.is_none()
            && message_id.is_none()
            && acknowledged_by.is_none()
            && reverse.is_none()
            && *lost == 0
    }
}

/// A RESERVE of this node with an RII, until the response (RFC 5974 section 5.2.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    pub(super) rii: u32,
    /// Next retransmission, or timeout.
    pub(super) at: Time,
    /// Wait before `at`, milliseconds.
    pub(super) wait_ms: u32,
    pub(super) until: Time,
}

/// A peer that the path has left, which GIST may take for the latest one again until it has ended its routing state (RFC
/// 5974 section 5.2.5.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct FormerPeer {
    pub(super) peer: PeerHandle,
    /// Until when it does not become the peer again by itself: the lifetime of its soft state.
    pub(super) until: Time,
}

impl FormerPeer {
    /// Returns whether a peer is this one, and its time is not over.
    pub(super) fn names(self, peer: PeerHandle, now: Time) -> bool {
        self.peer == peer && now < self.until
    }
}

/// A branch that the packets have left (RFC 5974 section 5.2.5.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct OldBranch {
    pub(super) peer: PeerHandle,
    pub(super) mri: PathCoupled,
}

impl Session {
    /// Returns the MRI in the direction of RESERVEs.
    #[inline]
    pub(super) const fn towards_qnr(&self) -> Mri {
        Mri::PathCoupled(self.mri)
    }

    /// Returns the MRI in the direction of RESPONSEs.
    #[inline]
    pub(super) const fn towards_qni(&self) -> Mri {
        Mri::PathCoupled(self.mri).inverted()
    }

    #[inline]
    pub(super) const fn direction(&self) -> Direction {
        self.mri.direction
    }

    /// Returns whether this node is the QNI.
    pub(super) const fn is_initiator(&self) -> bool {
        self.back.is_none()
    }

    /// Returns whether the session is an aggregate of this node, which has no application: traffic control has its flows, not
    /// the aggregate.
    #[inline]
    pub(super) fn is_aggregate(&self) -> bool {
        self.is_initiator() && self.application().is_none()
    }

    /// Returns whether this is the last node.
    pub(super) const fn is_last(&self) -> bool {
        self.flags.has(Flags::ENDS_HERE) || self.flags.has(Flags::LAST)
    }

    /// Returns whether this node has begun the tear of the session.
    #[inline]
    pub(super) fn has_begun_tear(&self) -> bool {
        self.flags.has(Flags::TORN)
            && self.extra.as_ref().is_some_and(|extra| extra.request.is_some())
    }

    /// Returns the rarely needed fields; creates them if there are none.
    pub(super) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Frees the rarely needed fields if none is set.
    pub(super) fn trim(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_empty()) {
            self.extra = None;
        }
    }

    /// Returns whether the request came over a secured channel, for policy rules; of the QNI, whether it leaves over one.
    pub(super) fn is_secure_request(&self) -> bool {
        match self.is_initiator() {
            true => self.attributes.secure,
            false => self.flags.has(Flags::SECURED),
        }
    }

    /// Returns the user whose name a token proves.
    pub(super) fn verified(&self) -> Option<&Verified> {
        self.extra.as_ref()?.verified.as_deref()
    }

    /// Returns the user behind the session, if its SESSION_AUTH names one.
    #[inline]
    pub(super) fn user(&self) -> Option<User> {
        self.extra.as_ref().and_then(|_| self.user_of_token())
    }

    #[cold]
    fn user_of_token(&self) -> Option<User> {
        let objects = Objects::wire(self.auth());
        let parsed = objects.session_auths().filter_map(|value| SessionAuth::parse(value).ok());
        let token = parsed.filter_map(SessionAuth::web_token).next()?;
        User::of_token(token, self.verified())
    }

    /// Returns whether a peer is the former next node of a receiver-initiated session.
    pub(super) fn is_former_next(&self, peer: PeerHandle, now: Time) -> bool {
        let former = self.extra.as_ref().and_then(|extra| extra.former_next);
        former.is_some_and(|former| former.names(peer, now))
    }

    /// Returns the SESSION_AUTH objects in wire format.
    pub(super) fn auth(&self) -> &[u8] {
        self.extra.as_ref().and_then(|extra| extra.kept.get(extra.auth_at..)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn application(&self) -> Option<Application> {
        self.extra.as_ref()?.application
    }

    /// Returns the earliest deadline.
    #[inline]
    pub(super) fn due(&self) -> Time {
        let due = self.expires_at.min(self.refresh_at);
        match &self.extra {
            None => due,
            Some(extra) => {
                let request = extra.request.map_or(Time::MAX, |request| request.at);
                let flows = extra.sharing.iter().map(|flow| flow.expires_at);
                let due = flows.fold(due, Time::min);
                due.min(request).min(extra.acknowledged_by.unwrap_or(Time::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 32 octets for the claim, 24 for the timer, as much for a small QSPEC and some for the index, a session must
    /// not exceed 400 octets.
    #[test]
    fn blocks_stay_small() {
        assert!(size_of::<Session>() <= 264, "{}", size_of::<Session>());
        assert!(size_of::<Option<Box<Session>>>() == 8);
    }
}
