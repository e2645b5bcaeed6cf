//! The objects of RSVP as values (RFC 2205 appendix A).

use core::net::IpAddr;
use serde::{Deserialize, Serialize};

use super::iana::ErrorCode;

/// SESSION (class 1): where the data flow goes. IPv4 is C-Type 1, IPv6 C-Type 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Session {
    /// DestAddress, unicast or multicast.
    pub destination: IpAddr,
    /// IP protocol number of the data, never 0.
    pub protocol: u8,
    /// Flag bits; [`Session::E_POLICE`] is the only one defined.
    pub flags: u8,
    /// DstPort, or 0 for protocols without ports.
    pub port: u16,
}

/// RSVP_HOP (class 3): the node that sent the message, and its handle for the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RsvpHop {
    /// Address of the interface through which the message was sent.
    pub address: IpAddr,
    /// Logical interface handle, opaque to everyone but its maker.
    pub lih: u32,
}

/// How a filter tells one flow of a sender from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SourceSelector {
    /// SrcPort, or 0 for protocols without ports (C-Types 1 and 2).
    Port(u16),
    /// IPv6 flow label, 20 bits (C-Type 3; the field has 24).
    FlowLabel(u32),
}

/// FILTER_SPEC (class 10): which sender's packets get the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FilterSpec {
    /// SrcAddress.
    pub source: IpAddr,
    /// SrcPort or flow label.
    pub selector: SourceSelector,
}

/// SENDER_TEMPLATE (class 11): same form as a FILTER_SPEC.
pub type SenderTemplate = FilterSpec;

/// ERROR_SPEC (class 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSpec {
    /// Address of the node that found the error.
    pub node: IpAddr,
    /// [`ErrorSpec::IN_PLACE`], [`ErrorSpec::NOT_GUILTY`].
    pub flags: u8,
    /// What went wrong, by kind.
    pub code: ErrorCode,
    /// What went wrong, in detail; its meaning hangs on `code`.
    pub value: u16,
}
