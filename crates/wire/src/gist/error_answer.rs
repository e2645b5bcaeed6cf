//! Contents of the Error message that answers a message (RFC 5971 A.4).

use super::error::{ErrorKind, LengthMismatch, ParseError};
use super::error_data::{ErrorData, Info, Infos};
use super::grammar::Mode;
use super::header::{HEADER, Header};
use super::iana::{ErrorCode, MessageType, ObjectType};
use super::mri::Mri;
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::reader::Reader;
use crate::nsis::{Object, SessionId, objects};

impl ParseError {
    /// Returns the contents of the Error message that answers `octets`, in which this error was found (RFC 5971 A.4):
    /// class, code and subcode, the additional information that the error catalogue demands, and session and MRI if
    /// they can be read and may be returned.
    ///
    /// `None` for messages that must not be answered: Error messages, and octets without a common header.
    pub fn error_data<'a>(&self, octets: &'a [u8], mode: Mode) -> Option<ErrorData<'a>> {
        let (code, subcode) = self.kind.code()?;
        let answer = ErrorData::error_data_about(octets, mode, code, subcode)?;
        Some(ErrorData { infos: Infos::Few(self.infos(octets)), ..answer })
    }

    /// Returns the additional information that the error catalogue demands.
    fn infos<'a>(&self, octets: &'a [u8]) -> [Option<Info<'a>>; 2] {
        if let ErrorKind::MessageLength(LengthMismatch { words }) = self.kind {
            return [Some(Info::MessageLength(words)), None];
        }
        let Some(origin) = self.object else { return [None, None] };
        match self.kind.code() {
            Some((ErrorCode::ObjectType, _)) => [Some(Info::ObjectType(origin.object_type)), None],
            Some((ErrorCode::ObjectValue, _)) if self.kind == ErrorKind::StackMismatch => {
                let proposal = find_object(octets, ObjectType::StackProposal);
                let configuration = find_object(octets, ObjectType::StackConfigurationData);
                let offset = self.offset.saturating_sub(origin.offset);
                [
                    proposal.map(|object| Info::object_value(object.octets(), 0)),
                    configuration.map(|object| Info::object_value(object.octets(), offset)),
                ]
            }
            Some((ErrorCode::ObjectValue, _)) => {
                let object = walk(octets).find(|object| object.offset() == origin.offset);
                let offset = self.offset.saturating_sub(origin.offset);
                [object.map(|object| Info::object_value(object.octets(), offset)), None]
            }
            _ => [None, None],
        }
    }
}

impl<'a> ErrorData<'a> {
    /// Returns the contents of the Error message about `octets`, a message received in `mode`: the class that the error
    /// catalogue gives `code`, the common header, and session and MRI if they can be read and may be returned. The
    /// caller adds the additional information that the catalogue demands (RFC 5971 A.4.4).
    ///
    /// `None` for messages that must not be answered: Error messages (RFC 5971 section 5.6), and octets without a
    /// common header.
    pub fn error_data_about(
        octets: &'a [u8],
        mode: Mode,
        code: ErrorCode,
        subcode: u8,
    ) -> Option<ErrorData<'a>> {
        let original = *octets.first_chunk::<HEADER>()?;
        let header = Header::parse(octets).ok();
        if header.is_some_and(|header| header.message_type == MessageType::Error) {
            return None;
        }
        let (session, mri) = match code {
            ErrorCode::CommonHeaderParse => (None, None), // A.4.4.1 forbids them
            _ => identify(octets),
        };
        Some(ErrorData {
            class: code.class(),
            code,
            subcode,
            d_mode: mode == Mode::D,
            q_mode: mode == Mode::D && header.is_some_and(|header| header.flags.context_free),
            original,
            session,
            mri,
            infos: Infos::NONE,
            comment: None,
        })
    }
}

/// Iterates over the objects of a message up to the first that is framed wrongly.
fn walk(octets: &[u8]) -> impl Iterator<Item = Object<'_>> {
    objects(octets.get(HEADER..).unwrap_or_default(), HEADER).map_while(Result::ok)
}

/// Returns the first object of a type. The message need not be well formed: the object may be shown in an error.
pub fn find_object(octets: &[u8], object_type: ObjectType) -> Option<Object<'_>> {
    walk(octets).find(|object| object.object_type() == object_type.code())
}

/// Returns the sender of a message, to which an Error is sent (RFC 5971 section 5.6). The message need not be well
/// formed. `None` if it has no readable Network-Layer-Information.
pub fn find_sender(octets: &[u8]) -> Option<NetworkLayerInformation<'_>> {
    let object = find_object(octets, ObjectType::NetworkLayerInformation)?;
    NetworkLayerInformation::parse(Reader::of(&object)).ok()
}

/// Returns the NAT-Traversal object of a message, which an Error about the message repeats (RFC 5971 section 7.2.3). `None`
/// if it has no readable one.
pub fn find_nat_traversal(octets: &[u8]) -> Option<NatTraversal<'_>> {
    let object = find_object(octets, ObjectType::NatTraversal)?;
    NatTraversal::parse(Reader::of(&object)).ok()
}

/// Returns session and MRI of a message, each if it can be decoded.
fn identify(octets: &[u8]) -> (Option<SessionId>, Option<Mri>) {
    let session = find_object(octets, ObjectType::SessionId)
        .and_then(|object| Reader::of(&object).session().ok());
    let mri = find_object(octets, ObjectType::MessageRoutingInformation)
        .and_then(|object| Mri::parse(Reader::of(&object)).ok());
    (session, mri)
}
