//! Proxy mode: the edge acts for an end without NSIS.

use std::time::Duration;

use earmark_nsis::natfw::{Event, ExposeRequest, OpenRequest};
use earmark_wire::natfw_nslp::ProxyMode;

use crate::network::{Net, accept_all, expose_request, external_of, granted, open_request};

#[test]
fn sender_without_nsis_reaches_a_host_behind_the_translator() {
    for (from, proxy) in [
        (None, ProxyMode::Edge),
        (Some("p"), ProxyMode::Edge),
        (None, ProxyMode::EdgeAndOnward),
        (Some("p"), ProxyMode::EdgeAndOnward),
    ] {
        let mut net = Net::new();
        let from = from.map(|from| net.address(from));
        net.expose("c", 1, ExposeRequest { proxy, ..expose_request(from) });
        let events = net.events("c");
        let external = external_of(&events);
        let data = net.stream("p", 5_000, external.address, external.port);
        assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1], "{from:?} {proxy:?}: {events:?}");
        assert!(net.passes(data), "{from:?} {proxy:?}");
        let replies = net.stream("c", 6_000, net.address("p"), 5_000);
        assert!(net.passes(replies), "{from:?} {proxy:?}");
        for _ in 0..50 {
            assert!(net.passes(data), "{from:?} {proxy:?}: {:?}", net.events("c"));
        }
        net.release("c", 1);
        assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0]);
        assert!(!net.passes(data));
        for node in ["c", "fw1", "nat"] {
            assert!(net.sessions(node).is_empty(), "{node}: {:?}", net.sessions(node));
        }
    }
}

#[test]
fn sender_without_nsis_reaches_a_host_behind_firewalls() {
    for (ipv6, from) in [(false, Some("p")), (true, Some("p")), (false, None)] {
        let mut net = Net::with(ipv6, &|_, _| {});
        let from = from.map(|from| net.address(from));
        let data = net.stream("p", 5_000, net.address("s"), 6_000);
        assert!(!net.passes(data));
        let request =
            ExposeRequest { proxy: ProxyMode::Edge, untranslated: true, ..expose_request(from) };
        net.expose("s", 1, request);
        let events = net.events("s");
        assert!(granted(&events), "{ipv6} {from:?}: {events:?}");
        assert!(net.passes(data), "{ipv6} {from:?} {:?}", net.rules("fw2"));
        for _ in 0..50 {
            assert!(net.passes(data), "{ipv6} {from:?}: {:?}", net.events("s"));
        }
        net.release("s", 1);
        assert!(!net.passes(data));
        assert!(net.sessions("fw2").is_empty() && net.sessions("s").is_empty());
    }
}

/// A data sender with NSIS was assumed to have none: both CREATEs are sessions of their own (RFC 5973 section 3.7.6.1).
#[test]
fn create_of_the_sender_and_of_the_edge_share_a_rule() {
    let mut net = Net::new();
    let from = Some(net.address("o"));
    let request =
        ExposeRequest { proxy: ProxyMode::Edge, from_port: Some(5_000), ..expose_request(from) };
    net.expose("c", 1, request);
    let external = external_of(&net.events("c"));
    let data = net.stream("o", 5_000, external.address, external.port);
    assert!(net.passes(data));
    let open =
        OpenRequest { destination_port: Some(external.port), ..open_request(external.address) };
    net.open_with("o", 1, open);
    let events = net.events("o");
    assert!(granted(&events), "{events:?}");
    assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1]);
    net.release("o", 1);
    assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1]);
    assert!(net.passes(data));
    net.release("c", 1);
    assert!(!net.passes(data));
}

#[test]
fn dead_receiver_closes_the_pinhole_of_the_edge() {
    let mut net = Net::new();
    let lifetime = Some(Duration::from_secs(20));
    net.expose("c", 1, ExposeRequest { proxy: ProxyMode::Edge, lifetime, ..expose_request(None) });
    let external = external_of(&net.events("c"));
    let data = net.stream("p", 5_000, external.address, external.port);
    assert!(net.passes(data));
    net.network.kill(net.id("c"));
    net.run(21);
    assert!(!net.passes(data));
    assert!(net.sessions("nat").is_empty() && net.sessions("fw1").is_empty());
}

