//! The UDP header (RFC 768), for sockets that handle whole IP packets.

use core::net::IpAddr;

use crate::checksum::{self, add};
use crate::writer::EmitError;

/// Length of the header, octets.
pub const HEADER: usize = 8;
/// IP protocol number.
pub const PROTOCOL: u8 = 17;

/// Parse errors of a UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The packet is too short for the header.
    #[error("UDP header truncated at octet {0}")]
    Truncated(usize),
    /// The length, at octet 4, is below that of the header, or leads past the end.
    #[error("invalid length {0} in UDP header at octet 4")]
    Length(u16),
}

/// State of a packet's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// No checksum was sent.
    Absent,
    /// The checksum is valid.
    Valid,
    /// The checksum is that of the pseudo-header only: the sender's kernel left the rest to checksum offload
    /// (`CHECKSUM_PARTIAL`). Links without such hardware, for example pairs of virtual interfaces, deliver packets in
    /// this state.
    Partial,
    /// The checksum is invalid.
    Invalid,
}

/// A UDP packet with checked lengths. Octets behind UDP's length (padding of the link) are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Checksum as received.
    pub checksum: u16,
    /// Octets behind the header.
    pub payload: &'a [u8],
    /// Header and payload.
    octets: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses header and payload. The checksum is not verified: it covers addresses, which this layer does not have.
    ///
    /// # Errors
    /// Inconsistent lengths.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = octets.first_chunk::<HEADER>() else {
            return Err(ParseError::Truncated(octets.len()));
        };
        let length = u16::from_be_bytes([l0, l1]);
        let packet = octets.get(..usize::from(length)).filter(|packet| packet.len() >= HEADER);
        let octets = packet.ok_or(ParseError::Length(length))?;
        Ok(Packet {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            checksum: u16::from_be_bytes([c0, c1]),
            payload: &octets[HEADER..],
            octets,
        })
    }

    /// Returns header and payload, without octets behind them.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Verifies the checksum. [`Checksum::Invalid`] also if the addresses are of different families, and in IPv6 without
    /// a checksum (RFC 8200 section 8.1).
    #[inline(always)]
    pub fn verify(&self, source: IpAddr, destination: IpAddr) -> Checksum {
        let length = self.octets.len() as u16; // the length field has 16 bits
        let Some(pseudo) = pseudo_header(source, destination, length) else {
            return Checksum::Invalid;
        };
        if self.checksum == 0 {
            return if source.is_ipv4() { Checksum::Absent } else { Checksum::Invalid };
        }
        match checksum::fold(add(pseudo, checksum::wide_sum(self.octets))) {
            0xffff => Checksum::Valid,
            _ if self.checksum == checksum::fold(pseudo) => Checksum::Partial,
            _ => Checksum::Invalid,
        }
    }
}

/// Returns the sum of the pseudo-header (RFC 768, RFC 8200 section 8.1); `None` if the families differ.
#[inline]
fn pseudo_header(source: IpAddr, destination: IpAddr, length: u16) -> Option<u64> {
    let word = |octets| u64::from(u32::from_ne_bytes(octets));
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            word(source.octets()) + word(destination.octets())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [source, destination] = [source, destination].map(|a| a.octets());
            add(checksum::wide_sum(&source), checksum::wide_sum(&destination))
        }
        _ => return None,
    };
    let [l0, l1] = length.to_be_bytes();
    Some(add(addresses, word([0, PROTOCOL, l0, l1])))
}

