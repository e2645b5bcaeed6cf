//! The state blocks of RFC 2209 section 1.
//!
//! A session owns a list of senders ([`Psb`]). A sender owns the traffic-control blocks of its distinct reservations
//! ([`Tcsb`], one an outgoing interface), and each of these owns the reservation requests ([`Rsb`], one a next hop)
//! that are merged into it. A unicast session with one sender has exactly one of each, so that every walk along these
//! lists has length one; multicast and shared styles make the lists longer, not the blocks larger.
//!
//! Shared reservations (WF, SE) hang on the session instead: it owns one [`Pool`], and that owns the traffic-control
//! blocks. What only these styles need lives in the pool and in the [`Extra`] of a request, so that a session with fixed
//! filters does not pay for it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{Carried, FilterSpec, RsvpHop, SenderTemplate, Session, Style};

use crate::api::Application;
use crate::policy::Grant;
use crate::refresh_reduction::message_id_key::MessageIdKey;

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
    /// How many traffic-control blocks of fixed filters (FF) hang on its senders.
    pub(crate) distinct: u32,
    /// What it has reserved in a shared style (WF, SE), if it has.
    pub(crate) pool: Index,
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
    /// OutInterface_list. Whether the data ends here as well, [`Psb::HERE`] says.
    pub(crate) outgoing: OutInterfaces,
    /// TTL with which the Path arrived.
    pub(crate) ttl: u8,
    /// [`Psb::NON_RSVP`], [`Psb::E_POLICE`], [`Psb::HERE`].
    pub(crate) flags: u8,
    /// Body of the ADSPEC as received. Most senders of a neighbour say the same, so they share it.
    pub(crate) adspec: Option<Arc<[u8]>>,
    /// POLICY_DATA and unknown objects that must be carried on, as received.
    pub(crate) carried: Kept,
    /// When the Path is to be refreshed downstream; never, where there is no downstream.
    pub(crate) path_refresh_at: Time,
    /// When the Resv for this sender is to be refreshed upstream; never, without a reservation of its own.
    pub(crate) resv_refresh_at: Time,
    /// When the state dies without a refresh; never, for a local sender.
    pub(crate) expires_at: Time,
    /// How PHOP named the Path that this says.
    pub(crate) name: MessageIdKey,
    /// Entry of the Path to the next hop in `SentMessageIds`.
    pub(crate) path_message_id: Index,
    /// What PHOP has been told by Resv, likewise.
    pub(crate) resv_message_id: Index,
    /// The one timer for all three.
    pub(crate) timer: Option<TimerId>,
}

impl Psb {
    /// A hop on the way did not speak RSVP: the TTLs of IP and RSVP differ.
    pub(crate) const NON_RSVP: u8 = 1;
    /// The next policing-capable node must police.
    pub(crate) const E_POLICE: u8 = 2;
    /// The data ends on this host: it is addressed to it, or an application here has the multicast session open.
    pub(crate) const HERE: u8 = 4;
    /// There was no route when the sender was last looked up; it is kept where it was.
    pub(crate) const UNROUTED: u8 = 8;

    /// Whether the data ends on this host.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.flags & Psb::HERE != 0
    }

    /// Notes whether there was a route at the last look.
    pub(crate) fn set_unrouted(&mut self, unrouted: bool) {
        self.flags = self.flags & !Psb::UNROUTED | if unrouted { Psb::UNROUTED } else { 0 };
    }

    /// Whether the data goes out through an interface, or (`None`) ends on this host.
    #[inline]
    pub(crate) fn goes(&self, outgoing: Option<InterfaceId>) -> bool {
        match outgoing {
            Some(interface) => self.outgoing.contains(interface),
            None => self.is_here(),
        }
    }

    /// When its timer must fire next.
    pub(crate) fn due(&self) -> Time {
        self.path_refresh_at.min(self.resv_refresh_at).min(self.expires_at)
    }
}

/// OutInterface_list: unicast data has one way, multicast data none to many. The list of many is in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutInterfaces {
    None,
    One(InterfaceId),
    Many(Box<[InterfaceId]>),
}

impl OutInterfaces {
    /// Those that `interfaces` gives, in ascending order.
    pub(crate) fn of(mut interfaces: impl Iterator<Item = InterfaceId>) -> OutInterfaces {
        let Some(first) = interfaces.next() else { return OutInterfaces::None };
        let Some(second) = interfaces.next() else { return OutInterfaces::One(first) };
        OutInterfaces::Many([first, second].into_iter().chain(interfaces).collect())
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[InterfaceId] {
        match self {
            OutInterfaces::None => &[],
            OutInterfaces::One(interface) => core::slice::from_ref(interface),
            OutInterfaces::Many(interfaces) => interfaces,
        }
    }

    #[inline]
    pub(crate) fn contains(&self, interface: InterfaceId) -> bool {
        match self {
            OutInterfaces::None => false,
            OutInterfaces::One(only) => *only == interface,
            OutInterfaces::Many(all) => all.binary_search(&interface).is_ok(),
        }
    }
}

/// What a traffic-control block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A sender: a distinct reservation (FF).
    Sender(Index),
    /// What a session has reserved in a shared style (WF, SE).
    Pool(Index),
}

/// The reservation that traffic control has for a sender, or for a pool, on one outgoing interface.
#[derive(Debug)]
pub(crate) struct Tcsb {
    pub(crate) holder: Holder,
    /// Next traffic-control block of the holder.
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

/// What a session has reserved in a shared style.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) session: Index,
    /// WF or SE.
    pub(crate) style: Style,
    /// First of its traffic-control blocks.
    pub(crate) tcsbs: Index,
    /// TC_Filter_Spec*, by traffic-control block and in ascending order: whose packets share the reservation there.
    /// Empty lists for WF.
    pub(crate) filters: BTreeMap<Index, Vec<FilterSpec>>,
    /// What each previous hop was asked for last.
    pub(crate) asked: Vec<SentResv>,
    /// When that is to be said again; never, where nobody was asked.
    pub(crate) refresh_at: Time,
    pub(crate) timer: Option<TimerId>,
}

