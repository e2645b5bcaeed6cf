//! Settings that change while the engine runs: new work is subject to the new ones, and existing state stays.

use earmark_core::{HostEvent, Rate};
use earmark_rsvp::policy::{Action, Rule};
use earmark_rsvp::proxy::{ReceiverProxy, SenderProxy};
use earmark_rsvp::{Command, Config, Renewal, Timing, limits, policy, proxy};
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, Dscp, ErrorCode, FilterSpec, FlowDescriptors, List, Path, PathErr,
    PathTear, Resv, ResvErr, Session, SourceSelector,
};

use crate::common::*;
use crate::message_ids::*;

/// Replaces the settings by the default ones with some changes.
fn reload(bench: &mut Bench, change: impl FnOnce(&mut Renewal)) -> Vec<Outcome> {
    let mut renewal = Renewal::from(Config::default());
    change(&mut renewal);
    bench.command(Command::Renew(Box::new(renewal)))
}

fn session_to(port: u16) -> Session {
    Session { port, ..session() }
}

/// Handles a Path; returns the error that answers it.
fn announce(bench: &mut Bench, port: u16) -> Option<ErrorCode> {
    let path = Path { session: session_to(port), ..path() };
    error(&bench.receive(ETH1, Body::Path(path)))
}

/// Handles a Resv; returns the error that answers it.
fn ask(bench: &mut Bench, port: u16, mbps: u32) -> Option<ErrorCode> {
    let flows = [flow(mbps)];
    let resv = Resv { session: session_to(port), ..resv(&flows) };
    error(&bench.receive(ETH2, Body::Resv(resv)))
}

fn error(outcomes: &[Outcome]) -> Option<ErrorCode> {
    sent(outcomes).into_iter().find_map(|(_, message)| match message.body {
        Body::PathErr(PathErr { error, .. }) | Body::ResvErr(ResvErr { error, .. }) => {
            Some(error.code)
        }
        _ => None,
    })
}

/// Two senders with reservations exist when the limit becomes one.
#[test]
fn reduced_limit_keeps_existing_state() {
    let mut bench = router();
    for port in [1, 2] {
        assert_eq!((announce(&mut bench, port), ask(&mut bench, port, 1)), (None, None));
    }
    let limits = limits::Settings { per_neighbor: Some(1), ..limits::Settings::default() };
    assert_eq!(reload(&mut bench, |new| new.limits = limits), []);
    for port in [1, 2] {
        assert_eq!((announce(&mut bench, port), ask(&mut bench, port, 1)), (None, None));
    }
    assert_eq!(ask(&mut bench, 2, 2), None, "what is there may change");
    assert_eq!(announce(&mut bench, 3), Some(ErrorCode::RsvpSystemError));
    assert_eq!((bench.engine.population(), bench.held()), ((2, 2, 2), Rate::from_mbps(3)));

    assert_eq!(reload(&mut bench, |new| new.max_sessions = 3), []);
    assert_eq!((announce(&mut bench, 3), ask(&mut bench, 3, 1)), (None, None));
    assert_eq!(announce(&mut bench, 4), Some(ErrorCode::RsvpSystemError));
}

/// A grant stays in its account when the limit of its rule changes, and when the rule moves; a rule that refuses leaves
/// existing reservations.
#[test]
fn changed_rule_keeps_its_account() {
    let from =
        |range: &str| Rule { sources: vec![range.parse().expect("a range")], ..Rule::default() };
    let total = |mbps| Rule { total: Some(Rate::from_mbps(mbps)), ..from("10.0.0.0/24") };
    let rules = |rules: &[Rule]| {
        let rules = rules.to_vec();
        move |new: &mut Renewal| {
            new.policy = policy::Settings { rules, ..policy::Settings::default() };
        }
    };
    let refused = Some(ErrorCode::PolicyControlFailure);
    let mut bench = router();
    for port in 1..=4 {
        announce(&mut bench, port);
    }
    reload(&mut bench, rules(&[total(2)]));
    assert_eq!((ask(&mut bench, 1, 2), ask(&mut bench, 2, 1)), (None, refused));
    reload(&mut bench, rules(&[from("10.7.0.0/24"), total(3)]));
    assert_eq!((ask(&mut bench, 2, 1), ask(&mut bench, 3, 1)), (None, refused));
    let none = Rule { action: Action::Refuse, ..from("10.0.0.0/24") };
    reload(&mut bench, rules(&[none]));
    assert_eq!((ask(&mut bench, 1, 2), ask(&mut bench, 3, 1)), (None, refused));
    assert_eq!(bench.held(), Rate::from_mbps(3));
    reload(&mut bench, rules(&[total(4)]));
    assert_eq!((ask(&mut bench, 3, 1), ask(&mut bench, 4, 1)), (None, refused));
    reload(&mut bench, rules(&[]));
    assert_eq!(ask(&mut bench, 4, 1), None);
}

