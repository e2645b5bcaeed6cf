//! Multicast: the members of groups, and the trees of packets to groups.
//!
//! A host joins a group and leaves it, as with IGMP or MLD. The first packet of a source at a router creates the tree
//! of that source: the shortest paths from the source to all members, pruned to the branches that lead to one. Each
//! router on it gets a forwarding entry, which is reported to its daemon. From then on the tree follows changes of
//! membership and failures of links. A group may have a shared tree instead: then all its sources use the links of one
//! tree, the shortest paths from its root.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, MulticastRoute, Routes};
use earmark_node::{HostUpdate, Interception};

use super::Network;
use crate::NodeId;
use crate::log::Loss;
use crate::packet::{Body, Packet};

/// Last hop to a node: the neighbour, its interface, and the node's own.
#[derive(Clone, Copy)]
struct LastHop {
    from: NodeId,
    leaving: InterfaceId,
    entering: InterfaceId,
}

/// One end of a link.
type End = (NodeId, InterfaceId);

impl Network {
    /// Delivers packets to `group` at a node from now on.
    pub fn join(&mut self, node: NodeId, group: IpAddr) {
        if self.groups.members.entry(group).or_default().insert(node) {
            self.update_trees();
        }
    }

    /// Stops the delivery of packets to `group` at a node.
    pub fn leave(&mut self, node: NodeId, group: IpAddr) {
        let members = self.groups.members.get_mut(&group);
        if members.is_some_and(|members| members.remove(&node)) {
            self.update_trees();
        }
    }

    /// Makes all sources of a group share the tree of shortest paths from `root` from now on, as with core-based trees
    /// or bidirectional PIM, instead of one tree each.
    pub fn share_tree(&mut self, group: IpAddr, root: NodeId) {
        self.groups.shared.insert(group, root);
        self.update_trees();
    }

    /// Handles an arriving packet to a group.
    pub(crate) fn arrive_for_group(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        packet: &Packet,
    ) {
        let (source, group) = (packet.source, packet.destination);
        let member = self.groups.has(node, group);
        if self.hosts[node.0].receives_in_udp(interface, packet, member) {
            return self.deliver_from_udp(node, interface, packet);
        }
        if self.hosts[node.0].forwards && self.groups.sources.insert((group, source)) {
            self.update_trees();
        }
        let host = &self.hosts[node.0];
        let signalling = matches!(packet.body, Body::Signalling(_));
        let intercepted = match host.intercept(packet, member && !host.forwards) {
            // A router that intercepts a message forwards it, to its own members too.
            Interception::Left if member && host.has_own_ip_protocol(packet.protocol) => {
                host.node.is_some()
            }
            interception => interception != Interception::Left,
        } && !host.lacks_raw_socket(packet);
        if signalling && intercepted {
            return self.deliver_to_engines(node, interface, packet);
        }
        if !host.forwards {
            match (member, signalling) {
                (true, true) => self.lose(node, packet, Loss::NobodyListens),
                (true, false) => self.deliver(node, packet),
                (false, _) => self.lose(node, packet, Loss::NotForwarding),
            }
            return;
        }
        let verdict = match host.routes.multicast(source, group) {
            None => Err(Loss::NoRoute),
            Some(branches) if branches.incoming.is_some_and(|expected| expected != interface) => {
                Err(Loss::WrongInterface)
            }
            Some(_) if packet.ttl <= 1 => Err(Loss::TimeToLive),
            Some(_) if host.filter.as_ref().is_some_and(|filter| filter.guards(interface)) => {
                Err(Loss::PacketFilter)
            }
            Some(branches) => Ok(branches.outgoing.to_vec()),
        };
        if member {
            self.deliver(node, packet);
        }
        match verdict {
            Err(loss) => self.lose(node, packet, loss),
            Ok(outgoing) => {
                for out in outgoing {
                    self.send(node, out, Packet { ttl: packet.ttl - 1, ..packet.clone() });
                }
            }
        }
    }

