//! Policy: rules limit reservations and senders, and important reservations preempt less important ones.

use earmark_core::Rate;
use earmark_core::admission::{PreemptionPolicy, Priority};
use earmark_rsvp::policy::{About, Action, Rule, Settings};
use earmark_rsvp::{Change, Config, Event};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::iana::{
    AttributeType, IdentityError, LocatorForm, PolicyControlError, PreemptionError,
};
use earmark_wire::rsvp::{
    Attribute, Body, Carried, ErrorCode, ErrorSpec, FixedFilterFlow, FlowDescriptors, List, Path,
    PathErr, PolicyData, PolicyElement, PreemptionPriority, Resv, ResvErr, ResvTear,
    SenderDescriptor, Session,
};

use crate::common::*;

fn with_policy(policy: Settings) -> Bench {
    let preemption = policy.preemption;
    let mut bench = with_config(Config { policy, ..Config::default() });
    bench.ledger.set_preemption(preemption);
    bench
}

fn preemption(partial: bool) -> Settings {
    Settings { preemption: Some(PreemptionPolicy { partial }), ..Settings::default() }
}

/// POLICY_DATA with these elements.
fn policy_data(elements: &[PolicyElement<'_>]) -> Vec<u8> {
    let data = PolicyData { options: List::Items(&[]), elements: List::Items(elements) };
    let mut octets = vec![0; data.buffer_len()];
    data.emit(&mut octets).expect("it fits");
    octets
}

fn priority_data(level: u16) -> Vec<u8> {
    policy_data(&[PolicyElement::Preemption(PreemptionPriority {
        merge_strategy: 1,
        error: 0,
        preemption: level,
        defending: level,
    })])
}

fn user(name: &str) -> Vec<u8> {
    let locator = Attribute {
        a_type: AttributeType::PolicyLocator,
        sub_type: LocatorForm::AsciiDn.code(),
        value: name.as_bytes(),
    };
    policy_data(&[PolicyElement::User(List::Items(&[locator]))])
}

/// One of several sessions.
fn session_to(port: u16) -> Session {
    Session { port, ..session() }
}

fn announce(bench: &mut Bench, port: u16) {
    bench.receive(ETH1, Body::Path(Path { session: session_to(port), ..path() }));
}

fn ask(bench: &mut Bench, port: u16, mbps: u32, carried: &[u8]) -> Vec<Outcome> {
    let carried = Carried::Objects(carried);
    let flows = [flow(mbps)];
    bench.receive(ETH2, Body::Resv(Resv { session: session_to(port), carried, ..resv(&flows) }))
}

fn release(bench: &mut Bench, port: u16) {
    let Resv { hop, .. } = resv(&[]);
    let flows = [FixedFilterFlow { flowspec: None, filter: template() }];
    let flows = FlowDescriptors::FixedFilter(List::Items(&flows));
    let tear =
        ResvTear { session: session_to(port), hop, scope: None, carried: Carried::NONE, flows };
    bench.receive(ETH2, Body::ResvTear(tear));
}

/// A ResvErr: session port, error code and value, flags, rate, policy elements.
type ResvErrSummary = (u16, ErrorCode, u16, u8, Option<f32>, Vec<PolicyDetail>);

/// ResvErrs among the outcomes.
fn resv_errs(outcomes: &[Outcome]) -> Vec<ResvErrSummary> {
    let errors = sent(outcomes).into_iter().filter_map(|(_, message)| match message.body {
        Body::ResvErr(ResvErr { session, error, flows, carried, .. }) => {
            let FlowDescriptors::FixedFilter(flows) = flows else { panic!("{flows:?}") };
            let flowspec = flows.iter().next().and_then(|flow| flow.flowspec);
            let rate = flowspec.map(|flowspec| flowspec.token_bucket().rate);
            let explained = policy_details(carried);
            Some((session.port, error.code, error.value, error.flags, rate, explained))
        }
        _ => None,
    });
    errors.collect()
}

/// Policy element of an error.
#[derive(Debug, PartialEq)]
enum PolicyDetail {
    PreemptedBy(u16),
    Identity(u16),
}

fn policy_details(carried: Carried<'_>) -> Vec<PolicyDetail> {
    let data = carried.iter().map(|object| PolicyData::parse(&object).expect("it can be read"));
    data.flat_map(|data| data.elements)
        .map(|element| match element {
            PolicyElement::Preemption(by) => {
                assert_eq!(by.error, PreemptionError::Preemption.code());
                PolicyDetail::PreemptedBy(by.preemption)
            }
            PolicyElement::User(attributes) => {
                let error = attributes.iter().next().and_then(|a| a.policy_error());
                PolicyDetail::Identity(error.expect("a reason").0)
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Error of the only ResvErr, or `None` without one.
fn only_error(outcomes: &[Outcome]) -> Option<(ErrorCode, u16)> {
    match resv_errs(outcomes)[..] {
        [] => None,
        [(_, code, value, ..)] => Some((code, value)),
        ref more => panic!("{more:?}"),
    }
}

fn refused(value: PolicyControlError) -> Option<(ErrorCode, u16)> {
    Some((ErrorCode::PolicyControlFailure, value.code()))
}

/// 5 of 7.5 Mbit/s are reserved; another 5 of higher priority replace them (RFC 3181 sections 4 and 6).
#[test]
fn higher_priority_preempts_lower() {
    let mut bench = with_policy(preemption(false));
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    assert_eq!(only_error(&ask(&mut bench, 1, 5, &priority_data(3))), None);
    let outcomes = ask(&mut bench, 2, 5, &priority_data(4));
    let expected =
        (1, ErrorCode::ServicePreempted, 0, 0, Some(625_000.0), vec![PolicyDetail::PreemptedBy(4)]);
    assert_eq!(resv_errs(&outcomes), [expected]);
    let teardown: Vec<u16> = sent(&outcomes)
        .iter()
        .filter_map(|(how, message)| match message.body {
            Body::ResvTear(tear) => {
                assert_eq!(how.destination, ip(UPSTREAM));
                Some(tear.session.port)
            }
            _ => None,
        })
        .collect();
    assert_eq!(teardown, [1]);
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Removed(_))));
    let reported = |event: &Event| {
        matches!(event, Event::Reservation { change: Change::Preempted, session, .. }
            if session.port == 1)
    };
    assert!(events(&outcomes).iter().any(reported));
    assert_eq!((bench.held(), bench.engine.counters().preempted), (Rate::from_mbps(5), 1));
    // The receiver does not know yet, and repeats its request: the more important one stays.
    let again = ask(&mut bench, 1, 5, &priority_data(3));
    assert_eq!(only_error(&again), Some((ErrorCode::AdmissionControlFailure, 2)));
    assert_eq!(bench.held(), Rate::from_mbps(5));
}

/// RFC 4495: 2.5 Mbit/s are left, which the first one keeps until its request changes.
#[test]
fn preempted_reservation_keeps_remaining_rate() {
    let mut bench = with_policy(preemption(true));
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    ask(&mut bench, 1, 5, &priority_data(3));
    let outcomes = ask(&mut bench, 2, 5, &priority_data(4));
    let errors = resv_errs(&outcomes);
    let [(1, code, value, flags, Some(rate), explained)] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert_eq!((*code, *value), (ErrorCode::PolicyControlFailure, 102));
    assert_eq!(*flags, ErrorSpec::IN_PLACE);
    assert!(*rate <= 312_500.0 && *rate > 312_499.0, "{rate}");
    assert_eq!(*explained, [PolicyDetail::PreemptedBy(4)]);
    assert!(!sent(&outcomes).iter().any(|(_, message)| matches!(message.body, Body::ResvTear(_))));
    let installed: Vec<u64> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Installed(installation) => Some(installation.demand.rate.as_bps()),
            _ => None,
        })
        .collect();
    assert_eq!(installed[0], 5_000_000);
    assert!((2_499_990..=2_500_000).contains(&installed[1]), "{installed:?}");
    // A refresh of the preempted request changes nothing; a smaller request does.
    assert_eq!(ask(&mut bench, 1, 5, &priority_data(3)), []);
    assert_eq!(only_error(&ask(&mut bench, 1, 2, &priority_data(3))), None);
    assert_eq!(bench.held(), Rate::from_mbps(7));
    release(&mut bench, 2);
    release(&mut bench, 1);
    assert_eq!(bench.held(), Rate::ZERO);
}

