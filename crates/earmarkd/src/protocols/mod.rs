//! What belongs to one protocol in the daemon, behind the trait [`Protocol`] that the rest of the daemon uses.
//!
//! A program adds protocols of its own with [`crate::cli::main_with`].

pub mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use earmark_control::{
    ApplicationId, ApplicationRow, ListenRequest, Problem, ProblemCode, ReservationRequest, Role,
    SenderName,
};
use earmark_core::InterfaceId;
use earmark_core::outcome::Outcome;
use earmark_node::{AddEngineError, Command, EngineKind, Engines, Event};
use earmark_wire::rsvp::SenderTemplate;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A protocol that applications of this host use.
pub trait Protocol: Sync {
    /// Returns the name of the protocol in requests and listings.
    fn name(&self) -> &'static str;

    /// Returns the kind of the protocol's engine, if it is not one of this project. The value of its settings is the
    /// table `[protocol.NAME]` of the configuration.
    fn engine(&self) -> Option<EngineKind> {
        None
    }

    /// Checks the table `[protocol.NAME]` of the configuration.
    ///
    /// # Errors
    /// The reason why the settings are invalid.
    fn check_settings(&self, _settings: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Converts a request to reserve.
    ///
    /// # Errors
    /// The request is invalid, or the protocol rejects it.
    fn reserve(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem>;

    /// Converts a request to listen.
    ///
    /// # Errors
    /// The request is invalid, or the protocol rejects it.
    fn listen(&self, request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem>;

    /// Returns the command that ends an application.
    fn release(&self, application: ApplicationId) -> Command;

    /// Describes an event in one line; `None` for an event of another protocol. `on` is the name of the interface that
    /// the event contains as an index.
    fn describe(&self, _event: &Event, _on: &str) -> Option<String> {
        None
    }

    /// Returns the interface that an event of this protocol contains as an index.
    fn interface_of(&self, _event: &Event) -> Option<InterfaceId> {
        None
    }

    /// Returns reason and advice if an event of this protocol is the rejection of a command.
    fn rejection(&self, _event: &Event) -> Option<(String, &'static str)> {
        None
    }

    /// Returns the application of a command that opens a session, with the session's destination, or that releases it,
    /// without. The host joins the group of a session while it is open.
    fn session_of(&self, _command: &Command) -> Option<(ApplicationId, Option<IpAddr>)> {
        None
    }

    /// Returns whether an event of this protocol is the last one of its application.
    fn ends(&self, _event: &Event) -> bool {
        false
    }
}

/// The protocols of this project.
const PROTOCOLS: [&dyn Protocol; 5] =
    [&rsvp::Rsvp, &boomerang::Boomerang, &yessir::Yessir, &nsis::Nsis, &nsis::ping::Ping];

/// The protocols that the program has added.
static ADDED: OnceLock<Vec<&'static dyn Protocol>> = OnceLock::new();

/// Adds protocols to those of this project, once and before a daemon starts. Later calls have no effect.
///
/// # Errors
/// Two engines have one name or one number.
pub fn add(protocols: &[&'static dyn Protocol]) -> Result<(), AddEngineError> {
    let added = protocols.iter().filter_map(|protocol| protocol.engine());
    added.into_iter().try_fold(Engines::default(), Engines::with)?;
    ADDED.get_or_init(|| protocols.to_vec());
    Ok(())
}

/// Iterates over all protocols.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Protocol> {
    PROTOCOLS.into_iter().chain(ADDED.get().into_iter().flatten().copied())
}

/// Returns the engines of all protocols.
pub(crate) fn engines() -> Engines {
    let added = all().filter_map(Protocol::engine);
    added.into_iter().try_fold(Engines::default(), Engines::with).unwrap_or_default()
}

/// Returns a protocol by its name.
pub(crate) fn find(name: &str) -> Option<&'static dyn Protocol> {
    all().find(|protocol| protocol.name() == name)
}

/// What a protocol may ask about this host.
pub trait Host {
    /// Returns whether an address is one of this host.
    fn is_local(&self, address: IpAddr) -> bool;
    /// Returns whether this host can signal for a destination; without IPv6 it cannot for some.
    fn can_signal(&self, destination: IpAddr) -> bool;
    /// Returns the name of the node.
    fn node(&self) -> &str;
}

/// An application to open: its row, without a number, and the commands for the number that it gets.
pub struct Opening {
    pub(crate) row: ApplicationRow,
    /// The template of an RSVP sender; its address may be chosen by the node.
    pub(crate) template: Option<SenderTemplate>,
    /// Whether the events of the application are sent over the connection that opens it.
    pub(crate) follow: bool,
    pub(crate) commands: Box<dyn FnOnce(ApplicationId) -> Vec<Command>>,
}

impl Opening {
    /// Creates an application to open. With `follow`, its events are sent over the connection that opens it.
    pub fn new(
        row: ApplicationRow,
        follow: bool,
        commands: impl FnOnce(ApplicationId) -> Vec<Command> + 'static,
    ) -> Opening {
        Opening { row, template: None, follow, commands: Box::new(commands) }
    }
}

/// Creates the row of an application.
pub fn row(
    protocol: &dyn Protocol,
    role: Role,
    destination: SocketAddr,
    ip_protocol: u8,
    held: bool,
) -> ApplicationRow {
    ApplicationRow {
        application: ApplicationId(0), // the number is assigned when it is opened
        protocol: protocol.name().to_owned(),
        role,
        destination: destination.ip(),
        destination_port: destination.port(),
        ip_protocol,
        style: None,
        senders: Vec::new(),
        held,
        outcome: Outcome::default(),
        last: None,
    }
}

/// Reads the options of a protocol.
///
/// # Errors
/// An option is unknown or invalid.
pub fn options<T: DeserializeOwned>(
    protocol: &dyn Protocol,
    members: Map<String, Value>,
) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(members)).map_err(|error| {
        Problem::new(
            ProblemCode::BadRequest,
            format!("invalid options of {}: {error}", protocol.name()),
            "docs/control-protocol.md lists the options of each protocol",
        )
    })
}

