//! Boomerang: pings whose data begin with MAGIC, with or without router alert.
//!
//! The kernel answers echo requests for this host, so that raw sockets receive only echo replies.

use crate::signalling_socket::packet_filter::{ICMP, ICMPV6, Local, PacketFilter, Preselection};
use crate::signalling_socket::protocol::{Program, Protocol};

mod delegation;
mod offload;

pub use offload::{
    Activity, ForwardedMessages, Offload, OffloadKey, OffloadSession, SessionActivity, Share,
    ShareChange,
};

/// First octets of the data of Boomerang's messages.
const MAGIC: [u8; 4] = [0x47, 0x11, 0x47, 0x11];
/// Types of an echo request and an echo reply, of ICMP (RFC 792) and of ICMPv6 (RFC 4443).
const ECHO: [u8; 2] = [8, 0];
const ECHO6: [u8; 2] = [128, 129];

pub(crate) const PROTOCOL: Protocol = Protocol {
    programs: &[Program {
        object: include_bytes!("../../../bpf/boomerang.o"),
        section: offload::SECTION,
        name: "earmark_echo",
        is_replaceable: true,
    }],
    filter: PacketFilter {
        ip_protocols: [ICMP, ICMPV6],
        router_alert6: 0,
        preselection: Preselection::IcmpTypes([ECHO[1], ECHO6[1]]),
        is_message,
        local: Local::Copied,
    },
    is_always_received: false,
    port: None,
};

/// Whether an ICMP message is one of Boomerang: an echo request or reply whose data begin with MAGIC.
fn is_message(protocol: u8, message: &[u8]) -> bool {
    let types = if protocol == ICMP { ECHO } else { ECHO6 };
    let [kind, 0, ..] = message else { return false };
    types.contains(kind) && message.get(8..12) == Some(&MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_with_magic_is_a_message() {
        let message = |kind, code, magic: [u8; 4]| {
            let mut message = vec![kind, code, 0, 0, 0, 1, 0, 1];
            message.extend(magic);
            message
        };
        for (protocol, kind, is_one) in [
            (ICMP, 8, true),
            (ICMP, 0, true),
            (ICMP, 128, false),
            (ICMPV6, 128, true),
            (ICMPV6, 129, true),
            (ICMPV6, 0, false),
        ] {
            assert_eq!(is_message(protocol, &message(kind, 0, MAGIC)), is_one);
            assert!(!is_message(protocol, &message(kind, 1, MAGIC)));
            assert!(!is_message(protocol, &message(kind, 0, [0x47, 0x11, 0x47, 0x12])));
            assert!(!is_message(protocol, &message(kind, 0, MAGIC)[..11]));
        }
    }
}