#[test]
fn equal_priority_or_disabled_preemption_preempts_nothing() {
    for (policy, level) in [(preemption(true), 3), (Settings::default(), 9)] {
        let mut bench = with_policy(policy);
        announce(&mut bench, 1);
        announce(&mut bench, 2);
        ask(&mut bench, 1, 5, &priority_data(3));
        let outcomes = ask(&mut bench, 2, 5, &priority_data(level));
        assert_eq!(only_error(&outcomes), Some((ErrorCode::AdmissionControlFailure, 2)));
        assert_eq!(bench.held(), Rate::from_mbps(5));
    }
}

/// A refresh with a higher priority makes a reservation important, so that it stays.
#[test]
fn refresh_with_higher_priority_prevents_preemption() {
    let mut bench = with_policy(preemption(false));
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    ask(&mut bench, 1, 5, &priority_data(3));
    ask(&mut bench, 1, 5, &priority_data(8));
    assert!(only_error(&ask(&mut bench, 2, 5, &priority_data(5))).is_some());
    ask(&mut bench, 1, 5, &priority_data(4));
    ask(&mut bench, 2, 5, &priority_data(5));
    assert_eq!(bench.engine.counters().preempted, 1);
}

/// Two next hops request the same, one of them with high priority. After that one has ended, the reservation has the
/// lower priority, although its size is unchanged.
#[test]
fn priority_of_merged_request_ends_with_it() {
    let mut bench = with_policy(preemption(false));
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    let (flows, moderate) = ([flow(5)], priority_data(3));
    let mut other = Resv { session: session_to(1), ..resv(&flows) };
    other.hop.address = ip("10.0.2.3");
    other.carried = Carried::Objects(&moderate);
    bench.receive(ETH2, Body::Resv(other));
    ask(&mut bench, 1, 5, &priority_data(8));
    assert!(
        only_error(&ask(&mut bench, 2, 5, &priority_data(5))).is_some(),
        "less important than 8"
    );
    release(&mut bench, 1);
    assert_eq!(bench.held(), Rate::from_mbps(5), "the other request stands");
    ask(&mut bench, 2, 5, &priority_data(5));
    assert_eq!(bench.engine.counters().preempted, 1, "more important than 3");
}

