//! Admission control of the links, as a scenario names it.

use std::time::Duration;

use earmark_core::admission::{AdmissionMethod, MeasuredSum};
use serde::Deserialize;

use crate::value_syntax;

/// Admission control of all links: `"parameter"`, or `{ measured = { target = 0.9, window = "10s", sample = "1s" } }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// By parameters.
    #[default]
    Parameter,
    /// Controlled load by measurement.
    Measured(Measured),
}

/// Parameters of the measured sum ([`MeasuredSum`]).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Measured {
    /// Target share of the reservable bandwidth.
    pub target: f64,
    /// Length of the window.
    #[serde(deserialize_with = "value_syntax::time")]
    pub window: Duration,
    /// Length of a sampling period.
    #[serde(deserialize_with = "value_syntax::time")]
    pub sample: Duration,
}

impl Default for Measured {
    fn default() -> Measured {
        let MeasuredSum { target, window, sample } = MeasuredSum::default();
        Measured { target, window, sample }
    }
}

impl Admission {
    /// Returns the method of the nodes.
    pub(crate) fn method(self) -> AdmissionMethod {
        match self {
            Admission::Parameter => AdmissionMethod::Parameter,
            Admission::Measured(Measured { target, window, sample }) => {
                AdmissionMethod::Measured(MeasuredSum { target, window, sample })
            }
        }
    }
}
