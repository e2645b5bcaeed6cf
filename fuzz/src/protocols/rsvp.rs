//! RSVP: senders and receivers of few sessions, and messages of every type.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::PreemptionPolicy;
use earmark_core::{InterfaceId, Secret, Time};
use earmark_node::{Ask, Command, Listen, NodeConfig};
use earmark_rsvp::integrity::{Algorithm, Directions, Key};
use earmark_rsvp::policy::Identity;
use earmark_rsvp::{self as rsvp, Application, ReserveRequest, Rsvp as Engine};
use earmark_wire::intserv::{Adspec, FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::*;
use earmark_wire::udp;

use super::Protocol;
use crate::draw::Draw;
use crate::invariants::Limits;
use crate::network::Network;
use crate::packet::Packet;
use crate::steps::interface_of;
use crate::topology::{self, NODES, STRANGER};

/// RSVP.
pub struct Rsvp;

impl Protocol for Rsvp {
    fn configure(&self, draw: &mut Draw<'_>, config: &mut NodeConfig) -> Limits {
        let options = draw.octet();
        let set = |bit: u8| options >> bit & 1 == 1;
        let most = draw.one_of(&[2, 8]);
        let settings = &mut config.rsvp;
        settings.timing.refresh = Duration::from_secs(draw.one_of(&[30, 2]));
        settings.max_sessions = most;
        settings.max_senders = draw.one_of(&[4, 1]);
        settings.max_next_hops = draw.one_of(&[4, 1]);
        settings.reduction.enabled = !set(0);
        settings.reduction.bundle = !set(1);
        settings.reduction.max_copies = draw.one_of(&[16, 0]);
        settings.reduction.max_unacknowledged = 16;
        settings.reduction.max_peers = draw.one_of(&[8, 1]);
        settings.hello.interval = set(2).then_some(Duration::from_secs(5));
        settings.hello.restart.restart_time = set(2).then_some(Duration::from_secs(30));
        settings.policy.preemption = set(3).then_some(PreemptionPolicy { partial: set(4) });
        settings.limits.per_neighbor = set(5).then_some(3);
        settings.limits.access.max_blocks = 6;
        settings.integrity.max_associations = 4;
        if set(6) {
            settings.integrity.interfaces = [("eth1".to_owned(), Directions::Both)].into();
            settings.integrity.keys = vec![Key {
                id: 1,
                algorithm: Algorithm::HmacSha256,
                secret: Secret::new(b"0123456789abcdef"),
                purpose: Directions::Both,
                start: Time::ZERO,
                age: Default::default(),
                end: Time::MAX,
                interfaces: Vec::new(),
                neighbors: Vec::new(),
            }];
        }
        let most = most as usize;
        vec![("rsvp", "sessions", most), ("rsvp", "senders", most)]
    }

    fn command(&self, draw: &mut Draw<'_>, _: usize, application: u64) -> Command {
        let application = Application(application);
        let session = session(draw);
        let command = match draw.below(8) {
            0 => rsvp::Command::Session { application, session },
            1 => {
                let (template, tspec) = (template(draw, session.destination), tspec(draw));
                let ttl = draw.one_of(&[64, 0, 1]);
                rsvp::Command::Sender { application, template, tspec, ttl }
            }
            2 => {
                let flowspec = flowspec(draw);
                let filter = template(draw, session.destination);
                let request = match draw.below(3) {
                    0 => ReserveRequest::FixedFilter { filter, flowspec },
                    1 => ReserveRequest::Wildcard { flowspec },
                    _ => ReserveRequest::SharedExplicit {
                        filters: draw.list(3, |draw| template(draw, session.destination)),
                        flowspec,
                    },
                };
                rsvp::Command::Reserve { application, request, confirm: draw.flag() }
            }
            3 => {
                let priority = draw.maybe(|draw| draw.octet() as u16 % 4);
                let identity = Identity { priority, ..Identity::default() };
                rsvp::Command::Identity { application, identity }
            }
            4 => rsvp::Command::Trace {
                application,
                trace: rsvp::diagnostics::Trace {
                    session,
                    sender: draw.maybe(|draw| template(draw, session.destination)),
                    last_hop: draw.maybe(topology::destination),
                    max_hops: draw.octet() & 3,
                    patience: Duration::from_secs(5),
                },
            },
            _ => {
                let mut listen = Listen::new(application, session);
                listen.confirm = draw.flag();
                listen.style = draw.one_of(&STYLES);
                listen.ask = match draw.below(3) {
                    0 => Ask::ControlledLoad,
                    1 => Ask::Rate(super::rate(draw)),
                    _ => Ask::Delay(Duration::from_millis(draw.octet().into())),
                };
                return Command::Listen(listen);
            }
        };
        Command::Rsvp(command)
    }

    fn release(&self, application: u64) -> Vec<Command> {
        let application = Application(application);
        vec![Command::Rsvp(rsvp::Command::Release { application })]
    }

    fn message(&self, draw: &mut Draw<'_>, network: &Network) -> Option<Packet> {
        let to = draw.below(NODES);
        let interface = interface_of(to, draw);
        let body = draw.octet();
        let parts = Parts::draw(draw, network, to, interface);
        let acknowledgements = draw.list(2, acknowledgement);
        let message_id = draw.maybe(|draw| MessageId {
            flags: draw.octet() & 1,
            epoch: draw.octet().into(),
            id: draw.octet().into(),
        });
        let mut payload = vec![0; 2_048];
        let is_bare = matches!(body % 16, 7 | 12);
        let numbers = List::Items(&parts.numbers[..]);
        let ids = match draw.below(3) {
            0 => RefreshIds::Sources(List::Items(&parts.sources)),
            1 => RefreshIds::Multicast(List::Items(&parts.multicast)),
            _ => RefreshIds::Messages(numbers),
        };
        let lists = [RefreshList { epoch: draw.octet().into(), ids }];
        let sessions = parts.notify_sessions();
        let message = Message {
            flags: draw.octet() & 1,
            send_ttl: draw.one_of(&[63, 64, 1]),
            integrity: None,
            acknowledgements: List::Items(if is_bare { &[] } else { &acknowledgements }),
            message_id: message_id.filter(|_| !is_bare && body % 16 != 8),
            body: parts.body(body % 16, &lists, &sessions),
        };
        let mut length = message.emit(&mut payload).ok()?;
        if draw.below(8) == 0 {
            length = bundle(&mut payload, length)?;
        }
        payload.truncate(length);
        let session = parts.session.destination;
        let here = network.hosts[to].interface(interface.0).address_like(session)?;
        let is_downstream = matches!(body % 16, 0 | 4);
        Some(Packet {
            to,
            interface,
            protocol: rsvp::PROTOCOL,
            source: if draw.below(4) == 0 {
                topology::source(draw, session)
            } else {
                parts.hop.address
            },
            destination: if is_downstream { session } else { here },
            ttl: draw.one_of(&[63, 64, 1]),
            router_alert: is_downstream,
            payload,
        })
    }

    fn is_message(&self, packet: &Packet) -> bool {
        let is_whole = |octets| Message::parse(octets).is_ok();
        // Answers of diagnostics go to the requester in UDP (RFC 2745 section 4).
        let in_udp = packet.protocol == udp::PROTOCOL;
        let octets = &packet.payload[if in_udp { udp::HEADER } else { 0 }..];
        match Message::parse(octets) {
            Ok(Message { body: Body::Bundle(bundle), .. }) => bundle.iter().all(is_whole),
            Ok(_) => true,
            // The refusal of an unknown style has that style in it, and that of an unknown C-Type the object.
            Err(error) => match error.kind {
                ErrorKind::UnknownStyle => octets[1] == RESV_ERR,
                ErrorKind::UnknownCType => [PATH_ERR, RESV_ERR].contains(&octets[1]),
                _ => false,
            },
        }
    }

    fn ip_protocol(&self, _: IpAddr) -> u8 {
        rsvp::PROTOCOL
    }
}

/// Message types of errors.
const PATH_ERR: u8 = 3;
const RESV_ERR: u8 = 4;

const STYLES: [Style; 3] = [Style::FixedFilter, Style::Wildcard, Style::SharedExplicit];

/// Parts of any message.
struct Parts {
    session: Session,
    hop: RsvpHop,
    refresh_ms: u32,
    template: SenderTemplate,
    tspec: TokenBucket,
    adspec: Option<Vec<u8>>,
    flows: Vec<FixedFilterFlow>,
    filters: Vec<FilterSpec>,
    style: Style,
    error: ErrorSpec,
    confirm: Option<IpAddr>,
    scope: Option<Vec<IpAddr>>,
    carried: Vec<u8>,
    numbers: [u32; 3],
    sources: [SourceRefresh; 1],
    multicast: [MulticastRefresh; 1],
    diagnostic: Diagnostic,
}

impl Parts {
    fn draw(draw: &mut Draw<'_>, network: &Network, to: usize, at: InterfaceId) -> Parts {
        let session = session(draw);
        let like = session.destination;
        let neighbour = topology::peer(to, at).unwrap_or(STRANGER);
        let address = if like.is_ipv4() { topology::v4 } else { topology::v6 };
        let engine = network.hosts[to].node.engine::<Engine>();
        let lih = engine.map_or(0, |engine| engine.lih(at));
        let number = draw.octet();
        let hop = RsvpHop {
            address: if number < 200 {
                address(at.0, neighbour)
            } else {
                topology::source(draw, like)
            },
            lih: if number & 7 == 7 { number.into() } else { lih },
        };
        let refresh_ms = draw.one_of(&[30_000, 1_000, 0, 1, u32::MAX]);
        let flow = |draw: &mut Draw<'_>| FixedFilterFlow {
            flowspec: Some(flowspec(draw)),
            filter: template(draw, like),
        };
        let mut flows = vec![flow(draw)];
        flows.extend(draw.list(2, flow));
        let mut filters = vec![flows[0].filter];
        filters.extend(draw.list(2, |draw| template(draw, like)));
        let id = u32::from(draw.octet());
        Parts {
            session,
            hop,
            refresh_ms,
            template: template(draw, like),
            tspec: tspec(draw),
            adspec: draw.maybe(|_| {
                let adspec = Adspec::for_sender();
                let mut body = vec![0; adspec.buffer_len()];
                let _ = adspec.emit(&mut body);
                body
            }),
            flows,
            filters,
            style: draw.one_of(&STYLES),
            error: ErrorSpec {
                node: topology::source(draw, like),
                flags: draw.octet() & 3,
                code: ErrorCode::from_code(draw.octet() % 26),
                value: draw.octet().into(),
            },
            confirm: draw.maybe(|draw| topology::source(draw, like)),
            scope: draw.maybe(|draw| draw.list(3, |draw| topology::source(draw, like))),
            carried: match draw.below(4) {
                0 => vec![0, 8, 192, 1, 1, 2, 3, 4],
                1 => policy(draw),
                2 => notify_request(topology::source(draw, like)),
                _ => Vec::new(),
            },
            numbers: [id, draw.octet().into(), draw.octet().into()],
            sources: [SourceRefresh { id, source: topology::source(draw, like) }],
            multicast: [MulticastRefresh {
                id,
                source: topology::source(draw, like),
                destination: like,
            }],
            diagnostic: Diagnostic {
                max_hops: draw.octet() & 7,
                hop_count: draw.octet() & 3,
                more_fragments: draw.below(8) == 0,
                request_id: draw.octet().into(),
                path_mtu: draw.one_of(&[1_500, 0, 100]),
                fragment_offset: draw.octet().into(),
                last_hop: topology::source(draw, like),
                sender: template(draw, like),
                requester: template(draw, like),
            },
        }
    }

    fn descriptors(&self) -> FlowDescriptors<'_> {
        match self.style {
            Style::FixedFilter => FlowDescriptors::FixedFilter(List::Items(&self.flows)),
            Style::Wildcard => FlowDescriptors::Wildcard(self.flows[0].flowspec),
            Style::SharedExplicit => {
                FlowDescriptors::SharedExplicit(self.flows[0].flowspec, List::Items(&self.filters))
            }
        }
    }

    /// Returns an entry of a Notify about the sender, and one about the flows.
    fn notify_sessions(&self) -> [NotifySession<'_>; 2] {
        let Parts { session, template, tspec, .. } = *self;
        let carried = Carried::NONE;
        let flows = NotifySubject::Flows(List::Items(&self.flows));
        [NotifySubject::Sender(template, Some(tspec)), flows].map(|subject| NotifySession {
            session,
            carried,
            subject,
        })
    }

    /// Returns a Hello, with restart times and capability or without.
    fn hello(&self) -> HelloMessage {
        let [options, source_instance, destination_instance] = self.numbers;
        let kind = if options & 1 == 0 { HelloKind::Request } else { HelloKind::Ack };
        let ms = |bit: u32| if options >> bit & 1 == 0 { 0 } else { 1_000 << (options >> 5) };
        let restart_cap = RestartCap { restart_ms: ms(1), recovery_ms: ms(2) };
        HelloMessage {
            hello: Hello { kind, source_instance, destination_instance },
            restart_cap: (options & 8 != 0).then_some(restart_cap),
            capability: (options & 16 != 0).then_some(Capability { flags: options >> 5 }),
        }
    }

    fn body<'a>(
        &'a self,
        kind: u8,
        lists: &'a [RefreshList<'a>],
        sessions: &'a [NotifySession<'a>],
    ) -> Body<'a> {
        let Parts { session, hop, refresh_ms, template, tspec, error, .. } = *self;
        let carried = Carried::Objects(&self.carried);
        let scope = self.scope.as_deref().map(List::Items);
        let flows = self.descriptors();
        match kind {
            0 | 15 => {
                let adspec = self.adspec.as_deref();
                let sender = SenderDescriptor { template, tspec, adspec };
                let path = Path { session, hop, refresh_ms, carried, sender };
                if kind == 0 { Body::Path(path) } else { Body::RecoveryPath(path) }
            }
            1 => Body::Resv(Resv {
                session,
                hop,
                refresh_ms,
                confirm: self.confirm,
                scope,
                carried,
                flows,
            }),
            2 => Body::PathErr(PathErr {
                session,
                error,
                carried,
                sender: Some((template, Some(tspec))),
            }),
            3 => Body::ResvErr(ResvErr { session, hop, error, scope, carried, flows }),
            4 => Body::PathTear(PathTear { session, hop, carried, template, tspec: None }),
            5 => Body::ResvTear(ResvTear { session, hop, scope, carried, flows }),
            6 => Body::ResvConf(ResvConf {
                session,
                error: ErrorSpec { code: ErrorCode::Confirmation, value: 0, ..error },
                confirm: self.confirm.unwrap_or(session.destination),
                carried,
                flows,
            }),
            7 => Body::IntegrityChallenge(Challenge { key_id: 1, cookie: self.numbers[0].into() }),
            8 => Body::Ack,
            9 | 10 => Body::Srefresh(Srefresh { lists: List::Items(lists) }),
            11 => Body::Hello(self.hello()),
            12 => Body::IntegrityResponse(Challenge { key_id: 1, cookie: self.numbers[0].into() }),
            14 => Body::Notify(Notify { error, sessions: List::Items(sessions) }),
            kind => {
                let diagnosis = Diagnosis {
                    session,
                    hop,
                    diagnostic: self.diagnostic,
                    select: None,
                    route: None,
                    responses: List::EMPTY,
                    carried: Carried::NONE,
                };
                if kind == 13 { Body::Dreq(diagnosis) } else { Body::Drep(diagnosis) }
            }
        }
    }
}

