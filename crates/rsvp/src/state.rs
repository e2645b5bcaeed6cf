//! State blocks of RFC 2209 section 1.
//!
//! A session owns a list of senders ([`Psb`]). A sender owns the traffic-control blocks of its distinct reservations
//! ([`Tcsb`], one for each outgoing interface), and each of these owns the reservation requests ([`Rsb`], one for each
//! next hop) that are merged into it. A unicast session with one sender has exactly one of each, so all of its lists
//! have length one; multicast and shared styles make the lists longer, not the blocks larger.
//!
//! Shared reservations (WF, SE) belong to the session: it owns one [`Pool`], which owns the traffic-control blocks.
//! Fields that only these styles need are in the pool and in the [`Extra`] of a request, so that a session with fixed
//! filters does not pay for them.

pub(crate) mod applications;
mod kept;
pub(crate) mod message_id_key;
mod out_interfaces;
pub(crate) mod store;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::num::NonZeroU64;

use earmark_core::ApplicationId as Application;
use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{Carried, FilterSpec, RsvpHop, SenderTemplate, Session, Style};

use crate::rules::policy::Grant;
use crate::state::message_id_key::MessageIdKey;
use crate::tolerated::Deviations;

pub(crate) use self::kept::Kept;
pub(crate) use self::out_interfaces::OutInterfaces;

/// Digest of a request, which tells whether another one differs: a keyed hash, equal for different requests with a
/// probability of 2^-63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(NonZeroU64);

impl Digest {
    pub(crate) fn of_hash(hash: u64) -> Digest {
        Digest(NonZeroU64::MIN | hash)
    }
}

/// Index of a block in its slab.
pub(crate) type Index = u32;
/// No block.
pub(crate) const NONE: Index = Index::MAX;

/// A session: (DestAddress, ProtocolId, DstPort).
#[derive(Debug)]
pub(crate) struct SessionBlock {
    /// Key of the session; flags are zero.
    pub(crate) session: Session,
    /// First sender of the session.
    pub(crate) senders: Index,
    /// Number of senders.
    pub(crate) sender_count: u32,
    /// Number of traffic-control blocks of fixed filters (FF) of its senders.
    pub(crate) distinct: u32,
    /// Shared reservation (WF, SE) of the session, or [`NONE`].
    pub(crate) pool: Index,
    /// Links of the list of sessions with the same destination and protocol.
    pub(crate) next: Index,
    pub(crate) previous: Index,
}

/// Origin of a message or call: a neighbour, as in its hop object, or an application of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// RSVP neighbour behind an interface.
    Neighbor(InterfaceId, RsvpHop),
    /// Application of this host.
    Local(Application),
}

/// [`Origin`] in the compact form of state blocks; the [`Neighbor`] has the fields that many blocks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// RSVP neighbour and its logical interface handle.
    Neighbor {
        /// Index of the [`Neighbor`].
        index: Index,
        /// LIH of the hop object.
        lih: u32,
    },
    /// Application of this host.
    Local(Application),
}

/// Path state: one sender of one session.
#[derive(Debug)]
pub(crate) struct Psb {
    pub(crate) session: Index,
    /// Links of the session's list of senders.
    pub(crate) next: Index,
    pub(crate) previous: Index,
    /// First traffic-control block of the sender.
    pub(crate) tcsbs: Index,
    pub(crate) template: SenderTemplate,
    pub(crate) tspec: SenderTspec,
    /// PHOP, which includes IncInterface.
    pub(crate) hop: Peer,
    /// OutInterface_list. [`Psb::HERE`] shows whether the data also ends here.
    pub(crate) outgoing: OutInterfaces,
    /// TTL of the received Path.
    pub(crate) ttl: u8,
    /// [`Psb::NON_RSVP`] and the other constants of this type.
    pub(crate) flags: u8,
    /// Body of the ADSPEC as received. Most senders of a neighbour have the same one, so they share it.
    pub(crate) adspec: Option<Arc<[u8]>>,
    /// POLICY_DATA and unknown objects to be forwarded, as received.
    pub(crate) carried: Kept,
    /// Time of the next Path refresh, on whichever branch it is due; [`Time::MAX`] without next hop.
    pub(crate) path_refresh_at: Time,
    /// Time of the next refresh of this sender's fixed-filter Resv; [`Time::MAX`] without request, and in summary refreshes.
    pub(crate) resv_refresh_at: Time,
    /// Time when the state expires; [`Time::MAX`] for a local sender.
    pub(crate) expires_at: Time,
    /// Last request for this sender to the previous hop (FF), or last report to the sending application.
    pub(crate) sent_resv: Option<Digest>,
    /// MESSAGE_ID of the Path that set this state.
    pub(crate) message_id: MessageIdKey,
    /// Entry of the Path to the next hop in `SentMessageIds`.
    pub(crate) path_message_id: Index,
    /// Entry of the Resv to the previous hop in `SentMessageIds`.
    pub(crate) resv_message_id: Index,
    /// Timer for the earliest of the three times.
    pub(crate) timer: Option<TimerId>,
}

