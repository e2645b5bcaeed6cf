//! Events for applications and monitoring, as lines of a story.

use earmark_core::outcome::{Kind, Outcome};
use earmark_nsis::qos::{Event, Source};

use crate::names::Names;

/// Returns the line of an event; `None` if another line already has it.
pub(crate) fn event(event: &Event, names: &mut Names) -> Option<String> {
    let breaks = |breaks: bool| if breaks { " break" } else { "" };
    Some(match event {
        Event::Reserved { application, session, rate, breaks: has_gaps, reach } => {
            let (session, gaps) = (names.of_long('s', session.0), breaks(*has_gaps));
            let reach = self::reach(reach);
            format!("tell {} reserved {rate} session={session}{gaps}{reach}", application.0)
        }
        Event::Refused { application, outcome, source, available, reaction } => {
            let available = available.map(|rate| format!(" available={rate}")).unwrap_or_default();
            let from = match source {
                Some(Source::Address(address)) => format!(" from={address}"),
                Some(Source::Name(name)) => format!(" by={name}"),
                None => String::new(),
            };
            let reaction = format!("{reaction:?}").to_lowercase();
            let outcome = outcome.name();
            format!("tell {} refused ({outcome}){available}{from}: {reaction}", application.0)
        }
        Event::Offered { application, rate, latency_us, breaks: has_gaps, reach } => {
            let latency = latency_us.map_or_else(|| "unknown".into(), |us| us.to_string());
            let (gaps, reach) = (breaks(*has_gaps), self::reach(reach));
            format!("tell {} offered {rate} latency={latency}{gaps}{reach}", application.0)
        }
        Event::TimedOut { application } => format!("tell {} nobody answers", application.0),
        Event::Lost { application, outcome, .. } => {
            format!("tell {} lost ({})", application.0, outcome.name())
        }
        Event::Released { application } => format!("tell {} released", application.0),
        Event::Incoming { application, session, rate, .. } => {
            let session = names.of_long('s', session.0);
            format!("tell {} incoming {rate} session={session}", application.0)
        }
        Event::Translated { session, translation, .. } => {
            format!("tell session={} {translation}", names.of_long('s', session.0))
        }
        Event::Gone { application, session } => {
            format!("tell {} gone session={}", application.0, names.of_long('s', session.0))
        }
        Event::Rejected { application, reason } => {
            format!("tell {} rejected ({reason:?})", application.0)
        }
        Event::Dropped { reason, .. } => format!("ignore ({})", reason.name()),
        // Other lines have the claim and the response.
        _ => return None,
    })
}

/// Returns the text of an extent that is not the whole path.
fn reach(reach: &Outcome) -> String {
    match reach.kind {
        Kind::Whole => String::new(),
        kind => format!(" {}", kind.name()),
    }
}
