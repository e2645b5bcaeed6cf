//! Built-in methods of admission control, as settings name them.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::control::AdmissionControl;
use super::measured::{MeasuredSum, MeasurementBased};

/// A built-in method of admission control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionMethod {
    /// By parameters.
    #[default]
    Parameter,
    /// Controlled load by measurement.
    Measured(MeasuredSum),
}

impl AdmissionMethod {
    /// Returns the admission control of one link; `None` for that of a new link.
    pub fn control(self) -> Option<Box<dyn AdmissionControl>> {
        match self {
            AdmissionMethod::Parameter => None,
            AdmissionMethod::Measured(parameters) => {
                Some(Box::new(MeasurementBased::new(parameters)))
            }
        }
    }
}