/// A header to be emitted. UDP's checksum covers the IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl Repr {
    /// Writes the header, with length and checksum, to the start of `packet`, which holds the payload behind it.
    ///
    /// # Errors
    /// The packet is shorter than a header or too long for UDP's length field, or the families differ.
    pub fn emit(&self, packet: &mut [u8]) -> Result<(), EmitError> {
        let length = u16::try_from(packet.len()).map_err(|_| EmitError::TooLong)?;
        let [s0, s1] = self.source_port.to_be_bytes();
        let [d0, d1] = self.destination_port.to_be_bytes();
        let [l0, l1] = length.to_be_bytes();
        let header = packet.first_chunk_mut::<HEADER>().ok_or(EmitError::BufferTooShort)?;
        *header = [s0, s1, d0, d1, l0, l1, 0, 0];
        let pseudo = pseudo_header(self.source, self.destination, length);
        let pseudo = pseudo.ok_or(EmitError::Contradiction)?;
        // Zero would mean that there is no checksum; all ones is the same number.
        let check = match !checksum::fold(add(pseudo, checksum::wide_sum(packet))) {
            0 => 0xffff,
            check => check,
        };
        packet[6..HEADER].copy_from_slice(&check.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: &str, destination: &str, payload: &[u8]) -> alloc::vec::Vec<u8> {
        let mut packet = [&[0xa5; HEADER], payload].concat();
        let address = |text: &str| text.parse().expect("an address");
        let (source, destination) = (address(source), address(destination));
        let repr = Repr { source, destination, source_port: 53, destination_port: 4_660 };
        repr.emit(&mut packet).expect("it fits");
        packet
    }

    /// Computed by hand: 0a00+0001+0a00+0002+0011+000a + 0035+1234+000a+6869 = 8f06 (with carries folded in).
    #[test]
    fn the_checksum_covers_header_payload_and_addresses() {
        let packet = packet("10.0.0.1", "10.0.0.2", b"hi");
        assert_eq!(packet[..6], [0, 53, 0x12, 0x34, 0, 10]);
        let sum = [0x0a00_u32, 1, 0x0a00, 2, 0x11, 10, 53, 0x1234, 10, 0x6869].iter().sum::<u32>();
        let check = !(((sum & 0xffff) + (sum >> 16)) as u16);
        assert_eq!(packet[6..8], check.to_be_bytes());
        let six = self::packet("2001:db8::1", "2001:db8::2", b"odd");
        assert_ne!(six[6..8], packet[6..8]);
    }

    #[test]
    fn emitted_packets_parse_to_the_same_value() {
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let mut octets = packet(source, destination, b"odd");
            let [source, destination] = [source, destination].map(|a| a.parse().expect("one"));
            octets.extend([0; 7]); // padding of the link
            let read = Packet::parse(&octets).expect("it is one");
            assert_eq!((read.source_port, read.destination_port), (53, 4_660));
            assert_eq!((read.payload, read.octets().len()), (&b"odd"[..], 11));
            assert_eq!(read.verify(source, destination), Checksum::Valid);
            octets[8] ^= 1;
            let read = Packet::parse(&octets).expect("it is one");
            assert_eq!(read.verify(source, destination), Checksum::Invalid);
            octets[6..8].fill(0);
            let read = Packet::parse(&octets).expect("it is one");
            let expected = if source.is_ipv4() { Checksum::Absent } else { Checksum::Invalid };
            assert_eq!(read.verify(source, destination), expected);
        }
    }

    /// The kernel leaves the checksum to the network card: the field holds the sum of the pseudo-header, not
    /// complemented.
    #[test]
    fn partial_checksum_is_distinguished_from_an_invalid_one() {
        let mut octets = packet("10.0.0.1", "10.0.0.2", b"payload");
        let [source, destination] = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse().expect("one"));
        octets[6..8].copy_from_slice(&(0x0a00_u16 + 1 + 0x0a00 + 2 + 17 + 15).to_be_bytes());
        let read = Packet::parse(&octets).expect("it is one");
        assert_eq!(read.verify(source, destination), Checksum::Partial);
    }

    #[test]
    fn invalid_lengths_are_refused() {
        assert_eq!(Packet::parse(&[0; 7]), Err(ParseError::Truncated(7)));
        assert_eq!(Packet::parse(&[0, 1, 0, 2, 0, 7, 0, 0]), Err(ParseError::Length(7)));
        assert_eq!(Packet::parse(&[0, 1, 0, 2, 0, 9, 0, 0]), Err(ParseError::Length(9)));
    }

    #[test]
    fn invalid_packets_are_not_emitted() {
        let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let repr = Repr {
            source: address("10.0.0.1"),
            destination: address("10.0.0.2"),
            source_port: 1,
            destination_port: 2,
        };
        assert_eq!(repr.emit(&mut [0; 7]), Err(EmitError::BufferTooShort));
        assert_eq!(repr.emit(&mut alloc::vec![0; 65_536]), Err(EmitError::TooLong));
        let mixed = Repr { destination: address("::1"), ..repr };
        assert_eq!(mixed.emit(&mut [0; 8]), Err(EmitError::Contradiction));
    }
}
