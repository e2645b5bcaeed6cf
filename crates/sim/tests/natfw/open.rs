//! CREATE: the data sender opens the path of its data.

use std::time::Duration;

use earmark_core::Outgoing;
use earmark_nsis::natfw::{Config, Event, OpenRequest, Refusal};
use earmark_nsis::nslp::Attributes;
use earmark_sim::{LogEvent, Loss};
use earmark_wire::icmp;
use earmark_wire::natfw_nslp::Outcome;
use earmark_wire::natfw_nslp::iana::{Informational, PermanentFailure};

use crate::network::{Net, accept_all, granted, open_request, refusal};

const PATH: [&str; 3] = ["fw1", "nat", "fw2"];

/// Asserts that no node has a session or a rule.
fn nothing_is_left(net: &Net) {
    for node in ["c", "fw1", "nat", "fw2", "s", "o"] {
        assert!(net.sessions(node).is_empty(), "{node}: {:?}", net.sessions(node));
    }
    assert_eq!(net.rule_counts(PATH), [0, 0, 0]);
}

#[test]
fn data_passes_between_grant_and_release() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    assert!(!net.passes(data));
    net.open("c", 1, server);
    let events = net.events("c");
    assert!(granted(&events), "{events:?}");
    assert_eq!(net.rule_counts(PATH), [1, 1, 1]);
    assert!(net.passes(data));
    let external = net.external_source();
    assert_eq!(external.address, net.address("nat"));
    assert_eq!(net.rules("fw2")[0].packets.flow.source, Some(external.address));
    let replies = net.stream("s", 6_000, external.address, external.port);
    let others = net.stream("s", 6_001, external.address, external.port);
    assert!(net.passes(replies));
    assert!(!net.passes(others), "these answer nothing");
    net.release("c", 1);
    nothing_is_left(&net);
    assert!(!net.passes(data));
    assert!(!net.passes(replies));
}

#[test]
fn data_passes_firewalls_of_ipv6() {
    let mut net = Net::with(true, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    assert!(!net.passes(data));
    net.open("c", 1, server);
    assert!(granted(&net.events("c")));
    assert_eq!(net.rule_counts(PATH), [1, 1, 1]);
    assert!(net.passes(data));
    let replies = net.stream("s", 6_000, net.address("c"), 5_000);
    assert!(net.passes(replies));
    net.release("c", 1);
    nothing_is_left(&net);
    assert!(!net.passes(data));
}

#[test]
fn datagrams_open_the_path_too() {
    let mut net = Net::with(false, &|name, config| {
        accept_all(name, config);
        config.attributes = Attributes::default();
    });
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    net.open("c", 1, server);
    assert!(granted(&net.events("c")));
    assert!(net.passes(data));
    net.release("c", 1);
    nothing_is_left(&net);
}

#[test]
fn refreshes_keep_the_path_open() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    let lifetime = Some(Duration::from_secs(20));
    net.open_with("c", 1, OpenRequest { lifetime, ..open_request(server) });
    assert!(granted(&net.events("c")));
    for second in 0..100 {
        assert!(net.passes(data), "{second}");
    }
    assert_eq!(net.events("c"), []);
}

#[test]
fn pinhole_of_a_dead_client_closes_with_its_lifetime() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    let lifetime = Some(Duration::from_secs(20));
    net.open_with("c", 1, OpenRequest { lifetime, ..open_request(server) });
    assert!(net.passes(data));
    net.network.kill(net.id("c"));
    assert!(net.passes(data), "its application still sends");
    net.run(20);
    assert!(!net.passes(data));
    nothing_is_left(&net);
}

/// The kernel needs no daemon to end rules.
#[test]
fn pinholes_of_dead_firewalls_close_with_their_lifetime() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    let lifetime = Some(Duration::from_secs(20));
    net.open_with("c", 1, OpenRequest { lifetime, ..open_request(server) });
    for node in PATH {
        net.network.kill(net.id(node));
    }
    assert!(net.passes(data));
    net.run(20);
    assert!(!net.passes(data));
    assert_eq!(net.rule_counts(PATH), [0, 0, 0]);
}

#[test]
fn unwanted_session_is_refused_everywhere() {
    let mut net = Net::new();
    let server = net.address("s");
    net.open("c", 1, server);
    let events = net.events("c");
    let refused = refusal(&events).expect("the server wants no data");
    let Refusal::Answered(info) = refused else { panic!("{refused:?}") };
    assert_eq!(info.outcome, Outcome::PermanentFailure(PermanentFailure::Authorization));
    nothing_is_left(&net);
}

#[test]
fn host_without_nsis_is_not_reached() {
    let mut net = Net::with(false, &accept_all);
    let plain = net.address("p");
    net.open("c", 1, plain);
    net.run(60);
    let events = net.events("c");
    let refused = refusal(&events).expect("nobody answers");
    let Refusal::Answered(info) = refused else { panic!("{refused:?}") };
    assert_eq!(info.outcome, Outcome::PermanentFailure(PermanentFailure::ResponderNotReached));
    nothing_is_left(&net);
}

