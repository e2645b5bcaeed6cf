//! Events of Boomerang as text, and advice about its refusals.

use earmark_boomerang as boomerang;
use earmark_control::protocols::boomerang::rates;

use crate::protocol::last_key_expired;

/// Describes an event of Boomerang in one line.
pub(crate) fn event(event: &boomerang::Event, on: &str) -> String {
    use boomerang::Event::*;
    match event {
        Established { rates: granted, confirmed, .. } => {
            let way = match confirmed {
                true => "the message returned without a refusal",
                false => "this host has reserved",
            };
            format!("{way}: {}", rates(granted))
        }
        Reached { reach, .. } => reach.to_string(),
        Refused { offer, reaction, .. } => {
            let reaction = match reaction {
                boomerang::OnRefusal::Retry => "the request is repeated",
                boomerang::OnRefusal::TakeOffer => "that is taken",
                boomerang::OnRefusal::Release => "the request has ended",
            };
            format!("refused; {} is available; {reaction}", rates(offer))
        }
        Changed { rates: granted, .. } => format!("{} are in place now", rates(granted)),
        Offered { offer, reach, .. } => format!("{} is available: {reach}", rates(offer)),
        Lost { .. } => "no reply; the request is repeated".to_owned(),
        Released { .. } => "released".to_owned(),
        Rejected { reason, .. } => format!("not carried out: {}", rejection(*reason).0),
        Reservation { change, selector, direction, rate, .. } => format!(
            "reservation of {rate} for {selector} ({}) on {on} {}",
            match direction {
                boomerang::Direction::Forward => "forward",
                boomerang::Direction::Reverse => "reverse",
            },
            match change {
                boomerang::Change::Created => "made",
                boomerang::Change::Changed => "changed",
                boomerang::Change::Moved => "removed: its route changed",
                boomerang::Change::Unlocked => "installed",
                boomerang::Change::Released => "released",
                boomerang::Change::Expired => "expired",
                boomerang::Change::Preempted => "preempted",
                boomerang::Change::Orphaned => "refused by traffic control",
                boomerang::Change::Aggregated => "moved into an aggregate",
            }
        ),
        Offload(session) => format!("the kernel processes refreshes of {}", session.selector),
        Allowance { initiator, changes, .. } => {
            format!("the kernel may set up {changes} reservations for {initiator}")
        }
        Withhold { selector } => format!("the kernel processes no message of {selector}"),
        Recall { selector } => format!("the kernel removes {selector}"),
        Expiring { selector } => format!("{selector} is about to expire"),
        LastKeyExpired { key } => last_key_expired(*key),
        Dropped { reason, source, .. } => {
            format!("message from {source} dropped: {}", reason.name())
        }
    }
}

/// Describes why Boomerang rejected a command, with advice.
pub(crate) fn rejection(reason: boomerang::Rejection) -> (&'static str, &'static str) {
    use boomerang::Rejection::*;
    match reason {
        SessionOpen | NoSession => (
            "the application has a session, or none",
            "this is a defect of earmark's; please report it",
        ),
        NoRoute => (
            "there is no route to the destination",
            "is the outgoing interface up, and in the daemon's configuration? `earmark show \
             links` lists those that are",
        ),
        BadSelector => (
            "the selector does not identify a flow",
            "source and destination of one IP version; ports need an IP protocol that has ports",
        ),
        BadRateList => (
            "the list of rates is empty, too long, or does not decrease",
            "the largest rates come first",
        ),
        BadRate => (
            "a rate does not fit, or all are zero",
            "rates of Boomerang are from 1 bit/s to 4.29 Gbit/s; give --forward, --reverse, or \
             both",
        ),
        Multicast => {
            ("a group cannot send back", "leave --reverse out: loops to groups reserve one way")
        }
        BadInterval => ("the interval is zero", "1 to 255 seconds"),
        TooMany => (
            "session limit reached",
            "release some (`earmark show applications`), or raise the limit",
        ),
    }
}
