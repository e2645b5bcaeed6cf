//! GIST-Error-Data: the error, and the message that it answers (RFC 5971 A.4).

use core::fmt;

use super::error::{ErrorKind, ParseError, words};
use super::header::{HEADER, Header};
use super::iana::{ErrorClass, ErrorCode, InfoType};
use super::mri::Mri;
use super::reader::Reader;
use crate::nsis::{SessionId, WORD, object::pad};
use crate::serialize::{Hex, Sequence, Text};
use crate::writer::{EmitError, Writer};

/// Flags in the second word.
mod flag {
    pub(super) const SESSION: u8 = 0x80;
    pub(super) const MRI: u8 = 0x40;
    pub(super) const COMMENT: u8 = 0x20;
    pub(super) const D_MODE: u8 = 0x10;
    pub(super) const Q_MODE: u8 = 0x08;
}

/// Longest object whose length an Object Value Info can state, octets.
const MAXIMUM_SHOWN: usize = 0xfff * WORD;

/// Octets of an object that an error shows at most: an Error with two objects stays within 1280 octets, the MTU of
/// every IPv6 link.
pub const MAX_OBJECT_SHOWN: usize = 512;

/// GIST-Error-Data of an Error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorData<'a> {
    /// Error class.
    pub class: ErrorClass,
    /// Error code.
    pub code: ErrorCode,
    /// Error subcode; see [`subcode`](super::iana::subcode).
    pub subcode: u8,
    /// D-flag: the message came in D-mode.
    pub d_mode: bool,
    /// Q-flag: the message came in Q-mode, which implies D-mode.
    pub q_mode: bool,
    /// Common header of the message, of any version.
    pub original: [u8; HEADER],
    /// Session identifier of the message, if readable.
    pub session: Option<SessionId>,
    /// MRI of the message, if readable.
    pub mri: Option<Mri>,
    /// Additional information, at most 255 fields.
    pub infos: Infos<'a>,
    /// Comment for human readers, without NUL.
    pub comment: Option<&'a str>,
}

/// Additional information about an error (RFC 5971 A.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Info<'a> {
    /// Message Length Info: total length of the message's objects, 32-bit words.
    MessageLength(u16),
    /// MTU Info: the MTU that the message exceeds, octets.
    Mtu(u16),
    /// Object Type Info: type of the object at fault.
    ObjectType(u16),
    /// Object Value Info: the object at fault.
    ObjectValue {
        /// Offset of the fault, octets from the object's header.
        offset: u16,
        /// The object with its header; whole words, at most 4095.
        object: &'a [u8],
    },
    /// Information of another type; whole words.
    Unknown {
        /// Type of the information.
        info_type: u16,
        /// Value of the field.
        value: &'a [u8],
    },
}

impl<'a> Info<'a> {
    /// Creates an Object Value Info; of a long object only the first [`MAX_OBJECT_SHOWN`] octets.
    pub fn object_value(object: &'a [u8], offset: usize) -> Info<'a> {
        let offset = u16::try_from(offset).unwrap_or(u16::MAX);
        let shown = object.len().min(MAX_OBJECT_SHOWN);
        Info::ObjectValue { offset, object: object.get(..shown).unwrap_or_default() }
    }

    /// Length of the field, header included; octets.
    pub fn buffer_len(&self) -> usize {
        4 + match self {
            Info::MessageLength(_) | Info::Mtu(_) | Info::ObjectType(_) => 4,
            Info::ObjectValue { object, .. } => 4 + object.len(),
            Info::Unknown { value, .. } => value.len(),
        }
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Info<'a>, ParseError> {
        let [t0, t1] = reader.take()?;
        let len = usize::from(u16::from_be_bytes(reader.take()?)) * WORD;
        let mut value = reader.part(len)?;
        let half = |value: &mut Reader<'a>| -> Result<u16, ParseError> {
            let [h0, h1, _, _] = value.take()?;
            Ok(u16::from_be_bytes([h0, h1]))
        };
        let info = match InfoType::from_code(u16::from_be_bytes([t0, t1])) {
            InfoType::MessageLength => Info::MessageLength(half(&mut value)?),
            InfoType::Mtu => Info::Mtu(half(&mut value)?),
            InfoType::ObjectType => Info::ObjectType(half(&mut value)?),
            InfoType::ObjectValue => {
                let [l0, l1, o0, o1] = value.take()?;
                let shown = usize::from(u16::from_be_bytes([l0, l1]) & 0x0fff) * WORD;
                let object = value.take_slice(shown)?;
                Info::ObjectValue { offset: u16::from_be_bytes([o0, o1]), object }
            }
            InfoType::Unknown(info_type) => {
                Info::Unknown { info_type, value: value.take_slice(len)? }
            }
        };
        value.finish()?;
        Ok(info)
    }

