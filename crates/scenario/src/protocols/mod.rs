//! Protocols of scenarios and explorations: those of this project, one module for each, and those that a program adds.

mod boomerang;
mod nsis;
mod rsvp;
mod yessir;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Rate;
use earmark_core::random::Stream;
use earmark_node::{AddEngineError, Command, EngineKind, Engines, Event, Node, NodeConfig};
use earmark_sim::{Network, NodeId};

use crate::attack::{Attack, Packet};
use crate::middlebox::Middlebox;
use crate::path_request::{PathEvent, PathRequest};
use crate::reservation::ReservationRequest;

/// End of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Node of the source.
    Source,
    /// Node of the destination.
    Destination,
}

/// What a scenario says about every node, whatever the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonSettings {
    /// Mean time between refreshes.
    pub refresh: Duration,
    /// Whether refreshes are reduced to summaries, where the protocol has that (RFC 2961).
    pub refresh_reduction: bool,
    /// Whether flows have priorities.
    pub has_priorities: bool,
    /// Whether nodes take part in opening paths through firewalls.
    pub opens_paths: bool,
}

/// Returns the commands of a request, each with the node that gets it, in order.
pub(crate) type Commands = fn(&ReservationRequest) -> Vec<(End, Command)>;

/// Variant of a protocol: a transport, style or initiation.
#[derive(Debug)]
pub struct Variant {
    /// Name of the variant.
    pub name: &'static str,
    /// Sets what the variant needs in the settings of every node.
    pub configure: fn(&mut NodeConfig),
    /// Sets the identity of a machine by its number, if it has one that outlives its daemons.
    pub identify: Option<fn(u32, &mut NodeConfig)>,
    /// Prepares a node in its network: a router with the names of its interfaces towards hosts, or a host with none.
    pub prepare: fn(&mut Network, NodeId, &[String]),
    /// Returns the commands that request the reservation of a flow, as [`ScenarioProtocol::request`].
    pub request: fn(&ReservationRequest) -> Vec<(End, Command)>,
    /// Node whose daemon keeps the reservation up.
    pub keeper: End,
    /// Node whose application is told that a reservation is refused.
    pub refused_at: End,
    /// What the applications at the destination do.
    pub receiver: Receiver,
    /// Returns the commands that release it, as [`ScenarioProtocol::release`].
    pub release: fn(&ReservationRequest) -> Vec<(End, Command)>,
    /// Number of members, if the destination is a group: each is a host behind a router of its own.
    pub members: usize,
    /// Router that signals for an end, if one does.
    pub proxy: Option<Proxy>,
    /// Returns the commands that change it to the rate of the request, if the source can change it.
    pub change: Option<Commands>,
}

/// Application of a variant at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// There is no application, or the protocol tells it nothing.
    Unaware,
    /// The application is told of each reservation that arrives, and of its end.
    Informed,
    /// The application requests the reservation, is told of the result, and takes the reservation with it when it ends.
    Requests,
}

/// A proxy: the router of an end, which signals for it.
#[derive(Clone, Copy, Debug)]
pub struct Proxy {
    /// The end.
    pub of: End,
    /// Sets it in the settings of the router, whose link to the end is behind an interface of this name.
    pub configure: fn(&ReservationRequest, &str, &mut NodeConfig),
    /// Whether the reservation includes the link of the end.
    pub reserves_link: bool,
    /// Whether the application of the end runs at the router.
    pub has_application: bool,
}

impl Variant {
    /// Creates a variant whose reservation the source keeps up, without settings of its own.
    const fn new(name: &'static str, request: Commands, release: Commands) -> Variant {
        let (keeper, refused_at, change) = (End::Source, End::Source, None);
        Variant {
            name,
            configure: |_| {},
            identify: None,
            prepare: |_, _, _| {},
            request,
            keeper,
            refused_at,
            receiver: Receiver::Unaware,
            release,
            members: 0,
            proxy: None,
            change,
        }
    }

    /// Sets the proxy of an end. The source cannot change the rate.
    const fn by_proxy(self, proxy: Proxy) -> Variant {
        Variant { proxy: Some(proxy), change: None, ..self }
    }

