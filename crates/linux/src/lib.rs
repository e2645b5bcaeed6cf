//! The Linux kernel, as Earmark uses it: signalling sockets, the mirror of routes and interfaces, traffic control, and the
//! packet filter.
//!
//! All calls are synchronous, and non-blocking where they wait for input: [`SignallingSocket`] and [`Mirror`] are file
//! descriptors for the caller's one epoll loop, and [`TrafficControl`] and [`PacketFilter`] answer before they return.
//! The state of the kernel is never assumed: what it lost, kept or refused is found by dumping its state and comparing
//! ([`Mirror::resync`], [`TrafficControl::reconcile`], [`PacketFilter::reconcile`]).
//!
//! Enforcement outlives the daemon: queues, classes, the classifier and its flow map stay in the kernel when the
//! process is killed, and the next [`TrafficControl::open`] adopts them without touching a packet. Signalling fails
//! open: raw sockets intercept it, which vanish with the process, so that messages are forwarded as by any router.
//!
//! Sockets and netlink work in the network namespace of the thread that opens them; [`netns`] runs code in another. No
//! other crate has `unsafe` code; here all of it is in the private module `sys`.

mod bpf_object;
pub mod capabilities;
pub mod clock;
pub mod datagram_receiver;
mod flow_path;
mod flow_routes;
pub mod frames;
pub mod interface;
pub mod link;
pub mod mirror;
pub mod multicast_router;
mod namespace_claim;
pub mod netlink;
pub mod netns;
pub mod nftables;
pub mod packets;
mod peer_credentials;
pub mod signalling_socket;
mod sys;
pub mod traffic_control;

pub use flow_path::{
    FlowPath, MatchedRoute, MatchedRule, NextHop, NextHopGroup, PathQuestion, Verdict, table_name,
};
pub use flow_routes::{FlowRouteCounters, FlowRouteError, FlowRoutes, MarkRule};
pub use interface::InterfaceName;
pub use mirror::{InterfaceState, Mirror, Update};
pub use namespace_claim::NamespaceClaim;
pub use nftables::{PacketFilter, PacketFilterError, PacketFilterSettings};
pub use peer_credentials::PeerCredentials;
pub use signalling_socket::*;
pub use sys::{cycles, heap, packet_times};
pub use traffic_control::{
    Adopted, Changed, ClassOrPriority, ClassifierChoice, Deviation, Enforcement, Fault, FlowClaim,
    FlowOnLink, KernelEntry, LinkPlan, Monitor, Precedence, Queues, Reconciliation, ServicePlan,
    Statistics, TcError, TrafficControl,
};
