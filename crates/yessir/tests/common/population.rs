//! A router with many reserved streams for measurements: each 64 kbit/s by controlled load, with LINK_INFO.
#![allow(dead_code, unreachable_pub)]

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{Engine, Input, InterfaceId, Time};
pub use earmark_testkit::bench::Arrival;
use earmark_testkit::bench::Bench;
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rtcp::{
    self, Application as App, CNAME_LEN, Chunks, Goodbye, Packet, SenderInfo, SenderReport,
};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Command, Failures, Flowspec, Generic, LinkInfo, Message, NAME, Style, VERSION,
};
use earmark_yessir::{Config, Yessir};

/// Number of streams of one source.
const OF_ONE_SOURCE: u32 = 256;

/// The router.
pub struct Population(Bench<Yessir>);

impl Population {
    /// Returns the octets of the engine's tables.
    pub fn table_octets(&self) -> usize {
        self.0.engine.table_octets()
    }

    /// Creates a router with `sessions` reserved streams, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        let mut population = Population::empty();
        for number in 0..sessions {
            population.handle(&request(number));
            population.forget_effects();
        }
        assert_eq!(population.0.engine.session_count(), sessions as usize);
        let link = population.0.ledger.link(InterfaceId(2)).expect("known");
        assert_eq!(link.claims, sessions);
        population
    }

    /// Creates a router without streams.
    pub fn empty() -> Population {
        let mut config = Config::default();
        config.limits.changes_per_second = u32::MAX;
        let engine = Yessir::new(config, &RandomStreams::new(1));
        let mut bench = Bench::new(engine, Time::from_secs(1));
        bench.set_large_link(InterfaceId(1), "192.0.2.2");
        bench.set_large_link(InterfaceId(2), "198.51.100.1");
        bench.add_route("10.0.0.0/8", InterfaceId(2), Some("198.51.100.2"));
        Population(bench)
    }

    /// Handles a message; returns the number of effects.
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        self.0.give(Input::Datagram(arrival.datagram()));
        self.0.out.len()
    }

    /// Advances the time at once, and fires all timers that are due.
    pub fn expire(&mut self, time: Duration) {
        self.0.now = self.0.now + time;
        while self.0.engine.next_deadline().is_some_and(|(at, _)| at <= self.0.now) {
            self.0.give(Input::Expire);
            self.0.forget_effects();
        }
    }

    /// Returns the number of streams.
    pub fn sessions(&self) -> usize {
        self.0.engine.session_count()
    }

    pub fn forget_effects(&mut self) {
        self.0.forget_effects();
    }
}

/// Returns the message that requests stream `number`, or refreshes it.
pub fn request(number: u32) -> Arrival {
    message(number, Command::Active, false)
}

/// Returns the message that releases stream `number`.
pub fn release(number: u32) -> Arrival {
    message(number, Command::Release, false)
}

/// Returns the last report of a sender, with its BYE.
pub fn goodbye(number: u32) -> Arrival {
    message(number, Command::Active, true)
}

fn message(number: u32, command: Command, leaving: bool) -> Arrival {
    let source = IpAddr::from((0x0a80_0000 + number / OF_ONE_SOURCE).to_be_bytes());
    let destination = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
    let port = 4_000 + 2 * (number % OF_ONE_SOURCE) as u16;
    let ssrc = 0x5000_0000 + number;
    let bucket = TokenBucket {
        rate: 8_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    };
    let message = Message {
        ssrc,
        generic: Generic {
            command,
            style: Style::Individual,
            interval: 30,
            reservation: number,
            multiplexed: false,
        },
        flowspec: Some(Flowspec::Intserv(FlowSpec::ControlledLoad(bucket))),
        link_info: Some(LinkInfo { hops: 1, ..LinkInfo::unknown(64) }),
        failures: Failures::default(),
        auth: None,
        token: None,
        others: &[],
    };
    let mut app = vec![0; message.buffer_len()];
    message.emit(&mut app).expect("it fits");
    let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 1, packets: 1, octets: 1 };
    let report = SenderReport { ssrc, sender, blocks: &[], extension: &[] };
    let mut room = [0; CNAME_LEN];
    let sources = [ssrc.to_be_bytes()];
    let packets = [
        Packet::SenderReport(report),
        Packet::SourceDescription(Chunks::cname(ssrc, b"user@host", &mut room).expect("short")),
        Packet::Application(App { subtype: VERSION, ssrc, name: NAME, data: &app[12..] }),
        Packet::Goodbye(Goodbye { sources: &sources, reason: None }),
    ];
    let packets = if leaving { &packets[..] } else { &packets[..3] };
    let mut octets = vec![0; udp::HEADER + rtcp::buffer_len(packets)];
    rtcp::emit(packets, &mut octets[udp::HEADER..]).expect("it fits");
    let (source_port, destination_port) = (port + 1, 5_001);
    udp::Repr { source, destination, source_port, destination_port }
        .emit(&mut octets)
        .expect("it fits");
    let interface = InterfaceId(1);
    Arrival { interface, source, destination, ttl: 63, router_alert: true, octets }
}
