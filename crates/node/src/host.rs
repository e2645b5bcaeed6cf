//! The host under a node: its interfaces, routes and traffic control, and who must know when they change.

use alloc::string::ToString;

use earmark_core::admission::LinkCapacity;
use earmark_core::{Effects, HostEvent, Interface, InterfaceId, Prefix, Rate, Time};

use crate::api::{Event, HostUpdate};
use crate::node::Node;

impl Node {
    pub(crate) fn host_changes(&mut self, now: Time, update: HostUpdate, out: &mut Effects<Event>) {
        match update {
            HostUpdate::Interface(interface) => {
                let id = interface.id;
                self.routes.set_interface_up(id, interface.up);
                if interface.takes_part() {
                    let capacity = LinkCapacity {
                        bandwidth: interface.bandwidth,
                        reservable: interface.reservable,
                        mtu: interface.mtu,
                    };
                    self.ledger.set_link(id, capacity);
                }
                let takes_part = interface.takes_part();
                if takes_part {
                    self.edges.enter(&interface.name, id, &mut self.ledger);
                }
                self.enter(interface);
                if !takes_part {
                    self.lose_link(now, id, ENODEV, out);
                    self.edges.leave(id);
                }
                self.tell(now, HostEvent::InterfaceChanged(id), out);
            }
            HostUpdate::InterfaceGone(id) => {
                let prefixes = self.routes.remove_interface(id);
                // As long as the interface is known, those behind it can be told; another way may lead to them.
                self.lose_link(now, id, ENODEV, out);
                self.remove_interface(id);
                self.edges.leave(id);
                self.tell(now, HostEvent::InterfaceChanged(id), out);
                for prefix in prefixes {
                    self.tell(now, HostEvent::RouteChanged(prefix), out);
                }
            }
            HostUpdate::QueuesTaken(id) => {
                let Some(interface) = self.interfaces.by_id(id).cloned() else { return };
                self.lose_link(now, id, EBUSY, out);
                let interface = Interface { reservable: Rate::ZERO, ..interface };
                self.host_changes(now, HostUpdate::Interface(interface), out);
            }
            HostUpdate::Route(route) => {
                if self.routes.insert(route) {
                    self.tell(now, HostEvent::RouteChanged(route.prefix), out);
                }
            }
            HostUpdate::RouteGone(route) => {
                if self.routes.remove(&route) {
                    self.tell(now, HostEvent::RouteChanged(route.prefix), out);
                }
            }
            HostUpdate::NextHops { prefix, several } => {
                self.routes.set_multipath(prefix, several);
                self.tell(now, HostEvent::RouteChanged(prefix), out);
            }
            HostUpdate::PolicyRules { ipv6, apply } => {
                self.routes.set_rules(ipv6, apply);
                self.tell(now, HostEvent::RouteChanged(Prefix::everything(ipv6)), out);
            }
            HostUpdate::FlowRoutes(prefix) => {
                self.routes.flows_changed(prefix);
                self.tell(now, HostEvent::RouteChanged(prefix), out);
            }
            HostUpdate::FlowAnswers(answers) => self.routes.add_recorded_answers(answers),
            HostUpdate::MulticastRoute(route) => {
                let (source, group) = (route.source, route.group);
                if self.routes.insert_multicast(route) {
                    self.tell(now, HostEvent::MulticastRouteChanged { source, group }, out);
                }
            }
            HostUpdate::MulticastRouteGone { source, group } => {
                if self.routes.remove_multicast(source, group) {
                    self.tell(now, HostEvent::MulticastRouteChanged { source, group }, out);
                }
            }
            HostUpdate::Lent { interface, rate } => self.ledger.set_aside(interface, rate),
            HostUpdate::TrafficControlRefused { claim, errno } => {
                if let Some(owner) = self.ledger.owner(claim) {
                    let event = HostEvent::TrafficControlRefused { claim, owner, errno };
                    self.tell_owner(now, owner, event, out);
                }
            }
            HostUpdate::Adopted { interface, flow, rate, protocol } => {
                if let Err(error) = self.ledger.adopt(interface, flow, rate, protocol) {
                    out.notify(Event::NotAdopted { interface, flow, reason: error.to_string() });
                }
            }
            HostUpdate::AdoptedGone { interface, flow } => {
                self.ledger.drop_adopted(interface, &flow);
            }
        }
    }

    /// Nothing can be reserved on a link any more: whoever holds something of it must know.
    pub(crate) fn lose_link(
        &mut self,
        now: Time,
        id: InterfaceId,
        errno: u16,
        out: &mut Effects<Event>,
    ) {
        for link in core::iter::once(id).chain(self.edges.lanes_of(id)) {
            for (claim, owner) in self.ledger.remove_link(link).claims {
                let event = HostEvent::TrafficControlRefused { claim, owner, errno };
                self.tell_owner(now, owner, event, out);
            }
        }
    }

    /// An interface is there, or has changed.
    fn enter(&mut self, interface: Interface) {
        let seen_by_rsvp = match self.without_rsvp.contains(&interface.name) {
            // As an interface that takes no part at all.
            true => {
                Interface { bandwidth: Rate::ZERO, reservable: Rate::ZERO, ..interface.clone() }
            }
            false => interface.clone(),
        };
        self.rsvp_interfaces.set(seen_by_rsvp);
        self.interfaces.set(interface);
    }
}

/// "No such device" and "device or resource busy", in the numbers of every Unix.
const ENODEV: u16 = 19;
const EBUSY: u16 = 16;
