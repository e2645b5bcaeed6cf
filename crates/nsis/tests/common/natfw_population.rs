//! A firewall with many open sessions of NATFW NSLP, without GIST, for measurements: each for one flow, all from one peer to
//! another.
#![allow(dead_code, unreachable_pub)]

use std::net::Ipv4Addr;

use earmark_core::random::RandomStreams;
use earmark_core::{Effects, InterfaceId, Time};
use earmark_nsis::natfw::{Config, NatfwNslp, Rule};
use earmark_nsis::nslp::{AssociationId, Channel, Origin, PeerHandle, Received, Requests};
use earmark_nsis::{Event, HandlerContext, Nslp};
use earmark_testkit::bench::Host;
use earmark_testkit::messages::gist::udp_flow;
use earmark_testkit::messages::natfw_nslp::{CREATE, RESPONSE};
use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::natfw_nslp::{Create, Message, Response};

const BEFORE: PeerHandle = PeerHandle { slot: 1, generation: 0 };
const BEHIND: PeerHandle = PeerHandle { slot: 2, generation: 0 };
const LIFETIME: u32 = 1_575;

/// The firewall, and buffers for its effects.
pub struct Population {
    natfw: NatfwNslp,
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
        self.natfw.table_octets()
    }

    /// Creates a firewall with `sessions` open sessions, numbered from 0.
    pub fn new(sessions: u32) -> Population {
        let mut population = Population::empty();
        for number in 0..sessions {
            population.handle(&create(number));
            population.handle(&response(number));
            population.forget_effects();
        }
        assert_eq!(population.natfw.session_count(), sessions as usize);
        let installed = population.natfw.pinholes().filter(|it| it.session.is_installed).count();
        assert_eq!(installed, sessions as usize);
        population
    }

    /// Creates a firewall without sessions, which lets everything through that is asked for.
    pub fn empty() -> Population {
        let mut config = Config {
            enabled: true,
            firewall: true,
            rules: vec![Rule::default()],
            ..Config::default()
        };
        config.limits.changes_per_second = u32::MAX;
        config.limits.share_of_interface = 100;
        config.limits.sessions = 10_000_000;
        let mut population = Population {
            natfw: NatfwNslp::new(config, &RandomStreams::new(1)),
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

    fn call(&mut self, act: impl FnOnce(&mut NatfwNslp, &mut HandlerContext<'_, '_>)) {
        let context = &mut self.host.context();
        let id = self.natfw.id();
        let mut cx = HandlerContext::new(self.now, context, &mut self.out, id, &mut self.requests);
        act(&mut self.natfw, &mut cx);
    }

    /// Passes a message to the firewall; returns the number of requests to GIST.
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        let interface = InterfaceId(if arrival.peer == BEFORE { 1 } else { 2 });
        let channel = Channel::Association { id: AssociationId(arrival.peer.slot), secured: false };
        let message = Received {
            data: &arrival.data,
            session: arrival.session,
            mri: arrival.mri,
            upstream: None,
            origin: Origin { peer: Some(arrival.peer), channel },
            explicitly_routed: false,
            ip_distance: Some(1),
            hops: 60,
            interface,
        };
        self.call(|natfw, cx| natfw.receive(cx, &message));
        self.requests.iter().count()
    }

    pub fn forget_effects(&mut self) {
        self.out.clear();
        self.requests.clear();
    }
}

fn session(number: u32) -> SessionId {
    let mut id = [0; 16];
    // Identifiers are random, so neighbours in number are not neighbours in an ordered map.
    let word = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    id[..8].copy_from_slice(&word.to_be_bytes());
    id[8..12].copy_from_slice(&number.to_be_bytes());
    SessionId(id)
}

fn mri(number: u32) -> Mri {
    let source = Ipv4Addr::from(0x0a00_0000 | number).octets();
    Mri::PathCoupled(udp_flow((source, 5_000), ([10, 200, 0, 9], 6_000)))
}

fn arrival(number: u32, (peer, mri): (PeerHandle, Mri), message: &Message<'_>) -> Arrival {
    let mut data = vec![0; message.buffer_len()];
    message.emit(&mut data).expect("it can be written");
    Arrival { session: session(number), mri, peer, data }
}

fn request(number: u32, msn: u32, lifetime: u32) -> Arrival {
    let create = Create { lifetime, msn, ..CREATE };
    arrival(number, (BEFORE, mri(number)), &Message::Create(create))
}

/// The CREATE that begins a session.
pub fn create(number: u32) -> Arrival {
    request(number, 1, LIFETIME)
}

/// The CREATE that refreshes a session.
pub fn refresh(number: u32) -> Arrival {
    request(number, 2, LIFETIME)
}

/// The CREATE that deletes a session.
pub fn delete(number: u32) -> Arrival {
    request(number, 2, 0)
}

/// The RESPONSE that opens a session.
pub fn response(number: u32) -> Arrival {
    let response = Response { lifetime: Some(LIFETIME), ..RESPONSE };
    arrival(number, (BEHIND, mri(number).inverted()), &Message::Response(response))
}
