//! YESSIR: RTCP compounds (RFC 3550 section 6.1) that hold an APP packet named YSSR.
//!
//! A message for this host is copied, so that the application still receives its report.

use crate::signalling_socket::packet_filter::{Local, PacketFilter, Preselection, UDP};
use crate::signalling_socket::protocol::{Program, Protocol};

const NAME: [u8; 4] = *b"YSSR";
/// Packet types of RTCP (RFC 3550 section 12.1).
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const APPLICATION: u8 = 204;

const OBJECT: &[u8] = include_bytes!("../../../bpf/yessir.o");

pub(crate) const PROTOCOL: Protocol = Protocol {
    programs: &[
        Program {
            object: OBJECT,
            section: "alerted",
            name: "earmark_alerted",
            is_replaceable: true,
        },
        Program { object: OBJECT, section: "any", name: "earmark_any", is_replaceable: false },
        Program {
            object: OBJECT,
            section: "reports",
            name: "earmark_reports",
            is_replaceable: false,
        },
    ],
    filter: PacketFilter {
        ip_protocols: [UDP, UDP],
        router_alert6: 0,
        // The data begin with RTCP version 2, and packet type 200 or 201.
        preselection: Preselection::UdpOctets(&[(8, 0xc0, 0x80), (9, 0xfe, SENDER_REPORT)]),
        is_message: |_, packet| is_message(packet),
        local: Local::Copied,
    },
    is_always_received: false,
    port: None,
};

/// Whether an interface with these settings needs the program in a section.
pub(crate) fn is_needed(section: &str, setting: Yessir, sender_reports: bool) -> bool {
    match section {
        "reports" => sender_reports,
        "alerted" => setting == Yessir::RouterAlert,
        _ => setting == Yessir::Always,
    }
}

/// YESSIR messages that are intercepted among the packets that arrive through an interface. Those for this host are
/// copied, so that the application still receives its reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Yessir {
    /// None.
    #[default]
    Off,
    /// Messages with router alert.
    RouterAlert,
    /// All UDP packets with an RTCP compound that holds an APP packet named YSSR, for networks that remove options.
    Always,
}

/// Whether a UDP packet holds an RTCP compound that begins with a report and has YSSR in it.
fn is_message(packet: &[u8]) -> bool {
    let Some(mut rest) = packet.get(8..) else { return false };
    let mut is_first = true;
    while let Some(&[first, kind, high, low]) = rest.first_chunk::<4>() {
        let length = (usize::from(u16::from_be_bytes([high, low])) + 1) * 4;
        if first >> 6 != 2 || is_first && ![SENDER_REPORT, RECEIVER_REPORT].contains(&kind) {
            return false;
        }
        if kind == APPLICATION && rest.get(8..12) == Some(&NAME) {
            return true;
        }
        let Some(behind) = rest.get(length..) else { return false };
        (rest, is_first) = (behind, false);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a UDP header, a sender report without blocks, and an APP packet of that name.
    fn compound(name: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 8];
        packet.extend([0x80, SENDER_REPORT, 0, 6]);
        packet.extend([0; 24]);
        packet.extend([0x81, APPLICATION, 0, 2, 0, 0, 0, 1]);
        packet.extend(name);
        packet
    }

    #[test]
    fn rtcp_compound_with_yssr_is_a_message() {
        let packet = compound(NAME);
        assert!(is_message(&packet));
        assert!(!is_message(&compound(*b"RSSY")));
        for length in 0..packet.len() {
            assert!(!is_message(&packet[..length]), "{length}");
        }
        for (at, octet) in [(8, 0), (9, 204), (10, 1), (11, 5), (11, 7), (36, 0)] {
            let mut other = packet.clone();
            other[at] = octet;
            assert!(!is_message(&other), "{at}");
        }
    }
}
