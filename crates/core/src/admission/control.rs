//! Admission control of a link: decides how much a claim may have. The ledger does everything else.

use core::fmt;
use core::time::Duration;

use super::{Demand, Service};
use crate::{Rate, Time};

/// Bandwidth of a link, and what is held of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkLoad {
    /// Reservable bandwidth of the link.
    pub reservable: Rate,
    /// Sum of the rates of all claims and adopted flows on the link, with its overhead.
    pub held: Rate,
    /// Part of `held` that claims for controlled load hold; not counted for [`ParameterBased`], which needs only the sum.
    pub controlled: Rate,
    /// Rate that an offload may grant by itself.
    pub set_aside: Rate,
}

impl LinkLoad {
    /// Returns the reservable bandwidth neither held nor set aside.
    #[inline]
    pub fn free(&self) -> Rate {
        self.reservable.saturating_sub(self.held).saturating_sub(self.set_aside)
    }

    /// Replaces the demand of a claim, or of an adopted flow, which is new if `old`, and has gone if `new` is `None`.
    /// `by_service`: also in [`controlled`](LinkLoad::controlled).
    #[inline]
    pub(super) fn replace(&mut self, old: Option<&Demand>, new: Option<&Demand>, by_service: bool) {
        let rate = |demand: Option<&Demand>| demand.map_or(Rate::ZERO, |demand| demand.rate);
        // Never below zero, since `old` is part of the sum; never too large, since `new` was admitted.
        self.held = self.held - rate(old) + rate(new);
        if by_service {
            self.replace_controlled(old, new);
        }
    }

    /// Replaces the part of a demand in [`controlled`](LinkLoad::controlled).
    pub(super) fn replace_controlled(&mut self, old: Option<&Demand>, new: Option<&Demand>) {
        let rate = |demand: Option<&Demand>| match demand {
            Some(&Demand { service: Service::ControlledLoad, rate, .. }) => rate,
            _ => Rate::ZERO,
        };
        self.controlled = self.controlled - rate(old) + rate(new);
    }
}

/// Admission control of one link: the rule that grants or refuses a demand.
///
/// The ledger holds the claims and their sums ([`LinkLoad`]), the retry queue and adopted flows, and checks packet sizes.
/// For each demand that is new or grows, the ledger calls [`available`](AdmissionControl::available), grants the demand if its
/// rate is no larger, and then calls [`granted`](AdmissionControl::granted). A smaller demand is granted without a call.
/// Adopted flows, whose service is unknown, count as guaranteed service. Rates include the overhead of the link
/// ([`Ledger::set_overhead`](super::Ledger::set_overhead)), and so do those of the demands.
///
/// An implementation that measures returns the interval of samples from
/// [`sample_interval`](AdmissionControl::sample_interval); the driver then reports the traffic of the link's reservations to
/// [`Ledger::measured`](super::Ledger::measured).
pub trait AdmissionControl: fmt::Debug + Send {
    /// Returns the name for listings, in one word.
    fn name(&self) -> &'static str;

    /// Returns the largest rate that `demand` would be granted now. `old` is the demand in its place, which is part of
    /// `load` and ends with the grant; `None` for a new one. Changes nothing: preemption also calls this with a load as it
    /// would be without some claims.
    fn available(&self, load: &LinkLoad, old: Option<&Demand>, demand: &Demand) -> Rate;

    /// Returns the largest rate that a demand for `service` would be granted on the empty link.
    fn limit(&self, reservable: Rate, _service: Service) -> Rate {
        reservable
    }

    /// Notes a grant: `new` in place of `old`.
    fn granted(&mut self, _old: Option<&Demand>, _new: &Demand) {}

    /// Returns the interval between samples of the traffic; `None` if it is not measured.
    fn sample_interval(&self) -> Option<Duration> {
        None
    }

    /// Takes a sample: the count of octets that the reservations of the link have sent until `now`, with its overhead. A
    /// count below the one before has begun again, from anywhere.
    fn measured(&mut self, _octets: u64, _now: Time) {}

    /// Returns the measured load; `None` if nothing is measured, or not yet.
    fn measured_load(&self) -> Option<Rate> {
        None
    }
}

/// Admission by parameters, the default: the sum of the rates of all claims stays within the reservable bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterBased;

impl AdmissionControl for ParameterBased {
    fn name(&self) -> &'static str {
        "parameter"
    }

    /// Bandwidth that is held already is granted again even if the link has shrunk below it.
    #[inline]
    fn available(&self, load: &LinkLoad, old: Option<&Demand>, _demand: &Demand) -> Rate {
        load.free() + old.map_or(Rate::ZERO, |old| old.rate)
    }
}
