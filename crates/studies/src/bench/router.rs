//! A router without I/O, and the messages of its neighbors.
//!
//! ```text
//!   172.16.0.0/12 --- eth1 [router] eth2 --- 10.0.0.0/8        400 Gbit/s each
//! ```
//!
//! The router is the whole of [`earmark_node`]: four engines, ledger, routes. Sessions are numbered; each has a far
//! end of its own and 64 kbit/s. The formats of [`earmark_wire`] encode the messages, octet for octet as they would
//! arrive from the network, in one file for each protocol. NSIS neighbors repeat cookies that the router has sent, so
//! its answers to a message are kept until then.

mod arrival;
pub(super) mod boomerang;
mod call;
pub mod group;
mod message;
mod natfw;
mod nsis;
mod protocol;
mod rsvp;
pub(super) mod yessir;

pub use arrival::{Arrival, Side};
pub use message::{Message, Step};
pub(super) use nsis::lift_limits;
pub use protocol::{MemoryGoal, Protocol};
pub use rsvp::RESV_TEAR;
pub use yessir::{SIGNED, signing_key};

use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Duration;

use earmark_core::admission::LinkStatus;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::keys::Directions;
use earmark_core::{Effect, Effects, Hop, Interface, InterfaceId, Rate, Route, Time, Trust};
use earmark_node::{Event, HostUpdate, Input, Node, NodeConfig};

/// Interface towards the senders.
const NEAR: InterfaceId = InterfaceId(1);
/// Interface towards the receivers.
const FAR: InterfaceId = InterfaceId(2);
const BANDWIDTH: Rate = Rate::from_mbps(400_000);

/// TTL of arriving messages that other nodes have forwarded.
const TTL: u8 = 62;
/// TTL of messages of RSVP from a neighbour.
const NEIGHBOR_TTL: u8 = 255;

/// A link of the router.
struct Link {
    interface: InterfaceId,
    /// Address of the router.
    address: Ipv4Addr,
    /// Address of the neighbor.
    neighbor: Ipv4Addr,
    /// Prefix reached through the neighbor.
    leads_to: &'static str,
}

const LINKS: [Link; 2] = [
    Link {
        interface: NEAR,
        address: Ipv4Addr::new(192, 0, 2, 2),
        neighbor: Ipv4Addr::new(192, 0, 2, 1),
        leads_to: "172.16.0.0/12",
    },
    Link {
        interface: FAR,
        address: Ipv4Addr::new(198, 51, 100, 1),
        neighbor: Ipv4Addr::new(198, 51, 100, 2),
        leads_to: "10.0.0.0/8",
    },
];

/// A router, its clock, and its effects buffer.
pub struct Router {
    node: Node,
    out: Effects<Event>,
    now: Time,
    /// Messages that the router sent about the last ones delivered; `None` if the protocol does not repeat any of
    /// them.
    answers: Option<Answers>,
    /// Logical interface handle that another router has given its far side, if this one stands in for it.
    lih: Option<u32>,
}

/// Last message that the router has sent about each of some messages.
#[derive(Default)]
struct Answers {
    octets: Vec<u8>,
    /// Sessions with octet ranges, in the order of the delivered messages, which is that of the sessions.
    of: Vec<(u32, Range<usize>)>,
}

impl Answers {
    fn keep(&mut self, session: u32, out: &Effects<Event>) {
        let sent = out.iter().filter_map(|effect| match effect {
            Effect::Send(_, range) => Some(out.octets(range)),
            _ => None,
        });
        let Some(last) = sent.last() else { return };
        let start = self.octets.len();
        self.octets.extend_from_slice(last);
        self.of.push((session, start..self.octets.len()));
    }

    fn clear(&mut self) {
        self.octets.clear();
        self.of.clear();
    }
}

impl Router {
    /// Creates a router without sessions for this protocol, without limits on session changes a second.
    pub fn new(protocol: Protocol) -> Router {
        Router::with_config(protocol, config())
    }

    /// Creates a router that accepts only signed messages of YESSIR ([`SIGNED`]).
    pub fn requiring_signatures() -> Router {
        let mut config = config();
        config.yessir.auth.keys = vec![signing_key()];
        config.yessir.auth.interfaces = [(name_of(NEAR), Directions::Accept)].into();
        Router::with_config(Protocol::Yessir, config)
    }

