//! A sender goes that shares its reservations with others, or that many next hops have reserved for: whoever has to hear of
//! it hears of it once, and not next hop by next hop.

mod common;
#[path = "common/sharing.rs"]
mod sharing;

use common::*;
use earmark_rsvp::{Change, Event};
use earmark_wire::rsvp::{Body, FilterSpec, Path, PathTear, Resv, RsvpHop};
use sharing::*;

/// As many next hops as one reservation may have.
const NEXT_HOPS: u8 = 64;

/// A router that knows these senders, of `announced` Mbit/s each.
fn router_with(ports: &[u16], announced: u32) -> Bench {
    let mut router = router();
    for &port in ports {
        let mut path = path_of(sender_on(port));
        path.sender.tspec.rate = tspec(announced).rate;
        router.arrives(ETH1, Body::Path(path));
    }
    router
}

/// The next hop of this number asks for `mbps` Mbit/s for these senders.
fn ask(router: &mut Bench, number: u8, mbps: u32, filters: &[FilterSpec]) {
    let resv = shared(mbps, filters);
    let hop = RsvpHop { address: [10, 0, 2, 2 + number].into(), ..resv.hop };
    router.arrives(ETH2, Body::Resv(Resv { hop, ..resv }));
}

fn end(router: &mut Bench, port: u16) -> Vec<Outcome> {
    let tear = PathTear { template: sender_on(port), ..path_tear() };
    router.arrives(ETH1, Body::PathTear(tear))
}

/// What came about, but for the messages: one letter each.
fn steps(outcomes: &[Outcome]) -> String {
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Sent(..) => None,
        Outcome::Installed(_) => Some('i'),
        Outcome::Added(..) => Some('a'),
        Outcome::TakenOut(..) => Some('t'),
        Outcome::Removed(_) => Some('r'),
        Outcome::Event(Event::Reservation { change: Change::Changed, .. }) => Some('C'),
        Outcome::Event(Event::Reservation { change: Change::Orphaned, .. }) => Some('O'),
        Outcome::Event(Event::PathState { change: Change::Torn, .. }) => Some('P'),
        other => panic!("{other:?}"),
    };
    outcomes.iter().filter_map(letter).collect()
}

/// Each next hop asks for something else, so that each one that left by itself would change what is reserved for the rest.
#[test]
fn the_last_sender_takes_all_requests_with_it_at_once() {
    let mut router = router_with(&[4000], 20);
    for number in 0..NEXT_HOPS {
        ask(&mut router, number, 1 + u32::from(number) % 7, &[sender_on(4000)]);
    }
    assert_eq!(router.engine.population(), (1, 1, NEXT_HOPS.into()));
    let outcomes = end(&mut router, 4000);
    assert_eq!(told(&outcomes), ["PathTear through eth2"]);
    assert_eq!(steps(&outcomes), "OrP");
    assert_eq!(router.engine.population(), (0, 0, 0));
    assert_eq!(router.held(), earmark_core::Rate::ZERO);
}

/// Some requests are for the sender that goes alone, and go with it wherever in the list they stand; the others stay for
/// the one that stays.
#[test]
fn one_sender_of_two_leaves_all_requests_at_once() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = router_with(&[4000, 4001], 20);
    for number in 0..NEXT_HOPS {
        let alone = number % 3 != 1;
        let filters = if alone { &both[..1] } else { &both[..] };
        let mbps = if alone { 3 + u32::from(number) % 5 } else { 2 };
        ask(&mut router, number, mbps, filters);
    }
    let outcomes = end(&mut router, 4000);
    assert_eq!(told(&outcomes), ["PathTear through eth2", "Resv to 10.0.1.1: SE 2 of 4001"]);
    assert_eq!(steps(&outcomes), "tiCP");
    let left: Vec<_> = router.engine.reservations().collect();
    assert_eq!(left.len(), usize::from(NEXT_HOPS) / 3);
    assert!(left.iter().all(|request| request.filters.as_slice() == [sender_on(4001)]), "{left:?}");
    assert_eq!(steps(&end(&mut router, 4001)), "OrP");
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// A request is worth no more than its senders announce, and without them it would be worth all that it says: more than the
/// link has. Nobody is told so while they go.
#[test]
fn no_request_outlives_its_senders_even_for_a_moment() {
    let mut router = router_with(&[4000], 2);
    for number in 0..3 {
        ask(&mut router, number, 20, &[sender_on(4000)]);
    }
    assert_eq!(router.held(), earmark_core::Rate::from_mbps(2));
    assert_eq!(told(&end(&mut router, 4000)), ["PathTear through eth2"]);
}

/// A previous hop that has sent both senders hears of the end of one from nobody here, for it knows; another one has no part
/// in it.
#[test]
fn previous_hops_hear_only_what_is_new_to_them() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = router_with(&[4000], 20);
    let hop = RsvpHop { address: ip("10.0.1.9"), lih: 77 };
    router.arrives(ETH1, Body::Path(Path { hop, ..path_of(sender_on(4001)) }));
    for number in 0..NEXT_HOPS {
        ask(&mut router, number, 2, &both);
    }
    let outcomes = end(&mut router, 4000);
    assert_eq!(told(&outcomes), ["PathTear through eth2"]);
    assert_eq!(steps(&outcomes), "tCP");
}
