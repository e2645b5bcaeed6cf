//! Forged messages of RSVP.

use std::net::{IpAddr, Ipv4Addr};

use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Carried, Diagnosis, Diagnostic, ErrorCode,
    ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Message, MessageId, Path,
    PathErr, PathTear, Resv, ResvErr, ResvTear, RsvpHop, Session, SourceSelector,
};

use crate::attack::{Attack, Packet, Power};

/// IP protocol number of RSVP.
const RSVP: u8 = 46;
/// TTL of forged messages, as of a neighbour.
const TTL: u8 = 255;
/// Number of new senders in a flood.
const NEW_SENDERS: u16 = 2_000;

/// Returns forged messages by an attacker who has seen the messages of a reservation.
pub(super) fn forgeries(seen: &[Packet], attacker: Ipv4Addr) -> Vec<Attack> {
    let messages: Vec<(&Packet, Message<'_>)> = seen
        .iter()
        .filter(|packet| packet.protocol == RSVP)
        .filter_map(|packet| Some((packet, Message::parse(&packet.payload).ok()?)))
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
    let any = |name, packets| Attack::new(name, Power::AnyAddress, packets);
    let own = |name, packets| Attack::new(name, Power::OwnAddress, packets);
    let all = vec![
        any("ResvTear of the next hop", of_resvs(&resv_tear)),
        any("Resv of the next hop with less", of_resvs(&smaller_resv)),
        any("ResvErr of the previous hop", of_resvs(&resv_err)),
        any("PathTear of the previous hop", of_paths(&path_tear)),
        any("PathErr of the next hop", of_paths(&path_err)),
        any("acknowledgements of all messages", acknowledgements(&messages)),
        own(
            "Path with another previous hop",
            of_paths(&|packet, path| other_previous_hop(packet, path, attacker)),
        ),
        own("DREQ about another's flow", of_paths(&|_, path| dreq(path, attacker))),
        own("flood of new senders", new_senders(&messages, attacker)),
    ];
    all.into_iter().filter(|attack| !attack.packets.is_empty()).collect()
}

/// Returns the packet of a message; `None` if the message is too long.
fn packet(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    router_alert: bool,
    message: &Message<'_>,
) -> Option<Packet> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload).ok()?;
    Some(Packet { source, destination, protocol: RSVP, ttl: TTL, router_alert, payload })
}

fn hop_by_hop(source: Ipv4Addr, destination: Ipv4Addr, body: Body<'_>) -> Option<Packet> {
    packet(source, destination, false, &Message::new(TTL, body))
}

fn along_path(source: Ipv4Addr, destination: Ipv4Addr, body: Body<'_>) -> Option<Packet> {
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
        hop: RsvpHop { address: IpAddr::V4(seen.destination), lih: resv.hop.lih },
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

fn path_err(seen: &Packet, path: &Path<'_>) -> Option<Packet> {
    let IpAddr::V4(previous_hop) = path.hop.address else { return None };
    let error = PathErr {
        session: path.session,
        error: error_spec(seen.destination, ErrorCode::PolicyControlFailure),
        carried: Carried::Objects(&[]),
        sender: Some((path.sender.template, Some(path.sender.tspec))),
    };
    hop_by_hop(seen.destination, previous_hop, Body::PathErr(error))
}

fn error_spec(node: Ipv4Addr, code: ErrorCode) -> ErrorSpec {
    ErrorSpec { node: IpAddr::V4(node), flags: 0, code, value: 2 }
}

/// Returns the Path of a sender as if the attacker were its previous hop.
fn other_previous_hop(seen: &Packet, path: &Path<'_>, attacker: Ipv4Addr) -> Option<Packet> {
    let hop = RsvpHop { address: IpAddr::V4(attacker), lih: 1 };
    along_path(seen.source, seen.destination, Body::Path(Path { hop, ..*path }))
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
fn dreq(path: &Path<'_>, attacker: Ipv4Addr) -> Option<Packet> {
    let IpAddr::V4(last_hop) = path.hop.address else { return None };
    let requester =
        FilterSpec { source: IpAddr::V4(attacker), selector: SourceSelector::Port(4_444) };
    let diagnostic = Diagnostic {
        max_hops: 0,
        hop_count: 0,
        more_fragments: false,
        request_id: 1,
        path_mtu: 1_400,
        fragment_offset: 0,
        last_hop: IpAddr::V4(last_hop),
        sender: path.sender.template,
        requester,
    };
    let question = Diagnosis {
        session: path.session,
        hop: RsvpHop { address: IpAddr::V4(attacker), lih: 0 },
        diagnostic,
        select: None,
        route: None,
        responses: List::Items(&[]),
        carried: Carried::Objects(&[]),
    };
    hop_by_hop(attacker, last_hop, Body::Dreq(question))
}

/// Returns Paths of many new senders on the attacker's host, with the longest refresh period.
fn new_senders(messages: &[(&Packet, Message<'_>)], attacker: Ipv4Addr) -> Vec<Packet> {
    let path = messages.iter().find_map(|(packet, message)| match message.body {
        Body::Path(path) => Some((packet.destination, path)),
        _ => None,
    });
    let Some((destination, path)) = path else { return Vec::new() };
    let forge = |port: u16| {
        let mut path = path;
        path.session = Session { port: 20_000 + port, ..path.session };
        path.hop = RsvpHop { address: IpAddr::V4(attacker), lih: 1 };
        path.refresh_ms = u32::MAX;
        path.sender.template.source = IpAddr::V4(attacker);
        along_path(attacker, destination, Body::Path(path))
    };
    (0..NEW_SENDERS).filter_map(forge).collect()
}
