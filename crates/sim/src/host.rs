//! One node of the network: its daemon while it runs, its forwarding plane, and its ports.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{
    Hop, InterfaceId, Interfaces, Markings, Outgoing, Route, RouteTable, Routes, Time,
};
use earmark_node::{Arrival, Border, E2E_IGNORE, HostUpdate, Interception, Node, NodeConfig};

use crate::connections::{Streams, TCP};
use crate::log::Loss;
use crate::packet::{Body, Packet};
use crate::packet_filter::{PacketFilter, Passage};
use crate::port::Ports;
use crate::processor::Processor;
use crate::rsvp_udp::RsvpOverUdp;

/// A host or router.
pub(crate) struct Host {
    pub(crate) config: NodeConfig,
    /// The engines; `None` while the daemon is dead.
    pub(crate) node: Option<Node>,
    /// Number of earlier daemons, so that each has random numbers of its own.
    pub(crate) generation: u32,
    /// Whether it forwards packets of others.
    pub(crate) forwards: bool,
    pub(crate) interfaces: Interfaces,
    /// Routes that a new daemon receives; the forwarding table is `routes`.
    pub(crate) route_list: Vec<Route>,
    pub(crate) routes: RouteTable,
    pub(crate) ports: Ports,
    /// Connections of the daemon.
    pub(crate) streams: Streams,
    /// Time of the next `Expire` in the event list, if any.
    pub(crate) expire_at: Option<Time>,
    pub(crate) rsvp_over_udp: RsvpOverUdp,
    /// The packet filter, if the node has one.
    pub(crate) filter: Option<Box<PacketFilter>>,
    /// Error number with which traffic control refuses every installation, if any.
    pub(crate) refuse: Option<u16>,
    /// The processor of the daemon, if its turns take time.
    pub(crate) processor: Option<Box<Processor>>,
}

/// Treatment of a packet that has arrived.
pub(crate) enum Verdict {
    /// The engines receive it; it is not forwarded.
    Signalling(Packet),
    /// The packet belongs to a connection of this host.
    Segment(Packet),
    /// A UDP socket of the daemon receives the packet.
    InsideUdp(Packet),
    /// The engines receive a copy; the packet has this treatment.
    Copied(Packet, Box<Verdict>),
    /// A reply is sent.
    Answered(Packet),
    /// The packet has reached its destination.
    Delivered(Packet),
    /// The packet is forwarded through this interface.
    Forward(InterfaceId, Packet),
    /// The packet is lost.
    Lost(Packet, Loss),
}

impl Host {
    /// Returns the protocol of a claim.
    pub(crate) fn protocol_of(&self, claim: ClaimId) -> Option<Protocol> {
        let owner = self.node.as_ref()?.ledger().owner(claim)?;
        Some(owner.protocol)
    }

    /// Creates a host with or without a daemon.
    pub(crate) fn new(config: NodeConfig, forwards: bool, daemon: bool) -> Host {
        Host {
            node: daemon.then(|| Node::new(config.clone())),
            config,
            generation: 0,
            forwards,
            interfaces: Interfaces::default(),
            route_list: Vec::new(),
            routes: RouteTable::new(),
            ports: Ports::default(),
            streams: Streams::default(),
            expire_at: None,
            rsvp_over_udp: RsvpOverUdp::Off,
            filter: None,
            refuse: None,
            processor: None,
        }
    }

    /// Returns the DSCPs of packets that leave through the interface of this name.
    pub(crate) fn markings(&self, interface: &str) -> Markings {
        self.config.borders.get(interface).map(Border::markings).unwrap_or_default()
    }

    /// Returns the name of the node.
    pub(crate) fn name(&self) -> &String {
        &self.config.name
    }

    pub(crate) fn add_route(&mut self, route: Route) {
        self.route_list.push(route);
        self.routes.insert(route);
    }

    pub(crate) fn remove_route(&mut self, route: &Route) {
        self.route_list.retain(|known| known != route);
        self.routes.remove(route);
    }

    /// Returns the result of interception. `here`: the packet is for this host.
    pub(crate) fn intercept(&self, packet: &Packet, here: bool) -> Interception {
        let (Some(node), Body::Signalling(payload)) = (&self.node, &packet.body) else {
            return Interception::Left;
        };
        node.interception(&Arrival {
            ip_protocol: packet.protocol,
            payload,
            router_alert: packet.router_alert,
            here,
            forwards: self.forwards,
        })
    }

