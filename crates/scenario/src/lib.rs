//! What happens in a network, as files say it: a topology, and a scenario on top of it.
//!
//! - [`topology`]: nodes, links, addresses and routes; the namespaces of the lab are built from the same file.
//! - [`Scenario`]: flows that come and go, what they reserve and by which protocol, and how long it is watched.
//! - [`load`]: both from files, with [other values](Override) for keys of the scenario where some are set.
//! - [`play`]: one run of a scenario with one seed, in the simulator. It gives an [`Outcome`]: plain data, the same for the same
//!   seed, byte for byte. [`play_tapped`] keeps the signalling of a node or link, too.
//!
//! - [`explore`](explore::explore): random networks, flows and faults, and what must hold whatever happens.
//!
//! Flows are drawn before anything is played ([`lives`]), each from dice of its own, so that two runs with one seed have the
//! same flows whatever protocol reserves for them.
#![forbid(unsafe_code)]

mod build;
mod capture;
mod data;
mod endpoints;
pub mod explore;
mod faults;
mod files;
pub mod flow_schedule;
mod outcome;
mod overrides;
mod pending_reservation;
mod play;
mod reservation;
mod routing;
mod scenario;
pub mod topology;
mod value_syntax;
mod values;

pub use build::network;
pub use capture::{Tap, play_tapped};
pub use data::Data;
pub use endpoints::Between;
pub use faults::{Fault, FaultError};
pub use files::{LoadError, load, load_text};
pub use outcome::{Attempted, FlowOutcome, Group, Outcome, Received};
pub use overrides::{NoOverride, Override, OverrideError};
pub use play::{PlayError, play};
pub use scenario::{
    Arrivals, Flows, Protocol, Retry, Rollback, Scenario, ScenarioError, Threshold,
};
pub use value_syntax::Lifetime;
