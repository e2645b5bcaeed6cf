//! Test bench of one engine: the node around it, as its driver keeps it, with virtual time.

pub mod rsvp;

use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use earmark_core::admission::{ClaimId, Ledger, LinkCapacity};
use earmark_core::{
    Context, Datagram, Effect, Effects, Engine, FilterChange, Flow, Hop, HostEvent, Input,
    Installation, Interface, InterfaceId, Interfaces, Outgoing, Prefix, Rate, Route, RouteTable,
    Time, Trust,
};

/// Returns an address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("test addresses are right")
}

/// Returns a prefix.
pub fn prefix(text: &str) -> Prefix {
    text.parse().expect("test prefixes are right")
}

/// Returns an interface that is up, named after its number.
pub fn interface(
    id: InterfaceId,
    addresses: &[&str],
    bandwidth: Rate,
    reservable: Rate,
) -> Interface {
    Interface {
        id,
        name: format!("eth{}", id.0),
        addresses: addresses.iter().map(|text| ip(text)).collect(),
        mtu: 1_500,
        up: true,
        bandwidth,
        reservable,
        largest: None,
        overhead: 0,
        latency_us: 100,
        trust: Trust::CORE,
    }
}

/// A datagram that owns its octets.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Incoming interface.
    pub interface: InterfaceId,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TTL on arrival.
    pub ttl: u8,
    /// Whether the router alert option is set.
    pub router_alert: bool,
    /// Payload of the IP packet.
    pub octets: Vec<u8>,
}

impl Arrival {
    /// Returns a sent message as it arrives at an interface of a neighbor.
    pub fn of(interface: InterfaceId, how: Outgoing, octets: &[u8]) -> Arrival {
        let Outgoing { source, destination, ttl, router_alert, .. } = how;
        let octets = octets.to_vec();
        Arrival { interface, source, destination, ttl, router_alert, octets }
    }

    /// Returns the datagram as an engine gets it.
    #[inline]
    pub fn datagram(&self) -> Datagram<'_> {
        Datagram {
            interface: self.interface,
            source: self.source,
            destination: self.destination,
            ttl: self.ttl,
            router_alert: self.router_alert,
            encapsulated: false,
            payload: &self.octets,
        }
    }
}

/// An effect of one input, with a message as octets.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<E> {
    /// A message was sent.
    Sent(Outgoing, Vec<u8>),
    /// A claim was installed in traffic control.
    Installed(Installation),
    /// A flow was added to a claim.
    Added(ClaimId, Flow),
    /// A flow was removed from a claim.
    TakenOut(ClaimId, Flow),
    /// A claim was removed from traffic control.
    Removed(ClaimId),
    /// A rule of the packet filter changed.
    Filtered(FilterChange),
    /// An event happened.
    Event(E),
}

/// Returns the effects as values.
///
/// # Panics
/// One of them is about a connection.
pub fn outcomes<E: Clone>(effects: &Effects<E>) -> Vec<Outcome<E>> {
    let outcome = |effect: &Effect<E>| match effect {
        Effect::Send(how, range) => Outcome::Sent(*how, effects.octets(range).to_vec()),
        Effect::Install(installation) => Outcome::Installed(*installation),
        Effect::Remove(claim, _) => Outcome::Removed(*claim),
        Effect::Filter(change) => Outcome::Filtered(*change),
        Effect::Notify(event) => Outcome::Event(event.clone()),
        Effect::AddFlow(claim, flow) => Outcome::Added(*claim, *flow),
        Effect::RemoveFlow(claim, flow) => Outcome::TakenOut(*claim, *flow),
        Effect::Connect(_) | Effect::Write(..) | Effect::Close(_) => {
            panic!("no engine here has connections")
        }
    };
    effects.iter().map(outcome).collect()
}

/// Returns the sent messages.
pub fn sent<E>(outcomes: &[Outcome<E>]) -> impl Iterator<Item = (Outgoing, &[u8])> {
    outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Sent(how, octets) => Some((*how, &octets[..])),
        _ => None,
    })
}

/// Returns the events.
pub fn events<E: Clone>(outcomes: &[Outcome<E>]) -> Vec<E> {
    let event = |outcome: &Outcome<E>| match outcome {
        Outcome::Event(event) => Some(event.clone()),
        _ => None,
    };
    outcomes.iter().filter_map(event).collect()
}

/// Returns the installed claims.
pub fn installed<E>(outcomes: &[Outcome<E>]) -> Vec<Installation> {
    let installation = |outcome: &Outcome<E>| match outcome {
        Outcome::Installed(installation) => Some(*installation),
        _ => None,
    };
    outcomes.iter().filter_map(installation).collect()
}

/// Tables of a node without its engine.
#[derive(Debug, Default)]
pub struct Host {
    /// Interfaces of the node.
    pub interfaces: Interfaces,
    /// Routes of the node.
    pub routes: RouteTable,
    /// Bandwidth of the links.
    pub ledger: Ledger,
}

