//! Messages of YESSIR: 64 kbit/s by controlled load, LINK_INFO requested, 256 streams to a source. Each report has
//! the sender's current packet and octet counts, so no refresh equals the previous one.

use std::net::IpAddr;

use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rtcp::{
    self, Application, CNAME_LEN, Chunks, Goodbye, Packet, SenderInfo, SenderReport,
};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Auth, Command, Failures, Flowspec, Generic, LinkInfo, Message as Yessir, NAME, Style, VERSION,
};

use earmark_yessir::Stream;
use earmark_yessir::auth::{Covered, Key};

use super::{Arrival, Message, NEAR, Router, Step};

pub(super) const MESSAGES: [Message; 3] = [
    Message { name: "set-up", step: Step::SetUp, goal: Some(2_500), write: report },
    Message { name: "refresh", step: Step::Refresh, goal: Some(900), write: report },
    Message { name: "BYE", step: Step::Release, goal: None, write: goodbye },
];

/// A signed set-up and release, with [`signing_key`].
pub const SIGNED: [Message; 2] = [
    Message { name: "set-up, signed", step: Step::SetUp, goal: None, write: signed_report },
    Message { name: "BYE, signed", step: Step::Release, goal: None, write: signed_goodbye },
];

/// Number of streams of one source.
const OF_ONE_SOURCE: u32 = 256;
/// Octets of the APP packet before its data.
const APP_HEADER: usize = 12;

const BUCKET: TokenBucket = TokenBucket {
    rate: 8_000.0,
    depth: 3_000.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

fn report(_: &Router, number: u32, round: u32) -> Arrival {
    message(number, round, false)
}

fn goodbye(_: &Router, number: u32, round: u32) -> Arrival {
    message(number, round, true)
}

/// Returns the key that signing senders share with the router.
pub fn signing_key() -> Key {
    Key::new(1, earmark_core::Secret::new("thirty-two octets of a secret..."))
}

fn stream(number: u32) -> Stream {
    Stream {
        source: IpAddr::from((0xac10_0000 + number / OF_ONE_SOURCE).to_be_bytes()),
        destination: IpAddr::from((0x0a00_0000 + number).to_be_bytes()),
        source_port: 4_000 + 2 * (number % OF_ONE_SOURCE) as u16,
        destination_port: 5_000,
    }
}

fn ssrc(number: u32) -> u32 {
    0x5000_0000 + number
}

fn signed_report(_: &Router, number: u32, round: u32) -> Arrival {
    signed(number, round, false)
}

fn signed_goodbye(_: &Router, number: u32, round: u32) -> Arrival {
    signed(number, round, true)
}

fn signed(number: u32, round: u32, leaving: bool) -> Arrival {
    let key = signing_key();
    let sequence = 2 * u64::from(round) + u64::from(leaving);
    let mut auth = Auth { key: key.id, sequence, digest: [0; 16] };
    let app = request_of(number, Some(auth));
    let covered = Covered {
        stream: &stream(number),
        ssrc: ssrc(number),
        sender: counts(round),
        goodbye: leaving,
        data: &app[APP_HEADER..],
    };
    auth.digest = key.digest(&covered, sequence);
    report_with(number, round, leaving, &request_of(number, Some(auth)))
}

fn message(number: u32, round: u32, leaving: bool) -> Arrival {
    report_with(number, round, leaving, &request_of(number, None))
}

fn counts(round: u32) -> SenderInfo {
    SenderInfo {
        ntp: u64::from(30 * round + 1) << 32,
        rtp_timestamp: 240_000 * round,
        packets: 1_500 * round,
        octets: 240_000 * round,
    }
}

fn report_with(number: u32, round: u32, leaving: bool, app: &[u8]) -> Arrival {
    let Stream { source, destination, source_port, destination_port } = stream(number);
    let sender = counts(round);
    let (source_port, destination_port) = (source_port + 1, destination_port + 1);
    let ends = udp::Repr { source, destination, source_port, destination_port };
    let mut octets = Vec::new();
    write_report(&ends, ssrc(number), sender, app, leaving, &mut octets);
    let (session, protocol) = (number, earmark_yessir::PROTOCOL);
    Arrival { session, protocol, interface: NEAR, source, destination, octets }
}

fn request_of(number: u32, auth: Option<Auth>) -> Vec<u8> {
    let link_info = Some(LinkInfo { hops: 1, ..LinkInfo::unknown(64) });
    request(ssrc(number), number, 30, BUCKET, link_info, auth)
}

/// Returns a reservation request, as an APP packet.
pub(in crate::bench) fn request(
    ssrc: u32,
    reservation: u32,
    interval: u8,
    bucket: TokenBucket,
    link_info: Option<LinkInfo>,
    auth: Option<Auth>,
) -> Vec<u8> {
    let message = Yessir {
        ssrc,
        generic: Generic {
            command: Command::Active,
            style: Style::Individual,
            interval: interval.into(),
            reservation,
            multiplexed: false,
        },
        flowspec: Some(Flowspec::Intserv(FlowSpec::ControlledLoad(bucket))),
        link_info,
        failures: Failures::default(),
        auth,
        token: None,
        others: &[],
    };
    let mut app = vec![0; message.buffer_len()];
    message.emit(&mut app).expect("it fits");
    app
}

/// Writes a UDP datagram with a sender report, a name and an APP packet, and a BYE if the sender leaves.
pub(in crate::bench) fn write_report(
    ends: &udp::Repr,
    ssrc: u32,
    sender: SenderInfo,
    app: &[u8],
    leaving: bool,
    octets: &mut Vec<u8>,
) {
    let mut room = [0; CNAME_LEN];
    let sources = [ssrc.to_be_bytes()];
    let packets = [
        Packet::SenderReport(SenderReport { ssrc, sender, blocks: &[], extension: &[] }),
        Packet::SourceDescription(Chunks::cname(ssrc, b"user@host", &mut room).expect("short")),
        Packet::Application(Application {
            subtype: VERSION,
            ssrc,
            name: NAME,
            data: &app[APP_HEADER..],
        }),
        Packet::Goodbye(Goodbye { sources: &sources, reason: None }),
    ];
    let packets = if leaving { &packets[..] } else { &packets[..3] };
    octets.clear();
    octets.resize(udp::HEADER + rtcp::buffer_len(packets), 0);
    rtcp::emit(packets, &mut octets[udp::HEADER..]).expect("it fits");
    ends.emit(octets).expect("it fits");
}
