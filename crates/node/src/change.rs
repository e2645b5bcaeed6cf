//! Changes that a node reports of enforcement and of aggregates.

use serde::{Deserialize, Serialize};

/// Changes of a reservation's enforcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementChange {
    /// The kernel's state differed from the reservation.
    Unenforced,
    /// Traffic control was restored.
    EnforcedAgain,
}

/// Changes of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateChange {
    /// The rate has increased.
    Grown,
    /// The rate has decreased, because less is sufficient.
    Shrunk,
    /// The aggregate was released, because no flow needs it.
    Released,
    /// The core refused a higher rate.
    Refused,
    /// The core has withdrawn the reservation, or is silent.
    Failing,
    /// The aggregate was not restored in time; its flows have lost their reservations.
    Lost,
}
