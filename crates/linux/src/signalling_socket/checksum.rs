//! UDP checksums that hardware was expected to complete.
//!
//! Programs leave the checksum to the interface's hardware, and a packet that arrives from this very machine - another
//! namespace, a container, a virtual machine - passed no hardware. Its checksum field then holds the sum of the
//! pseudo-header only, which hardware would have completed. A node that forwards such a packet through a raw socket
//! must complete it itself.

use std::net::IpAddr;

use earmark_core::Datagram;
use earmark_wire::checksum::sum;

use super::packet_filter::UDP;

/// Octets of the checksum in a UDP header.
const FIELD: std::ops::Range<usize> = 6..8;

/// Completes the checksum of a UDP packet if the sender left that to hardware: the payload is then in `buffer`.
pub(super) fn complete<'a>(datagram: &mut Datagram<'a>, buffer: &'a mut Vec<u8>) {
    let packet = datagram.payload;
    let Some(pseudo) = pseudo_sum(datagram) else { return };
    let Some(present) = packet.get(FIELD).and_then(<[u8]>::first_chunk::<2>) else { return };
    // A packet with a valid checksum may have this value by chance.
    if u16::from_be_bytes(*present) != pseudo || add(sum(packet), pseudo) == 0xffff {
        return;
    }
    // The present value is the pseudo-header's share; 0 would mean that there is no checksum (RFC 768).
    let checksum = match !sum(packet) {
        0 => 0xffff,
        checksum => checksum,
    };
    buffer.clear();
    buffer.extend_from_slice(packet);
    buffer[FIELD].copy_from_slice(&checksum.to_be_bytes());
    datagram.payload = buffer;
}

/// Returns the one's complement sum of the pseudo-header (RFC 768, RFC 8200 section 8.1); `None` if this is no complete
/// UDP packet.
fn pseudo_sum(datagram: &Datagram<'_>) -> Option<u16> {
    let packet = datagram.payload;
    let length = packet.get(4..6)?.first_chunk::<2>().copied().map(u16::from_be_bytes)?;
    if usize::from(length) != packet.len() {
        return None;
    }
    let addresses = match (datagram.source, datagram.destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => add(sum(&a.octets()), sum(&b.octets())),
        (IpAddr::V6(a), IpAddr::V6(b)) => add(sum(&a.octets()), sum(&b.octets())),
        _ => return None,
    };
    Some(add(add(addresses, u16::from(UDP)), length))
}

/// Adds in one's complement.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests {
    use earmark_core::InterfaceId;
    use earmark_wire::udp;
    use proptest::prelude::*;

    use super::*;

    fn datagram<'a>(source: IpAddr, destination: IpAddr, payload: &'a [u8]) -> Datagram<'a> {
        let (interface, ttl) = (InterfaceId(1), 64);
        let (router_alert, encapsulated) = (false, false);
        Datagram { interface, source, destination, ttl, router_alert, encapsulated, payload }
    }

    proptest! {
        /// A checksum left to hardware becomes the one that the kernel would have written; a complete one stays.
        #[test]
        fn checksum_is_completed_once(addresses in any::<[u128; 2]>(), is_ipv4 in any::<bool>(), data in proptest::collection::vec(any::<u8>(), 0..99)) {
            let [source, destination] = addresses.map(|a| match is_ipv4 {
                true => IpAddr::from((a as u32).to_be_bytes()),
                false => IpAddr::from(a.to_be_bytes()),
            });
            let mut whole = vec![0; udp::HEADER + data.len()];
            whole[udp::HEADER..].copy_from_slice(&data);
            udp::Repr { source, destination, source_port: 5_000, destination_port: 5_001 }.emit(&mut whole).expect("fits");
            let mut buffer = Vec::new();
            let mut same = datagram(source, destination, &whole);
            complete(&mut same, &mut buffer);
            prop_assert_eq!(same.payload, &whole[..]);

            let mut left = whole.clone();
            let pseudo = pseudo_sum(&datagram(source, destination, &left)).expect("whole");
            left[FIELD].copy_from_slice(&pseudo.to_be_bytes());
            let mut buffer = Vec::new();
            let mut finished = datagram(source, destination, &left);
            complete(&mut finished, &mut buffer);
            prop_assert_eq!(finished.payload, &whole[..]);
        }
    }
}