/// Returns the rate of a request that needs one.
///
/// # Errors
/// The request has none.
pub fn rate(request: &ReservationRequest) -> Result<earmark_core::Rate, Problem> {
    request.rate_bps.ok_or_else(|| {
        let message = "invalid request: missing field `rate_bps`";
        Problem::new(ProblemCode::BadRequest, message, "rate_bps is the token rate of the data")
    })
}

/// Checks that a destination can be signalled for.
///
/// # Errors
/// The destination is unspecified, or the host has no sockets for its family.
pub fn check_destination(
    destination: SocketAddr,
    ip_protocol: u8,
    host: &dyn Host,
) -> Result<(), Problem> {
    if destination.ip().is_unspecified() {
        return Err(rejected(
            format!("{} is no address that data could go to", destination.ip()),
            "name the address itself, not \"any\"",
        ));
    }
    if ip_protocol == 0 {
        return Err(rejected(
            "a session needs the IP protocol of its data; 0 is none (RFC 2205 section A.1)"
                .to_owned(),
            "17 for UDP, 6 for TCP",
        ));
    }
    if !host.can_signal(destination.ip()) {
        return Err(rejected(
            format!(
                "nothing can be reserved for {}: this host does without IPv6",
                destination.ip()
            ),
            "use the receiver's IPv4 address",
        ));
    }
    Ok(())
}

/// Checks that data for an address arrives at this host. The unspecified address stands for all of this host's.
pub(crate) fn check_arrival(on: IpAddr, host: &dyn Host) -> Result<(), Problem> {
    if on.is_multicast() || host.is_local(on) {
        return Ok(());
    }
    Err(rejected(
        format!("{on} is none of this host's addresses, so nothing arrives there"),
        "listen on an address of this host (`ip address` lists them), or run this on the receiver",
    ))
}

/// Returns the source of a flow to `to`; its address may be chosen by the node.
///
/// # Errors
/// The addresses are of different families.
pub fn source(from: Option<SocketAddr>, to: SocketAddr) -> Result<SocketAddr, Problem> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = from.unwrap_or(SocketAddr::new(any, 0));
    if from.ip().is_unspecified() {
        return Ok(SocketAddr::new(any, from.port()));
    }
    if from.is_ipv4() != to.is_ipv4() {
        return Err(rejected(
            format!("{} and {} are of different IP versions", from.ip(), to.ip()),
            "both IPv4 or both IPv6",
        ));
    }
    Ok(from)
}

/// Returns the name of a sender; none if the node chooses its address.
pub fn named(from: SocketAddr) -> Vec<SenderName> {
    let name = SenderName { address: from.ip(), port: from.port(), flow_label: None };
    if from.ip().is_unspecified() { Vec::new() } else { vec![name] }
}

/// Creates the error of a request that the node would reject.
pub fn rejected(message: String, hint: &str) -> Problem {
    Problem::new(ProblemCode::Rejected, message, hint)
}
