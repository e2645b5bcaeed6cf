//! Messages that the node sends, as lines of a story.

use std::net::{IpAddr, Ipv4Addr};

use earmark_testkit::conformance::words::Fault;
use earmark_wire::gist::SessionId;
use earmark_wire::natfw_nslp::{
    DataTerminal, ExtendedFlow, ExternalAddress, ExternalBinding, Extra, Info, Message, Nonce,
    ProxyMode, TransportSelector,
};

use crate::names::{Addresses, Names, protocol_text};

pub(crate) use crate::objects::compose;

/// Returns the name of a message, its flags, and its objects in the order of RFC 5973 section 4.3, one line each.
pub(crate) fn show(
    octets: &[u8],
    (session, names): (SessionId, &mut Names),
) -> Result<(&'static str, &'static str, Vec<String>), Fault> {
    let message = Message::parse(octets).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    let mut proxy = ProxyMode::Off;
    match &message {
        Message::Create(create) => {
            proxy = create.proxy;
            lines.push(format!("NATFW_LT {}", create.lifetime));
            lines.push(flow_text(create.extended_flow));
            lines.push(format!("NATFW_MSN {}", names.of_msn(session, create.msn)));
            lines.extend(create.nonce.map(|nonce| nonce_text(nonce, names)));
            lines.extend(create.icmp_types.map(icmp_text));
            lines.extend(extra_lines(&create.extra));
        }
        Message::External(external) => {
            proxy = external.proxy;
            lines.push(format!("NATFW_LT {}", external.lifetime));
            lines.push(format!("NATFW_MSN {}", names.of_msn(session, external.msn)));
            lines.push(flow_text(external.extended_flow));
            lines.push(terminal_text(&external.data_terminal));
            lines.extend(external.nonce.map(|nonce| nonce_text(nonce, names)));
            lines.extend(external.icmp_types.map(icmp_text));
            lines.extend(external.external_binding.map(binding_text));
            lines.extend(extra_lines(&external.extra));
        }
        Message::Response(response) => {
            lines.extend(response.lifetime.map(|lifetime| format!("NATFW_LT {lifetime}")));
            lines.push(format!("NATFW_MSN {}", names.of_msn(session, response.msn)));
            lines.push(format!("NATFW_INFO {}", info_text(&response.info)));
            lines.extend(response.external_address.map(address_text));
            lines.extend(response.external_binding.map(binding_text));
            lines.extend(extra_lines(&response.extra));
        }
        Message::Notify(notify) => {
            let msn = notify.msn.map(|msn| format!("NATFW_MSN {}", names.of_msn(session, msn)));
            lines.extend(msn);
            lines.push(format!("NATFW_INFO {}", info_text(&notify.info)));
            lines.extend(extra_lines(&notify.extra));
        }
    }
    let flags = match proxy {
        ProxyMode::Off => "",
        ProxyMode::Edge => " proxy",
        ProxyMode::EdgeAndOnward => " proxy end-to-end",
    };
    Ok((message.message_type().name(), flags, lines))
}

/// Returns class, code and name: `7 3 (no reservation found ...)`, and the object at fault.
pub(crate) fn info_text(info: &Info) -> String {
    let Info { outcome, object } = info;
    let (class, code) = (outcome.class().code(), outcome.code());
    let at = object.map(|object| format!(" object={:#05x}", object.code())).unwrap_or_default();
    format!("{class} {code}{at} ({})", outcome.name())
}

fn flow_text(flow: ExtendedFlow) -> String {
    let next_port = if flow.next_port { " sub_ports=1" } else { "" };
    format!("NATFW_EFI {}{next_port}", flow.action.name())
}

fn nonce_text(Nonce(nonce): Nonce, names: &Names) -> String {
    format!("NATFW_NONCE {}", names.of_nonce(nonce))
}

fn icmp_text(types: &[u8]) -> String {
    types.iter().fold("NATFW_ICMP_TYPES".into(), |text, kind| format!("{text} {kind}"))
}

fn terminal_text(terminal: &DataTerminal) -> String {
    let sender = match (terminal.sender, terminal.sender_prefix) {
        (Ipv4Addr::UNSPECIFIED, 0) => "any".into(),
        (sender, prefix) => Addresses { address: IpAddr::V4(sender), prefix, port: None }.text(),
    };
    let protocol = terminal.transport.protocol();
    let protocol = protocol.map(|it| format!(" protocol={}", protocol_text(it)));
    let rest = match terminal.transport {
        TransportSelector::Any | TransportSelector::Protocol(_) => String::new(),
        TransportSelector::Ports { destination, source: 0, .. } => {
            format!(" dr-port={destination}")
        }
        TransportSelector::Ports { destination, source, .. } => {
            format!(" dr-port={destination} ds-port={source}")
        }
        TransportSelector::Spi { spi, .. } => format!(" spi={spi}"),
    };
    format!("NATFW_DTINFO sender={sender}{}{rest}", protocol.unwrap_or_default())
}

fn address_text(ExternalAddress { address, port }: ExternalAddress) -> String {
    let port = (port != 0).then_some(port);
    let at = Addresses { address: IpAddr::V4(address), prefix: 32, port };
    format!("NATFW_EXTERNAL_IP {}", at.text())
}

fn binding_text(binding: ExternalBinding<'_>) -> String {
    let head = format!("NATFW_EXTERNAL_BINDING port={}", binding.port);
    binding.addresses().fold(head, |text, address| format!("{text} {address}"))
}

fn extra_lines<'a>(extra: &'a Extra<'a>) -> impl Iterator<Item = String> + 'a {
    extra.iter().map(|object| {
        let octets: String = object.value.iter().map(|octet| format!("{octet:02x}")).collect();
        let treatment = format!("{:?}", object.treatment).to_lowercase();
        format!("OBJECT {:#05x} {treatment} {octets}", object.object_type)
    })
}
