//! Routes that depend on the flow: a message and its reservation follow the host's route for the packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use earmark_boomerang::{Config, Event};
use earmark_core::{Flow, FlowResolver, Hop, InterfaceId, Resolution};
use earmark_wire::boomerang::Rates;

use crate::common::*;

/// Sends flows to the far end through eth3; counts lookups.
#[derive(Clone, Debug, Default)]
struct Host(Arc<AtomicU32>);

impl FlowResolver for Host {
    fn resolve(&mut self, flow: &Flow, incoming: Option<InterfaceId>) -> Resolution {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(incoming, Some(ETH1));
        assert_eq!((flow.destination, flow.source), (ip(FAR), Some(ip(NEAR))));
        let gateway = Some(ip("10.0.3.2"));
        Resolution::Through(Hop { interface: ETH3, gateway, source: None })
    }
}

fn fork(config: Config) -> (Bench, Host) {
    let mut router = with_config(config);
    router.routes.set_multipath(prefix("10.0.9.0/24"), true);
    let host = Host::default();
    router.routes.set_resolver(Box::new(host.clone()));
    (router, host)
}

/// Returns how the one sent message leaves.
fn leaves(outcomes: &[Outcome]) -> (Option<InterfaceId>, Option<std::net::IpAddr>) {
    let all = sent(outcomes);
    assert_eq!(all.len(), 1, "{outcomes:?}");
    (all[0].0.interface, all[0].0.next_hop)
}

#[test]
fn message_and_reservation_take_the_next_hop_of_the_flow() {
    let (mut router, host) = fork(Config::default());
    let by_flow = (Some(ETH3), Some(ip("10.0.3.2")));
    let set_up = router.passes(&message(1, kbit(2_000, 500)));
    assert_eq!(leaves(&set_up), by_flow);
    assert_eq!(installed(&set_up), [(ETH3, 2_000)]);
    // A refresh, a change, a query and a release take the same route, and the host is asked once.
    let refused = Message { flags: 1, ..message(1, kbit(1_000, 500)) };
    for message in [
        message(1, kbit(2_000, 500)),
        message(1, kbit(3_000, 500)),
        refused,
        message(1, Rates::ZERO),
    ] {
        assert_eq!(leaves(&router.passes(&message)), by_flow, "{message:?}");
    }
    assert_eq!(host.0.load(Ordering::Relaxed), 1);
    assert_eq!(router.held(ETH3), 0, "released");
    // The reply leaves as usual: one next hop leads back.
    assert_eq!(leaves(&router.passes(&message(1, kbit(2_000, 500)).back())).1, None);
}

#[test]
fn session_whose_route_depends_on_the_flow_is_not_offloaded() {
    let (mut router, _) = fork(Config { offload: true, ..Config::default() });
    router.routes.set_multipath(prefix("10.0.9.0/24"), false);
    let is_offload = |event: &Event| matches!(event, Event::Offload(_));
    let set_up = router.passes(&message(1, kbit(2_000, 500)));
    assert!(events(&set_up).iter().any(is_offload), "one next hop");
    router.routes.set_multipath(prefix("10.0.9.0/24"), true);
    router.host(prefix("10.0.9.0/24"));
    let taken_back = events(&router.passes(&message(1, kbit(2_000, 500))));
    assert!(taken_back.iter().any(|event| matches!(event, Event::Withhold { .. })));
    assert!(!taken_back.iter().any(is_offload));
}

impl Bench {
    fn host(&mut self, prefix: earmark_core::Prefix) {
        self.handle(earmark_core::Input::Host(earmark_core::HostEvent::RouteChanged(prefix)));
    }
}
