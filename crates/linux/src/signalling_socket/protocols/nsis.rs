//! GIST (RFC 5971), the transport of NSIS: UDP packets to port 270 that begin with its magic number.

use crate::signalling_socket::packet_filter::{Local, PacketFilter, Preselection, UDP};
use crate::signalling_socket::protocol::{Program, Protocol};

/// UDP port of GIST (RFC 5971 section 9).
const PORT: u16 = 270;
/// First octets of the data (RFC 5971 section 5.3.1).
const MAGIC: [u8; 4] = [0x4e, 0x04, 0xbd, 0xa5];

const OBJECT: &[u8] = include_bytes!("../../../bpf/nsis.o");

pub(crate) const PROTOCOL: Protocol = Protocol {
    programs: &[
        Program { object: OBJECT, section: "gist", name: "earmark_gist", is_replaceable: true },
        Program {
            object: OBJECT,
            section: "gist_port",
            name: "earmark_gport",
            is_replaceable: false,
        },
    ],
    filter: PacketFilter {
        ip_protocols: [UDP, UDP],
        router_alert6: 0,
        preselection: Preselection::UdpOctets(&[
            (2, 0xff, PORT.to_be_bytes()[0]),
            (3, 0xff, PORT.to_be_bytes()[1]),
        ]),
        is_message: |_, packet| is_message(packet),
        // The kernel's own copy goes to the open port, which nobody reads.
        local: Local::ConsumedUnicast,
    },
    is_always_received: false,
    port: Some(PORT),
};

/// Whether an interface with this setting needs the program in a section.
pub(crate) fn is_needed(section: &str, setting: Gist) -> bool {
    match setting {
        Gist::Off => false,
        Gist::RouterAlert => section == "gist",
        Gist::Port => section == "gist_port",
    }
}

/// GIST messages in transit that are intercepted among the packets that arrive through an interface. Those for this
/// host are always received, except with `Off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gist {
    /// None, also not those for this host.
    #[default]
    Off,
    /// Messages with router alert of any value (RFC 5971 section 5.3.2.1).
    RouterAlert,
    /// All Queries to the GIST port, for neighbours that never set router alert.
    Port,
}

/// Whether a UDP packet goes to the port of GIST and begins with its magic number.
fn is_message(packet: &[u8]) -> bool {
    packet.get(2..4) == Some(&PORT.to_be_bytes()) && packet.get(8..12) == Some(&MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_to_port_with_magic_is_a_message() {
        let message = |port: u16, magic: [u8; 4]| {
            let mut packet = vec![0, 9];
            packet.extend(port.to_be_bytes());
            packet.extend([0, 12, 0, 0]);
            packet.extend(magic);
            packet
        };
        assert!(is_message(&message(270, MAGIC)));
        assert!(!is_message(&message(271, MAGIC)));
        assert!(!is_message(&message(270, [0x4e, 0x04, 0xbd, 0xa6])));
        assert!(!is_message(&message(270, MAGIC)[..11]));
    }
}
