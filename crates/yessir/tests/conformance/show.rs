//! Text of a node's messages and events.

use earmark_core::Outgoing;
use earmark_testkit::conformance::tables::Tables;
use earmark_wire::udp;
use earmark_wire::yessir::{Failures, Message, Report};
use earmark_yessir::{Answer, Event};

use crate::report::{fragments, link_info_text, note_text, routers_part};

/// Returns the text of a sent message: `unchanged` if it has every octet of the one that came, LINK_INFO and FAILURE if
/// nothing else is different, and all fragments otherwise.
pub(crate) fn message(tables: &Tables, how: &Outgoing, octets: &[u8], came: &[u8]) -> String {
    let packet = udp::Packet::parse(octets).expect("a node sends UDP");
    let report = Report::parse(packet.payload);
    let is_answer = report.as_ref().is_ok_and(|report| report.sender.is_none());
    let head = tables.sent(how, if is_answer { "answer" } else { "report" });
    if octets == came {
        return head + " unchanged";
    }
    let checksum = packet.verify(how.source, how.destination);
    assert!(matches!(checksum, udp::Checksum::Valid | udp::Checksum::Absent), "{checksum:?}");
    let report = report.expect("it was written by the node");
    let bye = if report.goodbye { " bye" } else { "" };
    let Some((message, _)) = report.message else { return head + bye };
    let lines =
        if is_edited(&message, came) { routers_part(&message) } else { fragments(&message) };
    let lines: String = lines.iter().map(|line| format!("\n     {line}")).collect();
    head + bye + &lines
}

/// Returns whether a message differs from the one that came only in what routers edit.
fn is_edited(message: &Message<'_>, came: &[u8]) -> bool {
    fn common<'a>(message: &Message<'a>) -> Message<'a> {
        Message { link_info: None, failures: Failures::default(), ..*message }
    }
    let Ok(packet) = udp::Packet::parse(came) else { return false };
    let Ok(Report { message: Some((before, _)), .. }) = Report::parse(packet.payload) else {
        return false;
    };
    common(&before) == common(message)
}

fn answer_text(answer: &Answer) -> String {
    let info = answer.path.iter().map(link_info_text);
    let lines = info.chain(answer.failures.iter().map(note_text));
    lines.map(|line| format!("\n     {line}")).collect()
}

/// Returns the text of an event for an application, or of a message that has no effect. Reports for watchers have none:
/// traffic control and the notes show the same.
pub(crate) fn event(event: &Event) -> Option<String> {
    Some(match event {
        Event::Answered { receiver, answer, .. } => {
            format!("tell answered by {receiver}{}", answer_text(answer))
        }
        Event::Announced { stream, answer, .. } => {
            format!("tell announced from {}{}", stream.source, answer_text(answer))
        }
        Event::AnnouncementGone { stream, .. } => format!("tell gone from {}", stream.source),
        Event::Rejected { reason, .. } => format!("tell rejected ({reason:?})"),
        Event::Ignored { reason, .. } => format!("ignore ({})", reason.name()),
        _ => return None,
    })
}
