//! Reservation requests before they are admitted.

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;

use crate::state::{Extra, Index, Origin};

/// Request of one next hop, or one application, for one sender or for those that share it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) origin: Origin,
    /// OI; `None` for an application of this host.
    pub(crate) outgoing: Option<InterfaceId>,
    pub(crate) flowspec: FlowSpec,
    pub(crate) extra: Option<Box<Extra>>,
    /// Receiver address of RESV_CONFIRM.
    pub(crate) confirm: Option<IpAddr>,
    pub(crate) expires_at: Time,
}

/// RESV_CONFIRM of a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmRequest {
    pub(crate) receiver: IpAddr,
    /// Reservation state block of the request.
    pub(crate) request: Index,
}
