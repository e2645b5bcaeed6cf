//! The state blocks of RFC 2209 section 1.
//!
//! A session owns a list of senders ([`Psb`]). A sender owns the traffic-control blocks of its distinct reservations
//! ([`Tcsb`], one an outgoing interface), and each of these owns the reservation requests ([`Rsb`], one a next hop)
//! that are merged into it. A unicast session with one sender has exactly one of each, so that every walk along these
//! lists has length one; multicast and shared styles make the lists longer, not the blocks larger.

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{RsvpHop, SenderTemplate, Session};

use crate::api::Application;

/// Index of a block in its slab.
pub(crate) type Index = u32;
/// No block.
pub(crate) const NONE: Index = Index::MAX;

/// A session: (DestAddress, ProtocolId, DstPort).
#[derive(Debug)]
pub(crate) struct SessionBlock {
    /// Its key; flags are zero.
    pub(crate) session: Session,
    /// First of its senders.
    pub(crate) senders: Index,
    /// How many senders it has.
    pub(crate) sender_count: u32,
}

/// Where a block came from or leads to: a neighbour, or an application of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An RSVP neighbour and its logical interface handle.
    Neighbor(RsvpHop),
    /// The API of this host.
    Local(Application),
}

/// Path state: one sender of one session.
#[derive(Debug)]
pub(crate) struct Psb {
    pub(crate) session: Index,
    /// Neighbours in the session's list of senders.
    pub(crate) next: Index,
    pub(crate) previous: Index,
    /// First of its traffic-control blocks.
    pub(crate) tcsbs: Index,
    pub(crate) template: SenderTemplate,
    pub(crate) tspec: SenderTspec,
    /// PHOP.
    pub(crate) hop: Peer,
    /// The entry of PHOP among the neighbours; [`NONE`] for a local sender.
    pub(crate) neighbor: Index,
    /// IncInterface; `None` for a local sender.
    pub(crate) incoming: Option<InterfaceId>,
    /// OutInterface_list, which has one entry for a unicast destination; `None` where the data ends on this host.
    pub(crate) outgoing: Option<InterfaceId>,
    /// TTL with which the Path arrived.
    pub(crate) ttl: u8,
    /// [`Psb::NON_RSVP`], [`Psb::E_POLICE`].
    pub(crate) flags: u8,
    /// Body of the ADSPEC as received.
    pub(crate) adspec: Option<Box<[u8]>>,
    /// POLICY_DATA and unknown objects that must be carried on, as received.
    pub(crate) carried: Option<Box<[u8]>>,
    /// When the Path is to be refreshed downstream; never, where there is no downstream.
    pub(crate) path_refresh_at: Time,
    /// When the Resv for this sender is to be refreshed upstream; never, without a reservation.
    pub(crate) resv_refresh_at: Time,
    /// When the state dies without a refresh; never, for a local sender.
    pub(crate) expires_at: Time,
    /// The one timer for all three.
    pub(crate) timer: Option<TimerId>,
}

impl Psb {
    /// A hop on the way did not speak RSVP: the TTLs of IP and RSVP differ.
    pub(crate) const NON_RSVP: u8 = 1;
    /// The next policing-capable node must police.
    pub(crate) const E_POLICE: u8 = 2;

    /// When its timer must fire next.
    pub(crate) fn due(&self) -> Time {
        self.path_refresh_at.min(self.resv_refresh_at).min(self.expires_at)
    }
}

/// The reservation that traffic control has for one sender on one outgoing interface.
#[derive(Debug)]
pub(crate) struct Tcsb {
    pub(crate) psb: Index,
    /// Next traffic-control block of the sender.
    pub(crate) next: Index,
    /// First of the reservation requests merged here.
    pub(crate) rsbs: Index,
    /// OI; `None` where the receiver is on this host and nothing is queued.
    pub(crate) outgoing: Option<InterfaceId>,
    /// TC_Flowspec: the merged one.
    pub(crate) flowspec: FlowSpec,
    /// The bandwidth it holds; `None` where nothing is queued.
    pub(crate) claim: Option<ClaimId>,
}

/// A reservation request: one next hop, for one sender.
#[derive(Debug)]
pub(crate) struct Rsb {
    pub(crate) tcsb: Index,
    /// Next reservation request of the traffic-control block.
    pub(crate) next: Index,
    /// NHOP.
    pub(crate) hop: Peer,
    /// The entry of NHOP among the neighbours; [`NONE`] for a local receiver.
    pub(crate) neighbor: Index,
    pub(crate) flowspec: FlowSpec,
    /// POLICY_DATA and unknown objects that must be carried on, as received.
    pub(crate) carried: Option<Box<[u8]>>,
    /// When the state dies without a refresh; never, for a local receiver.
    pub(crate) expires_at: Time,
    pub(crate) timer: Option<TimerId>,
}

/// A neighbour that state hangs on.
#[derive(Debug)]
pub(crate) struct Neighbor {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
    /// Senders whose PHOP it is.
    pub(crate) senders: u32,
    /// Reservations whose NHOP it is.
    pub(crate) reservations: u32,
    /// When it last refreshed or made state.
    pub(crate) heard: Time,
}

/// Why a timer was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A sender's refreshes, or its end.
    Sender,
    /// A reservation's end.
    Reservation,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) kind: TimerKind,
    pub(crate) block: Index,
}

/// The session's key without what does not belong to it.
pub(crate) fn key(session: Session) -> Session {
    Session { flags: 0, ..session }
}
