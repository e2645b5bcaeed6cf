//! Packets that can be messages of a protocol: the selection by which raw sockets receive them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::sys::socket::{attach_filter, set_structure};

/// IP protocol numbers.
pub(super) const ICMP: u8 = 1;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

/// Options of ICMP filters (`include/uapi/linux/icmp.h`, `icmpv6.h`). Types with their bit set are dropped.
const ICMP_FILTER: i32 = 1;
const ICMP6_FILTER: i32 = 1;
const SOL_RAW: i32 = 255;

/// Operations of socket filters (`include/uapi/linux/bpf_common.h`); offsets of `_X` count from the index register.
const LOAD_OCTET_X: u16 = 0x50;
const LOAD_HEADER_LENGTH_X: u16 = 0xb1;
const COPY_X: u16 = 0x87;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER: u16 = 0x25;
const LOAD_X: u16 = 0x01;
const RETURN: u16 = 0x06;
/// Octets of an IPv4 header without options.
const IPV4_HEADER: u32 = 20;

/// Packets that can be messages of one protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketFilter {
    /// IP protocol numbers over IPv4 and over IPv6.
    pub(super) ip_protocols: [u8; 2],
    /// Value of router alert in messages over IPv6 (RFC 2711).
    pub(super) router_alert6: u16,
    /// Preselection by the kernel, of packets for this host.
    pub(super) preselection: Preselection,
    /// Whether a packet is a message: IP protocol, octets from the transport header on.
    pub(super) is_message: fn(u8, &[u8]) -> bool,
    /// Treatment of messages for this host.
    pub(super) local: Local,
}

/// Treatment of messages for this host, and of messages to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// The daemon alone receives them, those to groups too.
    Consumed,
    /// The daemon alone receives them; groups are not supported.
    ConsumedUnicast,
    /// An application, or the kernel, receives them too; groups are not supported.
    Copied,
}

/// Preselection of packets for this host.
#[derive(Clone, Copy, Debug)]
pub(super) enum Preselection {
    /// All packets of the IP protocol.
    All,
    /// ICMP and ICMPv6 messages of these types.
    IcmpTypes([u8; 2]),
    /// UDP packets in which all these octets match: offset from the UDP header, mask, value. Over IPv4, packets with IP
    /// options are accepted too. Protocols inside UDP share the sockets and preselections.
    UdpOctets(&'static [(u32, u8, u8)]),
}

impl PacketFilter {
    /// Returns the filter of a protocol that has an IP protocol number of its own: all its packets with router alert
    /// (value 0), and those for this host, are messages.
    pub(super) const fn of_ip_protocol(number: u8) -> PacketFilter {
        PacketFilter {
            ip_protocols: [number, number],
            router_alert6: 0,
            preselection: Preselection::All,
            is_message: |_, _| true,
            local: Local::Consumed,
        }
    }

