//! A router with many sessions for measurements: each with a destination of its own and 64 kbit/s each way, 16 per
//! initiating node.
#![allow(dead_code, unreachable_pub)]

use std::net::{IpAddr, Ipv4Addr};

use earmark_boomerang::credential::{self, Key, credential};
use earmark_boomerang::{Boomerang, Config, Limits};
use earmark_core::keys::Directions;
use earmark_core::random::RandomStreams;
use earmark_core::{Input, InterfaceId, Secret, Time};
pub use earmark_testkit::bench::Arrival;
use earmark_testkit::bench::Bench;
use earmark_wire::boomerang::{
    Family, Flags, Keys, OptionFlags, OptionItem, Options, Qos, Rates, Reservation, Shape, UserId,
    View,
};
use earmark_wire::icmp::{HEADER, Kind, PseudoHeader, seal};

const USER: &str = "alice";
const SECRET: &[u8] = b"what alice shares with the router";
const RATES: Rates = Rates { forward: 64_000, reverse: 64_000 };

/// The router.
pub struct Population(Bench<Boomerang>);

impl Population {
    /// Returns the octets of the engine's tables.
    pub fn table_octets(&self) -> usize {
        self.0.engine.table_octets()
    }

    /// Creates a router with `sessions` sessions reserved both ways, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        Self::with_halves(sessions, &[Kind::Request, Kind::Reply])
    }

    /// Creates a router with `sessions` sessions that have received these passes.
    pub fn with_halves(sessions: u32, passes: &[Kind]) -> Population {
        let mut population = Population::empty();
        for number in 0..sessions {
            for &pass in passes {
                population.handle(&population.message(number, pass, RATES));
            }
        }
        assert_eq!(population.0.engine.population(), (sessions as usize, 0));
        population
    }

    /// Creates a router with `sessions` sessions that requires a credential of each request.
    pub fn with_credentials(sessions: u32) -> Population {
        let credentials = credential::Settings {
            keys: vec![Key::new(1, USER, Secret::new(SECRET))],
            interfaces: [("eth1".to_owned(), Directions::Accept)].into(),
        };
        let mut population = Population::of(Config { credentials, ..Config::default() });
        for number in 0..sessions {
            for pass in [Kind::Request, Kind::Reply] {
                population.handle(&population.signed(number, pass, 1));
            }
        }
        assert_eq!(population.sessions(), sessions as usize);
        population
    }

    /// Creates a router without sessions.
    pub fn empty() -> Population {
        Population::of(Config::default())
    }

    fn of(config: Config) -> Population {
        let limits = Limits { changes_per_second: u32::MAX, ..Limits::default() };
        let config = Config { limits, ..config };
        let engine = Boomerang::new(config, &RandomStreams::new(1));
        let mut bench = Bench::new(engine, Time::from_secs(1));
        for (index, address, prefix) in
            [(1, "192.0.2.2", "172.16.0.0/12"), (2, "198.51.100.1", "10.0.0.0/8")]
        {
            bench.set_large_link(InterfaceId(index), address);
            bench.add_route(prefix, InterfaceId(index), None);
        }
        Population(bench)
    }

    /// Returns the message of session `number` on one of its passes.
    pub fn message(&self, number: u32, pass: Kind, rates: Rates) -> Arrival {
        self.message_with(number, pass, rates, Options::NONE)
    }

    /// Returns the message of session `number` with a credential and its sequence number.
    pub fn signed(&self, number: u32, pass: Kind, sequence: u16) -> Arrival {
        let user = credential::user_id(USER).expect("a short name");
        let mut id = UserId { flags: OptionFlags(sequence), user, credential: [0; 8] };
        let blank =
            self.message_with(number, pass, RATES, Options::Items(&[OptionItem::UserId(id)]));
        let view = View::parse(&blank.octets[HEADER..]).expect("a message");
        id.credential = credential(&Secret::new(SECRET), &id, &view);
        self.message_with(number, pass, RATES, Options::Items(&[OptionItem::UserId(id)]))
    }

    fn message_with(&self, number: u32, pass: Kind, rates: Rates, options: Options<'_>) -> Arrival {
        let near = IpAddr::V4(Ipv4Addr::from(0xac10_0000 + number / 16));
        let far = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
        let reservation = Reservation {
            transaction_id: number,
            flags: Flags(0),
            refresh_interval: 30,
            key: 1,
            classifier: Keys {
                source: near,
                destination: far,
                source_port: 4_000,
                destination_port: 5_004,
                protocol: 17,
                tos: 0,
                flags: 0,
            },
            mask: Shape::exact(Family::V4),
            qos: Qos::Bitrate(rates),
            options,
        };
        let mut octets = vec![0; HEADER + reservation.buffer_len()];
        reservation.emit(&mut octets[HEADER..]).expect("it fits");
        seal(&mut octets, PseudoHeader::V4, pass, number as u16, 0).expect("it fits");
        let (interface, source, destination) = match pass {
            Kind::Request => (InterfaceId(1), near, far),
            Kind::Reply => (InterfaceId(2), far, near),
        };
        Arrival { interface, source, destination, ttl: 62, router_alert: true, octets }
    }

    /// Returns the refresh of session `number`.
    pub fn refresh(&self, number: u32, pass: Kind) -> Arrival {
        self.message(number, pass, RATES)
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.0.engine.population().0
    }

    /// Drops the effects of the last message, as a driver would have by now.
    pub fn forget_effects(&mut self) {
        self.0.forget_effects();
    }

    /// Handles one message with all its effects; returns their number.
    #[inline(never)]
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        self.0.forget_effects();
        self.0.give(Input::Datagram(arrival.datagram()));
        self.0.out.len()
    }

    /// Advances time to `now` and handles all timers that are due; returns the number of sessions left.
    pub fn expire(&mut self, now: Time) -> usize {
        while self.0.advance(now) {
            self.0.forget_effects();
            self.0.give(Input::Expire);
        }
        self.0.engine.population().0
    }
}
