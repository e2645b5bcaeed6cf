//! Watch over the host: updates the node's view of interfaces and routes, and corrects deviations.
//!
//! The kernel's announcements are not relied upon: at intervals (`daemon.reconcile`) its routes and its traffic control are
//! compared with the intended state. Adopted reservations are kept for one lifetime L, so that refreshes can claim them, and
//! are then removed.

mod latest;
mod links;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use earmark_core::{Interface, InterfaceId, Rate, Time, Trust};
use earmark_linux::nftables::FilterReconciliation;
use earmark_linux::{
    Adopted, InterfaceName, InterfaceState, Mirror, Reconciliation, TcError, Update, interface,
};
use earmark_node::{HostUpdate, Input};
use tracing::{debug, error, info, warn};

use crate::config::Config;
use crate::driver::Driver;
use crate::enforcement::Enforcement;
use crate::log::kind;
use crate::protocols;
use crate::system::System;
use earmark_control::command::with_cause;
use latest::latest;
use links::{Links, Obstacle};

/// Interval between checks whether the kernel distributes flows differently.
const POLL: Duration = Duration::from_secs(1);

/// State of the watch over the host.
pub(crate) struct Watch {
    pub(crate) mirror: Mirror,
    links: Links,
    /// Adopted reservations, until `grace_ends`.
    adopted: Vec<Adopted>,
    grace_ends: Time,
    /// Lifetime L of RFC 2205 section 3.7.
    lifetime: Duration,
    /// Interval between reconciliations.
    every: Duration,
    next_reconciliation: Time,
    /// Time of the next check whether the kernel distributes flows differently, which it does not announce.
    next_poll: Time,
    /// Whether the kernel reports the next hops of IPv6 flows.
    tells_ipv6_hops: bool,
    /// Interfaces whose queues another program has taken over.
    taken: BTreeSet<InterfaceId>,
    enforcement: Enforcement,
}

impl Watch {
    /// Passes the initial state to the driver, and starts the watch.
    pub(crate) fn start(
        now: Time,
        config: &Config,
        mirror: Mirror,
        initial: Vec<Update>,
        adopted: Vec<Adopted>,
        driver: &mut Driver<System>,
    ) -> Result<Watch, TcError> {
        let mut watch = Watch {
            mirror,
            links: Links::new(&config.interfaces),
            adopted: Vec::new(),
            lifetime: protocols::lifetime(config),
            grace_ends: Time::MAX,
            every: config.reconcile,
            next_reconciliation: now + config.reconcile,
            next_poll: now,
            tells_ipv6_hops: true,
            taken: BTreeSet::new(),
            enforcement: Enforcement::start(now, driver.kernel())?,
        };
        for update in initial {
            watch.apply(now, update, driver);
        }
        for interface in &config.interfaces {
            watch.wait_for(&interface.name, driver);
        }
        watch.adopt(now, adopted, driver);
        Ok(watch)
    }

