//! End of a sender that shares its reservations, or that many next hops have reserved for: each node concerned gets one
//! message, not one for each next hop.

use earmark_rsvp::{Change, Event};
use earmark_wire::rsvp::{Body, FilterSpec, Path, PathTear, Resv, RsvpHop};

use crate::common::*;
use crate::sharing::*;

/// Limit of next hops of one reservation.
const NEXT_HOPS: u8 = 64;

/// A router with these senders, of `announced` Mbit/s each.
fn router_with(ports: &[u16], announced: u32) -> Bench {
    let mut router = router();
    for &port in ports {
        let mut path = path_of(sender_on(port));
        path.sender.tspec.rate = tspec(announced).rate;
        router.receive(ETH1, Body::Path(path));
    }
    router
}

/// Next hop number `number` requests `mbps` Mbit/s for these senders.
fn ask(router: &mut Bench, number: u8, mbps: u32, filters: &[FilterSpec]) {
    let resv = shared(mbps, filters);
    let hop = RsvpHop { address: [10, 0, 2, 2 + number].into(), ..resv.hop };
    router.receive(ETH2, Body::Resv(Resv { hop, ..resv }));
}

fn end(router: &mut Bench, port: u16) -> Vec<Outcome> {
    let tear = PathTear { template: sender_on(port), ..path_tear() };
    router.receive(ETH1, Body::PathTear(tear))
}

/// Outcomes without messages, as one letter each.
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

/// All requests differ, so removing them one by one would change the reservation each time.
#[test]
fn last_sender_ends_all_requests_at_once() {
    let mut router = router_with(&[4000], 20);
    for number in 0..NEXT_HOPS {
        ask(&mut router, number, 1 + u32::from(number) % 7, &[sender_on(4000)]);
    }
    assert_eq!(router.engine.population(), (1, 1, NEXT_HOPS.into()));
    let outcomes = end(&mut router, 4000);
    assert_eq!(sent_texts(&outcomes), ["PathTear through eth2"]);
    assert_eq!(steps(&outcomes), "OrP");
    assert_eq!(router.engine.population(), (0, 0, 0));
    assert_eq!(router.held(), earmark_core::Rate::ZERO);
}

/// Requests for the ending sender alone are removed wherever they are in the list; the others remain for the other
/// sender.
#[test]
fn ending_sender_leaves_all_requests_at_once() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = router_with(&[4000, 4001], 20);
    for number in 0..NEXT_HOPS {
        let alone = number % 3 != 1;
        let filters = if alone { &both[..1] } else { &both[..] };
        let mbps = if alone { 3 + u32::from(number) % 5 } else { 2 };
        ask(&mut router, number, mbps, filters);
    }
    let outcomes = end(&mut router, 4000);
    assert_eq!(sent_texts(&outcomes), ["PathTear through eth2", "Resv to 10.0.1.1: SE 2 of 4001"]);
    assert_eq!(steps(&outcomes), "tiCP");
    let left: Vec<_> = router.engine.reservations().collect();
    assert_eq!(left.len(), usize::from(NEXT_HOPS) / 3);
    assert!(left.iter().all(|request| request.filters.as_slice() == [sender_on(4001)]), "{left:?}");
    assert_eq!(steps(&end(&mut router, 4001)), "OrP");
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// A sender of a group ends: the reservations on all interfaces lose it.
#[test]
fn ending_sender_leaves_the_reservations_of_all_branches() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = fork();
    branch(&mut router, SENDER, ETH1, &[ETH2, ETH3]);
    for sender in both {
        router.receive(ETH1, to_group(Body::Path(path_of(sender))));
    }
    for (interface, next_hop) in [(ETH2, "10.0.2.2"), (ETH3, "10.0.3.2")] {
        let hop = RsvpHop { address: ip(next_hop), lih: interface.0 };
        router.receive(interface, to_group(Body::Resv(Resv { hop, ..shared(2, &both) })));
    }
    let tear = PathTear { session: group(), template: both[0], ..path_tear() };
    assert_eq!(steps(&router.receive(ETH1, Body::PathTear(tear))), "tCtCP");
    let left: Vec<_> = router.engine.reservations().collect();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|request| request.filters.as_slice() == [both[1]]), "{left:?}");
}

/// A request is limited by the traffic of its senders. Without them its full flowspec would exceed the link; no error
/// about that is sent while they end.
#[test]
fn request_without_senders_causes_no_error() {
    let mut router = router_with(&[4000], 2);
    for number in 0..3 {
        ask(&mut router, number, 20, &[sender_on(4000)]);
    }
    assert_eq!(router.held(), earmark_core::Rate::from_mbps(2));
    assert_eq!(sent_texts(&end(&mut router, 4000)), ["PathTear through eth2"]);
}

/// A previous hop that has sent both senders gets no message about the end of one, which it has sent itself; another
/// one is not concerned.
#[test]
fn end_of_sender_informs_only_concerned_previous_hops() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = router_with(&[4000], 20);
    let hop = RsvpHop { address: ip("10.0.1.9"), lih: 77 };
    router.receive(ETH1, Body::Path(Path { hop, ..path_of(sender_on(4001)) }));
    for number in 0..NEXT_HOPS {
        ask(&mut router, number, 2, &both);
    }
    let outcomes = end(&mut router, 4000);
    assert_eq!(sent_texts(&outcomes), ["PathTear through eth2"]);
    assert_eq!(steps(&outcomes), "tCP");
}
