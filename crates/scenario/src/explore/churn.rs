//! Random flows: who wants what from when until when, and by which protocol.

use std::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{Rate, Time};
use earmark_sim::dice::{exponential, happens};
use earmark_sim::{NodeId, Shape};

use super::drawn::{below, between, milliseconds, one_of};
use crate::reservation::ReservationRequest;
use crate::scenario::Protocol;
use crate::topology::{Role, Topology};

/// When the last one leaves.
pub(super) const END: Duration = Duration::from_secs(60);
/// How long one stays, on average.
const STAY: Duration = Duration::from_secs(15);
/// Most flows that want a reservation.
const FLOWS: usize = 60;
/// Octets of a token bucket.
const BUCKET: u32 = 5_000;
/// The first port.
const PORT: u16 = 10_000;

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// From which node of the topology to which.
    pub(super) ends: [usize; 2],
    /// What it wants, and for which packets.
    pub(super) wish: ReservationRequest,
    /// By what it asks for that; by nothing, if it is there to fill queues.
    pub(super) by: Option<Protocol>,
    /// When it begins,
    pub(super) starts: Time,
    /// asks,
    pub(super) asks: Time,
    /// and leaves.
    pub(super) leaves: Time,
    /// How it sends, if it does; if it has a wish, as that says.
    pub(super) shape: Option<Shape>,
}

/// The flows of a network.
pub(super) fn draw(topology: &Topology, nodes: &[NodeId], dice: &mut Stream) -> Vec<Flow> {
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
            let wish = ReservationRequest {
                number: number as u64 + 1,
                time: 0,
                nodes: ends.map(|end| nodes[end]),
                addresses: ends.map(address),
                port: PORT + 2 * number as u16, // of few
                rate: Rate::from_bps(8_000 * between(dice, 2, 32) as u64),
                bucket_octets: BUCKET,
                packet_octets: 100 * between(dice, 3, 12) as u32,
                priority: None,
            };
            match number < reserving {
                true => one_that_reserves(ends, wish, dice),
                false => one_that_floods(ends, wish, dice),
            }
        })
        .collect()
}

fn one_that_reserves(ends: [usize; 2], wish: ReservationRequest, dice: &mut Stream) -> Flow {
    const PROTOCOLS: [Protocol; 4] =
        [Protocol::Rsvp, Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis];
    let by = Some(one_of(dice, &PROTOCOLS));
    let starts = Time::ZERO + milliseconds(dice, 0, 45_000);
    let asks = starts + milliseconds(dice, 0, 2_000);
    let leaves = (asks + exponential(dice, STAY)).min(Time::ZERO + END);
    let shape = happens(dice, 0.5).then(|| match happens(dice, 0.5) {
        true => Shape::Constant(wish.rate),
        false => Shape::Bucket { rate: wish.rate, depth: wish.bucket_octets },
    });
    Flow { ends, wish, by, starts, asks, leaves, shape }
}

fn one_that_floods(ends: [usize; 2], wish: ReservationRequest, dice: &mut Stream) -> Flow {
    let rate = Rate::from_bps(one_of(dice, &[1_000_000, 2_000_000]));
    let wish = ReservationRequest { rate, packet_octets: 1_500, ..wish };
    let starts = Time::ZERO + milliseconds(dice, 0, 50_000);
    let leaves = starts + milliseconds(dice, 1_000, 8_000);
    let shape = Some(Shape::Constant(rate));
    Flow { ends, wish, by: None, starts, asks: starts, leaves, shape }
}
