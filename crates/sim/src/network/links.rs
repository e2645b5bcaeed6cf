//! Links: their addition, state, bandwidth, schedulers and faults.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Hop, Interface, InterfaceId, Prefix, Rate, Route, Time, Trust};
use earmark_node::HostUpdate;

use super::Network;
use crate::NodeId;
use crate::egress::Egress;
use crate::faults::Faults;
use crate::loss_law::{LossLaw, LossLaws};
use crate::packet::MTU;
use crate::port::Port;
use crate::scheduler::Scheduler;
use crate::signalling::SignallingCount;

/// One end of a new link.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    /// Node at this end.
    pub node: NodeId,
    /// Name of the interface, for example `eth0`.
    pub interface: String,
    /// Address of the interface.
    pub address: IpAddr,
}

/// A new link; both directions have the same properties.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Both ends.
    pub ends: [LinkEnd; 2],
    /// Address range of the link.
    pub prefix: Prefix,
    /// Bandwidth.
    pub bandwidth: Rate,
    /// Reservable bandwidth.
    pub reservable: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Limit of the best-effort queue, packets.
    pub queue_packets: u32,
}

impl Network {
    /// Connects two nodes; returns the interfaces at both ends. The nodes learn the interfaces and the routes to each
    /// other.
    pub fn add_link(&mut self, link: LinkSpec) -> [InterfaceId; 2] {
        let ids = [0, 1].map(|side: usize| {
            // Both ends may be at one node, which then needs two different indexes.
            let before = side == 1 && link.ends[0].node == link.ends[1].node;
            self.hosts[link.ends[side].node.0].ports.next(before.into())
        });
        let LinkSpec { ends, prefix, bandwidth, reservable, delay, queue_packets } = link;
        let nodes = [ends[0].node, ends[1].node];
        for (side, end) in ends.into_iter().enumerate() {
            let host = &mut self.hosts[end.node.0];
            let peer = (nodes[1 - side], ids[1 - side]);
            let mut egress = Egress::new(bandwidth, queue_packets);
            egress.set_markings(host.markings(&end.interface));
            let random = alloc::format!("faults {} {}", host.name(), ids[side].0);
            let port = Port {
                peer,
                delay,
                egress,
                busy_until: Time::ZERO,
                planned: None,
                link_up: true,
                removed: None,
                connected: Vec::new(),
                up: true,
                faults: Faults::default(),
                loss_laws: LossLaws::default(),
                faulted: 0,
                signalling: SignallingCount::default(),
                random: self.random.stream(&random),
                fluid: None,
            };
            host.ports.push(port);
            let interface = Interface {
                id: ids[side],
                name: end.interface,
                addresses: vec![end.address],
                mtu: MTU,
                up: true,
                bandwidth,
                reservable,
                largest: None,
                overhead: 0,
                latency_us: u32::try_from(delay.as_micros()).unwrap_or(u32::MAX),
                trust: Trust::CORE,
            };
            host.interfaces.set(interface.clone());
            self.inform(end.node, HostUpdate::Interface(interface));
            self.plan_measurement(end.node, ids[side]);
            let hop = Hop { interface: ids[side], gateway: None, source: Some(end.address) };
            self.add_route(end.node, Route { prefix, metric: 0, hop });
        }
        ids
    }

