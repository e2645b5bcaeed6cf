//! What the daemon says: answers, errors and events.

use std::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::outcome::Outcome;
use earmark_node::{Event, SenderName};
use earmark_nsis::{self as nsis, ping, qos};
use earmark_rsvp as rsvp;
use earmark_yessir as yessir;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StyleName;

/// One line from the daemon: an object with one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The request was carried out; each kind has its own object.
    Ok(Value),
    /// It was not; the connection goes on, unless the code says otherwise.
    Error(Problem),
    /// Something happened. Comes between answers, on connections that watch or follow.
    Event(Notice),
}

/// The answer to [`super::Request::Show`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rows<T> {
    /// The rows, in the order of their keys.
    pub rows: Vec<T>,
    /// Whether there are more than the limit let through.
    pub more: bool,
}

/// The answer to [`super::Request::Send`], [`super::Request::Listen`] and [`super::Request::Reserve`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Names it in `release`.
    pub application: u64,
    /// Which end of the flow this host is.
    pub role: Role,
    /// The daemon's time when it began, seconds since its start; comparable with [`Notice::at_s`].
    pub at_s: f64,
}

/// Which end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Data starts here.
    Sender,
    /// Data ends here.
    Receiver,
    /// Either: the loop of Boomerang begins and ends here.
    Initiator,
}

/// By which protocol something is reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signalling {
    /// RSVP.
    #[default]
    Rsvp,
    /// Boomerang.
    Boomerang,
    /// YESSIR.
    Yessir,
    /// NSIS: QoS NSLP.
    Nsis,
    /// NSIS, too: Ping NSLP, which reserves nothing.
    Ping,
}

impl Signalling {
    /// Its name, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Signalling::Rsvp => "rsvp",
            Signalling::Boomerang => "boomerang",
            Signalling::Yessir => "yessir",
            Signalling::Nsis => "nsis",
            Signalling::Ping => "ping",
        }
    }
}

/// The answer to [`super::Request::Release`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// What was released.
    pub applications: Vec<u64>,
}

/// The answer to [`super::Request::Trace`]. Its events name it as `application`; `traced` is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceBegun {
    /// Names it.
    pub trace: u64,
    /// Whose way it is.
    pub sender: SenderName,
    /// The daemon's time when it began, seconds since its start.
    pub at_s: f64,
}

/// The answer to [`super::Request::Watch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watching {
    /// The node's name.
    pub node: String,
}

/// The answer to [`super::Request::Version`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// [`super::VERSION`] of the daemon.
    pub protocol: u32,
    /// The daemon's own.
    pub earmark: String,
}

/// One event, with the daemon's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Seconds since the daemon's start.
    pub at_s: f64,
    /// Name of the interface that the event has by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_name: Option<String>,
    /// How the request stands now that this has happened, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A row of `show applications`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationRow {
    /// Names it in `release`.
    pub application: u64,
    /// By which protocol.
    #[serde(default)]
    pub protocol: Signalling,
    /// Which end of the flow this host is.
    pub role: Role,
    /// Destination of the data.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// How senders share; `None` of a sender.
    pub style: Option<StyleName>,
    /// A sender itself, unless its address was left to the host; those that a receiver named, none for all.
    pub senders: Vec<SenderName>,
    /// Whether it ends with the connection that opened it.
    pub held: bool,
    /// How it stands.
    #[serde(default)]
    pub outcome: Outcome,
    /// What happened to it last, for people.
    pub last: Option<String>,
}

/// What is wrong: for programs, for people, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind.
    pub code: ProblemCode,
    /// What exactly.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Problem {
    pub(crate) fn new(
        code: ProblemCode,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem { code, message: message.into(), hint: hint.into() }
    }
}

/// Kinds of [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The line is no request.
    BadRequest,
    /// The line is too long; it was skipped.
    LineTooLong,
    /// The node would not carry the request out.
    Rejected,
    /// No application has that number.
    NoSuchApplication,
    /// A limit is reached.
    Limit,
    /// This watcher reads too slowly; the connection ends.
    TooSlow,
    /// The daemon stops; the connection ends.
    Stopping,
}

impl ProblemCode {
    /// Its name, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            ProblemCode::BadRequest => "bad_request",
            ProblemCode::LineTooLong => "line_too_long",
            ProblemCode::Rejected => "rejected",
            ProblemCode::NoSuchApplication => "no_such_application",
            ProblemCode::Limit => "limit",
            ProblemCode::TooSlow => "too_slow",
            ProblemCode::Stopping => "stopping",
        }
    }
}

/// The application that an event is for, where it is for one.
pub fn application_of(event: &Event) -> Option<u64> {
    use rsvp::Event::*;
    let event = match event {
        Event::Rsvp(event) => event,
        Event::Boomerang(event) => return of_boomerang(event),
        Event::Yessir(event) => return of_yessir(event),
        Event::NoAnswer { application, .. } => return Some(application.0),
        Event::Nsis(nsis::Event::Qos(event)) => return of_qos(event),
        Event::Nsis(nsis::Event::Ping(event)) => return Some(of_ping(event)),
        Event::Nsis(nsis::Event::Gist(_)) => return None,
        Event::NotAdopted { .. } | Event::Aggregate { .. } | Event::Enforcement { .. } => {
            return None;
        }
    };
    match event {
        Path { application, .. }
        | PathGone { application, .. }
        | Resv { application, .. }
        | ResvGone { application, .. }
        | PathError { application, .. }
        | ResvError { application, .. }
        | Confirmed { application, .. }
        | Tracing { application, .. }
        | Traced { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Translated { application, .. } => application.map(|application| application.0),
        PathState { .. }
        | Reservation { .. }
        | Refused { .. }
        | LastKeyExpired { .. }
        | NeighborLost { .. }
        | Dropped { .. } => None,
    }
}

fn of_boomerang(event: &boomerang::Event) -> Option<u64> {
    use boomerang::Event::*;
    match event {
        Established { application, .. }
        | Reached { application, .. }
        | Refused { application, .. }
        | Changed { application, .. }
        | Offered { application, .. }
        | Lost { application }
        | Released { application }
        | Rejected { application, .. } => Some(application.0),
        Reservation { .. } | Dropped { .. } => None,
        Offload(_) | Allowance { .. } => None,
        Withhold { .. } | Recall { .. } | Expiring { .. } => None,
    }
}

fn of_yessir(event: &yessir::Event) -> Option<u64> {
    use yessir::Event::*;
    match event {
        Answered { application, .. }
        | Announced { application, .. }
        | AnnouncementGone { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Reservation { .. } | Refused { .. } | Ignored { .. } => None,
    }
}

fn of_qos(event: &qos::Event) -> Option<u64> {
    use qos::Event::*;
    match event {
        Reserved { application, .. }
        | Refused { application, .. }
        | Offered { application, .. }
        | TimedOut { application }
        | Lost { application, .. }
        | Released { application }
        | Incoming { application, .. }
        | Gone { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Translated { application, .. } => application.map(|application| application.0),
        Reservation { .. } | Denied { .. } | Dropped { .. } => None,
    }
}

fn of_ping(event: &ping::Event) -> u64 {
    use ping::Event::*;
    match event {
        Pong { application, .. }
        | Lost { application, .. }
        | Finished { application }
        | Rejected { application, .. } => application.0,
    }
}