impl Psb {
    /// A hop on the path does not support RSVP: the TTLs of IP and RSVP differ.
    pub(crate) const NON_RSVP: u8 = 1;
    /// The next policing-capable node must police.
    pub(crate) const E_POLICE: u8 = 2;
    /// The data ends on this host: it is the destination, or an application here has the multicast session open.
    pub(crate) const HERE: u8 = 4;
    /// There was no route at the last lookup; the old next hops are kept.
    pub(crate) const UNROUTED: u8 = 8;
    /// The data has left an interface, and the old path has not ended yet. What is requested upstream stays until then,
    /// because the new path is likely to be reserved soon.
    pub(crate) const MOVING: u8 = 16;
    /// Flags that no Path sets.
    pub(crate) const OWN: u8 = Psb::HERE | Psb::MOVING;

    /// Creates a sender without next hops, reservations and timers, and without an end. The store links it.
    #[inline(always)]
    pub(crate) fn new(
        session: Index,
        template: SenderTemplate,
        tspec: SenderTspec,
        hop: Peer,
    ) -> Psb {
        Psb {
            session,
            template,
            tspec,
            hop,
            next: NONE,
            previous: NONE,
            tcsbs: NONE,
            outgoing: OutInterfaces::None,
            ttl: 0,
            flags: 0,
            adspec: None,
            carried: Kept::default(),
            path_refresh_at: Time::MAX,
            resv_refresh_at: Time::MAX,
            expires_at: Time::MAX,
            sent_resv: None,
            message_id: MessageIdKey::NONE,
            path_message_id: NONE,
            resv_message_id: NONE,
            timer: None,
        }
    }

    /// Returns whether the data ends on this host.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.flags & Psb::HERE != 0
    }

    /// Returns whether what is requested upstream stays until an old path has ended. Applications of this host are told at
    /// once.
    #[inline]
    pub(crate) fn keeps_request(&self) -> bool {
        self.flags & Psb::MOVING != 0 && !matches!(self.hop, Peer::Local(_))
    }

    /// Sets whether there was no route at the last lookup.
    pub(crate) fn set_unrouted(&mut self, unrouted: bool) {
        self.flags = self.flags & !Psb::UNROUTED | if unrouted { Psb::UNROUTED } else { 0 };
    }

    /// Returns whether the data leaves through an interface, or (`None`) ends on this host.
    #[inline]
    pub(crate) fn leaves_through(&self, outgoing: Option<InterfaceId>) -> bool {
        match outgoing {
            Some(interface) => self.outgoing.contains(interface),
            None => self.is_here(),
        }
    }

    /// Returns the earliest of the times for its timer.
    pub(crate) fn due(&self) -> Time {
        self.path_refresh_at.min(self.resv_refresh_at).min(self.expires_at)
    }
}

/// Owner of a traffic-control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A sender: a distinct reservation (FF).
    Sender(Index),
    /// A pool: the shared reservation of a session (WF, SE).
    Pool(Index),
}

/// Reservation in traffic control for a sender or pool on one outgoing interface.
#[derive(Debug)]
pub(crate) struct Tcsb {
    pub(crate) holder: Holder,
    /// Next traffic-control block of the holder.
    pub(crate) next: Index,
    /// First of the reservation requests merged into this block.
    pub(crate) rsbs: Index,
    /// OI; `None` if the receiver is on this host, without traffic control.
    pub(crate) outgoing: Option<InterfaceId>,
    /// TC_Flowspec: the merged flowspec.
    pub(crate) flowspec: FlowSpec,
    /// Claim on the ledger; `None` without traffic control.
    pub(crate) claim: Option<ClaimId>,
}

