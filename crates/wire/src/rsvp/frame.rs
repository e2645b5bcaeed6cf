//! The frame of a message: the common header and the objects behind it (RFC 2205 sections 3.1.1 and 3.1.2).

use super::error::{ErrorKind, ParseError};
use super::iana::ObjectClass;
use crate::checksum;
use crate::writer::EmitError;

/// Length of the common header, octets.
pub(super) const COMMON_HEADER: usize = 8;
/// Length of an object's header, octets.
pub(super) const OBJECT_HEADER: usize = 4;
/// The only defined version, in the high nibble.
pub(super) const VERSION_1: u8 = 0x10;

/// Offset of the checksum in the common header.
pub(super) const CHECKSUM: usize = 2;

/// Fields of the common header, unchecked.
#[derive(Clone, Copy)]
pub(super) struct CommonHeader {
    pub(super) version: u8,
    pub(super) flags: u8,
    pub(super) message_type: u8,
    pub(super) checksum: u16,
    pub(super) send_ttl: u8,
    pub(super) length: u16,
}

impl CommonHeader {
    /// Splits a message into header and objects; `None` if it is shorter than the header.
    #[inline]
    pub(super) fn split(message: &[u8]) -> Option<(CommonHeader, &[u8])> {
        let (header, rest) = message.split_first_chunk::<COMMON_HEADER>()?;
        let [version_flags, message_type, c0, c1, send_ttl, _reserved, l0, l1] = *header;
        let header = CommonHeader {
            version: version_flags >> 4,
            flags: version_flags & 0x0f,
            message_type,
            checksum: u16::from_be_bytes([c0, c1]),
            send_ttl,
            length: u16::from_be_bytes([l0, l1]),
        };
        Some((header, rest))
    }
}

/// A whole object, header and body; a multiple of four octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawObject<'a> {
    /// Offset of the object's header from the start of the RSVP message, octets.
    pub offset: usize,
    /// Octets of the object, header included.
    pub bytes: &'a [u8],
}

impl<'a> RawObject<'a> {
    /// Class-Num; 0 if the header is truncated.
    #[inline]
    pub fn class_num(&self) -> u8 {
        self.bytes.get(2).copied().unwrap_or(0)
    }

    /// C-Type; 0 if the header is truncated.
    #[inline]
    pub fn c_type(&self) -> u8 {
        self.bytes.get(3).copied().unwrap_or(0)
    }

    /// Returns the octets behind the header.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(OBJECT_HEADER..).unwrap_or_default()
    }

    /// Creates an error about this object.
    #[cold]
    pub(super) fn error(&self, kind: ErrorKind) -> ParseError {
        let (class_num, c_type) = (self.class_num(), self.c_type());
        ParseError { kind, offset: self.offset, class_num, c_type }
    }
}

/// Iterator over consecutive objects. Ends after the first one that is framed wrongly.
#[derive(Clone, Copy)]
pub(super) struct Frames<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Frames<'a> {
    /// Creates the iterator. `offset` is the position of `objects` in the message.
    #[inline]
    pub(super) fn new(objects: &'a [u8], offset: usize) -> Self {
        Frames { rest: objects, offset }
    }

    /// Returns the unread octets.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<RawObject<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        let object = self.rest.first_chunk().and_then(|[high, low, _, _]| {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length < OBJECT_HEADER || !length.is_multiple_of(4) {
                return None;
            }
            self.rest.split_at_checked(length)
        });
        let Some((bytes, rest)) = object else {
            let broken = RawObject { offset, bytes: self.rest };
            self.rest = &[];
            return Some(Err(broken.error(ErrorKind::ObjectLength)));
        };
        self.rest = rest;
        self.offset = offset + bytes.len();
        Some(Ok(RawObject { offset, bytes }))
    }
}

/// Takes the next object of `rest`.
#[inline]
pub(super) fn next_object<'a>(rest: &mut &'a [u8]) -> Option<RawObject<'a>> {
    let mut frames = Frames::new(rest, 0);
    let object = frames.next()?.ok()?;
    *rest = frames.rest();
    Some(object)
}

