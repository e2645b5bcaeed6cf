//! Credentials by the setting of an interface, and the keys of users over their lifetimes.

use std::time::Duration;

use earmark_boomerang::Application;
use earmark_boomerang::credential::{Key, Settings};
use earmark_boomerang::{
    Command, Config, DropReason, Event, RefusalReason, Request, RequestedRates,
};
use earmark_core::keys::Directions;
use earmark_core::{InterfaceId, Rate, Secret, Time};
use earmark_wire::boomerang::{OptionItem, Rates};

use crate::common::*;

fn node(keys: Vec<Key>, interfaces: &[(&str, Directions)]) -> Bench {
    let interfaces = interfaces.iter().map(|&(name, found)| (name.to_owned(), found)).collect();
    with_config(Config { credentials: Settings { keys, interfaces }, ..Config::default() })
}

/// A host behind eth1 of the routers, whose only interface is eth2.
fn host(keys: Vec<Key>, directions: Directions) -> Bench {
    let mut host = node(keys, &[("eth2", directions)]);
    for id in [1, 3] {
        host.interfaces.remove(InterfaceId(id));
    }
    host.add_interface(ETH2, &[NEAR]);
    host
}

fn key(id: u64, user: &str) -> Key {
    Key::new(id, user, Secret::new(format!("secret {id}")))
}

/// A key that is valid for some seconds before and after the start of a bench; negative numbers are before it.
fn dated(id: u64, user: &str, start: i64, end: i64) -> Key {
    let at = |seconds: i64| {
        Time::from_secs(router().now.as_nanos() / 1_000_000_000)
            .as_nanos()
            .saturating_add_signed(seconds * 1_000_000_000)
    };
    let (start, end) = (Time::from_nanos(at(start)), Time::from_nanos(at(end)));
    Key { start, end, ..key(id, user) }
}

fn last_key_expired(outcomes: &[Outcome]) -> usize {
    events(outcomes).iter().filter(|event| matches!(event, Event::LastKeyExpired { .. })).count()
}

/// Each setting of the interface with each state of the user's key.
#[test]
fn requests_by_setting_and_key() {
    let keys = vec![
        dated(1, "alice", -10, 1),
        dated(2, "alice", -10, 0),
        dated(3, "alice", 1, 2),
        dated(4, "bob", -10, -5),
        Key { purpose: Directions::Send, ..key(5, "carol") },
        Key { interfaces: vec!["eth2".into()], ..key(6, "dave") },
        Key { secret: Secret::default(), ..key(7, "erin") },
    ];
    let cases = [
        (None, false, 0),
        (user("alice", "secret 1"), true, 0),
        (user("alice", "secret 2"), false, 0),
        (user("alice", "secret 3"), false, 0),
        (user("alice", "secret 4"), false, 0),
        // The last key of a user stays in use.
        (user("bob", "secret 4"), true, 1),
        (user("carol", "secret 5"), false, 0),
        (user("dave", "secret 6"), false, 0),
        (user("erin", ""), false, 0),
        (user("frank", "secret 1"), false, 0),
    ];
    for directions in [Directions::Both, Directions::Accept, Directions::Send] {
        for (user, is_right, expired) in cases.clone() {
            let request = Request { user, ..request(&[kbit(2_000, 500)]) };
            let case = format!("{directions:?} {:?}", request.user);
            let out = one(&host(vec![], Directions::Accept).reserve(request));
            let mut router = node(keys.clone(), &[("eth1", directions)]);
            let outcomes = router.passes(&out);
            let granted = is_right || !directions.accepts();
            assert_eq!(one(&outcomes).is_nack(), !granted, "{case}");
            assert_eq!(router.held(ETH2), if granted { 2_000 } else { 0 }, "{case}");
            let refused = router.engine.counters().refused[RefusalReason::Credential as usize];
            assert_eq!(refused, u64::from(!granted), "{case}");
            let expired = if directions.accepts() { expired } else { 0 };
            assert_eq!(last_key_expired(&outcomes), expired, "{case}");
        }
    }
}

/// The reply of a request that needed a credential needs it, too: nobody on its way reserves other rates.
#[test]
fn reply_needs_credential_of_its_request() {
    let mut router = node(vec![key(1, "alice")], &[("eth1", Directions::Accept)]);
    let asks = Request { user: user("alice", "secret 1"), ..request(&[kbit(2_000, 500)]) };
    let out = one(&host(vec![], Directions::Accept).reserve(asks));
    router.passes(&out);
    let bare = Message { options: vec![], ..out.clone() };
    let more = Message { rates: vec![kbit(2_000, 900)], ..out.clone() };
    for forged in [bare, more] {
        router.arrives(ETH2, ip(FAR), ip(NEAR), &forged.back());
        assert_eq!(router.held(ETH1), 0, "{forged:?}");
    }
    router.arrives(ETH2, ip(FAR), ip(NEAR), &out.back());
    assert_eq!(router.held(ETH1), 500);
}

