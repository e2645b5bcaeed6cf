//! Messages of RSVP: one sender a session, its ADSPEC, one fixed-filter reservation by controlled load.

use std::net::{IpAddr, Ipv4Addr};

use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Message as Rsvp, Path,
    PathTear, Resv, ResvTear, RsvpHop, SenderDescriptor, Session, SourceSelector,
};

use super::{Arrival, FAR, Message, NEAR, Router, Step};

pub(super) const UPSTREAM: RsvpHop =
    RsvpHop { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), lih: 5 };
pub(super) const DOWNSTREAM: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

pub(super) const TSPEC: SenderTspec = TokenBucket {
    rate: 8_000.0,
    depth: 3_000.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

/// Kinds of messages. The goals are the engine's costs before it supported styles, groups and refresh reduction.
pub(super) const MESSAGES: [Message; 5] = [
    Message { name: "Path, new", step: Step::SetUp, goal: Some(4_960), write: path },
    Message { name: "Resv, new", step: Step::SetUp, goal: Some(5_294), write: resv },
    Message { name: "Path, refresh", step: Step::Refresh, goal: Some(1_433), write: path },
    Message { name: "Resv, refresh", step: Step::Refresh, goal: Some(2_564), write: resv },
    Message { name: "PathTear", step: Step::Release, goal: Some(4_164), write: path_tear },
];

/// A ResvTear, which removes the reservation and leaves the sender; separate from the others, whose costs are those
/// of sessions that their senders set up and tear down.
pub const RESV_TEAR: Message =
    Message { name: "ResvTear", step: Step::Release, goal: None, write: resv_tear };

pub(super) fn names(number: u32) -> (Session, FilterSpec) {
    let destination = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
    let source = IpAddr::V4(Ipv4Addr::from(0xac10_0000 + number % 65_536));
    let session = Session { destination, protocol: 17, flags: 0, port: 5_004 };
    (session, FilterSpec { source, selector: SourceSelector::Port(4_000) })
}

pub(super) fn path(_: &Router, number: u32, _: u32) -> Arrival {
    let (session, template) = names(number);
    let octets = adspec();
    let body = Body::Path(Path {
        session,
        hop: UPSTREAM,
        refresh_ms: 30_000,
        carried: Carried::Objects(&[]),
        sender: SenderDescriptor { template, tspec: TSPEC, adspec: Some(&octets) },
    });
    downstream(number, template.source, session.destination, body)
}

/// The ADSPEC of a sender.
pub(super) fn adspec() -> Vec<u8> {
    let adspec = Adspec::for_sender();
    let mut octets = vec![0; adspec.buffer_len()];
    adspec.emit(&mut octets).expect("it fits");
    octets
}

pub(super) fn path_tear(_: &Router, number: u32, _: u32) -> Arrival {
    let (session, template) = names(number);
    let body = Body::PathTear(PathTear {
        session,
        hop: UPSTREAM,
        carried: Carried::Objects(&[]),
        template,
        tspec: Some(TSPEC),
    });
    downstream(number, template.source, session.destination, body)
}

pub(super) fn resv_tear(router: &Router, number: u32, _: u32) -> Arrival {
    let (session, filter) = names(number);
    let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(TSPEC)), filter };
    let body = Body::ResvTear(ResvTear {
        session,
        hop: next_hop(router),
        scope: None,
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
    });
    upstream(number, body)
}

fn next_hop(router: &Router) -> RsvpHop {
    let lih = router.lih.unwrap_or_else(|| {
        router.node.engine::<earmark_rsvp::Rsvp>().expect("a node with RSVP").lih(FAR)
    });
    RsvpHop { address: DOWNSTREAM, lih }
}

/// Returns the logical interface handle in a Path that a router has sent.
pub(super) fn lih_of(octets: &[u8]) -> Option<u32> {
    match Rsvp::parse(octets).ok()?.body {
        Body::Path(path) => Some(path.hop.lih),
        _ => None,
    }
}

pub(super) fn resv(router: &Router, number: u32, _: u32) -> Arrival {
    request(router, number, None)
}

/// Returns a Resv; `confirm` is the receiver's address for a ResvConf, if requested.
pub(super) fn request(router: &Router, number: u32, confirm: Option<IpAddr>) -> Arrival {
    let (session, filter) = names(number);
    let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(TSPEC)), filter };
    let body = Body::Resv(Resv {
        session,
        hop: next_hop(router),
        refresh_ms: 30_000,
        confirm,
        scope: None,
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
    });
    upstream(number, body)
}

/// Returns a message that travels upstream, from one neighbor to the other.
pub(super) fn upstream(session: u32, body: Body<'_>) -> Arrival {
    let octets = written(body);
    let protocol = earmark_rsvp::PROTOCOL;
    Arrival { session, protocol, interface: FAR, source: DOWNSTREAM, destination: HERE, octets }
}

/// Returns a message that travels downstream, to the far end.
pub(super) fn downstream(
    number: u32,
    source: IpAddr,
    destination: IpAddr,
    body: Body<'_>,
) -> Arrival {
    let octets = written(body);
    let (session, protocol) = (number, earmark_rsvp::PROTOCOL);
    Arrival { session, protocol, interface: NEAR, source, destination, octets }
}

pub(super) fn written(body: Body<'_>) -> Vec<u8> {
    let message = Rsvp::new(62, body);
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}
