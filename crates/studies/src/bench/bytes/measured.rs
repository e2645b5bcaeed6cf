//! Octets of Earmark's own messages: the messages of the paper, written and taken apart into parts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_wire::gist::{
    self, Body, Confirm, Continuation, Data, Direction, Extensions, MAGIC_LEN, Mri,
    NetworkLayerInformation, ObjectType, PathCoupled, Profile, Profiles, ProtocolId,
    ProtocolOptions, ProtocolOptionsList, Query, ResponderPart, Response, Returned, SessionId,
    Stack, StackConfiguration,
};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::qos_nslp::iana::Success;
use earmark_wire::qos_nslp::{
    self, BoundSessions, ErrorSource, Extra, GenericFlags, InfoSpec, Outcome, Rsn,
};
use earmark_wire::rsvp::{
    self, Carried, FilterSpec, FixedFilterFlow, FlowDescriptors, List, ObjectClass, RsvpHop,
    SenderDescriptor, SourceSelector,
};
use earmark_wire::{ipv4, ipv6, nsis, udp};

use super::paper::{Nslp, Version};
use super::{Message, Part, Parts};

/// Octets of the header of an object of NSIS.
pub(super) const OBJECT_HEADER: u32 = nsis::object::HEADER as u32;

/// Octets of TCP's header without options; the notes give those of Linux.
const TCP: u32 = 20;
/// Octets of TCP's option for the maximum segment size.
const SEGMENT_SIZE: u32 = 4;
/// A cookie of the length that the paper counts, without the object's header.
const COOKIE: [u8; 32] = [0xa5; 32];

/// Octets of a message, part by part, without payload.
pub(super) fn parts(message: Message, version: Version) -> Parts {
    match message {
        Message::TcpSyn => tcp(version, TCP + SEGMENT_SIZE),
        Message::TcpAck => tcp(version, TCP),
        Message::RsvpPath => rsvp(version, true, &path(version)),
        Message::RsvpResv => rsvp(version, false, &resv(version)),
        _ => gist_message(message, version),
    }
}

/// Octets of the headers of a QoS NSLP message, without QSPEC.
pub(super) fn qos_nslp(message: Nslp) -> u32 {
    let flags = GenericFlags::default();
    let message = match message {
        Nslp::Reserve => qos_nslp::Message::Reserve(qos_nslp::Reserve {
            flags,
            tear: false,
            replace: false,
            rsn: Rsn { number: 1, epoch: 1 },
            rii: None,
            refresh_period: None,
            bound: BoundSessions::NONE,
            summary: None,
            binding: None,
            info: None,
            classifier: None,
            qspec: None,
            extra: Extra::NONE,
        }),
        Nslp::Response => qos_nslp::Message::Response(qos_nslp::Response {
            flags,
            answers: None,
            info: InfoSpec {
                source: Some(ErrorSource::Ipv4(Ipv4Addr::LOCALHOST)),
                ..InfoSpec::new(Outcome::Success(Success::Reservation))
            },
            summary: None,
            qspec: None,
            extra: Extra::NONE,
        }),
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it is right, and the buffer long enough") as u32
}

fn addresses(version: Version) -> [IpAddr; 2] {
    match version {
        Version::V4 => [[192, 0, 2, 1], [198, 51, 100, 1]].map(|it| Ipv4Addr::from(it).into()),
        Version::V6 => [1, 2].map(|host| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into()),
    }
}

/// Octets of the IP header.
fn ip(version: Version, router_alert: bool) -> u32 {
    let mut buffer = [0; 64];
    let length = match addresses(version) {
        [IpAddr::V4(source), IpAddr::V4(destination)] => ipv4::Repr {
            tos: 0,
            identification: 0,
            dont_fragment: false,
            ttl: 64,
            protocol: udp::PROTOCOL,
            source,
            destination,
            router_alert: router_alert.then_some(0),
            payload_len: 0,
        }
        .emit(&mut buffer),
        [IpAddr::V6(source), IpAddr::V6(destination)] => ipv6::Repr {
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            source,
            destination,
            router_alert: router_alert.then_some(0),
            next_header: udp::PROTOCOL,
            payload_len: 0,
        }
        .emit(&mut buffer),
        _ => unreachable!("both are of one family"),
    };
    length.expect("the buffer is long enough") as u32
}

fn tcp(version: Version, header: u32) -> Parts {
    Parts::from([(Part::Ip, ip(version, false)), (Part::Transport, header)])
}

/// A flow with the fewest fields, as in the paper: its destination port, or its flow label.
fn flow(version: Version) -> Mri {
    let [source, destination] = addresses(version);
    let is_v4 = version == Version::V4;
    let prefix = if is_v4 { 32 } else { 128 };
    Mri::PathCoupled(PathCoupled {
        source,
        destination,
        source_prefix: prefix,
        destination_prefix: prefix,
        protocol: is_v4.then_some(udp::PROTOCOL),
        ds_field: None,
        flow_label: (!is_v4).then_some(0x12345),
        spi: None,
        source_port: None,
        destination_port: is_v4.then_some(5_004),
        direction: Direction::Downstream,
    })
}

/// Parameters common to the messages of a handshake.
struct Handshake<'a> {
    mri: Mri,
    session: SessionId,
    nli: NetworkLayerInformation<'a>,
}

