//! Installing, changing and removing reservations.
//!
//! A claim holds resources (a class, a bucket, both or nothing) while it is installed, also while another claim on all
//! its flows is larger: it can take over at any time with a change of a single entry in the kernel.

use std::collections::BTreeSet;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, Installation, InterfaceId, Time};

use super::claim_resources::ClaimResources;
use super::claims::{Holder, RegisteredClaim};
use super::error::defer_to_reconciliation;
use super::flow_table::Tools;
use super::{ClassifierChoice, Installed, Statistics, TcError, TrafficControl, flow_table};

/// A flow on an interface.
type Key = (InterfaceId, Flow);

impl TrafficControl {
    /// Installs a reservation; an installed one is changed without packet loss, also to another flow or another
    /// interface (then without the flows that were added to it). Other claims on the flow stay, and its packets are
    /// served by the best.
    ///
    /// # Errors
    /// The previous state stays. [`TcError::UnknownLink`], [`TcError::PoolFull`], [`TcError::Unclassifiable`], or a
    /// refusal of the kernel.
    pub fn install(&mut self, installation: &Installation) -> Result<(), TcError> {
        self.install_for(None, installation, Time::ZERO)
    }

    /// Installs a reservation of a protocol, as [`install`](TrafficControl::install) does. The claim takes over an
    /// earlier daemon's entry of the same flow if that was of the same protocol, or is not larger than this claim. `now` is
    /// the time that [`installed_at`](TrafficControl::installed_at) returns.
    ///
    /// # Errors
    /// As for [`install`](TrafficControl::install).
    pub fn install_for(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
        now: Time,
    ) -> Result<(), TcError> {
        flow_table::check(&installation.flow)?;
        match self.try_install(protocol, installation, now) {
            // Another program has removed the qdisc or a class: build it again, once.
            Err(TcError::Netlink(e)) if e.is(libc::ENOENT) || e.is(libc::EINVAL) => {
                self.rebuild_link(installation.interface)?;
                self.try_install(protocol, installation, now)
            }
            outcome => outcome,
        }
    }

    /// Returns when a claim was installed on its link. Changes of its demand and of its flows keep the time.
    pub fn installed_at(&self, claim: ClaimId) -> Option<Time> {
        self.claims.get(&claim).map(|installed| installed.since)
    }

    /// Lets another flow use an installed reservation too. No error if it does already.
    ///
    /// # Errors
    /// [`TcError::UnknownClaim`], [`TcError::Unclassifiable`], or a refusal of the kernel.
    pub fn add_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TcError> {
        flow_table::check(&flow)?;
        let installed = self.claims.get(&claim).ok_or(TcError::UnknownClaim { claim })?;
        if installed.flows().any(|known| *known == flow) {
            return Ok(());
        }
        let is_first = installed.flow.is_none() && installed.added.is_empty();
        if !is_first && self.table.choice() != ClassifierChoice::U32 {
            self.share(claim)?;
        }
        let installed = self.claims.get(&claim).ok_or(TcError::UnknownClaim { claim })?;
        let (key, registered) = ((installed.interface, flow), installed.registered(claim));
        self.enter(key, registered)?;
        if let Some(installed) = self.claims.get_mut(&claim) {
            installed.added.insert(flow);
        }
        Ok(())
    }

    /// Stops a flow from using a reservation. No error if it did not.
    ///
    /// # Errors
    /// [`TcError::UnknownClaim`], or a refusal of the kernel; the flow is removed nevertheless.
    pub fn remove_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TcError> {
        let installed = self.claims.get_mut(&claim).ok_or(TcError::UnknownClaim { claim })?;
        let was_in =
            installed.added.remove(&flow) | installed.flow.take_if(|f| *f == flow).is_some();
        let (key, registered) = ((installed.interface, flow), installed.registered(claim));
        if !was_in {
            return Ok(());
        }
        self.regroup(key, Some(registered), None).and(self.unshare(claim))
    }

