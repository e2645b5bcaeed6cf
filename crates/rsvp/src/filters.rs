//! Senders of a reservation, and the flows that they select.

use alloc::vec::Vec;

use earmark_core::Flow;
use earmark_wire::rsvp::{Dscp, FilterSpec, SenderTemplate, Session, SourceSelector};
use serde::{Deserialize, Serialize};

/// Senders of a reservation, as in its filter specs: one for FF, any number for SE, none for WF, which means all of the
/// session. Serialized as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<FilterSpec>", into = "Vec<FilterSpec>")]
pub enum Filters {
    /// All senders.
    #[default]
    All,
    /// One sender.
    One(FilterSpec),
    /// Several senders.
    Several(Vec<FilterSpec>),
}

impl Filters {
    /// Returns the filter specs; an empty list means all senders.
    pub fn as_slice(&self) -> &[FilterSpec] {
        match self {
            Filters::All => &[],
            Filters::One(filter) => core::slice::from_ref(filter),
            Filters::Several(filters) => filters,
        }
    }

    /// Returns whether the reservation includes this sender.
    pub fn match_sender(&self, template: &SenderTemplate) -> bool {
        matches!(self, Filters::All) || self.as_slice().contains(template)
    }
}

impl From<&[FilterSpec]> for Filters {
    fn from(filters: &[FilterSpec]) -> Filters {
        match *filters {
            [] => Filters::All,
            [one] => Filters::One(one),
            _ => Filters::Several(filters.to_vec()),
        }
    }
}

impl From<Vec<FilterSpec>> for Filters {
    fn from(filters: Vec<FilterSpec>) -> Filters {
        match filters[..] {
            [] => Filters::All,
            [one] => Filters::One(one),
            _ => Filters::Several(filters),
        }
    }
}

impl From<Filters> for Vec<FilterSpec> {
    fn from(filters: Filters) -> Vec<FilterSpec> {
        match filters {
            Filters::Several(filters) => filters,
            few => few.as_slice().to_vec(),
        }
    }
}

/// Returns the flow of a session that a filter selects; without one, that of every sender. That of an aggregate is of all
/// packets with its DSCP (RFC 3175 section 1.4.1).
pub(crate) fn flow(session: &Session, filter: Option<&FilterSpec>) -> Flow {
    match session.dscp() {
        Some(Dscp(dscp)) => Flow::of_dscp(session.destination.is_ipv6(), dscp),
        None => routed_flow(session, filter),
    }
}

/// Returns the flow by which the messages of a session are routed: the data, or for an aggregate the packets between its
/// routers.
pub(crate) fn routed_flow(session: &Session, filter: Option<&FilterSpec>) -> Flow {
    // vDstPort is not in the packets.
    let in_packets = !session.has_gpi() && !session.is_aggregate();
    let destination_port = if in_packets { session.port } else { 0 };
    let (source_port, flow_label, spi) = match filter.map(|filter| filter.selector) {
        Some(SourceSelector::Port(port)) => (port, 0, 0),
        Some(SourceSelector::FlowLabel(label)) => (0, label, 0),
        Some(SourceSelector::Spi(spi)) => (0, 0, spi),
        Some(SourceSelector::Aggregator) | None => (0, 0, 0),
    };
    Flow {
        destination: session.destination,
        source: filter.map(|filter| filter.source),
        protocol: session.protocol,
        destination_port,
        source_port,
        flow_label,
        spi,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}
