//! RSVP (RFC 2205): IP protocol 46, or inside UDP ([`udp`]).

use earmark_wire::rsvp::iana::ROUTER_ALERT;

use crate::signalling_socket::packet_filter::{Local, PacketFilter, Preselection};
use crate::signalling_socket::protocol::{Program, Protocol};

pub(crate) mod udp;

/// IP protocol number of RSVP (RFC 2205 section 3.11.1).
pub(crate) const IP_PROTOCOL: u8 = 46;

/// IP protocols that are those of signalling alone: RSVP, and RSVP that only the edges of a core process (RFC 3175).
pub(crate) const OWN_IP_PROTOCOLS: [u8; 2] = [IP_PROTOCOL, 134];

/// Name of the protocol that can be inside UDP.
pub(crate) const INSIDE_UDP: &str = "RSVP";

/// Abstract name of the socket that claims a network namespace, the same in all versions of the daemon.
pub(crate) const CLAIM_NAME: &[u8] = b"earmark-rsvp";

const OBJECT: &[u8] = include_bytes!("../../../bpf/rsvp.o");

/// Raw sockets receive messages with router alert and messages for this host; to groups only sometimes. The programs take
/// these before, because they keep the messages of ports apart.
pub(crate) const PROTOCOL: Protocol = Protocol {
    programs: &[
        Program {
            object: OBJECT,
            section: "router_alert",
            name: "earmark_rsvp",
            is_replaceable: true,
        },
        Program { object: OBJECT, section: "all", name: "earmark_all", is_replaceable: false },
    ],
    filter: PacketFilter {
        ip_protocols: [IP_PROTOCOL, IP_PROTOCOL],
        router_alert6: ROUTER_ALERT,
        preselection: Preselection::All,
        is_message: |_, _| true,
        local: Local::Consumed,
    },
    is_always_received: true,
    port: None,
};

/// Whether an interface with this setting needs the program in a section.
pub(crate) fn is_needed(section: &str, setting: Intercept) -> bool {
    match setting {
        Intercept::RouterAlert => section == "router_alert",
        Intercept::Protocol => section == "all",
    }
}

/// RSVP messages that are intercepted among the packets that arrive through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intercept {
    /// Messages with router alert, messages for this host, and messages to groups.
    #[default]
    RouterAlert,
    /// All of protocol 46, for neighbours that never set router alert.
    Protocol,
}
