//! Objects of the control protocol, shared by client and daemon.

mod answers;
mod light;
mod nsis;
mod path;

use std::net::{IpAddr, SocketAddr};

use earmark_core::Rate;
use earmark_node::Ask;
use earmark_rsvp::policy::Identity;
use earmark_wire::rsvp::Style;
use serde::{Deserialize, Serialize};

pub use answers::*;
/// Rows of the listings of the node; the rows of `show applications` belong to the control socket.
pub use earmark_node::{
    AggregateRow, AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow, ReservationRow,
    RoutingStateRow, SenderName, SessionRow, TrafficRow,
};
pub use light::*;
pub use nsis::*;
pub use path::*;

/// Version of this protocol. The version rises only on incompatible changes.
///
/// | version | since |
/// |---|---|
/// | 1 | unicast, fixed filter only; without a version number and a request for it |
/// | 2 | `outgoing` of a session's row and `senders` of a reservation's are lists; events name `filters` and `style` |
/// | 3 | rows and events of Boomerang and YESSIR among those of RSVP; `protocol` of an application's row |
pub const VERSION: u32 = 3;

/// Longest line that the daemon reads, octets, without its terminator.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Most rows of a listing, by default.
pub const DEFAULT_ROWS: usize = 10_000;

/// One request: an object with one key, `{"show":{"what":"links"}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Return a listing; answered by [`Rows`].
    Show(Show),
    /// Announce a sender on this host (RSVP Path); answered by [`Opened`].
    Send(Send),
    /// Answer senders that announce themselves (RSVP Resv); answered by [`Opened`].
    Listen(Listen),
    /// Reserve from the end of the flow that this host is: [`Send`], or [`Listen`] with confirmation; answered by [`Opened`].
    Reserve(Send),
    /// Reserve in both directions with Boomerang; answered by [`Opened`].
    Loop(Loop),
    /// Announce an RTP stream with YESSIR; answered by [`Opened`].
    Attach(Attach),
    /// Answer RTP streams that are announced with YESSIR; answered by [`Opened`].
    Answer(Answer),
    /// Find the nodes on the path to a host that take part, with Ping NSLP; answered by [`Opened`], then events.
    Ping(Ping),
    /// Reserve with QoS NSLP; answered by [`Opened`].
    Establish(Establish),
    /// Wait for flows that QoS NSLP reserves for, and reserve for senders that request it; answered by [`Opened`].
    Expect(Expect),
    /// Report how much of its RTP stream an application has sent; answered by [`Statistics`].
    Statistics(Statistics),
    /// Detach an application from the connection that holds it; answered by [`Keep`].
    Keep(Keep),
    /// End an application that `send`, `listen`, `reserve`, `loop`, `attach`, `answer`, `ping`, `establish` or `expect` opened;
    /// answered by [`Released`].
    Release(Release),
    /// Send every event from now on; answered by [`Watching`].
    Watch(Watch),
    /// Query the nodes on the path of a sender for its state (RFC 2745); answered by [`TraceBegun`], then events.
    Trace(Trace),
    /// Return the path of a flow on this node, and the service of its packets; answered by [`PathAnswer`].
    Path(PathRequest),
    /// Return the version of the protocol; answered by [`Versions`].
    Version(Version),
}

/// Parameters of [`Request::Show`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Listing to return.
    pub what: Listing,
    /// Most rows; by default [`DEFAULT_ROWS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    /// Flows announced to or by this node.
    Sessions,
    /// Reservations.
    Reservations,
    /// Links, with their reserved bandwidth.
    Links,
    /// Nodes that this node exchanges messages with.
    Neighbors,
    /// Aggregates across cores.
    Aggregates,
    /// Routing state of GIST.
    RoutingState,
    /// Messaging associations of GIST.
    Associations,
    /// Applications that `send`, `listen` and `reserve` opened on this host.
    Applications,
    /// Counters, in one row.
    Counters,
}

