//! Admission by measurement: the measured sum of Jamin, Shenker and Danzig (*Comparison of Measurement-based Admission
//! Control Algorithms for Controlled-Load Service*, INFOCOM 1997).
//!
//! A demand for controlled load is admitted if the measured load and its token rate together are within a target share of
//! the reservable bandwidth. The load is measured in a time window of length T: it is the largest average over a sampling
//! period S in the window before. A larger average raises it at once. An admitted demand raises it by its token rate, and
//! restarts the window. So the load falls only after T without an admission.
//!
//! Three things differ from the paper, because a link here has guaranteed service and policed classes as well. Claims for
//! guaranteed service count with their reserved rate, whatever they send. The measured load counts up to the sum of the
//! token rates, which is known and which the classes enforce; so a link whose flows have gone is free at once, and before
//! the first window ends all claims count in full. And guaranteed service itself is admitted by parameters.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::control::{AdmissionControl, LinkLoad, ParameterBased};
use super::{Demand, Service};
use crate::{Rate, Time};

/// Parameters of the measured sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeasuredSum {
    /// Target share of the reservable bandwidth, 0 to 1.
    pub target: f64,
    /// Length of the window, T. The load falls no faster.
    pub window: Duration,
    /// Length of a sampling period, S. Shorter periods see shorter bursts, and give a higher load.
    pub sample: Duration,
}

impl Default for MeasuredSum {
    /// Returns 90 % of the bandwidth, and a window of 10 periods of one second.
    fn default() -> Self {
        let (window, sample) = (Duration::from_secs(10), Duration::from_secs(1));
        MeasuredSum { target: 0.9, window, sample }
    }
}

/// Admission of controlled load by measurement; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasurementBased {
    parameters: MeasuredSum,
    /// The load; `None` until the first window has ended.
    load: Option<Rate>,
    /// Largest average in the window so far.
    largest: Rate,
    /// Start of the window; `None` if it begins with the current sampling period.
    window_from: Option<Time>,
    /// Count of octets at the start of the sampling period.
    sample_from: Option<(u64, Time)>,
}

impl MeasurementBased {
    /// Creates a measurement that has seen nothing yet.
    pub fn new(parameters: MeasuredSum) -> MeasurementBased {
        let (load, window_from, sample_from) = (None, None, None);
        MeasurementBased { parameters, load, largest: Rate::ZERO, window_from, sample_from }
    }

    fn restart_window(&mut self) {
        (self.largest, self.window_from) = (Rate::ZERO, None);
    }
}

/// Returns the rate of a demand, if it is for `service`.
fn rate_for(demand: Option<&Demand>, service: Service) -> Rate {
    demand.filter(|demand| demand.service == service).map_or(Rate::ZERO, |demand| demand.rate)
}

impl AdmissionControl for MeasurementBased {
    fn name(&self) -> &'static str {
        "measured"
    }

    fn available(&self, load: &LinkLoad, old: Option<&Demand>, demand: &Demand) -> Rate {
        let [old_controlled, old_guaranteed] =
            [Service::ControlledLoad, Service::Guaranteed].map(|service| rate_for(old, service));
        if demand.service == Service::Guaranteed {
            // What was measured of the old demand is no guarantee.
            let rest = LinkLoad { held: load.held - old_controlled, ..*load };
            return ParameterBased.available(
                &rest,
                old.filter(|_| old_controlled == Rate::ZERO),
                demand,
            );
        }
        let limit = self.limit(load.reservable, demand.service);
        let measured = self.load.unwrap_or(Rate::MAX).min(load.controlled);
        let certain = load.held - load.controlled - old_guaranteed;
        let free =
            limit.saturating_sub(certain).saturating_sub(load.set_aside).saturating_sub(measured);
        // Bandwidth that is held already is granted again.
        let held = old_controlled + old_guaranteed;
        free.saturating_add(old_controlled).min(limit).max(held)
    }

    fn limit(&self, reservable: Rate, service: Service) -> Rate {
        match service {
            Service::ControlledLoad => reservable.share(self.parameters.target),
            Service::Guaranteed => reservable,
        }
    }

    fn granted(&mut self, old: Option<&Demand>, new: &Demand) {
        if new.service == Service::ControlledLoad {
            let more = new.rate.saturating_sub(rate_for(old, Service::ControlledLoad));
            self.load = self.load.map(|load| load.saturating_add(more));
            self.restart_window();
        }
    }

    fn sample_interval(&self) -> Option<Duration> {
        Some(self.parameters.sample)
    }

    fn measured(&mut self, octets: u64, now: Time) {
        let Some((before, since)) = self.sample_from.filter(|(before, _)| octets >= *before) else {
            self.sample_from = Some((octets, now));
            return self.restart_window();
        };
        let elapsed = now.since(since);
        if elapsed < self.parameters.sample || elapsed.is_zero() {
            return;
        }
        self.sample_from = Some((octets, now));
        let bits_nanos = u128::from(octets - before) * 8 * 1_000_000_000;
        let average = u64::try_from(bits_nanos / elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.largest = self.largest.max(Rate::from_bps(average));
        self.load = self.load.map(|load| load.max(self.largest));
        if now.since(*self.window_from.get_or_insert(since)) >= self.parameters.window {
            self.load = Some(self.largest);
            (self.largest, self.window_from) = (Rate::ZERO, Some(now));
        }
    }

    fn measured_load(&self) -> Option<Rate> {
        self.load
    }
}
