//! A router with many sessions for measurements: each with a destination of its own and 64 kbit/s each way, 16 per
//! initiating node.
#![allow(dead_code, unreachable_pub)]

use std::net::{IpAddr, Ipv4Addr};

use earmark_boomerang::{Boomerang, Config, Event, Limits};
use earmark_core::admission::{Ledger, LinkCapacity};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effects, Engine, Hop, Input, Interface, InterfaceId, Interfaces, Rate,
    Route, RouteTable, Time, Trust,
};
use earmark_wire::boomerang::{Family, Flags, Keys, Options, Qos, Rates, Reservation, Shape};
use earmark_wire::icmp::{HEADER, Kind, PseudoHeader, seal};

const RATES: Rates = Rates { forward: 64_000, reverse: 64_000 };

/// The router, and a buffer for its effects.
pub struct Population {
    engine: Boomerang,
    interfaces: Interfaces,
    routes: RouteTable,
    ledger: Ledger,
    out: Effects<Event>,
    now: Time,
}

impl Population {
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
        assert_eq!(population.engine.population(), (sessions as usize, 0));
        population
    }

    /// Creates a router without sessions.
    pub fn empty() -> Population {
        let limits = Limits { changes_per_second: u32::MAX, ..Limits::default() };
        let config = Config { limits, ..Config::default() };
        let mut population = Population {
            engine: Boomerang::new(config, &RandomStreams::new(1)),
            interfaces: Interfaces::default(),
            routes: RouteTable::new(),
            ledger: Ledger::new(),
            out: Effects::new(),
            now: Time::from_secs(1),
        };
        let bandwidth = Rate::from_mbps(400_000);
        for (index, address, prefix) in
            [(1, "192.0.2.2", "172.16.0.0/12"), (2, "198.51.100.1", "10.0.0.0/8")]
        {
            let id = InterfaceId(index);
            population.interfaces.set(Interface {
                id,
                name: format!("eth{index}"),
                addresses: vec![address.parse().expect("an address")],
                mtu: 1500,
                up: true,
                bandwidth,
                reservable: bandwidth,
                latency_us: 10,
                trust: Trust::CORE,
            });
            let capacity = LinkCapacity { bandwidth, reservable: bandwidth, mtu: 1500 };
            population.ledger.set_link(id, capacity);
            let prefix = prefix.parse().expect("a prefix");
            let hop = Hop { interface: id, gateway: None, source: None };
            population.routes.insert(Route { prefix, metric: 0, hop });
        }
        population
    }

    /// Returns the message of session `number` on one of its passes.
    pub fn message(&self, number: u32, pass: Kind, rates: Rates) -> Arrival {
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
            options: Options::NONE,
        };
        let mut octets = vec![0; HEADER + reservation.buffer_len()];
        reservation.emit(&mut octets[HEADER..]).expect("it fits");
        seal(&mut octets, PseudoHeader::V4, pass, number as u16, 0).expect("it fits");
        match pass {
            Kind::Request => {
                Arrival { interface: InterfaceId(1), source: near, destination: far, octets }
            }
            Kind::Reply => {
                Arrival { interface: InterfaceId(2), source: far, destination: near, octets }
            }
        }
    }

    /// Returns the refresh of session `number`.
    pub fn refresh(&self, number: u32, pass: Kind) -> Arrival {
        self.message(number, pass, RATES)
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.engine.population().0
    }

    /// Drops the effects of the last message, as a driver would have by now.
    pub fn forget_effects(&mut self) {
        self.out.clear();
    }

    /// Handles one message with all its effects; returns their number.
    #[inline(never)]
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        let context = &mut Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        self.out.clear();
        self.engine.handle(self.now, Input::Datagram(arrival.datagram()), context, &mut self.out);
        self.out.len()
    }

    /// Advances time to `now` and handles all timers that are due; returns the number of sessions left.
    pub fn expire(&mut self, now: Time) -> usize {
        while self.engine.next_deadline().is_some_and(|(at, _)| at <= now) {
            let (at, _) = self.engine.next_deadline().expect("it was there");
            self.now = self.now.max(at);
            let context = &mut Context {
                routes: &self.routes,
                interfaces: &self.interfaces,
                ledger: &mut self.ledger,
            };
            self.out.clear();
            self.engine.handle(self.now, Input::Expire, context, &mut self.out);
        }
        self.now = now;
        self.engine.population().0
    }
}

/// A message that arrives.
pub struct Arrival {
    interface: InterfaceId,
    source: IpAddr,
    destination: IpAddr,
    octets: Vec<u8>,
}

impl Arrival {
    fn datagram(&self) -> Datagram<'_> {
        Datagram {
            interface: self.interface,
            source: self.source,
            destination: self.destination,
            ttl: 62,
            router_alert: true,
            encapsulated: false,
            payload: &self.octets,
        }
    }
}
