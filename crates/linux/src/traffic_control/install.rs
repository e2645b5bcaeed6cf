//! Installing, changing and removing reservations.
//!
//! Two things are counted per place (a class, or a bucket): whether a claim holds it, and how many flows lead into it. It
//! goes back to the pool when neither is left. Adopted flows lead into places that no claim holds.

use std::collections::BTreeSet;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, Installation, InterfaceId};

use super::error::left_for_later;
use super::place::{Place, Tools};
use super::{Entry, Installed, Statistics, TcError, TrafficControl, flow_table};

impl TrafficControl {
    /// Puts a reservation into place; one that is in place is changed without losing a packet, also to another flow or
    /// another interface (then without the flows that were added to it). A flow that another claim has is taken from it.
    ///
    /// # Errors
    /// What was in place before still is. [`TcError::UnknownLink`], [`TcError::PoolFull`],
    /// [`TcError::Unclassifiable`], or what the kernel refused.
    pub fn install(&mut self, installation: &Installation) -> Result<(), TcError> {
        flow_table::check(&installation.flow)?;
        match self.try_install(installation) {
            // Somebody has removed the qdisc or a class: build it again, once.
            Err(TcError::Netlink(e)) if e.is(libc::ENOENT) || e.is(libc::EINVAL) => {
                self.rebuild_link(installation.interface)?;
                self.try_install(installation)
            }
            outcome => outcome,
        }
    }

    /// Lets another flow use an installed reservation too. No error where it does already.
    pub fn add_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TcError> {
        flow_table::check(&flow)?;
        let installed = self.claims.get(&claim).ok_or(TcError::UnknownClaim { claim })?;
        let (interface, place, own) = (installed.interface, installed.place, installed.flow);
        self.enter(interface, flow, place, claim)?;
        if let Some(installed) = self.claims.get_mut(&claim)
            && own != flow
        {
            installed.added.insert(flow);
        }
        Ok(())
    }

    /// Stops a flow from using a reservation. No error where it did not.
    pub fn remove_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TcError> {
        let installed = self.claims.get_mut(&claim).ok_or(TcError::UnknownClaim { claim })?;
        installed.added.remove(&flow);
        let interface = installed.interface;
        self.withdraw(interface, flow, claim)
    }

    /// Takes a reservation and all its flows out. A claim that is gone already is no error.
    ///
    /// # Errors
    /// What the kernel refused first; the claim is gone nevertheless, and [`TrafficControl::reconcile`] removes what
    /// the kernel kept of it.
    pub fn remove(&mut self, claim: ClaimId) -> Result<(), TcError> {
        match self.claims.remove(&claim) {
            Some(installed) => self.release(claim, &installed),
            None => Ok(()),
        }
    }

    /// Does what was put off: places whose last flow has gone are unused from then on, but their classes are parked here, some
    /// at a time, once whoever has released them was answered. Costs nothing where there are none.
    ///
    /// # Errors
    /// What the kernel refused first; [`TrafficControl::reconcile`] puts it right.
    pub fn tidy(&mut self) -> Result<(), TcError> {
        let mut outcome = Ok(());
        for interface in std::mem::take(&mut self.untidy) {
            if let Some(link) = self.links.get_mut(&interface) {
                outcome = outcome.and(link.tidy(&mut self.netlink));
            }
        }
        outcome
    }

    /// Gives up one adopted flow that nobody will claim. No error where there is none.
    pub fn drop_adopted(&mut self, interface: InterfaceId, flow: Flow) -> Result<(), TcError> {
        match self.flows.get(&(interface, flow)) {
            Some(&Entry { place, claim: None }) => self.forget(interface, flow, place),
            _ => Ok(()),
        }
    }

    /// Gives up every adopted flow that no installation has claimed; returns how many there were.
    ///
    /// # Errors
    /// What the kernel refused first; all are given up nevertheless, and [`TrafficControl::reconcile`] removes what the
    /// kernel kept of them.
    pub fn reap_adopted(&mut self) -> Result<u32, TcError> {
        let adopted = self.flows.iter().filter(|(_, entry)| entry.claim.is_none());
        let adopted: Vec<_> = adopted.map(|(&(on, flow), entry)| (on, flow, entry.place)).collect();
        let count = adopted.len() as u32; // the classifiers hold fewer
        let mut outcome = Ok(());
        for (interface, flow, place) in adopted {
            let forgotten = self.forget(interface, flow, place);
            outcome = outcome.and(forgotten);
        }
        outcome.map(|()| count)
    }

