//! Interfaces that vanish and appear again, as at the reload of a driver, or in a container that is moved.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use core::net::IpAddr;

use earmark_core::{Hop, Interface, InterfaceId, Route};
use earmark_node::HostUpdate;

use super::Network;
use crate::NodeId;
use crate::egress::{Egress, Reservations};
use crate::faults::Faults;
use crate::host::Host;
use crate::loss_law::LossLaws;
use crate::port::Port;
use crate::scheduler::Next;
use crate::signalling::SignallingCount;

impl Network {
    /// Removes an interface of a node with its addresses, routes and reservations in traffic control; the node is
    /// informed. Packets that wait there, or are on the way to it, are lost. Until the interface is
    /// [there again](Network::return_interface) the other end of the link is down. Changes of the link are kept.
    pub fn remove_interface(&mut self, node: NodeId, interface: InterfaceId) {
        let host = &mut self.hosts[node.0];
        let Some(port) = host.ports.get_mut(interface) else { return };
        let Some(removed) = host.interfaces.remove(interface) else { return };
        let peer = port.peer;
        port.removed = Some(removed);
        host.routes.remove_interface(interface);
        let is_through_it = |route: &mut Route| route.hop.interface == interface;
        port.connected = host
            .route_list
            .extract_if(.., is_through_it)
            .filter(|route| route.hop.gateway.is_none())
            .collect();
        self.clear_egress(node, interface);
        self.inform(node, HostUpdate::InterfaceGone(interface));
        self.follow_link_state([(node, interface), peer]);
    }

    /// Removes the reservations of an interface from traffic control, and the packets that wait there.
    pub(crate) fn clear_egress(&mut self, node: NodeId, interface: InterfaceId) {
        let Some(port) = self.hosts[node.0].ports.get_mut(interface) else { return };
        let _ = port.egress.change(self.now, Reservations::orphan);
        let _ = port.egress.change(self.now, Reservations::reap);
        let mut at = self.now;
        let mut dropped = Vec::new();
        loop {
            match port.egress.next(at) {
                Next::Transmit(packet) => dropped.push(packet),
                Next::Wait(until) if until > at => at = until,
                Next::Wait(_) | Next::Idle => break,
            }
        }
        dropped.iter().for_each(|packet| self.count_dropped(packet));
        self.declassify_all_fluids(node, interface);
    }

    /// Adds a removed interface again, and the route to its link; the node is informed. It has another index if it is
    /// `renumbered`, and another address if that is given. Returns the index; `None` if the interface is not removed.
    pub fn return_interface(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        renumbered: bool,
        address: Option<IpAddr>,
    ) -> Option<InterfaceId> {
        let port = self.hosts[node.0].ports.get_mut(interface)?;
        let mut returned = port.removed.take()?;
        let connected = mem::take(&mut port.connected);
        if renumbered {
            returned.id = self.renumber(node, interface);
        }
        if let Some(address) = address {
            returned.addresses = vec![address];
        }
        let (id, addresses) = (returned.id, returned.addresses.clone());
        let host = &mut self.hosts[node.0];
        let peer = host.ports.get(id)?.peer;
        host.interfaces.set(Interface { up: false, ..returned.clone() });
        self.follow_link_state([(node, id), peer]);
        self.plan_measurement(node, id);
        for route in connected {
            let hop = Hop { interface: id, source: addresses.first().copied(), ..route.hop };
            self.add_route(node, Route { hop, ..route });
        }
        Some(id)
    }

    /// Moves the end of a link to a new index at its node, and returns the index.
    fn renumber(&mut self, node: NodeId, interface: InterfaceId) -> InterfaceId {
        let Host { ports, filter, .. } = &mut self.hosts[node.0];
        let id = ports.next(0);
        if let Some(filter) = filter {
            filter.renumber(interface, id);
        }
        let Some(port) = ports.get_mut(interface) else { return interface };
        let (peer, fluid) = (port.peer, port.fluid);
        // The old index stays without an interface: no other one gets it.
        let unused = Port {
            peer,
            delay: port.delay,
            egress: Egress::new(port.egress.bandwidth(), 0),
            busy_until: self.now,
            planned: None,
            link_up: false,
            removed: None,
            connected: Vec::new(),
            up: false,
            faults: Faults::default(),
            loss_laws: LossLaws::default(),
            faulted: 0,
            signalling: SignallingCount::default(),
            random: port.random.clone(),
            fluid: None,
        };
        let moved = mem::replace(port, unused);
        ports.push(Port { planned: None, ..moved });
        if let Some(port) = self.hosts[peer.0.0].ports.get_mut(peer.1) {
            port.peer = (node, id);
        }
        if let Some(known) = fluid.and_then(|link| self.fluids.ports.get_mut(link as usize)) {
            *known = (node, id);
        }
        id
    }
}