    /// Removes a reservation and all its flows. No error if the claim is not installed.
    ///
    /// # Errors
    /// The first refusal of the kernel; the claim is removed nevertheless, and [`TrafficControl::reconcile`] removes
    /// what the kernel kept of it.
    pub fn remove(&mut self, claim: ClaimId) -> Result<(), TcError> {
        self.faults.forget(claim);
        match self.claims.remove(&claim) {
            Some(installed) => self.release(claim, &installed),
            None => Ok(()),
        }
    }

    /// Does deferred work: resources without flows are unused at once, but their classes are parked here, some at a
    /// time, after the request that released them was answered. Costs nothing if there are none.
    ///
    /// # Errors
    /// The first refusal of the kernel; [`TrafficControl::reconcile`] repairs it.
    pub fn park_released(&mut self) -> Result<(), TcError> {
        let mut outcome = Ok(());
        for interface in std::mem::take(&mut self.unparked) {
            if let Some(link) = self.links.get_mut(&interface) {
                outcome = outcome.and(link.park_released(&mut self.netlink));
                if !link.has_parked_all() {
                    self.unparked.insert(interface);
                }
            }
        }
        outcome
    }

    fn try_install(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
        now: Time,
    ) -> Result<(), TcError> {
        let Installation { claim, interface, .. } = *installation;
        let before = self.claims.get(&claim).cloned();
        match before {
            Some(before) if before.interface == interface => self.change(&before, installation),
            before => {
                let placed = self.allocate(protocol, installation)?;
                self.claims.insert(claim, Installed { since: now, ..placed });
                // Moved from another interface: release what it had there.
                if let Some(before) = before {
                    defer_to_reconciliation(self.release(claim, &before));
                }
                Ok(())
            }
        }
    }

