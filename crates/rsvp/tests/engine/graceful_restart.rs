//! Neighbours that restart and keep their state in the data plane (RFC 3473 section 9).

use std::time::Duration;

use earmark_core::HostEvent;
use earmark_rsvp::{Change, Command, Event, Renewal, RestartTimes, RestartView};
use earmark_testkit::bench::prefix;
use earmark_wire::rsvp::{Body, Capability, HelloKind, RestartCap};

use crate::common::*;
use crate::message_ids::*;
use crate::restarts::*;

/// RFC 3473 section 9.2: RESTART_CAP is in all Hellos, also in acknowledgements; RFC 5063 section 4.4.1: T, too. Neither is
/// there by default.
#[test]
fn hellos_announce_restart_time() {
    let (mut router, up, _) = reserved_router(restart_config());
    let mut outcomes = up.hello(&mut router, 0);
    outcomes.extend(router.pass(3 * SECOND));
    let hellos_sent = hellos(&outcomes);
    assert!(hellos_sent.iter().any(|message| message.hello.kind == HelloKind::Ack));
    assert!(hellos_sent.iter().any(|message| message.hello.kind == HelloKind::Request));
    for message in hellos_sent {
        assert_eq!(message.restart_cap, restart_cap(RESTART, Duration::ZERO));
        assert_eq!(message.capability, Some(Capability { flags: T }));
    }
    let mut config = restart_config();
    config.hello.restart.restart_time = None;
    let mut router = with_config(config);
    let [answer] = hellos(&up.hello(&mut router, 0))[..] else { panic!("one answer") };
    assert_eq!((answer.restart_cap, answer.capability), (None, None));
}

/// RFC 3473 section 9.3: state of a silent neighbour with a Restart Time is kept for that time, although it expires; Hellos have
/// Dst_Instance 0 and the same Src_Instance; nothing is refreshed.
#[test]
fn silent_neighbor_keeps_its_state_for_restart_time() {
    let (mut router, up, down) = reserved_router(restart_config());
    let [known] = hellos_to(&down.hello(&mut router, 0), DOWNSTREAM)[..] else { panic!("one") };
    let mut keep_up = |router: &mut Bench| {
        up.hello(router, 0);
        refresh_path(router)
    };
    pass_in_steps(&mut router, 5, &mut keep_up);
    let outcomes = pass_in_steps(&mut router, 15, &mut keep_up);
    assert_eq!(router.held(), mbps(2), "its lifetime was 5.25 s");
    assert!(!is_lost(&outcomes));
    assert_eq!(count(&outcomes, is_path), 0, "it is not refreshed");
    let asked = hellos_to(&outcomes, DOWNSTREAM);
    assert!(asked.len() >= 14);
    for hello in asked {
        assert_eq!((hello.source_instance, hello.destination_instance), (known.source_instance, 0));
    }
    assert!(matches!(restart_of(&router, DOWNSTREAM), Some(RestartView::Restarting { .. })));
    // It does not return.
    let outcomes = pass_in_steps(&mut router, 6, &mut keep_up);
    assert!(is_lost(&outcomes));
    assert_eq!((router.held(), restart_of(&router, DOWNSTREAM)), (mbps(0), None));
    let asked = hellos_to(&pass_in_steps(&mut router, 2, &mut keep_up), DOWNSTREAM);
    assert!(asked.iter().all(|hello| hello.source_instance != known.source_instance));
}

/// Without the setting, or for a neighbour without RESTART_CAP, a silent neighbour is lost at once.
#[test]
fn neighbor_is_lost_at_once_without_restart_time() {
    let mut config = restart_config();
    config.hello.restart.restart_time = None;
    let (mut router, up, _) = reserved_router(config);
    let keep_up = |router: &mut Bench| {
        up.hello(router, 0);
        refresh_path(router)
    };
    let outcomes = pass_in_steps(&mut router, 6, keep_up);
    assert!(is_lost(&outcomes) && restarts(&outcomes).is_empty());
    assert_eq!(router.held(), mbps(0));
    let (mut router, up, down) = reserved_router(restart_config());
    Neighbor { restart_cap: None, ..down }.hello(&mut router, 0);
    let keep_up = |router: &mut Bench| {
        up.hello(router, 0);
        refresh_path(router)
    };
    let outcomes = pass_in_steps(&mut router, 7, keep_up);
    assert!(is_lost(&outcomes) && restarts(&outcomes).is_empty());
    assert_eq!(router.held(), mbps(0));
}

