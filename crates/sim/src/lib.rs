//! A deterministic network of Earmark nodes in virtual time: links, queues, routes and traffic, without a clock or a
//! socket.
//!
//! # Description
//! A [`Network`] holds nodes, each an [`earmark_node::Node`] with the engines that the daemon runs, connected by
//! point-to-point links. Its event list is ordered by time and, within one instant, by the order of entry; nothing else
//! decides what happens next. All random numbers come from named streams of one seed, so that the same calls give the
//! same [log](Network::log), entry by entry, and an added source does not change the random numbers of others.
//!
//! - **Links** have a bandwidth and a delay. Each direction has an egress with a [`Scheduler`]. By default it models
//!   Earmark's traffic control in Linux: reserved classes first, each limited by its token bucket; then signalling;
//!   then best effort from one queue of limited length. A packet takes its IP length plus 14 octets of framing on the
//!   link.
//! - **Forwarding** is by longest prefix, with TTL. A router intercepts the messages of its engines and passes them to
//!   its node, as a Linux router does with its raw socket; while its daemon is dead it forwards them.
//! - **Multicast** packets follow a tree of shortest paths from their source to the members of the group, or a tree
//!   that all sources share; the trees follow changes of membership and failures of links ([`Network::join`]).
//! - **Faults** are rules for the signalling on a link: loss, duplication, corruption, and delays by which messages
//!   overtake one another ([`Network::set_faults`]). Losses may come in bursts, follow a trace, or a law of a program
//!   ([`Network::add_loss_law`]). Besides, links go down and daemons die.
//! - **Traffic** is UDP at a constant rate with jitter, in bursts of a token bucket, alternating on and off, or at
//!   given times ([`TrafficPattern`]); a [`Trace`] records when each packet was sent and received.
//! - **Fluid**: without packets, streams have rates instead, and links share them ([`Network::add_fluid`]).
//! - **Connections** between daemons run over packets of these links, in TCP's octets, without congestion control; TLS
//!   takes the round trips of its handshake, without encryption. Nodes can refuse them, or stop reading
//!   ([`Network::set_accept_policy`], [`Network::set_reading`]).
//! - **Packet filters** drop, forward and translate the packets that a node forwards, by the rules of its daemon and its
//!   guarded interfaces, with connection tracking as in Linux ([`Network::guard`]). Rules end by themselves.
//! - **Processors**: the turns of a daemon take time by a [`CostModel`], and messages wait for it in receive buffers, or
//!   are lost ([`Network::set_processor`]). By default they take none.
//! - **Captures** ([`Network::capture`]) record the signalling of a node as whole IP packets, for other tools to read.
//!   A [`MessageHook`] sees each message on each link, and may drop or replace it.
//!
//! # Scope and limits
//! Links connect exactly two nodes. There is no fragmentation, no ARP and no bit error in data. Forwarding and traffic
//! control take no time of their own, and the work of daemons only with a [`CostModel`]. Multicast trees change
//! everywhere at once, as no protocol for them runs. Packets have no IPv6 flow label, and messages are sent in IP only,
//! except as [`RsvpOverUdp`] says. Traffic control and packet filters fail only on request
//! ([`Network::refuse_installations`], [`Network::refuse_filter_rules`]). Fluid passes packet filters. A router
//! with a packet filter is the destination of no stream.
//!
//! # Validation
//! The figures of the demo (loss without, none with a reservation) are asserted here and in network namespaces by the
//! same script; see `earmark-lab`. Signalling with losses, duplicates, reordering and restarts is compared with a
//! simple model of RFC 2205's merging in `tests/merging`. Claims on one flow by all four protocols are compared with a
//! simple model of each packet's service in `tests/claims`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod capture;
mod connections;
pub mod distributions;
mod egress;
mod event_queue;
mod faults;
mod fluid;
mod host;
mod ids;
mod log;
mod loss_law;
mod measurement;
mod message_hook;
mod multicast;
mod network;
mod packet;
mod packet_filter;
mod pattern;
mod port;
mod processor;
mod rsvp_udp;
mod scheduler;
mod signalling;
mod traffic;

pub use capture::CapturedPacket;
pub use connections::AcceptPolicy;
pub use egress::Reserved;
pub use faults::Faults;
pub use fluid::NoFluidModel;
pub use ids::{FluidId, NodeId, StreamId};
pub use log::{LogEntry, LogEvent, Loss};
pub use loss_law::{BurstError, Bursts, LossLaw, LossTrace};
pub use measurement::{Delays, Figures, Trace};
pub use message_hook::{Direction, HookedMessage, MessageAction, MessageHook};
pub use network::Network;
pub use network::links::{LinkEnd, LinkSpec};
pub use packet::Packet;
pub use pattern::TrafficPattern;
pub use processor::{Cause, CostModel, ProcessorUse, ReceiveBuffer, Turn};
pub use rsvp_udp::RsvpOverUdp;
pub use scheduler::{
    Fifo, FluidSharing, Next, PacketClass, Scheduler, StrictPriority, WeightedFairQueueing,
};
pub use signalling::SignallingCount;
pub use traffic::{Keep, Source};
