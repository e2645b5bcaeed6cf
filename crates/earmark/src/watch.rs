//! The watch over the host: interfaces and routes as the node shall see them, and what must be put right now and then.
//!
//! The kernel is never believed: now and then (`daemon.reconcile`) its routes and its traffic control are compared with what they
//! should be. Reservations that a dead daemon left behind are kept for one lifetime L, so that refreshes can claim them,
//! and are then taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use earmark_core::{Interface, InterfaceId, Rate, Time};
use earmark_linux::{Adopted, InterfaceState, Mirror, Reconciliation, TcError, Update};
use earmark_node::{HostUpdate, Input};
use tracing::{debug, info, warn};

use crate::config::{Config, InterfaceConfig};
use crate::driver::Driver;
use crate::enforcement::Enforcement;
use crate::system::{System, with_cause};

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
    /// Interfaces whose queues somebody else has taken over.
    taken: BTreeSet<InterfaceId>,
    enforcement: Enforcement,
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
    ) -> Result<Watch, TcError> {
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
            taken: BTreeSet::new(),
            enforcement: Enforcement::start(now, driver.kernel())?,
        };
        for update in initial {
            watch.apply(now, update, driver);
        }
        watch.adopt(now, adopted, driver);
        Ok(watch)
    }

    /// What tells of changes of traffic control by others.
    pub(crate) fn traffic_control(&self) -> BorrowedFd<'_> {
        self.enforcement.as_fd()
    }

    /// Takes in what others have changed of traffic control.
    pub(crate) fn follow_traffic_control(&mut self, now: Time, driver: &Driver<System>) {
        self.enforcement.follow(now, driver);
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
        if self.enforcement.next_deadline() <= now
            && let Some(found) = self.enforcement.look(now, driver)
        {
            self.follow_some_queues(now, &found, driver);
        }
    }

    /// When [`Watch::house_keeping`] is due.
    pub(crate) fn next_deadline(&self) -> Time {
        let deadlines = [self.grace_ends, self.enforcement.next_deadline()];
        deadlines.into_iter().fold(self.next_reconciliation, Time::min)
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
        for Adopted { interface, flow, rate, protocol } in adopted.iter().copied() {
            info!(interface = interface.0, ?flow, %rate, ?protocol, "adopted from an earlier daemon");
            let update = HostUpdate::Adopted { interface, flow, rate, protocol };
            driver.handle(now, Input::Host(update));
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
                self.enforcement.note(&found, None, driver);
                self.follow_queues(now, &found.foreign, driver);
            }
            Err(error) => warn!("cannot check traffic control: {}", with_cause(&error)),
        }
    }

    /// Tells the node of interfaces whose queues somebody else has taken over, where only some were compared: it is another
    /// comparison of all that finds them given back.
    fn follow_some_queues(
        &mut self,
        now: Time,
        found: &Reconciliation,
        driver: &mut Driver<System>,
    ) {
        let known = self.taken.iter().map(|id| (*id, String::new()));
        let foreign: Vec<_> = found.foreign.iter().cloned().chain(known).collect();
        self.follow_queues(now, &foreign, driver);
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
