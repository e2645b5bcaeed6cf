//! Parse errors of RSVP messages: kind, position, and the error to report.

use core::fmt;

use super::iana::{ErrorCode, ObjectClass, PolicyControlError, TrafficControlError};
use crate::intserv::FormatProblem;

error_kinds! {
    /// Faults of a message (list at the end of RFC 2205 appendix B, with additions).
    pub enum ErrorKind {
        /// The message is too short for the common header.
        Truncated = "truncated" "shorter than the common header",
        /// The version is not 1.
        Version = "version" "version is not 1",
        /// RSVP Length is not the length of the message.
        Length = "length" "does not match the length of the message",
        /// The checksum is wrong.
        Checksum = "checksum" "wrong checksum",
        /// The message type is unknown.
        MessageType = "message_type" "unknown message type",
        /// A Bundle contains a Bundle.
        NestedBundle = "nested_bundle" "a Bundle within a Bundle",
        /// The length of an object is not a multiple of 4, below 4, or leads past the end of the message.
        ObjectLength = "object_length" "length is not a multiple of 4, below 4, or beyond the end",
        /// The length of an object does not fit its class and C-Type.
        ObjectSize = "object_size" "invalid length for the C-Type",
        /// The class is unknown, and of the kind that must be rejected (RFC 2205 section 3.10).
        UnknownClass = "unknown_class" "unknown class",
        /// The C-Type of a known class is unknown.
        UnknownCType = "unknown_c_type" "unknown C-Type",
        /// The reservation style is neither WF, FF nor SE.
        UnknownStyle = "unknown_style" "unknown reservation style",
        /// A required object is missing.
        MissingObject = "missing_object" "required, but missing",
        /// An object is not allowed in this message.
        IllegalObject = "illegal_object" "not allowed in this message",
        /// An object occurs twice whose class may occur once.
        DuplicateObject = "duplicate_object" "duplicate object",
        /// INTEGRITY, acknowledgements and MESSAGE_ID are not first, or STYLE and flow descriptors are not last.
        ObjectOrder = "object_order" "out of order",
        /// Number or order of FLOWSPEC and FILTER_SPEC objects does not fit style and message.
        FlowDescriptors = "flow_descriptors" "flow descriptor list does not fit style and message",
        /// The address family of the object differs from that of SESSION.
        AddressFamily = "address_family" "address family differs from that of SESSION",
        /// SESSION has protocol 0.
        ZeroProtocol = "zero_protocol" "protocol id is zero",
        /// SESSION of an aggregate has DSCP 0 or one above 63.
        BadDscp = "bad_dscp" "DSCP is not from 1 to 63",
        /// A destination or source address is zero.
        ZeroAddress = "zero_address" "address is zero",
        /// RSVP_HOP has an address that is invalid for a hop.
        HopAddress = "hop_address" "invalid hop address",
        /// A source port is nonzero although SESSION has no destination port (RFC 2205 section 3.2, rule 2).
        BadSourcePort = "bad_source_port" "source port without destination port",
        /// SESSION has a GPI and a protocol other than ESP and AH, or vDstPort 0; or it has no GPI, but ESP or AH with a
        /// port (RFC 2207 section 4.1).
        BadGpi = "bad_gpi" "protocol, port and C-Type do not fit each other (RFC 2207)",
        /// FILTER_SPEC or SENDER_TEMPLATE has SPI 0, which no packet has (RFC 4303 section 2.1).
        ZeroSpi = "zero_spi" "SPI is zero",
        /// FILTER_SPEC or SENDER_TEMPLATE is for another kind of session: with a GPI (RFC 2207 section 4.1), of an
        /// aggregate (RFC 4860 section 3.1), or neither.
        ConflictingCType = "conflicting_c_type" "C-Type conflicts with that of SESSION",
        /// An option of POLICY_DATA, or Data Offset, is invalid (RFC 2750 section 3.2).
        PolicyOption = "policy_option" "malformed policy option",
        /// A policy element of POLICY_DATA is invalid (RFC 2750 section 3.3).
        PolicyElement = "policy_element" "malformed policy element",
        ;
        /// Integrated-services data are malformed.
        Intserv(FormatProblem),
    }
}

impl ErrorKind {
    /// Returns the name of the common-header field at fault, if it is one.
    const fn header_field(self) -> Option<&'static str> {
        match self {
            ErrorKind::Truncated => Some("common header"),
            ErrorKind::Version => Some("Vers"),
            ErrorKind::Length => Some("RSVP Length"),
            ErrorKind::Checksum => Some("RSVP Checksum"),
            ErrorKind::MessageType | ErrorKind::NestedBundle => Some("Msg Type"),
            _ => None,
        }
    }
}

/// A malformed RSVP message: the fault and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Offset of the field or the object's header, octets from the start of the RSVP message; the end of the message if
    /// something is missing.
    pub offset: usize,
    /// Class-Num of the object that is invalid or missing; 0 for the common header.
    pub class_num: u8,
    /// C-Type of that object, if known; otherwise 0.
    pub c_type: u8,
}

impl ParseError {
    /// Creates the error about a field of the common header.
    pub(super) fn header(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset, class_num: 0, c_type: 0 }
    }

    /// Returns the error code and value that answer a Path or Resv; `None` if RFC 2205 has the failure only logged
    /// (appendix B). Error messages and teardowns are never answered.
    ///
    /// [`super::PartialMessage`] has the addressee.
    pub fn report(&self) -> Option<(ErrorCode, u16)> {
        let object = u16::from_be_bytes([self.class_num, self.c_type]);
        match self.kind {
            ErrorKind::UnknownClass => Some((ErrorCode::UnknownObjectClass, object)),
            ErrorKind::UnknownCType => Some((ErrorCode::UnknownObjectCType, object)),
            ErrorKind::UnknownStyle => Some((ErrorCode::UnknownStyle, 0)),
            ErrorKind::PolicyOption => {
                Some((ErrorCode::PolicyControlFailure, PolicyControlError::BadPolicyData.code()))
            }
            ErrorKind::PolicyElement => {
                Some((ErrorCode::PolicyControlFailure, PolicyControlError::BadPolicyElement.code()))
            }
            ErrorKind::Intserv(problem) => {
                let value = match (problem, ObjectClass::from_code(self.class_num)) {
                    (FormatProblem::UnknownService, _) => TrafficControlError::ServiceUnsupported,
                    (_, ObjectClass::SenderTspec) => TrafficControlError::BadTspec,
                    (_, ObjectClass::Adspec) => TrafficControlError::BadAdspec,
                    _ => TrafficControlError::BadFlowspec,
                };
                Some((ErrorCode::TrafficControlError, value.code()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, offset, class_num, c_type } = self;
        if let Some(field) = kind.header_field() {
            return write!(f, "{field} at octet {offset}: {kind}");
        }
        match ObjectClass::from_code(*class_num) {
            ObjectClass::Unknown(class) => write!(f, "object of class {class}")?,
            class => write!(f, "{} object", class.name())?,
        }
        if *c_type != 0 {
            write!(f, " (C-Type {c_type})")?;
        }
        write!(f, " at octet {offset}: {kind}")
    }
}
