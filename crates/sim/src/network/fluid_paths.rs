//! Paths of fluid streams through the network, and their classes on the links.

use alloc::vec::Vec;

use earmark_core::{Flow, InterfaceId};

use super::{Network, Scheduled};
use crate::NodeId;
use crate::fluid::plane::LinkNumber;
use crate::fluid::rate::FluidRate;

impl Network {
    /// Creates the channels of a stream without any, from its source as far as routes lead.
    pub(super) fn route_fluid(&mut self, number: u32) {
        let Some(stream) = self.fluids.stream(number) else { return };
        let flow = stream.flow;
        let (hops, arrives) = self.path_towards(stream.node, flow.destination);
        let led = |network: &mut Network, hop| {
            Some((network.link_of_fluid(hop)?, network.class_of_fluid(hop, &flow)))
        };
        let hops: Vec<_> = hops.into_iter().filter_map(|hop| led(self, hop)).collect();
        let alone = hops.iter().any(|(_, class)| class.is_some());
        self.fluids.enter(number, &hops, arrives, alone);
    }

    /// Returns the link number of a port in the plane.
    fn link_of_fluid(&mut self, (node, interface): (NodeId, InterfaceId)) -> Option<LinkNumber> {
        let port = self.hosts[node.0].ports.get_mut(interface)?;
        if port.fluid.is_none() {
            self.fluids.ports.push((node, interface));
            port.fluid = Some(self.fluids.plane.add_link(FluidRate::of(port.egress.bandwidth())));
        }
        port.fluid
    }

    /// Returns the class of a flow at a port, and its rate.
    fn class_of_fluid(&self, hop: (NodeId, InterfaceId), flow: &Flow) -> Option<(u32, FluidRate)> {
        let (class, rate) = self.hosts[hop.0.0].ports.get(hop.1)?.egress.class_for(flow)?;
        Some((class, FluidRate::of(rate)))
    }

    /// Records a change of routes or links; streams are routed again after all changes of this moment.
    pub(crate) fn mark_fluid_routes_stale(&mut self) {
        if !self.fluids.running.is_empty() && !self.fluids.routes_stale {
            self.fluids.routes_stale = true;
            self.enter(self.now, Scheduled::RerouteFluids);
        }
    }

    /// Moves streams whose paths have changed to the new ones.
    pub(crate) fn reroute_fluids(&mut self) {
        if !core::mem::take(&mut self.fluids.routes_stale) {
            return;
        }
        let mut moved = Vec::new();
        for &(destination, _, number) in &self.fluids.running {
            let Some(stream) = self.fluids.stream(number) else { continue };
            let (hops, arrives) = self.path_towards(stream.node, destination);
            if stream.routed && !self.fluids.goes(number, &hops, arrives) {
                moved.push((number, stream.rate));
            }
        }
        moved.sort_unstable();
        let now = self.now;
        for &(number, _) in &moved {
            self.fluids.set_rate(number, FluidRate::ZERO, now);
            self.fluids.leave(number);
        }
        for (number, rate) in moved {
            self.route_fluid(number);
            self.fluids.set_rate(number, rate, now);
        }
        self.fluids.settle(now);
    }

    /// Applies a change of a flow in traffic control of a port: the streams that it may concern move to their class,
    /// and the class has its new rate.
    pub(crate) fn classify_fluids(&mut self, node: NodeId, interface: InterfaceId, flow: &Flow) {
        let Some(link) = self.fluid_link(node, interface) else { return };
        if let Some((class, rate)) = self.class_of_fluid((node, interface), flow) {
            self.fluids.plane.set_class_rate(link, class, rate);
        }
        let candidates: Vec<u32> = if flow.is_range() || flow.destination_port == 0 {
            self.fluids.running.iter().map(|&(_, _, number)| number).collect()
        } else {
            let (to, port) = (flow.destination, flow.destination_port);
            let range = (to, port, 0)..=(to, port, u32::MAX);
            self.fluids.running.range(range).map(|&(_, _, number)| number).collect()
        };
        for number in candidates {
            self.classify_fluid(number, (node, interface));
        }
        self.fluids.settle(self.now);
    }

    /// Applies a change of a flow at all ports of a node, as [`Network::classify_fluids`] does at one.
    pub(crate) fn classify_fluids_everywhere(&mut self, node: NodeId, flow: &Flow) {
        if self.fluids.running.is_empty() {
            return;
        }
        let ports = self.hosts[node.0].ports.iter();
        let interfaces: Vec<InterfaceId> = ports.map(|(interface, _)| interface).collect();
        for interface in interfaces {
            self.classify_fluids(node, interface, flow);
        }
    }

    fn classify_fluid(&mut self, number: u32, hop: (NodeId, InterfaceId)) {
        let Some(link) = self.fluid_link(hop.0, hop.1) else { return };
        let Some(stream) = self.fluids.stream(number) else { return };
        let Some(channel) = self.fluids.channels(stream).find(|&c| self.fluids.is_at(c, link))
        else {
            return;
        };
        let class = self.class_of_fluid(hop, &stream.flow);
        let (alone, rate, now) = (stream.alone, stream.rate, self.now);
        match (alone, class) {
            (true, class) => {
                if let Some((class, rate)) = class {
                    self.fluids.plane.set_class_rate(link, class, rate);
                }
                self.fluids.plane.classify(channel, class);
            }
            (false, None) => {}
            (false, Some(_)) => {
                self.fluids.set_rate(number, FluidRate::ZERO, now);
                self.fluids.leave(number);
                self.route_fluid(number);
                self.fluids.set_rate(number, rate, now);
            }
        }
    }

    /// Applies the removal or change of a class at a port: its streams move to their new class.
    pub(crate) fn declassify_fluids(&mut self, node: NodeId, interface: InterfaceId, class: u32) {
        let Some(link) = self.fluid_link(node, interface) else { return };
        for (_, owner) in self.fluids.plane.channels_of(link, class) {
            self.classify_fluid(owner, (node, interface));
        }
        self.fluids.settle(self.now);
    }

    /// Applies the removal of all classes of a port.
    pub(crate) fn declassify_all_fluids(&mut self, node: NodeId, interface: InterfaceId) {
        let Some(link) = self.fluid_link(node, interface) else { return };
        for class in self.fluids.plane.classes_of(link) {
            self.declassify_fluids(node, interface, class);
        }
    }

    /// Applies a change of a port's bandwidth.
    pub(crate) fn set_fluid_bandwidth(&mut self, node: NodeId, interface: InterfaceId) {
        let port = self.hosts[node.0].ports.get(interface);
        if let Some((port, link)) = port.and_then(|port| Some((port, port.fluid?))) {
            self.fluids.plane.set_bandwidth(link, FluidRate::of(port.egress.bandwidth()));
            self.fluids.settle(self.now);
        }
    }

    fn fluid_link(&self, node: NodeId, interface: InterfaceId) -> Option<LinkNumber> {
        self.hosts[node.0].ports.get(interface)?.fluid
    }
}
