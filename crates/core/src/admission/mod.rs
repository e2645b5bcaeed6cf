//! One ledger of link capacity for all protocols.

use serde::{Deserialize, Serialize};

use crate::{Flow, InterfaceId, Rate};

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

/// Stand-in with the signatures that engines use.
#[derive(Debug, Default)]
pub struct Ledger;

impl Ledger {
    /// Claims `demand` of `link` for `owner`: all of it or nothing.
    pub fn claim(
        &mut self,
        _link: InterfaceId,
        _owner: Owner,
        _flow: &Flow,
        _demand: Demand,
    ) -> Result<ClaimId, Refusal> {
        Err(Refusal { reason: Reason::NoSuchLink, available: Rate::ZERO })
    }

    /// Changes what a claim holds; refused, it keeps what it had.
    pub fn change(&mut self, _claim: ClaimId, _demand: Demand) -> Result<(), Refusal> {
        Err(Refusal { reason: Reason::NoSuchLink, available: Rate::ZERO })
    }

    /// Gives a claim back. A claim that is gone already is no error.
    pub fn release(&mut self, _claim: ClaimId) {}

    /// Who holds a claim.
    pub fn owner(&self, _claim: ClaimId) -> Option<Owner> {
        None
    }
}
