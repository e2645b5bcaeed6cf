//! The contract of a scheduler, and its queues.

use alloc::collections::VecDeque;
use core::fmt::Debug;

use earmark_core::admission::Demand;
use earmark_core::{Rate, Time};

use crate::packet::Packet;

/// Limit of the queue of a reserved class, packets.
pub(super) const RESERVED_QUEUE: usize = 200;
/// Limit of the signalling queue, packets.
pub(super) const SIGNALLING_QUEUE: usize = 1_000;

/// Class of a packet at an egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketClass {
    /// The reserved class of this number.
    Reserved(u32),
    /// Messages of a daemon.
    Signalling,
    /// All others.
    BestEffort,
}

/// Result of [`Scheduler::next`].
#[derive(Debug)]
pub enum Next {
    /// This packet is transmitted now.
    Transmit(Packet),
    /// No packet may be sent before this time.
    Wait(Time),
    /// No packet waits.
    Idle,
}

/// How a scheduler shares a link among fluid streams, which have rates instead of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluidSharing {
    /// Reserved classes first, each up to its rate; best effort shares the rest in proportion to the inflow.
    ReservedFirst,
    /// All streams share in proportion to their inflow.
    Proportional,
}

/// The queues of one direction of a link.
///
/// Times that are passed in never decrease. [`next`](Scheduler::next) is only called while the link is free; the packet
/// that it returns then occupies the link for the time of its octets and the framing.
pub trait Scheduler: Debug {
    /// Creates the scheduler of a link with this bandwidth. `queue_packets` limits the best-effort queue.
    fn new(bandwidth: Rate, queue_packets: usize) -> Self
    where
        Self: Sized;

    /// Changes the bandwidth of the link.
    fn set_bandwidth(&mut self, now: Time, bandwidth: Rate);

    /// Adds a reserved class, or changes its demand.
    fn set_class(&mut self, now: Time, number: u32, demand: Demand);

    /// Removes a reserved class, if it exists. Its packets move to best effort, as far as there is room.
    fn remove_class(&mut self, now: Time, number: u32);

    /// Whether a packet of these IP octets that enters a reserved class now conforms to its rate, so that it does not
    /// wait for another packet of the class.
    fn has_room(&mut self, now: Time, number: u32, octets: u32) -> bool;

    /// Appends a packet to its queue; `false` if the queue is full. A reserved class that does not exist stands for
    /// best effort.
    fn enqueue(&mut self, now: Time, class: PacketClass, packet: Packet) -> bool;

    /// Whether a packet waits.
    fn has_packets(&self) -> bool;

    /// Removes the next packet, if one may be sent.
    fn next(&mut self, now: Time) -> Next;

    /// Returns how fluid streams share the link; `None` if this scheduler has no fluid model.
    fn fluid_sharing(&self) -> Option<FluidSharing>;
}

/// Moves the packets of a removed class into a queue, as far as there is room.
pub(super) fn append(queue: &mut VecDeque<Packet>, limit: usize, packets: VecDeque<Packet>) {
    let room = limit.saturating_sub(queue.len());
    queue.extend(packets.into_iter().take(room));
}

/// Appends a packet, if the queue is not full.
pub(super) fn push(queue: &mut VecDeque<Packet>, limit: usize, packet: Packet) -> bool {
    let fits = queue.len() < limit;
    if fits {
        queue.push_back(packet);
    }
    fits
}
