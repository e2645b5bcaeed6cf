//! The signalling protocols: one module for each, and the table by which the socket knows them.
//!
//! A protocol is described by a [`Protocol`]: the programs that intercept its messages, and a [`PacketFilter`] for raw
//! sockets, which replace the programs if BPF is unavailable. The rest of the socket works on this table and names no
//! protocol. A protocol without a module here is received through raw sockets alone
//! ([`PacketFilter::of_ip_protocol`]).

mod boomerang;
mod nsis;
mod rsvp;
mod yessir;

pub use boomerang::{
    Activity, ForwardedMessages, Offload, OffloadKey, OffloadSession, SessionActivity, Share,
    ShareChange,
};
pub use nsis::Gist;
pub(super) use rsvp::INSIDE_UDP;
pub use rsvp::Intercept;
pub(super) use rsvp::udp::UdpSockets;
pub(crate) use rsvp::{CLAIM_NAME, OWN_IP_PROTOCOLS};
pub use yessir::Yessir;

use super::protocol::{Program, Protocol};

/// Signalling settings of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSignalling {
    /// RSVP messages.
    pub intercept: Intercept,
    /// Whether hosts on the link signal inside UDP (RFC 2205 appendix C): messages in UDP are received, and those that
    /// follow the data leave both raw and inside UDP.
    pub udp: bool,
    /// Whether Boomerang messages are intercepted: pings whose data begin with MAGIC. If BPF is unavailable, only those
    /// with router alert are received in transit, hence no replies of hosts that do not copy the option.
    pub boomerang: bool,
    /// YESSIR messages.
    pub yessir: Yessir,
    /// Whether sender reports of RTP applications without YESSIR are copied. Needs BPF.
    pub sender_reports: bool,
    /// GIST messages.
    pub gist: Gist,
}

/// A protocol of the table.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) protocol: Protocol,
    /// Whether an interface with these settings needs the program in a section.
    is_needed: fn(&str, &InterfaceSignalling) -> bool,
}

/// All signalling protocols. The first program of the first one must load, or there is no interception at all.
pub(super) static PROTOCOLS: [Known; 4] = [
    Known {
        protocol: rsvp::PROTOCOL,
        is_needed: |section, how| rsvp::is_needed(section, how.intercept),
    },
    Known { protocol: boomerang::PROTOCOL, is_needed: |_, how| how.boomerang },
    Known {
        protocol: yessir::PROTOCOL,
        is_needed: |section, how| yessir::is_needed(section, how.yessir, how.sender_reports),
    },
    Known {
        protocol: nsis::PROTOCOL,
        is_needed: |section, how| nsis::is_needed(section, how.gist),
    },
];

impl Known {
    /// Whether an interface with these settings needs a program of this protocol.
    pub(super) fn needs(&self, program: &Program, how: &InterfaceSignalling) -> bool {
        (self.is_needed)(program.section, how)
    }

    /// Returns the programs of this protocol that an interface with these settings needs.
    pub(super) fn needed(
        &self,
        how: &InterfaceSignalling,
    ) -> impl Iterator<Item = &'static Program> {
        self.protocol.programs.iter().filter(move |program| self.needs(program, how))
    }
}

/// Returns the value of IPv6's router alert (RFC 2711) for messages of an IP protocol.
pub(super) fn router_alert6(ip_protocol: u8) -> u16 {
    let known = PROTOCOLS.iter().find(|known| known.protocol.filter.ip_protocols[1] == ip_protocol);
    known.map_or(0, |known| known.protocol.filter.router_alert6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf_object;

    /// Returns the number of instructions that load this map.
    fn loads(code: &[u8], map: i32) -> usize {
        let is_load = |i: &&[u8]| i[0] == 0x18 && i[1] >> 4 == 1 && i[4..8] == map.to_le_bytes();
        code.chunks_exact(8).filter(is_load).count()
    }

    #[test]
    fn program_of_each_protocol_is_linked_to_its_maps() {
        for program in PROTOCOLS.iter().flat_map(|known| known.protocol.programs) {
            let maps = [
                ("messages", 0x1234),
                ("ring", 0x4321),
                ("ports", 0x5678),
                ("sessions", 7),
                ("node", 8),
                ("links", 9),
                ("shares", 10),
                ("initiators", 11),
                ("allowances", 12),
            ];
            let Program { object, section, .. } = program;
            let code = bpf_object::link(object, section, &maps).expect("linked");
            assert!(loads(&code, 0x1234) > 0 && loads(&code, 0x4321) > 0, "{section}");
            assert!(bpf_object::link(object, section, &[("messages", 0x1234)]).is_err());
            assert!(bpf_object::link(object, "nothing", &maps).is_err());
        }
    }
}
