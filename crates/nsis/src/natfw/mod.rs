//! NATFW NSLP (RFC 5973): pinholes in firewalls and bindings of address translators, asked for along the path of the data.
//!
//! # Roles
//!
//! The initiator (NI) asks: an application of this node, or an edge that acts for a host without NSIS. The responder (NR)
//! answers. The nodes between them (NF) are firewalls and address translators; a router that is neither lets the messages
//! pass. CREATE travels from the data sender to the data receiver and opens the path. EXTERNAL travels from the data
//! receiver to the edge of its network, reserves an address there, and opens nothing: the CREATE of the data sender does.
//!
//! # State
//!
//! A [session](state::Session) is one request at one node. It is pending until the RESPONSE, then established, and ends
//! with its lifetime, with a request of lifetime 0, or with a NOTIFY. Only then its rules are in the packet filter
//! ([`earmark_core::FilterRule`]), each until the end of the session, so that the filter closes by itself. Rules are
//! computed from the session whenever they are needed, never stored beside it.
//!
//! At a translator a session has two message routing informations: `near`, as the initiator's side knows the flow, and
//! `far`, as the responder's side does. Whatever differs between them is the translation.
//!
//! # Decisions where RFC 5973 is silent or ambiguous
//!
//! - The state of a session is extended when its refresh arrives (section 3.7.3), and shortened if the RESPONSE grants less.
//! - An EXTERNAL with the action deny at a NAT is refused with the class "Signaling session failure": section 3.7.2 names the
//!   class "Protocol error", in which the code means something else.
//! - A refused update leaves this node as it was; its error ends the session at the nodes towards the initiator (section
//!   3.7.1), which then deletes the session.
//! - A CREATE that an edge sends for a data sender without NSIS has the data sender as its source (section 4.3.1), not the
//!   external address of the edge as in the example of appendix E, because firewalls behind the edge see the data sender.

mod api;
mod authorization;
mod binding;
mod candidate;
mod config;
mod counters;
mod create;
mod crossing;
mod deletion;
mod dependents;
mod engine;
mod external;
mod filter;
mod flow;
mod forward;
mod initiator;
mod instance;
mod limits;
mod notify;
mod origin;
mod outcome;
mod policy;
mod proxy;
mod received;
mod refresh;
mod release;
mod response;
mod route_change;
mod send;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod timeouts;
mod translation;
mod view;

pub use api::{
    Application, Change, Command, Event, ExposeRequest, OpenRequest, Refusal, Rejection, RuleChange,
};
pub use config::{Config, Limits, Responder, Rule, Translator};
pub use counters::{Counters, DropReason};
pub use instance::NatfwNslp;
pub use view::{PinholeView, RoleView, SessionView, TranslationView};
