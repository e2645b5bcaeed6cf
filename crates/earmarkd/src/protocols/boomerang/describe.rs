//! Events of Boomerang as text, and advice about its refusals.

use earmark_boomerang as boomerang;
use earmark_control::protocols::boomerang::rates;

/// Describes an event of Boomerang in one line.
pub(crate) fn event(event: &boomerang::Event, on: &str) -> String {
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
pub(crate) fn rejection(reason: boomerang::Rejection) -> (&'static str, &'static str) {
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