/// RFC 3473 section 9.5.3: a neighbour downstream that has restarted gets its Path at once, and keeps its reservation until it
/// has recovered. What it has not asked for again by then is removed.
#[test]
fn restarted_next_hop_gets_path_and_recovers() {
    for returns in [true, false] {
        let (mut router, up, down) = router_without_downstream();
        let down = down.restarted(RECOVERY);
        let outcomes = down.hello(&mut router, 0);
        assert_eq!(restarts(&outcomes), [40_000]);
        assert!(!is_lost(&outcomes));
        assert_eq!(count(&router.pass(Duration::ZERO), is_path), 1);
        let keep = |router: &mut Bench| {
            up.hello(router, 0);
            down.hello(router, 0);
            refresh_path(router)
        };
        let outcomes = pass_in_steps(&mut router, 20, keep);
        assert!(count(&outcomes, is_path) > 10, "refreshes continue");
        assert_eq!(router.held(), mbps(2));
        if returns {
            let outcomes = refresh_resv(&mut router, 2);
            let installed = outcomes.iter().any(|it| matches!(it, Outcome::Installed(_)));
            assert!(!installed, "nothing changes");
        }
        assert!(matches!(restart_of(&router, DOWNSTREAM), Some(RestartView::Recovering { .. })));
        let outcomes = pass_in_steps(&mut router, 21, |router| {
            if returns {
                refresh_resv(router, 2);
            }
            keep(router)
        });
        assert_eq!(router.held(), mbps(if returns { 2 } else { 0 }));
        assert!(!is_lost(&outcomes), "it has returned");
        assert_eq!(restart_of(&router, DOWNSTREAM), None);
    }
}

/// A neighbour that has restarted without its state, with Recovery Time 0, is lost as ever.
#[test]
fn neighbor_that_preserved_nothing_is_lost() {
    let (mut router, ..) = router_without_downstream();
    let down = Neighbor::new(ETH2).restarted(Duration::ZERO);
    let outcomes = down.hello(&mut router, 0);
    assert!(is_lost(&outcomes) && restarts(&outcomes).is_empty());
    assert_eq!(restart_of(&router, DOWNSTREAM), None);
    let outcomes = pass_in_steps(&mut router, 2, refresh_path);
    assert_eq!(router.held(), mbps(0), "the lifetime has passed: {outcomes:?}");
}

/// The upstream neighbour has been silent for 5 s while the downstream one has refreshed its Resv.
fn router_without_upstream() -> (Bench, Neighbor, Neighbor) {
    let (mut router, up, down) = reserved_router(restart_config());
    let outcomes = pass_in_steps(&mut router, 5, |router| {
        down.hello(router, 0);
        refresh_resv(router, 2)
    });
    assert_eq!(restarts(&outcomes).len(), 1);
    (router, up, down)
}

/// RFC 3473 section 9.5.3: the Resv is not refreshed while the previous hop restarts, nor after its return before it has sent
/// the Path; then it is sent at once.
#[test]
fn restarted_previous_hop_gets_resv_after_its_path() {
    let (mut router, up, down) = router_without_upstream();
    let keep = |router: &mut Bench| {
        down.hello(router, 0);
        refresh_resv(router, 2)
    };
    let mut outcomes = pass_in_steps(&mut router, 8, keep);
    let up = up.restarted(RECOVERY);
    let keep = |router: &mut Bench| {
        up.hello(router, 0);
        down.hello(router, 0);
        refresh_resv(router, 2)
    };
    outcomes.extend(pass_in_steps(&mut router, 12, keep));
    assert_eq!(count(&outcomes, is_resv), 0);
    assert_eq!(router.held(), mbps(2), "the Path had a lifetime of 5.25 s");
    assert_eq!(count(&refresh_path(&mut router), is_resv), 1);
    let outcomes = pass_in_steps(&mut router, 10, |router| {
        refresh_path(router);
        keep(router)
    });
    assert!(count(&outcomes, is_resv) >= 5, "refreshes continue");
}

