//! Forged messages of RSVP.

use std::net::IpAddr;

use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Carried, Diagnosis, Diagnostic, ErrorCode,
    ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Message, MessageId, Path,
    PathErr, PathTear, Resv, ResvErr, ResvTear, RsvpHop, Session, SourceSelector,
};

use earmark_wire::rsvp::encapsulation::FROM_UDP_ONLY;
use earmark_wire::udp;

use super::messages::{RSVP, message};
use crate::attack::{Attack, Packet, Power};

/// TTL of forged messages, as of a neighbour.
const TTL: u8 = 255;
/// Message type of a Path.
const PATH: u8 = 1;
/// Value of router alert over IPv6 (RFC 2711 section 2.1).
const ROUTER_ALERT_IPV6: u16 = 1;
/// Number of new senders in a flood.
const NEW_SENDERS: u16 = 2_000;

/// Returns forged messages by an attacker who has seen the messages of a reservation.
pub(super) fn forgeries(seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
    let messages: Vec<(&Packet, Message<'_>)> = seen
        .iter()
        .filter_map(|packet| {
            Some((packet, Message::parse(message(packet.protocol, &packet.payload)?).ok()?))
        })
        .collect();
    let of_paths = |forge: &dyn Fn(&Packet, &Path<'_>) -> Option<Packet>| -> Vec<Packet> {
        let paths = messages.iter().filter_map(|(packet, message)| match &message.body {
            Body::Path(path) => forge(packet, path),
            _ => None,
        });
        paths.collect()
    };
    let of_resvs = |forge: &dyn Fn(&Packet, &Resv<'_>) -> Option<Packet>| -> Vec<Packet> {
        let resvs = messages.iter().filter_map(|(packet, message)| match &message.body {
            Body::Resv(resv) => forge(packet, resv),
            _ => None,
        });
        resvs.collect()
    };
    // A Path may be addressed to a group, but a Resv comes from a next hop.
    let next_hop = messages.iter().find_map(|(packet, message)| match &message.body {
        Body::Resv(_) => Some(packet.source),
        _ => None,
    });
    let any = |name, packets| Attack::new(name, Power::AnyAddress, packets);
    let own = |name, packets| Attack::new(name, Power::OwnAddress, packets);
    let all = vec![
        any("ResvTear of the next hop", of_resvs(&resv_tear)),
        any("Resv of the next hop with less", of_resvs(&smaller_resv)),
        any("ResvErr of the previous hop", of_resvs(&resv_err)),
        any("PathTear of the previous hop", of_paths(&path_tear)),
        any("PathErr of the next hop", of_paths(&|packet, path| path_err(packet, path, next_hop))),
        any("acknowledgements of all messages", acknowledgements(&messages)),
        own(
            "Path with another previous hop",
            of_paths(&|packet, path| other_previous_hop(packet, path, attacker)),
        ),
        own(
            "Path with another previous hop, without router alert",
            without_router_alert(of_paths(&|packet, path| {
                other_previous_hop(packet, path, attacker)
            })),
        ),
        own("DREQ about another's flow", of_paths(&|_, path| dreq(path, attacker))),
        own("flood of new senders", new_senders(&messages, attacker)),
    ];
    all.into_iter().filter(|attack| !attack.packets.is_empty()).collect()
}

/// Returns a message inside UDP, as a host without raw sockets sends it: to the router of its link if the message has
/// router alert, and to the neighbour that it is addressed to otherwise; `None` for a Path without router alert, which has
/// no neighbour.
pub(super) fn encapsulated(packet: &Packet, router: IpAddr) -> Option<Packet> {
    let octets = Some(&packet.payload).filter(|_| packet.protocol == RSVP)?;
    if packet.router_alert.is_none() && octets.get(1) == Some(&PATH) {
        return None;
    }
    let destination = if packet.router_alert.is_some() { router } else { packet.destination };
    let port = FROM_UDP_ONLY;
    let header =
        udp::Repr { source: packet.source, destination, source_port: port, destination_port: port };
    let mut payload = vec![0; udp::HEADER + octets.len()];
    payload[udp::HEADER..].copy_from_slice(octets);
    header.emit(&mut payload).ok()?;
    let protocol = udp::PROTOCOL;
    Some(Packet { destination, protocol, router_alert: None, payload, ..packet.clone() })
}

/// Returns the packet of a message; `None` if the message is too long.
fn packet(
    source: IpAddr,
    destination: IpAddr,
    router_alert: bool,
    message: &Message<'_>,
) -> Option<Packet> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload).ok()?;
    let value = if source.is_ipv4() { 0 } else { ROUTER_ALERT_IPV6 };
    let router_alert = router_alert.then_some(value);
    Some(Packet { source, destination, protocol: RSVP, ttl: TTL, router_alert, payload })
}

fn hop_by_hop(source: IpAddr, destination: IpAddr, body: Body<'_>) -> Option<Packet> {
    packet(source, destination, false, &Message::new(TTL, body))
}

fn along_path(source: IpAddr, destination: IpAddr, body: Body<'_>) -> Option<Packet> {
    packet(source, destination, true, &Message::new(TTL, body))
}

fn resv_tear(seen: &Packet, resv: &Resv<'_>) -> Option<Packet> {
    let &Resv { session, hop, scope, flows, .. } = resv;
    let carried = Carried::Objects(&[]);
    let tear = ResvTear { session, hop, scope, carried, flows };
    hop_by_hop(seen.source, seen.destination, Body::ResvTear(tear))
}

