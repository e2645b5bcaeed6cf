//! Rates of neighbours and interfaces against their limits per second.

use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::throttle::Throttle;
use earmark_core::{InterfaceId, Time};

/// Use of the limits per second, by neighbour or by access interface.
#[derive(Debug)]
pub(crate) struct Throttles {
    pub(super) changes: Throttle,
    pub(super) errors: Throttle,
    pub(super) challenges: Throttle,
    pub(super) diagnoses: Throttle,
    /// Hash of interfaces and neighbours, who may choose their addresses.
    pub(super) hash: KeyedHash,
}

impl Throttles {
    pub(crate) fn new(hash: KeyedHash) -> Throttles {
        Throttles {
            changes: Throttle::default(),
            errors: Throttle::default(),
            challenges: Throttle::default(),
            diagnoses: Throttle::default(),
            hash,
        }
    }

    /// Returns whether a challenge of a neighbour may be answered, at `rate` answers to each in one second.
    pub(crate) fn admits_challenge(
        &mut self,
        now: Time,
        interface: InterfaceId,
        neighbor: IpAddr,
        rate: u32,
    ) -> bool {
        let hash = self.hash(interface, Some(neighbor));
        self.challenges.admits(now, hash, rate)
    }

    /// Returns whether a DREQ or DREP may be processed, at `rate` from each interface in one second.
    pub(crate) fn admits_diagnosis(
        &mut self,
        now: Time,
        interface: InterfaceId,
        rate: u32,
    ) -> bool {
        let hash = self.hash(interface, None);
        self.diagnoses.admits(now, hash, rate)
    }

    /// Returns the hash of an address, wherever it is.
    pub(crate) fn hash_of(&self, address: IpAddr) -> u64 {
        self.hash.of_address(address)
    }

    pub(super) fn hash(&self, interface: InterfaceId, neighbor: Option<IpAddr>) -> u64 {
        let neighbor = neighbor.map_or(0, |address| self.hash.of_address(address));
        self.hash.of_two([interface.0.into(), neighbor])
    }
}
