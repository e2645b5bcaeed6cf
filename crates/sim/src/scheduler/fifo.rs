//! First in, first out: one queue for all packets. Reservations have no effect.

use alloc::collections::VecDeque;

use earmark_core::admission::Demand;
use earmark_core::{Rate, Time};

use super::discipline::{FluidSharing, Next, PacketClass, Scheduler, push};
use crate::packet::Packet;

/// One queue for data and signalling, limited as the best-effort queue is.
#[derive(Debug)]
pub struct Fifo {
    limit: usize,
    queue: VecDeque<Packet>,
}

impl Scheduler for Fifo {
    fn new(_: Rate, queue_packets: usize) -> Fifo {
        Fifo { limit: queue_packets, queue: VecDeque::new() }
    }

    fn set_bandwidth(&mut self, _: Time, _: Rate) {}

    fn set_class(&mut self, _: Time, _: u32, _: Demand) {}

    fn remove_class(&mut self, _: Time, _: u32) {}

    fn has_room(&mut self, _: Time, _: u32, _: u32) -> bool {
        true
    }

    fn enqueue(&mut self, _: Time, _: PacketClass, packet: Packet) -> bool {
        push(&mut self.queue, self.limit, packet)
    }

    fn has_packets(&self) -> bool {
        !self.queue.is_empty()
    }

    fn next(&mut self, _: Time) -> Next {
        self.queue.pop_front().map_or(Next::Idle, Next::Transmit)
    }

    fn fluid_sharing(&self) -> Option<FluidSharing> {
        Some(FluidSharing::Proportional)
    }
}
