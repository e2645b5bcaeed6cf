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

/// How reservations for different senders share (STYLE, class 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Style {
    /// WF: shared, wildcard sender selection.
    Wildcard,
    /// FF: distinct, explicit sender selection.
    FixedFilter,
    /// SE: shared, explicit sender selection.
    SharedExplicit,
}

impl Session {
    /// Flag E_Police: the sender cannot police its traffic, the first node that can must.
    pub const E_POLICE: u8 = 0x01;
}

impl ErrorSpec {
    /// Flag InPlace: there was, and still is, a reservation at the point of failure.
    pub const IN_PLACE: u8 = 0x01;
    /// Flag NotGuilty: what failed was larger than what this receiver asked for.
    pub const NOT_GUILTY: u8 = 0x02;
}

impl Style {
    /// The style of an option vector, by its lowest five bits; higher ones belong to options yet to come and are not
    /// looked at (RFC 2205 appendix A.7).
    #[inline]
    pub const fn from_option_vector(vector: u32) -> Option<Style> {
        match vector & 0b1_1111 {
            0b1_0001 => Some(Style::Wildcard),
            0b0_1010 => Some(Style::FixedFilter),
            0b1_0010 => Some(Style::SharedExplicit),
            _ => None,
        }
    }

    /// The option vector, which is also the error value of [`ErrorCode::ConflictingStyle`].
    #[inline]
    pub const fn option_vector(self) -> u16 {
        match self {
            Style::Wildcard => 0b1_0001,
            Style::FixedFilter => 0b0_1010,
            Style::SharedExplicit => 0b1_0010,
        }
    }

    /// WF, FF or SE.
    pub const fn name(self) -> &'static str {
        match self {
            Style::Wildcard => "WF",
            Style::FixedFilter => "FF",
            Style::SharedExplicit => "SE",
        }
    }
}