#[test]
fn path_to_a_receiver_without_nsis_opens_up_to_the_edge() {
    for proxy in [ProxyMode::Edge, ProxyMode::EdgeAndOnward] {
        let mut net = Net::with(false, &accept_all);
        let plain = net.address("p");
        let data = net.stream("c", 5_000, plain, 6_000);
        assert!(!net.passes(data));
        let request = OpenRequest { proxy, ..open_request(plain) };
        net.open_with("c", 1, request);
        let events = net.events("c");
        assert!(granted(&events), "{proxy:?}: {events:?}");
        assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1]);
        assert!(net.passes(data));
        let external = net.external_source();
        let replies = net.stream("p", 6_000, external.address, external.port);
        assert!(net.passes(replies));
        for _ in 0..50 {
            assert!(net.passes(data), "{proxy:?}: {:?}", net.events("c"));
        }
        net.release("c", 1);
        assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0]);
        assert!(net.sessions("nat").is_empty() && net.sessions("fw1").is_empty());
        assert!(!net.passes(data));
    }
}

/// With the E flag, the edge probes the path behind it (RFC 5973 section 3.7.6.3).
#[test]
fn probing_edge_opens_the_whole_path() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    let request = OpenRequest { proxy: ProxyMode::EdgeAndOnward, ..open_request(server) };
    net.open_with("c", 1, request);
    let events = net.events("c");
    assert!(granted(&events), "{events:?}");
    assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [1, 1, 1]);
    assert!(net.passes(data));
    for _ in 0..50 {
        assert!(net.passes(data));
    }
    net.release("c", 1);
    assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [0, 0, 0]);
    assert!(net.sessions("s").is_empty());
}

/// Without an edge, the last node answers.
#[test]
fn last_firewall_answers_for_the_receiver() {
    let mut net = Net::with(false, &|name, config| {
        accept_all(name, config);
        if name == "nat" {
            config.translator = None;
            config.external.clear();
        }
    });
    let plain = net.address("p");
    let data = net.stream("c", 5_000, plain, 6_000);
    assert!(!net.passes(data));
    let request = OpenRequest { proxy: ProxyMode::Edge, ..open_request(plain) };
    net.open_with("c", 1, request);
    net.run(60);
    let events = net.events("c");
    assert!(granted(&events), "{events:?}");
    assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1]);
    assert!(net.passes(data));
    for _ in 0..50 {
        assert!(net.passes(data), "{:?}", net.events("c"));
    }
    net.release("c", 1);
    assert!(!net.passes(data));
}

/// The receiver hears that the edge could not open.
#[test]
fn refused_rule_of_the_edge_ends_the_reservation() {
    for refusing in ["fw1", "nat"] {
        let mut net = Net::new();
        net.network.refuse_filter_rules(net.id(refusing), Some(12));
        net.expose("c", 1, ExposeRequest { proxy: ProxyMode::Edge, ..expose_request(None) });
        let events = net.events("c");
        let has_ended =
            events.iter().any(|event| matches!(event, Event::Ended { info: Some(_), .. }));
        assert!(has_ended, "{refusing}: {events:?}");
        assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0]);
        for node in ["c", "fw1", "nat"] {
            assert!(net.sessions(node).is_empty(), "{refusing} {node}: {:?}", net.sessions(node));
        }
    }
}

/// A firewall behind the edge does not open for the data that the receiver has asked for.
#[test]
fn refusal_behind_the_edge_ends_the_reservation() {
    let mut net = Net::with(false, &|name, config| {
        if name == "fw1" {
            // Requests of the client pass, and those of the edge do not.
            config.rules[0].interfaces = vec!["eth0".to_owned()];
        }
    });
    net.expose("c", 1, ExposeRequest { proxy: ProxyMode::Edge, ..expose_request(None) });
    let events = net.events("c");
    let has_ended = events.iter().any(|event| matches!(event, Event::Ended { info: Some(_), .. }));
    assert!(has_ended, "{events:?}");
    assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0]);
    assert!(net.sessions("nat").is_empty() && net.sessions("c").is_empty());
}

#[test]
fn restarted_edge_keeps_the_pinhole_of_a_sender_without_nsis() {
    for restarted in ["nat", "fw1"] {
        let mut net = Net::new();
        let lifetime = Some(Duration::from_secs(60));
        net.expose(
            "c",
            1,
            ExposeRequest { proxy: ProxyMode::Edge, lifetime, ..expose_request(None) },
        );
        let external = external_of(&net.events("c"));
        let data = net.stream("p", 5_000, external.address, external.port);
        assert!(net.passes(data));
        net.network.kill(net.id(restarted));
        net.network.restart(net.id(restarted), Duration::ZERO);
        for second in 0..60 {
            assert!(net.passes(data), "{restarted} {second}: {:?}", net.events("c"));
        }
        net.release("c", 1);
        net.run(60);
        assert!(!net.passes(data));
        assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0]);
    }
}
