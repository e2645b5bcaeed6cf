//! One direction of a link: its reservations, the classifier, and the scheduler that serves the packets.
//!
//! A packet that matches several claims goes into the first of their classes that has room for it, from the narrowest
//! claim on, and otherwise into the class of the largest rate. The [scheduler](crate::scheduler) decides what the class
//! is worth.

mod classifier;
mod reservations;

use alloc::boxed::Box;
use core::time::Duration;

use earmark_core::{Flow, Markings, Rate, Time};

pub(crate) use self::reservations::Reservations;
pub use self::reservations::Reserved;
use crate::packet::{Body, FRAMING, Packet};
use crate::scheduler::{FluidSharing, Next, PacketClass, Scheduler, StrictPriority};

/// Number of bits of a DSCP.
const DSCP_BITS: u32 = 6;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Egress {
    bandwidth: Rate,
    queue_packets: usize,
    reservations: Reservations,
    markings: Markings,
    scheduler: Box<dyn Scheduler>,
    /// Octets of packets that have entered reserved classes.
    reserved_octets: u64,
}

impl Egress {
    /// Creates the egress of a link, served by strict priority.
    pub(crate) fn new(bandwidth: Rate, queue_packets: u32) -> Egress {
        let queue_packets = queue_packets as usize;
        Egress {
            bandwidth,
            queue_packets,
            reservations: Reservations::default(),
            markings: Markings::default(),
            scheduler: Box::new(StrictPriority::new(bandwidth, queue_packets)),
            reserved_octets: 0,
        }
    }

    /// Replaces the scheduler. Packets that wait are lost.
    pub(crate) fn set_scheduler<S: Scheduler + 'static>(&mut self, now: Time) {
        let mut scheduler = S::new(self.bandwidth, self.queue_packets);
        for (number, demand) in self.reservations.classes() {
            scheduler.set_class(now, number, demand);
        }
        self.scheduler = Box::new(scheduler);
    }

    pub(crate) fn set_bandwidth(&mut self, now: Time, bandwidth: Rate) {
        self.bandwidth = bandwidth;
        self.scheduler.set_bandwidth(now, bandwidth);
    }

    /// Sets the DSCPs of packets.
    pub(crate) fn set_markings(&mut self, markings: Markings) {
        self.markings = markings;
    }

    pub(crate) fn bandwidth(&self) -> Rate {
        self.bandwidth
    }

    /// Returns the reservations.
    pub(crate) fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Changes reservations; afterwards the scheduler knows the changed classes.
    pub(crate) fn change<T>(
        &mut self,
        now: Time,
        change: impl FnOnce(&mut Reservations) -> T,
    ) -> T {
        let result = change(&mut self.reservations);
        for (number, demand) in self.reservations.take_changed() {
            match demand {
                Some(demand) => self.scheduler.set_class(now, number, demand),
                None => self.scheduler.remove_class(now, number),
            }
        }
        result
    }

    /// Marks a packet, and appends it to its queue; `false` if the queue is full.
    pub(crate) fn enqueue(&mut self, now: Time, mut packet: Packet) -> bool {
        let class = match self.classify(now, &packet) {
            Some(number) => PacketClass::Reserved(number),
            None if packet.from_daemon => PacketClass::Signalling,
            None => PacketClass::BestEffort,
        };
        if !self.markings.is_empty() {
            packet.dscp = self.mark(class, packet.dscp);
        }
        let octets = packet.length;
        let entered = self.scheduler.enqueue(now, class, packet);
        if entered && matches!(class, PacketClass::Reserved(_)) {
            self.reserved_octets += u64::from(octets);
        }
        entered
    }

    /// Returns the DSCP with which a packet of a class leaves that has arrived with `dscp`.
    fn mark(&self, class: PacketClass, dscp: u8) -> u8 {
        let claim = match class {
            PacketClass::Reserved(number) => self.reservations.claim_of(number),
            PacketClass::Signalling | PacketClass::BestEffort => None,
        };
        let mark = claim.and_then(|(protocol, flow)| self.markings.of_claim(protocol, flow));
        self.markings.of_packet(dscp, mark)
    }

    /// Returns the octets of packets that have entered reserved classes.
    pub(crate) fn reserved_octets(&self) -> u64 {
        self.reserved_octets
    }

    /// Whether a packet waits.
    pub(crate) fn has_packets(&self) -> bool {
        self.scheduler.has_packets()
    }

    /// Returns the next packet, if one may be sent. The link must be free.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        self.scheduler.next(now)
    }

    /// Returns the time that a packet occupies the link.
    pub(crate) fn transmission_time(&self, packet: &Packet) -> Duration {
        let bits = u64::from(packet.length + FRAMING) * 8;
        let nanos = bits.saturating_mul(1_000_000_000) / self.bandwidth.as_bps().max(1);
        Duration::from_nanos(nanos)
    }

    /// Returns the class of a fluid stream and its rate; `None` for best effort.
    pub(crate) fn class_for(&self, flow: &Flow) -> Option<(u32, Rate)> {
        match self.scheduler.fluid_sharing() {
            Some(FluidSharing::ReservedFirst) => self.reservations.class_for(flow),
            Some(FluidSharing::Proportional) | None => None,
        }
    }

    /// Whether the scheduler has a fluid model.
    pub(crate) fn shares_fluid(&self) -> bool {
        self.scheduler.fluid_sharing().is_some()
    }

    /// Returns the class of a packet: the first with room, from the narrowest claim on, else that of the largest rate.
    fn classify(&mut self, now: Time, packet: &Packet) -> Option<u32> {
        let Body::Data { source_port, destination_port, stream, .. } = packet.body else {
            return None;
        };
        let flow = || Flow {
            destination: packet.destination,
            source: Some(packet.source),
            protocol: packet.protocol,
            destination_port,
            source_port,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: packet.dscp,
        };
        // Packets of one stream may have different DSCPs.
        let stream = stream << DSCP_BITS | usize::from(packet.dscp);
        let (classes, demands) = self.reservations.classes_of(stream, flow);
        if let [] | [_] = classes {
            return classes.first().copied();
        }
        let mut largest: Option<(Rate, u32)> = None;
        for number in classes {
            let Some(demand) = demands.get(number) else { continue };
            if self.scheduler.has_room(now, *number, packet.length) {
                return Some(*number);
            }
            if largest.is_none_or(|(rate, _)| demand.rate > rate) {
                largest = Some((demand.rate, *number));
            }
        }
        largest.map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests;
