//! Link-layer headers of captured frames.

use earmark_wire::{checksum, ipv4, ipv6, udp};
use pcap_parser::Linktype;

/// An IP packet from its header to the end of the captured octets; padding of the frame may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    V4(&'a [u8]),
    V6(&'a [u8]),
}

/// Error: the link type is unsupported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownLinkType;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet types of VLAN tags: 802.1Q, 802.1ad, and the older one for nested tags.
const ETHERTYPES_VLAN: [[u8; 2]; 3] = [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]];

/// Numbers of `LINKTYPE_RAW` on some systems.
const RAW_ELSEWHERE: [i32; 2] = [12, 14];
/// Link types of raw IPv4 and raw IPv6, which imply the family.
const RAW_IPV4: i32 = 228;
const RAW_IPV6: i32 = 229;
/// Link type of Linux cooked, version 2.
const SLL2: i32 = 276;

/// The IP packet in a frame; `None` if the frame carries something else, or ends before a packet begins.
pub(super) fn packet(
    link_type: Option<Linktype>,
    frame: &[u8],
) -> Result<Option<Packet<'_>>, UnknownLinkType> {
    Ok(match link_type.ok_or(UnknownLinkType)? {
        // Two addresses of six octets precede the type.
        Linktype::ETHERNET => frame.get(12..).and_then(by_ethertype),
        // The type is at the end of a header of 16 octets.
        Linktype::LINUX_SLL => frame.get(14..).and_then(by_ethertype),
        // The type is at the start of a header of 20 octets.
        Linktype(SLL2) => {
            let protocol = frame.first_chunk().copied();
            protocol.zip(frame.get(20..)).and_then(|(protocol, rest)| of_type(protocol, rest))
        }
        Linktype::RAW => by_version(frame),
        Linktype(number) if RAW_ELSEWHERE.contains(&number) => by_version(frame),
        Linktype(RAW_IPV4) => Some(Packet::V4(frame)),
        Linktype(RAW_IPV6) => Some(Packet::V6(frame)),
        // Four octets of address family, with the number and byte order of the capturing machine. The version in the IP
        // header is used instead.
        Linktype::NULL | Linktype::LOOP => frame.get(4..).and_then(by_version),
        _ => return Err(UnknownLinkType),
    })
}

/// The packet behind an Ethernet type and any VLAN tags.
fn by_ethertype(mut octets: &[u8]) -> Option<Packet<'_>> {
    loop {
        let (ethertype, rest) = octets.split_first_chunk::<2>()?;
        if !ETHERTYPES_VLAN.contains(ethertype) {
            return of_type(*ethertype, rest);
        }
        // Two octets of tag precede the type of the payload.
        octets = rest.get(2..)?;
    }
}

fn of_type(ethertype: [u8; 2], rest: &[u8]) -> Option<Packet<'_>> {
    match ethertype {
        ETHERTYPE_IPV4 => Some(Packet::V4(rest)),
        ETHERTYPE_IPV6 => Some(Packet::V6(rest)),
        _ => None,
    }
}

fn by_version(octets: &[u8]) -> Option<Packet<'_>> {
    match octets.first()? >> 4 {
        4 => Some(Packet::V4(octets)),
        6 => Some(Packet::V6(octets)),
        _ => None,
    }
}

/// Returns a packet of which only the beginning was captured, with lengths of IP and UDP that are those of the beginning. `None`
/// if it is not the length that is wrong in the header of IP.
pub(super) fn beginning(packet: Packet<'_>) -> Option<Vec<u8>> {
    let (mut octets, at, header) = match packet {
        Packet::V4(octets) => match ipv4::Packet::parse(octets).err()? {
            ipv4::HeaderError::TotalLength(total) if total > octets.len() => {
                (octets.to_vec(), 2, 4 * usize::from(octets.first()? & 0x0f))
            }
            _ => return None,
        },
        Packet::V6(octets) => match ipv6::Packet::parse(octets).err()? {
            ipv6::HeaderError::PayloadLength(_) => (octets.to_vec(), 4, IPV6_HEADER),
            _ => return None,
        },
    };
    let counted = if at == 2 { octets.len() } else { octets.len() - IPV6_HEADER };
    put(&mut octets, at, u16::try_from(counted).ok()?)?;
    if at == 2 {
        put(&mut octets, 10, 0)?;
        let check = checksum::checksum(octets.get(..header)?);
        put(&mut octets, 10, check)?;
    }
    let protocol = octets.get(if at == 2 { 9 } else { 6 }).copied()?;
    if protocol == udp::PROTOCOL {
        let length = u16::try_from(octets.len() - header).ok()?;
        // Without the whole header of UDP, nothing is recognized.
        put(&mut octets, header + 4, length)?;
    }
    Some(octets)
}

/// Length of the header of IPv6, octets.
const IPV6_HEADER: usize = 40;

fn put(octets: &mut [u8], at: usize, number: u16) -> Option<()> {
    *octets.get_mut(at..)?.first_chunk_mut()? = number.to_be_bytes();
    Some(())
}
