//! The protocols of this project in a node: their settings, commands, events and outcomes.
//!
//! One module for each protocol, with the same file names: `engine` (dispatch), `listing` (rows), `outcome` (outcomes of
//! events). No other file of the node names a protocol.

pub(crate) mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::net::IpAddr;

use earmark_boomerang as boomerang_engine;
use earmark_core::admission::{AdmissionMethod, PreemptionPolicy, RetryPolicy};
use earmark_core::outcome::{Kind, Outcome, Translation};
use earmark_core::{Flow, InterfaceId, Prefix, Rate, SecretSeed};
use earmark_nsis as nsis_engine;
use earmark_rsvp as rsvp_engine;
use earmark_wire::rsvp::SenderTemplate;
use earmark_wire::rsvp::iana::ROUTER_ALERT;
use earmark_yessir as yessir_engine;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{AggregateChange, EnforcementChange};
use crate::engine::Engines;
use crate::other::{OtherCommand, OtherEvent};
pub use rsvp::aggregation::E2E_IGNORE;
pub use rsvp::aggregation::core_packets::{CorePackets, TunnelProtocol};
pub use rsvp::aggregation::core_protocol::{CoreProtocol, CoreProtocolError};
pub use rsvp::aggregation::settings::{Across, Border, Deaggregate};
pub use rsvp::listen::{Ask, Listen, Unanswerable};
pub use rsvp::outcome::traced;

/// Expands to a list of one item of each protocol's module, in the order in which the engines process changes of the
/// host.
macro_rules! of_each_protocol {
    ($module:ident::$item:ident) => {
        [
            $crate::protocols::rsvp::$module::$item,
            $crate::protocols::boomerang::$module::$item,
            $crate::protocols::yessir::$module::$item,
            $crate::protocols::nsis::$module::$item,
        ]
    };
}
pub(crate) use of_each_protocol;

/// Settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Name for display.
    pub name: String,
    /// Seed of all random streams, or of those of jitter if there is a secret one.
    pub seed: u64,
    /// Seed of cookies, keys and identifiers.
    #[serde(default)]
    pub secret_seed: SecretSeed,
    /// Settings of RSVP.
    pub rsvp: rsvp_engine::Config,
    /// Names of interfaces without RSVP. Packets that pass through them are forwarded like any other.
    #[serde(default)]
    pub without_rsvp: BTreeSet<String>,
    /// Settings of Boomerang.
    #[serde(default)]
    pub boomerang: boomerang_engine::Config,
    /// Settings of YESSIR.
    #[serde(default)]
    pub yessir: yessir_engine::Config,
    /// Settings of NSIS.
    #[serde(default)]
    pub nsis: nsis_engine::Config,
    /// Settings of the engines that a program adds, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, Value>,
    /// Engines of the node; by default those of this project.
    #[serde(skip)]
    pub engines: Engines,
    /// Borders by interface name: interfaces towards a core, which aggregates cross.
    #[serde(default)]
    pub borders: BTreeMap<String, Border>,
    /// Retry policy for refused requests after bandwidth is released.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// Admission control of the links that `link_admission` does not name.
    #[serde(default)]
    pub admission: AdmissionMethod,
    /// Admission control by interface name.
    #[serde(default)]
    pub link_admission: BTreeMap<String, AdmissionMethod>,
}

impl NodeConfig {
    /// Returns the preemption policy of the ledger.
    pub(crate) fn preemption(&self) -> Option<PreemptionPolicy> {
        self.rsvp.policy.preemption
    }
}

/// Commands of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// A call of an RSVP application.
    Rsvp(rsvp_engine::Command),
    /// Answer the senders of a session automatically, by a policy.
    Listen(Listen),
    /// A command of a Boomerang initiator.
    Boomerang(boomerang_engine::Command),
    /// A command of a YESSIR sender or receiver.
    Yessir(yessir_engine::Command),
    /// A command of an NSIS application.
    Nsis(nsis_engine::Command),
    /// A command for an engine that a program adds.
    Other(OtherCommand),
}

impl Command {
    /// Returns the name of the protocol whose engine carries out the command.
    pub fn protocol(&self) -> &str {
        match self {
            Command::Rsvp(_) | Command::Listen(_) => "rsvp",
            Command::Boomerang(_) => "boomerang",
            Command::Yessir(_) => "yessir",
            Command::Nsis(_) => "nsis",
            Command::Other(other) => &other.name,
        }
    }
}

