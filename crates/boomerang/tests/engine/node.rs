//! A Boomerang node between two links: transit messages and their effects.

use std::time::Duration;

use earmark_boomerang::{Change, Config, Direction, Event};
use earmark_core::admission::{Demand, Displaced, Priority};
use earmark_core::{HostEvent, Input, Installation, Rate};
use earmark_wire::boomerang::{Rates, Shape};

use crate::common::*;

const MINUTE_AND_A_HALF: Duration = Duration::from_secs(90);

/// The outward pass reserves where the message leaves, the return pass does so as well, each for its own half.
#[test]
fn one_loop_reserves_both_directions() {
    let mut router = router();
    let loop_ = message(4_000, kbit(2_000, 500));
    let outcomes = router.passes(&loop_);
    assert_eq!(installed(&outcomes), [(ETH2, 2_000)]);
    let [(how, out)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!(*out, loop_, "nothing was edited");
    assert_eq!((how.interface, how.ttl, how.router_alert), (Some(ETH2), 62, true));
    assert_eq!((how.protocol, how.source, how.destination), (1, ip(NEAR), ip(FAR)));
    assert_eq!(router.held_both(), (2_000, 0));

    let outcomes = router.passes(&loop_.back());
    let expected = [(ETH1, 500)];
    assert_eq!(installed(&outcomes), expected);
    let [(how, back)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!(*back, loop_.back());
    assert_eq!((how.interface, how.source, how.destination), (Some(ETH1), ip(FAR), ip(NEAR)));
    assert_eq!(router.held_both(), (2_000, 500));
    assert_eq!(router.engine.population(), (1, 0));
}

/// The reverse half is for the packets of the opposite direction.
#[test]
fn reverse_flow_mirrors_forward_flow() {
    let mut router = router();
    let loop_ = message(4_000, kbit(2_000, 500));
    let mut outcomes = router.passes(&loop_);
    outcomes.extend(router.passes(&loop_.back()));
    let flows: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Installed(installation) => Some(installation.flow),
            _ => None,
        })
        .collect();
    let [forward, reverse] = flows[..] else { panic!("{flows:?}") };
    assert_eq!((forward.source, forward.destination), (Some(ip(NEAR)), ip(FAR)));
    assert_eq!((forward.source_port, forward.destination_port), (4_000, 5_000));
    assert_eq!((reverse.source, reverse.destination), (Some(ip(FAR)), ip(NEAR)));
    assert_eq!((reverse.source_port, reverse.destination_port), (5_000, 4_000));
}

#[test]
fn refresh_extends_lifetime_only() {
    let mut router = router();
    let loop_ = message(4_000, kbit(2_000, 500));
    router.passes(&loop_);
    router.passes(&loop_.back());
    for _ in 0..10 {
        router.pass(Duration::from_secs(89));
        for pass in [&loop_, &loop_.back()] {
            let outcomes = router.passes(pass);
            assert_eq!(outcomes.len(), 1, "it goes on, and that is all");
            assert_eq!(one(&outcomes), *pass);
        }
    }
    assert_eq!(router.engine.counters().refreshed, 20);
    // K = 3 intervals after the last one.
    assert_eq!(router.pass(MINUTE_AND_A_HALF - Duration::from_millis(1)), []);
    let ended = router.pass(Duration::from_millis(1));
    assert_eq!(removed(&ended), 2);
    assert_eq!(router.held_both(), (0, 0));
    assert_eq!(router.engine.population(), (0, 0));
}

/// Each pass refreshes its own half: if the replies take another path now, the reverse half expires.
#[test]
fn half_without_refresh_expires_alone() {
    let mut router = router();
    let loop_ = message(4_000, kbit(2_000, 500));
    router.passes(&loop_);
    router.passes(&loop_.back());
    router.pass(Duration::from_secs(60));
    router.passes(&loop_);
    router.pass(Duration::from_secs(60));
    assert_eq!(router.held_both(), (2_000, 0));
    assert_eq!(router.engine.population(), (1, 0));
}

