//! Receiver proxies among RSVP nodes: discovery behind the proxy, control by the sender, and removed path state (RFC 5946
//! sections 3.1.3 and 4).

use std::time::Duration;

use earmark_core::{InterfaceId, Rate};
use earmark_rsvp::proxy::{ReceiverProxy, Settings};
use earmark_rsvp::{Command, Config, Renewal};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, List, Path, PathErr, PolicyData,
    PolicyElement, Resv, ResvTear,
};

use crate::common::*;

fn behind_eth2() -> ReceiverProxy {
    ReceiverProxy { interfaces: vec!["eth2".to_owned()], ..ReceiverProxy::default() }
}

fn proxy(proxy: ReceiverProxy) -> Bench {
    let proxies = Settings { receivers: vec![proxy], ..Settings::default() };
    with_config(Config { proxies, ..Config::default() })
}

fn announcement(mbps: u32) -> Body<'static> {
    let mut path = path();
    path.sender.tspec = tspec(mbps);
    Body::Path(path)
}

fn request(mbps: u32, bench: &mut Bench) -> Vec<Outcome> {
    let flows = [flow(mbps)];
    bench.receive(ETH2, Body::Resv(resv(&flows)))
}

fn tear(bench: &mut Bench) -> Vec<Outcome> {
    let flows = [flow(1)];
    let flows = FlowDescriptors::FixedFilter(List::Items(&flows));
    let (session, hop) = (session(), resv(&[]).hop);
    let tear = ResvTear { session, hop, scope: None, carried: Carried::NONE, flows };
    bench.receive(ETH2, Body::ResvTear(tear))
}

/// Requests to the previous hop in Mbit/s, and 0 for a ResvTear.
fn upstream(outcomes: &[Outcome]) -> Vec<f32> {
    let to_previous = |how: &earmark_core::Outgoing| how.destination == ip(UPSTREAM);
    let requests = sent(outcomes).into_iter().filter(|(how, _)| to_previous(how));
    requests
        .filter_map(|(_, message)| match message.body {
            Body::Resv(Resv { flows: FlowDescriptors::FixedFilter(flows), .. }) => {
                Some(flows.iter().next()?.flowspec?.token_bucket().rate / 125_000.0)
            }
            Body::Resv(_) => Some(f32::INFINITY),
            Body::ResvTear(_) => Some(0.0),
            _ => None,
        })
        .collect()
}

/// Names of the messages sent through eth2.
fn downstream(outcomes: &[Outcome]) -> Vec<&'static str> {
    let behind = |interface| interface == Some(ETH2);
    let sent = sent(outcomes).into_iter();
    let sent = sent.filter(|(how, _)| behind(how.interface) || how.destination == ip(DOWNSTREAM));
    sent.map(|(_, message)| message.body.message_type().name()).collect()
}

fn path_errs(outcomes: &[Outcome]) -> Vec<(ErrorCode, u8)> {
    let errors = sent(outcomes).into_iter().filter_map(|(_, message)| match message.body {
        Body::PathErr(PathErr { error, .. }) => Some((error.code, error.flags)),
        _ => None,
    });
    errors.collect()
}

/// Section 4.1: the Path goes on, and after a Resv from behind the proxy this node is an ordinary router for the flow.
#[test]
fn resv_from_behind_takes_the_place_of_the_proxy() {
    let mut bench = proxy(behind_eth2());
    let outcomes = bench.receive(ETH1, announcement(3));
    assert_eq!((upstream(&outcomes), downstream(&outcomes)), (vec![3.0], vec!["Path"]));
    assert_eq!(upstream(&request(1, &mut bench)), [1.0]);
    assert_eq!((bench.held(), bench.engine.population().2), (Rate::from_mbps(1), 1));
    assert_eq!(upstream(&bench.receive(ETH1, announcement(4))), [0.0; 0], "the receiver decides");
    assert_eq!(upstream(&tear(&mut bench)), [0.0]);
    bench.receive(ETH1, announcement(2));
    bench.pass(Duration::from_secs(46));
    assert_eq!(bench.held(), Rate::ZERO, "an ordinary router does not reserve by itself");
    // New path state is a new flow.
    bench.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!(upstream(&bench.receive(ETH1, announcement(2))), [2.0]);
}

/// Section 4.1: the state of the next hop expires as any other, because nothing of the proxy is left.
#[test]
fn request_in_place_of_the_proxy_expires() {
    let mut bench = proxy(behind_eth2());
    bench.receive(ETH1, announcement(2));
    request(2, &mut bench);
    for _ in 0..8 {
        bench.receive(ETH1, announcement(2));
        bench.pass(std::time::Duration::from_secs(30));
    }
    assert_eq!((bench.held(), bench.engine.population().2), (Rate::ZERO, 0));
}

