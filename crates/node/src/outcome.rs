//! Outcomes of an application's request, the same set for all protocols.

use earmark_core::outcome::{Kind, Outcome, Translation};

use crate::api::Event;
pub use crate::protocols::rsvp::outcome::traced;
use crate::protocols::{boomerang, nsis, rsvp, yessir};

/// Returns the application that an event concerns.
pub fn application_of(event: &Event) -> Option<u64> {
    match event {
        Event::Rsvp(event) => rsvp::outcome::application(event),
        Event::Boomerang(event) => boomerang::outcome::application(event),
        Event::Yessir(event) => yessir::outcome::application(event),
        Event::Nsis(event) => nsis::outcome::application(event),
        Event::Other(event) => event.application,
        Event::NoAnswer { application, .. } => Some(application.0),
        Event::NotAdopted { .. } | Event::Aggregate { .. } | Event::Enforcement { .. } => None,
    }
}

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub fn outcome_of(event: &Event) -> Option<Outcome> {
    match event {
        Event::Rsvp(event) => rsvp::outcome::outcome(event),
        Event::Boomerang(event) => boomerang::outcome::outcome(event),
        Event::Yessir(event) => yessir::outcome::outcome(event),
        Event::Nsis(event) => nsis::outcome::outcome(event),
        Event::Other(event) => event.outcome.as_deref().cloned(),
        Event::NoAnswer { .. } => Some(Outcome::known_locally(Kind::Refused)),
        Event::NotAdopted { .. } | Event::Aggregate { .. } | Event::Enforcement { .. } => None,
    }
}

/// Returns the address translation that an event reports.
pub fn translation_of(event: &Event) -> Option<Translation> {
    match event {
        Event::Rsvp(event) => rsvp::outcome::translation(event),
        Event::Nsis(event) => nsis::outcome::translation(event),
        _ => None,
    }
}

/// Returns the outcome after an event, for the outcome `before` the event. A known address translation stays known, and
/// excludes an outcome for the whole path: behind the translator packets have other addresses.
pub fn after(before: &Outcome, event: &Event) -> Option<Outcome> {
    let translation = translation_of(event);
    let now = match outcome_of(event) {
        Some(now) => now,
        None => {
            translation?;
            before.clone()
        }
    };
    let translation = now.translation.or(translation).or(before.translation);
    let kind = match now.kind {
        Kind::Whole if translation.is_some() => Kind::Part,
        kind => kind,
    };
    Some(Outcome { kind, translation, ..now })
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use core::net::IpAddr;

    use earmark_core::Rate;
    use earmark_nsis::{self as nsis, gist, qos};

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn reserved(kind: Kind) -> Event {
        Event::Nsis(nsis::Event::Qos(qos::Event::Reserved {
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
        let event = Event::Nsis(nsis::Event::Qos(qos::Event::Translated {
            application: Some(qos::Application(1)),
            session: earmark_wire::gist::SessionId([1; 16]),
            translation,
        }));
        let outcome = after(&Outcome::of(Kind::Pending), &event).unwrap();
        assert_eq!((outcome.kind, outcome.translation), (Kind::Pending, Some(translation)));
        let outcome = after(&outcome, &reserved(Kind::Whole)).unwrap();
        assert_eq!((outcome.kind, outcome.translation), (Kind::Part, Some(translation)));
        let other = gist::Event::ErrorReceived { source: ip("10.0.0.1"), code: 1, subcode: 0 };
        assert_eq!(after(&outcome, &Event::Nsis(nsis::Event::Gist(other))), None);
    }
}
