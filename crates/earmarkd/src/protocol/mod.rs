//! What the daemon needs of a protocol: the trait [`Protocol`], and what its implementations share.
//!
//! The protocols themselves, and the list of them, are in [`crate::protocols`].

mod details;
mod log_entry;
mod offload;
mod requests;
mod secrets;
mod settings;

use std::net::IpAddr;

use earmark_control::{
    ApplicationId, ApplicationRow, ListenRequest, Problem, Request, ReservationRequest, SenderName,
};
use earmark_core::outcome::Outcome;
use earmark_core::{InterfaceId, Rate};
use earmark_node::{Command, EngineKind, Event, Node};
use serde_json::{Map, Value};

pub use details::Detail;
pub(crate) use details::{check_listener, check_reservation};
pub use log_entry::{LogFields, LogKind};
pub use offload::KernelOffload;
pub(crate) use requests::{by_user, check_arrival, check_label, check_selector};
pub use requests::{check_destination, named, options, rate, rejected, row, source, token};
pub use secrets::{SigningKeys, check_digest};
pub(crate) use secrets::{last_key_expired, restore};
pub(crate) use settings::keep_all;
pub use settings::{ProtocolConfig, ReadTables, Tables, read_as};

/// A protocol that applications of this host use.
pub trait Protocol: ProtocolConfig + Sync {
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

    /// Converts the changed request of an application that [`Protocol::reserve`] has opened. By default the same commands
    /// again change the application.
    ///
    /// # Errors
    /// The request is invalid, or the protocol rejects it.
    fn change(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        self.reserve(request, host)
    }

    /// Converts the changed request of an application that [`Protocol::listen`] has opened.
    ///
    /// # Errors
    /// The request is invalid, or the protocol rejects it.
    fn change_listener(&self, request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
        self.listen(request, host)
    }

    /// Adapts the options of a request to another rate: removes those that set the rate instead.
    fn set_rate(&self, _options: &mut Map<String, Value>, _rate: Rate) {}

    /// Returns whether a more exact outcome of the same request follows this event.
    fn is_preliminary(&self, _event: &Event) -> bool {
        false
    }

    /// Returns the options that a change may set; `None` if it may set all, and another token.
    fn changeable_options(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Returns whether the engine itself returns to the earlier reservation when a change is refused.
    fn restores_refused_change(&self) -> bool {
        false
    }

    /// Returns whether messages of the protocol carry a detail of requests. A request with another detail is refused.
    fn signals(&self, detail: Detail) -> bool;

    /// Converts a request that only one protocol has; `None` if it is another protocol's.
    fn request(&self, _request: &Request, _host: &dyn Host) -> Option<Result<Action, Problem>> {
        None
    }

    /// Returns the command that ends an application.
    fn release(&self, application: ApplicationId) -> Command;

    /// Describes an event in one line; `None` for an event of another protocol. `on` is the name of the interface that
    /// the event contains as an index.
    fn describe(&self, _event: &Event, _on: &str) -> Option<String> {
        None
    }

    /// Returns the kind of the line that logs an event of this protocol; `None` for an event of another protocol.
    fn log_kind(&self, _event: &Event) -> Option<LogKind> {
        None
    }

    /// Returns the fields of this line.
    fn log_fields(&self, _event: &Event) -> LogFields {
        LogFields::default()
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

    /// Returns whether an event of this protocol is an instruction for its [`KernelOffload`], which is not published.
    fn is_instruction(&self, _event: &Event) -> bool {
        false
    }

    /// Returns what an event of this protocol means for applications that it does not name; `None` for most events.
    fn consequence<'a>(&self, _event: &'a Event) -> Option<Consequence<'a>> {
        None
    }

    /// Returns whether an event of this protocol is the last one of its application or trace.
    fn ends(&self, _event: &Event) -> bool {
        false
    }
}

/// What a protocol may ask about this host.
pub trait Host {
    /// Returns whether an address is one of this host.
    fn is_local(&self, address: IpAddr) -> bool;
    /// Returns whether this host can signal for a destination; without IPv6 it cannot for some.
    fn can_signal(&self, destination: IpAddr) -> bool;
    /// Returns the name of the node.
    fn name(&self) -> &str;
    /// Returns the node, for lookups in its engines.
    fn node(&self) -> &Node;
}

/// An application to open: its row, without a number, and the commands for the number that it gets.
pub struct Opening {
    pub(crate) row: ApplicationRow,
    /// The sender, if events may concern the application without naming it ([`Protocol::consequence`]). An unspecified
    /// address is chosen by the node.
    pub(crate) sender: Option<SenderName>,
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
        Opening { row, sender: None, follow, commands: Box::new(commands) }
    }
}

/// What a request that only one protocol has asks for.
pub enum Action {
    /// An application to open.
    Open(Opening),
    /// A command about an application that is open, and the answer to the client.
    Command(ApplicationId, Command, Value),
    /// A trace to begin.
    Trace(Tracing),
}

/// A trace to begin: the nodes on the path of a sender are queried for a client.
pub struct Tracing {
    /// The sender whose path is traced.
    pub(crate) sender: SenderName,
    /// The command for the number that the trace gets.
    pub(crate) command: Box<dyn FnOnce(ApplicationId) -> Command>,
    /// Returns the error if an event is the rejection of the trace with this number.
    pub(crate) rejection: fn(&Event, ApplicationId) -> Option<Problem>,
}

/// What an event means for applications of this host that it does not name.
pub struct Consequence<'a> {
    /// The outcome that the event reports.
    pub(crate) outcome: Option<Outcome>,
    /// Applies the event to an application, given its sender and the event as text. Returns whether the application's
    /// follower gets the event.
    pub(crate) apply: Box<ApplyEvent<'a>>,
}

/// See [`Consequence::apply`].
pub(crate) type ApplyEvent<'a> =
    dyn Fn(&mut ApplicationRow, Option<&SenderName>, &dyn Fn() -> String) -> bool + 'a;