/// Shared reservation of a session.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) session: Index,
    /// WF or SE.
    pub(crate) style: Style,
    /// First traffic-control block of the pool.
    pub(crate) tcsbs: Index,
    /// TC_Filter_Spec* by traffic-control block, in ascending order: senders that share the reservation there. Empty
    /// lists for WF.
    pub(crate) filters: BTreeMap<Index, Vec<FilterSpec>>,
    /// Last request to each previous hop.
    pub(crate) sent_resvs: Vec<SentResv>,
    /// Time of the next refresh; [`Time::MAX`] without requests.
    pub(crate) refresh_at: Time,
    pub(crate) timer: Option<TimerId>,
}

/// Limit of filter specs in one message. Requests of one next hop for more senders add up, so the others follow in
/// further messages.
pub(crate) const FILTERS_PER_MESSAGE: usize = 1_024;

/// Last request of a pool to one previous hop, or last report to one sending application.
#[derive(Clone, Debug)]
pub(crate) struct SentResv {
    pub(crate) hop: Peer,
    pub(crate) flowspec: FlowSpec,
    /// Senders of the request, in ascending order; listed for WF too, although no message contains them.
    pub(crate) filters: Vec<FilterSpec>,
    /// SCOPE, if wildcard requests could loop.
    pub(crate) scope: Option<Vec<IpAddr>>,
    /// Objects of the merged requests, to be forwarded.
    pub(crate) carried: Kept,
    /// Entry of the Resv in `SentMessageIds`.
    pub(crate) message_id: Index,
}

impl SentResv {
    /// Returns whether two requests to the same hop are equal.
    pub(crate) fn is_same(&self, other: &SentResv) -> bool {
        self.hop == other.hop
            && self.flowspec == other.flowspec
            && self.filters == other.filters
            && self.scope == other.scope
            && self.carried == other.carried
    }
}

/// Reservation request of one next hop, for one sender (FF) or for those that share it (WF, SE).
#[derive(Debug)]
pub(crate) struct Rsb {
    pub(crate) tcsb: Index,
    /// Next reservation request of the traffic-control block.
    pub(crate) next: Index,
    /// NHOP.
    pub(crate) hop: Peer,
    pub(crate) flowspec: FlowSpec,
    /// Fields that most requests do not need.
    pub(crate) extra: Option<Box<Extra>>,
    /// Time when the state, or the first of its filters, expires; [`Time::MAX`] for a local receiver.
    pub(crate) expires_at: Time,
    /// MESSAGE_ID of the Resv that set this state.
    pub(crate) message_id: MessageIdKey,
    pub(crate) timer: Option<TimerId>,
}

/// Fields that few reservation requests need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// POLICY_DATA and unknown objects to be forwarded, as received.
    pub(crate) carried: Kept,
    /// Filter_spec_list of a shared-explicit request, in ascending order, each with a lifetime of its own.
    pub(crate) filters: Vec<Filter>,
    /// Whether its last message with MESSAGE_ID names senders that are unknown here.
    pub(crate) lacks_senders: bool,
    /// Whether its application waits for a confirmation: there was none since it has made the request, or since it was told that
    /// the request has failed.
    pub(crate) is_unconfirmed: bool,
    /// SCOPE of a wildcard request.
    pub(crate) scope: Option<Vec<IpAddr>>,
    /// Policy decision, if policy is configured.
    pub(crate) grant: Option<Box<Grant>>,
}

/// Result of removing filters of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    None,
    Some,
    All,
}

/// One entry of a Filter_spec_list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) spec: FilterSpec,
    pub(crate) expires_at: Time,
}

/// Returns the time when the first of some filters expires.
pub(crate) fn first_end(filters: &[Filter]) -> Option<Time> {
    filters.iter().map(|filter| filter.expires_at).min()
}

impl Extra {
    /// Returns the fields in a box, or `None` if all are empty.
    pub(crate) fn boxed(self) -> Option<Box<Extra>> {
        (self != Extra::default()).then(|| Box::new(self))
    }

    /// Returns the fields of a request that only carries these objects.
    pub(crate) fn carrying(objects: Carried<'_>) -> Option<Box<Extra>> {
        let extra = || Extra { carried: Kept::of(objects), ..Extra::default() };
        (!objects.is_empty()).then(|| Box::new(extra()))
    }
}

