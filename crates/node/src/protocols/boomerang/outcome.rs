//! Outcomes of Boomerang events.

use earmark_boomerang::Event;
use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, Outcome};
use earmark_wire::boomerang::Rates;

/// Returns the application that an event concerns.
pub(crate) fn application(event: &Event) -> Option<u64> {
    use Event::*;
    match event {
        Established { application, .. }
        | Reached { application, .. }
        | Refused { application, .. }
        | Changed { application, .. }
        | Offered { application, .. }
        | Lost { application }
        | Released { application }
        | Rejected { application, .. } => Some(application.0),
        Reservation { .. } | LastKeyExpired { .. } | Dropped { .. } => None,
        Offload(_) | Allowance { .. } => None,
        Withhold { .. } | Recall { .. } | Expiring { .. } => None,
    }
}

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub(crate) fn outcome(event: &Event) -> Option<Outcome> {
    use Event::*;
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
