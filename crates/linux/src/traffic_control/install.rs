//! Installing, changing and removing reservations.
//!
//! A claim holds a place (a class, a bucket, both or nothing) while it is installed, also while another claim on all
//! its flows is larger: it can take over at any time with a change of a single entry in the kernel.

use std::collections::BTreeSet;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, Installation, InterfaceId};

use super::claims::{Holder, Standing};
use super::error::left_for_later;
use super::flow_table::Tools;
use super::place::Place;
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
        self.install_for(None, installation)
    }

    /// Installs a reservation of a protocol, as [`install`](TrafficControl::install) does. The claim takes over an
    /// earlier daemon's entry of the same flow if that was of the same protocol, or is not larger than this claim.
    ///
    /// # Errors
    /// As for [`install`](TrafficControl::install).
    pub fn install_for(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(), TcError> {
        flow_table::check(&installation.flow)?;
        match self.try_install(protocol, installation) {
            // Another program has removed the qdisc or a class: build it again, once.
            Err(TcError::Netlink(e)) if e.is(libc::ENOENT) || e.is(libc::EINVAL) => {
                self.rebuild_link(installation.interface)?;
                self.try_install(protocol, installation)
            }
            outcome => outcome,
        }
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
        let (key, standing) = ((installed.interface, flow), installed.standing(claim));
        self.enter(key, standing)?;
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
        let (key, standing) = ((installed.interface, flow), installed.standing(claim));
        if !was_in {
            return Ok(());
        }
        self.regroup(key, Some(standing), None).and(self.unshare(claim))
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

    /// Does deferred work: places without flows are unused at once, but their classes are parked here, some at a time,
    /// after the request that released them was answered. Costs nothing if there are none.
    ///
    /// # Errors
    /// The first refusal of the kernel; [`TrafficControl::reconcile`] repairs it.
    pub fn tidy(&mut self) -> Result<(), TcError> {
        let mut outcome = Ok(());
        for interface in std::mem::take(&mut self.untidy) {
            if let Some(link) = self.links.get_mut(&interface) {
                outcome = outcome.and(link.tidy(&mut self.netlink));
                if !link.is_tidy() {
                    self.untidy.insert(interface);
                }
            }
        }
        outcome
    }

    fn try_install(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(), TcError> {
        let Installation { claim, interface, .. } = *installation;
        let before = self.claims.get(&claim).cloned();
        match before {
            Some(before) if before.interface == interface => self.change(&before, installation),
            before => {
                let placed = self.place(protocol, installation)?;
                self.claims.insert(claim, placed);
                // Moved from another interface: release what it had there.
                if let Some(before) = before {
                    left_for_later(self.release(claim, &before));
                }
                Ok(())
            }
        }
    }

    /// Assigns a place to a new reservation: the one of its adopted flow, else an unused one.
    fn place(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<Installed, TcError> {
        let Installation { claim, interface, flow, ref demand } = *installation;
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let wanted = link.guarantee(Place::default(), demand);
        let adopted = self.adopted.get(&(interface, flow)).copied();
        let adopted = adopted.filter(|a| a.yields_to(protocol, &wanted));
        let adopted = adopted.filter(|adopted| !link.is_claimed(adopted.place));
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let place = match adopted {
            Some(adopted) => adopted.place,
            None => link.take(tools)?,
        };
        let before = link.state(place);
        link.use_place(place, |usage| usage.claim = Some(claim));
        let placed = self.occupy(protocol, installation, place);
        if placed.is_err()
            && let Some(link) = self.links.get_mut(&interface)
        {
            // Restore the previous state: an adopted place gets its rate, an unused one returns to the pool.
            let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
            link.use_place(place, |usage| usage.claim = None);
            match adopted {
                Some(_) => link.restore(tools, place, before),
                None => left_for_later(self.park(interface, place, false)),
            }
        }
        placed
    }

    /// Configures a place with its rate and then enters its flow.
    fn occupy(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
        place: Place,
    ) -> Result<Installed, TcError> {
        let Installation { claim, interface, flow, ref demand } = *installation;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let (guarantee, counters) = link.change(tools, place, demand)?;
        let baseline = match counters {
            Some(counters) => counters,
            None => link.statistics(tools, place)?.unwrap_or_default(),
        };
        let (added, carried) = (BTreeSet::new(), Statistics::default());
        let installed = Installed {
            interface,
            place,
            guarantee,
            protocol,
            flow: Some(flow),
            added,
            baseline,
            carried,
        };
        self.enter((interface, flow), installed.standing(claim))?;
        Ok(installed)
    }

    /// Changes the guarantee of an installed claim, and its own flow.
    fn change(&mut self, before: &Installed, installation: &Installation) -> Result<(), TcError> {
        let Installation { claim, interface, flow, ref demand } = *installation;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let state = link.state(before.place);
        let (guarantee, _) = link.change(tools, before.place, demand)?;
        let after = Installed { guarantee, ..before.clone() };
        let changed = self.restand(claim, before, &after).and_then(|()| {
            if after.flows().any(|known| *known == flow) {
                return Ok(());
            }
            let entered = self.enter((interface, flow), after.standing(claim));
            entered.inspect_err(|_| left_for_later(self.restand(claim, &after, before)))
        });
        if let Err(error) = changed {
            let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
            if let Some(link) = self.links.get_mut(&interface) {
                link.restore(tools, before.place, state);
            }
            return Err(error);
        }
        let Some(installed) = self.claims.get_mut(&claim) else { return Ok(()) };
        installed.guarantee = guarantee;
        installed.added.remove(&flow);
        if let Some(old) = installed.flow.replace(flow).filter(|old| *old != flow) {
            left_for_later(self.regroup((interface, old), Some(after.standing(claim)), None));
        }
        Ok(())
    }

    /// Registers a changed claim with all its flows again.
    fn restand(
        &mut self,
        claim: ClaimId,
        before: &Installed,
        after: &Installed,
    ) -> Result<(), TcError> {
        let (old, new) = (before.standing(claim), after.standing(claim));
        if old == new {
            return Ok(());
        }
        let mut done: Vec<Key> = Vec::new();
        for &flow in before.flows() {
            let key = (before.interface, flow);
            if let Err(error) = self.regroup(key, Some(old), Some(new)) {
                for key in done {
                    left_for_later(self.regroup(key, Some(new), Some(old)));
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
        if before.place.bucket.is_some() {
            return Ok(());
        }
        let interface = before.interface;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let number = link.share(tools, before.guarantee)?;
        let bucket = Place { class: None, bucket: Some(number) };
        link.use_place(bucket, |usage| usage.claim = Some(claim));
        let place = Place { bucket: Some(number), ..before.place };
        let after = Installed { place, ..before.clone() };
        if let Err(error) = self.restand(claim, &before, &after) {
            let link = self.links.get_mut(&interface);
            link.into_iter().for_each(|link| link.use_place(bucket, |usage| usage.claim = None));
            left_for_later(self.park(interface, bucket, false));
            return Err(error);
        }
        if let Some(installed) = self.claims.get_mut(&claim) {
            installed.place = place;
        }
        Ok(())
    }

    /// Removes the shared bucket of a claim with one flow left: the claim is then of that flow alone.
    fn unshare(&mut self, claim: ClaimId) -> Result<(), TcError> {
        let Some(before) = self.claims.get(&claim) else { return Ok(()) };
        let is_alone = before.flows().count() == 1;
        let Some(number) = before.place.bucket.filter(|_| is_alone) else { return Ok(()) };
        let (before, interface) = (before.clone(), before.interface);
        let counted = match before.place.class {
            Some(_) => Statistics::default(),
            None => {
                self.table.bucket(interface, number)?.map(|b| b.statistics()).unwrap_or_default()
            }
        };
        let place = Place { bucket: None, ..before.place };
        let carried = counted.plus(before.carried);
        let after = Installed { place, carried, ..before.clone() };
        self.restand(claim, &before, &after)?;
        self.claims.insert(claim, after);
        let bucket = Place { class: None, bucket: Some(number) };
        if let Some(link) = self.links.get_mut(&interface) {
            link.use_place(bucket, |usage| usage.claim = None);
        }
        self.park(interface, bucket, false)
    }

    /// Enters a flow with the place of a claim. An earlier daemon's entry is taken over, if it yields.
    fn enter(&mut self, key: Key, standing: Standing) -> Result<(), TcError> {
        let adopted = self.adopted.get(&key).copied();
        let adopted = adopted.filter(|a| a.yields_to(standing.protocol, &standing.guarantee));
        self.regroup(key, adopted.map(|adopted| adopted.standing()), Some(standing))?;
        match adopted {
            Some(adopted) => {
                self.adopted.remove(&key);
                self.leave_adopted(key.0, adopted.place)
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
        out: Option<Standing>,
        into: Option<Standing>,
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
        let holder = |standing: Option<Standing>| standing.map(|standing| standing.holder);
        let is_replaced = out.is_some()
            && holder(out) == holder(best_before)
            && holder(into) == holder(best_after);
        let continues = holder(best_before) == holder(best_after) || is_replaced;
        let written = if best_before.is_some() && continues {
            self.table.change(*interface, flow, &after)
        } else {
            self.carry(key, best_before);
            self.table.set(*interface, flow, &after)
        };
        let written = written.and_then(|()| {
            if before.is_none() && self.kinds.enter(*interface, flow) {
                let kinds = self.kinds.of(*interface);
                return self.table.look_for(*interface, kinds);
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
    fn carry(&mut self, (interface, flow): Key, best: Option<Standing>) {
        let shaped = self.links.get(&interface).is_none_or(|l| l.plan.queues.are_shaped());
        let Some(Standing { holder: Holder::Claim(claim), .. }) = best else { return };
        if let (false, Some(installed)) = (shaped, self.claims.get_mut(&claim)) {
            let counted = self.table.counters(interface, &flow).unwrap_or_default();
            installed.carried = counted.plus(installed.carried);
        }
    }

    /// Makes the parts of a place that are not in use any more unused.
    pub(super) fn park(
        &mut self,
        interface: InterfaceId,
        place: Place,
        drains: bool,
    ) -> Result<(), TcError> {
        let Some(link) = self.links.get_mut(&interface) else {
            return Ok(());
        };
        if place.class.is_some() {
            self.untidy.insert(interface);
        }
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        link.park(tools, place, drains)
    }

    /// Releases what an installation held: its flows first, so that no packet reaches a parked place. Packets waiting
    /// in its class may leave, if its flow continues with another claim.
    fn release(&mut self, claim: ClaimId, installed: &Installed) -> Result<(), TcError> {
        let (interface, standing) = (installed.interface, installed.standing(claim));
        let (mut outcome, mut drains) = (Ok(()), false);
        for &flow in installed.flows() {
            let withdrawn = self.regroup((interface, flow), Some(standing), None);
            outcome = outcome.and(withdrawn);
            drains |= self.flows.contains_key(&(interface, flow));
        }
        if let Some(link) = self.links.get_mut(&interface) {
            link.use_place(installed.place, |usage| usage.claim = None);
        }
        outcome.and(self.park(interface, installed.place, drains))
    }
}
