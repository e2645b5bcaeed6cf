//! Events of RSVP as text, and advice about its refusals.

use earmark_control::protocols::rsvp::{advice, error_text, filter, rate, tracing};
use earmark_control::text::with_port;
use earmark_core::Rate;
use earmark_rsvp::diagnostics::TraceEnd;
use earmark_rsvp::{self as rsvp, Change};
use earmark_wire::rsvp::Session;

use crate::protocol::{by_user, last_key_expired};

/// Describes an event of RSVP in one line.
pub(crate) fn event(event: &rsvp::Event, on: &str) -> String {
    use rsvp::Event::*;
    match event {
        Path { session, template, tspec, offer, .. } => {
            let rate = Rate::from_octets_per_second(tspec.rate);
            let hops =
                offer.map_or(String::new(), |offer| format!(", {} RSVP hops away", offer.hops));
            format!("sender {} announces {rate} to {}{hops}", filter(template), to(session))
        }
        PathGone { session, template, .. } => {
            format!("sender {} to {} ended", filter(template), to(session))
        }
        Resv { session, filter: of, flowspec, reach, .. } => {
            let (rate, of, to) = (rate(flowspec), filter(of), to(session));
            format!("reservation of {rate} from {of} to {to}: {reach}")
        }
        ResvGone { session, filter: of, .. } => {
            format!("reservation from {} to {} ended", filter(of), to(session))
        }
        PathError { session, error, explanation, .. } => {
            let reason = reason(explanation.as_deref());
            format!("the path to {} failed: {}{reason}", to(session), error_text(error))
        }
        Notified { session, error, notifier, explanation, .. } => {
            let (to, error, reason) =
                (to(session), error_text(error), reason(explanation.as_deref()));
            format!("{notifier} reports that the reservation for {to} failed: {error}{reason}")
        }
        ResvError { session, error, explanation, .. } => {
            let reason = reason(explanation.as_deref());
            let advice = advice(error, None).map_or(String::new(), |advice| format!("; {advice}"));
            let (to, error) = (to(session), error_text(error));
            format!("the reservation for {to} failed: {error}{reason}{advice}")
        }
        Confirmed { session, node, filters: of, reach, .. } => {
            let (of, to) = (filters(of), to(session));
            format!("{node} confirms the reservation from {of} to {to}: {reach}")
        }
        Tracing { last_hop, known, attempt, reach, .. } => {
            tracing(*last_hop, *known, *attempt, *reach)
        }
        Traced { session, sender, hops, end, .. } => {
            let (from, to) = (filter(sender), to(session));
            format!("trace from {from} to {to}: {} nodes, {}", hops.len(), trace_end(end))
        }
        Rejected { reason, .. } => format!("not carried out: {reason}"),
        PathState { change, session, template } => {
            format!("path from {} to {} {}", filter(template), to(session), changed(*change))
        }
        Reservation { change, session, filters: of, flowspec, user, .. } => format!(
            "reservation of {} from {} to {} on {on} {}{}",
            rate(flowspec),
            filters(of),
            to(session),
            changed(*change),
            by_user(user.as_deref()),
        ),
        Refused { session, filters: of, error, available_bps, explanation, .. } => format!(
            "reservation from {} to {} refused on {on}: {}{}; {} is available",
            filters(of),
            to(session),
            error_text(error),
            reason(explanation.as_deref()),
            Rate::from_bps(*available_bps)
        ),
        Translated { template, translation, .. } => {
            format!("sender {}: {translation}", filter(template))
        }
        LastKeyExpired { key } => last_key_expired(*key),
        NeighborLost { address, .. } => {
            format!("neighbor {address} on {on} is silent or has restarted")
        }
        NeighborRestarting { address, kept_ms, .. } => {
            let seconds = kept_ms / 1_000;
            format!("neighbor {address} on {on} restarts; its state is kept for {seconds} s")
        }
        Dropped { reason, source, .. } => {
            format!("message from {source} dropped: {}", reason.name())
        }
    }
}

/// Describes why a trace ended.
pub(crate) fn trace_end(end: &TraceEnd) -> String {
    match end {
        TraceEnd::Sender => "up to the sender".to_owned(),
        TraceEnd::NoPathState => "the last of which does not know the session".to_owned(),
        TraceEnd::HopLimit => "up to the limit of hops".to_owned(),
        TraceEnd::GaveUp => "the last of which found no next node".to_owned(),
        TraceEnd::Silent { node } => format!("and {node} does not answer"),
        TraceEnd::Incomplete => "and parts of the answer are missing".to_owned(),
    }
}

pub(super) fn to(session: &Session) -> String {
    with_port(session.destination, session.port)
}

/// Formats the senders that a reservation is for.
pub(super) fn filters(filters: &rsvp::Filters) -> String {
    match filters.as_slice() {
        [] => "all senders".to_owned(),
        several => several.iter().map(filter).collect::<Vec<_>>().join(", "),
    }
}

/// Formats the reason that a policy node gives.
fn reason(explanation: Option<&String>) -> String {
    explanation.map_or(String::new(), |text| format!(": {text}"))
}

fn changed(change: Change) -> &'static str {
    match change {
        Change::Created => "made",
        Change::Changed => "changed",
        Change::Torn => "torn down",
        Change::Expired => "expired",
        Change::Preempted => "preempted",
        Change::Orphaned => "removed: its path ended",
    }
}

/// Advice about a command that RSVP rejected.
pub(crate) fn hint(reason: rsvp::Rejection) -> &'static str {
    use rsvp::Rejection::*;
    match reason {
        NoRoute => {
            "is the outgoing interface up, and in the daemon's configuration? `earmark show \
             links` lists those that are"
        }
        Families => "give --from and the destination as two IPv4 or two IPv6 addresses",
        NotOurAddress => "leave --from out, or give an address of this host",
        Ports => "all senders of one destination name their port (--from ADDR:PORT), or none does",
        Aggregator => "give the destination and the sender without ports, and no IP protocol",
        Gpi => "for example --to 10.0.2.2:9000 --ip-protocol esp --spi 0x1000",
        Specification(_) => {
            "rates and sizes must be positive, and a reserved rate at least the token rate"
        }
        SenderTaken => {
            "give this one another --from port, or release the other (`earmark show applications`)"
        }
        Conflict => {
            "release the other one first (`earmark show applications`), or ask for the same service"
        }
        Style => {
            "release the reservations in the other style first, or ask in theirs (`earmark show \
             reservations`)"
        }
        Limit => "release some, or raise the limit",
        Identity => "for example --user alice@example.org or --application \"APP=voice, VER=1\"",
        BadSession => "give a destination address and a protocol such as udp",
        SeveralSenders => "name one of them as `from`",
        SessionOpen | NoSession | NoSuchSender => "this is a defect of earmark's; please report it",
    }
}
