//! Effects of the node besides messages, as lines of a story: changes of the packet filter, and events.

use earmark_core::{Effect, FilterAction, FilterChange, FilteredPackets, Flow, Time};
use earmark_nsis::Event as AnyEvent;
use earmark_nsis::natfw::{Event, Refusal};
use earmark_testkit::conformance::words::{Fault, Words};

use crate::message::info_text;
use crate::names::{Addresses, Names, protocol, protocol_text};

/// Returns the line of an effect; `None` if another line already has it.
pub(crate) fn effect(effect: &Effect<AnyEvent>, names: &mut Names) -> Option<String> {
    match effect {
        Effect::Filter(change) => Some(filter(change)),
        Effect::Notify(AnyEvent::Natfw(event)) => self::event(event, names),
        _ => None,
    }
}

/// Returns the line of a change of the packet filter.
fn filter(change: &FilterChange) -> String {
    let (rule, until) = match change {
        FilterChange::Remove(packets) => return format!("remove {}", packets_text(packets)),
        FilterChange::Install(rule, until) => (rule, until.since(Time::ZERO).as_secs_f64()),
    };
    let action = match rule.action {
        FilterAction::Allow => "allow",
        FilterAction::Deny => "deny",
    };
    let source = rule.source.map(|source| format!(" source becomes {source}"));
    let destination = rule.destination.map(|to| format!(" destination becomes {to}"));
    let (source, destination) = (source.unwrap_or_default(), destination.unwrap_or_default());
    let packets = packets_text(&rule.packets);
    format!("install {action} {packets}{source}{destination} until {until}s")
}

/// Returns the text of packets: `udp from 10.0.1.9:5000 to 198.51.100.9:6000`.
fn packets_text(FilteredPackets { flow, icmp_type }: &FilteredPackets) -> String {
    let name = match flow.protocol {
        0 => "any".into(),
        protocol => protocol_text(protocol),
    };
    let end = |address: std::net::IpAddr, port: u16| {
        let port = (port != 0).then_some(port);
        Addresses { address, prefix: if address.is_ipv4() { 32 } else { 128 }, port }.text()
    };
    let from = match (flow.source, flow.source_port) {
        (Some(source), port) => end(source, port),
        (None, 0) => "any".into(),
        (None, port) => format!("any:{port}"),
    };
    let to = end(flow.destination, flow.destination_port);
    let kind = icmp_type.map(|kind| format!(" type {kind}")).unwrap_or_default();
    let spi = if flow.spi == 0 { String::new() } else { format!(" spi {}", flow.spi) };
    format!("{name} from {from} to {to}{kind}{spi}")
}

/// Takes the packets of a rule: `udp from 10.0.1.9:5000 to 198.51.100.9:6000`.
pub(crate) fn packets(words: &mut Words<'_>) -> Result<FilteredPackets, Fault> {
    let protocol = protocol(words.next("a protocol")?)?;
    let mut end = |name: &str| {
        let text: String = words.after(name)?.ok_or_else(|| format!("`{name}` is missing"))?;
        Addresses::parse(&text)
    };
    let (from, to) = (end("from")?, end("to")?);
    let flow = Flow {
        destination: to.address,
        source: Some(from.address),
        protocol,
        destination_port: to.port.unwrap_or(0),
        source_port: from.port.unwrap_or(0),
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    Ok(FilteredPackets { flow, icmp_type: None })
}

fn event(event: &Event, names: &mut Names) -> Option<String> {
    Some(match event {
        Event::Granted { application, external, bindings, lifetime } => {
            let at = external.map(|external| format!(" at {external}")).unwrap_or_default();
            let through = bindings.iter().map(|binding| format!(" through {binding}"));
            let through: String = through.collect();
            format!("tell {} granted {lifetime}s{at}{through}", application.0)
        }
        Event::Refused { application, refusal } => {
            let why = match refusal {
                Refusal::Answered(info) => info_text(info),
                Refusal::Unsent(failure) => format!("({failure})"),
                Refusal::Unanswered => "(no answer)".into(),
            };
            format!("tell {} refused {why}", application.0)
        }
        Event::Ended { application, info } => {
            let why = info.as_ref().map(|info| format!(" {}", info_text(info)));
            format!("tell {} ended{}", application.0, why.unwrap_or_default())
        }
        Event::Notified { application, info } => {
            format!("tell {} notified {}", application.0, info_text(info))
        }
        Event::Admitted { application, session, from, port } => {
            let who = application.map_or_else(|| "nobody".into(), |it| it.0.to_string());
            let from = from.map_or_else(|| "any".into(), |from| from.to_string());
            let session = names.of_session(*session);
            format!("tell {who} incoming session={session} from {from} to port {port}")
        }
        Event::Rejected { application, reason } => {
            format!("tell {} rejected ({reason})", application.0)
        }
        Event::Dropped { reason, .. } => format!("ignore ({})", reason.name()),
        // Other lines have the rule and the response.
        Event::Rule { .. } | Event::Denied { .. } => return None,
    })
}