#[test]
fn refusal_carries_available_rate_and_is_forwarded() {
    let mut router = with_config(Config { max_refresh_interval: 20, ..Config::default() });
    router.passes(&message(1, kbit(5_000, 0)));
    let outcomes = router.passes(&message(2, kbit(3_000, 700)));
    let refused = one(&outcomes);
    assert!(refused.is_nack());
    assert_eq!(refused.rates, [kbit(2_500, 700)], "the reverse part is for the way back");
    assert_eq!((refused.key, refused.interval), (0, 20));
    assert_eq!(router.held_both(), (5_000, 0));
    // After the refusal the message only queries.
    let outcomes = router.passes(&refused.back());
    assert_eq!(installed(&outcomes), []);
    assert_eq!(one(&outcomes).rates, [kbit(2_500, 700)]);
    router.passes(&message(3, kbit(0, 7_000)).back());
    let outcomes = router.passes(&refused.back());
    assert_eq!(one(&outcomes).rates, [kbit(2_500, 500)], "only lowered");
    assert_eq!(router.engine.population(), (2, 0));
}

#[test]
fn refused_renegotiation_keeps_old_grant() {
    let mut router = router();
    router.passes(&message(1, kbit(2_000, 0)));
    assert_eq!(installed(&router.passes(&message(1, kbit(3_000, 0)))), [(ETH2, 3_000)]);
    assert_eq!(installed(&router.passes(&message(1, kbit(1_000, 0)))), [(ETH2, 1_000)]);
    router.passes(&message(2, kbit(5_000, 0)));
    let outcomes = router.passes(&message(1, kbit(4_000, 0)));
    assert_eq!(installed(&outcomes), []);
    assert_eq!(one(&outcomes).rates, [kbit(2_500, 0)], "what it has counts as available");
    assert_eq!(router.held_both().0, 6_000);
    // An initiating node that goes on asking for too much keeps the existing grant alive.
    for _ in 0..5 {
        router.pass(Duration::from_secs(60));
        assert!(one(&router.passes(&message(1, kbit(9_000, 0)))).is_nack());
    }
    assert_eq!(router.held_both().0, 1_000);
}

#[test]
fn zero_rates_on_either_pass_release_session() {
    let mut router = router();
    let loop_ = message(1, kbit(2_000, 500));
    router.passes(&loop_);
    router.passes(&loop_.back());
    let release = message(1, Rates::ZERO);
    let outcomes = router.passes(&release);
    assert_eq!(removed(&outcomes), 2);
    assert_eq!(one(&outcomes), release);
    assert_eq!(router.engine.population(), (0, 0));
    assert_eq!(router.passes(&release.back()).len(), 1, "nothing is left to be done");

    router.passes(&loop_.back());
    assert_eq!(removed(&router.passes(&release.back())), 1);
    assert_eq!(router.held_both(), (0, 0));
}

/// A refusal that lowered both rates to nothing is no release.
/// A session that a more important claim displaces in part keeps the rest, which its next refresh asks for in vain.
#[test]
fn displaced_half_keeps_a_part() {
    for (kept, held, removals) in [(500, 500, 0), (0, 0, 1)] {
        let mut router = router();
        let outcomes = router.passes(&message(1, kbit(2_000, 0)));
        let claims: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Installed(installation) => Some(*installation),
                _ => None,
            })
            .collect();
        let [Installation { claim, demand, .. }] = claims[..] else { panic!("{claims:?}") };
        let owner = router.ledger.owner(claim).expect("an owner");
        let kept = Rate::from_bps(kept * 1_000);
        match kept > Rate::ZERO {
            true => router.ledger.change(claim, Demand { rate: kept, ..demand }).expect("less"),
            false => _ = router.ledger.release(claim),
        }
        let displaced = Displaced { claim, owner, kept, by: Priority::default() };
        let outcomes = router.handle(Input::Host(HostEvent::Displaced(displaced)));
        let change = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Event(Event::Reservation { change, rate, .. }) => {
                Some((*change, rate.as_bps() / 1_000))
            }
            _ => None,
        });
        assert_eq!(change.map(|(change, _)| change), Some(Change::Preempted));
        assert_eq!((router.held(ETH2), removed(&outcomes)), (held, removals));
        assert_eq!(installed(&outcomes).len(), 1 - removals);
        if removals == 0 {
            assert_eq!(change.map(|(_, rate)| rate), Some(500));
            assert_eq!(installed(&outcomes), [(ETH2, 500)]);
        }
    }
}