impl Handshake<'_> {
    fn query<'a>(&'a self, stack: Option<Stack<'a>>) -> Body<'a> {
        let Handshake { mri, session, nli } = *self;
        let (nat_traversal, nslp_data) = (None, None);
        Body::Query(Query {
            nat_traversal,
            mri,
            session,
            nli,
            query_cookie: &COOKIE,
            stack,
            nslp_data,
        })
    }

    fn response<'a>(&'a self, stack: Option<Stack<'a>>) -> Body<'a> {
        Body::Response(Response {
            nat_traversal: None,
            mri: self.mri.inverted(),
            session: self.session,
            nli: self.nli,
            query_cookie: &COOKIE,
            responder: Some(ResponderPart { cookie: &COOKIE, stack }),
            confirm_requested: true,
            nslp_data: None,
        })
    }

    /// A Confirm, with the repeated proposal and configuration.
    fn confirm<'a>(
        &'a self,
        proposal: Option<Profiles<'a>>,
        configuration: Option<StackConfiguration<'a>>,
    ) -> Body<'a> {
        let Handshake { mri, session, nli } = *self;
        let returned = Some(Returned { cookie: &COOKIE, proposal, configuration });
        Body::Confirm(Confirm { mri, session, nli, returned, nslp_data: None })
    }

    fn data<'a>(&'a self, nli: Option<NetworkLayerInformation<'a>>) -> Body<'a> {
        Body::Data(Data {
            nat_traversal: None,
            mri: self.mri,
            session: self.session,
            nli,
            nslp_data: &[],
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        })
    }
}

fn gist_message(message: Message, version: Version) -> Parts {
    let [address, _] = addresses(version);
    let identity = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let nli = NetworkLayerInformation {
        peer_identity: &identity,
        ip_ttl: 64,
        interface_address: address,
        routing_state_validity: 180_000,
    };
    let of = Handshake { mri: flow(version), session: SessionId([7; 16]), nli };
    let profiles = [Profile(&[1])]; // Forwards-TCP
    assert_eq!(ProtocolId::from_code(1), ProtocolId::ForwardsTcp);
    let port = 30_000_u16.to_be_bytes();
    let options = match message {
        Message::QueryWithStack => [ProtocolOptions::tcp_query(0)],
        _ => [ProtocolOptions::tcp_response(0, &port)],
    };
    let configuration = |options| StackConfiguration {
        hold_time: 60_000,
        options: ProtocolOptionsList::new(options),
    };
    let proposal = Profiles::new(&profiles);
    let stack = Stack { proposal, configuration: configuration(&options) };
    let (body, is_datagram) = match message {
        Message::Query => (of.query(None), true),
        Message::QueryWithStack => (of.query(Some(stack)), true),
        Message::Response => (of.response(None), true),
        Message::ResponseOverTcp => (of.response(Some(stack)), false),
        Message::ResponseOverExisting => (of.response(None), false),
        Message::Confirm => (of.confirm(None, None), true),
        Message::ConfirmOverTcp => (of.confirm(Some(proposal), Some(configuration(&[]))), false),
        Message::ConfirmOverExisting => (of.confirm(None, None), false),
        Message::Data => (of.data(Some(nli)), true),
        Message::DataOverTcp => (of.data(None), false),
        Message::TcpSyn | Message::TcpAck | Message::RsvpPath | Message::RsvpResv => {
            unreachable!("these are none of GIST's")
        }
    };
    let is_query = matches!(body, Body::Query(_));
    let mut parts = Parts::from([(Part::Ip, ip(version, is_query))]);
    if is_datagram {
        parts.extend([(Part::Transport, udp::HEADER as u32), (Part::Magic, MAGIC_LEN as u32)]);
    } else {
        parts.insert(Part::Transport, TCP);
    }
    take_apart(body, &mut parts);
    parts
}

