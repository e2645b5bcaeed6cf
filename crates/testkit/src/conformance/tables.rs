//! The tables around an engine under test, as a driver keeps them, and the text of reservations in traffic control.

use std::collections::BTreeMap;

use earmark_core::admission::{ClaimId, Ledger, LinkCapacity, Service};
use earmark_core::{
    Context, Effect, Effects, Engine, Flow, HostEvent, Input, Interface, Interfaces, Outgoing,
    Prefix, RouteTable, Routes, Time,
};

use super::topology::Links;
use super::words::{Fault, Words};

/// Interfaces, routes and ledger of a node under test that is one engine.
#[derive(Debug)]
pub struct Tables {
    /// Names of the topology.
    pub links: Links,
    /// Interfaces as they are now.
    pub interfaces: Interfaces,
    /// Routes as they are now.
    pub routes: RouteTable,
    /// Bandwidth of the links.
    pub ledger: Ledger,
    /// Numbers of the claims.
    claims: BTreeMap<ClaimId, usize>,
}

impl Tables {
    /// Creates the tables that a topology has at the start.
    pub fn new(links: Links) -> Tables {
        let mut tables = Tables {
            interfaces: Interfaces::default(),
            routes: RouteTable::new(),
            ledger: Ledger::new(),
            claims: BTreeMap::new(),
            links,
        };
        for link in tables.links.interfaces() {
            tables.interfaces.set(link.clone());
            let (bandwidth, reservable, mtu) = (link.bandwidth, link.reservable, link.mtu);
            tables.ledger.set_link(link.id, LinkCapacity { bandwidth, reservable, mtu });
            tables.ledger.set_overhead(link.id, link.overhead);
        }
        for route in &tables.links.routes {
            tables.routes.insert(*route);
        }
        for branches in &tables.links.branches {
            tables.routes.insert_multicast(branches.clone());
        }
        tables
    }