    /// Returns the treatment of a unicast packet that has arrived at this node.
    pub(crate) fn receive(&mut self, now: Time, interface: InterfaceId, packet: Packet) -> Verdict {
        let mut here = self.interfaces.is_local(packet.destination);
        if here && let Some(filter) = &mut self.filter {
            here = !filter.redirects(now, &packet);
        }
        if here && self.message_in_udp(interface, &packet).is_some() {
            return Verdict::InsideUdp(packet);
        }
        if self.lacks_raw_socket(&packet) {
            return self.route_packet(now, interface, packet, here);
        }
        if here && packet.protocol == TCP {
            return Verdict::Segment(packet);
        }
        match self.intercept(&packet, here) {
            Interception::Taken => Verdict::Signalling(packet),
            Interception::Copied => {
                let then = self.route_packet(now, interface, packet.clone(), here);
                Verdict::Copied(packet, Box::new(then))
            }
            Interception::Left => self.route_packet(now, interface, packet, here),
        }
    }

    fn route_packet(
        &mut self,
        now: Time,
        arrival: InterfaceId,
        mut packet: Packet,
        here: bool,
    ) -> Verdict {
        if here {
            return match (&packet.body, packet.echo()) {
                // What no translation is for has no application at a router that filters packets.
                (Body::Data { .. }, _) if self.forwards && self.filter.is_some() => {
                    Verdict::Lost(packet, Loss::NobodyListens)
                }
                (Body::Data { .. }, _) => Verdict::Delivered(packet),
                (_, Some(reply)) => Verdict::Answered(reply),
                (_, None) => Verdict::Lost(packet, Loss::NobodyListens),
            };
        }
        if !self.forwards {
            return Verdict::Lost(packet, Loss::NotForwarding);
        }
        if packet.ttl <= 1 {
            return Verdict::Lost(packet, Loss::TimeToLive);
        }
        packet.ttl -= 1;
        // The signalling queue is for packets of the daemon; a protocol with an IP protocol of its own uses it by that.
        packet.from_daemon &=
            packet.protocol == E2E_IGNORE || self.has_own_ip_protocol(packet.protocol);
        if let Some(filter) = &mut self.filter {
            let passage = filter.pass(now, arrival, &mut packet);
            let outgoing = self.routes.lookup(packet.destination).map(|hop| hop.interface);
            let is_guarded = || outgoing.is_some_and(|outgoing| filter.guards(outgoing));
            if passage == Passage::Drop || passage == Passage::UnguardedOnly && is_guarded() {
                filter.dropped += 1;
                return Verdict::Lost(packet, Loss::PacketFilter);
            }
        }
        match self.routes.lookup(packet.destination) {
            Some(Hop { interface, .. }) => Verdict::Forward(interface, packet),
            None => Verdict::Lost(packet, Loss::NoRoute),
        }
    }

    /// Returns whether an IP protocol belongs to one of the node's engines alone.
    pub(crate) fn has_own_ip_protocol(&self, ip_protocol: u8) -> bool {
        self.config.engines.iter().any(|kind| kind.ip_protocol == Some(ip_protocol))
    }

    /// Returns the outgoing interface of a message of this node.
    pub(crate) fn outgoing(&self, out: &Outgoing) -> Option<InterfaceId> {
        out.interface.or_else(|| self.routes_to(out.destination))
    }

    /// Returns the interface towards `destination`.
    pub(crate) fn routes_to(&self, destination: IpAddr) -> Option<InterfaceId> {
        self.routes.lookup(destination).map(|hop| hop.interface)
    }

    /// Returns the source address for packets to `destination`.
    pub(crate) fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let hop = self.routes.lookup(destination)?;
        self.interfaces.by_id(hop.interface)?.address_like(destination)
    }

    /// Returns the initial updates for a daemon: interfaces, then routes.
    pub(crate) fn initial_updates(&self) -> Vec<HostUpdate> {
        let interfaces = self.interfaces.iter().cloned().map(HostUpdate::Interface);
        let unicast = self.route_list.iter().copied().map(HostUpdate::Route);
        let multicast = self.routes.multicast_routes().cloned().map(HostUpdate::MulticastRoute);
        interfaces.chain(unicast).chain(multicast).collect()
    }
}