impl Rsb {
    /// Returns the objects to be forwarded.
    #[inline]
    pub(crate) fn carried(&self) -> &[u8] {
        self.extra.as_deref().map_or(&[], |extra| extra.carried.octets())
    }

    /// Returns whether the objects to be forwarded equal those of a message.
    #[inline]
    pub(crate) fn carries(&self, carried: Carried<'_>) -> bool {
        match &self.extra {
            None => carried.is_empty(),
            Some(extra) => extra.carried.is(carried),
        }
    }

    /// Returns the Filter_spec_list of a shared-explicit request.
    pub(crate) fn filters(&self) -> &[Filter] {
        self.extra.as_deref().map_or(&[], |extra| &extra.filters)
    }

    /// Returns whether the Filter_spec_list contains this filter.
    pub(crate) fn has_filter(&self, spec: &FilterSpec) -> bool {
        self.filters().binary_search_by_key(spec, |filter| filter.spec).is_ok()
    }

    /// Removes the filters for which `goes` returns true and updates the lifetime to the earliest end of the others. If
    /// none would remain all of them stay, because the request has to be removed with them.
    pub(crate) fn drop_filters(&mut self, goes: impl Fn(&Filter) -> bool) -> Dropped {
        let Some(extra) = self.extra.as_deref_mut() else { return Dropped::None };
        let count = extra.filters.len();
        let left = extra.filters.iter().filter(|filter| !goes(filter)).count();
        if left == count {
            return Dropped::None;
        }
        if left == 0 {
            return Dropped::All;
        }
        extra.filters.retain(|filter| !goes(filter));
        self.expires_at = first_end(&extra.filters).unwrap_or(self.expires_at);
        Dropped::Some
    }

    /// Returns the policy decision about the request.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.extra.as_deref()?.grant.as_deref()
    }

    /// Returns SCOPE of a wildcard request.
    pub(crate) fn scope(&self) -> Option<&[IpAddr]> {
        self.extra.as_deref()?.scope.as_deref()
    }
}

/// Scope of blockade state after an admission-control failure (RFC 2205 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blocked {
    /// Explicit styles: requests for this sender.
    Sender(Index),
    /// Wildcard style: requests of this pool to this neighbour.
    Hop(Index, Index),
}

/// Blockade state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bsb {
    /// Qb: flowspec that failed.
    pub(crate) flowspec: FlowSpec,
    /// Tb: end of the blockade.
    pub(crate) until: Time,
    /// MESSAGE_ID of the error.
    pub(crate) message_id: MessageIdKey,
}

/// Neighbour with state.
#[derive(Debug)]
pub(crate) struct Neighbor {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
    /// Numbers of senders with this PHOP and of reservations with this NHOP, by [`Block`].
    pub(crate) blocks: [u32; 2],
    /// Time when the neighbour last created or refreshed state.
    pub(crate) last_refresh_at: Time,
    /// Whether the neighbour has sent a message with the largest TTL, so that it is on this link.
    pub(crate) is_near: bool,
    /// Whether the neighbour uses UDP encapsulation (RFC 2205 appendix C).
    pub(crate) encapsulated: bool,
    /// Deviations of its Path messages.
    pub(crate) deviations: Deviations,
    /// Last ADSPEC of the neighbour, which the next sender probably has, too.
    pub(crate) adspec: Option<Arc<[u8]>>,
}

/// Kinds of block that belong to neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Sender,
    Reservation,
}

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// Refreshes of a sender, or its expiry.
    Sender,
    /// Expiry of a reservation.
    Reservation,
    /// Challenge to a neighbour that has not answered.
    Handshake,
    /// Refreshes of a shared reservation.
    Pool,
    /// Local repair after route changes.
    Repair,
    /// Teardown of old paths.
    Departure,
    /// End of what is known of former previous hops.
    FormerHop,
    /// Trace without answer.
    Trace,
    /// Acknowledgements not sent with other messages.
    Acknowledgement,
    /// Messages that were not acknowledged.
    Retransmission,
    /// Next summary refresh to a neighbour.
    Summary,
    /// Next Hello to a neighbour.
    Hello,
    /// End of a token.
    Token,
    /// Increases that were refused.
    Increase,
    /// Neighbours that restart.
    Restart,
}

/// Purpose of a timer, and its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) kind: TimerKind,
    pub(crate) block: Index,
}

/// Returns a session's key without flags.
pub(crate) fn key(session: Session) -> Session {
    Session { flags: 0, ..session }
}
