//! A valid message of each protocol, as octets, for tests that damage them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_wire::intserv::TokenBucket;
use earmark_wire::qspec::{Parameter, QosObject, Qspec, Value};
use earmark_wire::rsvp::{MessageType, Style};
use earmark_wire::{boomerang, gist, icmp, ipv4, ipv6, ping_nslp, qos_nslp, qspec, rtcp, udp};

use super::intserv::BUCKET;
use super::rsvp;

/// Source of the messages.
pub const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 254);
/// Destination of the messages.
pub const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// Room for the longest of them, octets.
const ROOM: usize = 1_024;

/// Returns a Path of RSVP from [`SOURCE`] for UDP packets to port 4000 of [`DESTINATION`].
pub fn path() -> Vec<u8> {
    let mut parts = rsvp::sample(MessageType::Path, Style::FixedFilter, false);
    parts.session.destination = DESTINATION.into();
    parts.session.port = 4_000;
    parts.hop.address = SOURCE.into();
    if let Some(template) = &mut parts.template {
        template.source = SOURCE.into();
    }
    rsvp::octets(&parts.message())
}

/// Returns a Boomerang message, from MAGIC on: a list of downgrades, and a user id.
///
/// # Panics
/// Never: the message is complete.
pub fn boomerang(family: boomerang::Family) -> Vec<u8> {
    let (source, destination): (IpAddr, IpAddr) = match family {
        boomerang::Family::V4 => (SOURCE.into(), DESTINATION.into()),
        boomerang::Family::V6 => ([1; 16].into(), [2; 16].into()),
    };
    let classifier = boomerang::Keys {
        source,
        destination,
        source_port: 1,
        destination_port: 2,
        protocol: udp::PROTOCOL,
        tos: 0,
        flags: 0,
    };
    let user = boomerang::UserId {
        flags: boomerang::OptionFlags(0),
        user: *b"somebody",
        credential: [7; 8],
    };
    let vector = [boomerang::Rates { forward: 3, reverse: 2 }; 2];
    let message = boomerang::Reservation {
        transaction_id: 1,
        flags: boomerang::Flags(0),
        refresh_interval: 30,
        key: 1,
        classifier,
        mask: boomerang::Shape::exact(family),
        qos: boomerang::Qos::Downgrade { policy: 1, vector: boomerang::Vector::Items(&vector) },
        options: boomerang::Options::Items(&[boomerang::OptionItem::UserId(user)]),
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

/// Returns a ping with these data; the checksum is that of ICMP over IPv4.
///
/// # Panics
/// Never: it has a header.
pub fn echo(data: &[u8]) -> Vec<u8> {
    let mut echo = [&[0; icmp::HEADER], data].concat();
    let header = icmp::PseudoHeader::V4;
    icmp::seal(&mut echo, header, icmp::Kind::Request, 1, 2).expect("it has a header");
    echo
}

/// Returns a QSPEC with two objects.
///
/// # Panics
/// Never: the QSPEC is complete.
pub fn qspec() -> Vec<u8> {
    let bucket = TokenBucket { peak: f32::INFINITY, ..BUCKET };
    let parameters = [
        Parameter::mandatory(Value::Tmod1(bucket)),
        Parameter::optional(Value::PathLatency(5)),
        Parameter::optional(Value::Unknown { id: 77, octets: &[1, 2, 3, 4] }),
    ];
    let sequence = qspec::iana::MessageSequence::TwoWay;
    let qspec = Qspec {
        desired: Some(QosObject::new(&parameters)),
        available: Some(QosObject::new(&parameters[1..])),
        ..Qspec::new(qspec::Procedure { sequence, combination: 0 })
    };
    super::qspec::emit(&qspec)
}

/// Returns a RESERVE of QoS NSLP with [`qspec`].
pub fn reserve() -> Vec<u8> {
    let qspec = qspec();
    super::qos_nslp::emit(&qos_nslp::Message::Reserve(qos_nslp::Reserve {
        flags: qos_nslp::GenericFlags::default(),
        tear: false,
        replace: true,
        rsn: qos_nslp::Rsn { number: 1, epoch: 2 },
        rii: Some(3),
        refresh_period: Some(30_000),
        bound: qos_nslp::BoundSessions::NONE,
        summary: None,
        binding: None,
        info: None,
        classifier: Some(qos_nslp::PacketClassifier(0xe3)),
        qspec: Some(&qspec),
        extra: qos_nslp::Extra::NONE,
    }))
}

/// Returns a message of Ping NSLP with the record of one node.
///
/// # Panics
/// Never: there is room.
pub fn ping(version: ping_nslp::Version) -> Vec<u8> {
    let objects = &ping_nslp::WITH_BANDWIDTH;
    let ping = ping_nslp::Ping { version, hops: 1, sequence: 5, objects, data: &[] };
    let mut octets = vec![0; ROOM];
    let length = ping.emit(&mut octets).expect("it fits");
    let time = ping_nslp::Timestamp { seconds: 1, microseconds: 2 };
    let record = ping_nslp::NodeRecord { address: SOURCE.into(), time, available: Some(3) };
    let length = ping_nslp::append(&mut octets, length, &record).expect("it fits");
    octets.truncate(length);
    octets
}

/// Returns a Query of GIST from [`SOURCE`], with a stack proposal and NSLP data.
///
/// # Panics
/// Never: the message is complete.
pub fn gist_query() -> Vec<u8> {
    let mri = gist::Mri::PathCoupled(gist::PathCoupled {
        source: SOURCE.into(),
        destination: DESTINATION.into(),
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(udp::PROTOCOL),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(1),
        destination_port: Some(2),
        direction: gist::Direction::Downstream,
    });
    let nli = gist::NetworkLayerInformation {
        peer_identity: b"edge1",
        ip_ttl: 63,
        interface_address: SOURCE.into(),
        routing_state_validity: 30_000,
    };
    let profiles = [gist::Profile(&[2, 1]), gist::Profile(&[1])];
    let options = [gist::ProtocolOptions::tcp_query(1), gist::ProtocolOptions::tcp_query(2)];
    let stack = gist::Stack {
        proposal: gist::Profiles::new(&profiles),
        configuration: gist::StackConfiguration {
            hold_time: 30_000,
            options: gist::ProtocolOptionsList::new(&options),
        },
    };
    let data = reserve();
    let body = gist::Body::Query(gist::Query {
        nat_traversal: None,
        mri,
        session: gist::SessionId([7; 16]),
        nli,
        query_cookie: b"cookie!!",
        stack: Some(stack),
        nslp_data: Some(&data[..12]),
    });
    let extensions = gist::Extensions::NONE;
    let message = gist::Message { hops: 8, nslpid: 1, source_is_peer: true, body, extensions };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

/// Returns a compound with YESSIR: GENERIC, a flowspec of a codec, LINK_INFO and a note; with BYE if asked for.
///
/// # Panics
/// Never: there is room.
pub fn yessir(goodbye: bool) -> Vec<u8> {
    let sender = rtcp::SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let report = rtcp::SenderReport { ssrc: 7, sender, blocks: &[], extension: &[] };
    let mut compound = vec![0; 28];
    rtcp::Packet::SenderReport(report).emit(&mut compound).expect("it fits");
    compound.extend([0x81, 204, 0, 16, 0, 0, 0, 7]);
    compound.extend(b"YSSR");
    compound.extend([1, 0, 0, 12, 1, 1, 0, 30, 0, 0, 0, 5]);
    compound.extend([3, 0, 0, 8, 0, 1, 0, 0]);
    compound.extend([6, 64, 0, 16, 1, 0, 5, 220, 0x46, 0x1c, 0x40, 0, 0, 0, 0, 9]);
    compound.extend([7, 0, 0, 20, 1, 0, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 10, 0, 0, 9]);
    if goodbye {
        compound.extend([0x81, 203, 0, 1, 0, 0, 0, 7]);
    }
    compound
}

/// Returns a UDP packet from [`SOURCE`] to [`DESTINATION`], with the same port at both ends.
///
/// # Panics
/// The payload is too long for UDP.
pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = [&[0; udp::HEADER], payload].concat();
    let (source, destination) = (SOURCE.into(), DESTINATION.into());
    let header = udp::Repr { source, destination, source_port: port, destination_port: port };
    header.emit(&mut octets).expect("it is short");
    octets
}

/// Returns an IPv4 packet from [`SOURCE`] to [`DESTINATION`] with router alert.
///
/// # Panics
/// The payload is too long for IPv4.
pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr {
        tos: 0xc0,
        identification: 1,
        dont_fragment: false,
        ttl: 63,
        protocol,
        source: SOURCE,
        destination: DESTINATION,
        router_alert: Some(0),
        payload_len: payload.len(),
    };
    let mut octets = vec![0; header.header_len()];
    header.emit(&mut octets).expect("it is short");
    octets.extend(payload);
    octets
}

/// Returns an IPv6 packet with router alert.
///
/// # Panics
/// The payload is too long for IPv6.
pub fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 128 + payload.len()];
    let header = ipv6::Repr {
        traffic_class: 0xc0,
        flow_label: 1,
        hop_limit: 64,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
        router_alert: Some(1),
        next_header: protocol,
        payload_len: payload.len(),
    };
    let length = header.emit(&mut packet).expect("it fits");
    packet.truncate(length + payload.len());
    packet
}