/// What one previous hop, or one application that sends, was told that it should reserve for a pool.
#[derive(Clone, Debug)]
pub(crate) struct SentResv {
    pub(crate) hop: Peer,
    pub(crate) flowspec: FlowSpec,
    /// Its senders that have a part in it, in ascending order; for WF too, where no message names them.
    pub(crate) filters: Vec<FilterSpec>,
    /// SCOPE, where the way of a wildcard request could lead in a circle.
    pub(crate) scope: Option<Vec<IpAddr>>,
    /// Objects of the requests behind it, which go with it.
    pub(crate) carried: Kept,
    /// Entry of the Resv in `SentMessageIds`.
    pub(crate) told: Index,
}

impl SentResv {
    /// Whether another asks the same hop for the same, whatever goes with it.
    pub(crate) fn is_same(&self, other: &SentResv) -> bool {
        self.hop == other.hop
            && self.flowspec == other.flowspec
            && self.filters == other.filters
            && self.scope == other.scope
    }
}

/// A reservation request: one next hop, for one sender (FF) or for those that share (WF, SE).
#[derive(Debug)]
pub(crate) struct Rsb {
    pub(crate) tcsb: Index,
    /// Next reservation request of the traffic-control block.
    pub(crate) next: Index,
    /// NHOP.
    pub(crate) hop: Peer,
    pub(crate) flowspec: FlowSpec,
    /// What most requests do without.
    pub(crate) extra: Option<Box<Extra>>,
    /// When the state, or the first of its filters, dies without a refresh; never, for a local receiver.
    pub(crate) expires_at: Time,
    /// How NHOP named the Resv that this says.
    pub(crate) name: MessageIdKey,
    pub(crate) timer: Option<TimerId>,
}

/// The part of a reservation request that few have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// POLICY_DATA and unknown objects that must be carried on, as received.
    pub(crate) carried: Kept,
    /// Filter_spec_list of a shared-explicit request, in ascending order, each with a life of its own.
    pub(crate) filters: Vec<Filter>,
    /// SCOPE of a wildcard request.
    pub(crate) scope: Option<Vec<IpAddr>>,
    /// What policy has decided about it, where there is a policy.
    pub(crate) grant: Option<Box<Grant>>,
}

/// How many filters of a request have gone.
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

/// When the first of some filters ends.
pub(crate) fn first_end(filters: &[Filter]) -> Option<Time> {
    filters.iter().map(|filter| filter.expires_at).min()
}

impl Extra {
    /// In a box, if there is anything in it.
    pub(crate) fn boxed(self) -> Option<Box<Extra>> {
        (self != Extra::default()).then(|| Box::new(self))
    }

    /// What a request has that carries these objects and nothing else.
    pub(crate) fn carrying(objects: Carried<'_>) -> Option<Box<Extra>> {
        let extra = || Extra { carried: Kept::of(objects), ..Extra::default() };
        (!objects.is_empty()).then(|| Box::new(extra()))
    }
}

impl Rsb {
    /// Objects to be carried on.
    #[inline]
    pub(crate) fn carried(&self) -> &[u8] {
        self.extra.as_deref().map_or(&[], |extra| extra.carried.octets())
    }

    /// Whether it carries just what a message does.
    #[inline]
    pub(crate) fn carries(&self, carried: Carried<'_>) -> bool {
        match &self.extra {
            None => carried.is_empty(),
            Some(extra) => extra.carried.is(carried),
        }
    }

    /// Filter_spec_list of a shared-explicit request.
    pub(crate) fn filters(&self) -> &[Filter] {
        self.extra.as_deref().map_or(&[], |extra| &extra.filters)
    }

    /// Whether this is in its Filter_spec_list.
    pub(crate) fn names(&self, spec: &FilterSpec) -> bool {
        self.filters().binary_search_by_key(spec, |filter| filter.spec).is_ok()
    }

    /// Takes those filters out that `goes` tells of; the request lives as long as the first of the others. Where none
    /// would be left, all of them stay: the request has to go with them.
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

    /// What policy has decided about it.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.extra.as_deref()?.grant.as_deref()
    }

    /// SCOPE of a wildcard request.
    pub(crate) fn scope(&self) -> Option<&[IpAddr]> {
        self.extra.as_deref()?.scope.as_deref()
    }
}

/// What a ResvErr for an admission-control failure blocks (RFC 2205 section 3.5).
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
    /// Qb: what failed.
    pub(crate) flowspec: FlowSpec,
    /// Tb: when it counts no more.
    pub(crate) until: Time,
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
    /// Whether it speaks through UDP (RFC 2205 appendix C).
    pub(crate) encapsulated: bool,
    /// The last ADSPEC that it sent, which most likely is the next one too.
    pub(crate) adspec: Option<Arc<[u8]>>,
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
    /// A shared reservation's refreshes.
    Pool,
    /// Routes have changed: state follows.
    Repair,
    /// Data has left a way: its state there ends.
    Departure,
    /// A trace that was not answered.
    Trace,
    /// Acknowledgements that no message took along.
    Acknowledgement,
    /// Messages that were not acknowledged.
    Retransmission,
    /// A neighbour's next summary refresh.
    Summary,
    /// A neighbour's next Hello.
    Hello,
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