fn smaller_resv(seen: &Packet, resv: &Resv<'_>) -> Option<Packet> {
    let FlowDescriptors::FixedFilter(flows) = resv.flows else { return None };
    let smaller = |flow: FixedFilterFlow| {
        let flowspec = match flow.flowspec? {
            FlowSpec::ControlledLoad(bucket) => {
                FlowSpec::ControlledLoad(TokenBucket { rate: bucket.rate / 10.0, ..bucket })
            }
            other => other,
        };
        Some(FixedFilterFlow { flowspec: Some(flowspec), ..flow })
    };
    let flows: Vec<FixedFilterFlow> = flows.iter().filter_map(smaller).collect();
    let flows = FlowDescriptors::FixedFilter(List::Items(&flows));
    hop_by_hop(seen.source, seen.destination, Body::Resv(Resv { flows, confirm: None, ..*resv }))
}

/// Returns the error that the receiver of a Resv would send to its sender.
fn resv_err(seen: &Packet, resv: &Resv<'_>) -> Option<Packet> {
    let error = ResvErr {
        session: resv.session,
        hop: RsvpHop { address: seen.destination, lih: resv.hop.lih },
        error: error_spec(seen.destination, ErrorCode::AdmissionControlFailure),
        scope: resv.scope,
        carried: Carried::Objects(&[]),
        flows: resv.flows,
    };
    hop_by_hop(seen.destination, seen.source, Body::ResvErr(error))
}

fn path_tear(seen: &Packet, path: &Path<'_>) -> Option<Packet> {
    let tear = PathTear {
        session: path.session,
        hop: path.hop,
        carried: Carried::Objects(&[]),
        template: path.sender.template,
        tspec: Some(path.sender.tspec),
    };
    along_path(seen.source, seen.destination, Body::PathTear(tear))
}

/// Returns the error that the receiver of a Path, or the sender of a Resv, would send to the sender of the Path.
fn path_err(seen: &Packet, path: &Path<'_>, next_hop: Option<IpAddr>) -> Option<Packet> {
    let from = Some(seen.destination).filter(|to| !to.is_multicast()).or(next_hop)?;
    let error = PathErr {
        session: path.session,
        error: error_spec(from, ErrorCode::PolicyControlFailure),
        carried: Carried::Objects(&[]),
        sender: Some((path.sender.template, Some(path.sender.tspec))),
    };
    hop_by_hop(from, path.hop.address, Body::PathErr(error))
}

fn error_spec(node: IpAddr, code: ErrorCode) -> ErrorSpec {
    ErrorSpec { node, flags: 0, code, value: 2 }
}

/// Returns the Path of a sender as if the attacker were its previous hop.
fn other_previous_hop(seen: &Packet, path: &Path<'_>, attacker: IpAddr) -> Option<Packet> {
    let hop = RsvpHop { address: attacker, lih: 1 };
    along_path(seen.source, seen.destination, Body::Path(Path { hop, ..*path }))
}

/// Returns the packets as routers forward them that take messages with router alert only.
fn without_router_alert(packets: Vec<Packet>) -> Vec<Packet> {
    packets.into_iter().map(|packet| Packet { router_alert: None, ..packet }).collect()
}

/// Returns an Ack in the name of each receiver of a message with a MESSAGE_ID.
fn acknowledgements(messages: &[(&Packet, Message<'_>)]) -> Vec<Packet> {
    let forge = |(seen, message): &(&Packet, Message<'_>)| {
        let MessageId { epoch, id, .. } = message.message_id?;
        let all = [AcknowledgementKind::Ack, AcknowledgementKind::Nack]
            .map(|kind| Acknowledgement { kind, epoch, id });
        let ack = Message {
            flags: Message::REFRESH_REDUCTION,
            acknowledgements: List::Items(&all),
            ..Message::new(TTL, Body::Ack)
        };
        packet(seen.destination, seen.source, false, &ack)
    };
    messages.iter().filter_map(forge).collect()
}

/// Returns a DREQ about a sender that asks for an answer to the attacker.
fn dreq(path: &Path<'_>, attacker: IpAddr) -> Option<Packet> {
    let last_hop = path.hop.address;
    let requester = FilterSpec { source: attacker, selector: SourceSelector::Port(4_444) };
    let diagnostic = Diagnostic {
        max_hops: 0,
        hop_count: 0,
        more_fragments: false,
        request_id: 1,
        path_mtu: 1_400,
        fragment_offset: 0,
        last_hop,
        sender: path.sender.template,
        requester,
    };
    let question = Diagnosis {
        session: path.session,
        hop: RsvpHop { address: attacker, lih: 0 },
        diagnostic,
        select: None,
        route: None,
        responses: List::Items(&[]),
        carried: Carried::Objects(&[]),
    };
    hop_by_hop(attacker, last_hop, Body::Dreq(question))
}

/// Returns Paths of many new senders on the attacker's host, with the longest refresh period.
fn new_senders(messages: &[(&Packet, Message<'_>)], attacker: IpAddr) -> Vec<Packet> {
    let path = messages.iter().find_map(|(packet, message)| match message.body {
        Body::Path(path) => Some((packet.destination, path)),
        _ => None,
    });
    let Some((destination, path)) = path else { return Vec::new() };
    let forge = |port: u16| {
        let mut path = path;
        path.session = Session { port: 20_000 + port, ..path.session };
        path.hop = RsvpHop { address: attacker, lih: 1 };
        path.refresh_ms = u32::MAX;
        path.sender.template.source = attacker;
        along_path(attacker, destination, Body::Path(path))
    };
    (0..NEW_SENDERS).filter_map(forge).collect()
}
