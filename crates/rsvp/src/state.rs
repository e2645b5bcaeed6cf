//! The state blocks of RFC 2209 section 1.
//!
//! A session owns a list of senders ([`Psb`]). A sender owns the traffic-control blocks of its distinct reservations
//! ([`Tcsb`], one an outgoing interface), and each of these owns the reservation requests ([`Rsb`], one a next hop)
//! that are merged into it. A unicast session with one sender has exactly one of each, so that every walk along these
//! lists has length one; multicast and shared styles make the lists longer, not the blocks larger.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{Carried, RsvpHop, SenderTemplate, Session};

use crate::api::Application;

/// Objects that are kept to be carried on. Most blocks have none, so a thin pointer is what it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept(#[allow(clippy::box_collection)] Option<Box<Vec<u8>>>);

impl Kept {
    /// Keeps what a message carries.
    pub(crate) fn of(carried: Carried<'_>) -> Kept {
        let mut octets = Vec::new();
        for object in carried.iter() {
            octets.extend_from_slice(object.bytes);
        }
        octets.shrink_to_fit();
        if octets.is_empty() { Kept(None) } else { Kept(Some(Box::new(octets))) }
    }

    /// How many octets there would be to keep.
    pub(crate) fn length(carried: Carried<'_>) -> usize {
        carried.iter().map(|object| object.bytes.len()).sum()
    }

    /// The objects, one after the other.
    #[inline]
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether this is just what a message carries.
    #[inline]
    pub(crate) fn is(&self, carried: Carried<'_>) -> bool {
        let mut rest = self.octets();
        for object in carried.iter() {
            match rest.strip_prefix(object.bytes) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        rest.is_empty()
    }
}

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
    /// Neighbours in the list of sessions with the same destination and protocol.
    pub(crate) next: Index,
    pub(crate) previous: Index,
}

/// Where a message comes from or a call: a neighbour, as its hop object names it, or an application of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The RSVP neighbour behind an interface.
    Neighbor(InterfaceId, RsvpHop),
    /// The API of this host.
    Local(Application),
}

/// An [`Origin`] as state blocks keep it: what many blocks share stands in the [`Neighbor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An RSVP neighbour and its logical interface handle.
    Neighbor {
        /// Which.
        index: Index,
        /// LIH of the hop object.
        lih: u32,
    },
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
    /// PHOP, and with it IncInterface.
    pub(crate) hop: Peer,
    /// OutInterface_list, which has one entry for a unicast destination; `None` where the data ends on this host.
    pub(crate) outgoing: Option<InterfaceId>,
    /// TTL with which the Path arrived.
    pub(crate) ttl: u8,
    /// [`Psb::NON_RSVP`], [`Psb::E_POLICE`].
    pub(crate) flags: u8,
    /// Body of the ADSPEC as received.
    pub(crate) adspec: Option<Box<[u8]>>,
    /// POLICY_DATA and unknown objects that must be carried on, as received.
    pub(crate) carried: Kept,
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
    pub(crate) flowspec: FlowSpec,
    /// POLICY_DATA and unknown objects that must be carried on, as received.
    pub(crate) carried: Kept,
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

impl Neighbor {
    /// How many blocks of a kind hang on it.
    pub(crate) fn count(&mut self, block: Block) -> &mut u32 {
        match block {
            Block::Sender => &mut self.senders,
            Block::Reservation => &mut self.reservations,
        }
    }
}

/// The kinds of block that hang on neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Sender,
    Reservation,
}

/// Why a timer was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A sender's refreshes, or its end.
    Sender,
    /// A reservation's end.
    Reservation,
    /// A neighbour that has not answered a challenge.
    Handshake,
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
