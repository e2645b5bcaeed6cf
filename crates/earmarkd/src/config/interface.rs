//! Settings of an interface.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::admission::AdmissionMethod;
use earmark_core::keys::Directions;
use earmark_core::{Rate, Trust};
use earmark_linux::{Queues, ServicePlan};
use earmark_node::Border;

use super::error::Place;
use super::protocol_settings::ProtocolSettings;

/// Queueing of reserved packets on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// One class for each reservation, see [`Queues::PerFlow`].
    #[default]
    PerFlow,
    /// One class for all reservations, and one token bucket for each, see [`Queues::Aggregate`].
    Aggregate,
    /// No classes: one token bucket for each reservation, and strict priority in the device's queues, see [`Queues::Priority`].
    Priority,
    /// No traffic control: another program manages the queues, and reservations are only accounted for.
    None,
}

impl Queueing {
    /// Returns whether all packets together are shaped to the bandwidth.
    pub fn shapes(self) -> bool {
        matches!(self, Queueing::PerFlow | Queueing::Aggregate)
    }

    /// The corresponding plan of traffic control; `None` if the interface must be left alone.
    pub fn plan(self) -> Option<Queues> {
        match self {
            Queueing::PerFlow => Some(Queues::PerFlow),
            Queueing::Aggregate => Some(Queues::Aggregate),
            Queueing::Priority => Some(Queues::Priority),
            Queueing::None => None,
        }
    }
}

/// The part of a link that may be reserved, as configured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reservable {
    /// A share of the bandwidth, from 0 to 1.
    Share(f64),
    /// A rate, at most the bandwidth of the link.
    Rate(Rate),
}

/// One interface that takes part.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfaceConfig {
    /// Name of the interface in the kernel.
    pub name: String,
    /// Bandwidth of the link, to which traffic control shapes; `None` uses the speed that the link's driver reports.
    pub bandwidth: Option<Rate>,
    /// The part of the bandwidth that may be reserved.
    pub reservable: Reservable,
    /// Limit of one reservation on the link.
    pub largest: Option<Rate>,
    /// Octets that the link adds to each IP packet.
    pub overhead: u16,
    /// Minimum latency of the link, microseconds (RFC 2215 section 3.4).
    pub latency_us: u32,
    /// Trust in what is behind the interface.
    pub trust: Trust,
    /// Traffic classes to create in advance; up to this number, reservations create none.
    pub classes: u32,
    /// Limit of the best-effort queue, packets.
    pub queue_packets: u32,
    /// Queueing of reserved packets.
    pub queues: Queueing,
    /// Admission control of the link.
    pub admission: AdmissionMethod,
    /// Rates for packets with certain DSCPs that are not reserved for, in the order of service.
    pub services: Vec<ServicePlan>,
    /// Directions in which messages are signed and verified, by protocol; others are neither.
    pub integrity: BTreeMap<&'static str, Directions>,
    /// Protocols that the interface could speak and does not.
    pub excluded_protocols: BTreeSet<&'static str>,
    /// Settings of the protocols for the interface, each by its own type.
    pub settings: ProtocolSettings,
    /// The core that the interface faces, with the aggregates across it.
    pub border: Option<Border>,
    /// Place of the interface in the file; `None` for settings without a file.
    pub place: Option<Place>,
}

impl InterfaceConfig {
    /// An interface with the file's defaults: three quarters reservable, 256 classes, a queue of 50 packets.
    pub fn new(name: impl Into<String>, bandwidth: Rate) -> InterfaceConfig {
        InterfaceConfig {
            name: name.into(),
            bandwidth: Some(bandwidth),
            reservable: Reservable::Share(0.75),
            largest: None,
            overhead: 0,
            latency_us: 0,
            trust: Trust::ACCESS,
            classes: 256,
            queue_packets: 50,
            queues: Queueing::PerFlow,
            admission: AdmissionMethod::Parameter,
            services: Vec::new(),
            integrity: BTreeMap::new(),
            excluded_protocols: BTreeSet::new(),
            settings: ProtocolSettings::default(),
            border: None,
            place: None,
        }
    }

    /// Returns whether a protocol is spoken on the interface; all are by default.
    pub fn speaks(&self, protocol: &str) -> bool {
        !self.excluded_protocols.contains(protocol)
    }
}