/// Returns a NOTIFY_REQUEST.
fn notify_request(node: IpAddr) -> Vec<u8> {
    let mut octets = vec![0; 20];
    let length = Object::NotifyRequest(node).emit(&mut octets).unwrap_or(0);
    octets.truncate(length);
    octets
}

/// Returns a Bundle of a message twice.
fn bundle(payload: &mut [u8], length: usize) -> Option<usize> {
    const HEADER: usize = 8;
    let message = payload[..length].to_vec();
    payload[HEADER..].get_mut(..2 * length)?.copy_from_slice(&message.repeat(2));
    Bundle::seal(&mut payload[..HEADER + 2 * length], 1, 63).ok()?;
    Some(HEADER + 2 * length)
}

fn acknowledgement(draw: &mut Draw<'_>) -> Acknowledgement {
    let kind = if draw.flag() { AcknowledgementKind::Nack } else { AcknowledgementKind::Ack };
    Acknowledgement { kind, epoch: draw.octet().into(), id: draw.octet().into() }
}

/// Returns POLICY_DATA with a priority.
fn policy(draw: &mut Draw<'_>) -> Vec<u8> {
    let [preemption, defending] = [draw.octet() & 3, draw.octet() & 3];
    vec![
        0,
        20,
        14,
        1,
        0,
        8,
        0,
        0,
        0,
        12,
        0,
        1,
        draw.octet() & 3,
        0,
        0,
        0,
        0,
        preemption,
        0,
        defending,
    ]
}

