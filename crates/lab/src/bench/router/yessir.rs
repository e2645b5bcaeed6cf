//! YESSIR's messages: 64 kbit/s by controlled load, LINK_INFO asked for, 256 streams to a source. Each report says how much
//! has been sent by then, so no refresh is like the one before.

use std::net::IpAddr;

use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rtcp::{
    self, Application, CNAME_LEN, Chunks, Goodbye, Packet, SenderInfo, SenderReport,
};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Command, Failures, Flowspec, Generic, LinkInfo, Message as Yessir, NAME, Style, VERSION,
};

use super::{Arrival, Message, NEAR, Router, Step};

pub(super) const MESSAGES: [Message; 3] = [
    Message { name: "set-up", step: Step::SetUp, goal: Some(2_500), write: report },
    Message { name: "refresh", step: Step::Refresh, goal: Some(900), write: report },
    Message { name: "BYE", step: Step::Release, goal: None, write: goodbye },
];

/// Streams of one source.
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

fn message(number: u32, round: u32, leaving: bool) -> Arrival {
    let source = IpAddr::from((0xac10_0000 + number / OF_ONE_SOURCE).to_be_bytes());
    let destination = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
    let port = 4_000 + 2 * (number % OF_ONE_SOURCE) as u16;
    let ssrc = 0x5000_0000 + number;
    let app = request(number, ssrc);
    let sender = SenderInfo {
        ntp: u64::from(30 * round + 1) << 32,
        rtp_timestamp: 240_000 * round,
        packets: 1_500 * round,
        octets: 240_000 * round,
    };
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
    let mut octets = vec![0; udp::HEADER + rtcp::buffer_len(packets)];
    rtcp::emit(packets, &mut octets[udp::HEADER..]).expect("it fits");
    udp::Repr { source, destination, source_port: port + 1, destination_port: 5_001 }
        .emit(&mut octets)
        .expect("it fits");
    let (session, protocol) = (number, earmark_yessir::PROTOCOL);
    Arrival { session, protocol, interface: NEAR, source, destination, octets }
}

/// What a stream asks for, as an APP packet.
fn request(number: u32, ssrc: u32) -> Vec<u8> {
    let message = Yessir {
        ssrc,
        generic: Generic {
            command: Command::Active,
            style: Style::Individual,
            interval: 30,
            reservation: number,
            multiplexed: false,
        },
        flowspec: Some(Flowspec::Intserv(FlowSpec::ControlledLoad(BUCKET))),
        link_info: Some(LinkInfo { hops: 1, ..LinkInfo::unknown(64) }),
        failures: Failures::default(),
        auth: None,
        others: &[],
    };
    let mut app = vec![0; message.buffer_len()];
    message.emit(&mut app).expect("it fits");
    app
}