    fn try_install(&mut self, installation: &Installation) -> Result<(), TcError> {
        let Installation { claim, interface, flow, ref demand } = *installation;
        let before = self.claims.get(&claim).cloned();
        let Some(before) = before.as_ref().filter(|installed| installed.interface == interface)
        else {
            let placed = self.place(installation)?;
            self.claims.insert(claim, placed);
            // From another interface: what it had there is given back.
            if let Some(before) = before {
                left_for_later(self.release(claim, &before));
            }
            return Ok(());
        };
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let old_parameters = link.parameters(before.place);
        link.change(tools, before.place, link.parameters_for(demand))?;
        // Another flow; or its own, which was removed meanwhile or taken by another claim.
        let is_in = self.flows.get(&(interface, flow)).is_some_and(|e| e.claim == Some(claim));
        if before.flow != flow || !is_in {
            if let Err(error) = self.enter(interface, flow, before.place, claim) {
                let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
                if let (Some(link), Some(old)) = (self.links.get_mut(&interface), old_parameters) {
                    left_for_later(link.change(tools, before.place, old).map(drop));
                }
                return Err(error);
            }
            if let Some(installed) = self.claims.get_mut(&claim) {
                installed.flow = flow;
                installed.added.remove(&flow);
            }
            if before.flow != flow {
                left_for_later(self.withdraw(interface, before.flow, claim));
            }
        }
        Ok(())
    }

    /// Puts a new reservation into a place: the one its flow has been adopted with, else an unused one.
    fn place(&mut self, installation: &Installation) -> Result<Installed, TcError> {
        let Installation { interface, flow, .. } = *installation;
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let adopted = self.flows.get(&(interface, flow)).filter(|entry| entry.claim.is_none());
        let adopted = adopted.map(|entry| entry.place).filter(|&place| !link.usage(place).claimed);
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let place = match adopted {
            Some(place) => place,
            None => link.take(tools)?,
        };
        let before = link.parameters(place);
        link.usage(place).claimed = true;
        match self.occupy(installation, place) {
            Ok(baseline) => {
                Ok(Installed { interface, place, flow, added: BTreeSet::new(), baseline })
            }
            Err(error) => {
                // As it was: an adopted place to its rate, an unused one to the pool.
                let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
                if let Some(link) = self.links.get_mut(&interface) {
                    link.usage(place).claimed = false;
                    left_for_later(match (adopted, before) {
                        (Some(_), Some(before)) => link.change(tools, place, before).map(drop),
                        _ => self.park(interface, place),
                    });
                }
                Err(error)
            }
        }
    }

    /// Gives a place its rate and then its flow; returns its counters between the two.
    fn occupy(&mut self, installation: &Installation, place: Place) -> Result<Statistics, TcError> {
        let Installation { claim, interface, flow, ref demand } = *installation;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let counters = match link.change(tools, place, link.parameters_for(demand))? {
            Some(counters) => counters,
            None => link.statistics(tools, place)?,
        };
        self.enter(interface, flow, place, claim)?;
        Ok(counters)
    }

    /// Leads a flow into a place, for a claim.
    fn enter(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        place: Place,
        claim: ClaimId,
    ) -> Result<(), TcError> {
        self.table.set(interface, &flow, place.value())?;
        let old = self.flows.insert((interface, flow), Entry { place, claim: Some(claim) });
        self.link(interface)?.usage(place).flows += 1;
        if let Some(old) = old {
            left_for_later(self.leave(interface, old.place));
        }
        Ok(())
    }

    /// Takes a flow out that a claim has; one that it has not, or has no more, stays.
    fn withdraw(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        claim: ClaimId,
    ) -> Result<(), TcError> {
        match self.flows.get(&(interface, flow)) {
            Some(entry) if entry.claim == Some(claim) => {
                let place = entry.place;
                self.forget(interface, flow, place)
            }
            _ => Ok(()),
        }
    }

    /// Takes a flow out of the classifier and of our books, of these in any case.
    fn forget(&mut self, interface: InterfaceId, flow: Flow, place: Place) -> Result<(), TcError> {
        self.flows.remove(&(interface, flow));
        let outcome = self.table.remove(interface, &flow);
        outcome.and(self.leave(interface, place))
    }

    /// One flow less leads into a place.
    fn leave(&mut self, interface: InterfaceId, place: Place) -> Result<(), TcError> {
        let Some(link) = self.links.get_mut(&interface) else {
            return Ok(());
        };
        let usage = link.usage(place);
        usage.flows = usage.flows.saturating_sub(1);
        let idle = usage.flows == 0 && !usage.claimed;
        if idle { self.park(interface, place) } else { Ok(()) }
    }

    /// Makes a place unused that nobody uses.
    fn park(&mut self, interface: InterfaceId, place: Place) -> Result<(), TcError> {
        let Some(link) = self.links.get_mut(&interface) else {
            return Ok(());
        };
        self.untidy.insert(interface);
        link.park(&mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() }, place)
    }

    /// Gives back what an installation held: its flows first, so that no packet meets a parked place.
    fn release(&mut self, claim: ClaimId, installed: &Installed) -> Result<(), TcError> {
        let interface = installed.interface;
        let mut outcome = Ok(());
        for &flow in installed.added.iter().chain([&installed.flow]) {
            let withdrawn = self.withdraw(interface, flow, claim);
            outcome = outcome.and(withdrawn);
        }
        let Some(link) = self.links.get_mut(&interface) else {
            return outcome;
        };
        let usage = link.usage(installed.place);
        usage.claimed = false;
        let idle = usage.flows == 0;
        outcome.and(if idle { self.park(interface, installed.place) } else { Ok(()) })
    }
}
