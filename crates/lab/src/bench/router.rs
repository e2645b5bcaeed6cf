//! One router without I/O, and the messages that its neighbours would send it.
//!
//! ```text
//!   172.16.0.0/12 --- eth1 [router] eth2 --- 10.0.0.0/8        400 Gbit/s each
//! ```
//!
//! The router is the whole of [`earmark_node`]: three engines, ledger, routes. Sessions are numbered; each has a far end of
//! its own and 64 kbit/s. Messages are written by the formats of [`earmark_wire`], octet for octet as they would come from
//! the network, in one file for each protocol.

mod boomerang;
mod rsvp;
mod yessir;

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::LinkStatus;
use earmark_core::{Datagram, Effects, Hop, Interface, InterfaceId, Rate, Route, Time};
use earmark_node::{Event, HostUpdate, Input, Node, NodeConfig};
use serde::{Deserialize, Serialize};

/// Where sessions come from.
const NEAR: InterfaceId = InterfaceId(1);
/// Where they go.
const FAR: InterfaceId = InterfaceId(2);
const BANDWIDTH: Rate = Rate::from_mbps(400_000);

/// A protocol that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// RFC 2205.
    Rsvp,
    /// One loop of one message, both directions at once.
    Boomerang,
    /// In RTCP sender reports.
    Yessir,
}

/// What a message does to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sets it up, or its part of it.
    SetUp,
    /// Says what is known.
    Refresh,
    /// Gives it back.
    Release,
}

/// A kind of message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its name, for people.
    pub name: &'static str,
    /// What it does.
    pub step: Step,
    /// How many instructions it shall take at most, where a goal was set.
    pub goal: Option<u32>,
    /// The message of a session, of so many in a row.
    write: fn(router: &Router, session: u32, round: u32) -> Arrival,
}

impl Message {
    /// The message of session `session`; in every `round` it says what a sender would say by then.
    pub fn of(&self, router: &Router, session: u32, round: u32) -> Arrival {
        (self.write)(router, session, round)
    }
}

/// What a session shall take at most, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryGoal {
    /// So much.
    pub octets: u32,
    /// Whether what the ledger keeps for its claims is in it.
    pub with_claims: bool,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Rsvp, Protocol::Boomerang, Protocol::Yessir];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Rsvp => "RSVP",
            Protocol::Boomerang => "Boomerang",
            Protocol::Yessir => "YESSIR",
        }
    }

    /// Its kinds of messages: those that set a session up, in their order; those that refresh it; those that release it.
    pub fn messages(self) -> &'static [Message] {
        match self {
            Protocol::Rsvp => &rsvp::MESSAGES,
            Protocol::Boomerang => &boomerang::MESSAGES,
            Protocol::Yessir => &yessir::MESSAGES,
        }
    }

    /// Those that do this.
    pub fn messages_that(self, step: Step) -> impl Iterator<Item = &'static Message> {
        self.messages().iter().filter(move |message| message.step == step)
    }

    /// What a session shall take at most.
    pub fn memory_goal(self) -> MemoryGoal {
        match self {
            Protocol::Rsvp => MemoryGoal { octets: 600, with_claims: true },
            Protocol::Boomerang => MemoryGoal { octets: 160, with_claims: false },
            Protocol::Yessir => MemoryGoal { octets: 256, with_claims: true },
        }
    }
}

/// A message on its way in.
pub struct Arrival {
    protocol: u8,
    interface: InterfaceId,
    source: IpAddr,
    destination: IpAddr,
    octets: Vec<u8>,
}

/// A router, its clock, and room for what it does.
pub struct Router {
    node: Node,
    out: Effects<Event>,
    now: Time,
}

impl Router {
    /// The router before anybody came. Nobody is kept from setting up many sessions a second.
    pub fn new() -> Router {
        let mut config = NodeConfig { name: "router".to_owned(), seed: 1, ..NodeConfig::default() };
        config.boomerang.limits.changes_per_second = u32::MAX;
        config.boomerang.limits.sessions = u32::MAX;
        config.yessir.limits.changes_per_second = u32::MAX;
        config.yessir.limits.sessions = u32::MAX;
        let mut router =
            Router { node: Node::new(config), out: Effects::new(), now: Time::from_secs(1) };
        for (id, address, prefix, gateway) in [
            (NEAR, "192.0.2.2", "172.16.0.0/12", "192.0.2.1"),
            (FAR, "198.51.100.1", "10.0.0.0/8", "198.51.100.2"),
        ] {
            router.tell(HostUpdate::Interface(Interface {
                id,
                name: format!("eth{}", id.0),
                addresses: vec![address.parse().expect("an address")],
                mtu: 1_500,
                up: true,
                bandwidth: BANDWIDTH,
                reservable: BANDWIDTH,
                latency_us: 10,
            }));
            let gateway = Some(gateway.parse().expect("an address"));
            let hop = Hop { interface: id, gateway, source: None };
            let prefix = prefix.parse().expect("a prefix");
            router.tell(HostUpdate::Route(Route { prefix, metric: 0, hop }));
        }
        router.out.clear();
        router
    }