#[test]
fn refused_resv_from_behind_ends_the_proxy_too() {
    let mut bench = proxy(ReceiverProxy { rate: Some(Rate::from_mbps(1)), ..behind_eth2() });
    bench.receive(ETH1, announcement(9));
    assert_eq!(bench.held(), Rate::from_mbps(1));
    let outcomes = request(8, &mut bench);
    assert_eq!((upstream(&outcomes), downstream(&outcomes)), (vec![0.0], vec!["ResvErr"]));
    assert_eq!((bench.held(), bench.engine.population().2), (Rate::ZERO, 0));
}

/// The style of the receiver is its own choice, as if there had been no proxy.
#[test]
fn shared_resv_from_behind_takes_the_place_of_the_proxy() {
    let mut bench = proxy(behind_eth2());
    bench.receive(ETH1, announcement(3));
    let flowspec = flow(2).flowspec;
    let flows = FlowDescriptors::Wildcard(flowspec);
    let outcomes = bench.receive(ETH2, Body::Resv(Resv { flows, ..resv(&[]) }));
    assert_eq!(upstream(&outcomes), [0.0, f32::INFINITY]);
    assert_eq!((bench.held(), bench.engine.population().2), (Rate::from_mbps(2), 1));
    assert_eq!(upstream(&bench.receive(ETH1, announcement(4))), [0.0; 0]);
}

/// A request that is there before the proxy is configured is not replaced.
#[test]
fn neighbors_of_new_path_state_only_are_proxied() {
    let mut bench = proxy(behind_eth2());
    bench.receive(ETH1, announcement(2));
    // Who cannot be a next hop takes no place.
    let flows = [flow(1)];
    let mut strange = resv(&flows);
    strange.hop.lih = 99;
    bench.receive(ETH2, Body::Resv(strange));
    assert_eq!(bench.held(), Rate::from_mbps(2));
    // Nor does an invalid request.
    let invalid = [flow(0)];
    bench.receive(ETH2, Body::Resv(resv(&invalid)));
    assert_eq!(bench.held(), Rate::from_mbps(2));
}

/// Section 4.1: discovery can be disabled; section 3: the proxy then sinks the Path.
#[test]
fn proxy_without_discovery_sinks_path() {
    let mut bench = proxy(ReceiverProxy { sinks_path: true, ..behind_eth2() });
    let outcomes = bench.receive(ETH1, announcement(2));
    assert_eq!((upstream(&outcomes), downstream(&outcomes)), (vec![2.0], vec![]));
    assert_eq!(downstream(&bench.pass(Duration::from_secs(46))), [""; 0]);
    let outcomes = bench.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!((downstream(&outcomes), bench.held()), (vec![], Rate::ZERO));
}

/// POLICY_DATA with a Control-Value.
fn control(value: u8) -> Vec<u8> {
    let elements = [PolicyElement::ReceiverProxy(value)];
    let data = PolicyData { options: List::Items(&[]), elements: List::Items(&elements) };
    let mut octets = vec![0; data.buffer_len()];
    data.emit(&mut octets).expect("it fits");
    octets
}

/// Section 4.2: value 2 keeps the proxy away, value 1 calls it, and others are ignored; the element goes on.
#[test]
fn sender_controls_receiver_proxy() {
    for (on_request, value, expected) in [
        (false, None, true),
        (false, Some(0), true),
        (false, Some(1), true),
        (false, Some(2), false),
        (false, Some(3), true),
        (true, None, false),
        (true, Some(0), false),
        (true, Some(1), true),
        (true, Some(2), false),
    ] {
        let mut bench = proxy(ReceiverProxy { on_request, ..behind_eth2() });
        let octets = value.map_or_else(Vec::new, control);
        let mut path = path();
        path.sender.tspec = tspec(2);
        path.carried = Carried::Objects(&octets);
        let outcomes = bench.receive(ETH1, Body::Path(path));
        let expected = if expected { vec![2.0] } else { vec![] };
        assert_eq!(upstream(&outcomes), expected, "{on_request} {value:?}");
        let forwarded = sent(&outcomes).into_iter().find_map(|(how, message)| match message.body {
            Body::Path(path) if how.interface == Some(ETH2) => {
                Some(path.carried == Carried::Objects(&octets))
            }
            _ => None,
        });
        assert_eq!(forwarded, Some(true));
    }
}