/// A previous hop that does not announce the Path again loses the sender at the end of its Recovery Time.
#[test]
fn path_that_is_not_sent_again_ends_with_recovery_time() {
    let (mut router, up, down) = router_without_upstream();
    let up = up.restarted(RECOVERY);
    let keep = |router: &mut Bench| {
        up.hello(router, 0);
        down.hello(router, 0);
        refresh_resv(router, 2)
    };
    pass_in_steps(&mut router, 39, keep);
    assert_eq!(router.held(), mbps(2));
    let outcomes = pass_in_steps(&mut router, 2, keep);
    assert_eq!(router.held(), mbps(0));
    let expired = |event: &Event| matches!(event, Event::PathState { change: Change::Expired, .. });
    assert!(events(&outcomes).iter().any(expired));
}

/// RFC 3473 section 9.4: a neighbour that returns with the same instance has lost messages only. All state shared with it is
/// refreshed.
#[test]
fn control_channel_fault_refreshes_shared_state() {
    let (mut router, _, down) = router_without_downstream();
    let outcomes = down.hello(&mut router, 0);
    assert!(!is_lost(&outcomes));
    let outcomes = router.pass(10 * MS);
    assert_eq!((count(&outcomes, is_path), restart_of(&router, DOWNSTREAM)), (1, None));
    assert_eq!(router.held(), mbps(2));
    let (mut router, up, _) = router_without_upstream();
    up.hello(&mut router, 0);
    assert_eq!(count(&router.pass(10 * MS), is_resv), 1);
}

/// However long a neighbour announces, and however often it restarts: its state is kept for `max_restart_time`, and then ends.
#[test]
fn announced_times_are_bounded_by_the_setting() {
    let (mut router, up, down) = reserved_router(restart_config());
    let forever = RestartCap { restart_ms: u32::MAX, recovery_ms: u32::MAX };
    let mut down = Neighbor { restart_cap: Some(forever), flags: T | R, ..down };
    down.hello(&mut router, 0);
    let keep_up = |router: &mut Bench| {
        up.hello(router, 0);
        refresh_path(router)
    };
    let outcomes = pass_in_steps(&mut router, 5, keep_up);
    assert_eq!(restarts(&outcomes), [100_000]);
    let outcomes = pass_in_steps(&mut router, 110, |router| {
        down.instance += 1;
        down.hello(router, 0);
        keep_up(router)
    });
    assert_eq!(router.held(), mbps(0));
    assert!(restarts(&outcomes).iter().all(|&kept_ms| kept_ms <= 100_000));
    // A neighbour that is only silent.
    let (mut router, up, down) = reserved_router(restart_config());
    Neighbor { restart_cap: Some(forever), ..down }.hello(&mut router, 0);
    let keep_up = |router: &mut Bench| {
        up.hello(router, 0);
        refresh_path(router)
    };
    pass_in_steps(&mut router, 100, keep_up);
    assert_eq!(router.held(), mbps(2));
    pass_in_steps(&mut router, 8, keep_up);
    assert_eq!(router.held(), mbps(0));
}

/// Faults that follow each other keep state no longer than one: here a neighbour that is silent sends a Hello now and then.
#[test]
fn repeated_faults_are_bounded_by_the_setting() {
    let (mut router, up, down) = reserved_router(restart_config());
    let keep_up = |router: &mut Bench| {
        up.hello(router, 0);
        refresh_path(router)
    };
    for _ in 0..6 {
        pass_in_steps(&mut router, 15, keep_up);
        assert_eq!(router.held(), mbps(2));
        down.hello(&mut router, 0);
    }
    pass_in_steps(&mut router, 20, keep_up);
    assert_eq!(router.held(), mbps(0));
}

/// Forged restarts cause no more messages than one restart a second.
#[test]
fn flood_of_restarts_causes_few_messages() {
    let (mut router, up, mut down) = reserved_router(restart_config());
    up.hello(&mut router, 0);
    let mut outcomes = Vec::new();
    for _ in 0..1_000 {
        down = down.restarted(RECOVERY);
        outcomes.extend(down.hello(&mut router, 0));
        outcomes.extend(router.pass(MS));
    }
    let paths = count(&outcomes, is_path);
    assert!((1..=4).contains(&paths), "{paths}");
}

