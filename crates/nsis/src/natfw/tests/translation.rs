//! What other applications learn of the translations of a node.

use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::PathCoupled;

use super::external::{create_to, granted};
use super::*;

/// A path of the client through a translator to the server, node 1 being the translator.
fn opened(request: OpenRequest) -> Net {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.open(0, request);
    net
}

fn flow(source: (&str, u16), destination: (&str, u16)) -> PathCoupled {
    udp_flow((address(source.0), source.1), (address(destination.0), destination.1))
}

impl Net {
    /// Returns the flow as the downstream side of node 1 knows it.
    fn after(&self, flow: PathCoupled) -> Option<PathCoupled> {
        self.nodes[1].natfw.downstream_form(self.now, &flow)
    }

    /// Asserts that two flows are one, before and after node 1.
    fn are_one(&self, before: PathCoupled, after: PathCoupled) {
        let natfw = &self.nodes[1].natfw;
        assert_eq!(natfw.downstream_form(self.now, &before), Some(after));
        assert_eq!(natfw.upstream_form(self.now, &after), Some(before));
    }

    /// Returns the external port of the only translation of a source at node 1.
    fn external_port(&self) -> u16 {
        let mut rules = self.nodes[1].filter.values();
        rules.find_map(|(rule, _)| rule.source).expect("a translation").port
    }
}

#[test]
fn both_directions_of_an_opened_path_are_translated() {
    let net = opened(to_server(5_000));
    let port = net.external_port();
    net.are_one(flow((CLIENT, 700), (SERVER, 5_000)), flow((PUBLIC, port), (SERVER, 5_000)));
    net.are_one(flow((SERVER, 5_000), (PUBLIC, port)), flow((SERVER, 5_000), (CLIENT, 700)));
}

#[test]
fn both_directions_of_an_exposed_port_are_translated() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    let exposed = || net.after(flow((SERVER, 900), (PUBLIC, external.port)));
    assert_eq!(exposed(), None, "a reservation translates nothing");
    let (message, data) = create_to(&net, external);
    net.deliver_as(2, 1, &message, &data);
    net.run();
    net.are_one(flow((SERVER, 900), (PUBLIC, external.port)), flow((SERVER, 900), (CLIENT, 8_000)));
    net.are_one(flow((CLIENT, 8_000), (SERVER, 900)), flow((PUBLIC, external.port), (SERVER, 900)));
}

#[test]
fn only_the_data_of_a_rule_are_translated() {
    let net = opened(to_server(5_000));
    let port = net.external_port();
    let exact = flow((CLIENT, 700), (SERVER, 5_000));
    let others = [
        flow((CLIENT, 701), (SERVER, 5_000)),
        flow((CLIENT, 700), (SERVER, 5_001)),
        flow((CLIENT, 700), ("198.51.100.10", 5_000)),
        flow(("10.0.0.2", 700), (SERVER, 5_000)),
        flow((PUBLIC, port), (SERVER, 5_000)),
        flow((SERVER, 5_001), (PUBLIC, port)),
        flow((SERVER, 5_000), (PUBLIC, port ^ 1)),
        PathCoupled { protocol: Some(6), ..exact },
        PathCoupled { protocol: None, ..exact },
        PathCoupled { source_prefix: 24, ..exact },
        PathCoupled { destination_prefix: 24, ..exact },
    ];
    for other in others {
        assert_eq!(net.after(other), None, "{other:?}");
    }
    assert!(net.after(exact).is_some());
}

/// Rules that leave the port open let the kernel choose one, which nobody knows.
#[test]
fn chosen_ports_are_not_guessed() {
    let net = opened(OpenRequest { source_port: None, ..to_server(5_000) });
    assert_eq!(net.rules(1).len(), 1);
    assert_eq!(net.after(flow((CLIENT, 700), (SERVER, 5_000))), None);
}

#[test]
fn next_port_is_translated_with_its_pair() {
    let net = opened(OpenRequest { next_port: true, ..to_server(5_000) });
    let after = net.after(flow((CLIENT, 700), (SERVER, 5_000))).expect("a translation");
    let port = after.source_port.expect("a port");
    net.are_one(flow((CLIENT, 701), (SERVER, 5_001)), flow((PUBLIC, port + 1), (SERVER, 5_001)));
    assert_eq!(net.after(flow((CLIENT, 701), (SERVER, 5_000))), None);
}

#[test]
fn translation_ends_with_its_session() {
    let mut net = opened(to_server(5_000));
    assert!(net.nodes[1].natfw.translates());
    net.release(0);
    assert!(!net.nodes[1].natfw.translates());
    assert_eq!(net.after(flow((CLIENT, 700), (SERVER, 5_000))), None);
}

/// A path whose RESPONSE is missing is not open.
#[test]
fn remembered_rules_translate_nothing() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.unreachable = vec![2];
    net.open(0, to_server(5_000));
    assert!(net.nodes[1].natfw.translates(), "a port is bound");
    assert_eq!(net.after(flow((CLIENT, 700), (SERVER, 5_000))), None);
}

/// The rules of an earlier run are still in the packet filter, and their sessions return.
#[test]
fn adopted_rules_translate_until_they_end() {
    let earlier = opened(to_server(5_000));
    let port = earlier.external_port();
    let (rule, _) = *earlier.nodes[1].filter.values().next().expect("a rule");
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    let until = net.now + Duration::from_secs(10);
    net.host(1, HostEvent::Filter(FilterEvent::Adopted(rule, until)));
    let (before, after) =
        (flow((CLIENT, 700), (SERVER, 5_000)), flow((PUBLIC, port), (SERVER, 5_000)));
    net.are_one(before, after);
    net.now = until;
    assert_eq!(net.after(before), None);
}

#[test]
fn private_sources_that_leave_untranslated_are_known() {
    let net = opened(to_server(5_000));
    let lacks = |from: &str, arrival, destination: &str| {
        let Node { natfw, interfaces, routes, .. } = &net.nodes[1];
        let mut ledger = Ledger::new();
        let context = Context { routes, interfaces, ledger: &mut ledger };
        natfw.leaves_untranslated(&context, &flow((from, 1), (destination, 1)), arrival)
    };
    assert!(lacks(CLIENT, LEFT, SERVER));
    assert!(!lacks(PUBLIC, LEFT, SERVER), "a public source");
    assert!(!lacks(CLIENT, RIGHT, SERVER), "from outside");
    assert!(!lacks(CLIENT, LEFT, "10.0.0.9"), "to inside");
}
