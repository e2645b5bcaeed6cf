//! The host of a node: interfaces, routes and traffic control, and notification of the engines about changes.

use alloc::boxed::Box;
use alloc::string::ToString;

use earmark_core::admission::{AdmissionControl, AdmissionMethod, LinkCapacity};
use earmark_core::{Effects, HostEvent, Interface, InterfaceId, Prefix, Rate, Time};

use crate::input::HostUpdate;
use crate::node::Node;
use crate::protocols::Event;

impl Node {
    pub(crate) fn update_host(&mut self, now: Time, update: HostUpdate, out: &mut Effects<Event>) {
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
                    let is_new = self.ledger.link(id).is_none();
                    self.ledger.set_link(id, capacity);
                    self.ledger.set_largest(id, interface.largest);
                    self.ledger.set_overhead(id, interface.overhead);
                    if is_new && let Some(control) = self.admission_of(&interface.name).control() {
                        self.ledger.set_admission(id, control);
                    }
                }
                let takes_part = interface.takes_part();
                if takes_part && let Some((_, edge)) = &mut self.edge {
                    edge.add_interface(&interface.name, id, &mut self.ledger);
                }
                self.set_interface(interface);
                if !takes_part {
                    self.lose_link(now, id, ENODEV, out);
                    self.remove_from_edge(id);
                }
                self.notify_engines(now, HostEvent::InterfaceChanged(id), out);
            }
            HostUpdate::InterfaceGone(id) => {
                let prefixes = self.routes.remove_interface(id);
                // Errors can be sent through the interface only while it is known; another route may lead to the
                // neighbors.
                self.lose_link(now, id, ENODEV, out);
                self.remove_interface(id);
                self.remove_from_edge(id);
                self.notify_engines(now, HostEvent::InterfaceChanged(id), out);
                for prefix in prefixes {
                    self.notify_engines(now, HostEvent::RouteChanged(prefix), out);
                }
            }
            HostUpdate::QueuesTaken(id) => {
                let Some(interface) = self.interfaces.by_id(id).cloned() else { return };
                self.lose_link(now, id, EBUSY, out);
                let interface = Interface { reservable: Rate::ZERO, ..interface };
                self.update_host(now, HostUpdate::Interface(interface), out);
            }
            HostUpdate::Route(route) => {
                if self.routes.insert(route) {
                    self.notify_engines(now, HostEvent::RouteChanged(route.prefix), out);
                }
            }
            HostUpdate::RouteGone(route) => {
                if self.routes.remove(&route) {
                    self.notify_engines(now, HostEvent::RouteChanged(route.prefix), out);
                }
            }
            HostUpdate::NextHops { prefix, several } => {
                self.routes.set_multipath(prefix, several);
                self.notify_engines(now, HostEvent::RouteChanged(prefix), out);
            }
            HostUpdate::PolicyRules { ipv6, apply } => {
                self.routes.set_rules(ipv6, apply);
                self.notify_engines(now, HostEvent::RouteChanged(Prefix::everything(ipv6)), out);
            }
            HostUpdate::FlowRoutes(prefix) => {
                self.routes.flows_changed(prefix);
                self.notify_engines(now, HostEvent::RouteChanged(prefix), out);
            }
            HostUpdate::FlowAnswers(answers) => self.routes.add_recorded_answers(answers),
            HostUpdate::MulticastRoute(route) => {
                let (source, group) = (route.source, route.group);
                if self.routes.insert_multicast(route) {
                    self.notify_engines(
                        now,
                        HostEvent::MulticastRouteChanged { source, group },
                        out,
                    );
                }
            }
            HostUpdate::MulticastRouteGone { source, group } => {
                if self.routes.remove_multicast(source, group) {
                    self.notify_engines(
                        now,
                        HostEvent::MulticastRouteChanged { source, group },
                        out,
                    );
                }
            }
            HostUpdate::Delegated { interface, rate } => self.ledger.set_aside(interface, rate),
            HostUpdate::Measured { interface, octets } => {
                self.ledger.measured(interface, octets, now);
            }
            HostUpdate::TrafficControlRefused { claim, errno } => {
                if let Some(owner) = self.ledger.owner(claim) {
                    let event = HostEvent::TrafficControlRefused { claim, owner, errno };
                    self.notify_owner(now, owner, event, out);
                }
            }
            HostUpdate::Adopted { interface, flow, rate, protocol } => {
                match self.ledger.adopt(interface, flow, rate, protocol) {
                    Ok(()) => match protocol {
                        Some(own) => self.notify_engine(now, own, HostEvent::Adopted, out),
                        None => self.notify_engines(now, HostEvent::Adopted, out),
                    },
                    Err(error) => {
                        let reason = error.to_string();
                        out.notify(Event::NotAdopted { interface, flow, reason });
                    }
                }
            }
            HostUpdate::AdoptedGone { interface, flow } => {
                self.ledger.drop_adopted(interface, &flow);
            }
            HostUpdate::Filter(event) => self.notify_engines(now, HostEvent::Filter(event), out),
        }
    }

    /// Removes a link from the ledger and notifies the owners of its claims.
    pub(crate) fn lose_link(
        &mut self,
        now: Time,
        id: InterfaceId,
        errno: u16,
        out: &mut Effects<Event>,
    ) {
        let lanes = self.edge().map(|edge| edge.lanes_behind(id)).unwrap_or_default();
        for link in core::iter::once(id).chain(lanes) {
            for (claim, owner) in self.ledger.remove_link(link).claims {
                let event = HostEvent::TrafficControlRefused { claim, owner, errno };
                self.notify_owner(now, owner, event, out);
            }
        }
    }

    fn remove_from_edge(&mut self, id: InterfaceId) {
        if let Some((_, edge)) = &mut self.edge {
            edge.remove_interface(id);
        }
    }

    /// Returns the method of admission control for the link of an interface.
    fn admission_of(&self, name: &str) -> AdmissionMethod {
        self.link_admission.get(name).copied().unwrap_or(self.admission)
    }

    /// Sets the admission control of a link, until its interface goes. A driver thereby adds a method of its own.
    pub fn set_admission(&mut self, interface: InterfaceId, control: Box<dyn AdmissionControl>) {
        self.ledger.set_admission(interface, control);
    }
}

/// Error numbers "no such device" and "device or resource busy" of Unix.
const ENODEV: u16 = 19;
const EBUSY: u16 = 16;