#[test]
fn refusal_without_offer_releases_nothing() {
    let mut router = router();
    router.passes(&message(1, kbit(2_000, 500)));
    let mut refused = message(1, Rates::ZERO);
    refused.flags = 1;
    router.passes(&refused);
    assert_eq!(router.held_both(), (2_000, 0));
}

#[test]
fn zero_rate_in_one_direction_releases_one_half() {
    let mut router = router();
    let both = message(1, kbit(2_000, 500));
    router.passes(&both);
    router.passes(&both.back());
    let forward_only = message(1, kbit(2_000, 0));
    router.passes(&forward_only);
    assert_eq!(router.held_both(), (2_000, 500));
    router.passes(&forward_only.back());
    assert_eq!(router.held_both(), (2_000, 0));
    assert_eq!(one(&router.passes(&forward_only.back())), forward_only.back());
}

#[test]
fn long_interval_is_lowered_and_governs_expiry() {
    let mut router = with_config(Config { max_refresh_interval: 10, ..Config::default() });
    let loop_ = message(1, kbit(1_000, 1_000));
    let lowered = one(&router.passes(&loop_));
    assert_eq!((lowered.interval, lowered.is_nack()), (10, false));
    assert_eq!(one(&router.passes(&loop_)).interval, 10, "a refresh likewise");
    router.pass(Duration::from_secs(30));
    assert_eq!(router.engine.population(), (0, 0));
}

/// The claim moves with the next message; the bandwidth of the old link is free at once.
#[test]
fn session_after_route_change_moves_to_new_link() {
    let mut router = router();
    let loop_ = message(1, kbit(2_000, 0));
    router.passes(&loop_);
    assert_eq!(router.move_route(), []);
    assert_eq!((router.held(ETH2), router.held(ETH3)), (2_000, 0));
    let outcomes = router.passes(&loop_);
    assert_eq!(installed(&outcomes), [(ETH3, 2_000)]);
    assert_eq!(removed(&outcomes), 1);
    assert_eq!((router.held(ETH2), router.held(ETH3)), (0, 2_000));
    assert_eq!(router.passes(&loop_).len(), 1, "and then it is refreshed as ever");
}

#[test]
fn session_without_room_on_new_route_is_refused() {
    let mut router = router();
    router.add_route("10.0.8.0/24", ETH3, None);
    router.arrives(ETH1, ip(NEAR), ip("10.0.8.8"), &message(9, kbit(7_000, 0)));
    router.passes(&message(1, kbit(2_000, 0)));
    router.move_route();
    let refused = one(&router.passes(&message(1, kbit(2_000, 0))));
    assert!(refused.is_nack());
    assert_eq!(refused.rates, [kbit(500, 0)]);
    assert_eq!((router.held(ETH2), router.held(ETH3)), (0, 7_000));
}

/// Traffic control may refuse what the ledger granted. A node never originates a message, so the next message of the
/// session is refused; the one after that may try again.
#[test]
fn traffic_control_refusal_is_reported_with_next_message() {
    let mut router = router();
    let loop_ = message(1, kbit(2_000, 0));
    let outcomes = router.passes(&loop_);
    let Some(Outcome::Installed(installation)) =
        outcomes.iter().find(|o| matches!(o, Outcome::Installed(_)))
    else {
        panic!("{outcomes:?}")
    };
    let owner = router.ledger.owner(installation.claim).expect("it is claimed");
    assert_eq!(owner.protocol, earmark_boomerang::ID);
    let refusal = HostEvent::TrafficControlRefused { claim: installation.claim, owner, errno: 28 };
    let outcomes = router.handle(Input::Host(refusal));
    assert_eq!(removed(&outcomes), 1);
    assert_eq!(router.held(ETH2), 0);
    let refused = one(&router.passes(&loop_));
    assert!(refused.is_nack());
    assert_eq!(refused.rates, [kbit(0, 0)]);
    assert!(!one(&router.passes(&loop_)).is_nack());
    assert_eq!(router.held(ETH2), 2_000);
}

