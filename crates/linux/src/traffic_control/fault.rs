//! Faults: reservations that are not in place in the kernel.

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, InterfaceId};

/// Kind of a deviation from the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Fault {
    /// The qdisc of the link, or one below it.
    #[error("the qdisc was missing or replaced")]
    Qdisc,
    /// The class of a reservation, or of all of them together, is missing.
    #[error("the class was missing")]
    ClassMissing,
    /// The class of a reservation, or of all of them together, has other parameters.
    #[error("the class was altered")]
    ClassAltered,
    /// The queue of a class.
    #[error("the queue of the class was missing or altered")]
    Queue,
    /// The BPF program, or its settings for the link.
    #[error("the classifier was detached")]
    Classifier,
    /// The classifier's entry of a flow.
    #[error("the flow was missing in the classifier or had another class")]
    Flow,
    /// The token bucket of a reservation.
    #[error("the token bucket was missing or altered")]
    Bucket,
}

/// A reservation, or a whole link, that was not in place and has been repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// Interface of the link.
    pub interface: InterfaceId,
    /// The reservation; `None` for the whole link.
    pub reservation: Option<(ClaimId, Flow)>,
    /// The deviation.
    pub fault: Fault,
}