#[test]
fn refusal_of_a_policy_closes_the_other_firewalls() {
    for refusing in PATH {
        let mut net = Net::with(false, &|name, config: &mut Config| {
            accept_all(name, config);
            if name == refusing {
                config.rules.clear();
            }
        });
        let server = net.address("s");
        net.open("c", 1, server);
        let refused = refusal(&net.events("c")).expect("a firewall refuses");
        let Refusal::Answered(info) = refused else { panic!("{refused:?}") };
        assert_eq!(info.outcome, Outcome::PermanentFailure(PermanentFailure::Authorization));
        nothing_is_left(&net);
    }
}

/// The initiator hears of a rule that a packet filter refuses, whichever it is.
#[test]
fn refused_rule_ends_the_session_at_all_nodes() {
    for refusing in PATH {
        let mut net = Net::with(false, &accept_all);
        let server = net.address("s");
        net.network.refuse_filter_rules(net.id(refusing), Some(12));
        net.open("c", 1, server);
        let events = net.events("c");
        let ended = events.iter().find_map(|event| match event {
            Event::Ended { info, .. } => *info,
            _ => None,
        });
        let ended = ended.unwrap_or_else(|| panic!("{refusing}: {events:?}"));
        assert_eq!(ended.outcome, Outcome::Informational(Informational::Terminated), "{refusing}");
        nothing_is_left(&net);
    }
}

#[test]
fn session_above_the_limit_of_rules_ends() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    net.network.limit_filter_rules(net.id("fw2"), 1);
    net.open("c", 1, server);
    assert!(granted(&net.events("c")));
    net.open_with("c", 2, OpenRequest { source_port: Some(5_001), ..open_request(server) });
    let events = net.events("c");
    assert!(events.iter().any(|event| matches!(event, Event::Ended { .. })), "{events:?}");
    assert_eq!(net.rule_counts(PATH), [1, 1, 1]);
    let data = net.stream("c", 5_000, server, 6_000);
    assert!(net.passes(data));
}

#[test]
fn sessions_of_different_ports_are_independent() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let streams = [5_000, 5_001].map(|port| net.stream("c", port, server, 6_000));
    net.open("c", 1, server);
    net.open_with("c", 2, OpenRequest { source_port: Some(5_001), ..open_request(server) });
    assert!(streams.iter().all(|stream| net.passes(*stream)));
    net.release("c", 1);
    assert!(!net.passes(streams[0]));
    assert!(net.passes(streams[1]));
}

#[test]
fn any_source_port_passes_and_is_translated() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let streams = [5_000, 5_001].map(|port| net.stream("c", port, server, 6_000));
    net.open_with("c", 1, OpenRequest { source_port: None, ..open_request(server) });
    assert!(granted(&net.events("c")));
    assert!(streams.iter().all(|stream| net.passes(*stream)));
    net.release("c", 1);
    nothing_is_left(&net);
    assert!(!streams.iter().any(|stream| net.passes(*stream)));
}

#[test]
fn pair_of_ports_passes() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let rtp = net.stream("c", 5_000, server, 6_000);
    let rtcp = net.stream("c", 5_001, server, 6_001);
    net.open_with("c", 1, OpenRequest { next_port: true, ..open_request(server) });
    assert!(granted(&net.events("c")));
    assert_eq!(net.rule_counts(PATH), [2, 2, 2]);
    assert!(net.passes(rtp) && net.passes(rtcp));
    net.release("c", 1);
    nothing_is_left(&net);
    assert!(!net.passes(rtp) && !net.passes(rtcp));
}

#[test]
fn ping_passes_and_returns() {
    let mut net = Net::with(false, &accept_all);
    let (client, server) = (net.address("c"), net.address("s"));
    let ping = |net: &mut Net| {
        let pseudo_header = icmp::PseudoHeader::of(client, server).expect("one family");
        let mut echo = vec![0; 16];
        icmp::seal(&mut echo, pseudo_header, icmp::Kind::Request, 1, 1).expect("there is room");
        net.network.take_log();
        net.network.send_datagram(net.id("c"), &Outgoing::new(1, client, server, 64), &echo);
        net.run(1);
        let at = net.id("c");
        let log = net.network.log();
        log.iter().any(|e| e.node == at && e.what == LogEvent::Lost(Loss::NobodyListens))
    };
    assert!(!ping(&mut net));
    let request = OpenRequest {
        protocol: Some(1),
        source_port: None,
        destination_port: None,
        icmp_types: vec![8],
        ..open_request(server)
    };
    net.open_with("c", 1, request);
    let events = net.events("c");
    assert!(granted(&events), "{events:?}");
    assert!(ping(&mut net), "no application of the client waits for the reply");
    net.release("c", 1);
    nothing_is_left(&net);
    assert!(!ping(&mut net));
}
