//! The packets of a compound as frames: parsed header, unparsed body.

use super::error::{ErrorKind, ParseError};
use super::iana::PacketType;

/// Length of the header common to all packets, octets.
pub const HEADER: usize = 4;

/// One packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Offset of the packet, octets from the start of the compound.
    pub offset: usize,
    /// Packet type.
    pub packet_type: PacketType,
    /// Number of report blocks, chunks or sources; the subtype of an APP packet. Below 32.
    pub count: u8,
    /// Octets behind the header, without padding.
    pub body: &'a [u8],
    /// Length of the padding behind the body, its count included; octets.
    pub padding: u8,
}

impl Frame<'_> {
    /// Creates an error at an octet of the body.
    #[inline]
    pub(crate) fn error(&self, kind: ErrorKind, at: usize) -> ParseError {
        ParseError::new(kind, self.offset + HEADER + at)
    }
}

/// Iterator over the packets of a compound. Ends after an error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    octets: &'a [u8],
    offset: usize,
}

/// Iterates over the packets of the compound `octets`. Headers are checked (RFC 3550 appendix A.2): version, lengths
/// that end exactly at the end of the compound, SR or RR first, padding only in the last packet.
#[inline]
pub fn frames(octets: &[u8]) -> Frames<'_> {
    Frames { octets, offset: 0 }
}

impl<'a> Frames<'a> {
    #[inline(always)]
    fn frame(&mut self) -> Result<Frame<'a>, ParseError> {
        let offset = self.offset;
        let error = |kind, at| Err(ParseError::new(kind, offset + at));
        let rest = self.octets.get(offset..).unwrap_or_default();
        let Some(&[first, packet_type, l0, l1]) = rest.first_chunk::<HEADER>() else {
            return error(ErrorKind::Truncated, 0);
        };
        if first >> 6 != 2 {
            return error(ErrorKind::Version, 0);
        }
        let length = HEADER * (usize::from(u16::from_be_bytes([l0, l1])) + 1);
        let Some(mut body) = rest.get(HEADER..length) else {
            return error(ErrorKind::Length, 2);
        };
        let packet_type = PacketType::from_code(packet_type);
        let reports = matches!(packet_type, PacketType::SenderReport | PacketType::ReceiverReport);
        if offset == 0 && !reports {
            return error(ErrorKind::FirstPacket, 1);
        }
        let mut padding = 0;
        if first & 0x20 != 0 {
            padding = body.last().copied().unwrap_or(0);
            let kept = body.len().checked_sub(usize::from(padding));
            let whole_words = padding > 0 && padding % 4 == 0;
            let Some(kept) = kept.filter(|_| whole_words && rest.len() == length) else {
                return error(ErrorKind::Padding, 0);
            };
            body = &body[..kept];
        }
        self.offset += length;
        Ok(Frame { offset, packet_type, count: first & 0x1f, body, padding })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, ParseError>;

    // A router calls this four times for each message, and the result is large.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.offset > 0 && self.offset >= self.octets.len() {
            return None;
        }
        let frame = self.frame();
        if frame.is_err() {
            self.offset = usize::MAX;
        }
        Some(frame)
    }
}