    /// Returns the context of the next input.
    pub fn context(&mut self) -> Context<'_> {
        Context { routes: &self.routes, interfaces: &self.interfaces, ledger: &mut self.ledger }
    }

    /// Passes an input to an engine, and then what the ledger has for it: released bandwidth for queued requests, and
    /// displaced claims.
    pub fn handle<N: Engine>(
        &mut self,
        engine: &mut N,
        now: Time,
        input: Input<'_, N::Command>,
    ) -> Effects<N::Event> {
        let mut out = Effects::<N::Event>::new();
        engine.handle(now, input, &mut self.context(), &mut out);
        while let Some((interface, owner)) = self.ledger.next_grantable() {
            let event = HostEvent::Grantable { interface, owner };
            engine.handle(now, Input::Host(event), &mut self.context(), &mut out);
        }
        while let Some(displaced) = self.ledger.next_displaced() {
            let event = HostEvent::Displaced(displaced);
            engine.handle(now, Input::Host(event), &mut self.context(), &mut out);
        }
        out
    }

    /// Changes the host as a line says: `route P on eth3 [via A]` (in place of all routes to the prefix), `no-route P`,
    /// `branches G ...`, `no-branches G [from S]`, `interface eth2 up` or `down`, `refuses claim 1 errno=28`.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn change(&mut self, mut words: Words<'_>) -> Result<HostEvent, Fault> {
        let event = match words.next("a change")? {
            "route" => {
                let route = self.links.read_route(&mut words)?;
                self.remove_routes(route.prefix);
                self.routes.insert(route);
                HostEvent::RouteChanged(route.prefix)
            }
            "no-route" => {
                let prefix = words.value("a prefix")?;
                self.remove_routes(prefix);
                HostEvent::RouteChanged(prefix)
            }
            "branches" => {
                let route = self.links.read_branches(&mut words)?;
                let (source, group) = (route.source, route.group);
                self.routes.insert_multicast(route);
                HostEvent::MulticastRouteChanged { source, group }
            }
            "no-branches" => {
                let (group, source) = (words.value("group")?, words.after("from")?);
                self.routes.remove_multicast(source, group);
                HostEvent::MulticastRouteChanged { source, group }
            }
            "interface" => {
                let interface = self.links.interface(words.next("interface")?)?.clone();
                let up = match words.next("up or down")? {
                    "up" => true,
                    "down" => false,
                    other => return Err(format!("an interface cannot be {other}")),
                };
                let id = interface.id;
                self.routes.set_interface_up(id, up);
                self.interfaces.set(Interface { up, ..interface });
                HostEvent::InterfaceChanged(id)
            }
            "refuses" => {
                let number: usize = words.after("claim")?.ok_or("`claim` is missing")?;
                let claim = self.claims.iter().find(|(_, known)| **known == number);
                let claim = claim.map(|(claim, _)| *claim);
                let claim = claim.ok_or_else(|| format!("there is no claim {number}"))?;
                let owner = self.ledger.owner(claim).ok_or("nobody has this claim")?;
                HostEvent::TrafficControlRefused { claim, owner, errno: words.key("errno")? }
            }
            other => return Err(format!("`{other}` is no change of the host")),
        };
        words.end()?;
        Ok(event)
    }

    fn remove_routes(&mut self, prefix: Prefix) {
        let old: Vec<_> = self.routes.iter().filter(|old| old.prefix == prefix).copied().collect();
        for old in &old {
            self.routes.remove(old);
        }
    }

    /// Returns the text of an effect on traffic control: a claim has the lowest number that is free when it appears,
    /// until it is removed. `None` for other effects.
    pub fn reservation<E>(&mut self, effect: &Effect<E>) -> Option<String> {
        match effect {
            Effect::Install(installation) => {
                let number = self.number(installation.claim);
                let link = self.links.name(installation.interface);
                let demand = &installation.demand;
                let service = match demand.service {
                    Service::ControlledLoad => "controlled load",
                    Service::Guaranteed => "guaranteed service",
                };
                let (rate, burst) = (demand.rate, demand.burst);
                let flow = flow_text(&installation.flow);
                Some(format!(
                    "install claim {number} on {link} for {flow}: {service} {rate} b={burst}"
                ))
            }
            Effect::AddFlow(claim, flow) => {
                Some(format!("add to claim {}: {}", self.number(*claim), flow_text(flow)))
            }
            Effect::RemoveFlow(claim, flow) => {
                Some(format!("take from claim {}: {}", self.number(*claim), flow_text(flow)))
            }
            Effect::Remove(claim, _) => {
                let number = self.number(*claim);
                self.claims.remove(claim);
                Some(format!("remove claim {number}"))
            }
            _ => None,
        }
    }

    /// Returns the first line of a sent message: `send eth2 KIND from A to B ttl=62 alert`. The interface is that of the
    /// routes where the node leaves it to them; the TTL is missing if the node is the source, because its choice of a
    /// TTL is no rule of a protocol.
    pub fn sent(&self, how: &Outgoing, kind: &str) -> String {
        let &Outgoing { interface, source, destination, ttl, .. } = how;
        let route = || self.routes.lookup(destination).map(|hop| hop.interface);
        let on = interface.or_else(route);
        let on = on.map(|id| format!("{} ", self.links.name(id))).unwrap_or_default();
        let own = self.interfaces.is_local(source);
        let ttl = if own { String::new() } else { format!(" ttl={ttl}") };
        let alert = if how.router_alert { " alert" } else { "" };
        format!("send {on}{kind} from {source} to {destination}{ttl}{alert}")
    }

    fn number(&mut self, claim: ClaimId) -> usize {
        let free = (1..).find(|number| !self.claims.values().any(|taken| taken == number));
        *self.claims.entry(claim).or_insert(free.unwrap_or_default())
    }
}

/// Returns the text of a flow: `10.0.1.9 port 5000 to 10.0.9.9 port 6000`, without what is open.
pub fn flow_text(flow: &Flow) -> String {
    let mut text = match (flow.source, flow.sources()) {
        (Some(_), Some(sources)) if flow.source_open != 0 => sources.to_string(),
        (source, _) => source.map_or_else(|| "any".into(), |source| source.to_string()),
    };
    if flow.source_port != 0 {
        text += &format!(" port {}", flow.source_port);
    }
    text += &match flow.destination_open {
        0 => format!(" to {}", flow.destination),
        _ => format!(" to {}", flow.destinations()),
    };
    if flow.destination_port != 0 {
        text += &format!(" port {}", flow.destination_port);
    }
    text
}
