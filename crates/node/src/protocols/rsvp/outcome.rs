//! Outcomes of RSVP events, and of a trace.

use core::net::IpAddr;

use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, Outcome, Translation};
use earmark_rsvp::Event;
use earmark_rsvp::diagnostics::{TraceEnd, TraceHop};
use earmark_wire::rsvp::ErrorSpec;

/// Returns the application that an event concerns.
pub(crate) fn application(event: &Event) -> Option<u64> {
    use Event::*;
    match event {
        Path { application, .. }
        | PathGone { application, .. }
        | Resv { application, .. }
        | ResvGone { application, .. }
        | PathError { application, .. }
        | Notified { application, .. }
        | ResvError { application, .. }
        | Confirmed { application, .. }
        | Tracing { application, .. }
        | Traced { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Translated { application, .. } => application.map(|application| application.0),
        PathState { .. }
        | Reservation { .. }
        | Refused { .. }
        | LastKeyExpired { .. }
        | NeighborLost { .. }
        | NeighborRestarting { .. }
        | Dropped { .. } => None,
    }
}

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub(crate) fn outcome(event: &Event) -> Option<Outcome> {
    use Event::*;
    Some(match event {
        Resv { reach, .. } | Confirmed { reach, .. } => (**reach).clone(),
        ResvGone { .. } | PathGone { .. } => Outcome::of(Kind::Ended),
        PathError { error, .. } => {
            Outcome::reported(Kind::Refused, Some(error.node), Message::new("PathErr"))
        }
        Notified { error, .. } => {
            Outcome::reported(Kind::Refused, Some(error.node), Message::new("Notify"))
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

/// Returns whether an event reports a refusal that leaves an earlier reservation in place. The reservation of a sender ends
/// with [`Event::ResvGone`] only: a PathErr changes no state on its way (RFC 2205 section 3.1.7), and like a Notify it may be
/// about one branch of several. For a receiver the ResvErr says it (InPlace, section A.5).
pub(crate) fn leaves_reservation(event: &Event) -> bool {
    match event {
        Event::PathError { .. } | Event::Notified { .. } => true,
        Event::ResvError { error, .. } => error.flags & ErrorSpec::IN_PLACE != 0,
        _ => false,
    }
}

/// Returns the address translation that an event reports.
pub(crate) fn translation(event: &Event) -> Option<Translation> {
    match event {
        Event::Translated { translation, .. } => Some(*translation),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use core::net::Ipv4Addr;

    use earmark_rsvp::{Application, Filters};
    use earmark_wire::intserv::{FlowSpec, TokenBucket};
    use earmark_wire::rsvp::{ErrorCode, FilterSpec, Session, SourceSelector, Style};

    use super::*;
    use crate::outcome;

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

    const REFUSAL: ErrorSpec = ErrorSpec {
        node: IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2)),
        flags: 0,
        code: ErrorCode::AdmissionControlFailure,
        value: 2,
    };

    fn session() -> Session {
        Session { destination: ip("10.0.9.9"), protocol: 17, flags: 0, port: 1 }
    }

    /// A refusal that leaves the earlier reservation in place (InPlace) is noted in its outcome, and does not end it.
    #[test]
    fn refused_increase_leaves_what_was_reserved() {
        let refusal = |flags| {
            crate::Event::Rsvp(Event::ResvError {
                application: Application(1),
                session: session(),
                error: ErrorSpec { flags, ..REFUSAL },
                style: Style::Wildcard,
                filters: Filters::default(),
                flowspec: None,
                explanation: None,
            })
        };
        let whole = Outcome::of(Kind::Whole);
        let before = [(whole.clone(), Kind::Whole), (Outcome::default(), Kind::Refused)];
        for (before, in_place) in before {
            let after = |flags| outcome::after(&before, &refusal(flags)).unwrap();
            assert_eq!(after(0).kind, Kind::Refused);
            assert_eq!(after(ErrorSpec::IN_PLACE).kind, in_place);
        }
        let after = outcome::after(&whole, &refusal(ErrorSpec::IN_PLACE)).unwrap();
        assert_eq!(after.refused_by, Some(ip("10.0.1.2")));
    }

    /// A PathErr ends no reservation, since it changes no state (RFC 2205 section 3.1.7). A sender that was told so would not
    /// hear of its reservation again when the Path is accepted later.
    #[test]
    fn path_error_leaves_what_was_reserved() {
        let refusal = crate::Event::Rsvp(Event::PathError {
            application: Application(1),
            session: session(),
            error: REFUSAL,
            template: FilterSpec { source: ip("10.0.1.1"), selector: SourceSelector::Port(1) },
            explanation: None,
        });
        for (before, expected) in [
            (Kind::Whole, Kind::Whole),
            (Kind::Unverified, Kind::Unverified),
            (Kind::Pending, Kind::Refused),
            (Kind::Ended, Kind::Refused),
        ] {
            let after = outcome::after(&Outcome::of(before), &refusal).unwrap();
            assert_eq!((before, after.kind), (before, expected));
            assert_eq!(after.refused_by, before.is_reserved().then_some(REFUSAL.node));
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
}
