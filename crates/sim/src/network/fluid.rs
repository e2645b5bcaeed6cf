//! Fluid streams: their addition, turns and end.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::{Flow, Time};

use super::{Network, Scheduled};
use crate::fluid::meter::Meter;
use crate::fluid::rate::FluidRate;
use crate::fluid::source::OnOffSource;
use crate::fluid::{NoFluidModel, Stream};
use crate::ids::FluidId;
use crate::packet::UDP;
use crate::traffic::{Keep, Source};

impl Network {
    /// Adds a fluid stream. Its source address is determined now, its path when it starts.
    ///
    /// # Errors
    /// The scheduler of a link of the network has no fluid model. Schedulers that are set later are not checked.
    pub fn add_fluid(&mut self, source: &Source) -> Result<FluidId, NoFluidModel> {
        if let Some((node, interface)) = self.without_fluid {
            return Err(NoFluidModel { node, interface });
        }
        let number = self.fluids.streams.len() as u32; // memory limits streams to fewer than 2^32
        let random = self.random.stream(&self.next_stream_name());
        let starts = source.from.max(self.now);
        let turns = OnOffSource::new(source, starts, random);
        let first = turns.first();
        let watched = source.keep == Keep::Packets;
        let stream = Stream {
            node: source.node,
            flow: Flow {
                destination: source.destination,
                source: self.hosts[source.node.0].source_for(source.destination),
                protocol: UDP,
                destination_port: source.destination_port,
                source_port: source.port,
                flow_label: 0,
                spi: 0,
                destination_open: 0,
                source_open: 0,
                dscp: source.dscp,
            },
            octets: source.packet_octets,
            until: source.until,
            turns,
            rate: FluidRate::ZERO,
            routed: false,
            first: None,
            alone: watched,
            meter: watched.then(Meter::default),
        };
        self.fluids.running.insert((source.destination, source.destination_port, number));
        self.fluids.streams.push(Some(Box::new(stream)));
        self.enter(first.min(source.until), Scheduled::Turn(FluidId(number)));
        Ok(FluidId(number))
    }

    /// Returns the octets of a stream sent and received so far; zeros if only counts are recorded.
    pub fn fluid_octets(&self, stream: FluidId) -> (u64, u64) {
        self.metered(stream).map_or((0, 0), |meter| meter.octets())
    }

    /// Returns the rate received of a stream in each second until a time, bits per second; zeros if only counts are
    /// recorded, and for the future.
    pub fn fluid_rates(&self, stream: FluidId, until: Time) -> Vec<u64> {
        self.metered(stream).unwrap_or_default().rates(until)
    }

    fn metered(&self, stream: FluidId) -> Option<Meter> {
        let mut meter = self.fluids.stream(stream.0)?.meter.clone()?;
        meter.advance(self.now);
        Some(meter)
    }

    /// OnOffSource a stream on or off, or ends it.
    pub(crate) fn turn_fluid(&mut self, id: FluidId) {
        self.reroute_fluids();
        let now = self.now;
        let Some(stream) = self.fluids.stream_mut(id.0) else { return };
        if now >= stream.until {
            return self.end_fluid(id.0);
        }
        let (rate, next) = stream.turns.turn(now);
        let (next, is_new) =
            (next.min(stream.until), !core::mem::replace(&mut stream.routed, true));
        self.enter(next, Scheduled::Turn(id));
        if is_new {
            self.route_fluid(id.0);
        }
        self.fluids.set_rate(id.0, rate, now);
        self.fluids.settle(now);
    }

    fn end_fluid(&mut self, number: u32) {
        let now = self.now;
        self.fluids.set_rate(number, FluidRate::ZERO, now);
        self.fluids.leave(number);
        self.fluids.settle(now);
        let Some(stream) = self.fluids.stream(number) else { return };
        let (Flow { destination, destination_port, .. }, ends) = (stream.flow, &stream.meter);
        if ends.is_none() {
            self.fluids.streams[number as usize] = None;
        }
        self.fluids.running.remove(&(destination, destination_port, number));
    }
}
