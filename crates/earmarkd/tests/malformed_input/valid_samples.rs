//! Valid samples: every request with all values, and a message of each protocol.

use std::net::SocketAddr;

use earmark_control::protocols::{boomerang, nsis, rsvp, yessir};
use earmark_control::{
    ApplicationId, Expose, Identity, Keep, ListenRequest, Listing, ListingFilter, Open, Ping,
    Release, Request, ReservationRequest, Role, SenderName, Show, Statistics, Trace,
};
use earmark_core::record::RecordedStreamEvent;
use earmark_core::{CloseReason, ConnectionId, Octets, Rate, Transport};
pub(crate) use earmark_testkit::messages::packets::{DESTINATION as HERE, SOURCE as NEIGHBOR};
use earmark_testkit::messages::{self, packets};
use earmark_wire::boomerang::Family;
use earmark_wire::{gist, icmp, udp};
use serde_json::Value;

const RSVP: u8 = 46;

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
        token: None,
    };
    let sender = SenderName { address: NEIGHBOR.into(), port: 9, flow_label: None, spi: None };
    let reserve = ReservationRequest {
        from: Some(near()),
        peak_bps: Some(rate),
        identity: identity.clone(),
        hold: true,
        follow: true,
        ..ReservationRequest::new(far(), rate)
    };
    let send = reserve.clone().with(&rsvp::ReserveOptions { role: Some(Role::Sender) });
    let options = rsvp::ListenOptions { senders: vec![sender], ..rsvp::ListenOptions::default() };
    let listen = ListenRequest { identity, ..ListenRequest::new(near()).with(&options) };
    // An application may request a delay bound.
    let delay = rsvp::ListenOptions { delay_ms: Some(20.0), ..rsvp::ListenOptions::default() };
    let delayed = ListenRequest::new(near()).with(&delay);
    let stream = yessir::ReserveOptions {
        codec: Some(yessir::Codec { payload_type: 0, frames: 2 }),
        interval_s: Some(30),
        ssrc: Some(7),
        cname: Some("somebody@here".into()),
        ..yessir::ReserveOptions::default()
    };
    let guaranteed = yessir::ReserveOptions {
        guaranteed: Some(yessir::Guaranteed { rate_bps: Rate::from_mbps(2), slack_us: 20 }),
        ..yessir::ReserveOptions::default()
    };
    let other = SocketAddr::new(HERE.into(), 4_002);
    let guaranteed =
        ReservationRequest { rate_bps: Some(rate), ..yessir::request(other, far(), &guaranteed) };
    let answer = yessir::ListenOptions { cname: Some("me@here".into()) };
    let both_ways = boomerang::ReserveOptions {
        rates: vec![boomerang::RatePair { forward: rate, reverse: rate }],
        interval_s: Some(30),
        ..boomerang::ReserveOptions::default()
    };
    let least = nsis::ReserveOptions { minimum_bps: Some(rate), ..nsis::ReserveOptions::default() };
    let invite = nsis::ReserveOptions {
        by_receiver: true,
        bound_to: Some(ApplicationId(3)),
        ..nsis::ReserveOptions::default()
    };
    let back = nsis::ListenOptions { reverse_bps: Some(rate) };
    let of = |protocol: &str| ReservationRequest { protocol: protocol.into(), ..reserve.clone() };
    let statistics =
        Statistics { application: ApplicationId(1), packets: 2, octets: 3, rtp_timestamp: 4 };
    let typed = [
        Request::Show(Show {
            limit: Some(5),
            after: Some("rsvp:7".to_owned()),
            filter: ListingFilter { to: "10.0.0.0/8".parse().ok(), ..ListingFilter::default() },
            ..Show::new(Listing::Sessions)
        }),
        Request::Reserve(reserve.clone()),
        Request::Reserve(send),
        Request::Listen(listen),
        Request::Listen(delayed),
        Request::Reserve(of("boomerang").with(&both_ways)),
        Request::Reserve(yessir::request(near(), far(), &stream)),
        Request::Reserve(guaranteed),
        Request::Listen(yessir::listen_request(near()).with(&answer)),
        Request::Ping(Ping { timeout_ms: Some(500), qos: true, ..Ping::new(far().ip()) }),
        Request::Open(Open {
            from: Some(near()),
            icmp_types: vec![8],
            lifetime_s: Some(60),
            transport: Some(nsis::natfw::MessageTransport::Datagrams),
            ..Open::new(far())
        }),
        Request::Expose(Expose {
            address: Some(HERE.into()),
            from: Some(NEIGHBOR.into()),
            from_port: Some(9),
            deny: true,
            ..Expose::new(5_001)
        }),
        Request::Reserve(of("nsis").with(&invite)),
        Request::Reserve(of("nsis").with(&least)),
        Request::Listen(ListenRequest {
            rate_bps: Some(rate),
            ..nsis::listen_request(near()).with(&back)
        }),
        Request::Statistics(statistics),
        Request::Keep(Keep { application: ApplicationId(1) }),
        Request::Trace(Trace {
            from: Some(sender),
            last_hop: Some(NEIGHBOR.into()),
            ..Trace::new(near())
        }),
        Request::Release(Release::Application(ApplicationId(1))),
    ];
    typed.iter().map(|it| serde_json::to_value(it).expect("it can be said")).collect()
}

/// Messages to this host, each with its IP protocol number.
pub(crate) fn messages() -> Vec<(u8, Vec<u8>)> {
    let magic = gist_magic(&messages::gist::valid_query());
    vec![
        (RSVP, messages::rsvp::valid_path()),
        (icmp::PROTOCOL_V4, packets::echo(&messages::boomerang::valid(Family::V4))),
        (udp::PROTOCOL, packets::udp(5_003, &messages::yessir::valid(false))),
        (udp::PROTOCOL, packets::udp(gist::iana::PORT, &magic)),
    ]
}

/// Returns a message of GIST behind the magic number of datagrams.
fn gist_magic(message: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; gist::MAGIC_LEN + message.len()];
    gist::emit_magic(&mut octets).expect("there is room").copy_from_slice(message);
    octets
}

/// Events of a connection of GIST: a neighbor opens it, sends data, and closes it.
pub(crate) fn stream_events() -> Vec<RecordedStreamEvent> {
    let connection = ConnectionId(1);
    let (local, peer) = (SocketAddr::new(HERE.into(), 270), SocketAddr::new(NEIGHBOR.into(), 9));
    let transport = Transport::Tcp;
    let octets = Octets(messages::gist::valid_query());
    vec![
        RecordedStreamEvent::Open { connection, local, peer, transport },
        RecordedStreamEvent::Data { connection, octets },
        RecordedStreamEvent::Closed { connection, reason: CloseReason::Ended },
    ]
}

/// The messages in IPv4 packets.
fn packets() -> Vec<Vec<u8>> {
    messages().iter().map(|(protocol, payload)| packets::ipv4(*protocol, payload)).collect()
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