fn session(draw: &mut Draw<'_>) -> Session {
    let port = draw.octet();
    let protocol = if port & 0x80 == 0 { udp::PROTOCOL } else { 0 };
    let port = u16::from(port & 1) + if protocol == 0 { 0 } else { 5_000 };
    Session { destination: topology::destination(draw), protocol, flags: 0, port }
}

fn template(draw: &mut Draw<'_>, like: IpAddr) -> SenderTemplate {
    let source = topology::source(draw, like);
    let selector = match draw.below(8) {
        0 => SourceSelector::FlowLabel(7),
        1 => SourceSelector::Port(0),
        port => SourceSelector::Port(4_000 + port as u16 % 2),
    };
    FilterSpec { source, selector }
}

fn tspec(draw: &mut Draw<'_>) -> TokenBucket {
    TokenBucket {
        rate: number(draw),
        depth: draw.one_of(&[3_000.0, 0.0, f32::INFINITY, f32::NAN, 1e30]),
        peak: draw.one_of(&[f32::INFINITY, 1e6, 0.0, f32::NAN]),
        min_policed_unit: draw.one_of(&[100, 0, 9_000]),
        max_packet_size: draw.one_of(&[1_500, 1_500, 0, 100, u32::MAX]),
    }
}

fn flowspec(draw: &mut Draw<'_>) -> FlowSpec {
    let tspec = tspec(draw);
    match draw.below(3) {
        0 => {
            FlowSpec::Guaranteed(tspec, Rspec { rate: number(draw), slack_us: draw.octet().into() })
        }
        _ => FlowSpec::ControlledLoad(tspec),
    }
}

/// Draws a rate, octets per second.
fn number(draw: &mut Draw<'_>) -> f32 {
    match draw.below(16) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => -1.0,
        3 => f32::from_bits(draw.u32()),
        _ => super::rate(draw).as_octets_per_second(),
    }
}
