//! The watch over the host: interfaces and routes as the node shall see them, and what must be put right now and then.
//!
//! The kernel is never believed: now and then (`daemon.reconcile`) its routes and its traffic control are compared with what they
//! should be. Reservations that a dead daemon left behind are kept for one lifetime L, so that refreshes can claim them,
//! and are then taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::{Interface, InterfaceId, Rate, Time};
use earmark_linux::{Adopted, InterfaceState, Mirror, Update};
use earmark_node::{HostUpdate, Input};
use tracing::{debug, info, warn};

use crate::config::{Config, InterfaceConfig};
use crate::driver::Driver;
use crate::system::{System, with_cause};

/// How often it is looked whether the kernel spreads flows otherwise than before.
const POLL: Duration = Duration::from_secs(1);

/// See the module's text.
pub(crate) struct Watch {
    pub(crate) mirror: Mirror,
    configured: BTreeMap<String, InterfaceConfig>,
    /// Reservations of a dead daemon, until `grace_ends`.
    adopted: Vec<Adopted>,
    grace_ends: Time,
    /// L of RFC 2205 section 3.7.
    lifetime: Duration,
    /// How often the kernel's state is compared with what it should be.
    every: Duration,
    next_reconciliation: Time,
    /// When it is looked next whether the kernel spreads flows otherwise, which it does not announce.
    next_poll: Time,
    /// Whether the kernel tells the next hops of IPv6 flows.
    tells_ipv6_hops: bool,
    /// Interfaces whose queues somebody else has taken over.
    taken: BTreeSet<InterfaceId>,
}

impl Watch {
    /// Tells the driver everything there is, and keeps watch from now on.
    pub(crate) fn start(
        now: Time,
        config: &Config,
        mirror: Mirror,
        initial: Vec<Update>,
        adopted: Vec<Adopted>,
        driver: &mut Driver<System>,
    ) -> Watch {
        let configured =
            config.interfaces.iter().map(|interface| (interface.name.clone(), interface.clone()));
        let mut watch = Watch {
            mirror,
            configured: configured.collect(),
            adopted: Vec::new(),
            lifetime: config.lifetime(),
            grace_ends: Time::MAX,
            every: config.reconcile,
            next_reconciliation: now + config.reconcile,
            next_poll: now,
            tells_ipv6_hops: true,
            taken: BTreeSet::new(),
        };
        for update in initial {
            watch.apply(now, update, driver);
        }
        watch.adopt(now, adopted, driver);
        watch
    }

    /// Takes in what the kernel announces.
    pub(crate) fn follow_kernel(&mut self, now: Time, driver: &mut Driver<System>) {
        let mut updates = Vec::new();
        if let Err(error) = self.mirror.receive(|update| updates.push(update)) {
            warn!("the kernel's announcements: {}", with_cause(&error));
            // Put right by the next comparison, which is due at once.
            self.next_reconciliation = now;
        }
        for update in updates {
            self.apply(now, update, driver);
        }
    }

    /// The settings are these from now on.
    pub(crate) fn renew(&mut self, now: Time, config: &Config, driver: &mut Driver<System>) {
        self.lifetime = config.lifetime();
        self.every = config.reconcile;
        self.next_reconciliation = self.next_reconciliation.min(now + self.every);
        for new in &config.interfaces {
            let old = self.configured.insert(new.name.clone(), new.clone());
            if old.as_ref().is_some_and(|old| old.says_the_same_as(new)) {
                continue;
            }
            let known = driver.node().interfaces().by_name(&new.name);
            let Some(Interface { id, name, addresses, mtu, up, .. }) = known.cloned() else {
                continue; // it will be as it should when it comes back
            };
            if old.is_some() {
                let kernel = driver.kernel();
                if let Err(error) = kernel.signal_through(id, new) {
                    warn!(interface = %name, "{}", with_cause(&error));
                }
                if let Err(error) = kernel.take_over(id, new) {
                    warn!(interface = %name, "{}", with_cause(&error));
                }
            }
            self.apply(
                now,
                Update::Interface(InterfaceState { id, name, addresses, mtu, up }),
                driver,
            );
        }
    }

    /// Does what is due by now.
    pub(crate) fn house_keeping(&mut self, now: Time, driver: &mut Driver<System>) {
        if self.next_reconciliation <= now {
            self.next_reconciliation = now + self.every;
            self.compare(now, driver);
        }
        if self.grace_ends <= now {
            self.end_grace(now, driver);
        }
        if self.next_poll() <= now {
            self.next_poll = now + POLL;
            self.follow_flows(now, driver);
        }
    }

    /// When the settings and buckets that spread flows are looked at next; never where no route has several next hops.
    fn next_poll(&self) -> Time {
        if self.mirror.flows_differ() { self.next_poll } else { Time::MAX }
    }

    /// Takes in what the kernel changes without announcing it.
    fn follow_flows(&mut self, now: Time, driver: &mut Driver<System>) {
        let mut updates = Vec::new();
        if let Err(error) = self.mirror.poll(|update| updates.push(update)) {
            warn!("cannot look how flows are spread: {}", with_cause(&error));
        }
        let tells = self.mirror.tells_ipv6_hops();
        if self.tells_ipv6_hops && !tells {
            warn!(
                "net.ipv6.fib_multipath_hash_policy = 3: the kernel does not tell by which next hop an IPv6 flow leaves, so \
                 that reservations may be made on another link\n  help: choose policy 1"
            );
        }
        self.tells_ipv6_hops = tells;
        for update in updates {
            self.apply(now, update, driver);
        }
    }

    /// When [`Watch::house_keeping`] is due.
    pub(crate) fn next_deadline(&self) -> Time {
        self.next_reconciliation.min(self.grace_ends).min(self.next_poll())
    }

