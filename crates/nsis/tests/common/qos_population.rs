//! A router with many reserved sessions of QoS NSLP, without GIST, for measurements: each 64 kbit/s, all from one peer
//! to another, confirmed.
#![allow(dead_code, unreachable_pub)]

mod qos_messages;

use std::net::Ipv4Addr;

use earmark_core::random::RandomStreams;
use earmark_core::{Effects, InterfaceId, Time};
use earmark_nsis::nslp::{Origin, PeerHandle, Received, Requests};
use earmark_nsis::qos::{Config, QosNslp};
use earmark_nsis::{Event, HandlerContext, Nslp};
use earmark_testkit::bench::Host;
use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::intserv::TokenBucket;

use qos_messages::session;

const BEFORE: PeerHandle = PeerHandle { slot: 1, generation: 0 };
const BEHIND: PeerHandle = PeerHandle { slot: 2, generation: 0 };

/// The router, and buffers for its effects.
pub struct Population {
    qos: QosNslp,
    host: Host,
    out: Effects<Event>,
    requests: Requests,
    pub now: Time,
}

/// A message that owns its octets.
pub struct Arrival {
    session: SessionId,
    mri: Mri,
    peer: PeerHandle,
    data: Vec<u8>,
}

impl Population {
    /// Returns the octets of the engine's tables.
    pub fn table_octets(&self) -> usize {
        self.qos.table_octets()
    }

    /// Creates a router with `sessions` reserved sessions, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        Population::with(sessions, Config::default())
    }

    pub fn with(sessions: u32, config: Config) -> Population {
        let mut population = Population::empty(config);
        for number in 0..sessions {
            population.handle(&request(number));
            population.handle(&confirmation(number));
            population.forget_effects();
        }
        assert_eq!(population.qos.session_count(), sessions as usize);
        let link = population.host.ledger.link(InterfaceId(2)).expect("known");
        assert_eq!(link.claims, sessions);
        population
    }

    /// Creates a router without sessions.
    pub fn empty(mut config: Config) -> Population {
        config.limits.changes_per_second = u32::MAX;
        let mut population = Population {
            qos: QosNslp::new(config, &RandomStreams::new(1)),
            host: Host::default(),
            out: Effects::new(),
            requests: Requests::default(),
            now: Time::from_secs(1),
        };
        let host = &mut population.host;
        host.set_large_link(InterfaceId(1), "192.0.2.2");
        host.set_large_link(InterfaceId(2), "198.51.100.1");
        host.add_route("10.128.0.0/9", InterfaceId(2), Some("198.51.100.2"));
        population
    }

    fn call(&mut self, act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>)) {
        let context = &mut self.host.context();
        let id = self.qos.id();
        let mut cx = HandlerContext::new(self.now, context, &mut self.out, id, &mut self.requests);
        act(&mut self.qos, &mut cx);
    }

    /// Passes a message to the router; returns the number of requests to GIST.
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        let message = Received {
            data: &arrival.data,
            session: arrival.session,
            mri: arrival.mri,
            upstream: None,
            origin: Origin::datagram(Some(arrival.peer), InterfaceId(1)),
            explicitly_routed: false,
            ip_distance: Some(1),
            hops: 60,
            interface: InterfaceId(1),
        };
        self.call(|qos, cx| qos.receive(cx, &message));
        self.requests.iter().count()
    }

    /// Advances the time to the next deadline; returns the number of requests to GIST.
    pub fn expire_next(&mut self) -> usize {
        while self.requests.iter().next().is_none() {
            self.now = self.qos.next_deadline().expect("something is due").max(self.now);
            self.call(Nslp::expire);
        }
        self.requests.iter().count()
    }

    /// Advances the time to just before the next refresh.
    pub fn until_refresh(&mut self) {
        self.now = self.qos.next_deadline().expect("something is due");
    }

    pub fn expire(&mut self) -> usize {
        self.call(Nslp::expire);
        self.requests.iter().count()
    }

    pub fn forget_effects(&mut self) {
        self.out.clear();
        self.requests.clear();
    }

    pub fn qos(&self) -> &QosNslp {
        &self.qos
    }
}

fn mri(number: u32, direction: Direction) -> Mri {
    let source = Ipv4Addr::from_bits(0x0a00_0000 + number / 1_000);
    let destination = Ipv4Addr::from_bits(0x0a80_0000 + number / 1_000);
    let port = 1_000 + (number % 1_000) as u16;
    Mri::PathCoupled(PathCoupled { direction, ..udp_flow((source, port), (destination, 5_000)) })
}

fn reserve(number: u32, qspec: Option<&[u8]>, tear: bool) -> Arrival {
    let data = qos_messages::reserve(number, qspec, tear);
    arrival(number, Direction::Downstream, BEFORE, data)
}

fn arrival(number: u32, direction: Direction, peer: PeerHandle, data: Vec<u8>) -> Arrival {
    Arrival { session: session(number), mri: mri(number, direction), peer, data }
}

/// Returns a RESERVE that creates session `number`.
pub fn request(number: u32) -> Arrival {
    let wanted = qos_messages::qspec(TokenBucket {
        rate: 8_000.0,
        depth: 2_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_000,
    });
    reserve(number, Some(&wanted), false)
}

/// Returns the RESPONSE to the RESERVE of session `number`.
pub fn confirmation(number: u32) -> Arrival {
    arrival(number, Direction::Upstream, BEHIND, qos_messages::response(number))
}

/// Returns a RESERVE that refreshes session `number`.
pub fn refresh(number: u32) -> Arrival {
    reserve(number, None, false)
}

/// Returns a RESERVE that tears session `number` down.
pub fn tear(number: u32) -> Arrival {
    reserve(number, None, true)
}
