//! ICMP echo, the "ping" (RFC 792, RFC 4443 section 4).
//!
//! A request and its reply differ in one octet and in the checksum. ICMPv6's checksum also covers the addresses and the
//! length (RFC 8200 section 8.1), so that the addresses of the packet are needed to check or write one.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use crate::checksum;
use crate::writer::EmitError;

/// IP protocol number of ICMP.
pub const PROTOCOL_V4: u8 = 1;
/// IP protocol number of ICMPv6.
pub const PROTOCOL_V6: u8 = 58;
/// Length of the header: type, code, checksum, identifier, sequence number; octets.
pub const HEADER: usize = 8;

/// Echo request or echo reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Echo Request.
    Request,
    /// Echo Reply.
    Reply,
}

/// Pseudo-header of an echo, which its checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PseudoHeader {
    /// ICMP: the checksum covers the message alone.
    V4,
    /// ICMPv6: source and destination are in the pseudo-header.
    V6(Ipv6Addr, Ipv6Addr),
}

impl PseudoHeader {
    /// Returns the pseudo-header for the addresses of an IP packet; `None` if the families differ.
    #[inline]
    pub fn of(source: IpAddr, destination: IpAddr) -> Option<PseudoHeader> {
        match (source, destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => Some(PseudoHeader::V4),
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Some(PseudoHeader::V6(source, destination))
            }
            _ => None,
        }
    }

    /// IP protocol number of the message.
    #[inline]
    pub fn protocol(&self) -> u8 {
        match self {
            PseudoHeader::V4 => PROTOCOL_V4,
            PseudoHeader::V6(..) => PROTOCOL_V6,
        }
    }

    /// Returns the ICMP type of an echo.
    #[inline]
    pub const fn code(&self, kind: Kind) -> u8 {
        match (self, kind) {
            (PseudoHeader::V4, Kind::Request) => 8,
            (PseudoHeader::V4, Kind::Reply) => 0,
            (PseudoHeader::V6(..), Kind::Request) => 128,
            (PseudoHeader::V6(..), Kind::Reply) => 129,
        }
    }

    #[inline]
    fn kind(&self, code: u8) -> Option<Kind> {
        match (self, code) {
            (PseudoHeader::V4, 8) | (PseudoHeader::V6(..), 128) => Some(Kind::Request),
            (PseudoHeader::V4, 0) | (PseudoHeader::V6(..), 129) => Some(Kind::Reply),
            _ => None,
        }
    }

    /// Returns what the pseudo-header adds to the sum of a message of `length` octets.
    #[inline]
    fn sum(&self, length: usize) -> u16 {
        match self {
            PseudoHeader::V4 => 0,
            PseudoHeader::V6(source, destination) => {
                let long = length as u32;
                let words = [(long >> 16) as u16, long as u16, u16::from(PROTOCOL_V6)];
                let addresses =
                    add(checksum::sum(&source.octets()), checksum::sum(&destination.octets()));
                words.into_iter().fold(addresses, add)
            }
        }
    }
}

/// Parse errors of an ICMP echo. Offsets are octets from the start of the ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EchoError {
    /// The message has fewer than eight octets.
    #[error("ICMP header truncated at octet {0}")]
    Truncated(usize),
    /// The type is neither echo request nor echo reply.
    #[error("ICMP type at octet 0 is {0}, not an echo")]
    Type(u8),
    /// The code is not zero.
    #[error("ICMP code at octet 1 is {0}, not 0")]
    Code(u8),
    /// The checksum is wrong.
    #[error("wrong ICMP checksum at octet 2")]
    Checksum,
}

impl EchoError {
    /// Returns a short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            EchoError::Truncated(_) => "icmp_truncated",
            EchoError::Type(_) => "icmp_type",
            EchoError::Code(_) => "icmp_code",
            EchoError::Checksum => "icmp_checksum",
        }
    }
}

