//! Outcomes of an application's request, the same set for all protocols.

use core::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};
use earmark_nsis::{self as nsis, qos};
use earmark_rsvp as rsvp;
use earmark_rsvp::diagnostics::{TraceEnd, TraceHop};
use earmark_wire::boomerang::Rates;
use earmark_wire::qos_nslp::Outcome as Answer;
use earmark_wire::qos_nslp::iana::TransientFailure;
use earmark_yessir as yessir;

use crate::api::Event;

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub fn outcome_of(event: &Event) -> Option<Outcome> {
    match event {
        Event::Rsvp(event) => of_rsvp(event),
        Event::Boomerang(event) => of_boomerang(event),
        Event::Yessir(event) => of_yessir(event),
        Event::Nsis(nsis::Event::Qos(event)) => of_qos(event),
        Event::NoAnswer { .. } => Some(Outcome::known_locally(Kind::Refused)),
        Event::Nsis(nsis::Event::Gist(_) | nsis::Event::Ping(_))
        | Event::NotAdopted { .. }
        | Event::Aggregate { .. }
        | Event::Enforcement { .. } => None,
    }
}

/// Returns the address translation that an event reports.
pub fn translation_of(event: &Event) -> Option<Translation> {
    match event {
        Event::Rsvp(rsvp::Event::Translated { translation, .. }) => Some(*translation),
        Event::Nsis(nsis::Event::Qos(qos::Event::Translated { translation, .. })) => {
            Some(*translation)
        }
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

/// Returns the outcome of a sender's reservation from a trace of the whole path (RFC 2745); `None` if the trace has a
/// gap.
pub fn traced(hops: &[TraceHop], end: &TraceEnd) -> Option<Outcome> {
    if *end != TraceEnd::Sender {
        return None;
    }
    // From the receiver to the sender; there is no link behind a receiver.
    let links = hops.iter().filter(|hop| hop.outgoing.is_some());
    let unreserved = links.filter(|hop| hop.flowspec.is_none()).count();
    // Hops before the receiver belong to the path of the query, not of the data.
    let gaps = hops.iter().skip(1).map(|hop| u16::from(hop.ip_hops.saturating_sub(1)));
    let silent = gaps.fold(0, u16::saturating_add);
    let without = silent.saturating_add(u16::try_from(unreserved).unwrap_or(u16::MAX));
    let kind = match (without, hops.len()) {
        (0, _) => Kind::Whole,
        (_, ..=2) => Kind::OnlyHere,
        _ => Kind::Part,
    };
    // From the sender to the first missing hop: the hop before it shows how far the reservation reaches.
    let missing = |hop: &TraceHop| hop.ip_hops > 1;
    let last = hops.iter().skip(1).rposition(missing).map_or(0, |at| at + 1);
    let to: Option<IpAddr> = hops.get(last).and_then(|hop| hop.outgoing.or(hop.incoming));
    Some(Outcome {
        from: hops.last().and_then(|hop| hop.outgoing),
        to,
        hops_without: Some(without),
        nodes: Some(u16::try_from(hops.len().saturating_sub(1)).unwrap_or(u16::MAX)),
        ..Outcome::reported(kind, None, Message::new("trace"))
    })
}

fn of_rsvp(event: &rsvp::Event) -> Option<Outcome> {
    use rsvp::Event::*;
    Some(match event {
        Resv { reach, .. } | Confirmed { reach, .. } => (**reach).clone(),
        ResvGone { .. } | PathGone { .. } => Outcome::of(Kind::Ended),
        PathError { error, .. } => {
            Outcome::reported(Kind::Refused, Some(error.node), Message::new("PathErr"))
        }
        ResvError { error, .. } => {
            Outcome::reported(Kind::Refused, Some(error.node), Message::new("ResvErr"))
        }
        Refused { available_bps, .. } => Outcome {
            available_bps: Some(Rate::from_bps(*available_bps)),
            ..Outcome::known_locally(Kind::Refused)
        },
        _ => return None,
    })
}

fn of_boomerang(event: &boomerang::Event) -> Option<Outcome> {
    use boomerang::Event::*;
    let reply = |kind| Outcome::reported(kind, None, Message::new("echo reply"));
    Some(match event {
        Reached { reach, .. } => (**reach).clone(),
        Established { confirmed: true, .. } | Changed { .. } => reply(Kind::Unverified),
        // There is no confirmation for a group.
        Established { confirmed: false, .. } => Outcome::known_locally(Kind::Unverified),
        Refused { offer, .. } => {
            Outcome { available_bps: Some(larger(offer)), ..reply(Kind::Refused) }
        }
        Offered { reach, .. } if reach.kind != Kind::Pending => (**reach).clone(),
        Offered { .. } => Outcome { offer: true, ..reply(Kind::Unverified) },
        Lost { .. } => Outcome::of(Kind::Unanswered),
        Released { .. } => Outcome::of(Kind::Ended),
        _ => return None,
    })
}

/// Returns the larger of two rates; for a request in one direction this is its rate.
fn larger(rates: &Rates) -> Rate {
    Rate::from_bps(rates.forward.max(rates.reverse).into())
}

fn of_yessir(event: &yessir::Event) -> Option<Outcome> {
    use yessir::Event::*;
    match event {
        Answered { reach, .. } | Announced { reach, .. } => Some((**reach).clone()),
        AnnouncementGone { .. } => Some(Outcome::of(Kind::Ended)),
        _ => None,
    }
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
    use alloc::vec::Vec;

    use earmark_core::outcome::Kind;
    use earmark_nsis::gist;
    use earmark_wire::intserv::{FlowSpec, TokenBucket};
    use earmark_wire::rsvp::Style;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Creates a hop of a trace: addresses towards sender and receivers, IP hops before it, and whether it has
    /// reserved.
    fn hop(incoming: &str, outgoing: &str, ip_hops: u8, reserved: bool) -> TraceHop {
        let bucket = TokenBucket {
            rate: 1.0,
            depth: 1.0,
            peak: 1.0,
            min_policed_unit: 1,
            max_packet_size: 1,
        };
        let known = |text: &str| (!text.is_empty()).then(|| ip(text));
        TraceHop {
            incoming: known(incoming),
            outgoing: known(outgoing),
            previous_hop: None,
            arrival: 0,
            ip_hops,
            no_path_state: false,
            merged: false,
            refresh_s: 30,
            refresh_multiple: 3,
            tspec: None,
            style: Some(Style::FixedFilter),
            flowspec: reserved.then_some(FlowSpec::ControlledLoad(bucket)),
            filters: Vec::new(),
        }
    }

    const SENDER: TraceEnd = TraceEnd::Sender;

    #[test]
    fn trace_without_gaps_is_the_whole_path() {
        let receiver = hop("10.0.3.2", "", 9, true);
        let hops = [
            receiver.clone(),
            hop("10.0.2.2", "10.0.3.1", 1, true),
            hop("10.0.1.2", "10.0.2.1", 1, true),
            hop("", "10.0.1.1", 1, true),
        ];
        let outcome = traced(&hops, &SENDER).unwrap();
        assert_eq!((outcome.kind, outcome.nodes), (Kind::Whole, Some(3)));
        assert_eq!((outcome.from, outcome.to), (Some(ip("10.0.1.1")), Some(ip("10.0.3.2"))));
        assert_eq!(traced(&hops, &TraceEnd::GaveUp), None);

        // One hop has no reservation on its link.
        let mut idle = hops.clone();
        idle[1].flowspec = None;
        let outcome = traced(&idle, &SENDER).unwrap();
        assert_eq!((outcome.kind, outcome.hops_without), (Kind::Part, Some(1)));
    }

    #[test]
    fn trace_with_routers_without_rsvp_is_part_of_the_path() {
        let hops = [
            hop("10.0.3.2", "", 9, true),
            hop("10.0.1.2", "10.0.2.1", 2, true),
            hop("", "10.0.1.1", 1, true),
        ];
        let outcome = traced(&hops, &SENDER).unwrap();
        assert_eq!((outcome.kind, outcome.hops_without), (Kind::Part, Some(1)));
        let hops = [hop("10.0.3.2", "", 9, true), hop("", "10.0.1.1", 3, true)];
        let outcome = traced(&hops, &SENDER).unwrap();
        assert_eq!((outcome.kind, outcome.hops_without), (Kind::OnlyHere, Some(2)));
        assert_eq!(outcome.to, Some(ip("10.0.1.1")));
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

    #[test]
    fn truncated_path_is_partial_and_any_other_loss_a_refusal() {
        let lost = |failure| {
            Event::Nsis(nsis::Event::Qos(qos::Event::Lost {
                application: qos::Application(1),
                outcome: Answer::TransientFailure(failure),
                source: Some(qos::Source::Address(ip("10.0.1.2"))),
            }))
        };
        let outcome = outcome_of(&lost(TransientFailure::PathTruncated)).unwrap();
        assert_eq!((outcome.kind, outcome.to), (Kind::Part, Some(ip("10.0.1.2"))));
        let outcome = outcome_of(&lost(TransientFailure::ReservationFailure)).unwrap();
        assert_eq!(outcome.kind, Kind::Refused);
    }
}
