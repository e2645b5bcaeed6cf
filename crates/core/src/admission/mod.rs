//! One ledger of link capacity for all protocols.
//!
//! Every reservation of a node, whatever protocol asks for it, is a *claim* on an outgoing link, held in the one
//! [`Ledger`]. Admission is by parameters: a link may be claimed up to its reservable rate, and what a claim counts is
//! written in its [`Demand`]. A claim is granted whole or refused with what could have been granted; an increase that is
//! refused leaves the old grant, a decrease always works.
//!
//! Three things stand beside the claims. *Adopted* flows are those that the driver found in traffic control after a
//! restart: nobody claims them yet, but their bandwidth is held for them until the refreshes have brought their owners
//! back. The *retry queue* of a link keeps what was refused until enough is given back. And where
//! *preemption* is switched on, important claims displace less important ones (RFC 3181).

use serde::{Deserialize, Serialize};

use crate::Rate;

mod claims;
mod demand;
mod journal;
mod lanes;
mod ledger;
mod link;
mod links;
mod preemption;
mod queue;
#[cfg(test)]
mod tests;

pub use demand::{guaranteed_delay_us, guaranteed_rate};
pub use journal::Attempt;
pub use ledger::{Ledger, LostLink};
pub use link::{AdoptError, LinkCapacity, LinkStatus};
pub use preemption::{Displaced, PreemptionPolicy, Priority};
pub use queue::{Counting, Discipline, EnqueueError, LOOKAHEAD, RetryPolicy, Waiting};

/// Names a claim, in the ledger and in traffic control. Not reused soon: a slot number and a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimId {
    /// Slot in the ledger.
    pub slot: u32,
    /// How often the slot was used before.
    pub generation: u32,
}

/// The protocol and its state block that a claim belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Whose state.
    pub protocol: Protocol,
    /// Which block of it.
    pub block: u32,
}

/// The protocols that can hold claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// RFC 2205.
    Rsvp,
    /// Pan and Schulzrinne, *Lightweight Resource Reservation Signaling*.
    Yessir,
    /// One loop of one message for both directions.
    Boomerang,
    /// QoS NSLP (RFC 5974).
    Nsis,
}

/// The service that is wanted, and with it the rule of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Service {
    /// RFC 2211: admitted while the sum of token rates fits.
    ControlledLoad,
    /// RFC 2212: admitted while the sum of reserved rates R fits.
    Guaranteed,
}

/// What is wanted of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// By which rule.
    pub service: Service,
    /// What counts against the link: the token rate r, or the reserved rate R.
    pub rate: Rate,
    /// Bucket depth, octets.
    pub burst: u32,
    /// Largest packet, octets; 0 where nothing is known.
    pub max_packet: u32,
}

/// Why a claim was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The link does not take reservations, or is not known.
    NoSuchLink,
    /// Not enough is left.
    Bandwidth,
    /// The largest packet does not fit the link.
    MaxPacket,
}

/// A refusal, with what could have been granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The largest rate that would have been granted now.
    pub available: Rate,
}
