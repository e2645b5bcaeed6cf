//! One ledger of link capacity for all protocols.
//!
//! Every reservation of a node, of any protocol, is a *claim* on an outgoing link, held in the one [`Ledger`].
//! A claim is granted whole or refused with the available rate; a refused increase leaves the old grant, a decrease
//! always works. Which rate is available, the [`AdmissionControl`] of the link decides. The default is by parameters: a
//! link may be claimed up to its reservable rate, and a claim counts as its [`Demand`] states. By measurement
//! ([`MeasurementBased`]), controlled load counts as it uses the link.
//!
//! Three things exist beside the claims. *Adopted* flows are those that the driver found in traffic control after a
//! restart: nobody claims them yet, but their bandwidth is held until the refreshes have brought their owners back.
//! The *retry queue* of a link keeps refused requests until enough is released. And if *preemption* is on, important
//! claims displace less important ones (RFC 3181).

mod adoption;
mod claims;
mod control;
mod demand;
mod displacement;
mod journal;
mod lanes;
mod ledger;
mod link;
mod links;
mod measured;
mod method;
mod preemption;
mod queue;
mod retry;
mod signalling;

use core::num::NonZeroU8;

use serde::{Deserialize, Serialize};

use crate::Rate;

#[cfg(test)]
mod tests;

pub use control::{AdmissionControl, LinkLoad, ParameterBased};
pub use demand::{guaranteed_delay_us, guaranteed_rate};
pub use journal::Attempt;
pub use ledger::{Ledger, RemovedLink};
pub use link::{AdoptError, LinkCapacity, LinkStatus};
pub use measured::{MeasuredSum, MeasurementBased};
pub use method::AdmissionMethod;
pub use preemption::{Displaced, PreemptionPolicy, Priority};
pub use queue::{Counting, Discipline, EnqueueError, LOOKAHEAD, QueuedRequest, RetryPolicy};

/// Identifier of a claim, in the ledger and in traffic control: a slot number and a generation. Not reused soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimId {
    /// Slot in the ledger.
    pub slot: u32,
    /// Number of earlier uses of the slot.
    pub generation: u32,
}

/// The protocol and the state block that a claim belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The protocol.
    pub protocol: Protocol,
    /// Index of the state block.
    pub block: u32,
}

/// Number of a protocol that holds claims, in the ledger, in traffic control and in recordings.
///
/// Each engine has a number of its own and never changes it: a later daemon adopts the reservations of an earlier one by
/// it. The protocols of this project have numbers below 128; the others are for protocols that a program adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocol(NonZeroU8);

impl Protocol {
    /// Creates the number of an engine.
    ///
    /// # Panics
    /// If `number` is 0: at compile time in a constant.
    pub const fn new(number: u8) -> Protocol {
        match NonZeroU8::new(number) {
            Some(number) => Protocol(number),
            None => panic!("the number of a protocol is not 0"),
        }
    }

    /// Returns the protocol of a number; `None` for 0.
    pub const fn from_number(number: u8) -> Option<Protocol> {
        match NonZeroU8::new(number) {
            Some(number) => Some(Protocol(number)),
            None => None,
        }
    }

    /// Returns the number, from 1.
    pub const fn number(self) -> u8 {
        self.0.get()
    }
}

/// Requested service, which selects the rule of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Service {
    /// Controlled load (RFC 2211): admitted while the sum of token rates fits.
    ControlledLoad,
    /// Guaranteed service (RFC 2212): admitted while the sum of reserved rates R fits.
    Guaranteed,
}

/// Bandwidth and service requested of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// The service.
    pub service: Service,
    /// Rate that counts against the link: the token rate r, or the reserved rate R.
    pub rate: Rate,
    /// Bucket depth, octets.
    pub burst: u32,
    /// Largest packet, octets; 0 if unknown.
    pub max_packet: u32,
    /// Minimum policed unit (m of RFC 2210 section 3.1): smaller packets count as this many octets; 0 if unknown, which
    /// then counts as 64. [`Demand::WITHOUT_OVERHEAD`] for a demand to which links add nothing.
    pub min_packet: u16,
}

/// Reason why a claim was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The link takes no reservations, or is unknown.
    NoSuchLink,
    /// The link has not enough bandwidth left.
    Bandwidth,
    /// The largest packet exceeds the link's MTU.
    MaxPacket,
}

/// A refusal, with the available rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// Largest rate that would be granted now.
    pub available: Rate,
}
