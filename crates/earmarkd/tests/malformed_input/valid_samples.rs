//! Valid samples: every request with all values, and a message of each protocol.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use earmark_control::Identity;
use earmark_control::{
    Answer, Attach, Establish, Expect, Keep, Listen, Listing, Loop, Ping, Release, Request, Send,
    Show, Statistics, Trace,
};
use earmark_core::record::{Octets, RecordedStreamEvent};
use earmark_core::{CloseReason, ConnectionId, Rate, Transport};
use earmark_node::SenderName;
use earmark_wire::gist;
use earmark_wire::icmp::{self, Kind, PseudoHeader};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, Message, Path, RsvpHop, SenderDescriptor, Session, SourceSelector,
};
use earmark_wire::yessir::Flowspec;
use earmark_wire::{ipv4, udp};
use serde_json::{Value, json};

pub(crate) const NEIGHBOR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 254);
pub(crate) const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const RSVP: u8 = 46;

const BUCKET: TokenBucket = TokenBucket {
    rate: 250_000.0,
    depth: 3_000.0,
    peak: 500_000.0,
    min_policed_unit: 64,
    max_packet_size: 1_500,
};

fn far() -> SocketAddr {
    "10.0.9.9:5001".parse().expect("an address")
}

fn near() -> SocketAddr {
    SocketAddr::new(HERE.into(), 4_000)
}

/// Every request that has values, with most of them set.
pub(crate) fn requests() -> Vec<Value> {
    let rate = Rate::from_mbps(1);
    let identity = Identity {
        user: Some("CN=Alice".into()),
        application: Some("APP=voice".into()),
        priority: Some(3),
    };
    let sender = SenderName { address: NEIGHBOR.into(), port: 9, flow_label: None };
    let send = Send {
        from: Some(near()),
        peak_bps: Some(rate),
        identity: identity.clone(),
        hold: true,
        follow: true,
        ..Send::new(far(), rate)
    };
    let listen = Listen { senders: vec![sender], identity, ..Listen::new(near()) };
    let flowspec = Flowspec::Codec { payload_type: 0, frames: 2 };
    let attach = Attach {
        interval_s: Some(30),
        ssrc: Some(7),
        cname: Some("somebody@here".into()),
        key: Some(1),
        ..Attach::new(near(), far(), flowspec)
    };
    let rspec = Rspec { rate: 300_000.0, slack_us: 20 };
    let guaranteed = Flowspec::Intserv(FlowSpec::Guaranteed(BUCKET, rspec));
    let establish = Establish {
        from: Some(near()),
        minimum_bps: Some(rate),
        peak_bps: Some(rate),
        priority: Some(3),
        by_receiver: false,
        ..Establish::new(far(), rate)
    };
    let reverse_bps = Some(rate);
    let statistics = Statistics { application: 1, packets: 2, octets: 3, rtp_timestamp: 4 };
    let typed = [
        Request::Show(Show { what: Listing::Sessions, limit: Some(5) }),
        Request::Send(send.clone()),
        Request::Reserve(send),
        Request::Listen(listen),
        Request::Loop(Loop {
            from: Some(near()),
            interval_s: Some(30),
            ..Loop::new(far(), rate, rate)
        }),
        Request::Attach(attach),
        Request::Attach(Attach::new(SocketAddr::new(HERE.into(), 4_002), far(), guaranteed)),
        Request::Answer(Answer { cname: Some("me@here".into()), ..Answer::new(near()) }),
        Request::Ping(Ping { timeout_ms: Some(500), qos: true, ..Ping::new(far().ip()) }),
        Request::Establish(Establish { by_receiver: true, ..establish.clone() }),
        Request::Establish(establish),
        Request::Expect(Expect { most_bps: Some(rate), reverse_bps, ..Expect::new(near()) }),
        Request::Statistics(statistics),
        Request::Keep(Keep { application: 1 }),
        Request::Trace(Trace {
            from: Some(sender),
            last_hop: Some(NEIGHBOR.into()),
            ..Trace::new(near())
        }),
        Request::Release(Release::Application(1)),
    ];
    let mut requests: Vec<Value> =
        typed.iter().map(|it| serde_json::to_value(it).expect("it can be said")).collect();
    // An application may ask for a delay bound, which has two numbers.
    let ask = json!({ "delay": { "secs": 0, "nanos": 20_000_000 } });
    requests.push(json!({ "listen": { "on": "10.0.1.1:5003", "ask": ask } }));
    requests
}

/// Messages to this host, each with its IP protocol number.
pub(crate) fn messages() -> Vec<(u8, Vec<u8>)> {
    vec![
        (RSVP, path()),
        (icmp::PROTOCOL_V4, boomerang()),
        (udp::PROTOCOL, datagram(5_003, &yessir())),
        (udp::PROTOCOL, datagram(gist::iana::PORT, &query())),
    ]
}

fn path() -> Vec<u8> {
    let source: IpAddr = NEIGHBOR.into();
    let body = Body::Path(Path {
        session: Session { destination: HERE.into(), protocol: 17, flags: 0, port: 4_000 },
        hop: RsvpHop { address: source, lih: 7 },
        refresh_ms: 30_000,
        carried: Carried::NONE,
        sender: SenderDescriptor {
            template: FilterSpec { source, selector: SourceSelector::Port(9) },
            tspec: BUCKET,
            adspec: None,
        },
    });
    let message = Message::new(63, body);
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("the buffer fits");
    octets
}