    fn apply(&mut self, now: Time, update: Update, driver: &mut Driver<System>) {
        let host = match update {
            Update::Interface(state) => {
                let adopted = self.take_over(&state, driver);
                let known = HostUpdate::Interface(self.interface(state));
                driver.handle(now, Input::Host(known));
                // The node adopts on interfaces only that it knows.
                self.adopt(now, adopted, driver);
                return;
            }
            Update::InterfaceGone(id) => {
                driver.kernel().forget(id);
                self.taken.remove(&id);
                HostUpdate::InterfaceGone(id)
            }
            Update::Route(route) => HostUpdate::Route(route),
            Update::RouteGone(route) => HostUpdate::RouteGone(route),
            Update::NextHops { prefix, several } => HostUpdate::NextHops { prefix, several },
            Update::Rules { ipv6, apply } => HostUpdate::PolicyRules { ipv6, apply },
            Update::FlowRoutes(prefix) => HostUpdate::FlowRoutes(prefix),
            Update::MulticastRoute(route) => HostUpdate::MulticastRoute(route),
            Update::MulticastRouteGone { source, group } => {
                HostUpdate::MulticastRouteGone { source, group }
            }
            Update::Resynced => {
                debug!("interfaces and routes were compared with the kernel's");
                return;
            }
        };
        driver.handle(now, Input::Host(host));
    }

    /// The interface as the node shall see it: without bandwidth where it takes no part.
    fn interface(&self, state: InterfaceState) -> Interface {
        let config = self.configured.get(&state.name);
        Interface {
            id: state.id,
            name: state.name,
            addresses: state.addresses,
            mtu: state.mtu,
            up: state.up,
            bandwidth: config.map_or(Rate::ZERO, |config| config.bandwidth),
            reservable: config
                .filter(|_| !self.taken.contains(&state.id))
                .map_or(Rate::ZERO, |config| config.reservable),
            latency_us: config.map_or(0, |config| config.latency_us),
        }
    }

    /// Takes over the queues of an interface that takes part and has come (back) since the start; gives what an earlier
    /// daemon left there.
    fn take_over(&self, state: &InterfaceState, driver: &mut Driver<System>) -> Vec<Adopted> {
        let Some(config) = self.configured.get(&state.name) else {
            return Vec::new();
        };
        if driver.kernel_ref().knows(state.id) {
            return Vec::new();
        }
        info!(interface = %state.name, "takes part again");
        if let Err(error) = driver.kernel().signal_through(state.id, config) {
            warn!(interface = %state.name, "{}", with_cause(&error));
        }
        let adopted = driver.kernel().take_over(state.id, config);
        adopted.unwrap_or_else(|error| {
            warn!(interface = %state.name, "{}", with_cause(&error));
            Vec::new()
        })
    }

    fn adopt(&mut self, now: Time, adopted: Vec<Adopted>, driver: &mut Driver<System>) {
        for Adopted { interface, flow, rate } in adopted.iter().copied() {
            info!(interface = interface.0, ?flow, %rate, "adopted from an earlier daemon");
            driver.handle(now, Input::Host(HostUpdate::Adopted { interface, flow, rate }));
        }
        if !adopted.is_empty() {
            self.grace_ends = now + self.lifetime;
            self.adopted.extend(adopted);
        }
    }

    /// Compares routes and traffic control with what they should be.
    fn compare(&mut self, now: Time, driver: &mut Driver<System>) {
        let mut updates = Vec::new();
        if let Err(error) = self.mirror.resync(|update| updates.push(update)) {
            warn!("cannot read interfaces and routes: {}", with_cause(&error));
        }
        for update in updates {
            self.apply(now, update, driver);
        }
        match driver.kernel().reconcile() {
            Ok(found) => {
                if found.removed + found.restored > 0 {
                    warn!(found.removed, found.restored, "traffic control was put right");
                }
                self.follow_queues(now, &found.foreign, driver);
            }
            Err(error) => warn!("cannot check traffic control: {}", with_cause(&error)),
        }
    }

    /// Tells the node of interfaces whose queues somebody else has taken over since the last comparison, or given back.
    fn follow_queues(
        &mut self,
        now: Time,
        foreign: &[(InterfaceId, String)],
        driver: &mut Driver<System>,
    ) {
        for (id, kind) in foreign {
            if self.taken.insert(*id) {
                warn!(interface = id.0, kind, "somebody else has taken the queues over");
                driver.handle(now, Input::Host(HostUpdate::QueuesTaken(*id)));
            }
        }
        let given_back: Vec<_> =
            self.taken.extract_if(.., |id| foreign.iter().all(|(other, _)| other != id)).collect();
        for id in given_back {
            let Some(interface) = driver.node().interfaces().by_id(id).cloned() else { continue };
            let Some(config) = self.configured.get(&interface.name) else { continue };
            info!(interface = %interface.name, "the queues are ours again");
            let interface = Interface { reservable: config.reservable, ..interface };
            driver.handle(now, Input::Host(HostUpdate::Interface(interface)));
        }
    }

    /// Takes back what a dead daemon left and nobody has claimed. The node ignores those that were claimed.
    fn end_grace(&mut self, now: Time, driver: &mut Driver<System>) {
        self.grace_ends = Time::MAX;
        match driver.kernel().reap_adopted() {
            Ok(0) => {}
            Ok(count) => {
                info!(
                    count,
                    "reservations of an earlier daemon that nobody claimed are taken back"
                );
            }
            Err(error) => warn!("cannot take back unclaimed reservations: {}", with_cause(&error)),
        }
        for Adopted { interface, flow, .. } in std::mem::take(&mut self.adopted) {
            driver.handle(now, Input::Host(HostUpdate::AdoptedGone { interface, flow }));
        }
    }
}
