//! Hello state of one neighbour.

use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_wire::rsvp::RestartCap;

use crate::neighbors::graceful_restart::Held;

/// Hello state of one neighbour.
#[derive(Debug, Default)]
pub(crate) struct HelloState {
    /// Src_Instance: our number for the neighbour; 0 before the first Hello.
    pub(super) own_instance: u32,
    /// Dst_Instance: the neighbour's number; 0 while unknown.
    pub(super) neighbor_instance: u32,
    /// Time of the last valid Hello from the neighbour.
    pub(super) last_hello_at: Time,
    /// Time of the neighbour's last request. A recent one makes a request from here unnecessary.
    pub(super) last_request_at: Option<Time>,
    /// Consecutive Hellos that returned a wrong instance.
    pub(super) wrong_instances: u8,
    /// RESTART_CAP of the last Hello, if the neighbour supports state recovery.
    pub(super) restart_cap: Option<RestartCap>,
    /// Flags of CAPABILITY in the last Hello; 0 without the object.
    pub(super) capability: u32,
    /// Last time for which state of the neighbour was to be kept over a restart.
    pub(super) held: Held,
    /// Timer of the next request.
    pub(super) timer: Option<TimerId>,
}

/// State of a neighbour as detected by Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// No Hello was received.
    Unknown,
    /// The neighbour answers.
    Alive,
    /// The neighbour answered before, but does no longer.
    Lost,
}

impl HelloState {
    pub(super) fn is_idle(&self) -> bool {
        self.timer.is_none()
    }

    pub(crate) fn liveness(&self) -> Liveness {
        match (self.own_instance, self.neighbor_instance) {
            (_, 1..) => Liveness::Alive,
            (0, 0) => Liveness::Unknown,
            _ if self.last_hello_at == Time::ZERO => Liveness::Unknown,
            _ => Liveness::Lost,
        }
    }
}