/// A message in the layout of the specification draft, from MAGIC on, in a ping from the neighbor to this host; and its mask.
fn boomerang() -> Vec<u8> {
    let mut octets = vec![0; icmp::HEADER];
    octets.extend([0x47, 0x11, 0x47, 0x11, 0xde, 0xad, 0xbe, 0xef, 0x10, 0x12, 0, 0]);
    octets.extend([30, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    octets.extend([10, 0, 1, 254, 10, 0, 1, 1, 0x11, 0x11, 0x22, 0x22, 17, 0, 0, 0]);
    octets.extend([255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0]);
    octets.extend([0x00, 0x1e, 0x84, 0x80, 0x00, 0x00, 0xfa, 0x00]);
    icmp::seal(&mut octets, PseudoHeader::V4, Kind::Request, 1, 2).expect("it has a header");
    octets
}

/// A sender report, and an APP packet with GENERIC and a flowspec of a codec.
fn yessir() -> Vec<u8> {
    let mut octets = vec![0x80, 200, 0, 6, 0, 0, 0, 7];
    octets.extend([0; 20]);
    octets.extend([0x81, 204, 0, 7, 0, 0, 0, 7]);
    octets.extend(b"YSSR");
    octets.extend([1, 0, 0, 12, 1, 1, 0, 30, 0, 0, 0, 5]);
    octets.extend([3, 0, 0, 8, 0, 1, 0, 0]);
    octets
}

fn query() -> Vec<u8> {
    let mri = gist::Mri::PathCoupled(gist::PathCoupled {
        source: NEIGHBOR.into(),
        destination: HERE.into(),
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(17),
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
        interface_address: NEIGHBOR.into(),
        routing_state_validity: 30_000,
    };
    let body = gist::Body::Query(gist::Query {
        nat_traversal: None,
        mri,
        session: gist::SessionId([7; 16]),
        nli,
        query_cookie: b"cookie!!",
        stack: None,
        nslp_data: None,
    });
    let extensions = gist::Extensions::NONE;
    let message = gist::Message { hops: 8, nslpid: 1, source_is_peer: true, body, extensions };
    let mut octets = vec![0; gist::MAGIC_LEN + message.buffer_len()];
    message.emit(gist::emit_magic(&mut octets).expect("there is room")).expect("it is right");
    octets
}

/// Events of a connection of GIST: a neighbor opens it, sends data, and closes it.
pub(crate) fn stream_events() -> Vec<RecordedStreamEvent> {
    let connection = ConnectionId(1);
    let (local, peer) = (SocketAddr::new(HERE.into(), 270), SocketAddr::new(NEIGHBOR.into(), 9));
    let transport = Transport::Tcp;
    let octets = Octets(query()[gist::MAGIC_LEN..].to_vec());
    vec![
        RecordedStreamEvent::Open { connection, local, peer, transport },
        RecordedStreamEvent::Data { connection, octets },
        RecordedStreamEvent::Closed { connection, reason: CloseReason::Ended },
    ]
}

fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = [&[0; udp::HEADER][..], payload].concat();
    let (source, destination) = (NEIGHBOR.into(), HERE.into());
    let header = udp::Repr { source, destination, source_port: port, destination_port: port };
    header.emit(&mut octets).expect("it is short");
    octets
}

/// The messages in IPv4 packets.
fn packets() -> Vec<Vec<u8>> {
    let packet = |(protocol, payload): (u8, Vec<u8>)| {
        let header = ipv4::Repr {
            tos: 0,
            identification: 1,
            dont_fragment: false,
            ttl: 63,
            protocol,
            source: NEIGHBOR,
            destination: HERE,
            router_alert: Some(0),
            payload_len: payload.len(),
        };
        let mut octets = vec![0; header.header_len()];
        header.emit(&mut octets).expect("the buffer fits");
        octets.extend(payload);
        octets
    };
    messages().into_iter().map(packet).collect()
}

fn length(octets: &[u8]) -> u32 {
    u32::try_from(octets.len()).expect("short")
}

/// A pcap file, big-endian, of raw IP.
pub(crate) fn pcap() -> Vec<u8> {
    let mut file = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0, 0, 0xff, 0xff, 0, 0, 0, 101]);
    for packet in packets() {
        file.extend([0; 8]);
        file.extend([length(&packet).to_be_bytes(), length(&packet).to_be_bytes()].concat());
        file.extend(packet);
    }
    file
}

/// A pcapng file, little-endian, of raw IP; the last packet is in a simple packet block.
pub(crate) fn pcapng() -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let total = (12 + length(body) + length(&padding)).to_le_bytes();
        [&kind.to_le_bytes()[..], &total, body, &padding, &total].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &[101, 0, 0, 0, 0xff, 0xff, 0, 0]));
    let packets = packets();
    for packet in &packets {
        let size = length(packet).to_le_bytes();
        file.extend(block(6, &[&[0; 12][..], &size, &size, packet].concat()));
    }
    let last = packets.last().expect("there are some");
    file.extend(block(3, &[&length(last).to_le_bytes()[..], last].concat()));
    file
}