/// Parameters of [`Request::Send`] and [`Request::Reserve`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Destination of the data.
    pub to: SocketAddr,
    /// Source of the data. An unspecified or absent address means this host's own address towards the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// Flow label of the data, which identifies it instead of the source port: IPv6 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Token rate.
    pub rate_bps: Rate,
    /// Bucket depth, octets.
    #[serde(default = "default_burst")]
    pub burst_octets: u32,
    /// Peak rate; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<Rate>,
    /// Minimum policed unit: smaller packets count as this many octets.
    #[serde(default = "default_min_packet")]
    pub min_packet: u32,
    /// Maximum packet size, octets.
    #[serde(default = "default_max_packet")]
    pub max_packet: u32,
    /// TTL of the data, and so of the Path messages.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// Identity for policy.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    /// Whether the reservation is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Send {
    /// A request for UDP to `to` at `rate`, with defaults otherwise.
    pub fn new(to: SocketAddr, rate: Rate) -> Send {
        Send {
            to,
            from: None,
            flow_label: None,
            ip_protocol: udp(),
            rate_bps: rate,
            burst_octets: default_burst(),
            peak_bps: None,
            min_packet: default_min_packet(),
            max_packet: default_max_packet(),
            ttl: default_ttl(),
            identity: Identity::default(),
            hold: false,
            follow: false,
        }
    }
}

/// Parameters of [`Request::Listen`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Destination of the data: an address of this host, or a group.
    pub on: SocketAddr,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// What to reserve when a sender appears: `"controlled_load"`, `{"rate":bps}` or
    /// `{"delay":{"secs":S,"nanos":N}}`.
    #[serde(default = "default_ask")]
    pub ask: Ask,
    /// Reservation style.
    #[serde(default = "default_style")]
    pub style: StyleName,
    /// Senders to reserve for; all if empty. A sender without port and flow label stands for everything sent from its address.
    /// Not allowed with WF, which cannot tell senders apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<SenderName>,
    /// Whether to request confirmation: a `confirmed` event reports that the reservation stands.
    #[serde(default)]
    pub confirm: bool,
    /// Identity for policy.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    /// Whether the reservation is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Listen {
    /// A request for UDP to `on`, at the rate that senders announce.
    pub fn new(on: SocketAddr) -> Listen {
        Listen {
            on,
            ip_protocol: udp(),
            ask: default_ask(),
            style: default_style(),
            senders: Vec::new(),
            confirm: false,
            identity: Identity::default(),
            hold: false,
            follow: false,
        }
    }
}

/// A reservation style, by its name in RFC 2205 section 1.3 and in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StyleName {
    /// Fixed filter: each sender has a reservation of its own.
    Ff,
    /// Shared explicit: the named senders share one reservation.
    Se,
    /// Wildcard filter: all senders share one reservation.
    Wf,
}

impl From<StyleName> for Style {
    fn from(name: StyleName) -> Style {
        match name {
            StyleName::Ff => Style::FixedFilter,
            StyleName::Se => Style::SharedExplicit,
            StyleName::Wf => Style::Wildcard,
        }
    }
}

/// Parameters of [`Request::Keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Number of the application.
    pub application: u64,
}

/// Parameters of [`Request::Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Release {
    /// One application, by its number.
    Application(u64),
    /// All applications, whoever opened them.
    All {},
}

/// Parameters of [`Request::Watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {}

/// Parameters of [`Request::Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Destination of the data.
    pub to: SocketAddr,
    /// Sender of the data; may be absent if the daemon knows only one. Without port and flow label, the one that the daemon
    /// knows at that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SenderName>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Node to begin at, downstream; by default the receiver, for a group this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hop: Option<IpAddr>,
    /// Most nodes to query; 0 for all.
    #[serde(default)]
    pub max_hops: u8,
    /// Timeout, milliseconds.
    #[serde(default = "default_trace_timeout")]
    pub timeout_ms: u32,
}

impl Trace {
    /// A trace of the only sender of UDP to `to`, beginning at the receiver.
    pub fn new(to: SocketAddr) -> Trace {
        Trace {
            to,
            from: None,
            ip_protocol: udp(),
            last_hop: None,
            max_hops: 0,
            timeout_ms: default_trace_timeout(),
        }
    }
}

/// Parameters of [`Request::Version`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {}

fn udp() -> u8 {
    17
}

fn default_burst() -> u32 {
    10_000
}

fn default_min_packet() -> u32 {
    64
}

fn default_max_packet() -> u32 {
    1_500
}

fn default_ttl() -> u8 {
    64
}

fn default_trace_timeout() -> u32 {
    20_000
}

fn default_ask() -> Ask {
    Ask::ControlledLoad
}

fn default_style() -> StyleName {
    StyleName::Ff
}
