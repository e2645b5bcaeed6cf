//! Routes that depend on the flow: state, messages and reservations follow the route of the flow.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use earmark_core::{Flow, FlowResolver, Hop, HostEvent, InterfaceId, Prefix, Resolution};
use earmark_rsvp::Event;
use earmark_wire::rsvp::{Body, Message};

use crate::common::*;

/// A host that routes all flows alike and records the lookups.
#[derive(Clone, Debug, Default)]
struct Host(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hop: Option<Hop>,
    lookups: Vec<(Flow, Option<InterfaceId>)>,
}

impl FlowResolver for Host {
    fn resolve(&mut self, flow: &Flow, incoming: Option<InterfaceId>) -> Resolution {
        let mut state = self.0.lock().expect("alive");
        state.lookups.push((*flow, incoming));
        state.hop.map_or(Resolution::Nowhere, Resolution::Through)
    }
}

impl Host {
    fn send_through(&self, interface: InterfaceId, gateway: &str) {
        let hop = Hop { interface, gateway: Some(ip(gateway)), source: None };
        self.0.lock().expect("alive").hop = Some(hop);
    }

    fn lookups(&self) -> Vec<(Flow, Option<InterfaceId>)> {
        std::mem::take(&mut self.0.lock().expect("alive").lookups)
    }
}

fn prefix() -> Prefix {
    "10.0.9.0/24".parse().expect("a prefix")
}

/// A router with two next hops to the receiver, the first of which is on eth2.
fn fork() -> (Bench, Host) {
    let mut router = router();
    router.add_interface(ETH3, "10.0.3.1");
    router.routes.set_multipath(prefix(), true);
    let host = Host::default();
    router.routes.set_resolver(Box::new(host.clone()));
    (router, host)
}

/// Interface and next hop of each sent message.
fn sent_routes(outcomes: &[Outcome]) -> Vec<(Option<InterfaceId>, Option<IpAddr>)> {
    sent(outcomes).iter().map(|(how, _)| (how.interface, how.next_hop)).collect()
}

#[test]
fn path_uses_next_hop_of_flow_and_refreshes_need_no_lookup() {
    let (mut router, host) = fork();
    host.send_through(ETH3, "10.0.3.2");
    let outcomes = router.receive(ETH1, Body::Path(path()));
    assert_eq!(sent_routes(&outcomes), [(Some(ETH3), Some(ip("10.0.3.2")))]);
    let flow = Flow {
        destination: ip(RECEIVER),
        source: Some(ip(SENDER)),
        protocol: 17,
        destination_port: 5_004,
        source_port: 4_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    assert_eq!(host.lookups(), [(flow, Some(ETH1))]);
    for _ in 0..3 {
        router.receive(ETH1, Body::Path(path()));
        let refreshes = router.pass(Duration::from_secs(40));
        assert!(!sent(&refreshes).is_empty());
        assert!(
            sent_routes(&refreshes).iter().all(|how| *how == (Some(ETH3), Some(ip("10.0.3.2"))))
        );
    }
    assert_eq!(host.lookups(), []);
    let torn = router.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!(sent_routes(&torn), [(Some(ETH3), Some(ip("10.0.3.2")))]);
}

#[test]
fn reservation_is_made_where_the_flow_goes_and_moves_with_it() {
    let (mut router, host) = fork();
    host.send_through(ETH3, "10.0.3.2");
    router.receive(ETH1, Body::Path(path()));
    let resv = |router: &mut Bench, interface: InterfaceId, hop: &str| {
        let flows = [flow(2)];
        let mut resv = resv(&flows);
        (resv.hop.address, resv.hop.lih) = (ip(hop), interface.0);
        router.receive(interface, Body::Resv(resv))
    };
    let installed = |outcomes: &[Outcome]| -> Vec<InterfaceId> {
        let installed = |outcome: &Outcome| match outcome {
            Outcome::Installed(installation) => Some(installation.interface),
            _ => None,
        };
        outcomes.iter().filter_map(installed).collect()
    };
    assert_eq!(installed(&resv(&mut router, ETH3, "10.0.3.2")), [ETH3]);
    host.send_through(ETH2, DOWNSTREAM);
    router.routes.flows_changed(prefix());
    router.host(HostEvent::RouteChanged(prefix()));
    let moved = router.pass(Duration::from_secs(3));
    assert_eq!(sent_routes(&moved)[0], (Some(ETH2), Some(ip(DOWNSTREAM))));
    assert_eq!(installed(&resv(&mut router, ETH2, DOWNSTREAM)), [ETH2]);
    let ended = router.pass(Duration::from_secs(4));
    assert!(ended.iter().any(|outcome| matches!(outcome, Outcome::Removed(_))), "the old way ends");
}

#[test]
fn path_goes_to_another_router_of_the_same_link_at_once() {
    let (mut router, host) = fork();
    host.send_through(ETH2, DOWNSTREAM);
    router.receive(ETH1, Body::Path(path()));
    router.routes.flows_changed(prefix());
    router.host(HostEvent::RouteChanged(prefix()));
    assert_eq!(sent(&router.pass(Duration::from_secs(3))), [], "nothing is new");
    host.send_through(ETH2, "10.0.2.7");
    router.routes.flows_changed(prefix());
    router.host(HostEvent::RouteChanged(prefix()));
    let outcomes = router.pass(Duration::from_secs(3));
    assert_eq!(sent_routes(&outcomes), [(Some(ETH2), Some(ip("10.0.2.7")))]);
}

#[test]
fn flow_without_route_is_dropped_whatever_its_destination_has() {
    let (mut router, _) = fork();
    let outcomes = router.receive(ETH1, Body::Path(path()));
    assert_eq!(sent(&outcomes), []);
    let is_dropped = |event: &Event| matches!(event, Event::Dropped { .. });
    assert!(events(&outcomes).iter().any(is_dropped), "{outcomes:?}");
}

#[test]
fn confirmation_follows_the_flow_to_the_receiver() {
    let (mut router, host) = fork();
    host.send_through(ETH3, "10.0.3.2");
    router.receive(ETH1, Body::Path(path()));
    let flows = [flow(2)];
    let mut resv = resv(&flows);
    (resv.hop.address, resv.hop.lih, resv.confirm) = (ip("10.0.3.2"), ETH3.0, Some(ip(RECEIVER)));
    router.receive(ETH3, Body::Resv(resv));
    let confirmation = earmark_wire::rsvp::ResvConf {
        session: session(),
        error: earmark_wire::rsvp::ErrorSpec {
            node: ip(UPSTREAM),
            flags: 0,
            code: earmark_wire::rsvp::ErrorCode::Confirmation,
            value: 0,
        },
        confirm: ip(RECEIVER),
        carried: earmark_wire::rsvp::Carried::Objects(&[]),
        flows: resv.flows,
    };
    let forwarded = router.receive(ETH1, Body::ResvConf(confirmation));
    // The equal request of another next hop is confirmed here.
    resv.hop.address = ip("10.0.3.3");
    let confirmed = router.receive(ETH3, Body::Resv(resv));
    for outcomes in [forwarded, confirmed] {
        let sent = sent(&outcomes);
        let [(how, Message { body: Body::ResvConf(_), .. })] = &sent[..] else {
            panic!("one ResvConf: {sent:?}");
        };
        assert_eq!((how.interface, how.next_hop), (Some(ETH3), Some(ip("10.0.3.2"))));
    }
}
