//! The objects of RSVP as values (RFC 2205 appendix A).

use core::net::IpAddr;
use serde::{Deserialize, Serialize};

use super::dclass::Dscp;
use super::error::ErrorKind;
use super::iana::ErrorCode;
use crate::ipsec;

/// SESSION (class 1): destination of the data flow. IPv4 is C-Type 1, IPv6 C-Type 2; a session of ESP or AH with a port
/// is IPv4/GPI, 3, or IPv6/GPI, 4 ([`Session::has_gpi`]); one of an aggregate is RSVP-AGGREGATE-IP4, 9, or
/// RSVP-AGGREGATE-IP6, 10 ([`Session::is_aggregate`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Session {
    /// DestAddress, unicast or multicast.
    pub destination: IpAddr,
    /// IP protocol number of the data; 0 for an aggregate, whose packets have any.
    pub protocol: u8,
    /// Flag bits; [`Session::E_POLICE`] is the only one defined.
    pub flags: u8,
    /// DstPort, or 0 for protocols without ports. With a GPI it is vDstPort, which is not in the packets: it tells
    /// sessions with one destination apart. For an aggregate it is the DSCP.
    pub port: u16,
}

impl Session {
    /// Returns whether the senders of the session have a GPI (Generalized Port Identifier): the SPI of ESP or AH (RFC
    /// 2207). Then vDstPort is not 0, and without GPI such a session has no port, so the two never merge.
    pub const fn has_gpi(&self) -> bool {
        self.port != 0 && ipsec::has_spi(self.protocol)
    }

    /// Creates the session of an aggregate: the packets with a DSCP, towards the deaggregating router `destination` (RFC
    /// 3175 section 3.3).
    pub const fn aggregate(destination: IpAddr, dscp: Dscp) -> Session {
        Session { destination, protocol: 0, flags: 0, port: dscp.0 as u16 }
    }

    /// Returns whether the session is that of an aggregate (RFC 3175). Its senders are routers, known by address.
    pub const fn is_aggregate(&self) -> bool {
        self.protocol == 0
    }

    /// Returns the DSCP of an aggregate.
    pub const fn dscp(&self) -> Option<Dscp> {
        if self.is_aggregate() { Some(Dscp(self.port as u8)) } else { None }
    }

    /// Returns whether packets can belong to the session. The DSCP of an aggregate is neither 0, which unreserved packets
    /// have, nor above 63 (RFC 2474 section 3).
    pub const fn is_valid(&self) -> bool {
        !self.destination.is_unspecified()
            && (!self.is_aggregate() || self.port != 0 && self.port <= Dscp::MAX)
    }
}

/// RSVP_HOP (class 3): the node that sent the message, and its handle for the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RsvpHop {
    /// Address of the interface through which the message was sent.
    pub address: IpAddr,
    /// Logical interface handle, opaque to all other nodes.
    pub lih: u32,
}

/// Selector of a sender's flow in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SourceSelector {
    /// SrcPort, or 0 for protocols without ports (C-Types 1 and 2).
    Port(u16),
    /// IPv6 flow label, 20 bits (C-Type 3; the field has 24).
    FlowLabel(u32),
    /// SPI of ESP or AH, as GPI (C-Types 4 and 5, RFC 2207).
    Spi(u32),
    /// Nothing beside the address, which is that of an aggregating router (C-Types 9 and 10, RFC 3175).
    Aggregator,
}

/// FILTER_SPEC (class 10): the sender whose packets get the reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FilterSpec {
    /// SrcAddress.
    pub source: IpAddr,
    /// SrcPort, flow label, SPI, or nothing.
    pub selector: SourceSelector,
}

impl FilterSpec {
    /// Returns the SrcPort; 0 with another selector.
    pub fn port(&self) -> u16 {
        if let SourceSelector::Port(port) = self.selector { port } else { 0 }
    }

    /// Returns the flow label, if it is the selector.
    pub fn flow_label(&self) -> Option<u32> {
        if let SourceSelector::FlowLabel(label) = self.selector { Some(label) } else { None }
    }

