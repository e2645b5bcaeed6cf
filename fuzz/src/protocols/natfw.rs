//! NATFW NSLP: sessions of firewalls, translators and ends, in messages of GIST. The stranger also answers the handshakes of
//! the nodes, so that it becomes a peer with routing state.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::FilterAction;
use earmark_node::{Command, NodeConfig};
use earmark_nsis as nsis;
use earmark_nsis::natfw::{
    self, Application, ExposeRequest, OpenRequest, Responder, Rule, Translator,
};
use earmark_wire::natfw_nslp::iana::NSLPID;
use earmark_wire::natfw_nslp::{
    Create, DataTerminal, ExtendedFlow, External, ExternalAddress, ExternalBinding, Extra, Info,
    Message, Nonce, Notify, Outcome, ProxyMode, Response, RuleAction, TransportSelector,
};
use earmark_wire::udp;

use super::Protocol;
use super::nsis::{Nsis, attributes};
use crate::draw::Draw;
use crate::invariants::Limits;
use crate::network::Network;
use crate::packet::Packet;
use crate::topology;

/// NATFW NSLP.
pub struct Natfw;

const NSIS: Nsis = Nsis { data: message_of, nslpids: &[NSLPID, NSLPID, NSLPID, 1, 40_000] };

impl Protocol for Natfw {
    fn configure(&self, draw: &mut Draw<'_>, config: &mut NodeConfig) -> Limits {
        let mut limits = NSIS.configure(draw, config);
        let options = draw.octet();
        let set = |bit: u8| options >> bit & 1 == 1;
        let sessions = draw.one_of(&[6_u32, 2]);
        let interfaces = ["eth1", "eth2", "eth3", "eth4"];
        let mut rule = Rule { wildcards: set(0), deny: set(1), ..Rule::default() };
        rule.per_user = set(2).then_some(2);
        let natfw = &mut config.nsis.natfw;
        natfw.enabled = true;
        natfw.firewall = set(3);
        natfw.external = draw.list(2, |draw| draw.one_of(&interfaces).to_owned());
        natfw.edge = set(4);
        let ports = Translator { first_port: 4_000, last_port: 4_003, ..Translator::default() };
        natfw.translator = set(5).then_some(ports);
        natfw.responder = if set(6) { Responder::Any } else { Responder::Exposed };
        natfw.signaling_destination = Some(topology::destination(draw));
        natfw.attributes.reliable = set(7);
        natfw.rules = vec![rule];
        natfw.limits.sessions = sessions;
        natfw.limits.icmp_types = 2;
        limits.push(("natfw_nslp", "sessions", sessions as usize));
        limits
    }

    fn command(&self, draw: &mut Draw<'_>, _: usize, application: u64) -> Command {
        let application = Application(application);
        let lifetime = draw.maybe(|draw| Duration::from_secs(draw.one_of(&[60, 5, 0])));
        let proxy = proxy(draw);
        let command = match draw.flag() {
            true => natfw::Command::Open {
                application,
                request: OpenRequest {
                    source: None,
                    source_port: draw.maybe(|_| 4_000),
                    destination: topology::destination(draw),
                    destination_port: draw.maybe(port),
                    protocol: draw.maybe(|draw| draw.one_of(&[udp::PROTOCOL, 1, 50])),
                    spi: draw.maybe(|_| 7),
                    next_port: draw.flag(),
                    icmp_types: draw.list(3, Draw::octet),
                    proxy,
                    lifetime,
                    attributes: draw.maybe(attributes),
                    token: None,
                },
            },
            false => natfw::Command::Expose {
                application,
                request: ExposeRequest {
                    address: None,
                    port: port(draw),
                    protocol: udp::PROTOCOL,
                    from: draw.maybe(topology::destination),
                    from_port: draw.maybe(|_| 4_000),
                    next_port: draw.flag(),
                    action: draw.one_of(&[FilterAction::Allow, FilterAction::Deny]),
                    untranslated: draw.flag(),
                    proxy,
                    lifetime,
                    attributes: draw.maybe(attributes),
                    token: None,
                },
            },
        };
        Command::Nsis(nsis::Command::Natfw(command))
    }

    fn release(&self, application: u64) -> Vec<Command> {
        let release = natfw::Command::Release { application: Application(application) };
        vec![Command::Nsis(nsis::Command::Natfw(release))]
    }

    fn message(&self, draw: &mut Draw<'_>, network: &Network) -> Option<Packet> {
        NSIS.message(draw, network)
    }

    fn ip_protocol(&self, destination: IpAddr) -> u8 {
        NSIS.ip_protocol(destination)
    }

    fn is_message(&self, packet: &Packet) -> bool {
        NSIS.is_message(packet)
    }

    fn is_forwarded(&self, received: &[u8], sent: &[u8]) -> bool {
        NSIS.is_forwarded(received, sent)
    }

    fn framed(&self, octets: &[u8]) -> Vec<u8> {
        NSIS.framed(octets)
    }

    fn stream(&self, draw: &mut Draw<'_>, network: &Network) -> Vec<u8> {
        NSIS.stream(draw, network)
    }

    fn port(&self) -> u16 {
        NSIS.port()
    }
}

fn port(draw: &mut Draw<'_>) -> u16 {
    5_000 + u16::from(draw.octet() & 1)
}

fn proxy(draw: &mut Draw<'_>) -> ProxyMode {
    draw.one_of(&[ProxyMode::Off, ProxyMode::Off, ProxyMode::Edge, ProxyMode::EdgeAndOnward])
}

/// Draws a message of NATFW NSLP.
fn message_of(draw: &mut Draw<'_>) -> Option<Vec<u8>> {
    let proxy = proxy(draw);
    let lifetime = draw.one_of(&[60, 5, 0, u32::MAX]);
    let msn = draw.one_of(&[0_u32, 1, 2, u32::MAX]);
    let extended_flow = ExtendedFlow {
        action: draw.one_of(&[RuleAction::Allow, RuleAction::Allow, RuleAction::Deny]),
        next_port: draw.flag(),
    };
    let nonce = (proxy.is_proxy() || draw.flag()).then_some(Nonce(0x0101_0101));
    let types = draw.list(3, Draw::octet);
    let icmp_types = (!types.is_empty()).then_some(&types[..]);
    let outcome = Outcome::from_codes(draw.octet() & 7, draw.octet() & 15);
    let message = match draw.below(6) {
        0 | 1 => Message::Create(Create {
            proxy,
            lifetime,
            extended_flow,
            msn,
            nonce,
            icmp_types,
            extra: Extra::NONE,
        }),
        2 => Message::External(External {
            proxy,
            lifetime,
            msn,
            extended_flow,
            data_terminal: DataTerminal {
                sender: Ipv4Addr::UNSPECIFIED,
                sender_prefix: 0,
                transport: TransportSelector::Ports {
                    protocol: udp::PROTOCOL,
                    destination: port(draw),
                    source: 0,
                },
            },
            nonce,
            icmp_types,
            external_binding: draw.maybe(|_| ExternalBinding { port: 0, wire: &[] }),
            extra: Extra::NONE,
        }),
        3 | 4 => Message::Response(Response {
            lifetime: Some(lifetime),
            msn,
            info: Info::new(Outcome::from_codes(draw.one_of(&[2, 5, 7]), 1)),
            external_address: draw
                .maybe(|_| ExternalAddress { address: Ipv4Addr::new(203, 0, 113, 1), port: 7 }),
            external_binding: None,
            extra: Extra::NONE,
        }),
        _ => Message::Notify(Notify { msn: None, info: Info::new(outcome), extra: Extra::NONE }),
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).ok()?;
    Some(octets)
}