/// A new proxy also answers existing senders; a removed one ends its own reservations, and no others.
#[test]
fn changed_receiver_proxies_update_reservations() {
    let (mut bench, first, _) = acknowledged_router();
    assert_eq!(bench.held(), Rate::from_mbps(2));
    announce(&mut bench, 7);
    let behind_eth2 = ReceiverProxy {
        interfaces: vec!["eth2".to_owned()],
        rate: Some(Rate::from_mbps(1)),
        port: Some(7),
        ..ReceiverProxy::default()
    };
    let receivers = vec![behind_eth2];
    reload(&mut bench, |new| new.proxies = proxy::Settings { receivers, ..Default::default() });
    let outcomes = bench.pass(3 * SECOND);
    assert_eq!(bench.held(), Rate::from_mbps(3));
    // Refused answers are retried with refreshes, so there are refresh messages from now on.
    let sent = sent(&outcomes);
    let paths = sent.iter().filter(|(_, message)| matches!(message.body, Body::Path(_)));
    assert_eq!(paths.clone().count(), 2);
    assert!(paths.clone().all(|(_, message)| message.message_id.is_none()), "{first:?}");

    reload(&mut bench, |_| {});
    bench.pass(3 * SECOND);
    assert_eq!(bench.held(), Rate::from_mbps(2));
}

/// A new proxy answers existing senders also among more route changes than are recorded one by one.
#[test]
fn changed_receiver_proxies_are_not_lost_among_route_changes() {
    let mut bench = router();
    announce(&mut bench, 7);
    for third in 0..100 {
        let prefix = format!("10.7.{third}.0/24").parse().expect("a prefix");
        bench.host(HostEvent::RouteChanged(prefix));
    }
    let rate = Some(Rate::from_mbps(1));
    let receivers = vec![ReceiverProxy { rate, port: Some(7), ..ReceiverProxy::default() }];
    reload(&mut bench, |new| new.proxies = proxy::Settings { receivers, ..Default::default() });
    bench.pass(3 * SECOND);
    assert_eq!(bench.held(), Rate::from_mbps(1));
}

/// Unchanged senders are not interrupted, changed ones are announced again, removed ones end, new ones start.
#[test]
fn changed_sender_proxies_update_senders() {
    let proxy = |port, mbps| SenderProxy {
        session: session_to(port),
        template: template(),
        tspec: tspec(mbps),
        ttl: 16,
    };
    let mut bench = router();
    let mut announces = |senders: &[SenderProxy]| {
        let senders = senders.to_vec();
        let outcomes = reload(&mut bench, |new| {
            new.proxies = proxy::Settings { senders, ..Default::default() };
        });
        let mut said = Vec::new();
        for (_, message) in sent(&outcomes) {
            said.push(match message.body {
                Body::Path(Path { session, sender, .. }) => {
                    (session.port, Some((sender.tspec.rate / 125_000.0) as u32))
                }
                Body::PathTear(PathTear { session, .. }) => (session.port, None),
                other => panic!("{other:?}"),
            });
        }
        said
    };
    assert_eq!(announces(&[proxy(1, 1), proxy(2, 1)]), [(1, Some(1)), (2, Some(1))]);
    assert_eq!(announces(&[proxy(2, 1), proxy(1, 1)]), []);
    assert_eq!(announces(&[proxy(3, 4), proxy(2, 5)]), [(1, None), (2, Some(5)), (3, Some(4))]);
    assert_eq!(announces(&[]), [(3, None), (2, None)]);
    assert_eq!(bench.engine.population(), (0, 0, 0));
    assert_eq!(bench.host(HostEvent::InterfaceChanged(ETH2)), [], "nor does it come back");
}