/// The host signs with its own key where its interface requires it; nothing leaves without one.
#[test]
fn own_requests_by_setting_and_key() {
    let accept = Key { purpose: Directions::Accept, ..key(1, "alice") };
    let elsewhere = Key { interfaces: vec!["eth1".into()], ..key(1, "alice") };
    for directions in [Directions::Both, Directions::Send] {
        let mut signing = host(vec![key(1, "alice")], directions);
        let out = one(&signing.reserve(request(&[kbit(2_000, 0)])));
        let mut router = node(vec![key(1, "alice")], &[("eth1", Directions::Accept)]);
        router.passes(&out);
        assert_eq!(router.held(ETH2), 2_000);
        for key in [&accept, &elsewhere] {
            let mut host = host(vec![key.clone()], directions);
            assert_eq!(sent(&host.reserve(request(&[kbit(2_000, 0)]))).len(), 0, "{key:?}");
            assert_eq!(host.engine.counters().dropped[DropReason::NotSigned as usize], 1);
            // A secret of the application serves in any case.
            let asks = Request { user: user("bob", "secret 9"), ..request(&[kbit(2_000, 0)]) };
            let other =
                host.command(Command::Reserve { application: Application(8), request: asks });
            assert!(matches!(one(&other).options[..], [OptionItem::UserId(_)]));
        }
    }
    let mut silent = host(vec![key(1, "alice")], Directions::Accept);
    assert_eq!(one(&silent.reserve(request(&[kbit(2_000, 0)]))).options, []);
}

/// The key changes in the middle of the overlap of 50 to 100 s, and the last one stays in use after 200 s, which is reported
/// once at either end. Each change of the rates needs a credential.
#[test]
fn key_rollover_keeps_sessions_and_their_changes() {
    let keys = || vec![dated(1, "alice", 0, 100), dated(2, "alice", 50, 200)];
    let mut host = host(keys(), Directions::Send);
    let mut router = node(keys(), &[("eth1", Directions::Accept)]);
    let start = host.now;
    let first = one(&host.reserve(request(&[kbit(1_000, 0)])));
    router.passes(&first);
    host.arrives(ETH2, ip(FAR), ip(NEAR), &first.back());
    let (mut sender, mut receiver) = (0, 0);
    for second in 1..250_u64 {
        let until = start + Duration::from_secs(second);
        for bench in [&mut host, &mut router] {
            bench.now = until;
        }
        let rates = vec![RequestedRates {
            forward: Rate::from_bps(1_000_000 + 1_000 * second),
            reverse: Rate::ZERO,
        }];
        let outcomes = host.command(Command::Modify { application: APP, rates });
        sender += last_key_expired(&outcomes);
        let out = one(&outcomes);
        let outcomes = router.passes(&out);
        receiver += last_key_expired(&outcomes);
        assert!(!one(&outcomes).is_nack(), "{second} s");
        assert_eq!(router.held(ETH2), 1_000 + second, "{second} s");
        host.arrives(ETH2, ip(FAR), ip(NEAR), &out.back());
        // With either key alone the router accepts what that key has signed.
        for (id, expected) in [(1, second < 75), (2, second >= 75)] {
            let only = Key { start: Time::ZERO, end: Time::MAX, ..key(id, "alice") };
            let mut other = node(vec![only], &[("eth1", Directions::Accept)]);
            assert_eq!(!one(&other.passes(&out)).is_nack(), expected, "key {id} at {second} s");
        }
    }
    assert_eq!((sender, receiver), (1, 1));
}

#[test]
fn replaced_keys_are_used_at_once() {
    let mut router = node(vec![key(1, "alice")], &[("eth1", Directions::Accept)]);
    let asks = |secret| Request { user: user("alice", secret), ..request(&[kbit(2_000, 0)]) };
    let out = |secret| one(&host(vec![], Directions::Accept).reserve(asks(secret)));
    router.command(Command::Keys { keys: vec![key(2, "alice")] });
    assert!(one(&router.passes(&out("secret 1"))).is_nack());
    router.passes(&out("secret 2"));
    assert_eq!(router.held(ETH2), 2_000);
    // Without keys nobody may change anything, but what is reserved stays.
    router.command(Command::Keys { keys: vec![] });
    let release = Message { rates: vec![Rates::ZERO], ..out("secret 2") };
    assert!(one(&router.passes(&release)).is_nack());
    assert_eq!(router.held(ETH2), 2_000);
}