    fn info_type(&self) -> InfoType {
        match self {
            Info::MessageLength(_) => InfoType::MessageLength,
            Info::Mtu(_) => InfoType::Mtu,
            Info::ObjectType(_) => InfoType::ObjectType,
            Info::ObjectValue { .. } => InfoType::ObjectValue,
            Info::Unknown { info_type, .. } => InfoType::from_code(*info_type),
        }
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let info_type = self.info_type();
        let known = !matches!(info_type, InfoType::Unknown(_));
        if known == matches!(self, Info::Unknown { .. }) || !self.buffer_len().is_multiple_of(WORD)
        {
            return Err(EmitError::Contradiction);
        }
        writer.put(info_type.code().to_be_bytes())?;
        let len = u16::try_from(self.buffer_len() / WORD - 1).map_err(|_| EmitError::TooLong)?;
        writer.put(len.to_be_bytes())?;
        match self {
            Info::MessageLength(half) | Info::Mtu(half) | Info::ObjectType(half) => {
                writer.put(half.to_be_bytes())?;
                writer.put([0, 0])
            }
            Info::ObjectValue { offset, object } => {
                if object.len() > MAXIMUM_SHOWN {
                    return Err(EmitError::TooLong);
                }
                writer.put(words(object.len()).to_be_bytes())?;
                writer.put(offset.to_be_bytes())?;
                writer.put_slice(object)
            }
            Info::Unknown { value, .. } => writer.put_slice(value),
        }
    }
}

impl fmt::Display for Info<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Info::MessageLength(words) => write!(f, "the objects have {words} words"),
            Info::Mtu(octets) => write!(f, "the MTU is {octets} octets"),
            Info::ObjectType(number) => write!(f, "object {number}"),
            Info::ObjectValue { offset, object } => write!(f, "octet {offset} of {}", Hex(object)),
            Info::Unknown { info_type, value } => write!(f, "{info_type}: {}", Hex(value)),
        }
    }
}

/// Fields of additional information.
#[derive(Clone, Copy)]
pub enum Infos<'a> {
    /// Fields as received, parsed during iteration.
    Wire(WireInfos<'a>),
    /// Fields to be emitted.
    Items(&'a [Info<'a>]),
    /// Fields to be emitted, as many as the error catalogue demands (RFC 5971 A.4.4).
    Few([Option<Info<'a>>; 2]),
}

/// Received fields that have been checked.
#[derive(Clone, Copy)]
pub struct WireInfos<'a> {
    count: u8,
    reader: Reader<'a>,
}

impl<'a> Infos<'a> {
    /// No additional information.
    pub const NONE: Infos<'static> = Infos::Items(&[]);

    /// Iterates over the fields in order.
    pub fn iter(self) -> impl Iterator<Item = Info<'a>> + Clone + 'a {
        let (wire, items, few): (Option<WireInfos<'a>>, &'a [Info<'a>], [Option<Info<'a>>; 2]) =
            match self {
                Infos::Wire(wire) => (Some(wire), &[], [None, None]),
                Infos::Items(items) => (None, items, [None, None]),
                Infos::Few(few) => (None, &[], few),
            };
        wire.into_iter()
            .flat_map(|WireInfos { count, mut reader }| {
                (0..count).map_while(move |_| Info::parse(&mut reader).ok())
            })
            .chain(items.iter().copied())
            .chain(few.into_iter().flatten())
    }

    fn parse(reader: &mut Reader<'a>, count: u8) -> Result<Infos<'a>, ParseError> {
        let wire = WireInfos { count, reader: *reader };
        for _ in 0..count {
            Info::parse(reader)?;
        }
        Ok(Infos::Wire(wire))
    }
}

impl PartialEq for Infos<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Infos<'_> {}

impl fmt::Debug for Infos<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> ErrorData<'a> {
    /// Returns the common header of the answered message; `None` if it had another version.
    pub fn original_header(&self) -> Option<Header> {
        Header::parse(&self.original).ok()
    }