/// An ICMP echo.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Echo request or echo reply.
    pub kind: Kind,
    /// Identifier, which separates the pings of one host.
    pub identifier: u16,
    /// Sequence number of the request.
    pub sequence: u16,
    /// Data, which the reply returns.
    pub data: &'a [u8],
}

impl<'a> Echo<'a> {
    /// Parses a whole ICMP message and verifies its checksum.
    #[inline]
    pub fn parse(message: &'a [u8], pseudo_header: PseudoHeader) -> Result<Echo<'a>, EchoError> {
        let Some((&[code, subcode, _, _, i0, i1, s0, s1], data)) =
            message.split_first_chunk::<HEADER>()
        else {
            return Err(EchoError::Truncated(message.len()));
        };
        let kind = pseudo_header.kind(code).ok_or(EchoError::Type(code))?;
        if subcode != 0 {
            return Err(EchoError::Code(subcode));
        }
        if !has_valid_checksum(message, pseudo_header) {
            return Err(EchoError::Checksum);
        }
        let identifier = u16::from_be_bytes([i0, i1]);
        Ok(Echo { kind, identifier, sequence: u16::from_be_bytes([s0, s1]), data })
    }

    /// Length of the emitted message, octets; see [`emit`](Echo::emit).
    pub fn buffer_len(&self) -> usize {
        HEADER + self.data.len()
    }

    /// Writes the message with its checksum; returns its length.
    ///
    /// # Errors
    /// The buffer is too short.
    pub fn emit(&self, pseudo_header: PseudoHeader, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let length = self.buffer_len();
        let message = buffer.get_mut(..length).ok_or(EmitError::BufferTooShort)?;
        message[HEADER..].copy_from_slice(self.data);
        seal(message, pseudo_header, self.kind, self.identifier, self.sequence)?;
        Ok(length)
    }
}

impl fmt::Debug for Echo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Echo { kind, identifier, sequence, data } = self;
        write!(f, "Echo {kind:?} {identifier}/{sequence} of {} octets", data.len())
    }
}

