//! Requests of a client.

use earmark_core::ApplicationId;
use serde::{Deserialize, Serialize};

use crate::{
    ChangeRequest, ConfigRequest, Expose, ListenRequest, LogRequest, Open, PathRequest, Ping,
    ReservationRequest, Show, Statistics, Trace,
};

/// One request: an object with one key, `{"show":{"what":"links"}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Return a listing; answered by [`Rows`](crate::Rows).
    Show(Show),
    /// Reserve for a flow from or to this host; answered by [`Opened`](crate::Opened).
    Reserve(ReservationRequest),
    /// Answer senders that announce themselves; answered by [`Opened`](crate::Opened).
    Listen(ListenRequest),
    /// Find the nodes on the path to a host that take part, with Ping NSLP; answered by [`Opened`](crate::Opened), then events.
    Ping(Ping),
    /// Open the firewalls and address translators on the path of a flow from this host, with NATFW NSLP; answered by
    /// [`Opened`](crate::Opened), then events.
    Open(Open),
    /// Make a port of this host reachable from outside, or block it, with NATFW NSLP; answered by
    /// [`Opened`](crate::Opened), then events.
    Expose(Expose),
    /// Report how much of its RTP stream an application has sent; answered by [`Statistics`].
    Statistics(Statistics),
    /// Detach an application from the connection that holds it; answered by [`Keep`].
    Keep(Keep),
    /// Change the reservation of an application; answered by [`Changed`](crate::Changed).
    Change(ChangeRequest),
    /// End an application that `reserve`, `listen`, `ping`, `open` or `expose` opened; answered by [`Released`](crate::Released).
    Release(Release),
    /// Send every event from now on; answered by [`Watching`](crate::Watching).
    Watch(Watch),
    /// Query the nodes on the path of a sender for its state (RFC 2745); answered by [`TraceBegun`](crate::TraceBegun), then events.
    Trace(Trace),
    /// Return the path of a flow on this node, and the service of its packets; answered by [`PathAnswer`](crate::PathAnswer).
    Path(PathRequest),
    /// Show and set the levels of the daemon's log; answered by [`LogAnswer`](crate::LogAnswer).
    Log(LogRequest),
    /// Compare, apply, confirm or take back the configuration; answered by [`ConfigAnswer`](crate::ConfigAnswer).
    Config(ConfigRequest),
    /// Return the version of the protocol; answered by [`Versions`](crate::Versions).
    Version(Version),
}

/// Parameters of [`Request::Keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Number of the application.
    pub application: ApplicationId,
}

/// Parameters of [`Request::Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Release {
    /// One application, by its number.
    Application(ApplicationId),
    /// All applications, whoever opened them.
    All {},
}

/// Parameters of [`Request::Watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Watch {}

/// Parameters of [`Request::Version`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Version {}