/// Events that a node reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Event {
    /// Event of RSVP.
    Rsvp(rsvp_engine::Event),
    /// Event of Boomerang.
    Boomerang(boomerang_engine::Event),
    /// Event of YESSIR.
    Yessir(yessir_engine::Event),
    /// Event of NSIS.
    Nsis(nsis_engine::Event),
    /// Event of an engine that a program adds.
    Other(OtherEvent),
    /// A receiver's policy cannot answer a sender.
    NoAnswer {
        /// Application of the receiver.
        application: rsvp_engine::Application,
        /// Sender without an answer.
        template: SenderTemplate,
        /// Reason.
        reason: Unanswerable,
    },
    /// A reservation of a terminated daemon in traffic control cannot be kept; the driver should remove it.
    NotAdopted {
        /// Interface of the link.
        interface: InterfaceId,
        /// Flow of the reservation.
        flow: Flow,
        /// Reason.
        reason: String,
    },
    /// Enforcement of a reservation, or of all reservations of a link, has failed or is restored.
    Enforcement {
        /// Kind of change.
        change: EnforcementChange,
        /// Interface name of the link.
        interface: String,
        /// Flow of the reservation; `None` for all of the link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<Flow>,
        /// Reason of the failure.
        reason: String,
    },
    /// An aggregate across a core has changed.
    Aggregate {
        /// Kind of change.
        change: AggregateChange,
        /// Far edge.
        to: IpAddr,
        /// Destinations behind the far edge.
        range: Prefix,
        /// Rate that the core has granted.
        granted: Rate,
        /// Total demand of the flows.
        need: Rate,
    },
}

impl From<rsvp_engine::Event> for Event {
    fn from(event: rsvp_engine::Event) -> Event {
        Event::Rsvp(event)
    }
}

impl From<boomerang_engine::Event> for Event {
    fn from(event: boomerang_engine::Event) -> Event {
        Event::Boomerang(event)
    }
}

impl From<yessir_engine::Event> for Event {
    fn from(event: yessir_engine::Event) -> Event {
        Event::Yessir(event)
    }
}

impl From<nsis_engine::Event> for Event {
    fn from(event: nsis_engine::Event) -> Event {
        Event::Nsis(event)
    }
}

impl From<OtherEvent> for Event {
    fn from(event: OtherEvent) -> Event {
        Event::Other(event)
    }
}

/// Returns the application that an event concerns.
pub fn application_of(event: &Event) -> Option<u64> {
    match event {
        Event::Rsvp(event) => rsvp::outcome::application(event),
        Event::Boomerang(event) => boomerang::outcome::application(event),
        Event::Yessir(event) => yessir::outcome::application(event),
        Event::Nsis(event) => nsis::outcome::application(event),
        Event::Other(event) => event.application,
        Event::NoAnswer { application, .. } => Some(application.0),
        Event::NotAdopted { .. } | Event::Aggregate { .. } | Event::Enforcement { .. } => None,
    }
}

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub fn outcome_of(event: &Event) -> Option<Outcome> {
    match event {
        Event::Rsvp(event) => rsvp::outcome::outcome(event),
        Event::Boomerang(event) => boomerang::outcome::outcome(event),
        Event::Yessir(event) => yessir::outcome::outcome(event),
        Event::Nsis(event) => nsis::outcome::outcome(event),
        Event::Other(event) => event.outcome.as_deref().cloned(),
        Event::NoAnswer { .. } => Some(Outcome::known_locally(Kind::Refused)),
        Event::NotAdopted { .. } | Event::Aggregate { .. } | Event::Enforcement { .. } => None,
    }
}

/// Returns whether an event reports a refusal that leaves the earlier reservation in place.
pub(crate) fn leaves_reservation(event: &Event) -> bool {
    matches!(event, Event::Rsvp(event) if rsvp::outcome::leaves_reservation(event))
}

/// Returns the address translation that an event reports.
pub fn translation_of(event: &Event) -> Option<Translation> {
    match event {
        Event::Rsvp(event) => rsvp::outcome::translation(event),
        Event::Nsis(event) => nsis::outcome::translation(event),
        _ => None,
    }
}

/// Returns the value of the IPv6 router-alert option in messages of an IP protocol. All but RSVP have the value of "any
/// datagram of interest" (RFC 2711: 0).
pub fn router_alert6(ip_protocol: u8) -> u16 {
    if ip_protocol == rsvp_engine::PROTOCOL { ROUTER_ALERT } else { 0 }
}