/// Writes the header in front of the data that `message` already holds.
///
/// # Errors
/// The message is shorter than a header.
pub fn seal(
    message: &mut [u8],
    pseudo_header: PseudoHeader,
    kind: Kind,
    identifier: u16,
    sequence: u16,
) -> Result<(), EmitError> {
    let [i0, i1] = identifier.to_be_bytes();
    let [s0, s1] = sequence.to_be_bytes();
    let header = message.first_chunk_mut::<HEADER>().ok_or(EmitError::BufferTooShort)?;
    *header = [pseudo_header.code(kind), 0, 0, 0, i0, i1, s0, s1];
    let sum = !add(checksum::sum(message), pseudo_header.sum(message.len()));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Whether the checksum of a message is valid.
#[inline]
fn has_valid_checksum(message: &[u8], pseudo_header: PseudoHeader) -> bool {
    // All ones and all zeros are the same number. Only octets that are all zeros have the sum zero.
    add(checksum::sum(message), pseudo_header.sum(message.len())) == 0xffff
}

/// Updates the checksum of a message after octets were changed from `old` to `new`, at an even offset from its start
/// and of the same even length (RFC 1624, equation 3). A wrong checksum stays wrong.
#[inline]
pub fn update_checksum(message: &mut [u8], old: &[u8], new: &[u8]) {
    if let Some([.., c0, c1]) = message.first_chunk_mut::<4>() {
        let check = u16::from_be_bytes([*c0, *c1]);
        let [n0, n1] =
            updated_checksum(check, checksum::sum(old), checksum::sum(new)).to_be_bytes();
        (*c0, *c1) = (n0, n1);
    }
}

/// Returns the checksum after words with the sum `new` replaced words with the sum `old` (RFC 1624, equation 3).
#[inline]
pub(crate) fn updated_checksum(check: u16, old: u16, new: u16) -> u16 {
    !add(add(!check, !old), new)
}

/// Changes the request in `message` into a reply. The addresses change places, so that the sum of ICMPv6's
/// pseudo-header stays the same and only the type affects the checksum.
pub fn make_reply(message: &mut [u8], pseudo_header: PseudoHeader) {
    let Some(first) = message.first().copied() else { return };
    let reply = pseudo_header.code(Kind::Reply);
    message[0] = reply;
    update_checksum(message, &[first, 0], &[reply, 0]);
}

/// One's complement addition: the carry is added at the low end.
#[inline]
pub(crate) fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pseudo_header(v6: bool) -> PseudoHeader {
        let address = |text: &str| text.parse().expect("an address");
        if v6 {
            PseudoHeader::V6(address("2001:db8::1"), address("2001:db8::2"))
        } else {
            PseudoHeader::V4
        }
    }

    fn ping(v6: bool, data: &[u8]) -> alloc::vec::Vec<u8> {
        let echo = Echo { kind: Kind::Request, identifier: 0x1234, sequence: 7, data };
        let mut message = alloc::vec![0xa5; echo.buffer_len()];
        assert_eq!(echo.emit(pseudo_header(v6), &mut message), Ok(message.len()));
        message
    }

    /// Computed by hand: 0800 + 1234 + 0007 + 6869 = 82a4, whose complement is 7d5b.
    #[test]
    fn echo_matches_checksum_computed_by_hand() {
        assert_eq!(ping(false, b"hi"), [8, 0, 0x7d, 0x5b, 0x12, 0x34, 0, 7, b'h', b'i']);
        assert_eq!(ping(true, b"")[0], 128);
    }

    #[test]
    fn malformed_echoes_are_refused_with_their_error() {
        let good = ping(false, b"hi");
        for length in 0..HEADER {
            assert_eq!(
                Echo::parse(&good[..length], PseudoHeader::V4),
                Err(EchoError::Truncated(length))
            );
        }
        let changed = |at: usize, octet: u8| {
            let mut message = good.clone();
            message[at] = octet;
            Echo::parse(&message, PseudoHeader::V4).map(|_| ())
        };
        assert_eq!(changed(0, 13), Err(EchoError::Type(13)));
        assert_eq!(changed(0, 128), Err(EchoError::Type(128)), "a ping of the other family");
        assert_eq!(changed(1, 1), Err(EchoError::Code(1)));
        assert_eq!(changed(9, b'o'), Err(EchoError::Checksum));
        assert_eq!(
            Echo::parse(&ping(true, b"hi"), pseudo_header(true)).map(|echo| echo.data),
            Ok(&b"hi"[..])
        );
        let elsewhere = PseudoHeader::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        assert_eq!(Echo::parse(&ping(true, b"hi"), elsewhere), Err(EchoError::Checksum));
    }

    proptest! {
        #[test]
        fn emitted_echoes_parse_to_the_same_value(data in proptest::collection::vec(any::<u8>(), 0..80), v6: bool) {
            let message = ping(v6, &data);
            let echo = Echo { kind: Kind::Request, identifier: 0x1234, sequence: 7, data: &data };
            prop_assert_eq!(Echo::parse(&message, pseudo_header(v6)), Ok(echo));
            let mut reply = message.clone();
            make_reply(&mut reply, pseudo_header(v6));
            let back = match pseudo_header(v6) {
                PseudoHeader::V6(source, destination) => PseudoHeader::V6(destination, source),
                PseudoHeader::V4 => PseudoHeader::V4,
            };
            prop_assert_eq!(Echo::parse(&reply, back), Ok(Echo { kind: Kind::Reply, ..echo }));
        }

        #[test]
        fn updated_checksum_equals_computed_one(
            data in proptest::collection::vec(any::<u8>(), 8..80), at in 0..4_usize, new: [u8; 4], v6: bool,
        ) {
            let mut message = ping(v6, &data);
            let at = HEADER + 2 * at.min((data.len() - 4) / 2);
            let old: [u8; 4] = message[at..at + 4].try_into().expect("four octets");
            message[at..at + 4].copy_from_slice(&new);
            update_checksum(&mut message, &old, &new);
            prop_assert!(Echo::parse(&message, pseudo_header(v6)).is_ok());
        }
    }
}
