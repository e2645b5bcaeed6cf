//! GIST: finds the next signalling node on the path of a flow, and carries messages there (RFC 5971).
//!
//! # The life of a message
//! An application passes GIST a message for a flow, a session and a direction. If the next node in that direction is
//! unknown, the message waits, and GIST sends a **Query** that looks like a packet of the flow: with its destination,
//! with its source, and with an option that has routers examine it. The next node with GIST intercepts it, asks its own
//! application whether it takes part, and sends a **Response** to the querying node, which now knows its peer. The
//! **Confirm** proves to the responding node that the querying node can be reached under its address; it carries the
//! waiting message. From then on messages are **Data**, sent directly to the peer. The querying node repeats the Query
//! before the state expires, so that messages follow the flow when its path changes.
//!
//! # State
//! A routing state ([`state`]) belongs to a flow, a session and an application. It has two halves, one for each
//! direction along the flow: that of the querying node and that of the responding node. The transitions of a half are
//! tables ([`machine`]), which are those of RFC 5972. All sessions share the peers ([`peer`]).
//!
//! A responding node keeps nothing before the Confirm (the setting is `installation = "delayed"`). The Confirm has all
//! values that it needs, and a [`cookie`] that proves that this node has answered the Query.
//!
//! # Odd cases
//! - IP distance: the RFC stores the TTL that a packet has lost, and 0 means "not known". Here a neighbor on the same
//!   link has distance 1, so that both can be told apart.
//! - A message whose peer has lost its state is not retransmitted: its application repeats it. The error causes a new
//!   handshake, and messages sent meanwhile wait.
//! - The source of a first Query is that of the flow; every second retransmission has the address of this node.
//!
//! # Left out
//! The Diffserv codepoint and the flow label of the flow are not copied into Queries. Only the source and the
//! destination of a flow count as ends of its path. NAT traversal objects are read and repeated, not created.

mod api;
mod association;
mod changed_ranges;
mod config;
mod confirm;
mod connect;
mod cookie;
mod counters;
mod data;
mod destinations;
mod error;
mod event_data;
mod expire;
mod handshake;
mod identity;
mod instance;
mod limits;
pub mod machine;
mod notify;
mod origin;
mod peer;
mod prefix_form;
mod querying;
mod queue;
mod receipt;
mod receive;
mod responding;
mod route_change;
mod state;
mod step;
mod store;
mod stream;
mod tolerated_prefix;
mod translation;
mod transmit;
mod view;

pub use self::api::Event;
pub use self::config::{
    Associations as AssociationSettings, Config, Installation, Limits, UpstreamQueries,
};
pub use self::counters::{Counters, DropReason, Messages};
pub use self::instance::Gist;
pub use self::view::{AssociationView, PeerView, RoutingStateView};
