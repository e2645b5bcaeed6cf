//! Deviations of neighbours from a standard that are accepted because their meaning is unambiguous. With
//! [`crate::Config::strict`] they are not accepted.

earmark_core::named_enum! {
    /// Deviation of a neighbour from a standard.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tolerated {
        /// The services in its ADSPECs are not ordered by number (RFC 2210 section 3.3).
        AdspecOrder = "ADSPEC order",
        /// The neighbour claims refresh reduction, but has not answered messages in a Bundle (RFC 2961 section 3.3).
        UnreadBundles = "Bundles unread",
        /// The neighbour claims refresh reduction, but has acknowledged nothing (RFC 2961 section 4.5).
        NoAcknowledgements = "no acknowledgements",
    }
}

/// Set of deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations(u8);

impl Deviations {
    /// Adds a deviation. Returns whether the set did not contain it.
    pub(crate) fn insert(&mut self, deviation: Tolerated) -> bool {
        let before = self.0;
        self.0 |= bit(deviation);
        self.0 != before
    }

    pub(crate) fn remove(&mut self, deviation: Tolerated) {
        self.0 &= !bit(deviation);
    }

    pub(crate) fn contains(self, deviation: Tolerated) -> bool {
        self.0 & bit(deviation) != 0
    }

    pub(crate) fn union(self, other: Deviations) -> Deviations {
        Deviations(self.0 | other.0)
    }

    /// Returns the deviations in the set.
    pub fn iter(self) -> impl Iterator<Item = Tolerated> {
        Tolerated::ALL.into_iter().filter(move |&deviation| self.contains(deviation))
    }
}

fn bit(deviation: Tolerated) -> u8 {
    1 << deviation as u8
}