    /// Descriptor that is readable when other programs have changed traffic control.
    pub(crate) fn traffic_control(&self) -> BorrowedFd<'_> {
        self.enforcement.as_fd()
    }

    /// Reads the announced changes of traffic control by other programs.
    pub(crate) fn follow_traffic_control(&mut self, now: Time, driver: &Driver<System>) {
        self.enforcement.follow(now, driver);
    }

    /// Reads the kernel's announcements and passes them to the driver.
    pub(crate) fn follow_kernel(&mut self, now: Time, driver: &mut Driver<System>) {
        let mut updates = Vec::new();
        if let Err(error) = self.mirror.receive(|update| updates.push(update)) {
            warn!("the kernel's announcements: {}", with_cause(&error));
            // The next reconciliation, which is due at once, corrects what was missed.
            self.next_reconciliation = now;
        }
        for update in latest(updates) {
            self.apply(now, update, driver);
        }
    }

    /// Applies changed settings.
    pub(crate) fn reload(&mut self, now: Time, config: &Config, driver: &mut Driver<System>) {
        self.lifetime = protocols::lifetime(config);
        self.every = config.reconcile;
        self.next_reconciliation = self.next_reconciliation.min(now + self.every);
        let names: BTreeSet<&str> = config.interfaces.iter().map(|new| new.name.as_str()).collect();
        for gone in self.links.names_beside(&names) {
            self.remove(now, &gone, driver);
        }
        for new in &config.interfaces {
            if !self.links.set(new) {
                continue;
            }
            match state_of(driver.node().interfaces().by_name(&new.name)) {
                Some(state) => self.apply(now, Update::Interface(state), driver),
                None => self.wait_for(&new.name, driver),
            }
        }
    }

    /// Ends the part of an interface that the settings no longer name.
    fn remove(&mut self, now: Time, name: &str, driver: &mut Driver<System>) {
        if let Some(state) = state_of(driver.node().interfaces().by_name(name)) {
            info!(interface = %name, "the interface takes part no more; its reservations ended");
            self.stop_using(now, &state, driver);
        }
        self.links.remove(name);
        driver.set_unused_link(name, None);
    }

    /// Does the work that is due.
    pub(crate) fn house_keeping(&mut self, now: Time, driver: &mut Driver<System>) {
        if self.next_reconciliation <= now {
            self.next_reconciliation = now + self.every;
            self.compare(now, driver);
        }
        if self.grace_ends <= now {
            self.end_grace(now, driver);
        }
        while let Some(name) = self.links.take_due(now) {
            let link = self.links.get(&name).filter(|link| link.obstacle.is_some());
            if let Some(state) = link.and_then(|link| link.state.clone()) {
                self.apply(now, Update::Interface(state), driver);
            }
        }
        if self.enforcement.next_deadline() <= now
            && let Some(found) = self.enforcement.look(now, driver)
        {
            self.follow_some_queues(now, &found, driver);
        }
        if self.next_poll() <= now {
            self.next_poll = now + POLL;
            self.follow_flows(now, driver);
        }
    }

    /// Time of the next check of settings and buckets that distribute flows; never if no route has several next hops.
    fn next_poll(&self) -> Time {
        if self.mirror.flows_differ() { self.next_poll } else { Time::MAX }
    }

    /// Reads the settings and buckets that distribute flows, whose changes the kernel does not announce.
    fn follow_flows(&mut self, now: Time, driver: &mut Driver<System>) {
        let mut updates = Vec::new();
        if let Err(error) = self.mirror.poll(|update| updates.push(update)) {
            warn!("cannot read the hash policy: {}", with_cause(&error));
        }
        let tells = self.mirror.reports_ipv6_hops();
        if self.tells_ipv6_hops && !tells {
            warn!(
                "net.ipv6.fib_multipath_hash_policy = 3: the kernel does not tell by which next \
                 hop an IPv6 flow leaves, so \
                 that reservations may be made on another link\n  help: choose policy 1"
            );
        }
        self.tells_ipv6_hops = tells;
        for update in updates {
            self.apply(now, update, driver);
        }
    }

    /// Time by which [`Watch::house_keeping`] must be called.
    pub(crate) fn next_deadline(&self) -> Time {
        let retry = self.links.next_deadline().unwrap_or(Time::MAX);
        let deadlines =
            [self.grace_ends, retry, self.enforcement.next_deadline(), self.next_poll()];
        deadlines.into_iter().fold(self.next_reconciliation, Time::min)
    }

    fn apply(&mut self, now: Time, update: Update, driver: &mut Driver<System>) {
        let host = match update {
            Update::Interface(state) => return self.interface_is(now, state, driver),
            Update::InterfaceGone(id) => return self.interface_gone(now, id, driver),
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

    /// Handles a new or changed interface.
    fn interface_is(&mut self, now: Time, state: InterfaceState, driver: &mut Driver<System>) {
        let before = driver.node().interfaces().by_id(state.id);
        let was_up = before.is_some_and(|before| before.up);
        let old_name = before.filter(|before| before.name != state.name).map(|b| b.name.clone());
        if let Some(old_name) = &old_name {
            self.rename(now, old_name, &state, driver);
        }
        let was_used = old_name.is_none() && self.takes_part(&state.name);
        let adopted = self.take_over(now, &state, driver);
        if was_used && was_up != state.up {
            let (kind, now) = match state.up {
                true => (&kind::INTERFACE_UP, "up"),
                false => (&kind::INTERFACE_DOWN, "down, or without a carrier"),
            };
            info!(kind = kind.name, interface = %state.name, "the interface is {now}");
        }
        let row = self.links.get(&state.name).and_then(links::Link::unused_row);
        driver.set_unused_link(&state.name, row);
        driver.handle(now, Input::Host(HostUpdate::Interface(self.interface(state))));
        // The node adopts reservations only on interfaces that it knows.
        self.adopt(now, adopted, driver);
    }

    fn interface_gone(&mut self, now: Time, id: InterfaceId, driver: &mut Driver<System>) {
        driver.kernel().forget(id);
        self.taken.remove(&id);
        let name = driver.node().interfaces().by_id(id).map(|interface| interface.name.clone());
        driver.handle(now, Input::Host(HostUpdate::InterfaceGone(id)));
        if let Some(name) = name {
            self.links.leave(&name, id);
            if self.links.get(&name).is_some() {
                warn!(kind = kind::INTERFACE_ABSENT.name, interface = %name, "the interface was removed; its reservations ended");
            }
            self.wait_for(&name, driver);
        }
    }

    /// Handles a renamed interface, which no longer takes part by the settings of the old name.
    fn rename(
        &mut self,
        now: Time,
        old_name: &str,
        state: &InterfaceState,
        driver: &mut Driver<System>,
    ) {
        if self.links.get(old_name).is_none() {
            return;
        }
        warn!(kind = kind::INTERFACE_ABSENT.name, interface = %old_name, new_name = %state.name, "the interface was renamed; its \
            reservations ended");
        let old = InterfaceState { name: old_name.to_owned(), ..state.clone() };
        self.stop_using(now, &old, driver);
        self.links.leave(old_name, state.id);
        self.wait_for(old_name, driver);
    }

    /// Gives the queues of an interface back, and ends the reservations on it.
    fn stop_using(&mut self, now: Time, state: &InterfaceState, driver: &mut Driver<System>) {
        let unused = HostUpdate::Interface(Interface {
            bandwidth: Rate::ZERO,
            reservable: Rate::ZERO,
            ..self.interface(state.clone())
        });
        driver.handle(now, Input::Host(unused));
        if let Err(error) = driver.kernel().release(state.id) {
            warn!(interface = %state.name, "queues could not be removed: {}", with_cause(&error));
        }
        self.taken.remove(&state.id);
    }

    /// Logs and lists that a configured interface is absent.
    fn wait_for(&self, name: &str, driver: &mut Driver<System>) {
        let Some(link) = self.links.get(name) else { return };
        driver.set_unused_link(name, link.unused_row());
        if link.obstacle != Some(Obstacle::Absent) {
            return;
        }
        match interface::main_name(name) {
            Ok(Some(main)) if main != name => warn!(
                kind = kind::INTERFACE_ABSENT.name,
                interface = %name,
                "another name of {main}: settings are for the main names that `ip link` shows; \
                 waiting for {name}"
            ),
            _ => {
                warn!(kind = kind::INTERFACE_ABSENT.name, interface = %name, "no such interface: waiting for it");
            }
        }
    }

    /// Whether an interface of this name takes part now.
    fn takes_part(&self, name: &str) -> bool {
        self.links.get(name).is_some_and(|link| link.obstacle.is_none())
    }

    /// Converts an interface for the node: without bandwidth if the interface takes no part.
    fn interface(&self, state: InterfaceState) -> Interface {
        let link = self.links.get(&state.name).filter(|link| link.obstacle.is_none());
        let capacity = link.and_then(|link| link.capacity);
        Interface {
            id: state.id,
            name: state.name,
            addresses: state.addresses,
            mtu: state.mtu,
            up: state.up,
            bandwidth: capacity.map_or(Rate::ZERO, |capacity| capacity.bandwidth),
            reservable: capacity
                .filter(|_| !self.taken.contains(&state.id))
                .map_or(Rate::ZERO, |capacity| capacity.reservable),
            largest: link.and_then(|link| link.config.largest),
            overhead: link.map_or(0, |link| link.config.overhead),
            latency_us: link.map_or(0, |link| link.config.latency_us),
            trust: link.map_or(Trust::ACCESS, |link| link.config.trust.clone()),
        }
    }

    /// Takes over the queues of an interface that takes part and is new, or has changed settings. Returns the reservations that
    /// an earlier daemon left there.
    fn take_over(
        &mut self,
        now: Time,
        state: &InterfaceState,
        driver: &mut Driver<System>,
    ) -> Vec<Adopted> {
        let name = &state.name;
        let Some(link) = self.links.get_mut(name) else { return Vec::new() };
        link.state = Some(state.clone());
        let Some(capacity) = link.measure() else {
            if link.meets(Obstacle::NoSpeed) {
                error!(
                    kind = kind::INTERFACE_FAILED.name,
                    interface = %name,
                    "the driver reports no speed, so the interface is not used; set `bandwidth` \
                     in its [[interface]]"
                );
            }
            return Vec::new();
        };
        let kernel = driver.kernel();
        let is_known = kernel.knows(state.id);
        if is_known && !link.is_changed && link.capacity.is_none_or(|before| before == capacity) {
            // The queues were taken over at start, or nothing has changed.
            link.capacity = Some(capacity);
            link.obstacle = None;
            link.advise();
            return Vec::new();
        }
        if !is_known && now < link.not_before {
            if link.obstacle != Some(Obstacle::Failed) {
                if link.meets(Obstacle::Flapping) {
                    warn!(interface = %name, "the interface flaps: set up after a pause");
                }
                let at = link.not_before;
                self.links.try_again(name, at);
            }
            return Vec::new();
        }
        match kernel.use_interface(state.id, &link.config, capacity) {
            Ok(adopted) => {
                info!(kind = kind::INTERFACE_JOINED.name, interface = %name, bandwidth = %capacity.bandwidth, "takes part");
                if !is_known {
                    link.taken_over(now);
                }
                link.capacity = Some(capacity);
                (link.is_changed, link.obstacle) = (false, None);
                link.advise();
                adopted
            }
            // The previous state stays in force.
            Err(error) if is_known => {
                error!(kind = kind::INTERFACE_FAILED.name, interface = %name, "cannot change the interface: {error}");
                Vec::new()
            }
            Err(error) => {
                if link.meets(Obstacle::Failed) {
                    error!(kind = kind::INTERFACE_FAILED.name, interface = %name, "cannot set the interface up, will retry: {error}");
                }
                link.not_before = now + self.every;
                self.links.try_again(name, now + self.every);
                if let Err(error) = kernel.release(state.id) {
                    debug!(interface = %name, "cannot release the interface: {}", with_cause(&error));
                }
                Vec::new()
            }
        }
    }

    fn adopt(&mut self, now: Time, adopted: Vec<Adopted>, driver: &mut Driver<System>) {
        for Adopted { interface, flow, rate, protocol } in adopted.iter().copied() {
            debug!(interface = %InterfaceName(interface), ?flow, %rate, ?protocol, "adopted");
            let update = HostUpdate::Adopted { interface, flow, rate, protocol };
            driver.handle(now, Input::Host(update));
        }
        for interface in adopted.chunk_by(|a, b| a.interface == b.interface) {
            let (name, count) = (InterfaceName(interface[0].interface), interface.len());
            info!(interface = %name, count, "reservations of an earlier daemon are adopted");
        }
        if !adopted.is_empty() {
            self.grace_ends = now + self.lifetime;
            self.adopted.extend(adopted);
        }
    }

    /// Compares routes and traffic control with their intended state.
    fn compare(&mut self, now: Time, driver: &mut Driver<System>) {
        let mut updates = Vec::new();
        if let Err(error) = self.mirror.resync(|update| updates.push(update)) {
            warn!("cannot read interfaces and routes: {}", with_cause(&error));
        }
        for update in updates {
            self.apply(now, update, driver);
        }
        self.compare_speeds(now, driver);
        match driver.kernel().reconcile() {
            Ok(found) => {
                if found.removed + found.restored > 0 {
                    warn!(
                        target: "earmark::traffic-control", kind = kind::TRAFFIC_CONTROL_REPAIRED.name,
                        found.removed, found.restored, "traffic control was repaired"
                    );
                }
                self.enforcement.note(&found, None, driver);
                self.follow_queues(now, &found.foreign, driver);
            }
            Err(error) => warn!("cannot check traffic control: {}", with_cause(&error)),
        }
        match driver.kernel().packet_filter.reconcile() {
            Ok(found) if found == FilterReconciliation::default() => {}
            Ok(found) => warn!(
                target: "earmark::packet-filter",
                kind = kind::PACKET_FILTER_REPAIRED.name,
                found.was_absent, found.removed, found.restored, "the packet filter was repaired"
            ),
            Err(error) => warn!("cannot check the packet filter: {}", with_cause(&error)),
        }
    }

    /// Reports interfaces whose queues another program has taken over to the node, after a comparison of some links only. Whether
    /// queues were given back is found by the next comparison of all links.
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

    /// Reads the speeds of links without configured bandwidth again, because not every driver announces a change.
    fn compare_speeds(&mut self, now: Time, driver: &mut Driver<System>) {
        let by_speed = self.links.iter().filter(|link| link.config.bandwidth.is_none());
        let changed = by_speed.filter(|link| link.measure() != link.capacity);
        let changed: Vec<_> = changed.filter_map(|link| link.state.clone()).collect();
        for state in changed {
            self.apply(now, Update::Interface(state), driver);
        }
    }

    /// Reports interfaces whose queues another program has taken over or given back since the last comparison to the node.
    fn follow_queues(
        &mut self,
        now: Time,
        foreign: &[(InterfaceId, String)],
        driver: &mut Driver<System>,
    ) {
        for (id, qdisc) in foreign {
            if self.taken.insert(*id) {
                warn!(target: "earmark::traffic-control", kind = kind::QUEUES_TAKEN.name, interface = %InterfaceName(*id), qdisc, "another program replaced the queues");
                driver.handle(now, Input::Host(HostUpdate::QueuesTaken(*id)));
            }
        }
        let given_back: Vec<_> =
            self.taken.extract_if(.., |id| foreign.iter().all(|(other, _)| other != id)).collect();
        for id in given_back {
            let Some(interface) = driver.node().interfaces().by_id(id).cloned() else { continue };
            let link = self.links.get(&interface.name);
            let Some(capacity) = link.and_then(|link| link.capacity) else { continue };
            info!(target: "earmark::traffic-control", kind = kind::QUEUES_RESTORED.name, interface = %interface.name, "the queues are restored");
            let interface = Interface { reservable: capacity.reservable, ..interface };
            driver.handle(now, Input::Host(HostUpdate::Interface(interface)));
        }
    }

    /// Removes adopted reservations that nobody has claimed. The node ignores those that were claimed.
    fn end_grace(&mut self, now: Time, driver: &mut Driver<System>) {
        self.grace_ends = Time::MAX;
        driver
            .note_not_adopted(self.adopted.iter().map(|adopted| (adopted.interface, adopted.flow)));
        match driver.kernel().reap_adopted() {
            Ok(0) => {}
            Ok(count) => {
                info!(count, "unclaimed reservations of an earlier daemon are removed");
            }
            Err(error) => warn!("cannot remove unclaimed reservations: {}", with_cause(&error)),
        }
        for Adopted { interface, flow, .. } in std::mem::take(&mut self.adopted) {
            driver.handle(now, Input::Host(HostUpdate::AdoptedGone { interface, flow }));
        }
    }
}

/// The kernel's state of an interface that the node knows.
fn state_of(known: Option<&Interface>) -> Option<InterfaceState> {
    let Interface { id, name, addresses, mtu, up, .. } = known.cloned()?;
    Some(InterfaceState { id, name, addresses, mtu, up })
}