    fn with_config(protocol: Protocol, config: NodeConfig) -> Router {
        let mut router = Router {
            node: Node::new(config),
            out: Effects::new(),
            now: Time::from_secs(1),
            answers: protocol.repeats_answers().then(Answers::default),
            lih: None,
        };
        for Link { interface, address, neighbor, leads_to } in LINKS {
            router.attach(interface, address);
            let hop = Hop { interface, gateway: Some(neighbor.into()), source: None };
            let prefix = leads_to.parse().expect("a prefix");
            router.update(HostUpdate::Route(Route { prefix, metric: 0, hop }));
        }
        router.out.clear();
        router
    }

    /// Creates a router with `sessions` sessions of a protocol, numbered from 0. `told` receives their number now and
    /// then.
    pub fn with_sessions(
        protocol: Protocol,
        sessions: u32,
        mut progress: impl FnMut(u32),
    ) -> Router {
        let mut router = Router::new(protocol);
        for session in 0..sessions {
            for message in protocol.runs(Step::SetUp).flatten() {
                router.deliver_all(&[message.of(&router, session, 0)]);
            }
            if session.is_multiple_of(1_024) {
                progress(session);
            }
        }
        router.forget_effects();
        router
    }

    /// Returns the node, and the time of its clock.
    pub(super) fn into_node(self) -> (Node, Time) {
        (self.node, self.now)
    }

    /// Adds an interface with this address.
    fn attach(&mut self, id: InterfaceId, address: Ipv4Addr) {
        self.update(HostUpdate::Interface(Interface {
            id,
            name: name_of(id),
            addresses: vec![address.into()],
            mtu: 1_500,
            up: true,
            bandwidth: BANDWIDTH,
            reservable: BANDWIDTH,
            largest: None,
            overhead: 0,
            latency_us: 10,
            trust: Trust::CORE,
        }));
    }

    /// Records a message of another router, for which this one stands in, about a session: messages written next
    /// repeat the required fields.
    pub fn record_answer(&mut self, protocol: Protocol, session: u32, octets: &[u8]) {
        if let Some(answers) = &mut self.answers {
            answers.clear();
            answers.octets.extend_from_slice(octets);
            answers.of.push((session, 0..octets.len()));
        }
        if protocol == Protocol::Rsvp
            && let Some(lih) = rsvp::lih_of(octets)
        {
            self.lih = Some(lih);
        }
    }

    fn update(&mut self, update: HostUpdate) {
        self.node.handle(self.now, Input::Host(update), &mut self.out);
    }

    /// Delivers messages one after the other, with all their consequences, and drops the effects of each before the
    /// next one. Their sessions are in ascending order.
    pub fn deliver_all(&mut self, arrivals: &[Arrival]) {
        self.deliver_by(arrivals, |router, arrival| {
            router.out.clear();
            router.handle(arrival);
        });
    }

    /// Delivers messages with functions that valgrind counts: see [`COUNTED`] and [`DUMPED`].
    pub fn deliver_all_counted(&mut self, arrivals: &[Arrival]) {
        self.deliver_by(arrivals, earmark_dumped_message);
    }

    #[inline(always)]
    fn deliver_by(&mut self, arrivals: &[Arrival], deliver: impl Fn(&mut Router, &Arrival)) {
        if let Some(answers) = &mut self.answers {
            answers.clear();
        }
        for arrival in arrivals {
            deliver(self, arrival);
            if let Some(answers) = &mut self.answers {
                answers.keep(arrival.session, &self.out);
            }
        }
    }

    /// Packets that the router has sent about the last delivered message, without their IP headers.
    pub fn sent(&self) -> impl Iterator<Item = &[u8]> {
        self.out.iter().filter_map(|effect| match effect {
            Effect::Send(_, range) => Some(self.out.octets(range)),
            _ => None,
        })
    }

    /// Last packet that the router has sent about the last delivered message of a session.
    fn answer(&self, session: u32) -> Option<&[u8]> {
        let answers = self.answers.as_ref()?;
        let place = answers.of.binary_search_by_key(&session, |(of, _)| *of).ok()?;
        answers.octets.get(answers.of[place].1.clone())
    }

