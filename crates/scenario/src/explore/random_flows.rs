//! Random flows: endpoints, times, request and protocol of each.

use std::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{Rate, Time};
use earmark_sim::distributions::{exponential, happens};
use earmark_sim::{NodeId, TrafficPattern};

use crate::protocols::{Protocols, ScenarioProtocol};
use crate::reservation::ReservationRequest;
use crate::sampling::{below, between, milliseconds, one_of};
use crate::topology::{Role, Topology};

/// Time at which the last one ends.
pub(super) const END: Duration = Duration::from_secs(60);
/// Mean lifetime of a flow.
const STAY: Duration = Duration::from_secs(15);
/// Maximum number of flows with a reservation.
const FLOWS: usize = 60;
/// Depth of the token bucket, octets.
const BUCKET: u32 = 5_000;
/// First port.
const PORT: u16 = 10_000;

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Source and destination node, as indices in the topology.
    pub(super) ends: [usize; 2],
    /// Requested reservation, and its packets.
    pub(super) request: ReservationRequest,
    /// Protocol of the request; `None` for a flow that only fills queues.
    pub(super) by: Option<&'static dyn ScenarioProtocol>,
    /// Start time.
    pub(super) starts_at: Time,
    /// Time of the request.
    pub(super) requests_at: Time,
    /// End time.
    pub(super) ends_at: Time,
    /// TrafficPattern of the data; `None` for no data. With a request, the data conforms to it.
    pub(super) pattern: Option<TrafficPattern>,
}

/// Draws the flows of a network.
pub(super) fn draw(
    topology: &Topology,
    nodes: &[NodeId],
    protocols: &Protocols,
    dice: &mut Stream,
) -> Vec<Flow> {
    let is_host = |place: &usize| topology.nodes[*place].role == Role::Host;
    let hosts: Vec<usize> = (0..topology.nodes.len()).filter(is_host).collect();
    let reserving = between(dice, 4, FLOWS.min(8 * hosts.len()));
    let flooding = between(dice, 1, 4);
    (0..reserving + flooding)
        .map(|number| {
            let from = below(dice, hosts.len());
            let to = (from + 1 + below(dice, hosts.len() - 1)) % hosts.len();
            let ends = [hosts[from], hosts[to]];
            let address = |end: usize| topology.address(end).unwrap_or([0; 4].into()).into();
            let request = ReservationRequest {
                number: number as u64 + 1,
                time: 0,
                nodes: ends.map(|end| nodes[end]),
                addresses: ends.map(address),
                port: PORT + 2 * number as u16, // few flows
                rate: Rate::from_bps(8_000 * between(dice, 2, 32) as u64),
                bucket_octets: BUCKET,
                packet_octets: 100 * between(dice, 3, 12) as u32,
                priority: None,
            };
            match number < reserving {
                true => one_that_reserves(ends, request, protocols, dice),
                false => one_that_floods(ends, request, dice),
            }
        })
        .collect()
}

fn one_that_reserves(
    ends: [usize; 2],
    request: ReservationRequest,
    protocols: &Protocols,
    dice: &mut Stream,
) -> Flow {
    let by = Some(one_of(dice, protocols.all()));
    let starts = Time::ZERO + milliseconds(dice, 0, 45_000);
    let requests_at = starts + milliseconds(dice, 0, 2_000);
    let ends_at = (requests_at + exponential(dice, STAY)).min(Time::ZERO + END);
    let pattern = happens(dice, 0.5).then(|| match happens(dice, 0.5) {
        true => TrafficPattern::Constant(request.rate),
        false => TrafficPattern::Bucket { rate: request.rate, depth: request.bucket_octets },
    });
    Flow { ends, request, by, starts_at: starts, requests_at, ends_at, pattern }
}

fn one_that_floods(ends: [usize; 2], request: ReservationRequest, dice: &mut Stream) -> Flow {
    let rate = Rate::from_bps(one_of(dice, &[1_000_000, 2_000_000]));
    let request = ReservationRequest { rate, packet_octets: 1_500, ..request };
    let starts = Time::ZERO + milliseconds(dice, 0, 50_000);
    let ends_at = starts + milliseconds(dice, 1_000, 8_000);
    let pattern = Some(TrafficPattern::Constant(rate));
    Flow { ends, request, by: None, starts_at: starts, requests_at: starts, ends_at, pattern }
}