/// A forged Hello with another instance withholds the Resv only until the next Path of the neighbour, whose state stays.
#[test]
fn forged_restart_is_healed_by_next_path() {
    let (mut router, up, down) = reserved_router(restart_config());
    up.restarted(RECOVERY).hello(&mut router, 0);
    let keep = |router: &mut Bench| {
        up.hello(router, 0);
        down.hello(router, 0);
        refresh_resv(router, 2)
    };
    assert_eq!(count(&refresh_path(&mut router), is_resv), 1);
    let outcomes = pass_in_steps(&mut router, 10, |router| {
        refresh_path(router);
        keep(router)
    });
    assert!(count(&outcomes, is_resv) >= 5);
    assert_eq!(router.held(), mbps(2));
}

/// What happens meanwhile counts: tears, a new route and a preempted reservation end state of a neighbour that restarts.
#[test]
fn teardown_during_restart_ends_state() {
    let (mut router, ..) = router_without_downstream();
    router.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!((router.held(), router.engine.population().1), (mbps(0), 0));
}

#[test]
fn new_route_during_restart_moves_path() {
    let (mut router, up, _) = router_without_downstream();
    router.add_interface(ETH3, "10.0.3.1");
    router.add_route("10.0.9.9/32", ETH3, Some("10.0.3.2"));
    router.host(HostEvent::RouteChanged(prefix("10.0.9.9/32")));
    let outcomes = pass_in_steps(&mut router, 6, |router| {
        up.hello(router, 0);
        refresh_path(router)
    });
    assert!(count(&outcomes, is_path) >= 1, "the new next hop does not restart");
    assert_eq!(router.held(), mbps(0), "the old path has ended");
}

/// Both neighbours restart together, and each gets what it needs.
#[test]
fn two_neighbors_restart_together() {
    let (mut router, up, down) = reserved_router(restart_config());
    let outcomes = router.pass(8 * SECOND);
    assert_eq!(restarts(&outcomes).len(), 2);
    assert_eq!(router.held(), mbps(2));
    let (up, down) = (up.restarted(RECOVERY), down.restarted(RECOVERY));
    up.hello(&mut router, 0);
    down.hello(&mut router, 0);
    let outcomes = router.pass(Duration::ZERO);
    assert_eq!((count(&outcomes, is_path), count(&outcomes, is_recovery_path)), (1, 1));
    assert_eq!(count(&refresh_path(&mut router), is_resv), 1);
    refresh_resv(&mut router, 2);
    let outcomes = pass_in_steps(&mut router, 60, |router| {
        up.hello(router, 0);
        down.hello(router, 0);
        refresh_resv(router, 2);
        refresh_path(router)
    });
    assert!(!is_lost(&outcomes));
    assert_eq!((router.held(), router.engine.population().1), (mbps(2), 1));
}

/// A neighbour that returns with other state: the old one ends with its Recovery Time, the new one is admitted.
#[test]
fn neighbor_returns_with_other_reservation() {
    let (mut router, up, down) = router_without_downstream();
    let down = down.restarted(RECOVERY);
    down.hello(&mut router, 0);
    refresh_resv(&mut router, 3);
    assert_eq!(router.held(), mbps(3));
    let keep = |router: &mut Bench| {
        up.hello(router, 0);
        down.hello(router, 0);
        refresh_resv(router, 3);
        refresh_path(router)
    };
    pass_in_steps(&mut router, 45, keep);
    assert_eq!(router.held(), mbps(3));
}

/// Without Hello requests of its own a node learns of a restart by those of the neighbour.
#[test]
fn restart_is_found_without_own_requests() {
    let mut config = restart_config();
    config.hello.interval = None;
    let (mut router, _, down) = reserved_router(config);
    let outcomes = down.restarted(RECOVERY).hello(&mut router, 0);
    assert_eq!(restarts(&outcomes), [40_000]);
    pass_in_steps(&mut router, 30, refresh_path);
    assert_eq!(router.held(), mbps(2));
    pass_in_steps(&mut router, 11, refresh_path);
    assert_eq!(router.held(), mbps(0));
}

/// New settings count at once: without Restart Time nothing is kept any longer than it lives.
#[test]
fn reload_ends_graceful_restart() {
    let (mut router, ..) = router_without_downstream();
    let restart = RestartTimes { restart_time: None, ..restart_config().hello.restart };
    let renewal = Renewal { restart, ..Renewal::from(restart_config()) };
    router.command(Command::Renew(Box::new(renewal)));
    assert_eq!(restart_of(&router, DOWNSTREAM), None);
    pass_in_steps(&mut router, 2, refresh_path);
    assert_eq!(router.held(), mbps(0));
}
