//! Fluid model of data: streams that have a rate at each time, instead of packets.
//!
//! # Description
//! A source has a rate that changes when it starts, turns on or off, and ends ([`Network::add_fluid`]). Each direction
//! of a link is shared as its egress would share it among packets: a reserved class gets its inflow, up to its rate;
//! best effort has the rest, each stream in proportion to its inflow, which is the effect of a full queue. Rates count
//! IP octets, and links carry the framing of each packet, too. The output of a link is the input of the next one.
//!
//! A change is propagated only as far as it has an effect ([`plane`]). Best-effort streams towards one destination are
//! merged, unless one is watched or has a reservation somewhere. So a source that turns on or off costs time for the
//! links of its path and, at each congested one, for the best-effort destinations there and the links after it; not for
//! the flows. A new or removed reservation costs time for the path of its stream.
//!
//! # Scope and limits
//! Fluid is everywhere at once: propagation delays are left out, so a rate changes at the receiver at most one delay of
//! the path sooner than with packets. Queues hold nothing: with packets they even out bursts shorter than the time to
//! empty them, 5.6 ms for 50 packets of 125 octets at 10 Mbit/s; here such bursts are lost, or not. Signalling uses
//! none of the bandwidth. A token bucket is as even as a constant rate. If a few sources that send evenly fill a link,
//! the phases of their packets decide which are dropped, and some get up to a fifth more than others; fluid treats all
//! alike. Given times are replaced by their mean rate. Groups receive nothing. Nothing is recorded of a stream that
//! records counts only.
//!
//! # Validation
//! Sources draw the same random numbers as with packets, so that both can be run with one seed and compared second by
//! second, which `tests/fluid.rs` does, here and in the scenarios.

pub(crate) mod meter;
pub(crate) mod plane;
pub(crate) mod rate;
pub(crate) mod source;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Flow, InterfaceId, Time};

use self::meter::Meter;
use self::plane::{ChannelNumber, LinkNumber, Next, Plane};
use self::rate::FluidRate;
use self::source::OnOffSource;
use crate::ids::NodeId;

/// The scheduler of an interface has no fluid model ([`Scheduler::fluid_sharing`](crate::Scheduler::fluid_sharing)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler of interface {interface:?} of node {node:?} has no fluid model")]
pub struct NoFluidModel {
    /// Node of the interface.
    pub node: NodeId,
    /// Interface with the scheduler.
    pub interface: InterfaceId,
}

/// All fluid streams of a network.
#[derive(Debug, Default)]
pub(crate) struct Fluids {
    pub(crate) plane: Plane,
    /// Streams by number; ended ones without an observer are removed.
    pub(crate) streams: Vec<Option<Box<Stream>>>,
    /// Numbers of the running ones, by destination and its port.
    pub(crate) running: BTreeSet<(IpAddr, u16, u32)>,
    /// Channels that streams share, by link, destination and octets of packets.
    pub(crate) shared: BTreeMap<(LinkNumber, IpAddr, u32), ChannelNumber>,
    /// Port of each link of the plane.
    pub(crate) ports: Vec<(NodeId, InterfaceId)>,
    /// Whether routes have changed.
    pub(crate) routes_stale: bool,
}

/// A fluid stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) node: NodeId,
    pub(crate) flow: Flow,
    pub(crate) octets: u32,
    pub(crate) until: Time,
    pub(crate) turns: OnOffSource,
    /// Current rate.
    pub(crate) rate: FluidRate,
    /// Whether it has started and its path was determined.
    pub(crate) routed: bool,
    /// First channel of the path.
    pub(crate) first: Option<ChannelNumber>,
    /// Whether its channels are not shared.
    pub(crate) alone: bool,
    pub(crate) meter: Option<Meter>,
}

impl Fluids {
    /// Returns the number of streams so far.
    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn stream(&self, number: u32) -> Option<&Stream> {
        self.streams.get(number as usize)?.as_deref()
    }