/// The lifetime of state at neighbours depends on the R in messages, so they get a changed one; and changed code
/// points.
#[test]
fn changed_message_content_is_sent_again() {
    let (mut bench, path, resv) = acknowledged_router();
    assert_eq!(reload(&mut bench, |_| {}), []);
    let outcomes = bench.pass(100 * MS);
    assert!(sent(&outcomes).is_empty(), "nothing has changed");
    reload(&mut bench, |new| {
        new.timing.refresh = 10 * SECOND;
        new.dclass = [("eth1".to_owned(), vec![Dscp(46)])].into();
    });
    let outcomes = bench.pass(100 * MS);
    let mut sent_again = (false, false);
    for (_, message) in sent(&outcomes) {
        let id = message.message_id.expect("both take part");
        match message.body {
            Body::Path(said) => sent_again.0 = said.refresh_ms == 10_000 && id.id > path.id,
            Body::Resv(said) => {
                let marked = said.carried.iter().next().is_some();
                sent_again.1 = said.refresh_ms == 10_000 && marked && id.id > resv.id;
                acks(&mut bench, ETH1, &[acknowledgement(AcknowledgementKind::Ack, id)]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent_again, (true, true));
    let outcomes = bench.pass(12 * SECOND);
    assert!(!summary_ids(&outcomes).is_empty(), "summaries keep the new pace");
}

/// The numbers of senders of a session, and of next hops on a link, have limits that an operator may change.
#[test]
fn changed_limits_admit_more_senders_and_next_hops() {
    let mut bench = router();
    reload(&mut bench, |new| (new.max_senders, new.max_next_hops) = (1, 1));
    let announced = |bench: &mut Bench, number: u16| {
        let mut path = path();
        path.sender.template.selector = SourceSelector::Port(number);
        error(&bench.receive(ETH1, Body::Path(path))).is_none()
    };
    let reserved = |bench: &mut Bench, host: u16| {
        let filters = [FilterSpec { selector: SourceSelector::Port(1), ..template() }];
        let flows = FlowDescriptors::SharedExplicit(Some(flowspec(1)), List::Items(&filters));
        let mut resv = Resv { flows, ..resv(&[]) };
        resv.hop.address = ip(&format!("10.0.2.{}", host + 1));
        error(&bench.receive(ETH2, Body::Resv(resv))).is_none()
    };
    for (most, next) in [(1, 65), (65, 66)] {
        reload(&mut bench, |new| (new.max_senders, new.max_next_hops) = (most.into(), most.into()));
        assert!((1..=most).all(|number| announced(&mut bench, number)), "{most}");
        assert!((1..=most).all(|host| reserved(&mut bench, host)), "{most}");
        assert!(!announced(&mut bench, next), "{most}");
        assert!(!reserved(&mut bench, next), "{most}");
    }
}

/// RFC 2205 section 3.7: R rises by 30 % from one refresh to the next at most, so that with K = 3 no state ends if any one
/// message is lost. It falls at once. Each style, and Paths as well as Resvs.
#[test]
fn refresh_period_rises_slowly() {
    let filters = [template()];
    let flows = [flow(1)];
    let styles = [
        FlowDescriptors::FixedFilter(List::Items(&flows)),
        FlowDescriptors::SharedExplicit(Some(flowspec(1)), List::Items(&filters)),
    ];
    for flows in styles {
        let mut bench = router();
        let keep = |bench: &mut Bench| {
            bench.receive(ETH1, Body::Path(Path { refresh_ms: 1_000_000, ..path() }));
            bench.receive(ETH2, Body::Resv(Resv { refresh_ms: 1_000_000, flows, ..resv(&[]) }));
        };
        keep(&mut bench);
        reload(&mut bench, |new| new.timing.refresh = 10 * SECOND);
        bench.pass(60 * SECOND);
        reload(&mut bench, |new| new.timing.refresh = 300 * SECOND);
        // When each kind of message was sent, and the R in it.
        let mut sent_at = [vec![], vec![]];
        for second in 0..4_000 {
            for (_, message) in sent(&bench.pass(SECOND)) {
                match message.body {
                    Body::Path(path) => sent_at[0].push((second, path.refresh_ms)),
                    Body::Resv(resv) => sent_at[1].push((second, resv.refresh_ms)),
                    _ => {}
                }
            }
            if second % 500 == 0 {
                keep(&mut bench);
            }
        }
        for sent in sent_at {
            assert!(sent[0].1 <= 13_000, "{sent:?}");
            assert_eq!(sent.last().map(|(_, period)| *period), Some(300_000), "{sent:?}");
            for pair in sent.windows(2) {
                assert!(f64::from(pair[1].1) <= 1.3 * f64::from(pair[0].1) + 1.0, "{sent:?}");
            }
            for three in sent.windows(3) {
                let lifetime = 3.5 * 1.5 * f64::from(three[0].1) / 1e3;
                assert!(f64::from(three[2].0 - three[0].0) < lifetime, "{sent:?}");
            }
        }
        reload(&mut bench, |new| new.timing.refresh = 10 * SECOND);
        let next = bench.pass(450 * SECOND);
        let periods: Vec<_> = sent(&next)
            .iter()
            .filter_map(|(_, message)| match message.body {
                Body::Path(path) => Some(path.refresh_ms),
                _ => None,
            })
            .collect();
        assert!(!periods.is_empty() && periods.iter().all(|period| *period == 10_000));
    }
}

/// The period of each interface rises by itself, also if the interface gets or loses a setting of its own.
#[test]
fn refresh_period_of_each_interface_rises_slowly() {
    let own = |refresh| [(ETH2, Timing { refresh, ..Timing::default() })].into();
    let mut bench = router();
    let paths = |bench: &mut Bench, seconds: u32| {
        bench.receive(ETH1, Body::Path(Path { refresh_ms: 1_000_000, ..path() }));
        let outcomes = bench.pass(seconds * SECOND);
        let sent = sent(&outcomes);
        let periods = sent.iter().filter_map(|(_, message)| match message.body {
            Body::Path(path) => Some(path.refresh_ms),
            _ => None,
        });
        periods.collect::<Vec<_>>()
    };
    assert!(paths(&mut bench, 100).iter().all(|period| *period == 30_000));
    reload(&mut bench, |new| new.interfaces = own(60 * SECOND));
    assert_eq!(paths(&mut bench, 59).iter().max(), Some(&39_000));
    assert_eq!(paths(&mut bench, 300).iter().max(), Some(&60_000));
    // The setting goes, and the general one is longer.
    reload(&mut bench, |new| new.timing.refresh = 100 * SECOND);
    assert_eq!(paths(&mut bench, 116).iter().max(), Some(&78_000));
    assert_eq!(paths(&mut bench, 600).iter().max(), Some(&100_000));
    // The setting is of another interface, so that nothing changes here.
    let other = Timing { refresh: 900 * SECOND, ..Timing::default() };
    reload(&mut bench, |new| {
        new.timing.refresh = 100 * SECOND;
        new.interfaces = [(ETH1, other)].into();
    });
    assert_eq!(paths(&mut bench, 600).iter().max(), Some(&100_000));
}

/// The timing of a name holds for the interface with this name, when it appears, gets another index, and when it is configured
/// while the interface exists.
#[test]
fn timing_of_a_name_follows_the_interface() {
    let own = |seconds: u32, lifetime_factor| {
        let timing = Timing { refresh: seconds * SECOND, lifetime_factor, ..Timing::default() };
        [("eth2".to_owned(), timing)].into()
    };
    // R and lifetime of a reservation of 10 s.
    let announced = |bench: &mut Bench| {
        bench.receive(ETH1, Body::PathTear(path_tear()));
        let outcomes = bench.receive(ETH1, Body::Path(path()));
        let sent = sent(&outcomes);
        let period = sent.iter().find_map(|(_, message)| match message.body {
            Body::Path(path) => Some(path.refresh_ms),
            _ => None,
        });
        let mut seconds = 0;
        bench.receive(ETH2, Body::Resv(Resv { refresh_ms: 10_000, ..resv(&[flow(1)]) }));
        while bench.held_on(ETH2) > Rate::ZERO {
            bench.pass(SECOND / 2);
            seconds += 1;
        }
        (period, f64::from(seconds) / 2.0)
    };
    let config = Config { interface_timing: own(5, 1), ..Config::default() };
    let mut bench = with_config(config);
    assert_eq!(announced(&mut bench), (Some(30_000), 52.5), "not seen yet");
    bench.host(HostEvent::InterfaceChanged(ETH2));
    assert_eq!(announced(&mut bench), (Some(5_000), 22.5));
    // The index is another interface's now.
    bench.interfaces.remove(ETH2);
    bench.host(HostEvent::InterfaceChanged(ETH2));
    bench.add_interface(ETH2, "10.0.2.1");
    assert_eq!(announced(&mut bench), (Some(30_000), 52.5));
    reload(&mut bench, |new| new.interface_timing = own(10, 2));
    assert_eq!(announced(&mut bench), (Some(10_000), 37.5));
    // An interface that appears while periods rise has its own at once.
    reload(&mut bench, |new| {
        new.interface_timing = own(20, 2);
        new.timing.refresh = 300 * SECOND;
    });
    bench.interfaces.remove(ETH2);
    bench.host(HostEvent::InterfaceChanged(ETH2));
    bench.add_interface(ETH2, "10.0.2.1");
    bench.host(HostEvent::InterfaceChanged(ETH2));
    bench.pass(100 * SECOND);
    assert_eq!(announced(&mut bench), (Some(20_000), 37.5));
}

/// Slew.Max is a setting.
#[test]
fn period_rises_by_the_configured_part() {
    for (slew_percent, first) in [(10, 33_000), (100, 60_000), (1_000, 90_000)] {
        let mut bench = router();
        reload(&mut bench, |new| {
            new.timing = Timing { refresh: 90 * SECOND, slew_percent, ..Timing::default() };
        });
        let outcomes = bench.receive(ETH1, Body::Path(path()));
        let sent = sent(&outcomes);
        let period = sent.iter().find_map(|(_, message)| match message.body {
            Body::Path(path) => Some(path.refresh_ms),
            _ => None,
        });
        assert_eq!(period, Some(first), "{slew_percent} %");
    }
}
