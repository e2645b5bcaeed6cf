//! Sending: packets wait in the queues of an interface, and are transmitted one by one while the link is free.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{InterfaceId, Time};

use super::{Network, Scheduled};
use crate::NodeId;
use crate::log::{LogEvent, Loss};
use crate::message_hook::Direction;
use crate::packet::{Body, Packet};
use crate::scheduler::Next;

impl Network {
    /// Appends a packet to the queue of an interface.
    pub(crate) fn send(&mut self, node: NodeId, interface: InterfaceId, packet: Packet) {
        let now = self.now;
        let stream = match packet.body {
            Body::Data { stream, .. } => Some(stream),
            Body::Signalling(_) => None,
        };
        let loss = match self.hosts[node.0].ports.get_mut(interface) {
            Some(port) if port.up => {
                if port.egress.enqueue(now, packet) {
                    return self.serve(node, interface);
                }
                Loss::QueueFull
            }
            _ => Loss::NoRoute,
        };
        match stream {
            Some(stream) => self.streams[stream].dropped += 1,
            None => self.note(node, LogEvent::Lost(loss)),
        }
    }

    /// Starts the next transmission of an interface, if the link is free and a packet may be sent; else schedules the
    /// next attempt.
    pub(crate) fn serve(&mut self, node: NodeId, interface: InterfaceId) {
        let now = self.now;
        let Some(port) = self.hosts[node.0].ports.get_mut(interface) else {
            return;
        };
        if !port.up {
            return;
        }
        if now < port.busy_until {
            let free = port.busy_until;
            return self.plan(node, interface, free);
        }
        match port.egress.next(now) {
            Next::Transmit(packet) => {
                port.busy_until = now + port.egress.transmission_time(&packet);
                let free = port.busy_until;
                if port.egress.has_packets() {
                    self.plan(node, interface, free);
                }
                self.transmit(node, interface, packet);
            }
            Next::Wait(until) => self.plan(node, interface, until),
            Next::Idle => {}
        }
    }

    /// Schedules service of an interface by a time.
    fn plan(&mut self, node: NodeId, interface: InterfaceId, at: Time) {
        let Some(port) = self.hosts[node.0].ports.get_mut(interface) else {
            return;
        };
        if port.planned.is_none_or(|planned| at < planned) {
            port.planned = Some(at);
            self.enter(at, Scheduled::Port(node, interface));
        }
    }

    /// Puts a packet on the link, until the link is free again.
    fn transmit(&mut self, node: NodeId, interface: InterfaceId, mut packet: Packet) {
        self.capture_packet(node, interface, &packet);
        if !self.passes_hook((node, interface), Direction::Out, &mut packet) {
            return self.lose(node, &packet, Loss::Fault);
        }
        self.count_signalling(node, interface, &packet);
        let Some(port) = self.hosts[node.0].ports.get_mut(interface) else {
            return;
        };
        let (arrives, peer) = (port.busy_until + port.delay, port.peer);
        let is_lost = port.loss_laws.lose(&packet);
        let is_affected = port.faults.affects(&packet);
        if !is_lost && !is_affected {
            return self.enter(arrives, Scheduled::Arrive(peer.0, peer.1, packet));
        }
        let mut copies = match is_affected {
            true => port.faults.apply(&mut port.random, &packet),
            false => Vec::new(),
        };
        if is_lost {
            copies.clear();
        }
        let is_intact = |(delay, copy): &(_, Packet)| {
            *delay == Duration::ZERO && copy.damaged == packet.damaged
        };
        port.faulted += u64::from(copies.len() != 1 || !copies.iter().all(is_intact));
        if copies.is_empty() {
            self.note(node, LogEvent::Lost(Loss::Fault));
        }
        for (delay, copy) in copies {
            self.enter(arrives + delay, Scheduled::Arrive(peer.0, peer.1, copy));
        }
    }
}