    /// Returns the SPI, if it is the selector.
    pub fn spi(&self) -> Option<u32> {
        if let SourceSelector::Spi(spi) = self.selector { Some(spi) } else { None }
    }

    /// Returns whether a session may have this sender: one with a GPI has senders with an SPI (RFC 2207 section 4.1), an
    /// aggregate has aggregating routers (RFC 4860 section 3.1), and other sessions have neither.
    pub const fn fits(&self, session: &Session) -> bool {
        match self.selector {
            SourceSelector::Port(_) | SourceSelector::FlowLabel(_) => {
                !session.has_gpi() && !session.is_aggregate()
            }
            SourceSelector::Spi(_) => session.has_gpi(),
            SourceSelector::Aggregator => session.is_aggregate(),
        }
    }

    /// Returns whether rule 2 of RFC 2205 section 3.2 binds this sender: a source port needs a destination port.
    pub(super) const fn needs_destination_port(&self) -> bool {
        matches!(self.selector, SourceSelector::Port(port) if port != 0)
    }

    /// Returns why no message may name this sender of a session.
    pub(super) fn conflict(&self, session: &Session) -> Option<ErrorKind> {
        if self.source.is_ipv4() != session.destination.is_ipv4() {
            return Some(ErrorKind::AddressFamily);
        }
        if session.port == 0 && self.needs_destination_port() {
            return Some(ErrorKind::BadSourcePort);
        }
        (!self.fits(session)).then_some(ErrorKind::ConflictingCType)
    }

    /// Returns address, port, flow label and SPI, as of a sender's name in a listing.
    pub fn parts(&self) -> (IpAddr, u16, Option<u32>, Option<u32>) {
        (self.source, self.port(), self.flow_label(), self.spi())
    }
}

/// SENDER_TEMPLATE (class 11), in the form of a FILTER_SPEC.
pub type SenderTemplate = FilterSpec;

/// ERROR_SPEC (class 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSpec {
    /// Address of the node that detected the error.
    pub node: IpAddr,
    /// Flags [`ErrorSpec::IN_PLACE`], [`ErrorSpec::NOT_GUILTY`] and [`ErrorSpec::PATH_STATE_REMOVED`].
    pub flags: u8,
    /// Error code.
    pub code: ErrorCode,
    /// Error value; its meaning depends on `code`.
    pub value: u16,
}

/// Reservation style (STYLE, class 8): how senders share a reservation.
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
    /// Flag E_Police: the sender cannot police its traffic; the first node that can must do so.
    pub const E_POLICE: u8 = 0x01;
}

impl ErrorSpec {
    /// Flag InPlace: a reservation was, and still is, in place at the point of failure.
    pub const IN_PLACE: u8 = 0x01;
    /// Flag NotGuilty: the failed request exceeded that of this receiver.
    pub const NOT_GUILTY: u8 = 0x02;
    /// Flag Path_State_Removed: the node that forwards the PathErr has removed the path state (RFC 3473 section 4.4).
    pub const PATH_STATE_REMOVED: u8 = 0x04;
}

impl Style {
    /// Returns the style of an option vector, by its lowest five bits. Higher bits belong to future options and are
    /// ignored (RFC 2205 appendix A.7).
    #[inline]
    pub const fn from_option_vector(vector: u32) -> Option<Style> {
        match vector & 0b1_1111 {
            0b1_0001 => Some(Style::Wildcard),
            0b0_1010 => Some(Style::FixedFilter),
            0b1_0010 => Some(Style::SharedExplicit),
            _ => None,
        }
    }

    /// Returns the option vector, which is also the error value of [`ErrorCode::ConflictingStyle`].
    #[inline]
    pub const fn option_vector(self) -> u16 {
        match self {
            Style::Wildcard => 0b1_0001,
            Style::FixedFilter => 0b0_1010,
            Style::SharedExplicit => 0b1_0010,
        }
    }

    /// Returns WF, FF or SE.
    pub const fn name(self) -> &'static str {
        match self {
            Style::Wildcard => "WF",
            Style::FixedFilter => "FF",
            Style::SharedExplicit => "SE",
        }
    }
}