    #[inline(always)]
    fn handle(&mut self, arrival: &Arrival) {
        let datagram = arrival.datagram();
        mark(Checkpoint::Begin);
        self.node.handle(self.now, Input::Datagram(arrival.protocol, datagram), &mut self.out);
        mark(Checkpoint::End);
    }

    /// Advances time, and serves timers that come due meanwhile. Returns `false` if no timer is pending any more.
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

    /// Advances time up to a moment with functions that valgrind counts ([`COUNTED`]); `each` is called after each
    /// timeout.
    pub fn advance_counted(&mut self, until: Time, mut each: impl FnMut(&Router)) {
        while earmark_counted_time_out(self, until) {
            each(self);
        }
        self.now = self.now.max(until);
    }

    /// Returns the RSVP engine.
    pub fn rsvp(&self) -> &earmark_rsvp::Rsvp {
        self.node.engine::<earmark_rsvp::Rsvp>().expect("a node with RSVP")
    }

    /// Returns the time of the router's clock.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Drops the effects of the last inputs, and their buffer.
    pub fn forget_effects(&mut self) {
        self.out = Effects::new();
        if let Some(answers) = &mut self.answers {
            *answers = Answers::default();
        }
    }

    /// Returns the number of sessions of a protocol, in any state.
    pub fn sessions(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Rsvp => {
                self.node.engine::<earmark_rsvp::Rsvp>().expect("a node with RSVP").population().0
            }
            Protocol::Boomerang => {
                self.node
                    .engine::<earmark_boomerang::Boomerang>()
                    .expect("a node with Boomerang")
                    .population()
                    .0
            }
            Protocol::Yessir => self
                .node
                .engine::<earmark_yessir::Yessir>()
                .expect("a node with YESSIR")
                .session_count(),
            Protocol::Nsis => self.nsis().qos().session_count(),
            Protocol::Natfw => self.nsis().natfw().session_count(),
        }
    }

    fn nsis(&self) -> &earmark_nsis::Nsis {
        self.node.engine().expect("a node with NSIS")
    }

    /// Returns the number of sessions, plus GIST routing states with NSIS.
    pub fn remains(&self, protocol: Protocol) -> usize {
        let of_gist = match protocol {
            Protocol::Nsis | Protocol::Natfw => self.nsis().gist().routing_state_count(),
            _ => 0,
        };
        self.sessions(protocol) + of_gist
    }

    /// Returns the number of claims in the ledger, on all links.
    pub fn claims(&self) -> u32 {
        self.links().map(|link| link.claims).sum()
    }

    /// Returns the reserved bandwidth on all links.
    pub fn held(&self) -> Rate {
        self.links().fold(Rate::ZERO, |sum, link| sum.saturating_add(link.held))
    }

    fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.node.ledger().links().map(|(_, status)| status)
    }
}

/// Returns a configuration without limits on session changes a second.
fn config() -> NodeConfig {
    let mut config = NodeConfig { name: "router".to_owned(), seed: 1, ..NodeConfig::default() };
    config.boomerang.limits.changes_per_second = u32::MAX;
    config.boomerang.limits.sessions = u32::MAX;
    config.yessir.limits.changes_per_second = u32::MAX;
    config.yessir.limits.sessions = u32::MAX;
    config.nsis.gist.validity = nsis::VALIDITY;
    nsis::lift_limits(&mut config.nsis.gist);
    config.nsis.natfw = natfw::firewall();
    let limits = &mut config.nsis.qos.limits;
    limits.sessions = u32::MAX;
    limits.sessions_per_peer = u32::MAX;
    limits.changes_per_second = u32::MAX;
    config
}

fn name_of(interface: InterfaceId) -> String {
    format!("eth{}", interface.0)
}

/// Functions whose instructions valgrind counts, as a pattern: taking a message from a queue, everything that it
/// causes, and a timeout.
pub const COUNTED: &str = "*earmark_counted_*";
/// Function after which valgrind writes the count, as a pattern. Callgrind supports only one of the two for one
/// function.
pub const DUMPED: &str = "*earmark_dumped_message*";

