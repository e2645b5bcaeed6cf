//! Events of YESSIR as text, and advice about its refusals.

use earmark_control::protocols::yessir::{failure, failure_reason};
use earmark_control::text::with_port;
use earmark_core::outcome::Outcome;
use earmark_wire::yessir::Style;
use earmark_yessir as yessir;

use crate::protocol::last_key_expired;

/// Describes an event of YESSIR in one line.
pub(crate) fn event(event: &yessir::Event, on: &str) -> String {
    use yessir::Event::*;
    match event {
        Answered { receiver, answer, reach, .. } => {
            format!("{receiver} answers: {}", outcome(answer, reach))
        }
        Announced { stream: of, answer, reach, .. } => {
            format!("{} is announced: {}", stream(of), outcome(answer, reach))
        }
        AnnouncementGone { stream: of, .. } => format!("{} ended", stream(of)),
        Rejected { reason, .. } => format!("not carried out: {reason}"),
        Reservation { change, stream: of, style, demand, .. } => format!(
            "reservation of {} for {}{} on {on} {}",
            demand.rate,
            stream(of),
            if *style == Style::Shared { " (shared)" } else { "" },
            match change {
                yessir::Change::Created => "made",
                yessir::Change::Grabbed => "granted from freed bandwidth",
                yessir::Change::Changed => "changed",
                yessir::Change::Released => "released",
                yessir::Change::Expired => "expired",
                yessir::Change::Moved => "removed: the route of the stream changed",
                yessir::Change::Failed => "failed",
                yessir::Change::Preempted => "preempted",
            }
        ),
        Refused { stream: of, reason, available, waits, .. } => format!(
            "reservation for {} refused on {on}: {}; {available} is available{}",
            stream(of),
            failure_reason(*reason),
            if *waits { "; it waits for more" } else { "" }
        ),
        LastKeyExpired { key } => last_key_expired(*key),
        Ignored { reason, source, .. } => {
            format!("message from {source} ignored: {}", reason.name())
        }
    }
}

/// Formats a stream: `10.0.0.1:4000 > 10.0.2.2:5000`.
pub(super) fn stream(stream: &yessir::Stream) -> String {
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
pub(crate) fn hint(reason: yessir::Rejection) -> &'static str {
    use yessir::Rejection::*;
    match reason {
        Busy | NoApplication => "this is a defect of earmark's; please report it",
        NoRoute => {
            "is the outgoing interface up, and in the daemon's configuration? `earmark show \
             links` lists those that are"
        }
        NotOurAddress => "omit the address of --from, or give one of this host",
        Ports => {
            "name the ports of the RTP stream with --from ADDR:PORT and --to HOST:PORT, both \
             even; with --mux any will do"
        }
        Name => "a name such as alice@h1.example.org",
        Flowspec => "a positive --rate, a --codec of RFC 3551, or --measured",
        Taken => "release the other one first (`earmark show applications`)",
        Limit => "release some (`earmark show applications`), or raise the limit",
    }
}
