//! Text of a node's messages and events.

use earmark_boomerang::Event;
use earmark_core::Outgoing;
use earmark_testkit::conformance::tables::Tables;
use earmark_wire::boomerang::{OptionItem, Rates};
use earmark_wire::icmp::{Echo, Kind, PseudoHeader};

use crate::common::Message;

/// Returns the text of a sent message: `unchanged` if it has every octet of the one that came, and its fields otherwise.
pub(crate) fn message(tables: &Tables, how: &Outgoing, octets: &[u8], came: &[u8]) -> String {
    let &Outgoing { source, destination, .. } = how;
    let head =
        tables.sent(how, if matches!(octets.first(), Some(0 | 129)) { "reply" } else { "echo" });
    if octets == came {
        return head + " unchanged";
    }
    let ends = PseudoHeader::of(source, destination).expect("of one family");
    let Ok(Echo { kind: Kind::Request | Kind::Reply, .. }) = Echo::parse(octets, ends) else {
        return head + " wrong-checksum";
    };
    let message = Message::parse(octets, source, destination);
    let fields = format!(
        " flow={} rates={} interval={} key={}",
        message.classifier.source_port,
        message.rates.iter().map(rates).collect::<Vec<_>>().join(","),
        message.interval,
        message.key
    );
    let flags = [" nack", " no-echo"].into_iter().zip([1, 2]);
    let flags: String =
        flags.filter(|(_, bit)| message.flags & bit != 0).map(|(name, _)| name).collect();
    let options: String =
        message.options.iter().map(|option| format!("\n     {}", option_text(option))).collect();
    head + &fields + &flags + &options
}

fn rates(rates: &Rates) -> String {
    format!("{}/{}", rates.forward, rates.reverse)
}

fn option_text(option: &OptionItem<'_>) -> String {
    match option {
        OptionItem::UserId(id) => format!("user id {}", id.user.escape_ascii()),
        OptionItem::Aggregation(option) => format!(
            "aggregation of {} for {} to {}: {}",
            option.node, option.classifier.source, option.classifier.destination, option.rate
        ),
        OptionItem::Participation(_) => "participation record".into(),
        OptionItem::Token(token) => format!("token {}", token.len()),
        OptionItem::Unknown { code, rest } => format!("option {code}, {} octets", rest.len()),
    }
}

/// Returns the text of an event for an application, or of a dropped message. Reports for watchers have none: traffic
/// control shows the same.
pub(crate) fn event(event: &Event) -> Option<String> {
    Some(match event {
        Event::Established { rates: granted, interval, confirmed, .. } => {
            let silent = if *confirmed { "" } else { " without-reply" };
            format!("tell established rates={} interval={interval}{silent}", rates(granted))
        }
        Event::Refused { offer, .. } => format!("tell refused offer={}", rates(offer)),
        Event::Changed { rates: granted, .. } => format!("tell changed rates={}", rates(granted)),
        Event::Offered { offer, .. } => format!("tell offered rates={}", rates(offer)),
        Event::Lost { .. } => "tell lost".into(),
        Event::Released { .. } => "tell released".into(),
        Event::Rejected { reason, .. } => format!("tell rejected ({reason:?})"),
        Event::Dropped { reason, .. } => format!("drop ({})", reason.name()),
        _ => return None,
    })
}