    /// Sets the link behind an interface up or down, at both ends. Packets on the link are lost.
    pub fn set_link_up(&mut self, node: NodeId, interface: InterfaceId, up: bool) {
        let Some(port) = self.hosts[node.0].ports.get(interface) else {
            return;
        };
        let ends = [(node, interface), port.peer];
        for (node, interface) in ends {
            if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
                port.link_up = up;
            }
        }
        self.follow_link_state(ends);
    }

    /// Informs both ends of a link of whether packets pass it: it has not failed, and both have their interfaces.
    pub(crate) fn follow_link_state(&mut self, ends: [(NodeId, InterfaceId); 2]) {
        let works = |(node, interface): (NodeId, InterfaceId)| {
            let port = self.hosts[node.0].ports.get(interface);
            port.is_some_and(|port| port.link_up && port.removed.is_none())
        };
        let up = ends.into_iter().all(works);
        for (node, interface) in ends {
            let host = &mut self.hosts[node.0];
            if let Some(port) = host.ports.get_mut(interface) {
                port.up = up;
            }
            host.routes.set_interface_up(interface, up);
            self.change_interface(node, interface, |changed| changed.up = up);
            self.serve(node, interface);
        }
        self.update_trees();
        self.mark_fluid_routes_stale();
    }

    /// Changes the bandwidth of one direction of a link, all of which may be reserved; the node is informed.
    pub fn set_bandwidth(&mut self, node: NodeId, interface: InterfaceId, bandwidth: Rate) {
        if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
            port.egress.set_bandwidth(self.now, bandwidth);
        }
        self.change_interface(node, interface, |changed| {
            (changed.bandwidth, changed.reservable) = (bandwidth, bandwidth);
        });
        self.set_fluid_bandwidth(node, interface);
    }

    /// Changes how much of one direction of a link may be reserved; the node is informed.
    pub fn set_reservable(&mut self, node: NodeId, interface: InterfaceId, reservable: Rate) {
        self.change_interface(node, interface, |changed| changed.reservable = reservable);
    }

    /// Changes how large one reservation of one direction of a link may be; the node is informed.
    pub fn set_largest(&mut self, node: NodeId, interface: InterfaceId, largest: Option<Rate>) {
        self.change_interface(node, interface, |changed| changed.largest = largest);
    }

    /// Sets the trust of a node in what is behind one of its interfaces; the node is informed.
    pub fn set_trust(&mut self, node: NodeId, interface: InterfaceId, trust: Trust) {
        self.change_interface(node, interface, |changed| changed.trust = trust);
    }

    /// Changes an interface of a node, if there is one; the node is informed, if the interface is not removed.
    fn change_interface(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        change: impl FnOnce(&mut Interface),
    ) {
        let host = &mut self.hosts[node.0];
        if let Some(mut changed) = host.interfaces.by_id(interface).cloned() {
            change(&mut changed);
            host.interfaces.set(changed.clone());
            self.inform(node, HostUpdate::Interface(changed));
        } else if let Some(removed) = host.ports.get_mut(interface).and_then(|p| p.removed.as_mut())
        {
            change(removed);
        }
    }

    /// Replaces the scheduler of both directions of the link behind an interface. Packets that wait there are lost.
    pub fn set_scheduler<S: Scheduler + 'static>(&mut self, node: NodeId, interface: InterfaceId) {
        let Some(peer) = self.hosts[node.0].ports.get(interface).map(|port| port.peer) else {
            return;
        };
        for (node, interface) in [(node, interface), peer] {
            if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
                port.egress.set_scheduler::<S>(self.now);
                if !port.egress.shares_fluid() {
                    self.without_fluid = Some((node, interface));
                }
            }
        }
    }

    /// Returns how many messages the faults of one direction of a link have lost, duplicated, damaged or delayed.
    pub fn faulted_messages(&self, node: NodeId, interface: InterfaceId) -> u64 {
        self.hosts[node.0].ports.get(interface).map_or(0, |port| port.faulted)
    }

    /// Sets the faults of both directions of the link behind an interface from now on. Messages in flight are not
    /// affected.
    pub fn set_faults(&mut self, node: NodeId, interface: InterfaceId, faults: Faults) {
        for (node, interface) in self.both_ends(node, interface) {
            if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
                port.faults = faults;
            }
        }
    }

    /// Adds a law by which both directions of the link behind an interface lose signalling messages from now on, whatever its
    /// faults do. Each direction begins in the initial state of the law, with a random stream of its own. The number names the
    /// law at this link; a law of the same number is replaced.
    pub fn add_loss_law(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        number: usize,
        law: &dyn LossLaw,
    ) {
        for (node, interface) in self.both_ends(node, interface) {
            let name =
                alloc::format!("losses {} {} {number}", self.hosts[node.0].name(), interface.0);
            let dice = self.random.stream(&name);
            if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
                port.loss_laws.add(number, law.begin(), dice);
            }
        }
    }

    /// Removes the loss law of this number from the link behind an interface.
    pub fn remove_loss_law(&mut self, node: NodeId, interface: InterfaceId, number: usize) {
        for (node, interface) in self.both_ends(node, interface) {
            if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
                port.loss_laws.remove(number);
            }
        }
    }

    /// Returns both ends of the link behind an interface.
    fn both_ends(
        &self,
        node: NodeId,
        interface: InterfaceId,
    ) -> impl Iterator<Item = (NodeId, InterfaceId)> + use<> {
        let peer = self.hosts[node.0].ports.get(interface).map(|port| port.peer);
        peer.into_iter().flat_map(move |peer| [(node, interface), peer])
    }
}
