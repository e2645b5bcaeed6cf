//! NATFW_INFO: the outcome of a request or the event of a notification, and the object concerned (RFC 5973 section 4.2.5).

use core::fmt;

use serde::{Deserialize, Serialize};

use super::iana::{
    ErrorClass, Informational, ObjectType, PermanentFailure, ProtocolError,
    SignalingSessionFailure, Success, TransientFailure,
};
use crate::writer::EmitError;

/// Error class and response code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Class 1: an event; in NOTIFY only.
    Informational(Informational),
    /// Class 2: success.
    Success(Success),
    /// Class 3: the message is malformed.
    ProtocolError(ProtocolError),
    /// Class 4: the request may succeed later.
    TransientFailure(TransientFailure),
    /// Class 5: the request will not succeed later.
    PermanentFailure(PermanentFailure),
    /// Class 7: the session cannot be as requested.
    SignalingSessionFailure(SignalingSessionFailure),
    /// An unknown class.
    Unknown {
        /// Error class, four bits.
        class: u8,
        /// Response code.
        code: u8,
    },
}

impl Outcome {
    /// Returns the outcome for a class, of which the low four bits count, and a code.
    pub const fn from_codes(class: u8, code: u8) -> Outcome {
        match ErrorClass::from_code(class & 0xf) {
            ErrorClass::Informational => Outcome::Informational(Informational::from_code(code)),
            ErrorClass::Success => Outcome::Success(Success::from_code(code)),
            ErrorClass::ProtocolError => Outcome::ProtocolError(ProtocolError::from_code(code)),
            ErrorClass::TransientFailure => {
                Outcome::TransientFailure(TransientFailure::from_code(code))
            }
            ErrorClass::PermanentFailure => {
                Outcome::PermanentFailure(PermanentFailure::from_code(code))
            }
            ErrorClass::SignalingSessionFailure => {
                Outcome::SignalingSessionFailure(SignalingSessionFailure::from_code(code))
            }
            ErrorClass::Unknown(class) => Outcome::Unknown { class, code },
        }
    }

    /// Returns the error class.
    pub const fn class(self) -> ErrorClass {
        match self {
            Outcome::Informational(_) => ErrorClass::Informational,
            Outcome::Success(_) => ErrorClass::Success,
            Outcome::ProtocolError(_) => ErrorClass::ProtocolError,
            Outcome::TransientFailure(_) => ErrorClass::TransientFailure,
            Outcome::PermanentFailure(_) => ErrorClass::PermanentFailure,
            Outcome::SignalingSessionFailure(_) => ErrorClass::SignalingSessionFailure,
            Outcome::Unknown { class, .. } => ErrorClass::from_code(class),
        }
    }

    /// Returns the code within the class.
    pub const fn code(self) -> u8 {
        match self {
            Outcome::Informational(code) => code.code(),
            Outcome::Success(code) => code.code(),
            Outcome::ProtocolError(code) => code.code(),
            Outcome::TransientFailure(code) => code.code(),
            Outcome::PermanentFailure(code) => code.code(),
            Outcome::SignalingSessionFailure(code) => code.code(),
            Outcome::Unknown { code, .. } => code,
        }
    }

    /// Returns the standard's name of the code, or `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Informational(code) => code.name(),
            Outcome::Success(code) => code.name(),
            Outcome::ProtocolError(code) => code.name(),
            Outcome::TransientFailure(code) => code.name(),
            Outcome::PermanentFailure(code) => code.name(),
            Outcome::SignalingSessionFailure(code) => code.name(),
            Outcome::Unknown { .. } => "unknown",
        }
    }
}

/// Class and name, such as `permanent failure: authorization failed`; unknown ones as numbers.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class() {
            ErrorClass::Unknown(class) => write!(f, "class {class}")?,
            class => f.write_str(class.name())?,
        }
        match self.name() {
            "unknown" => write!(f, ": code {:#04x}", self.code()),
            name => write!(f, ": {name}"),
        }
    }
}

/// NATFW_INFO object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct Info {
    /// Error class and response code.
    pub outcome: Outcome,
    /// Type of the object that caused the error, if one did; not 0.
    pub object: Option<ObjectType>,
}

impl Info {
    /// Creates a NATFW_INFO that concerns no object.
    pub const fn new(outcome: Outcome) -> Info {
        Info { outcome, object: None }
    }

    pub(super) fn parse(value: &[u8]) -> Option<Info> {
        let &[class, code, t0, t1] = <&[u8; 4]>::try_from(value).ok()?;
        let object = match u16::from_be_bytes([t0, t1]) & 0x0fff {
            0 => None,
            code => Some(ObjectType::from_code(code)),
        };
        Some(Info { outcome: Outcome::from_codes(class, code), object })
    }

    pub(super) fn octets(&self) -> Result<[u8; 4], EmitError> {
        let (class, code) = (self.outcome.class().code(), self.outcome.code());
        let object = self.object.map_or(0, ObjectType::code);
        let [t0, t1] = object.to_be_bytes();
        let octets = [class, code, t0, t1];
        // A value that would be read as another one is not written.
        if class > 0xf || object > 0xfff || Info::parse(&octets).as_ref() != Some(self) {
            return Err(EmitError::Contradiction);
        }
        Ok(octets)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome)?;
        match self.object {
            None => Ok(()),
            Some(ObjectType::Unknown(code)) => write!(f, " (object {code:#05x})"),
            Some(object) => write!(f, " ({})", object.name()),
        }
    }
}

serialize_as!(Info, |it| map! {
    "severity": it.outcome.class().name(),
    "outcome": it.outcome.name(),
    "code": it.outcome.code(),
    "object"?: it.object.map(ObjectType::name),
});