    /// Applies the preselection to a raw socket. `all`: the filters of all protocols, of which some may share it.
    pub(super) fn preselect(
        &self,
        socket: &OwnedFd,
        is_ipv4: bool,
        all: &[PacketFilter],
    ) -> io::Result<()> {
        match (self.preselection, is_ipv4) {
            (Preselection::All, _) => Ok(()),
            (Preselection::IcmpTypes([wanted, _]), true) => {
                let unwanted = !(1_u32 << wanted);
                set_structure(socket.as_fd(), SOL_RAW, ICMP_FILTER, &unwanted.to_ne_bytes())
            }
            (Preselection::IcmpTypes([_, wanted]), false) => {
                let mut unwanted = [u32::MAX; 8];
                unwanted[usize::from(wanted >> 5)] &= !(1 << (wanted & 31));
                let octets: Vec<u8> = unwanted.into_iter().flat_map(u32::to_ne_bytes).collect();
                set_structure(socket.as_fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, &octets)
            }
            (Preselection::UdpOctets(_), _) => {
                let tests = all.iter().filter_map(|filter| match filter.preselection {
                    Preselection::UdpOctets(octets) => Some(octets),
                    _ => None,
                });
                attach_filter(socket.as_fd(), &udp_program(is_ipv4, tests))
            }
        }
    }
}

/// Returns an instruction of a socket filter: operation, instructions to skip if true and if false, operand.
pub(super) const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Returns the program that accepts UDP packets in which the octets of one of the tests match. Over IPv6 the kernel has
/// removed the IP header.
fn udp_program<'a>(
    is_ipv4: bool,
    tests: impl Iterator<Item = &'a [(u32, u8, u8)]>,
) -> Vec<libc::sock_filter> {
    let accept = instruction(RETURN, 0, 0, u32::MAX);
    let mut program = match is_ipv4 {
        true => vec![
            instruction(LOAD_HEADER_LENGTH_X, 0, 0, 0),
            instruction(COPY_X, 0, 0, 0),
            instruction(JUMP_IF_GREATER, 0, 1, IPV4_HEADER),
            accept,
        ],
        false => vec![instruction(LOAD_X, 0, 0, 0)],
    };
    for octets in tests {
        for ((offset, mask, value), left) in octets.iter().zip((0..octets.len()).rev()) {
            program.push(instruction(LOAD_OCTET_X, 0, 0, *offset));
            program.push(instruction(AND, 0, 0, (*mask).into()));
            // Three instructions for each other octet, and the acceptance; there are few.
            let next_test = 3 * left as u8 + 1;
            program.push(instruction(JUMP_IF_EQUAL, 0, next_test, (*value).into()));
        }
        program.push(accept);
    }
    program.push(instruction(RETURN, 0, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program on a packet as the kernel would; returns whether it accepts.
    fn accepts(program: &[libc::sock_filter], packet: &[u8]) -> bool {
        let (mut accumulator, mut index, mut at) = (0_u32, 0_u32, 0_usize);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = |is_so: bool| usize::from(if is_so { jt } else { jf });
            match code {
                LOAD_OCTET_X => match packet.get((index + k) as usize) {
                    Some(&octet) => accumulator = octet.into(),
                    None => return false,
                },
                LOAD_HEADER_LENGTH_X => index = u32::from(packet[k as usize] & 0xf) * 4,
                LOAD_X => index = k,
                COPY_X => accumulator = index,
                AND => accumulator &= k,
                JUMP_IF_EQUAL => at += jump(accumulator == k),
                JUMP_IF_GREATER => at += jump(accumulator > k),
                RETURN => return k > 0,
                _ => panic!("unexpected operation {code:#x}"),
            }
        }
    }

    #[test]
    fn udp_packet_that_fails_every_test_is_dropped() {
        let tests: [&[(u32, u8, u8)]; 2] = [&[(2, 0xff, 1), (3, 0xff, 14)], &[(8, 0xc0, 0x80)]];
        let packet = |port: u16, data: u8| {
            let mut packet = vec![0, 9];
            packet.extend(port.to_be_bytes());
            packet.extend([0, 12, 0, 0, data]);
            packet
        };
        let ipv6 = udp_program(false, tests.into_iter());
        let ipv4 = udp_program(true, tests.into_iter());
        for (port, data, expected) in [
            (270, 0, true),
            (14, 0, false),
            (271, 0, false),
            (271, 0x80, true),
            (271, 0xbf, true),
            (271, 0xc0, false),
        ] {
            let packet = packet(port, data);
            assert_eq!(accepts(&ipv6, &packet), expected, "{port} {data}");
            let whole = [&[0x45; 1][..], &[0; 19], &packet].concat();
            assert_eq!(accepts(&ipv4, &whole), expected, "{port} {data}");
            let with_options = [&[0x46; 1][..], &[0; 23], &packet].concat();
            assert!(accepts(&ipv4, &with_options));
        }
    }
}