    /// Length of the value, octets.
    pub fn value_len(&self) -> usize {
        8 + HEADER
            + self.session.map_or(0, |_| SessionId::LEN)
            + self.mri.map_or(0, |mri| mri.value_len())
            + self.infos.iter().map(|info| info.buffer_len()).sum::<usize>()
            + self.comment.map_or(0, |comment| (comment.len() + 1).next_multiple_of(WORD))
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<ErrorData<'a>, ParseError> {
        let [class, c0, c1, subcode] = reader.take()?;
        let flags_at = reader.offset();
        let [flags, _, mri_words, infos] = reader.take()?;
        let has = |flag: u8| flags & flag != 0;
        if has(flag::Q_MODE) && !has(flag::D_MODE) {
            return Err(reader.error_at(ErrorKind::Combination, flags_at));
        }
        if !has(flag::MRI) && mri_words != 0 {
            return Err(reader.error_at(ErrorKind::Length, flags_at + 2));
        }
        let original = reader.take()?;
        let session = match has(flag::SESSION) {
            true => Some(SessionId(reader.take()?)),
            false => None,
        };
        let mri = match has(flag::MRI) {
            true => Some(Mri::parse(reader.part(usize::from(mri_words) * WORD)?)?),
            false => None,
        };
        let infos = Infos::parse(&mut reader, infos)?;
        let comment = if has(flag::COMMENT) { Some(comment(&mut reader)?) } else { None };
        reader.finish()?;
        Ok(ErrorData {
            class: ErrorClass::from_code(class),
            code: ErrorCode::from_code(u16::from_be_bytes([c0, c1])),
            subcode,
            d_mode: has(flag::D_MODE),
            q_mode: has(flag::Q_MODE),
            original,
            session,
            mri,
            infos,
            comment,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let nul = self.comment.is_some_and(|comment| comment.contains('\0'));
        if nul || self.q_mode && !self.d_mode {
            return Err(EmitError::Contradiction);
        }
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = bit(self.session.is_some(), flag::SESSION)
            | bit(self.mri.is_some(), flag::MRI)
            | bit(self.comment.is_some(), flag::COMMENT)
            | bit(self.d_mode, flag::D_MODE)
            | bit(self.q_mode, flag::Q_MODE);
        let byte = |number: usize| u8::try_from(number).map_err(|_| EmitError::TooLong);
        let mri_words = byte(self.mri.map_or(0, |mri| mri.value_len() / WORD))?;
        let [c0, c1] = self.code.code().to_be_bytes();
        writer.put([self.class.code(), c0, c1, self.subcode])?;
        writer.put([flags, 0, mri_words, byte(self.infos.iter().count())?])?;
        writer.put(self.original)?;
        if let Some(SessionId(octets)) = self.session {
            writer.put(octets)?;
        }
        if let Some(mri) = self.mri {
            mri.emit(writer)?;
        }
        self.infos.iter().try_for_each(|info| info.emit(writer))?;
        if let Some(comment) = self.comment {
            writer.put_slice(comment.as_bytes())?;
            writer.put([0])?;
            pad(writer, comment.len() + 1)?;
        }
        Ok(())
    }
}

/// Parses the rest as a comment: UTF-8, a NUL, and NULs until the end of the word.
fn comment<'a>(reader: &mut Reader<'a>) -> Result<&'a str, ParseError> {
    let at = reader.offset();
    let rest = reader.rest();
    let Some(len) = rest.iter().position(|octet| *octet == 0) else {
        return Err(reader.error(ErrorKind::Length));
    };
    let octets = reader.take_slice(len)?;
    reader.take_padded(len, 1)?;
    core::str::from_utf8(octets).map_err(|_| reader.error_at(ErrorKind::NotSupported, at))
}

// The session identifier and the MRI are objects of their own in a serialized message.
serialize_as!(ErrorData<'_>, |it| map! {
    "severity": it.class.name(),
    "error": it.code.name(),
    "code": it.code.code(),
    "subcode": it.subcode,
    "infos": Sequence(it.infos.iter().map(Text)),
    "comment": it.comment,
});
