//! The objects of the control protocol. Client and daemon share them, so they cannot disagree.

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
/// The rows of the other listings; those of `show applications` are the control socket's own.
pub use earmark_node::{
    AggregateRow, AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow, ReservationRow,
    RoutingStateRow, SenderName, SessionRow, TrafficRow,
};
pub use light::*;
pub use nsis::*;
pub use path::*;

/// The version of this protocol. It grows when a client or daemon of the version before would misunderstand something,
/// not when there is something new to ask for.
///
/// | version | since |
/// |---|---|
/// | 1 | unicast, fixed filter only; it had no number yet, and no request that tells it |
/// | 2 | `outgoing` of a session's row and `senders` of a reservation's are lists; events name `filters` and `style` |
/// | 3 | rows and events of Boomerang and YESSIR among those of RSVP; `protocol` of an application's row |
pub const VERSION: u32 = 3;

/// Longest line that the daemon reads, octets, without its end.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Most rows of a listing unless the request asks for another number.
pub const DEFAULT_ROWS: usize = 10_000;

/// One request: an object with one key, `{"show":{"what":"links"}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A listing; answered by [`Rows`].
    Show(Show),
    /// Announce a sender on this host (RSVP Path); answered by [`Opened`].
    Send(Send),
    /// Answer senders that announce themselves (RSVP Resv); answered by [`Opened`].
    Listen(Listen),
    /// Reserve from whichever end this host is: [`Send`] or [`Listen`] with confirmation; answered by [`Opened`].
    Reserve(Send),
    /// Reserve both ways by Boomerang; answered by [`Opened`].
    Loop(Loop),
    /// Announce an RTP stream by YESSIR; answered by [`Opened`].
    Attach(Attach),
    /// Answer RTP streams that are announced by YESSIR; answered by [`Opened`].
    Answer(Answer),
    /// Find out by Ping NSLP who takes part on the way to a host; answered by [`Opened`], then events.
    Ping(Ping),
    /// Reserve by QoS NSLP; answered by [`Opened`].
    Establish(Establish),
    /// Wait for flows that QoS NSLP reserves for, and reserve for those whose senders ask; answered by [`Opened`].
    Expect(Expect),
    /// Tell how much of its RTP stream an application has sent; answered by [`Statistics`].
    Statistics(Statistics),
    /// Untie an application from the connection that holds it; answered by [`Keep`].
    Keep(Keep),
    /// End what `send`, `listen`, `reserve`, `loop`, `attach`, `answer`, `ping`, `establish` or `expect` began; answered by [`Released`].
    Release(Release),
    /// Send every event from now on; answered by [`Watching`].
    Watch(Watch),
    /// Ask the nodes on a sender's way what they know of it (RFC 2745); answered by [`TraceBegun`], then events.
    Trace(Trace),
    /// Tell where a flow goes from this node, and what its packets get; answered by [`PathAnswer`].
    Path(PathRequest),
    /// Tell what is spoken; answered by [`Versions`].
    Version(Version),
}

/// See [`Request::Show`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// What is to be listed.
    pub what: Listing,
    /// Most rows; [`DEFAULT_ROWS`] where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    /// Flows that were announced to or by this node.
    Sessions,
    /// Reservations.
    Reservations,
    /// Links, with what is reserved of them.
    Links,
    /// Nodes that this one exchanges messages with.
    Neighbors,
    /// Aggregates across cores.
    Aggregates,
    /// Routing state of GIST.
    RoutingState,
    /// Messaging associations of GIST.
    Associations,
    /// What `send`, `listen` and `reserve` opened on this host.
    Applications,
    /// Counters; one row.
    Counters,
}

/// See [`Request::Send`] and [`Request::Reserve`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Where the data goes.
    pub to: SocketAddr,
    /// Where it comes from. An unspecified address, or none, means this host's own towards the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// Flow label of the data, where that tells it from other data instead of the source port: IPv6 only.
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
    /// Peak rate; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<Rate>,
    /// Packets smaller than this count as this large, octets.
    #[serde(default = "default_min_packet")]
    pub min_packet: u32,
    /// Largest packet, octets.
    #[serde(default = "default_max_packet")]
    pub max_packet: u32,
    /// TTL of the data, and so the reach of the announcement.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// In whose name.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    /// Release it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Send {
    /// UDP to `to` at `rate`, all else by default.
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

/// See [`Request::Listen`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Where the data arrives.
    pub on: SocketAddr,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// What to ask for when a sender appears: `"controlled_load"`, `{"rate":bps}` or
    /// `{"delay":{"secs":S,"nanos":N}}`.
    #[serde(default = "default_ask")]
    pub ask: Ask,
    /// How senders share what is reserved.
    #[serde(default = "default_style")]
    pub style: StyleName,
    /// For which senders; none named: for all. Those without port and flow label stand for all that sends from their
    /// address. Not with WF, which cannot tell senders apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<SenderName>,
    /// Have it confirmed: a `confirmed` event says that a reservation stands.
    #[serde(default)]
    pub confirm: bool,
    /// In whose name.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    /// Release it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Listen {
    /// UDP on `on`, asking for what senders announce.
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

/// A reservation style, by the name that RFC 2205 section 1.3 and our listings give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StyleName {
    /// Fixed filter: each sender has a reservation of its own.
    Ff,
    /// Shared explicit: the senders that are named share one.
    Se,
    /// Wildcard filter: all senders share one.
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

/// See [`Request::Keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Which one.
    pub application: u64,
}

/// See [`Request::Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Release {
    /// One of them.
    Application(u64),
    /// All of them, whoever opened them.
    All {},
}

/// See [`Request::Watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {}

/// See [`Request::Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Where the data goes.
    pub to: SocketAddr,
    /// Who sends it; none where the daemon knows just one. Without port and flow label, whoever it knows at that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SenderName>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// The node to begin at, downstream; none: the receiver, and of a group this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hop: Option<IpAddr>,
    /// Most nodes to be asked; 0 for all.
    #[serde(default)]
    pub max_hops: u8,
    /// How long it may take, milliseconds.
    #[serde(default = "default_trace_timeout")]
    pub timeout_ms: u32,
}

impl Trace {
    /// About the only sender of UDP to `to`, from the receiver on.
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

/// See [`Request::Version`].
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
