//! Results of a case: violated invariants.

use serde::Serialize;

earmark_core::named_enum! {
    /// A violated invariant; see the parent module.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ViolationKind {
        /// Ledger, engines and traffic control of a node differ.
        BooksDisagree = "books disagree",
        /// A link of the path has no reservation while another has, or one that is not on the path has.
        NotOnThePath = "not on the path",
        /// A link has the reservation more than once.
        Twice = "reserved twice",
        /// The links have different rates, or another one than was requested.
        WrongRate = "wrong rate",
        /// The source was told that it is reserved, and nothing is.
        ToldReserved = "told reserved",
        /// The source was told that it is not reserved, and it is.
        ToldNotReserved = "told not reserved",
        /// The source was told nothing, and nobody of a refusal.
        NotAnswered = "not answered",
        /// The source, or a receiver, was told another rate than is reserved.
        ToldOtherRate = "told other rate",
        /// A receiver was told that it is reserved, and nothing is.
        ReceiverToldReserved = "receiver told reserved",
        /// A receiver was told that it is not reserved, and it is.
        ReceiverToldNotReserved = "receiver told not reserved",
        /// A receiver was told nothing, although it is reserved.
        ReceiverNotTold = "receiver not told",
        /// Nothing is reserved, and no event could prevent or end the reservation.
        NotReserved = "not reserved",
        /// Something is reserved for an application that is gone.
        WithoutApplication = "without application",
        /// State is left after the release.
        LeftBehind = "left behind",
    }
}

/// A violated invariant of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The invariant.
    pub kind: ViolationKind,
    /// Time of detection, seconds from the start.
    pub at: f64,
    /// Details, with the node.
    pub what: String,
}

/// Result of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Crossing {
    /// Whether the reservation was on the whole path in the end.
    pub is_reserved: bool,
    /// Whether each event of the case changed what happened.
    pub took_effect: Vec<bool>,
    /// Events that the simulator processed.
    pub events: u64,
    /// Violated invariants, the first of each kind.
    pub violations: Vec<Violation>,
}