/// A fault that no message asks about expires like any session, also if the packets now leave where nothing is
/// reserved.
#[test]
fn unreported_fault_expires() {
    for leaves_elsewhere in [false, true] {
        let mut router = router();
        router.passes(&message(1, kbit(2_000, 0)));
        let view = router.engine.sessions().next().expect("there is one");
        let claim = view.forward.expect("reserved").claim;
        let owner = router.ledger.owner(claim).expect("it is claimed");
        router.handle(Input::Host(HostEvent::TrafficControlRefused { claim, owner, errno: 1 }));
        assert_eq!(router.engine.population(), (1, 0));
        if leaves_elsewhere {
            let mut eth2 = router.interfaces.by_id(ETH2).expect("an interface").clone();
            eth2.bandwidth = Rate::ZERO;
            router.interfaces.set(eth2);
            router.host(HostEvent::InterfaceChanged(ETH2));
            router.passes(&message(1, kbit(2_000, 0)));
        }
        router.pass(MINUTE_AND_A_HALF);
        assert_eq!(router.engine.population(), (0, 0), "{leaves_elsewhere}");
    }
}

#[test]
fn second_initiating_node_of_flow_is_refused() {
    let mut router = router();
    router.passes(&message(1, kbit(2_000, 0)));
    for rates in [kbit(3_000, 0), kbit(2_000, 0), Rates::ZERO] {
        let outcomes = router.arrives(ETH1, ip("10.0.1.66"), ip(FAR), &message(1, rates));
        assert!(one(&outcomes).is_nack());
        assert_eq!(router.held(ETH2), 2_000);
    }
}