    /// A router with so many sessions of a protocol, numbered from 0. `told` hears how many there are, now and then.
    pub fn with_sessions(protocol: Protocol, sessions: u32, mut told: impl FnMut(u32)) -> Router {
        let mut router = Router::new();
        for session in 0..sessions {
            for message in protocol.messages_that(Step::SetUp) {
                router.deliver(&message.of(&router, session, 0));
            }
            if session.is_multiple_of(1_024) {
                told(session);
            }
        }
        router.forget_effects();
        router
    }

    fn tell(&mut self, update: HostUpdate) {
        self.node.handle(self.now, Input::Host(update), &mut self.out);
    }

    /// One message, all its consequences, which are forgotten when the next one comes.
    pub fn deliver(&mut self, arrival: &Arrival) {
        self.out.clear();
        self.handle(arrival);
    }

    /// Likewise, where valgrind counts: see [`COUNTED`] and [`DUMPED`].
    pub fn deliver_counted(&mut self, arrival: &Arrival) {
        earmark_dumped_message(self, arrival);
    }

    #[inline(always)]
    fn handle(&mut self, arrival: &Arrival) {
        let datagram = Datagram {
            interface: arrival.interface,
            source: arrival.source,
            destination: arrival.destination,
            ttl: 62,
            router_alert: true,
            encapsulated: false,
            payload: &arrival.octets,
        };
        self.node.handle(self.now, Input::Datagram(arrival.protocol, datagram), &mut self.out);
    }

    /// Time passes, and whatever is due meanwhile is done. `false`: nothing is ever due again.
    pub fn advance(&mut self, by: Duration) -> bool {
        let until = self.now + by;
        let next = loop {
            let next = self.node.next_deadline();
            let Some(at) = next.filter(|&at| at <= until) else { break next };
            self.now = self.now.max(at);
            self.out.clear();
            self.node.handle(self.now, Input::Expire, &mut self.out);
        };
        self.now = until;
        next.is_some()
    }

    /// Drops what the last input brought about, and the room for it.
    pub fn forget_effects(&mut self) {
        self.out = Effects::new();
    }

    /// How many sessions of a protocol there are, in whatever state.
    pub fn sessions(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Rsvp => self.node.rsvp_engine().population().0,
            Protocol::Boomerang => self.node.boomerang_engine().population().0,
            Protocol::Yessir => self.node.yessir_engine().session_count(),
        }
    }

    /// Claims in the ledger, on all links.
    pub fn claims(&self) -> u32 {
        self.links().map(|link| link.claims).sum()
    }

    /// What is reserved, on all links.
    pub fn held(&self) -> Rate {
        self.links().fold(Rate::ZERO, |sum, link| sum.saturating_add(link.held))
    }

    fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.node.ledger().links().map(|(_, status)| status)
    }
}

impl Default for Router {
    fn default() -> Self {
        Router::new()
    }
}

/// Function whose instructions are counted, as a pattern for valgrind.
pub const COUNTED: &str = "*earmark_counted_delivery*";
/// Function after which the count is written, likewise. Callgrind does only one of the two with one function.
pub const DUMPED: &str = "*earmark_dumped_message*";

#[inline(never)]
fn earmark_dumped_message(router: &mut Router, arrival: &Arrival) {
    router.out.clear();
    earmark_counted_delivery(router, arrival);
    // A call at the very end could become a jump, and then this function would never return.
    std::hint::black_box(&router.out);
}

#[inline(never)]
fn earmark_counted_delivery(router: &mut Router, arrival: &Arrival) {
    router.handle(std::hint::black_box(arrival));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every message does what its step says, in every protocol, and a router is empty after the last release.
    #[test]
    fn sessions_come_stay_and_go() {
        for protocol in Protocol::ALL {
            let mut router = Router::with_sessions(protocol, 100, |_| {});
            assert_eq!(router.sessions(protocol), 100, "{protocol:?}");
            let (claims, held) = (router.claims(), router.held());
            let directions = if protocol == Protocol::Boomerang { 2 } else { 1 };
            assert_eq!(claims, 100 * directions, "{protocol:?}");
            assert_eq!(held, Rate::from_bps(64_000 * u64::from(claims)), "{protocol:?}");
            let deliver = |router: &mut Router, step, round| {
                for session in 0..100 {
                    for message in protocol.messages_that(step) {
                        router.deliver(&message.of(router, session, round));
                    }
                }
            };
            router.advance(Duration::from_secs(20));
            deliver(&mut router, Step::Refresh, 1);
            assert_eq!((router.sessions(protocol), router.claims()), (100, claims));
            deliver(&mut router, Step::Release, 2);
            assert_eq!((router.sessions(protocol), router.claims()), (0, 0), "{protocol:?}");
            assert_eq!(router.held(), Rate::ZERO);
        }
    }
}
