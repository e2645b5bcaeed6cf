//! Simulated networks described by files: a topology, and a scenario for it.
//!
//! - [`topology`]: nodes, links, addresses and routes; the namespaces of the lab are built from the same file.
//! - [`Scenario`]: flows, their reservations and protocol, and the duration of the run.
//! - [`load`]: both from files, with [overrides](Override) for keys of the scenario.
//! - [`processing`]: the time that daemons take, by cost profiles.
//! - [`play`]: one run of a scenario with one seed, in the simulator. Returns an [`Outcome`]: plain data, the same
//!   for the same seed, byte for byte. [`play_tapped`] captures the signalling of a node or link, too, and a
//!   [`ScenarioRun`] is played in parts.
//! - [`tables`]: outcomes as rows, for CSV files and data frames.
//! - [`explore`](explore::explore): random networks, flows and faults, and the invariants that must hold.
//!
//! Flows are drawn before the run ([`flow_schedule`]), each from a random stream of its own, so that two runs with
//! one seed have the same flows whatever protocol reserves for them.
#![forbid(unsafe_code)]

mod admission;
mod arrivals;
pub mod attack;
mod build;
mod capture;
pub mod crossing;
mod data;
mod endpoints;
mod error;
pub mod explore;
mod faults;
mod files;
pub mod flow_schedule;
mod lifetime;
mod middlebox;
mod mobility;
mod outcome;
mod overrides;
mod path_request;
mod pending_reservation;
mod play;
pub mod processing;
mod protocols;
mod reported_outcomes;
mod reservation;
mod routing;
mod sampling;
mod scenario;
mod scenario_network;
mod scheduler;
pub mod tables;
pub mod topology;
mod value_syntax;
mod values;

pub use admission::{Admission, Measured};
pub use arrivals::{ArrivalLaw, Arrivals};
pub use build::{network, network_in};
pub use capture::{Tap, play_tapped};
pub use data::Data;
pub use endpoints::Between;
pub use error::{OverrideError, ScenarioError};
pub use faults::{Fault, FaultError, Losses};
pub use files::{LoadError, load, load_text};
pub use lifetime::{Lifetime, LifetimeLaw, Lifetimes};
pub use middlebox::Middlebox;
pub use mobility::{Mobility, MobilityLaw, Move, Order, OtherLaw, Walk};
pub use outcome::{
    Attempted, FlowOutcome, Group, Outcome, PathOutcome, ProcessorOutcome, Received, Reported,
    Signalling,
};
pub use overrides::{NoOverride, Override};
pub use path_request::{PathEvent, PathRequest};
pub use play::{PlayError, ScenarioRun, play};
pub use protocols::{CommonSettings, End, Protocols, Proxy, ScenarioProtocol, Setting, Variant};
pub use reservation::ReservationRequest;
pub use routing::Returns;
pub use scenario::{Flows, Initial, Retry, Rollback, Scenario, Threshold};
pub use scenario_network::network_of;
pub use scheduler::{Discipline, LinkScheduler, Schedulers};
