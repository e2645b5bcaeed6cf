//! RecoveryPath messages, and the Recovery Period of a node that has restarted (RFC 3473 section 9.5.2, RFC 5063).

use std::time::Duration;

use earmark_core::HostEvent;
use earmark_rsvp::{Config, DropReason};
use earmark_wire::rsvp::{
    Body, Capability, Carried, ErrorCode, HelloMessage, Message, Path, RsvpHop,
};

use crate::common::*;
use crate::message_ids::*;
use crate::restarts::*;

/// A router in its Recovery Period, which has preserved 2 Mbit/s for the flow on eth2.
fn recovering_router(config: Config) -> Bench {
    let mut router = with_config(config);
    let flow = flow_of(&path());
    router.ledger.adopt(ETH2, flow, mbps(2), None).expect("there is room");
    router.host(HostEvent::Adopted);
    router
}

fn flow_of(path: &Path<'_>) -> earmark_core::Flow {
    let mut donor = with_config(Config::default());
    donor.receive(ETH1, Body::Path(*path));
    let outcomes = donor.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    earmark_testkit::bench::installed(&outcomes)[0].flow
}

/// The Path of the router, as its next hop returns it.
fn recovery_path(hop: &str) -> Path<'static> {
    Path { hop: RsvpHop { address: ip(hop), lih: 12_345 }, ..path() }
}

fn receive_recovery_path(router: &mut Bench, path: Path<'_>) -> Vec<Outcome> {
    receive(router, ETH2, &Message::new(255, Body::RecoveryPath(path)))
}

/// RFC 5063 section 4.4.2: in the Recovery Period, Hellos have the Recovery Time and R, and neither outside of it.
#[test]
fn hellos_announce_recovery_time_in_recovery_period() {
    let mut router = recovering_router(restart_config());
    let up = Neighbor::new(ETH1);
    let announced = |router: &mut Bench| -> HelloMessage { hellos(&up.hello(router, 0))[0] };
    let message = announced(&mut router);
    assert_eq!(message.restart_cap, restart_cap(RESTART, RECOVERY));
    assert_eq!(message.capability, Some(Capability { flags: T | R }));
    router.pass(RECOVERY);
    let message = announced(&mut router);
    assert_eq!(message.restart_cap, restart_cap(RESTART, Duration::ZERO));
    assert_eq!(message.capability, Some(Capability { flags: T }));
    let mut config = restart_config();
    config.hello.restart.restart_time = None;
    assert_eq!(announced(&mut recovering_router(config)).restart_cap, None);
}

/// RFC 3473 section 9.5.2: a Resv without path state is dropped without ResvErr in the Recovery Period only.
#[test]
fn resv_without_path_is_not_answered_in_recovery_period() {
    let mut router = recovering_router(restart_config());
    let outcomes = refresh_resv(&mut router, 2);
    assert_eq!((count(&outcomes, |_| true), drops(&outcomes)), (0, vec![DropReason::NoState]));
    router.pass(RECOVERY);
    let outcomes = refresh_resv(&mut router, 2);
    let refused = |body: &Body<'_>| matches!(body, Body::ResvErr(error) if error.error.code == ErrorCode::NoPathInformation);
    assert_eq!(count(&outcomes, refused), 1);
}

/// RFC 5063 section 4.5.2.1: the next hop gets the Path of a known sender.
#[test]
fn recovery_path_is_answered_by_path() {
    let mut router = recovering_router(restart_config());
    refresh_path(&mut router);
    let outcomes = receive_recovery_path(&mut router, recovery_path(DOWNSTREAM));
    let [(how, message)] = &sent(&outcomes)[..] else { panic!("one message: {outcomes:?}") };
    let Body::Path(path) = message.body else { panic!("a Path") };
    assert_eq!((how.destination, path.hop.address), (path.session.destination, ip("10.0.2.1")));
    // A MESSAGE_ID is acknowledged instead.
    let message = Body::RecoveryPath(recovery_path(DOWNSTREAM));
    let outcomes = receive(&mut router, ETH2, &capable_message(message, Some(message_id(9))));
    assert_eq!(count(&outcomes, is_path), 0);
    assert_eq!(acknowledged(&router.pass(20 * MS)).len(), 1);
}

/// RFC 5063 sections 4.5.2.2 and 6: a RecoveryPath creates no state. One that matches a preserved reservation waits for the
/// Path; another one is reported.
#[test]
fn recovery_path_creates_nothing() {
    let mut router = recovering_router(restart_config());
    let outcomes = receive_recovery_path(&mut router, recovery_path(DOWNSTREAM));
    assert!(outcomes.is_empty(), "{outcomes:?}");
    let mut other = recovery_path(DOWNSTREAM);
    other.session.port += 1;
    assert_eq!(drops(&receive_recovery_path(&mut router, other)), [DropReason::NoState]);
    assert_eq!(router.engine.population(), (0, 0, 0));
    router.pass(RECOVERY);
    let late = receive_recovery_path(&mut router, recovery_path(DOWNSTREAM));
    assert_eq!(drops(&late), [DropReason::NoState]);
}

