//! Procedures: the objects of a QSPEC in each message (RFC 5975 section 4.3).

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::MessageSequence;
use super::template::Qspec;
use crate::qos_nslp::iana::MessageType;

/// Message sequence and object combination, four bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Procedure {
    /// Message sequence.
    pub sequence: MessageSequence,
    /// Object combination: a row of the sequence's table; 0 to 2 are defined.
    pub combination: u8,
}

impl Procedure {
    #[inline]
    pub(super) const fn from_octet(octet: u8) -> Procedure {
        Procedure { sequence: MessageSequence::from_code(octet >> 4), combination: octet & 0xf }
    }

    /// Returns both as one octet; `None` if either has more than four bits.
    pub(super) fn to_octet(self) -> Option<u8> {
        let sequence = self.sequence.code();
        let canonical = MessageSequence::from_code(sequence) == self.sequence;
        (sequence < 16 && self.combination < 16 && canonical)
            .then_some(sequence << 4 | self.combination)
    }
}

/// Presence of an object in a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Must,
    May,
    No,
}

/// Presence of Desired, Available, Reserved and Minimum, in this order.
type Row = [Expect; 4];

const D: Row = [Expect::Must, Expect::No, Expect::No, Expect::No];
const DA: Row = [Expect::Must, Expect::Must, Expect::No, Expect::No];
const DAM: Row = [Expect::Must, Expect::Must, Expect::No, Expect::Must];
const D_M: Row = [Expect::Must, Expect::No, Expect::No, Expect::May];
const DA_M: Row = [Expect::Must, Expect::Must, Expect::No, Expect::May];
const R: Row = [Expect::No, Expect::No, Expect::Must, Expect::No];
const RA: Row = [Expect::No, Expect::Must, Expect::Must, Expect::No];
const RA_M: Row = [Expect::No, Expect::Must, Expect::Must, Expect::May];
const A: Row = [Expect::No, Expect::Must, Expect::No, Expect::No];

/// Tables 1, 2 and 3 of RFC 5975 section 4.3.
fn row(procedure: Procedure, message: MessageType) -> Option<Row> {
    let Procedure { sequence, combination } = procedure;
    Some(match (sequence, combination, message) {
        (MessageSequence::TwoWay, 0, MessageType::Reserve) => D,
        (MessageSequence::TwoWay, 0, MessageType::Response) => R,
        (MessageSequence::TwoWay, 1, MessageType::Reserve) => DA,
        (MessageSequence::TwoWay, 2, MessageType::Reserve) => DAM,
        (MessageSequence::TwoWay, 1 | 2, MessageType::Response) => RA,
        (MessageSequence::ThreeWay, 0, MessageType::Query | MessageType::Reserve) => D,
        (MessageSequence::ThreeWay, 1, MessageType::Query) => D_M,
        (MessageSequence::ThreeWay, 1, MessageType::Reserve) => DA_M,
        (MessageSequence::ThreeWay, 1, MessageType::Response) => RA_M,
        (MessageSequence::ThreeWay, 2, MessageType::Query | MessageType::Reserve) => DA,
        (MessageSequence::ThreeWay, 0 | 2, MessageType::Response) => R,
        (MessageSequence::ResourceQuery, 0, MessageType::Query | MessageType::Response) => A,
        _ => return None,
    })
}

impl Qspec<'_> {
    /// Checks that the objects are those of the procedure in a message of this type. A RESPONSE is checked as one that
    /// reports success: others return the failed objects. NOTIFY is not part of any procedure and always valid.
    ///
    /// # Errors
    /// The procedure is unknown or lacks such a message; the first object that is missing or unexpected.
    pub fn check_objects(&self, message: MessageType) -> Result<(), ParseError> {
        if message == MessageType::Notify {
            return Ok(());
        }
        let row = row(self.procedure, message).ok_or(ParseError::new(ErrorKind::Procedure, 0))?;
        for ((object_type, object), expect) in self.objects().into_iter().zip(row) {
            let kind = match (expect, object) {
                (Expect::Must, None) => ErrorKind::MissingObject,
                (Expect::No, Some(_)) => ErrorKind::UnexpectedObject,
                _ => continue,
            };
            return Err(ParseError::of(kind, object_type, 0));
        }
        Ok(())
    }
}
