//! The header of UDP (RFC 768), for what leaves through a socket that takes whole IP packets.

use core::net::IpAddr;

use crate::checksum;
use crate::writer::EmitError;

/// Length of the header, octets.
pub const HEADER: usize = 8;
/// IP protocol number.
const PROTOCOL: u8 = 17;

/// What a header says. The addresses are IP's; UDP's checksum covers them.
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
    /// Writes the header, length and checksum included, to the start of `packet`, which holds the payload behind it.
    ///
    /// # Errors
    /// The packet is shorter than a header or longer than UDP's length field can say, or the families differ.
    pub fn emit(&self, packet: &mut [u8]) -> Result<(), EmitError> {
        let length = u16::try_from(packet.len()).map_err(|_| EmitError::TooLong)?;
        let [s0, s1] = self.source_port.to_be_bytes();
        let [d0, d1] = self.destination_port.to_be_bytes();
        let [l0, l1] = length.to_be_bytes();
        let header = packet.first_chunk_mut::<HEADER>().ok_or(EmitError::BufferTooShort)?;
        *header = [s0, s1, d0, d1, l0, l1, 0, 0];
        // The pseudo-header: RFC 768, and RFC 8200 section 8.1.
        let addresses = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                add(checksum::sum(&source.octets()), checksum::sum(&destination.octets()))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                add(checksum::sum(&source.octets()), checksum::sum(&destination.octets()))
            }
            _ => return Err(EmitError::Contradiction),
        };
        let pseudo = add(add(addresses, u16::from(PROTOCOL)), length);
        // Zero would say that there is no checksum; all ones is the same number and does not.
        let check = match !add(pseudo, checksum::sum(packet)) {
            0 => 0xffff,
            check => check,
        };
        packet[6..HEADER].copy_from_slice(&check.to_be_bytes());
        Ok(())
    }
}

/// One's complement addition: the carry comes in again at the low end.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
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

    /// Counted by hand: 0a00+0001+0a00+0002+0011+000a + 0035+1234+000a+6869 = 8f06 (with carries folded in).
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
    fn what_cannot_be_written_is_an_error() {
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
