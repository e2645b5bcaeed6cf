//! A protocol as the demo shows it: its requests in daemons and in the simulator, and the meaning of its events.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use earmark_control::{Client, Opened};
use earmark_core::outcome::{Kind, Outcome};
use earmark_core::{ApplicationId, Flow, Rate};
use earmark_node::Command;
use earmark_scenario::topology::Topology;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::testbed::Settings;

/// IP protocol number of UDP, which carries the data.
pub(crate) const UDP: u8 = 17;

/// A request for a reservation from one host to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRequest {
    /// Source of the data.
    pub from: SocketAddr,
    /// Destination of the data.
    pub to: SocketAddr,
    /// Requested rate.
    pub rate: Rate,
    /// Size of the packets, octets.
    pub packet_octets: u32,
    /// Bucket depth, octets.
    pub bucket_octets: u32,
}

impl FlowRequest {
    /// Returns the flow of the data.
    pub(crate) fn flow(&self) -> Flow {
        Flow {
            destination: self.to.ip(),
            source: Some(self.from.ip()),
            protocol: UDP,
            destination_port: self.to.port(),
            source_port: self.from.port(),
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }
}

/// Control sockets of the daemons at both ends.
#[derive(Clone, Copy, Debug)]
pub struct Daemons<'a> {
    /// Socket of the sending host's daemon.
    pub sender: &'a Path,
    /// Socket of the receiving host's daemon.
    pub receiver: &'a Path,
}

/// Both ends of a reservation, in the daemons that hold them.
pub struct Ends {
    /// Sender's end.
    pub sender: (Client, Opened),
    /// Receiver's end, if the protocol has one. Without it, a refusal closes the sender's end.
    pub receiver: Option<(Client, Opened)>,
}

/// Commands that open a reservation in the simulator.
#[derive(Debug, Default)]
pub struct Commands {
    /// Commands to the receiving host, if the protocol has a receiver's end. Without it, a refusal closes the
    /// sender's end.
    pub receiver: Vec<Command>,
    /// Commands to the sending host.
    pub sender: Vec<Command>,
}

/// Reply to a reservation request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The reservation is in place on the whole path.
    InPlace,
    /// A node has refused the request with an error.
    Refused(ErrorReport),
    /// A node has refused the request; this rate is available.
    Offered(Rate),
}

/// Error that refuses a reservation (ERROR_SPEC, RFC 2205 appendix B).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReport {
    /// Text of the error code.
    pub error: String,
    /// Error code.
    pub code: u8,
    /// Error value.
    pub value: u16,
    /// Address of the refusing node.
    pub node: IpAddr,
}

/// Destination of a stream, and encapsulation of its signalling on the links of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The receiving host.
    Unicast,
    /// A group that the receiving host has joined.
    Group,
    /// The receiving host; hosts signal inside UDP.
    UdpEncapsulation,
}

/// A protocol as the demo shows it.
pub trait DemoProtocol: Sync {
    /// Returns the name in settings and results.
    fn name(&self) -> &'static str;

    /// Returns the name of the stage in which the protocol reserves.
    fn stage(&self) -> &'static str;

    /// Returns the lines of its table in a daemon's configuration, for refresh period R.
    fn settings(&self, _refresh: Duration) -> String {
        String::new()
    }

    /// Returns whether the protocol reserves for a target.
    fn supports(&self, target: Target) -> bool {
        target == Target::Unicast
    }

    /// Makes hosts of a network signal inside UDP only, and routers accept that through their links to hosts.
    fn encapsulate(&self, _topology: &Topology, _hosts: &[&str], _settings: &mut Settings) {}

    /// Returns whether the destination needs a daemon.
    fn needs_receiver(&self) -> bool {
        true
    }

    /// Opens a reservation: the receiver's end, if there is one, and then the sender's.
    ///
    /// # Errors
    /// A daemon is unavailable or rejects the request.
    fn open(&self, daemons: Daemons<'_>, request: &FlowRequest) -> Result<Ends>;

    /// Returns the commands that open a reservation with these applications: the sender's and the receiver's.
    fn commands(&self, request: &FlowRequest, applications: [ApplicationId; 2]) -> Commands;

    /// Returns the command that releases an end.
    fn release(&self, application: ApplicationId) -> Command;

    /// Returns the names of the events that answer a request at one of its ends.
    fn answers(&self) -> &'static [&'static str];

    /// Returns the error in the members of an event that refuses a request, if the protocol has such errors.
    ///
    /// # Errors
    /// The event has none.
    fn error(&self, _details: &Map<String, Value>) -> Result<Option<ErrorReport>> {
        Ok(None)
    }
}

/// An event of an end of a reservation, in the form of the control protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notice<'a> {
    /// Name of the event.
    pub(crate) event: &'a str,
    /// Outcome of the request after the event.
    pub(crate) outcome: Option<&'a Outcome>,
    /// Other members of the event.
    pub(crate) details: &'a Map<String, Value>,
}

/// Returns the reply that an event brings, if any.
///
/// # Errors
/// The request has failed.
pub(crate) fn reply(by: Protocol, notice: Notice<'_>) -> Result<Option<Reply>> {
    let Notice { event, outcome, details } = notice;
    if let "rejected" | "no_answer" = event {
        bail!("the request failed: {}", details.get("reason").unwrap_or(&Value::Null));
    }
    let Some(outcome) = outcome else { return Ok(None) };
    let is_refused = matches!(outcome.kind, Kind::Refused | Kind::Unanswered);
    match (by.answers().contains(&event), outcome.available_bps) {
        (false, _) if is_refused => bail!("the request failed: {outcome}"),
        (false, _) => Ok(None),
        (true, Some(available)) => Ok(Some(Reply::Offered(available))),
        (true, None) if is_refused => match by.error(details)? {
            Some(error) => Ok(Some(Reply::Refused(error))),
            None => bail!("the request failed: {outcome}"),
        },
        (true, None) => Ok(Some(Reply::InPlace)),
    }
}

/// One of the demo's protocols.
pub type Protocol = &'static dyn DemoProtocol;

impl fmt::Debug for dyn DemoProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn DemoProtocol {
    fn eq(&self, other: &dyn DemoProtocol) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn DemoProtocol {}

impl Serialize for dyn DemoProtocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