/// Only the next hop of the sender may send one, over its own link.
#[test]
fn forged_recovery_path_has_no_effect() {
    let mut router = recovering_router(restart_config());
    refresh_path(&mut router);
    let cases = [("10.0.2.9", DropReason::OtherHop), ("10.0.2.1", DropReason::BadHop)];
    for (hop, reason) in cases {
        let outcomes = receive_recovery_path(&mut router, recovery_path(hop));
        assert_eq!((drops(&outcomes), count(&outcomes, |_| true)), (vec![reason], 0), "{hop}");
    }
    let message = Message::new(255, Body::RecoveryPath(recovery_path(DOWNSTREAM)));
    let outcomes = receive_with_ttl(&mut router, ETH2, 254, &message);
    assert_eq!(drops(&outcomes), [DropReason::FromFar]);
    let outcomes = receive(&mut router, ETH1, &message);
    assert_eq!(count(&outcomes, |_| true), 0, "not where the data go");
    // Without the setting the type is unknown.
    let mut config = restart_config();
    config.hello.restart.restart_time = None;
    let mut router = with_config(config);
    let outcomes = receive_recovery_path(&mut router, recovery_path(DOWNSTREAM));
    assert_eq!(drops(&outcomes), [DropReason::Malformed]);
}

/// RFC 5063 section 4.5.1: the message to the previous hop has the Path as received, with the hop object and the destination of
/// the Resv.
#[test]
fn recovery_path_returns_the_path_as_received() {
    let unknown = [0_u8, 8, 200, 1, 1, 2, 3, 4];
    let mut router = with_config(restart_config());
    let (up, down) = (Neighbor::new(ETH1), Neighbor::new(ETH2));
    up.hello(&mut router, 0);
    down.hello(&mut router, 0);
    let received = Path { carried: Carried::Objects(&unknown), ..refreshed_path() };
    receive(&mut router, ETH1, &Message::new(64, Body::Path(received)));
    let outcomes = refresh_resv(&mut router, 2);
    let [(how, message)] = &sent(&outcomes)[..] else { panic!("a Resv: {outcomes:?}") };
    let Body::Resv(resv) = message.body else { panic!("a Resv") };
    up.restarted(RECOVERY).hello(&mut router, 0);
    let outcomes = router.pass(Duration::ZERO);
    let [(how_back, message)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    let Body::RecoveryPath(back) = message.body else { panic!("a RecoveryPath") };
    assert_eq!(
        (how_back.source, how_back.destination, how_back.ttl),
        (how.source, how.destination, 255)
    );
    assert_eq!(
        (back.hop, back.session, back.sender),
        (resv.hop, received.session, received.sender)
    );
    let carried: Vec<u8> = back.carried.iter().flat_map(|object| object.bytes.to_vec()).collect();
    assert_eq!(carried, unknown);
}

/// RFC 5063 section 4.5.1: three attempts before three quarters of the Recovery Time, until the Path arrives; none if the
/// neighbour does not want them, or for a sender without Resv.
#[test]
fn recovery_path_is_repeated_until_path_arrives() {
    for (flags, has_resv, answers, expected) in [
        (T | R, true, false, 3),
        (T | R, true, true, 1),
        (T, true, false, 0),
        (T | R, false, false, 0),
    ] {
        let mut router = with_config(restart_config());
        let (up, down) = (Neighbor::new(ETH1), Neighbor::new(ETH2));
        up.hello(&mut router, 0);
        down.hello(&mut router, 0);
        refresh_path(&mut router);
        if has_resv {
            refresh_resv(&mut router, 2);
        }
        let up = Neighbor { flags, ..up.restarted(RECOVERY) };
        up.hello(&mut router, 0);
        let mut outcomes = router.pass(MS);
        if answers {
            refresh_path(&mut router);
        }
        outcomes.extend(pass_in_steps(&mut router, 30, |router| {
            up.hello(router, 0);
            down.hello(router, 0);
            if has_resv { refresh_resv(router, 2) } else { Vec::new() }
        }));
        assert_eq!(count(&outcomes, is_recovery_path), expected, "{flags} {has_resv} {answers}");
    }
}

/// Many senders are sent in half of the Recovery Time, not at once.
#[test]
fn state_is_spread_over_half_of_recovery_time() {
    let mut config = restart_config();
    config.timing.refresh = Duration::from_secs(60);
    let mut router = with_config(config);
    let (up, down) = (Neighbor::new(ETH1), Neighbor::new(ETH2));
    up.hello(&mut router, 0);
    down.hello(&mut router, 0);
    for port in 0..400 {
        let mut path = Path { refresh_ms: 60_000, ..path() };
        path.session.port = 6_000 + port;
        receive(&mut router, ETH1, &Message::new(64, Body::Path(path)));
    }
    let down = down.restarted(RECOVERY);
    down.hello(&mut router, 0);
    let first = count(&router.pass(Duration::ZERO), is_path);
    assert!(first <= 16, "{first}");
    let mut sent_paths = first;
    for _ in 0..20 {
        down.hello(&mut router, 0);
        sent_paths += count(&router.pass(SECOND), is_path);
    }
    assert!(sent_paths >= 400, "{sent_paths}");
}

/// The reservation of the earlier run returns to its session: nothing is admitted anew.
#[test]
fn recovered_reservation_takes_over_the_preserved_one() {
    let mut router = recovering_router(restart_config());
    assert_eq!(router.held(), mbps(2));
    refresh_path(&mut router);
    refresh_resv(&mut router, 2);
    assert_eq!(router.held(), mbps(2));
    assert_eq!(router.ledger.link(ETH2).expect("a link").adopted, 0);
}