    pub(crate) fn stream_mut(&mut self, number: u32) -> Option<&mut Stream> {
        self.streams.get_mut(number as usize)?.as_deref_mut()
    }

    /// Returns the channels of a stream, from its source on.
    pub(crate) fn channels(&self, stream: &Stream) -> impl Iterator<Item = ChannelNumber> {
        core::iter::successors(stream.first, |&channel| match self.plane.next(channel) {
            Next::Channel(next) => Some(next),
            Next::Watched(_) | Next::Gone => None,
        })
    }

    pub(crate) fn is_at(&self, channel: ChannelNumber, link: LinkNumber) -> bool {
        self.plane.link_of(channel) == link
    }

    /// Whether a stream takes this path already.
    pub(crate) fn goes(&self, number: u32, hops: &[(NodeId, InterfaceId)], arrives: bool) -> bool {
        let Some(stream) = self.stream(number) else { return false };
        let ports = self.channels(stream).map(|c| self.ports[self.plane.link_of(c) as usize]);
        let last = self.channels(stream).last().map(|channel| self.plane.next(channel));
        let arrived = matches!(last, Some(Next::Watched(_)));
        ports.eq(hops.iter().copied()) && (arrived == arrives || stream.meter.is_none())
    }

    /// Creates the channels of a stream through these links, each with its class there, if any.
    pub(crate) fn enter(
        &mut self,
        number: u32,
        hops: &[(LinkNumber, Option<(u32, FluidRate)>)],
        arrives: bool,
        alone: bool,
    ) {
        let Some(stream) = self.streams.get_mut(number as usize).and_then(Option::as_deref_mut)
        else {
            return;
        };
        stream.alone |= alone;
        let mut next = match stream.meter.is_some() && arrives {
            true => Next::Watched(number),
            false => Next::Gone,
        };
        for &(link, class) in hops.iter().rev() {
            let octets = stream.octets;
            let channel = match stream.alone {
                true => self.plane.add_channel(link, octets, Some(number), next),
                false => *self
                    .shared
                    .entry((link, stream.flow.destination, octets))
                    .or_insert_with(|| self.plane.add_channel(link, octets, None, next)),
            };
            self.plane.use_channel(channel);
            self.plane.classify(channel, class);
            next = Next::Channel(channel);
        }
        stream.first = match next {
            Next::Channel(first) => Some(first),
            Next::Watched(_) | Next::Gone => None,
        };
    }

    /// Removes the channels of a stream, which must be without flow.
    pub(crate) fn leave(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(number as usize).and_then(Option::as_deref_mut)
        else {
            return;
        };
        let mut first = stream.first.take();
        let Flow { destination, .. } = stream.flow;
        let (alone, octets) = (stream.alone, stream.octets);
        while let Some(channel) = first {
            let (next, link) = (self.plane.next(channel), self.plane.link_of(channel));
            if self.plane.leave_channel(channel) && !alone {
                self.shared.remove(&(link, destination, octets));
            }
            first = match next {
                Next::Channel(next) => Some(next),
                Next::Watched(_) | Next::Gone => None,
            };
        }
    }

    pub(crate) fn set_rate(&mut self, number: u32, rate: FluidRate, now: Time) {
        let Some(stream) = self.streams.get_mut(number as usize).and_then(Option::as_deref_mut)
        else {
            return;
        };
        let before = core::mem::replace(&mut stream.rate, rate);
        if let Some(meter) = &mut stream.meter {
            meter.set_leaving(now, rate);
        }
        if let Some(first) = stream.first {
            self.plane.flow_in(first, before, rate);
        }
    }

    /// Propagates all changes, and records the new arrival rates.
    pub(crate) fn settle(&mut self, now: Time) {
        self.plane.settle();
        let mut arrivals = core::mem::take(&mut self.plane.arrivals);
        for (number, rate) in arrivals.drain(..) {
            if let Some(meter) = self.stream_mut(number).and_then(|stream| stream.meter.as_mut()) {
                meter.set_arriving(now, rate);
            }
        }
        self.plane.arrivals = arrivals;
    }
}
