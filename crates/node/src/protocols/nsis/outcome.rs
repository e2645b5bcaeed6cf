//! Outcomes of NSIS events.

use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};
use earmark_nsis::{Event, natfw, ping, qos};
use earmark_wire::qos_nslp::Outcome as Answer;
use earmark_wire::qos_nslp::iana::TransientFailure;

/// Returns the application that an event concerns.
pub(crate) fn application(event: &Event) -> Option<u64> {
    match event {
        Event::Qos(event) => application_of_qos(event),
        Event::Natfw(event) => application_of_natfw(event),
        Event::Ping(event) => Some(application_of_ping(event)),
        Event::Gist(_) => None,
    }
}

fn application_of_qos(event: &qos::Event) -> Option<u64> {
    use qos::Event::*;
    match event {
        Reserved { application, .. }
        | Refused { application, .. }
        | Offered { application, .. }
        | TimedOut { application }
        | Lost { application, .. }
        | Released { application }
        | Incoming { application, .. }
        | Gone { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Translated { application, .. } => application.map(|application| application.0),
        Reservation { .. } | Denied { .. } | Dropped { .. } => None,
    }
}

fn application_of_natfw(event: &natfw::Event) -> Option<u64> {
    use natfw::Event::*;
    match event {
        Granted { application, .. }
        | Refused { application, .. }
        | Ended { application, .. }
        | Notified { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Admitted { application, .. } => application.map(|application| application.0),
        Rule { .. } | Denied { .. } | Dropped { .. } => None,
    }
}

fn application_of_ping(event: &ping::Event) -> u64 {
    use ping::Event::*;
    match event {
        Pong { application, .. }
        | Lost { application, .. }
        | Finished { application }
        | Rejected { application, .. } => application.0,
    }
}

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub(crate) fn outcome(event: &Event) -> Option<Outcome> {
    match event {
        Event::Qos(event) => of_qos(event),
        Event::Natfw(event) => of_natfw(event),
        Event::Gist(_) | Event::Ping(_) => None,
    }
}

/// Returns the address translation that an event reports.
pub(crate) fn translation(event: &Event) -> Option<Translation> {
    match event {
        Event::Qos(qos::Event::Translated { translation, .. }) => Some(*translation),
        _ => None,
    }
}

/// RESPONSEs do not tell which node has sent them, nor whether every firewall on the path takes part.
fn of_natfw(event: &natfw::Event) -> Option<Outcome> {
    let kind = match event {
        natfw::Event::Granted { .. } => Kind::Unverified,
        natfw::Event::Refused { refusal: natfw::Refusal::Answered(_), .. } => Kind::Refused,
        natfw::Event::Refused { .. } => Kind::Unanswered,
        natfw::Event::Ended { .. } => Kind::Ended,
        _ => return None,
    };
    let message = match kind {
        Kind::Unverified | Kind::Refused => Message::new("RESPONSE"),
        _ => return Some(Outcome::of(kind)),
    };
    Some(Outcome::reported(kind, None, message))
}

fn of_qos(event: &qos::Event) -> Option<Outcome> {
    use qos::Event::*;
    let by = |source: &Option<qos::Source>, message| {
        let node = source.as_ref().map(|source| match source {
            qos::Source::Address(address) => NodeName::Address(*address),
            qos::Source::Name(name) => NodeName::Name(name.clone()),
        })?;
        Some(OutcomeSource { node: Some(node), message })
    };
    const TRUNCATED: Answer = Answer::TransientFailure(TransientFailure::PathTruncated);
    Some(match event {
        Reserved { reach, .. } | Offered { reach, .. } | Incoming { reach, .. } => {
            (**reach).clone()
        }
        Refused { source, available, .. } => Outcome {
            by: by(source, Message::new("RESPONSE")),
            available_bps: *available,
            ..Outcome::of(Kind::Refused)
        },
        Lost { source, outcome, .. } => {
            let kind = if *outcome == TRUNCATED { Kind::Part } else { Kind::Refused };
            let to = match source {
                Some(qos::Source::Address(address)) => Some(*address),
                _ => None,
            };
            Outcome { by: by(source, Message::new("NOTIFY")), to, ..Outcome::of(kind) }
        }
        TimedOut { .. } => Outcome::of(Kind::Unanswered),
        Released { .. } | Gone { .. } => Outcome::of(Kind::Ended),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use core::net::IpAddr;

    use earmark_core::Rate;
    use earmark_nsis::gist;

    use super::*;
    use crate::outcome::after;
    use crate::protocols::Event as NodeEvent;

    #[test]
    fn truncated_path_is_partial_and_any_other_loss_a_refusal() {
        let lost = |failure| {
            Event::Qos(qos::Event::Lost {
                application: qos::Application(1),
                outcome: Answer::TransientFailure(failure),
                source: Some(qos::Source::Address("10.0.1.2".parse().unwrap())),
            })
        };
        let reported = outcome(&lost(TransientFailure::PathTruncated)).unwrap();
        assert_eq!((reported.kind, reported.to), (Kind::Part, Some("10.0.1.2".parse().unwrap())));
        let reported = outcome(&lost(TransientFailure::ReservationFailure)).unwrap();
        assert_eq!(reported.kind, Kind::Refused);
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn reserved(kind: Kind) -> NodeEvent {
        NodeEvent::Nsis(Event::Qos(qos::Event::Reserved {
            application: qos::Application(1),
            session: earmark_wire::gist::SessionId([1; 16]),
            rate: Rate::from_mbps(1),
            breaks: false,
            reach: Box::new(Outcome::of(kind)),
        }))
    }

    #[test]
    fn translation_persists_and_excludes_the_whole_path() {
        let translation = Translation { named: ip("10.0.0.1"), seen: None };
        let event = NodeEvent::Nsis(Event::Qos(qos::Event::Translated {
            application: Some(qos::Application(1)),
            session: earmark_wire::gist::SessionId([1; 16]),
            translation,
        }));
        let outcome = after(&Outcome::of(Kind::Pending), &event).unwrap();
        assert_eq!((outcome.kind, outcome.translation), (Kind::Pending, Some(translation)));
        let outcome = after(&outcome, &reserved(Kind::Whole)).unwrap();
        assert_eq!((outcome.kind, outcome.translation), (Kind::Part, Some(translation)));
        let other = gist::Event::ErrorReceived { source: ip("10.0.0.1"), code: 1, subcode: 0 };
        assert_eq!(after(&outcome, &NodeEvent::Nsis(Event::Gist(other))), None);
    }
}