#[inline(never)]
fn earmark_dumped_message(router: &mut Router, arrival: &Arrival) {
    router.out.clear();
    earmark_counted_delivery(router, arrival);
    // Prevents a tail call: it could become a jump, and then this function would never return.
    std::hint::black_box(&router.out);
}

#[inline(never)]
fn earmark_counted_delivery(router: &mut Router, arrival: &Arrival) {
    router.handle(std::hint::black_box(arrival));
}

/// Takes a message from a queue, as from a socket: its octets are copied over those of the last one.
#[inline(never)]
pub fn earmark_counted_input(queued: &Arrival, room: &mut Arrival) {
    let mut octets = std::mem::take(&mut room.octets);
    octets.clear();
    octets.extend_from_slice(&queued.octets);
    let Arrival { session, protocol, interface, source, destination, .. } = *queued;
    *room = Arrival { session, protocol, interface, source, destination, octets };
}

/// Serves the next timeout if it is due by `until`; returns whether there was one.
#[inline(never)]
fn earmark_counted_time_out(router: &mut Router, until: Time) -> bool {
    let Some(at) = router.node.next_deadline().filter(|&at| at <= until) else { return false };
    router.now = router.now.max(at);
    router.out.clear();
    router.node.handle(router.now, Input::Expire, &mut router.out);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every message does what its step says, in every protocol, and a router is empty after the last release.
    #[test]
    fn sessions_are_set_up_refreshed_and_released() {
        for protocol in Protocol::ALL {
            let mut router = Router::with_sessions(protocol, 100, |_| {});
            assert_eq!(router.sessions(protocol), 100, "{protocol:?}");
            let (claims, held) = (router.claims(), router.held());
            let directions = match protocol {
                Protocol::Boomerang => 2,
                _ => u32::from(protocol.reserves()),
            };
            assert_eq!(claims, 100 * directions, "{protocol:?}");
            assert_eq!(held, Rate::from_bps(64_000 * u64::from(claims)), "{protocol:?}");
            let deliver = |router: &mut Router, step, round| {
                for message in protocol.runs(step).flatten() {
                    let of = |session| message.of(router, session, round);
                    let arrivals: Vec<_> = (0..100).map(of).collect();
                    router.deliver_all(&arrivals);
                }
            };
            router.advance(Duration::from_secs(20));
            deliver(&mut router, Step::Refresh, 1);
            assert_eq!((router.sessions(protocol), router.claims()), (100, claims));
            deliver(&mut router, Step::Release, 0);
            assert_eq!((router.sessions(protocol), router.claims()), (0, 0), "{protocol:?}");
            assert_eq!(router.held(), Rate::ZERO);
        }
    }

    #[test]
    fn a_resv_tear_leaves_the_path() {
        let mut router = Router::with_sessions(Protocol::Rsvp, 3, |_| {});
        let messages = Protocol::Rsvp.messages_of_both_ends();
        let names: Vec<&str> = messages.iter().map(|message| message.name).collect();
        assert_eq!(names[4..], ["ResvTear", "PathTear"]);
        router.deliver_all(&[messages[4].of(&router, 1, 0)]);
        assert_eq!((router.sessions(Protocol::Rsvp), router.claims()), (3, 2));
        assert_eq!(router.sent().count(), 1, "it goes on upstream");
        router.deliver_all(&[messages[5].of(&router, 1, 0)]);
        assert_eq!((router.sessions(Protocol::Rsvp), router.claims()), (2, 2));
    }

    #[test]
    fn unsigned_request_reserves_nothing_if_signatures_are_required() {
        let mut router = Router::requiring_signatures();
        let unsigned = &Protocol::Yessir.messages()[0];
        router.deliver_all(&[unsigned.of(&router, 0, 0)]);
        assert_eq!((router.claims(), router.sent().count()), (0, 1), "it only goes on");
        router.deliver_all(&[SIGNED[0].of(&router, 0, 0)]);
        assert_eq!((router.claims(), router.sent().count()), (1, 1));
        router.deliver_all(&[SIGNED[1].of(&router, 0, 0)]);
        assert_eq!(router.claims(), 0);
    }
}