    /// Computes all trees again, and informs the nodes whose entries change.
    pub(crate) fn update_trees(&mut self) {
        let mut wanted: BTreeMap<NodeId, BTreeMap<(IpAddr, IpAddr), MulticastRoute>> =
            BTreeMap::new();
        for &(group, source) in &self.groups.sources {
            for (node, route) in self.tree(source, group) {
                wanted.entry(node).or_default().insert((group, source), route);
            }
        }
        for node in (0..self.hosts.len()).map(NodeId) {
            let entries = wanted.remove(&node).unwrap_or_default();
            let routes = &mut self.hosts[node.0].routes;
            let known = routes.multicast_routes().filter_map(|r| Some((r.group, r.source?)));
            let gone: Vec<_> = known.filter(|key| !entries.contains_key(key)).collect();
            for &(group, source) in &gone {
                routes.remove_multicast(Some(source), group);
            }
            let changed: Vec<_> = entries
                .into_values()
                .filter(|route| routes.insert_multicast(route.clone()))
                .collect();
            for (group, source) in gone {
                let update = HostUpdate::MulticastRouteGone { source: Some(source), group };
                self.inform(node, update);
            }
            for route in changed {
                self.inform(node, HostUpdate::MulticastRoute(route));
            }
        }
    }

    /// Returns the forwarding entries of the routers on a source's tree.
    fn tree(&self, source: IpAddr, group: IpAddr) -> BTreeMap<NodeId, MulticastRoute> {
        let mut entries = BTreeMap::new();
        let owner = self.hosts.iter().position(|host| host.interfaces.is_local(source));
        let (Some(root), Some(members)) = (owner.map(NodeId), self.groups.members.get(&group))
        else {
            return entries;
        };
        let shared = self.groups.shared.get(&group).map(|&root| self.links_of_tree(root));
        let usable = |end: &End| shared.as_ref().is_none_or(|links| links.contains(end));
        let reached = self.shortest_paths(root, usable);
        for &member in members {
            let mut at = member;
            while let Some(&LastHop { from, leaving, .. }) = reached.get(&at) {
                let entry = entries.entry(from).or_insert_with(|| MulticastRoute {
                    source: Some(source),
                    group,
                    incoming: reached.get(&from).map(|reached| reached.entering),
                    outgoing: Vec::new(),
                });
                entry.outgoing.push(leaving);
                at = from;
            }
        }
        // Hosts have no forwarding entries: they send by their unicast route to the group.
        entries.retain(|node, _| self.hosts[node.0].forwards);
        for entry in entries.values_mut() {
            entry.outgoing.sort_unstable();
            entry.outgoing.dedup();
        }
        entries
    }

    /// Returns both ends of each link on the shortest paths from `root` to the others.
    fn links_of_tree(&self, root: NodeId) -> BTreeSet<End> {
        let reached = self.shortest_paths(root, |_| true);
        let ends = reached
            .iter()
            .map(|(&node, reached)| [(node, reached.entering), (reached.from, reached.leaving)]);
        ends.flatten().collect()
    }

    /// Returns the last hop to each node but `root` from there over the fewest links that are up and whose sending end
    /// is `usable`; among paths of equal length the one through the node that is reached first, in the order of nodes
    /// and interfaces. Only routers forward.
    fn shortest_paths(
        &self,
        root: NodeId,
        usable: impl Fn(&End) -> bool,
    ) -> BTreeMap<NodeId, LastHop> {
        let mut reached = BTreeMap::new();
        let mut waiting = VecDeque::from([root]);
        while let Some(from) = waiting.pop_front() {
            if from != root && !self.hosts[from.0].forwards {
                continue;
            }
            for (leaving, port) in self.hosts[from.0].ports.iter() {
                let (to, entering) = port.peer;
                let known = to == root || reached.contains_key(&to);
                if port.up && !known && usable(&(from, leaving)) {
                    reached.insert(to, LastHop { from, leaving, entering });
                    waiting.push_back(to);
                }
            }
        }
        reached
    }
}