fn take_apart(body: Body<'_>, parts: &mut Parts) {
    let message = gist::Message {
        hops: 64,
        nslpid: 1,
        source_is_peer: true,
        body,
        extensions: Extensions::NONE,
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it is right, and the buffer long enough");
    parts.insert(Part::Header, gist::HEADER as u32);
    for object in nsis::objects(&octets[gist::HEADER..], 0) {
        let object = object.expect("it was just written");
        let part = match ObjectType::from_code(object.object_type()) {
            ObjectType::MessageRoutingInformation => Part::Mri,
            ObjectType::SessionId => Part::Session,
            ObjectType::NetworkLayerInformation => Part::Nli,
            ObjectType::StackProposal => Part::StackProposal,
            ObjectType::StackConfigurationData => Part::StackConfiguration,
            ObjectType::QueryCookie => Part::QueryCookie,
            ObjectType::ResponderCookie => Part::ResponderCookie,
            ObjectType::NslpData => Part::NslpData,
            other => unreachable!("{other:?} is in none of the messages"),
        };
        parts.insert(part, object.octets().len() as u32);
    }
}

const BUCKET: TokenBucket = TokenBucket {
    rate: 8_000.0,
    depth: 3_000.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

/// Session and sender of RSVP.
fn names(version: Version) -> (rsvp::Session, FilterSpec) {
    let [source, destination] = addresses(version);
    let session = rsvp::Session { destination, protocol: udp::PROTOCOL, flags: 0, port: 5_004 };
    (session, FilterSpec { source, selector: SourceSelector::Port(4_000) })
}

fn path(version: Version) -> Vec<u8> {
    let (session, template) = names(version);
    let [address, _] = addresses(version);
    written(rsvp::Body::Path(rsvp::Path {
        session,
        hop: RsvpHop { address, lih: 1 },
        refresh_ms: 30_000,
        carried: Carried::Objects(&[]),
        sender: SenderDescriptor { template, tspec: BUCKET, adspec: None },
    }))
}

fn resv(version: Version) -> Vec<u8> {
    let (session, filter) = names(version);
    let [_, address] = addresses(version);
    let flow = FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(BUCKET)), filter };
    written(rsvp::Body::Resv(rsvp::Resv {
        session,
        hop: RsvpHop { address, lih: 1 },
        refresh_ms: 30_000,
        confirm: None,
        scope: None,
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
    }))
}

fn written(body: rsvp::Body<'_>) -> Vec<u8> {
    let message = rsvp::Message::new(64, body);
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it is right, and the buffer long enough");
    octets
}

/// Octets of an RSVP message, part by part; its traffic parameters (SENDER_TSPEC, FLOWSPEC) are payload.
fn rsvp(version: Version, router_alert: bool, message: &[u8]) -> Parts {
    const HEADER: usize = 8;
    let header = [(Part::Ip, ip(version, router_alert)), (Part::Header, HEADER as u32)];
    let mut parts = Parts::from(header);
    let mut rest = &message[HEADER..];
    while let [high, low, class, ..] = *rest {
        let length = u16::from_be_bytes([high, low]);
        let part = match ObjectClass::from_code(class) {
            ObjectClass::Session => Some(Part::Session),
            ObjectClass::RsvpHop => Some(Part::Hop),
            ObjectClass::TimeValues => Some(Part::TimeValues),
            ObjectClass::Style => Some(Part::Style),
            ObjectClass::FilterSpec | ObjectClass::SenderTemplate => Some(Part::Sender),
            _ => None,
        };
        parts.extend(part.map(|part| (part, u32::from(length))));
        rest = &rest[usize::from(length)..];
    }
    parts
}
