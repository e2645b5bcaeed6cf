//! Events of Boomerang and YESSIR as text, and advice about their refusals.

use earmark_boomerang as boomerang;
use earmark_core::outcome::Outcome;
use earmark_wire::yessir::Style;
use earmark_yessir as yessir;

use super::with_port;
use earmark_control::protocols::boomerang::rates;
use earmark_control::protocols::yessir::{failure, failure_reason};

/// Describes an event of Boomerang in one line.
pub(super) fn of_boomerang(event: &boomerang::Event, on: &str) -> String {
    use boomerang::Event::*;
    match event {
        Established { rates: granted, confirmed, .. } => {
            let way = match confirmed {
                true => "the loop came round, and nobody has refused",
                false => "this host has reserved",
            };
            format!("{way}: {}", rates(granted))
        }
        Reached { reach, .. } => reach.to_string(),
        Refused { offer, reaction, .. } => {
            let reaction = match reaction {
                boomerang::OnRefusal::Retry => "it is asked for again",
                boomerang::OnRefusal::TakeOffer => "that is taken",
                boomerang::OnRefusal::Release => "it is given up",
            };
            format!("refused; {} could be had; {reaction}", rates(offer))
        }
        Changed { rates: granted, .. } => format!("{} are in place now", rates(granted)),
        Offered { offer, reach, .. } => format!("{} could be had: {reach}", rates(offer)),
        Lost { .. } => "nothing comes back; it is tried on".to_owned(),
        Released { .. } => "released".to_owned(),
        Rejected { reason, .. } => format!("not carried out: {}", boomerang_rejection(*reason).0),
        Reservation { change, selector, direction, rate, .. } => format!(
            "reservation of {rate} for {selector} ({}) on {on} {}",
            match direction {
                boomerang::Direction::Forward => "forward",
                boomerang::Direction::Reverse => "reverse",
            },
            match change {
                boomerang::Change::Created => "made",
                boomerang::Change::Changed => "changed",
                boomerang::Change::Moved => "left with its route",
                boomerang::Change::Unlocked => "came into force",
                boomerang::Change::Released => "released",
                boomerang::Change::Expired => "expired",
                boomerang::Change::Preempted => "gave way to a more important one",
                boomerang::Change::Orphaned => "was beyond traffic control",
                boomerang::Change::Aggregated => "went into an aggregate",
            }
        ),
        Offload(session) => format!("the kernel treats refreshes for {}", session.selector),
        Allowance { initiator, changes } => {
            format!("the kernel may set up {changes} reservations for {initiator}")
        }
        Withhold { selector } => format!("the kernel treats nothing for {selector}"),
        Recall { selector } => format!("the kernel forgets {selector}"),
        Expiring { selector } => format!("{selector} is about to expire"),
        Dropped { reason, source, .. } => {
            format!("message from {source} dropped: {}", reason.name())
        }
    }
}

/// Describes why Boomerang rejected a command, with advice.
pub fn boomerang_rejection(reason: boomerang::Rejection) -> (&'static str, &'static str) {
    use boomerang::Rejection::*;
    match reason {
        SessionOpen | NoSession => (
            "the application has a session, or none",
            "this is a defect of earmark's; please report it",
        ),
        NoRoute => (
            "there is no route to the destination",
            "is the outgoing interface up, and in the daemon's configuration? `earmark show links` lists those that are",
        ),
        BadSelector => (
            "the flow cannot be told apart by that",
            "source and destination of one IP version; ports need an IP protocol that has ports",
        ),
        BadWishes => {
            ("the wishes are none, too many, or do not decrease", "the largest rates come first")
        }
        BadRate => (
            "a rate does not fit, or all are zero",
            "rates of Boomerang are from 1 bit/s to 4.29 Gbit/s; give --forward, --reverse, or both",
        ),
        Multicast => {
            ("a group cannot send back", "leave --reverse out: loops to groups reserve one way")
        }
        BadInterval => ("the interval is zero", "1 to 255 seconds"),
        TooMany => (
            "this host has as many sessions as it may have",
            "release what is not needed (`earmark show applications`), or raise the limits",
        ),
    }
}

/// Describes an event of YESSIR in one line.
pub(super) fn of_yessir(event: &yessir::Event, on: &str) -> String {
    use yessir::Event::*;
    match event {
        Answered { receiver, answer, reach, .. } => {
            format!("{receiver} answers: {}", outcome(answer, reach))
        }
        Announced { stream: of, answer, reach, .. } => {
            format!("{} is announced: {}", stream(of), outcome(answer, reach))
        }
        AnnouncementGone { stream: of, .. } => format!("{} has ended", stream(of)),
        Rejected { reason, .. } => format!("not carried out: {reason}"),
        Reservation { change, stream: of, style, demand, .. } => format!(
            "reservation of {} for {}{} on {on} {}",
            demand.rate,
            stream(of),
            if *style == Style::Shared { " (shared)" } else { "" },
            match change {
                yessir::Change::Created => "made",
                yessir::Change::Grabbed => "made with what others gave back",
                yessir::Change::Changed => "changed",
                yessir::Change::Released => "released",
                yessir::Change::Expired => "expired",
                yessir::Change::Moved => "gone: the stream takes another way",
                yessir::Change::Failed => "failed",
                yessir::Change::Preempted => "gave way to a more important one",
            }
        ),
        Refused { stream: of, reason, available, waits, .. } => format!(
            "reservation for {} refused on {on}: {}; {available} could be had{}",
            stream(of),
            failure_reason(*reason),
            if *waits { "; it waits for more" } else { "" }
        ),
        Ignored { reason, source, .. } => {
            format!("message from {source} not acted on: {}", reason.name())
        }
    }
}

/// Formats a stream: `10.0.0.1:4000 > 10.0.2.2:5000`.
fn stream(stream: &yessir::Stream) -> String {
    let source = match stream.source.is_unspecified() {
        true => "all senders".to_owned(),
        false => with_port(stream.source, stream.source_port),
    };
    format!("{source} > {}", with_port(stream.destination, stream.destination_port))
}

/// Describes how far the reservation of a stream reaches, and which nodes refused.
fn outcome(answer: &yessir::Answer, reach: &Outcome) -> String {
    match &answer.failures[..] {
        [] => reach.to_string(),
        notes => {
            let notes: Vec<String> = notes.iter().map(failure).collect();
            format!("{reach} ({})", notes.join("; "))
        }
    }
}

/// Advice about a command that YESSIR rejected.
pub fn yessir_hint(reason: yessir::Rejection) -> &'static str {
    use yessir::Rejection::*;
    match reason {
        Busy | NoApplication => "this is a defect of earmark's; please report it",
        NoRoute => {
            "is the outgoing interface up, and in the daemon's configuration? `earmark show links` lists those that are"
        }
        NotOurAddress => "leave the address of --from out, or give one of this host",
        Ports => {
            "name the ports of the RTP stream with --from ADDR:PORT and --to HOST:PORT, both even; with --mux any will do"
        }
        Name => "a name such as alice@h1.example.org",
        Flowspec => "a positive --rate, a --codec of RFC 3551, or --measured",
        Taken => "release the other one first (`earmark show applications`)",
        NoKey => "the keys that the daemon has are in [yessir] of its configuration",
        Limit => "release what is not needed (`earmark show applications`), or raise the limits",
    }
}
