//! Receivers that answer by policy: a session to listen for, and what to ask for when a sender appears.

use core::time::Duration;

use earmark_core::Rate;
use earmark_rsvp::Application;
use earmark_wire::rsvp::Session;
use serde::{Deserialize, Serialize};

/// Answers every sender of a session with a reservation of its own (fixed filter), until the application is released
/// by [`earmark_rsvp::Command::Release`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listen {
    /// For which application.
    pub application: Application,
    /// Which session.
    pub session: Session,
    /// What to ask for.
    pub ask: Ask,
    /// Whether to ask for a confirmation.
    pub confirm: bool,
}

/// What a receiver asks for when a Path arrives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Controlled load for just what the sender announces.
    ControlledLoad,
    /// Controlled load at this token rate, whatever the sender announces.
    Rate(Rate),
    /// Guaranteed service with the R that keeps the queueing delay below this bound (RFC 2212).
    Delay(Duration),
}
