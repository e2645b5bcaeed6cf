//! RSVP's code points, from the registry "Resource Reservation Protocol (RSVP) Parameters".

use serde::{Deserialize, Serialize};

/// Message types (registry "Message Types"; RFC 2205 section 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MessageType {
    Path,
    Resv,
    PathErr,
    ResvErr,
    PathTear,
    ResvTear,
    ResvConf,
    Unknown(u8),
}

/// Error codes of ERROR_SPEC (registry "Error Codes and Globally-Defined Error Value Sub-Codes"; RFC 2205 appendix B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ErrorCode {
    Confirmation,
    AdmissionControlFailure,
    PolicyControlFailure,
    NoPathInformation,
    NoSenderInformation,
    ConflictingStyle,
    UnknownStyle,
    ConflictingDestPorts,
    ConflictingSenderPorts,
    ServicePreempted,
    UnknownObjectClass,
    UnknownObjectCType,
    ReservedForApi,
    TrafficControlError,
    TrafficControlSystemError,
    RsvpSystemError,
    Unknown(u8),
}