/// Treatment of an unknown class (RFC 2205 section 3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownClass {
    /// 0bbbbbbb: reject the message.
    Reject,
    /// 10bbbbbb: ignore the object.
    Ignore,
    /// 11bbbbbb: ignore the object and forward it.
    Forward,
}

impl UnknownClass {
    #[inline]
    pub(super) fn of(class_num: u8) -> UnknownClass {
        match class_num >> 6 {
            0b10 => UnknownClass::Ignore,
            0b11 => UnknownClass::Forward,
            _ => UnknownClass::Reject,
        }
    }
}

/// Whether nodes forward objects of this class unexamined.
#[inline]
fn is_forwarded_unexamined(class_num: u8) -> bool {
    class_num == ObjectClass::PolicyData.code()
        || UnknownClass::of(class_num) == UnknownClass::Forward
}

/// Objects that nodes forward unexamined: POLICY_DATA and classes 11bbbbbb (RFC 2205 section 3.10). Equality compares
/// the octets of the objects in order.
#[derive(Clone, Copy, Debug)]
pub enum Carried<'a> {
    /// All objects of a received message; iteration selects the carried ones.
    Wire(&'a [u8]),
    /// Carried objects only, one after another.
    Objects(&'a [u8]),
}

impl<'a> Carried<'a> {
    /// No carried objects.
    pub const NONE: Carried<'static> = Carried::Objects(&[]);

    /// Iterates over the carried objects. Offsets of [`Carried::Wire`] count from the start of the received message,
    /// those of [`Carried::Objects`] from the start of the slice.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = RawObject<'a>> + use<'a> {
        let (frames, all) = match *self {
            Carried::Wire(octets) => (Frames::new(octets, COMMON_HEADER), false),
            Carried::Objects(octets) => (Frames::new(octets, 0), true),
        };
        // Of several NOTIFY_REQUEST objects only the first is propagated (RFC 3473 section 4.2.1).
        let mut has_notify_request = false;
        frames.map_while(Result::ok).filter(move |object| {
            let class = object.class_num();
            all || is_forwarded_unexamined(class)
                && !(class == ObjectClass::NotifyRequest.code()
                    && core::mem::replace(&mut has_notify_request, true))
        })
    }

    /// Whether there are no carried objects.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Most messages have none, and cost no iteration.
        matches!(self, Carried::Objects([])) || self.has_no_objects()
    }

    #[inline(never)]
    fn has_no_objects(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Total length of the carried objects, octets.
    #[inline]
    pub fn octets(&self) -> usize {
        // Of most messages.
        if let Carried::Objects([]) = self {
            return 0;
        }
        self.iter().map(|object| object.bytes.len()).sum()
    }
}

/// Equality by content, regardless of offsets.
impl PartialEq for Carried<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(|object| object.bytes).eq(other.iter().map(|object| object.bytes))
    }
}

impl Eq for Carried<'_> {}

impl Default for Carried<'_> {
    fn default() -> Self {
        Carried::NONE
    }
}

/// Computes the checksum of a whole message.
pub(super) fn set_checksum(message: &mut [u8]) -> Result<(), EmitError> {
    message.get_mut(CHECKSUM..CHECKSUM + 2).ok_or(EmitError::BufferTooShort)?.fill(0);
    let check = checksum_of(message).to_be_bytes();
    message
        .get_mut(CHECKSUM..CHECKSUM + 2)
        .ok_or(EmitError::BufferTooShort)?
        .copy_from_slice(&check);
    Ok(())
}

/// Returns the checksum of a message whose checksum field is zero.
#[inline]
pub(super) fn checksum_of(message: &[u8]) -> u16 {
    // Zero would mean that no checksum was sent; all ones is the same number.
    match checksum::checksum(message) {
        0 => 0xffff,
        check => check,
    }
}
