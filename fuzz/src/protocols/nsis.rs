//! NSIS: sessions of QoS NSLP and Ping NSLP, and messages of GIST of every type with messages of both in them. The
//! stranger also answers the handshakes of the nodes, so that it becomes a peer with routing state.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Flow, Rate};
use earmark_node::{Command, NodeConfig};
use earmark_nsis::gist::Installation;
use earmark_nsis::nslp::Attributes;
use earmark_nsis::{self as nsis, PORT, ping, qos};
use earmark_wire::gist::{
    Body, Confirm, Continuation, Data, Direction, Error, ErrorClass, ErrorCode, ErrorData,
    Extensions, Hello, Infos, LooseEnd, Message, Mode, Mri, NetworkLayerInformation, PathCoupled,
    Profile, Profiles, ProtocolOptions, ProtocolOptionsList, Query, ResponderPart, Response,
    Returned, SessionId, Stack, StackConfiguration, datagram, emit_magic,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::ping_nslp::{Ping, Version, WITH_BANDWIDTH, iana as ping_iana};
use earmark_wire::qos_nslp::{self, Answers, Extra, GenericFlags, InfoSpec, Outcome, Rsn};
use earmark_wire::qspec::iana::MessageSequence;
use earmark_wire::qspec::{Parameter, Procedure, QosObject, Qspec, Value};
use earmark_wire::udp;

use super::Protocol;
use crate::draw::Draw;
use crate::invariants::Limits;
use crate::network::Network;
use crate::packet::Packet;
use crate::steps::interface_of;
use crate::topology::{self, NODES, STRANGER};

/// NSIS, with the messages of some applications.
pub struct Nsis {
    /// Draws a message of an application.
    pub(super) data: fn(&mut Draw<'_>) -> Option<Vec<u8>>,
    /// NSLPIDs of messages.
    pub(super) nslpids: &'static [u16],
}

/// NSIS with QoS NSLP and Ping NSLP.
pub const NSIS: Nsis =
    Nsis { data: application_data, nslpids: &[1, 1, 1, ping_iana::NSLPID, 2, 40_000] };

impl Protocol for Nsis {
    fn configure(&self, draw: &mut Draw<'_>, config: &mut NodeConfig) -> Limits {
        let options = draw.octet();
        let set = |bit: u8| options >> bit & 1 == 1;
        let (sessions, states) = (draw.one_of(&[6_u32, 1]), draw.one_of(&[16_u32, 2]));
        let gist = &mut config.nsis.gist;
        let installations =
            [Installation::Delayed, Installation::Immediate, Installation::Confirmed];
        gist.installation = draw.one_of(&installations);
        gist.limits.states = states;
        gist.limits.peers = draw.one_of(&[8, 2]);
        gist.limits.associations = draw.one_of(&[4, 1]);
        gist.limits.half_open = 4;
        gist.limits.waiting_messages = 2;
        gist.stateless_data = set(0);
        gist.ingress_filter = set(1);
        gist.own_source = set(2);
        gist.piggyback = !set(3);
        gist.associations.require.reliable = set(4);
        let limits = vec![
            ("qos_nslp", "sessions", sessions as usize),
            ("gist", "routing_states", states as usize),
            ("gist", "associations", gist.limits.associations as usize),
            ("gist", "peers", gist.limits.peers as usize),
        ];
        let qos = &mut config.nsis.qos;
        qos.refresh = Duration::from_secs(draw.one_of(&[30, 2]));
        qos.limits.sessions = sessions;
        qos.limits.waiting = 2;
        qos.summary = if set(5) { 4 } else { 0 };
        qos.acknowledge = set(6);
        qos.reduced_refresh = !set(7);
        config.nsis.ping.applications = 2;
        config.nsis.ping.outstanding = 3;
        limits
    }

    fn command(&self, draw: &mut Draw<'_>, _: usize, application: u64) -> Command {
        let id = qos::Application(application);
        let command = match draw.below(8) {
            0 => {
                let mut request = ping::Request::new(topology::destination(draw));
                request.bandwidth = draw.flag();
                request.count = Some(draw.octet().into());
                request.attributes = attributes(draw);
                request.version = if draw.flag() { Version::V1 } else { Version::V2 };
                let application = ping::Application(application);
                return Command::Nsis(nsis::Command::Ping(ping::Command::Ping {
                    application,
                    request,
                }));
            }
            1 => qos::Command::Modify { application: id, qos: requested(draw) },
            2 => qos::Command::Query { application: id, request: request(draw) },
            3 => qos::Command::Invite { application: id, request: request(draw) },
            4 => {
                let listen = qos::Listen {
                    destination: draw.maybe(topology::destination),
                    protocol: draw.maybe(|_| udp::PROTOCOL),
                    port: None,
                    most: draw.maybe(super::rate),
                    reverse: draw.maybe(requested),
                    token: None,
                };
                qos::Command::Listen { application: id, listen }
            }
            _ => qos::Command::Reserve { application: id, request: request(draw) },
        };
        Command::Nsis(nsis::Command::Qos(command))
    }

    fn release(&self, application: u64) -> Vec<Command> {
        let qos = qos::Command::Release { application: qos::Application(application) };
        let ping = ping::Command::Release { application: ping::Application(application) };
        [nsis::Command::Qos(qos), nsis::Command::Ping(ping)].map(Command::Nsis).into()
    }

    fn message(&self, draw: &mut Draw<'_>, network: &Network) -> Option<Packet> {
        let to = draw.below(NODES);
        let interface = interface_of(to, draw);
        let neighbour = topology::peer(to, interface).unwrap_or(STRANGER);
        let source = topology::v4(interface.0, neighbour);
        let octets = self.built(draw, network, source, Mode::D)?;
        let like = topology::destination(draw);
        let destination = match draw.below(3) {
            0 => like,
            _ => network.hosts[to].interface(interface.0).address_like(source)?,
        };
        let source = if destination.is_ipv6() {
            topology::v6(interface.0, neighbour)
        } else if draw.below(8) == 0 {
            topology::source(draw, destination)
        } else {
            source
        };
        let mut payload = vec![0; udp::HEADER + 4 + octets.len()];
        emit_magic(&mut payload[udp::HEADER..]).ok()?.copy_from_slice(&octets);
        let header = udp::Repr { source, destination, source_port: PORT, destination_port: PORT };
        header.emit(&mut payload).ok()?;
        Some(Packet {
            to,
            interface,
            protocol: udp::PROTOCOL,
            source,
            destination,
            ttl: draw.one_of(&[64, 63, 1, 255]),
            router_alert: draw.flag(),
            payload,
        })
    }

    /// A Query for an application that the node does not serve is forwarded unread, with a lower hop count and another
    /// checksum.
    fn is_forwarded(&self, received: &[u8], sent: &[u8]) -> bool {
        const CHECKSUM: usize = 6;
        let hops = udp::HEADER + 5;
        received.starts_with(sent)
            || received.len() >= sent.len()
                && received.iter().zip(sent).enumerate().all(|(at, (received, sent))| {
                    received == sent || [CHECKSUM, CHECKSUM + 1, hops].contains(&at)
                })
    }

    fn is_message(&self, packet: &Packet) -> bool {
        udp::Packet::parse(&packet.payload).is_ok_and(|udp| {
            let message = datagram(udp.payload).map(|octets| Message::parse(octets, Mode::D));
            let checksum = udp.verify(packet.source, packet.destination);
            checksum == udp::Checksum::Valid && matches!(message, Some(Ok(_)))
        })
    }

    fn ip_protocol(&self, _: IpAddr) -> u8 {
        udp::PROTOCOL
    }

    fn framed(&self, octets: &[u8]) -> Vec<u8> {
        let front = [1, 14, 1, 14, 0, 0, 0, 0, 0x4e, 0x04, 0xbd, 0xa5];
        [&front[..], octets].concat()
    }

    fn stream(&self, draw: &mut Draw<'_>, network: &Network) -> Vec<u8> {
        let source = topology::v4(3, STRANGER);
        let mut octets = match draw.below(4) {
            0 => draw.take(24).to_vec(),
            _ => self.built(draw, network, source, Mode::C).unwrap_or_default(),
        };
        if draw.below(8) == 0 {
            octets.truncate(draw.octet().into());
        }
        octets
    }

    fn port(&self) -> u16 {
        PORT
    }
}

pub(super) fn attributes(draw: &mut Draw<'_>) -> Attributes {
    Attributes { reliable: draw.flag(), secure: draw.below(8) == 0 }
}

fn requested(draw: &mut Draw<'_>) -> qos::RequestedQos {
    let mut qos = qos::RequestedQos::of(super::rate(draw));
    qos.minimum = draw.maybe(super::rate);
    qos.peak = draw.maybe(|_| Rate::from_mbps(50));
    if draw.below(8) == 0 {
        (qos.burst, qos.max_packet) = (draw.octet().into(), 9_000);
    }
    qos
}

fn request(draw: &mut Draw<'_>) -> qos::Request {
    let destination = topology::destination(draw);
    let flow = Flow {
        destination,
        source: draw.maybe(|draw| topology::source(draw, destination)),
        protocol: udp::PROTOCOL,
        destination_port: 5_000 + u16::from(draw.octet() & 1),
        source_port: 4_000,
        flow_label: 0,
        spi: 0,
        destination_open: draw.one_of(&[0, 0, 0, 8]),
        source_open: 0,
        dscp: 0,
    };
    let mut request = qos::Request::new(flow, requested(draw));
    request.session = draw.maybe(session);
    request.attributes = draw.maybe(attributes);
    request.keep_old_branch = draw.flag();
    request.scope = draw.one_of(&[qos::Scope::Path, qos::Scope::NextHop, qos::Scope::Proxy]);
    if draw.flag() {
        let (binding, session) = (BINDINGS[draw.below(BINDINGS.len())], session(draw));
        request.bound = vec![qos_nslp::BoundSessionId { binding: binding(), session }];
    }
    request
}

/// Binding codes of RFC 5974 section 5.1.3.4.
const BINDINGS: [fn() -> qos_nslp::iana::BindingCode; 4] = [
    || qos_nslp::iana::BindingCode::from_code(1),
    || qos_nslp::iana::BindingCode::from_code(2),
    || qos_nslp::iana::BindingCode::from_code(3),
    || qos_nslp::iana::BindingCode::from_code(9),
];

fn message_id(draw: &mut Draw<'_>) -> qos_nslp::MessageId {
    qos_nslp::MessageId { bidirectional: draw.flag(), id: [draw.octet() & 1; 16] }
}

pub(super) fn session(draw: &mut Draw<'_>) -> SessionId {
    SessionId([1 + draw.octet() % 3; 16])
}

impl Nsis {
    /// Draws a message of GIST, or the stranger's answer to the last one that it has received.
    fn built(
        &self,
        draw: &mut Draw<'_>,
        network: &Network,
        address: IpAddr,
        mode: Mode,
    ) -> Option<Vec<u8>> {
        let data = (self.data)(draw)?;
        let nslp_data = draw.maybe(|_| &data[..]);
        let nslpid = draw.one_of(self.nslpids);
        let nli = NetworkLayerInformation {
            peer_identity: draw.one_of(&[b"evil", b"peer"]),
            ip_ttl: draw.one_of(&[64, 63, 0]),
            interface_address: address,
            routing_state_validity: draw.one_of(&[30_000, 0, 1_000, u32::MAX]),
        };
        let received = network.at_stranger.back().and_then(|packet| {
            let packet = udp::Packet::parse(&packet.payload).ok()?;
            Message::parse(datagram(packet.payload)?, Mode::D).ok()
        });
        let profiles = [Profile(&[2, 1]), Profile(&[1])];
        let port = PORT.to_be_bytes();
        let (asks, answers) = (
            [ProtocolOptions::tcp_query(1), ProtocolOptions::tcp_query(2)],
            [ProtocolOptions::tcp_response(1, &port), ProtocolOptions::tcp_response(2, &port)],
        );
        let first = usize::from(draw.flag());
        let stack = |options| Stack {
            proposal: Profiles::new(&profiles[first..]),
            configuration: StackConfiguration {
                hold_time: 30_000,
                options: ProtocolOptionsList::new(options),
            },
        };
        let cookie = [draw.octet() & 3; 8];
        let of_answer = draw.octet();
        let body = match received.map(|message| message.body) {
            Some(Body::Response(response)) if of_answer & 3 != 0 => Body::Confirm(Confirm {
                mri: response.mri.inverted(),
                session: response.session,
                nli,
                returned: response.responder.map(|part| Returned {
                    cookie: part.cookie,
                    proposal: part.stack.map(|stack| stack.proposal),
                    configuration: part
                        .stack
                        .filter(|_| mode == Mode::C)
                        .map(|stack| stack.configuration),
                }),
                nslp_data,
            }),
            Some(Body::Query(query)) if of_answer & 3 != 0 => Body::Response(Response {
                nat_traversal: None,
                mri: query.mri.inverted(),
                session: query.session,
                nli,
                query_cookie: query.query_cookie,
                responder: draw.maybe(|_| ResponderPart {
                    cookie: &cookie,
                    stack: query.stack.map(|_| stack(&answers[first..])),
                }),
                confirm_requested: of_answer & 4 != 0,
                nslp_data,
            }),
            Some(Body::Data(sent)) if of_answer & 3 == 1 => Body::Data(Data {
                mri: sent.mri.inverted(),
                nli: Some(nli),
                nslp_data: &data,
                ..sent
            }),
            _ => {
                let (mri, session) = (mri(draw), session(draw));
                match draw.below(8) {
                    0..=2 => Body::Query(Query {
                        nat_traversal: None,
                        mri,
                        session,
                        nli,
                        query_cookie: &cookie,
                        stack: draw.maybe(|_| stack(&asks[first..])),
                        nslp_data,
                    }),
                    3 => Body::Response(Response {
                        nat_traversal: None,
                        mri,
                        session,
                        nli,
                        query_cookie: &cookie,
                        responder: None,
                        confirm_requested: draw.flag(),
                        nslp_data,
                    }),
                    4 => Body::Error(Error {
                        nat_traversal: None,
                        nli: (mode == Mode::D).then_some(nli),
                        error: ErrorData {
                            code: ErrorCode::from_code(draw.octet().into()),
                            subcode: draw.octet() & 7,
                            class: ErrorClass::from_code(draw.octet() & 7),
                            d_mode: true,
                            q_mode: draw.flag(),
                            original: [1, 8, 0, 20, 0, 1, draw.octet() & 7, 0],
                            session: Some(session),
                            mri: Some(mri),
                            infos: Infos::NONE,
                            comment: None,
                        },
                    }),
                    5 => {
                        Body::Hello(Hello { id: draw.octet().into(), reply_requested: draw.flag() })
                    }
                    _ => Body::Data(Data {
                        nat_traversal: None,
                        mri,
                        session,
                        nli: (mode == Mode::D).then_some(nli),
                        nslp_data: &data,
                        continuation: Continuation::NONE,
                        context_free: mode == Mode::D && draw.flag(),
                        explicitly_routed: draw.below(8) == 0,
                    }),
                }
            }
        };
        let hops = draw.one_of(&[8, 64, 1, 0]);
        let source_is_peer = draw.flag();
        let message = Message { hops, nslpid, source_is_peer, body, extensions: Extensions::NONE };
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets).ok()?;
        Some(octets)
    }
}

fn mri(draw: &mut Draw<'_>) -> Mri {
    let destination = topology::destination(draw);
    let source = topology::source(draw, destination);
    let direction = if draw.below(4) == 0 { Direction::Upstream } else { Direction::Downstream };
    if draw.below(16) == 0 {
        return Mri::LooseEnd(LooseEnd { source, destination, direction });
    }
    let bits = if source.is_ipv4() { 32 } else { 128 };
    Mri::PathCoupled(PathCoupled {
        source,
        destination,
        source_prefix: bits,
        destination_prefix: bits - draw.one_of(&[0, 0, 0, 8, 28]),
        protocol: Some(udp::PROTOCOL),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(4_000),
        destination_port: Some(5_000 + u16::from(draw.octet() & 1)),
        direction,
    })
}

/// Draws a message of QoS NSLP or Ping NSLP.
fn application_data(draw: &mut Draw<'_>) -> Option<Vec<u8>> {
    if draw.below(8) == 0 {
        let data = [0; 24];
        let ping = Ping {
            version: if draw.flag() { Version::V1 } else { Version::V2 },
            hops: draw.octet(),
            sequence: draw.octet().into(),
            objects: &WITH_BANDWIDTH,
            data: &data[..0],
        };
        let mut octets = vec![0; ping.buffer_len()];
        ping.emit(&mut octets).ok()?;
        octets.resize(octets.len().next_multiple_of(4), 0);
        return Some(octets);
    }
    let qspec = qspec(draw)?;
    let flags = draw.octet();
    let set = |bit: u8| flags >> bit & 1 == 1;
    let rsn = Rsn { number: u32::from(draw.octet() & 3), epoch: u32::from(draw.octet() & 1) };
    let rii = draw.maybe(|draw| u32::from(draw.octet() & 3));
    let bound: Vec<qos_nslp::BoundSessionId> = draw.list(1, |draw| qos_nslp::BoundSessionId {
        binding: BINDINGS[draw.below(BINDINGS.len())](),
        session: session(draw),
    });
    let bound = qos_nslp::BoundSessions::Items(&bound);
    let generic = GenericFlags {
        scoping: set(0),
        proxy: set(1),
        ack_req: set(2) && rii.is_none(),
        breaks: set(3),
    };
    let info = InfoSpec::new(Outcome::from_codes(draw.octet() & 7, draw.octet() & 15));
    let sessions = [[1; 16], [2; 16]];
    let numbers = [[0, 0, 0, draw.octet()], [0, 0, 0, 1]];
    let summary = draw.maybe(|draw| qos_nslp::Summary {
        sessions: &sessions,
        rsns: draw.maybe(|_| qos_nslp::RsnList { epoch: rsn.epoch, wire: &numbers }),
    });
    let message = match draw.below(6) {
        0..=2 => qos_nslp::Message::Reserve(qos_nslp::Reserve {
            flags: generic,
            tear: set(4) && set(5),
            replace: set(6),
            rsn,
            rii,
            refresh_period: draw.maybe(|draw| draw.one_of(&[30_000, 0, 1, 1_000, u32::MAX])),
            bound,
            summary,
            binding: draw.maybe(|draw| match draw.flag() {
                true => qos_nslp::MessageBinding::Id(message_id(draw)),
                false => qos_nslp::MessageBinding::Bound(message_id(draw)),
            }),
            info: None,
            classifier: None,
            qspec: (!set(7)).then_some(&qspec),
            extra: Extra::NONE,
        }),
        3 => qos_nslp::Message::Query(qos_nslp::Query {
            flags: generic,
            reserve_init: rii.is_none() || set(4),
            rii,
            bound,
            classifier: None,
            info: None,
            qspec: &qspec,
            second_qspec: None,
            extra: Extra::NONE,
        }),
        4 => qos_nslp::Message::Response(qos_nslp::Response {
            flags: GenericFlags { ack_req: false, ..generic },
            answers: rii.map(Answers::Rii).or(Some(Answers::Rsn(rsn))),
            info,
            summary,
            qspec: (!set(7)).then_some(&qspec),
            extra: Extra::NONE,
        }),
        _ => qos_nslp::Message::Notify(qos_nslp::Notify {
            flags: GenericFlags { ack_req: false, ..generic },
            info,
            qspec: (!set(7)).then_some(&qspec),
            extra: Extra::NONE,
        }),
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).ok()?;
    Some(octets)
}

fn qspec(draw: &mut Draw<'_>) -> Option<Vec<u8>> {
    let bucket = |draw: &mut Draw<'_>| TokenBucket {
        rate: super::rate(draw).as_octets_per_second(),
        depth: draw.one_of(&[3_000.0, f32::NAN, 1e30]),
        peak: draw.one_of(&[f32::INFINITY, 1e6]),
        min_policed_unit: 100,
        max_packet_size: draw.one_of(&[1_500, 9_000, 0]),
    };
    let [desired, other] = [bucket(draw), bucket(draw)];
    let desired = [Parameter::mandatory(Value::Tmod1(desired))];
    let other =
        [Parameter::mandatory(Value::Tmod1(other)), Parameter::optional(Value::PathLatency(7))];
    let sequences =
        [MessageSequence::TwoWay, MessageSequence::ThreeWay, MessageSequence::ResourceQuery];
    let procedure = Procedure { sequence: draw.one_of(&sequences), combination: draw.octet() & 3 };
    let objects = draw.octet();
    let object =
        |bit: u8, parameters| (objects >> bit & 1 == 1).then_some(QosObject::new(parameters));
    let qspec = Qspec {
        desired: object(0, &desired)
            .or(Some(QosObject::new(&desired)).filter(|_| objects & 0x80 == 0)),
        available: object(1, &other),
        reserved: object(2, &other[..1]),
        minimum: object(3, &other[..1]),
        ..Qspec::new(procedure)
    };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).ok()?;
    Some(octets)
}