impl Host {
    /// Returns the context of the next input.
    #[inline]
    pub fn context(&mut self) -> Context<'_> {
        Context { routes: &self.routes, interfaces: &self.interfaces, ledger: &mut self.ledger }
    }

    /// Adds a link, or replaces it.
    pub fn set_link(
        &mut self,
        id: InterfaceId,
        addresses: &[&str],
        bandwidth: Rate,
        reservable: Rate,
    ) {
        self.interfaces.set(interface(id, addresses, bandwidth, reservable));
        self.ledger.set_link(id, LinkCapacity { bandwidth, reservable, mtu: 1_500 });
    }

    /// Adds a link that has room for any number of sessions.
    pub fn set_large_link(&mut self, id: InterfaceId, address: &str) {
        let bandwidth = Rate::from_mbps(400_000);
        self.set_link(id, &[address], bandwidth, bandwidth);
    }

    /// Adds a route.
    pub fn add_route(&mut self, to: &str, interface: InterfaceId, gateway: Option<&str>) {
        let hop = Hop { interface, gateway: gateway.map(ip), source: None };
        self.routes.insert(Route { prefix: prefix(to), metric: 0, hop });
    }

    /// Returns the bandwidth held on a link.
    pub fn held_on(&self, interface: InterfaceId) -> Rate {
        self.ledger.link(interface).expect("a link").held
    }
}

/// An engine, its node, and the time.
pub struct Bench<N: Engine> {
    /// Engine under test.
    pub engine: N,
    /// Tables of the node.
    pub host: Host,
    /// Time of the next input.
    pub now: Time,
    /// Effects that nobody has taken yet.
    pub out: Effects<N::Event>,
}

impl<N: Engine> Deref for Bench<N> {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl<N: Engine> DerefMut for Bench<N> {
    fn deref_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

impl<N: Engine> Bench<N> {
    /// Creates a node without links.
    pub fn new(engine: N, now: Time) -> Bench<N> {
        Bench { engine, host: Host::default(), now, out: Effects::new() }
    }

    /// Passes an input to the engine; its effects are added to those before.
    #[inline]
    pub fn give(&mut self, input: Input<'_, N::Command>) {
        self.engine.handle(self.now, input, &mut self.host.context(), &mut self.out);
    }

    /// Passes the displaced claims of the ledger to the engine, as a node does.
    pub fn give_displaced(&mut self) {
        while let Some(displaced) = self.ledger.next_displaced() {
            self.give(Input::Host(HostEvent::Displaced(displaced)));
        }
    }

    /// Drops the effects so far, as a driver would have by now.
    #[inline]
    pub fn forget_effects(&mut self) {
        self.out.clear();
    }

    /// Advances the time to the next deadline, but at most to `end`; returns whether that deadline is due.
    pub fn advance(&mut self, end: Time) -> bool {
        let due = self.engine.next_deadline().filter(|(at, _)| *at <= end);
        self.now = due.map_or(end, |(at, _)| at).max(self.now);
        due.is_some()
    }

    /// Returns the sent messages among the effects.
    pub fn sent(&self) -> impl Iterator<Item = (Outgoing, &[u8])> {
        self.out.iter().filter_map(|effect| match effect {
            Effect::Send(how, range) => Some((*how, self.out.octets(range))),
            _ => None,
        })
    }
}

impl<N: Engine<Event: Clone>> Bench<N> {
    /// Handles an input, and what the ledger has for the engine afterwards; returns the effects.
    pub fn handle(&mut self, input: Input<'_, N::Command>) -> Vec<Outcome<N::Event>> {
        self.out.clear();
        self.give(input);
        self.give_displaced();
        outcomes(&self.out)
    }

    /// Handles a user's command.
    pub fn command(&mut self, command: N::Command) -> Vec<Outcome<N::Event>> {
        self.handle(Input::Command(command))
    }

    /// Handles a change of the host.
    pub fn host(&mut self, event: HostEvent) -> Vec<Outcome<N::Event>> {
        self.handle(Input::Host(event))
    }

    /// Advances the time, timer by timer.
    pub fn pass(&mut self, duration: Duration) -> Vec<Outcome<N::Event>> {
        let end = self.now + duration;
        let mut outcomes = Vec::new();
        while self.advance(end) {
            outcomes.extend(self.handle(Input::Expire));
        }
        outcomes
    }
}

/// Defines a type `Bench`, which has a [`Bench`](crate::bench::Bench) of an engine, so that tests can add methods.
#[macro_export]
macro_rules! bench_of {
    ($engine:ty) => {
        /// An engine, its node, and the time.
        pub struct Bench(::earmark_testkit::bench::Bench<$engine>);

        impl ::std::ops::Deref for Bench {
            type Target = ::earmark_testkit::bench::Bench<$engine>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl ::std::ops::DerefMut for Bench {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
}
