//! Enforcement of reservations: deviations of traffic control from the plan are reported as events.
//!
//! Netlink announces changes of traffic control by other programs at once; the queues of that link are then compared. The
//! kernel does not announce that a classifier was detached or a flow was removed from its maps, so that these are audited
//! each second, the flows in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_linux::{Changed, Deviation, Monitor, Reconciliation, TcError};
use earmark_node::{EnforcementChange, Event};
use tracing::{info, warn};

use crate::driver::Driver;
use crate::log::kind;
use crate::system::System;
use earmark_control::command::with_cause;

/// Interval between audits of the classifier and a part of the flows.
const EVERY: Duration = Duration::from_secs(1);
/// Time to collect changes by other programs before comparing the queues, because one change is usually followed by others.
const COLLECT: Duration = Duration::from_millis(200);

/// State of the supervision of enforcement.
pub(crate) struct Enforcement {
    monitor: Monitor,
    next_audit: Time,
    /// Links changed by other programs, to be compared at `compare_at`.
    changed: BTreeSet<InterfaceId>,
    compare_at: Option<Time>,
    /// Links on which nothing is enforced now, with the reason.
    failing: BTreeMap<InterfaceId, String>,
}

impl Enforcement {
    /// Starts the supervision.
    pub(crate) fn start(now: Time, system: &mut System) -> Result<Enforcement, TcError> {
        Ok(Enforcement {
            monitor: system.monitor()?,
            next_audit: now + EVERY,
            changed: BTreeSet::new(),
            compare_at: None,
            failing: BTreeMap::new(),
        })
    }

    /// Descriptor that is readable when other programs have changed traffic control.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }

    /// Reads the announced changes.
    pub(crate) fn follow(&mut self, now: Time, driver: &Driver<System>) {
        match self.monitor.changed() {
            Ok(Changed::Interfaces(changed)) => self.changed.extend(changed),
            Ok(Changed::Anything) => {
                self.changed.extend(driver.node().interfaces().iter().map(|i| i.id));
            }
            Err(error) => {
                warn!("announcements of traffic control: {}", with_cause(&error));
                self.changed.extend(driver.node().interfaces().iter().map(|i| i.id));
            }
        }
        self.compare_at = self.compare_at.or(Some(now + COLLECT));
    }

    /// Time by which [`Enforcement::look`] must be called.
    pub(crate) fn next_deadline(&self) -> Time {
        self.compare_at.map_or(self.next_audit, |at| at.min(self.next_audit))
    }

    /// Does the work that is due. Returns the result of the comparison of queues, if there was one.
    pub(crate) fn look(
        &mut self,
        now: Time,
        driver: &mut Driver<System>,
    ) -> Option<Reconciliation> {
        if self.next_audit <= now {
            self.next_audit = now + EVERY;
            match driver.kernel().audit() {
                Ok(deviations) => self.report(&deviations, driver),
                Err(error) => warn!("cannot check traffic control: {}", with_cause(&error)),
            }
        }
        if self.compare_at.is_none_or(|at| at > now) {
            return None;
        }
        self.compare_at = None;
        let changed = std::mem::take(&mut self.changed);
        match driver.kernel().reconcile_queues(&changed) {
            Ok(found) => {
                self.note(&found, Some(&changed), driver);
                Some(found)
            }
            Err(error) => {
                warn!("cannot repair traffic control: {}", with_cause(&error));
                None
            }
        }
    }

    /// Records the result of a comparison of some links, or of all.
    pub(crate) fn note(
        &mut self,
        found: &Reconciliation,
        links: Option<&BTreeSet<InterfaceId>>,
        driver: &mut Driver<System>,
    ) {
        self.report(&found.deviations, driver);
        for (interface, kind) in &found.foreign {
            let reason = format!("another program replaced the qdisc of the link ({kind:?})");
            if self.failing.insert(*interface, reason.clone()).is_none() {
                let change = EnforcementChange::Unenforced;
                report(driver, *interface, None, change, reason);
            }
        }
        let is_over = |id: &InterfaceId, _: &mut String| {
            links.is_none_or(|links| links.contains(id))
                && found.foreign.iter().all(|(other, _)| other != id)
        };
        for (interface, reason) in self.failing.extract_if(.., is_over).collect::<Vec<_>>() {
            if !found.gone.contains(&interface) {
                report(driver, interface, None, EnforcementChange::EnforcedAgain, reason);
            }
        }
    }

    /// Reports each deviation that was found and corrected as two events.
    fn report(&self, deviations: &[Deviation], driver: &mut Driver<System>) {
        for deviation in deviations {
            let flow = deviation.reservation.map(|(_, flow)| flow);
            let reason = deviation.fault.to_string();
            for change in [EnforcementChange::Unenforced, EnforcementChange::EnforcedAgain] {
                report(driver, deviation.interface, flow, change, reason.clone());
            }
        }
    }
}

/// Reports an event, counts it and logs it.
fn report(
    driver: &mut Driver<System>,
    interface: InterfaceId,
    flow: Option<earmark_core::Flow>,
    change: EnforcementChange,
    reason: String,
) {
    let known = driver.node().interfaces().by_id(interface);
    let name = known.map_or_else(|| format!("index {}", interface.0), |known| known.name.clone());
    let event = Event::Enforcement { change, interface: name.clone(), flow, reason };
    let text = crate::describe::event(&event, &name);
    match change {
        EnforcementChange::Unenforced => {
            driver.kernel().count_deviations(1, 0);
            warn!(kind = kind::RESERVATION_UNENFORCED.name, interface = name, "{text}");
        }
        EnforcementChange::EnforcedAgain => {
            driver.kernel().count_deviations(0, 1);
            info!(kind = kind::RESERVATION_ENFORCED_AGAIN.name, interface = name, "{text}");
        }
    }
    driver.report(event);
}