fn rule(names: &[&str]) -> Rule {
    let users = names.iter().map(|name| name.parse().expect("a pattern")).collect();
    Rule { users, ..Rule::default() }
}

#[test]
fn rule_is_selected_by_name() {
    let alice = Rule {
        flow: Some(Rate::from_mbps(3)),
        total: Some(Rate::from_mbps(5)),
        ..rule(&["CN=Alice"])
    };
    let rules = vec![alice, Rule { action: Action::Refuse, ..rule(&["CN=Bob"]) }];
    let mut bench =
        with_policy(Settings { rules, otherwise: Action::Refuse, ..Settings::default() });
    for port in 1..=3 {
        announce(&mut bench, port);
    }
    let alice = user("CN=Alice, O=Example");
    for (port, mbps, carried, expected) in [
        (1, 1, vec![], refused(PolicyControlError::MissingPolicyElement)),
        (1, 1, user("CN=Bob"), refused(PolicyControlError::Rejected)),
        (1, 1, user("CN=Carol"), refused(PolicyControlError::Rejected)),
        (1, 4, alice.clone(), refused(PolicyControlError::FlowSpecRejected)),
        (1, 3, alice.clone(), None),
        (2, 3, alice.clone(), refused(PolicyControlError::QuotaExceeded)),
        (2, 2, alice.clone(), None),
        // A replacement is counted without the old request, and a refused one leaves the old.
        (2, 1, alice.clone(), None),
        (2, 3, alice.clone(), refused(PolicyControlError::QuotaExceeded)),
        (3, 1, alice.clone(), None),
    ] {
        let outcomes = ask(&mut bench, port, mbps, &carried);
        assert_eq!(only_error(&outcomes), expected, "{port} {mbps} {carried:x?}");
        if expected.is_some() {
            let [(.., explained)] = &resv_errs(&outcomes)[..] else { panic!() };
            let reason = IdentityError::InsufficientPrivileges.code();
            assert_eq!(*explained, [PolicyDetail::Identity(reason)]);
        }
    }
    assert_eq!(bench.held(), Rate::from_mbps(5));
    release(&mut bench, 1);
    assert_eq!(only_error(&ask(&mut bench, 3, 3, &alice)), None);
    assert_eq!(bench.held(), Rate::from_mbps(4));
    // Expired reservations are released, too.
    bench.pass(std::time::Duration::from_secs(300));
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    assert_eq!(only_error(&ask(&mut bench, 1, 3, &alice)), None);
    assert_eq!(only_error(&ask(&mut bench, 2, 2, &alice)), None);
}