/// Sessions under different masks are different, and a packet belongs to the most specific one.
#[test]
fn sessions_under_different_masks_match_longest() {
    let mut router = router();
    let flow = message(4_000, kbit(1_000, 0));
    let mut host = flow.clone();
    host.mask = Shape { source_port: false, destination_port: false, ..flow.mask };
    host.rates = vec![kbit(2_000, 0)];
    router.passes(&host);
    router.passes(&flow);
    let mut same = host.clone();
    same.classifier.source_port = 99; // not covered by the mask
    assert_eq!(one(&router.passes(&same)), same);
    assert_eq!(router.engine.population(), (2, 0));
    assert_eq!(router.held(ETH2), 3_000);
    let packet = |port| earmark_core::Flow {
        destination: ip(FAR),
        source: Some(ip(NEAR)),
        protocol: 17,
        destination_port: 5_000,
        source_port: port,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let rate = |port| {
        let session = router.engine.session_for(&packet(port)).expect("one matches");
        session.forward.expect("it is reserved").rate
    };
    assert_eq!((rate(4_000), rate(4_001)), (Rate::from_mbps(1), Rate::from_mbps(2)));
    assert_eq!(router.engine.session_for(&earmark_core::Flow { protocol: 6, ..packet(1) }), None);
}

/// A mask may leave address bits and the protocol open: traffic control gets a range.
#[test]
fn prefixes_become_ranges() {
    let ranges = |to: u8, from: u8, port: bool, protocol: bool| {
        let mut loop_ = message(1, kbit(1_000, 500));
        loop_.mask = Shape {
            source: from,
            destination: to,
            source_port: false,
            destination_port: port,
            protocol,
            tos: false,
        };
        let mut router = router();
        let outcomes = router.passes(&loop_);
        let nack = one(&outcomes).is_nack();
        let flows = outcomes.into_iter().filter_map(|outcome| match outcome {
            Outcome::Installed(installation) => Some(installation.flow),
            _ => None,
        });
        (nack, flows.collect::<Vec<_>>())
    };
    let open = |flow: &earmark_core::Flow| {
        let source = flow.source.map(|source| (source, flow.source_open));
        (flow.destination, flow.destination_open, source, flow.protocol, flow.destination_port)
    };
    let (nack, flows) = ranges(24, 16, true, true);
    assert!(!nack);
    let forward = flows.first().map(open);
    let network = (ip("10.0.0.0"), 16);
    assert_eq!(forward, Some((ip("10.0.9.0"), 8, Some(network), 17, 5_000)));
    let (nack, flows) = ranges(24, 0, false, false);
    assert!(!nack);
    assert_eq!(flows.first().map(open), Some((ip("10.0.9.0"), 8, None, 0, 0)));
}

/// The first pair of rates that can be granted counts, those before it are set to zero; none left is a refusal.
#[test]
fn downgrade_list_grants_first_pair_that_fits() {
    let mut router = router();
    let mut loop_ = message(1, Rates::ZERO);
    loop_.rates = vec![kbit(9_000, 0), kbit(8_000, 0), kbit(3_000, 1_000), kbit(1_000, 1_000)];
    let out = one(&router.passes(&loop_));
    let expected = [Rates::ZERO, Rates::ZERO, kbit(3_000, 1_000), kbit(1_000, 1_000)];
    assert_eq!(out.rates, expected);
    assert!(!out.is_nack());
    router.passes(&message(2, kbit(0, 7_000)).back());
    let back = one(&router.passes(&out.back()));
    assert_eq!(back.rates, [Rates::ZERO; 4]);
    assert!(back.is_nack());
    assert_eq!(router.held_both(), (3_000, 7_000));
    // When the list asks for less, less is reserved.
    loop_.rates = vec![Rates::ZERO, Rates::ZERO, Rates::ZERO, kbit(1_000, 400)];
    assert_eq!(one(&router.passes(&loop_)).rates, loop_.rates);
    assert_eq!(one(&router.passes(&loop_.back())).rates, loop_.rates);
    assert_eq!(router.held_both(), (1_000, 7_400));
}

#[test]
fn ipv6_loop_reserves_both_directions() {
    let mut router = router();
    let mut loop_ = message(4_000, kbit(2_000, 500));
    loop_.classifier = classifier("2001:db8:1::1", "2001:db8:9::9", 4_000);
    loop_.mask = Shape { source: 128, destination: 128, ..loop_.mask };
    let outcomes = router.passes(&loop_);
    let [(how, _)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!(how.protocol, 58);
    router.passes(&loop_.back());
    assert_eq!(router.held_both(), (2_000, 500));
    assert_eq!(router.passes(&loop_).len(), 1);
    loop_.rates = vec![kbit(9_000, 500)];
    assert_eq!(one(&router.passes(&loop_)).rates, [kbit(7_500, 500)], "and its sum is right");
    loop_.rates = vec![Rates::ZERO];
    assert_eq!(removed(&router.passes(&loop_)), 2);
    assert_eq!(router.engine.population(), (0, 0));
}

/// Watchers receive every change of a reservation.
#[test]
fn every_change_is_reported() {
    let mut router = router();
    let mut changes = Vec::new();
    let mut note = |outcomes: Vec<Outcome>| {
        changes.extend(outcomes.into_iter().filter_map(|outcome| match outcome {
            Outcome::Event(Event::Reservation { change, direction, rate, .. }) => {
                Some((change, direction, rate.as_bps() / 1_000))
            }
            _ => None,
        }));
    };
    note(router.passes(&message(1, kbit(100, 50))));
    note(router.passes(&message(1, kbit(200, 50))));
    note(router.passes(&message(1, kbit(200, 50)).back()));
    router.move_route();
    note(router.passes(&message(1, kbit(200, 50))));
    note(router.pass(Duration::from_secs(100)));
    use Direction::{Forward, Reverse};
    let expected = [
        (Change::Created, Forward, 100),
        (Change::Changed, Forward, 200),
        (Change::Created, Reverse, 50),
        (Change::Moved, Forward, 200),
        (Change::Created, Forward, 200),
        (Change::Expired, Forward, 200),
        (Change::Expired, Reverse, 50),
    ];
    assert_eq!(changes, expected);
}
