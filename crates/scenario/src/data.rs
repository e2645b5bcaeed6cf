//! Data of flows: packets, fluid, or none.

use std::time::Duration;

use earmark_core::Time;
use earmark_sim::{FluidId, Network, Source, StreamId};
use serde::{Deserialize, Serialize};

use crate::outcome::Received;

/// Simulation of the flows' data. Reservations do not depend on it unless admission measures it, since signalling precedes
/// data in the queues; packets only delay a message by the one being transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Packet by packet.
    #[default]
    Packets,
    /// As rates that change with events of a flow or a link.
    Fluid,
    /// Not at all.
    None,
}

/// Data of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Packets(StreamId),
    Fluid(FluidId, u32),
}

impl Data {
    /// Starts to send.
    pub(crate) fn send(self, network: &mut Network, source: Source) -> Option<Stream> {
        match self {
            Data::Packets => Some(Stream::Packets(network.add_source(source))),
            Data::Fluid => {
                // `Schedulers::check` has refused schedulers without a fluid model.
                let fluid = network.add_fluid(&source).ok()?;
                Some(Stream::Fluid(fluid, source.packet_octets))
            }
            Data::None => None,
        }
    }
}

impl Stream {
    /// Returns the data received so far, with rates for each second until `end`.
    pub(crate) fn received(self, network: &Network, end: Time) -> Received {
        match self {
            Stream::Packets(stream) => {
                let (sent, arrived) = network.counts(stream);
                let trace = network.trace(stream);
                let rates = trace.arrival_rates(Time::ZERO, end, Duration::from_secs(1));
                let lost = network.dropped_packets(stream);
                Received { sent, arrived, lost, delay: trace.delays(), rates }
            }
            Stream::Fluid(stream, packet) => {
                let (sent, arrived) = network.fluid_octets(stream);
                let packets =
                    |octets: u64| (octets + u64::from(packet / 2)) / u64::from(packet.max(1));
                let rates = network.fluid_rates(stream, end);
                let (sent, arrived) = (packets(sent), packets(arrived));
                let lost = sent.saturating_sub(arrived);
                Received { sent, arrived, lost, delay: None, rates }
            }
        }
    }
}