/// A Path that went on before ends at the proxy from now on: the nodes behind hear of it at once, and the proxy requests what
/// the receiver behind it had requested.
#[test]
fn path_that_begins_to_end_at_the_proxy_is_torn_behind_it() {
    for is_reserved in [false, true] {
        let mut bench = proxy(behind_eth2());
        bench.receive(ETH1, announcement(2));
        if is_reserved {
            request(3, &mut bench);
        }
        let sinking = ReceiverProxy { sinks_path: true, ..behind_eth2() };
        let receivers = vec![sinking];
        let proxies = Settings { receivers, ..Settings::default() };
        let renewal = Renewal { proxies, ..Renewal::from(Config::default()) };
        bench.command(Command::Renew(Box::new(renewal)));
        let outcomes = bench.pass(Duration::from_secs(3));
        assert_eq!(downstream(&outcomes), ["PathTear"]);
        // The request of the node behind the proxy expires, as it is not refreshed any more.
        for _ in 0..10 {
            let outcomes = bench.receive(ETH1, announcement(2));
            assert_eq!(downstream(&outcomes), [""; 0]);
            assert_eq!(downstream(&bench.pass(Duration::from_secs(30))), [""; 0]);
        }
        assert_eq!(bench.held(), Rate::from_mbps(2));
    }
}

/// Section 4.2: a sender that calls for a proxy which ends Paths, and sends it away again.
#[test]
fn called_proxy_ends_the_path_and_lets_it_go_on_again() {
    let proxied = ReceiverProxy { on_request: true, sinks_path: true, ..behind_eth2() };
    let mut bench = proxy(proxied);
    for (value, expected) in [
        (2, vec!["Path"]),
        (1, vec!["PathTear"]),
        (1, vec![]),
        (2, vec!["Path"]),
        (1, vec!["PathTear"]),
    ] {
        let octets = control(value);
        let path = Path { carried: Carried::Objects(&octets), ..path() };
        assert_eq!(downstream(&bench.receive(ETH1, Body::Path(path))), expected, "{value}");
    }
}

/// Section 4.2: a sender changes its mind.
#[test]
fn proxy_follows_a_changed_control_value() {
    let mut bench = proxy(behind_eth2());
    for (value, expected) in [(1, vec![2.0]), (2, vec![0.0]), (1, vec![2.0])] {
        let octets = control(value);
        let mut path = path();
        path.sender.tspec = tspec(2);
        path.carried = Carried::Objects(&octets);
        assert_eq!(upstream(&bench.receive(ETH1, Body::Path(path))), expected);
    }
}

/// Section 3.1.3: the optional mode; by default the flag is not set and the state stays.
#[test]
fn failed_proxy_reservation_removes_path_state_if_configured() {
    const REFUSED: ErrorCode = ErrorCode::AdmissionControlFailure;
    for (path_state_removed, flags, senders) in [(false, 0, 1), (true, 4, 0)] {
        let mut bench = proxy(ReceiverProxy { path_state_removed, ..behind_eth2() });
        assert_eq!(path_errs(&bench.receive(ETH1, announcement(8))), [(REFUSED, flags)]);
        let outcomes = bench.pass(std::time::Duration::from_millis(1));
        assert_eq!(bench.engine.population().1, senders);
        // Nodes behind it learn of the end (RFC 3473 section 4.4).
        let expected: &[&str] = if path_state_removed { &["PathTear"] } else { &[] };
        assert_eq!(downstream(&outcomes), expected);
    }
    // A reservation in place keeps the state.
    let mut bench = proxy(ReceiverProxy { path_state_removed: true, ..behind_eth2() });
    bench.receive(ETH1, announcement(2));
    let errors = path_errs(&bench.receive(ETH1, announcement(8)));
    assert_eq!(errors, [(REFUSED, ErrorSpec::IN_PLACE)]);
    bench.pass(std::time::Duration::from_millis(1));
    assert_eq!((bench.engine.population().1, bench.held()), (1, Rate::from_mbps(2)));
}

/// RFC 3473 section 4.4: a node that does not remove its state clears the flag, and one that removes it sets it.
#[test]
fn removed_path_state_is_followed_if_configured() {
    let error = |flags| {
        let code = ErrorCode::AdmissionControlFailure;
        let error = ErrorSpec { node: ip(DOWNSTREAM), flags, code, value: 2 };
        let sender = Some((template(), None));
        Body::PathErr(PathErr { session: session(), error, carried: Carried::NONE, sender })
    };
    let from = |interface: InterfaceId, flags, remove_path_state| {
        let mut bench = with_config(Config { remove_path_state, ..Config::default() });
        bench.receive(ETH1, announcement(2));
        let outcomes = bench.receive(interface, error(flags));
        let flags: Vec<u8> = path_errs(&outcomes).iter().map(|(_, flags)| *flags).collect();
        (flags, bench.engine.population().1, downstream(&outcomes).len())
    };
    assert_eq!(from(ETH2, 4, false), (vec![0], 1, 0));
    assert_eq!(from(ETH2, 4, true), (vec![4], 0, 0));
    assert_eq!(from(ETH2, 0, true), (vec![0], 1, 0));
}
