//! Answers and errors of the daemon.

use std::net::IpAddr;

use earmark_core::outcome::Outcome;
use earmark_core::{ApplicationId, Rate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Event, SenderName, StyleName};

/// One line from the daemon: an object with one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The request succeeded; each kind of request has its own object.
    Ok(Value),
    /// The request failed. The connection stays open, unless the code says otherwise.
    Error(Problem),
    /// An event, sent between answers on connections that watch or follow.
    Event(Event),
}

/// The answer to [`crate::Request::Show`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rows<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether rows were left out because of the limit; of a page, whether there is another one.
    pub more: bool,
    /// Of a page, the position of the next one; absent after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Of a page, how many places of the daemon's tables were examined for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined: Option<u64>,
}

/// The answer to the requests that open an application: [`crate::Request::Reserve`], [`crate::Request::Listen`],
/// [`crate::Request::Ping`], [`crate::Request::Open`] and [`crate::Request::Expose`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Opened {
    /// Number of the application, for `release`.
    pub application: ApplicationId,
    /// End of the flow that this host is.
    pub role: Role,
    /// The daemon's time of the request, seconds since its start; comparable with [`Event::at_s`].
    pub at_s: f64,
}

/// The answer to [`crate::Request::Change`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// The application before the change.
    pub before: ApplicationRow,
    /// Rate of the request before the change; `None` if it named none.
    pub rate_bps: Option<Rate>,
    /// The daemon's time of the request, seconds since its start; comparable with [`Event::at_s`].
    pub at_s: f64,
}

/// End of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Source of the data.
    Sender,
    /// Destination of the data.
    Receiver,
    /// Either end: the request begins and ends here.
    Initiator,
}

/// The answer to [`crate::Request::Release`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Released {
    /// Numbers of the released applications.
    pub applications: Vec<ApplicationId>,
}

/// The answer to [`crate::Request::Trace`]. Events contain its number as `application`; `traced` is the last event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceBegun {
    /// Number of the trace.
    pub trace: ApplicationId,
    /// The sender whose path is traced.
    pub sender: SenderName,
    /// The daemon's time of the request, seconds since its start.
    pub at_s: f64,
}

/// The answer to [`crate::Request::Watch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watching {
    /// The node's name.
    pub node: String,
}

/// The answer to [`crate::Request::Version`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Versions {
    /// [`crate::VERSION`] of the daemon.
    pub protocol: u32,
    /// Version of the daemon itself.
    pub earmark: String,
}

/// A row of `show applications`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApplicationRow {
    /// Number of the application, for `release`.
    pub application: ApplicationId,
    /// Protocol of the application.
    pub protocol: String,
    /// End of the flow that this host is.
    pub role: Role,
    /// Destination of the data.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Reservation style; `None` for a sender.
    pub style: Option<StyleName>,
    /// For a sender, the sender itself unless the host chooses its address; for a receiver, the senders that it named, or none
    /// for all.
    pub senders: Vec<SenderName>,
    /// Whether the application ends with the connection that opened it.
    pub held: bool,
    /// Outcome so far.
    #[serde(default)]
    pub outcome: Outcome,
    /// The latest event, for people.
    pub last: Option<String>,
}

/// An error: code, message and hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct Problem {
    /// Kind of the error.
    pub code: ProblemCode,
    /// The error in words.
    pub message: String,
    /// Advice what to do.
    pub hint: String,
}

impl Problem {
    /// Creates an error.
    pub fn new(code: ProblemCode, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { code, message: message.into(), hint: hint.into() }
    }
}

earmark_core::named_enum! {
    /// Kinds of [`Problem`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum ProblemCode {
        /// The line is not a valid request.
        BadRequest = "bad_request",
        /// The line is too long and was skipped.
        LineTooLong = "line_too_long",
        /// The node rejected the request.
        Rejected = "rejected",
        /// No application has that number.
        NoSuchApplication = "no_such_application",
        /// A limit was reached.
        Limit = "limit",
        /// The user may not send this request, or not use the socket; then the connection ends.
        Forbidden = "forbidden",
        /// The connection was idle and ends.
        Idle = "idle",
        /// The watcher reads too slowly; the connection ends.
        TooSlow = "too_slow",
        /// The daemon stops; the connection ends.
        Stopping = "stopping",
    }
}
