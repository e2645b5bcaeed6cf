//! Boomerang sessions that reserve aggregates across a core, for an edge that aggregates the flows of another protocol.
//!
//! The edge is the initiator of one session for each aggregate, to the far edge, for the range of destinations.

use core::net::IpAddr;

use earmark_boomerang::{
    self as boomerang, Application, OnRefusal, Request, RequestedRates, Selector,
};
use earmark_core::{Flow, Prefix, Rate};

use crate::edge::CoreEvent;
use crate::protocols::Command;

/// Name of the protocol that reserves aggregates.
pub(crate) const PROTOCOL_NAME: &str = "boomerang";

/// Returns the command to reserve the aggregate of this number to the far edge `to`, for destinations in `range`.
pub(crate) fn reserve(number: u32, to: IpAddr, range: Prefix, rate: Rate) -> Command {
    let selector = Selector::of_flow(&Flow::to_range(range));
    let request = Request::new(to, selector, one_way(rate));
    let request = Request { on_refusal: OnRefusal::Release, ..request };
    Command::Boomerang(boomerang::Command::Reserve { application: application(number), request })
}

/// Returns the command to change the rate of an aggregate.
pub(crate) fn modify(number: u32, rate: Rate) -> Command {
    let (application, rates) = (application(number), [one_way(rate)].into());
    Command::Boomerang(boomerang::Command::Modify { application, rates })
}

/// Returns the command to release an aggregate.
pub(crate) fn release(number: u32) -> Command {
    Command::Boomerang(boomerang::Command::Release { application: application(number) })
}

/// Returns an event of an aggregate's reservation, with the number of the aggregate if the application is one. `None` for
/// other events.
pub(crate) fn event_of_aggregate(event: &boomerang::Event) -> Option<(usize, CoreEvent)> {
    use boomerang::Event::*;
    let (application, event) = match event {
        Established { application, rates, .. } | Changed { application, rates, .. } => {
            (application, CoreEvent::Granted(Rate::from_bps(rates.forward.into())))
        }
        Refused { application, .. } => (application, CoreEvent::Refused),
        Offered { application, .. } => (application, CoreEvent::Offered),
        Lost { application } => (application, CoreEvent::Lost),
        Released { application } => (application, CoreEvent::Released),
        Rejected { application, .. } => (application, CoreEvent::Rejected),
        _ => return None,
    };
    Some((usize::try_from(u64::MAX - application.0).ok()?, event))
}

fn one_way(forward: Rate) -> RequestedRates {
    RequestedRates { forward, reverse: Rate::ZERO }
}

/// Application number of an aggregate. Users' applications have low numbers.
fn application(number: u32) -> Application {
    Application(u64::MAX - u64::from(number))
}