#[test]
fn interface_limit_counts_all_names() {
    let rule = Rule { interface_total: Some(Rate::from_mbps(3)), ..Rule::default() };
    let mut bench = with_policy(Settings { rules: vec![rule], ..Settings::default() });
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    assert_eq!(only_error(&ask(&mut bench, 1, 2, &user("CN=Alice"))), None);
    let second = ask(&mut bench, 2, 2, &user("CN=Bob"));
    assert_eq!(only_error(&second), refused(PolicyControlError::QuotaExceeded));
    assert_eq!(only_error(&ask(&mut bench, 2, 1, &[])), None);
}

#[test]
fn rule_sets_priority() {
    let level = |level| Some(Priority::new(level, level));
    let rules = vec![
        Rule { priority: level(9), ..rule(&["CN=Chief"]) },
        Rule { highest_priority: Some(2), ..Rule::default() },
    ];
    let mut bench = with_policy(Settings { rules, ..preemption(false) });
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    ask(&mut bench, 1, 5, &priority_data(2));
    // A signalled priority is limited by the rule.
    assert!(only_error(&ask(&mut bench, 2, 5, &priority_data(60_000))).is_some());
    ask(&mut bench, 2, 5, &user("CN=Chief"));
    assert_eq!(bench.engine.counters().preempted, 1);
    assert!(only_error(&ask(&mut bench, 1, 5, &priority_data(60_000))).is_some());
}

#[test]
fn sender_rules_apply_to_path() {
    let rules = vec![Rule {
        about: About::Senders,
        sources: vec!["10.0.0.0/24".parse().expect("a range")],
        flow: Some(Rate::from_mbps(20)),
        ..Rule::default()
    }];
    let mut bench =
        with_policy(Settings { rules, otherwise: Action::Refuse, ..Settings::default() });
    let path_err = |outcomes: &[Outcome]| {
        sent(outcomes).iter().find_map(|(_, message)| match message.body {
            Body::PathErr(PathErr { error, carried, .. }) => {
                Some((error.code, error.value, policy_details(carried).len()))
            }
            _ => None,
        })
    };
    let code = ErrorCode::PolicyControlFailure;
    assert_eq!(path_err(&bench.receive(ETH1, Body::Path(path()))), None);
    let mut large = path();
    large.sender.tspec = tspec(21);
    let value = PolicyControlError::FlowSpecRejected.code();
    let outcomes = bench.receive(ETH1, Body::Path(large));
    assert_eq!(path_err(&outcomes), Some((code, value, 1)), "a known sender that says more");
    let mut stranger = path();
    stranger.sender.template.source = ip("10.0.1.77");
    let value = PolicyControlError::MissingPolicyElement.code();
    let outcomes = bench.receive(ETH1, Body::Path(stranger));
    assert_eq!(path_err(&outcomes), Some((code, value, 1)));
    assert_eq!(bench.engine.population(), (1, 1, 0), "a stranger makes no state");
}

/// A rule about senders with `interfaces` is about the interface that the data come in by, also if they come in by another one
/// than before.
#[test]
fn sender_rules_apply_to_their_interfaces() {
    let refused = |outcomes: &[Outcome]| {
        let code = ErrorCode::PolicyControlFailure;
        sent(outcomes).iter().any(|(_, message)| {
            matches!(message.body, Body::PathErr(PathErr { error, .. }) if error.code == code)
        })
    };
    for (action, otherwise) in [(Action::Refuse, Action::Allow), (Action::Allow, Action::Refuse)] {
        let interfaces = vec!["eth3".to_owned()];
        let rule = Rule { about: About::Senders, interfaces, action, ..Rule::default() };
        let rules = vec![rule, Rule::default()];
        let settings = Settings { rules, otherwise, ..Settings::default() };
        for interface in [ETH1, ETH3] {
            let expected = (interface == ETH3) == (action == Action::Refuse);
            let mut bench = with_policy(settings.clone());
            bench.add_interface(ETH3, "10.0.3.1");
            let outcomes = bench.receive(interface, Body::Path(path()));
            assert_eq!(refused(&outcomes), expected, "{action:?} {interface:?}");
            let senders = bench.engine.population().1;
            assert_eq!(senders, usize::from(!expected), "{action:?} {interface:?}");
            if expected {
                continue;
            }
            let (other, hop) =
                if interface == ETH1 { (ETH3, "10.0.3.2") } else { (ETH1, "10.0.1.9") };
            let mut moved = path();
            moved.hop.address = ip(hop);
            let outcomes = bench.receive(other, Body::Path(moved));
            assert!(refused(&outcomes), "{action:?} to {other:?}");
            // The refused Path changes nothing: the reservation still goes to the old hop.
            let outcomes = bench.receive(ETH2, Body::Resv(resv(&[flow(1)])));
            let to = sent(&outcomes).iter().map(|(how, _)| how.destination).collect::<Vec<_>>();
            assert_eq!(to, [path().hop.address], "{action:?} {interface:?}");
        }
    }
}