    /// Sets what the applications at the destination do.
    const fn with_receiver(self, receiver: Receiver) -> Variant {
        Variant { receiver, ..self }
    }

    /// Sets the number of members of the destination.
    const fn with_members(self, members: usize) -> Variant {
        Variant { members, ..self }
    }

    /// Sets how the source changes the reservation.
    const fn changed_by(self, change: Commands) -> Variant {
        Variant { change: Some(change), ..self }
    }

    /// Sets what it needs in the settings of every node.
    const fn with(self, configure: fn(&mut NodeConfig)) -> Variant {
        Variant { configure, ..self }
    }
}

/// A setting of a node that [crossings](crate::crossing) change for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// State is refreshed less often.
    LongerRefresh,
    /// State is refreshed more often.
    ShorterRefresh,
    /// State that neighbours refresh has a shorter lifetime at most.
    ShorterLifetime,
    /// The node takes no new sessions.
    NoSessions,
    /// The node refuses every request by its policy.
    Forbidden,
}

/// A protocol in scenarios and explorations: its settings, and the commands that reserve for a flow.
pub trait ScenarioProtocol: fmt::Debug + Sync {
    /// Returns the name of the protocol in scenario files; that of its engine.
    fn name(&self) -> &'static str;

    /// Returns the kind of the protocol's engine, if it is not one of this project.
    fn engine(&self) -> Option<EngineKind> {
        None
    }

    /// Returns whether requests have priorities.
    fn has_priorities(&self) -> bool {
        false
    }

    /// Returns the longest refresh interval, seconds, if messages state it in whole seconds.
    fn longest_refresh_s(&self) -> Option<u64> {
        None
    }

    /// Sets what a scenario says about every node.
    fn configure(&self, settings: &CommonSettings, config: &mut NodeConfig);

    /// Draws settings for every node of an exploration: state is refreshed every `refresh_s` seconds (1, 2 or 4).
    fn draw_settings(&self, refresh_s: u8, random: &mut Stream, config: &mut NodeConfig);

    /// Limits the state that can be created from behind an access interface, in engines with such a limit.
    fn limit_access(&self, _most: u32, _config: &mut NodeConfig) {}

    /// Changes a setting; `false` if the protocol does not have it.
    fn set(&self, _setting: Setting, _config: &mut NodeConfig) -> bool {
        false
    }

    /// Returns the rate of a reservation that an event tells an application of; `None` if it tells no rate.
    fn told_rate(&self, _event: &Event) -> Option<Rate> {
        None
    }

    /// Sets the clock back from which sequence numbers follow, if the protocol has any.
    fn set_clock_back(&self, _time: Duration, _config: &mut NodeConfig) {}

    /// Returns whether a running daemon takes the setting by a [reload](ScenarioProtocol::reload), and not only the next one.
    fn is_reloaded(&self, _setting: Setting) -> bool {
        false
    }

    /// Returns the command by which a running daemon takes changed settings; `None` if it takes none.
    fn reload(&self, _config: &NodeConfig) -> Option<Command> {
        None
    }

