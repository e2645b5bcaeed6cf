//! Rules that admit some senders of a session and not others, and reservations of the wildcard style, which name no sender: the
//! packets of a sender that a rule forbids never belong to them.

use earmark_core::Flow;
use earmark_rsvp::Config;
use earmark_rsvp::policy::{About, Action, Rule, Settings};
use earmark_testkit::bench;
use earmark_wire::rsvp::{Body, FilterSpec, PathTear};

use crate::common::*;
use crate::sharing::*;

const FORBIDDEN: &str = "10.0.0.66";

fn sender_at(source: &str) -> FilterSpec {
    FilterSpec { source: ip(source), ..template() }
}

fn refuse(about: About, interface: Option<&str>) -> Settings {
    let rule = Rule {
        about,
        sources: vec![format!("{FORBIDDEN}/32").parse().expect("a prefix")],
        interfaces: interface.map(str::to_owned).into_iter().collect(),
        action: Action::Refuse,
        ..Rule::default()
    };
    Settings { rules: vec![rule], ..Settings::default() }
}

/// Flows that traffic control has after some outcomes, and those that it had before.
fn follow(flows: &mut Vec<Flow>, outcomes: &[Outcome]) {
    for outcome in outcomes {
        match outcome {
            bench::Outcome::Installed(installation) if !flows.contains(&installation.flow) => {
                flows.push(installation.flow);
            }
            bench::Outcome::Added(_, flow) => flows.push(*flow),
            bench::Outcome::TakenOut(_, flow) => flows.retain(|other| other != flow),
            bench::Outcome::Removed(_) => flows.clear(),
            _ => {}
        }
    }
}

fn tear(sender: FilterSpec) -> PathTear<'static> {
    PathTear { template: sender, ..path_tear() }
}

/// A sender that joins a session with a reservation belongs to it unless a rule forbids that; it leaves it with its Path.
#[test]
fn forbidden_sender_does_not_join_wildcard_reservation() {
    let [first, second, forbidden] = [SENDER, "10.0.0.2", FORBIDDEN].map(sender_at);
    for about in [About::Reservations, About::Senders] {
        let mut router = with_config(Config { policy: refuse(about, None), ..Config::default() });
        let mut flows = Vec::new();
        follow(&mut flows, &router.receive(ETH1, Body::Path(path_of(first))));
        follow(&mut flows, &router.receive(ETH2, Body::Resv(wildcard(2))));
        assert_eq!(flows, [flow_of(first)], "{about:?}");
        follow(&mut flows, &router.receive(ETH1, Body::Path(path_of(forbidden))));
        assert_eq!(flows, [flow_of(first)], "{about:?}");
        follow(&mut flows, &router.receive(ETH1, Body::Path(path_of(second))));
        assert_eq!(flows, [flow_of(first), flow_of(second)], "{about:?}");
        // A changed and a refreshed request, or a changed sender, brings nothing else.
        for mbps in [3, 3] {
            follow(&mut flows, &router.receive(ETH2, Body::Resv(wildcard(mbps))));
        }
        let mut larger = path_of(forbidden);
        larger.sender.tspec = tspec(3);
        follow(&mut flows, &router.receive(ETH1, Body::Path(larger)));
        flows.sort_unstable_by_key(|flow| flow.source);
        assert_eq!(flows, [flow_of(first), flow_of(second)], "{about:?}");
        follow(&mut flows, &router.receive(ETH1, Body::PathTear(tear(first))));
        assert_eq!(flows, [flow_of(second)], "{about:?}");
        // The forbidden one is alone now, and still has nothing.
        follow(&mut flows, &router.receive(ETH1, Body::PathTear(tear(second))));
        assert!(!flows.contains(&flow_of(forbidden)), "{about:?}: {flows:?}");
        follow(&mut flows, &router.receive(ETH1, Body::Path(path_of(second))));
        follow(&mut flows, &router.receive(ETH2, Body::Resv(wildcard(3))));
        assert_eq!(flows, [flow_of(second)], "{about:?}");
    }
}

/// What the sender adds does not count for a reservation that is not for it: the claim is no more than the others send.
#[test]
fn forbidden_sender_adds_nothing_to_claim() {
    let mut router =
        with_config(Config { policy: refuse(About::Reservations, None), ..Config::default() });
    let mut small = path_of(sender_at(SENDER));
    small.sender.tspec = tspec(1);
    router.receive(ETH1, Body::Path(small));
    router.receive(ETH2, Body::Resv(wildcard(4)));
    let held = router.held();
    router.receive(ETH1, Body::Path(path_of(sender_at(FORBIDDEN))));
    assert_eq!(router.held(), held);
    router.receive(ETH1, Body::Path(path_of(sender_at("10.0.0.2"))));
    assert!(router.held() > held);
}

/// A rule for other interfaces forbids nothing here, but senders still have to announce themselves.
#[test]
fn rule_for_another_interface_forbids_nothing_here() {
    let [first, other] = [SENDER, FORBIDDEN].map(sender_at);
    let policy = refuse(About::Reservations, Some("eth9"));
    let mut router = with_config(Config { policy, ..Config::default() });
    let mut flows = Vec::new();
    router.receive(ETH1, Body::Path(path_of(first)));
    follow(&mut flows, &router.receive(ETH2, Body::Resv(wildcard(2))));
    follow(&mut flows, &router.receive(ETH1, Body::Path(path_of(other))));
    assert_eq!(flows, [flow_of(first), flow_of(other)]);
}

/// Without such rules, a wildcard reservation is for all data of its session (RFC 2205 section 1.3).
#[test]
fn wildcard_reservation_is_for_all_data_without_such_rules() {
    let rule = Rule { flow: Some(earmark_core::Rate::from_mbps(5)), ..Rule::default() };
    let limited = Settings { rules: vec![rule], ..Settings::default() };
    for policy in [Settings::default(), limited] {
        let mut router = with_config(Config { policy, ..Config::default() });
        let mut flows = Vec::new();
        router.receive(ETH1, Body::Path(path()));
        follow(&mut flows, &router.receive(ETH2, Body::Resv(wildcard(2))));
        follow(&mut flows, &router.receive(ETH1, Body::Path(path_of(sender_at("10.0.0.2")))));
        assert_eq!(flows, [Flow { source: None, source_port: 0, ..flow_of(template()) }]);
    }
}