/// With a policy POLICY_DATA must be valid; without one it is forwarded unchanged.
#[test]
fn malformed_policy_data_is_refused_with_policy_only() {
    // A PREEMPTION_PRI that is too short.
    let broken = [0, 16, 14, 1, 0, 8, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0];
    let mut bench = with_policy(preemption(false));
    announce(&mut bench, 1);
    let outcomes = ask(&mut bench, 1, 1, &broken);
    assert_eq!(only_error(&outcomes), refused(PolicyControlError::BadPolicyElement));
    let mut bench = router();
    announce(&mut bench, 1);
    let outcomes = ask(&mut bench, 1, 1, &broken);
    let carried = sent(&outcomes).iter().find_map(|(_, message)| match message.body {
        Body::Resv(resv) => resv.carried.iter().next().map(|object| object.bytes.to_vec()),
        _ => None,
    });
    assert_eq!(carried.as_deref(), Some(&broken[..]));
}

/// A guaranteed reservation keeps a part of its R.
#[test]
fn preempted_guaranteed_service_keeps_part() {
    let mut bench = with_policy(preemption(true));
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    let spec = earmark_wire::intserv::Rspec { rate: 625_000.0, slack_us: 0 };
    let flowspec = FlowSpec::Guaranteed(tspec(4), spec);
    let flows = [FixedFilterFlow { flowspec: Some(flowspec), filter: template() }];
    bench.receive(ETH2, Body::Resv(Resv { session: session_to(1), ..resv(&flows) }));
    let outcomes = ask(&mut bench, 2, 5, &priority_data(1));
    let kept = sent(&outcomes).iter().find_map(|(_, message)| match message.body {
        Body::ResvErr(ResvErr { flows: FlowDescriptors::FixedFilter(flows), .. }) => {
            flows.iter().next()?.flowspec
        }
        _ => None,
    });
    let Some(kept @ FlowSpec::Guaranteed(bucket, spec)) = kept else { panic!("{kept:?}") };
    assert!((312_400.0..=312_500.0).contains(&spec.rate) && bucket.rate <= spec.rate);
    assert_eq!(kept.validate(), Ok(()));
}

/// RFC 4495 keeps what is left of a preempted reservation; less than any service accepts (RFC 2211 section 5) is
/// nothing, and the reservation ends.
#[test]
fn remainder_below_the_range_of_services_preempts_in_whole() {
    for (octets_per_second, code) in
        [(937_499.1, ErrorCode::ServicePreempted), (937_498.0, ErrorCode::PolicyControlFailure)]
    {
        let mut bench = with_policy(preemption(true));
        announce(&mut bench, 1);
        announce(&mut bench, 2);
        ask(&mut bench, 1, 5, &priority_data(3));
        let large = TokenBucket { rate: octets_per_second, ..tspec(8) };
        let (session, hop) = (session_to(2), path().hop);
        let sender = SenderDescriptor { tspec: large, ..path().sender };
        bench.receive(ETH1, Body::Path(Path { session, hop, sender, ..path() }));
        let flow = FlowSpec::ControlledLoad(large);
        let flows = [FixedFilterFlow { flowspec: Some(flow), filter: template() }];
        let carried = priority_data(4);
        let carried = Carried::Objects(&carried);
        let request = Resv { session, carried, ..resv(&flows) };
        let outcomes = bench.receive(ETH2, Body::Resv(request));
        assert_eq!(only_error(&outcomes).map(|error| error.0), Some(code), "{outcomes:?}");
    }
}