    /// Returns the variants in which [crossings](crate::crossing) play the protocol; none if they do not.
    fn variants(&self) -> &'static [Variant] {
        &[]
    }

    /// Returns the commands that request the reservation of a flow, each with the node that gets it, in order.
    fn request(&self, request: &ReservationRequest) -> Vec<(End, Command)>;

    /// Returns the commands that release it.
    fn release(&self, request: &ReservationRequest) -> Vec<(End, Command)>;

    /// Returns whether the protocol opens paths through firewalls and translators.
    fn opens_paths(&self) -> bool {
        false
    }

    /// Makes a node a firewall or a translator, whose interfaces of these names lead out of its network.
    fn set_middlebox(&self, _: &Middlebox, _external: &[String], _: &mut NodeConfig) {}

    /// Returns the command by which the source of a flow opens its path.
    fn open(&self, _request: &PathRequest) -> Option<Command> {
        None
    }

    /// Returns the command by which the destination of a flow makes its port reachable from outside.
    fn expose(&self, _request: &PathRequest) -> Option<Command> {
        None
    }

    /// Returns the command that ends the request of an application, at either end.
    fn close(&self, _application: u64) -> Option<Command> {
        None
    }

    /// Returns what an event tells an application about its request to open or expose.
    fn path_event(&self, _event: &Event) -> Option<PathEvent> {
        None
    }

    /// Returns forged messages of the protocol, by an attacker with this address who has seen the messages of
    /// reservations.
    fn forgeries(&self, _seen: &[Packet], _attacker: IpAddr) -> Vec<Attack> {
        Vec::new()
    }

    /// Returns whether routers take a packet for a message of the protocol, well formed or not. To them, all others are
    /// data.
    fn recognizes(&self, _packet: &Packet) -> bool {
        true
    }

    /// Returns the name of a message for [cost profiles](crate::processing::CostProfile); `None` if it is not one of the
    /// protocol. `payload` follows the IP header; of TCP, it is what one segment carries.
    fn message_name(&self, _ip_protocol: u8, _payload: &[u8]) -> Option<&'static str> {
        None
    }

    /// Returns the number of sessions at a node. O(1).
    fn session_count(&self, _node: &Node) -> usize {
        0
    }

    /// Returns a message inside UDP, as a host behind `router` sends it that has no raw sockets; `None` for other packets,
    /// and if the protocol has no such encapsulation.
    fn encapsulated(&self, _packet: &Packet, _router: IpAddr) -> Option<Packet> {
        None
    }
}

/// Protocols that scenarios may name, and that explorations draw from.
#[derive(Clone, Debug)]
pub struct Protocols(Vec<&'static dyn ScenarioProtocol>);

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols(vec![&rsvp::Rsvp, &boomerang::Boomerang, &yessir::Yessir, &nsis::Nsis])
    }
}

/// Protocols are equal if they have the same names.
impl PartialEq for Protocols {
    fn eq(&self, other: &Protocols) -> bool {
        self.names().eq(other.names())
    }
}

impl Protocols {
    /// Adds a protocol.
    ///
    /// # Errors
    /// The engine has the name or the number of another one.
    pub fn with(mut self, protocol: &'static dyn ScenarioProtocol) -> Result<Self, AddEngineError> {
        self.0.push(protocol);
        self.engines().map(|_| self)
    }

    /// Returns the protocol of a name.
    pub fn by_name(&self, name: &str) -> Option<&'static dyn ScenarioProtocol> {
        self.0.iter().copied().find(|protocol| protocol.name() == name)
    }

    /// Iterates over the names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|protocol| protocol.name())
    }

    /// Returns all protocols, in the order in which they were added.
    pub fn all(&self) -> &[&'static dyn ScenarioProtocol] {
        &self.0
    }

    /// Returns the settings of a node with the engines of all protocols, and defaults otherwise.
    pub(crate) fn node_config(&self) -> NodeConfig {
        let engines = self.engines().unwrap_or_default();
        NodeConfig { engines, ..NodeConfig::default() }
    }

    fn engines(&self) -> Result<Engines, AddEngineError> {
        let added = self.0.iter().filter_map(|protocol| protocol.engine());
        added.into_iter().try_fold(Engines::default(), Engines::with)
    }
}

/// Requests the reservation of a flow now.
pub(crate) fn request(
    protocol: &dyn ScenarioProtocol,
    request: &ReservationRequest,
    network: &mut Network,
) {
    carry_out(protocol.request(request), request, network);
}

/// Releases the reservation of a flow now.
pub(crate) fn release(
    protocol: &dyn ScenarioProtocol,
    request: &ReservationRequest,
    network: &mut Network,
) {
    carry_out(protocol.release(request), request, network);
}

pub(crate) fn carry_out(
    commands: Vec<(End, Command)>,
    request: &ReservationRequest,
    network: &mut Network,
) {
    for (end, command) in commands {
        let [source, destination] = request.nodes;
        let node = match end {
            End::Source => source,
            End::Destination => destination,
        };
        network.command(node, command);
    }
}