    /// Assigns resources to a new reservation: those of its adopted flow, else unused ones.
    fn allocate(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<Installed, TcError> {
        let Installation { claim, interface, flow, .. } = *installation;
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let wanted = link.guarantee(ClaimResources::default(), protocol, installation);
        let adopted = self.adopted.get(&(interface, flow)).copied();
        let adopted = adopted.filter(|a| a.yields_to(protocol, &wanted));
        let adopted = adopted.filter(|adopted| !link.is_claimed(adopted.resources));
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let resources = match adopted {
            Some(adopted) => adopted.resources,
            None => link.take(tools)?,
        };
        let before = link.state(resources);
        link.use_resources(resources, |usage| usage.claim = Some(claim));
        let placed = self.occupy(protocol, installation, resources);
        if placed.is_err()
            && let Some(link) = self.links.get_mut(&interface)
        {
            // Restore the previous state: adopted resources get their rate, unused ones return to the pool.
            let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
            link.use_resources(resources, |usage| usage.claim = None);
            match adopted {
                Some(_) => link.restore(tools, resources, before),
                None => defer_to_reconciliation(self.park(interface, resources, false)),
            }
        }
        placed
    }

    /// Configures resources with their rate and then enters its flow.
    fn occupy(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
        resources: ClaimResources,
    ) -> Result<Installed, TcError> {
        let Installation { claim, interface, flow, .. } = *installation;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let (guarantee, counters) = link.change(tools, resources, protocol, installation)?;
        let baseline = match counters {
            Some(counters) => counters,
            None => link.statistics(tools, resources)?.unwrap_or_default(),
        };
        let (added, earlier_counts) = (BTreeSet::new(), Statistics::default());
        let installed = Installed {
            interface,
            resources,
            guarantee,
            protocol,
            flow: Some(flow),
            added,
            baseline,
            earlier_counts,
            since: Time::ZERO,
        };
        self.enter((interface, flow), installed.registered(claim))?;
        Ok(installed)
    }

    /// Changes the guarantee of an installed claim, and its own flow.
    fn change(&mut self, before: &Installed, installation: &Installation) -> Result<(), TcError> {
        let Installation { claim, interface, flow, .. } = *installation;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let state = link.state(before.resources);
        let (guarantee, _) = link.change(tools, before.resources, before.protocol, installation)?;
        let after = Installed { guarantee, ..before.clone() };
        let changed = self.register_again(claim, before, &after).and_then(|()| {
            if after.flows().any(|known| *known == flow) {
                return Ok(());
            }
            let entered = self.enter((interface, flow), after.registered(claim));
            entered.inspect_err(|_| {
                defer_to_reconciliation(self.register_again(claim, &after, before));
            })
        });
        if let Err(error) = changed {
            let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
            if let Some(link) = self.links.get_mut(&interface) {
                link.restore(tools, before.resources, state);
            }
            return Err(error);
        }
        let Some(installed) = self.claims.get_mut(&claim) else { return Ok(()) };
        installed.guarantee = guarantee;
        installed.added.remove(&flow);
        if let Some(old) = installed.flow.replace(flow).filter(|old| *old != flow) {
            defer_to_reconciliation(self.regroup(
                (interface, old),
                Some(after.registered(claim)),
                None,
            ));
        }
        Ok(())
    }

    /// Registers a changed claim with all its flows again.
    fn register_again(
        &mut self,
        claim: ClaimId,
        before: &Installed,
        after: &Installed,
    ) -> Result<(), TcError> {
        let (old, new) = (before.registered(claim), after.registered(claim));
        if old == new {
            return Ok(());
        }
        let mut done: Vec<Key> = Vec::new();
        for &flow in before.flows() {
            let key = (before.interface, flow);
            if let Err(error) = self.regroup(key, Some(old), Some(new)) {
                for key in done {
                    defer_to_reconciliation(self.regroup(key, Some(new), Some(old)));
                }
                return Err(error);
            }
            done.push(key);
        }
        Ok(())
    }

    /// Assigns a bucket that several flows can share to a claim, unless it has one.
    fn share(&mut self, claim: ClaimId) -> Result<(), TcError> {
        let before = self.claims.get(&claim).cloned().ok_or(TcError::UnknownClaim { claim })?;
        if before.resources.bucket.is_some() {
            return Ok(());
        }
        let interface = before.interface;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let number = link.share(tools, before.guarantee)?;
        let bucket = ClaimResources { class: None, bucket: Some(number) };
        link.use_resources(bucket, |usage| usage.claim = Some(claim));
        let resources = ClaimResources { bucket: Some(number), ..before.resources };
        let after = Installed { resources, ..before.clone() };
        if let Err(error) = self.register_again(claim, &before, &after) {
            let link = self.links.get_mut(&interface);
            link.into_iter()
                .for_each(|link| link.use_resources(bucket, |usage| usage.claim = None));
            defer_to_reconciliation(self.park(interface, bucket, false));
            return Err(error);
        }
        if let Some(installed) = self.claims.get_mut(&claim) {
            installed.resources = resources;
        }
        Ok(())
    }

    /// Removes the shared bucket of a claim with one flow left: the claim is then of that flow alone.
    fn unshare(&mut self, claim: ClaimId) -> Result<(), TcError> {
        let Some(before) = self.claims.get(&claim) else { return Ok(()) };
        let is_alone = before.flows().count() == 1;
        let Some(number) = before.resources.bucket.filter(|_| is_alone) else { return Ok(()) };
        let (before, interface) = (before.clone(), before.interface);
        let counted = match before.resources.class {
            Some(_) => Statistics::default(),
            None => {
                self.table.bucket(interface, number)?.map(|b| b.statistics()).unwrap_or_default()
            }
        };
        let resources = ClaimResources { bucket: None, ..before.resources };
        let earlier_counts = counted.plus(before.earlier_counts);
        let after = Installed { resources, earlier_counts, ..before.clone() };
        self.register_again(claim, &before, &after)?;
        self.claims.insert(claim, after);
        let bucket = ClaimResources { class: None, bucket: Some(number) };
        if let Some(link) = self.links.get_mut(&interface) {
            link.use_resources(bucket, |usage| usage.claim = None);
        }
        self.park(interface, bucket, false)
    }

    /// Enters a flow with the resources of a claim. An earlier daemon's entry is taken over, if it yields.
    fn enter(&mut self, key: Key, registered: RegisteredClaim) -> Result<(), TcError> {
        let adopted = self.adopted.get(&key).copied();
        let adopted = adopted.filter(|a| a.yields_to(registered.protocol, &registered.guarantee));
        self.regroup(key, adopted.map(|adopted| adopted.registered()), Some(registered))?;
        match adopted {
            Some(adopted) => {
                self.adopted.remove(&key);
                self.leave_adopted(key.0, adopted.resources)
            }
            None => Ok(()),
        }
    }

    /// Changes the claims on a flow, and then the classifier's entry of it.
    ///
    /// # Errors
    /// A refusal of the kernel. Nothing is changed then, unless the flow has no claim any more.
    pub(super) fn regroup(
        &mut self,
        key: Key,
        out: Option<RegisteredClaim>,
        into: Option<RegisteredClaim>,
    ) -> Result<(), TcError> {
        let claims = self.flows.entry(key).or_default();
        let (before, best_before) = (claims.entry(), claims.own().copied());
        out.iter().for_each(|out| _ = claims.remove(out));
        into.iter().for_each(|into| claims.insert(*into));
        let (after, best_after) = (claims.entry(), claims.own().copied());
        let (interface, flow) = &key;
        let Some(after) = after else {
            self.flows.remove(&key);
            if before.is_none() {
                return Ok(());
            }
            self.kinds.leave(*interface, flow);
            return self.table.remove(*interface, flow);
        };
        if before == Some(after) {
            return Ok(());
        }
        let holder =
            |registered: Option<RegisteredClaim>| registered.map(|registered| registered.holder);
        let is_replaced = out.is_some()
            && holder(out) == holder(best_before)
            && holder(into) == holder(best_after);
        let continues = holder(best_before) == holder(best_after) || is_replaced;
        let written = if best_before.is_some() && continues {
            self.table.change(*interface, flow, &after)
        } else {
            self.keep_counts(key, best_before);
            self.table.set(*interface, flow, &after)
        };
        let written = written.and_then(|()| {
            if before.is_none() && self.kinds.enter(*interface, flow) {
                let kinds = self.kinds.of(*interface);
                return self.table.set_kinds(*interface, kinds);
            }
            Ok(())
        });
        written.inspect_err(|_| {
            let claims = self.flows.entry(key).or_default();
            into.iter().for_each(|into| _ = claims.remove(into));
            out.iter().for_each(|out| claims.insert(*out));
            if claims.is_empty() {
                self.flows.remove(&key);
            }
        })
    }

    /// Saves the counters of a flow's entry for a claim that is not its best any more.
    fn keep_counts(&mut self, (interface, flow): Key, best: Option<RegisteredClaim>) {
        let shaped = self.links.get(&interface).is_none_or(|l| l.plan.queues.are_shaped());
        let Some(RegisteredClaim { holder: Holder::Claim(claim), .. }) = best else { return };
        if let (false, Some(installed)) = (shaped, self.claims.get_mut(&claim)) {
            let counted = self.table.counters(interface, &flow).unwrap_or_default();
            installed.earlier_counts = counted.plus(installed.earlier_counts);
        }
    }

    /// Makes the resources that are not in use any more available.
    pub(super) fn park(
        &mut self,
        interface: InterfaceId,
        resources: ClaimResources,
        drains: bool,
    ) -> Result<(), TcError> {
        let Some(link) = self.links.get_mut(&interface) else {
            return Ok(());
        };
        if resources.class.is_some() {
            self.unparked.insert(interface);
        }
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        link.park(tools, resources, drains)
    }

    /// Releases what an installation held: its flows first, so that no packet reaches parked resources. Packets waiting
    /// in its class may leave, if its flow continues with another claim.
    fn release(&mut self, claim: ClaimId, installed: &Installed) -> Result<(), TcError> {
        let (interface, registered) = (installed.interface, installed.registered(claim));
        let (mut outcome, mut drains) = (Ok(()), false);
        for &flow in installed.flows() {
            let withdrawn = self.regroup((interface, flow), Some(registered), None);
            outcome = outcome.and(withdrawn);
            drains |= self.flows.contains_key(&(interface, flow));
        }
        if let Some(link) = self.links.get_mut(&interface) {
            link.use_resources(installed.resources, |usage| usage.claim = None);
        }
        outcome.and(self.park(interface, installed.resources, drains))
    }
}
