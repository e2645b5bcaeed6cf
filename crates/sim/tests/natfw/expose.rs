//! EXTERNAL: the data receiver reserves an address at the edge, or blocks data there.

use std::time::Duration;

use earmark_core::{Endpoint, FilterAction};
use earmark_nsis::gist::UpstreamQueries;
use earmark_nsis::natfw::{
    Application, Command, Config, Event, ExposeRequest, OpenRequest, Refusal,
};
use earmark_nsis::nslp::{Attributes, SendFailure};
use earmark_wire::natfw_nslp::Outcome;
use earmark_wire::natfw_nslp::iana::{PermanentFailure, SignalingSessionFailure};

use crate::network::{
    Net, accept_all, config, expose_request, external_of, granted, open_request, refusal,
};

/// Returns a request for the external address and port of a node.
fn open_to(external: Endpoint) -> OpenRequest {
    OpenRequest { destination_port: Some(external.port), ..open_request(external.address) }
}

#[test]
fn outside_client_reaches_a_host_behind_the_translator() {
    for from in [None, Some("o")] {
        let mut net = Net::new();
        let from = from.map(|from| net.address(from));
        net.expose("c", 1, expose_request(from));
        let external = external_of(&net.events("c"));
        assert_eq!(external.address, net.address("nat"));
        assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0], "a reservation opens nothing");
        let data = net.stream("o", 5_000, external.address, external.port);
        assert!(!net.passes(data));

        net.open_with("o", 1, open_to(external));
        let events = net.events("o");
        assert!(granted(&events), "{events:?}");
        assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1]);
        let rule = net.rules("nat")[0];
        let inside = Endpoint { address: net.address("c"), port: 6_000 };
        assert_eq!((rule.source, rule.destination), (None, Some(inside)));
        assert!(net.passes(data));
        let replies = net.stream("c", 6_000, net.address("o"), 5_000);
        assert!(net.passes(replies));

        net.release("o", 1);
        assert_eq!(net.rule_counts(["fw1", "nat"]), [0, 0]);
        assert!(!net.passes(data));
        net.release("c", 1);
        for node in ["c", "fw1", "nat", "o"] {
            assert!(net.sessions(node).is_empty(), "{node}: {:?}", net.sessions(node));
        }
    }
}

#[test]
fn application_is_told_of_the_session_to_its_port() {
    let mut net = Net::new();
    net.expose("c", 1, expose_request(None));
    let external = external_of(&net.events("c"));
    net.open_with("o", 1, open_to(external));
    let events = net.events("c");
    let admitted = events.iter().find_map(|event| match event {
        Event::Admitted { application, from, port, .. } => Some((*application, *from, *port)),
        _ => None,
    });
    let application = Some(earmark_nsis::natfw::Application(1));
    assert_eq!(admitted, Some((application, Some(net.address("o")), 6_000)), "{events:?}");
}

#[test]
fn address_without_reservation_is_not_reached() {
    let mut net = Net::with(false, &accept_all);
    let external = Endpoint { address: net.address("nat"), port: 6_000 };
    net.open_with("o", 1, open_to(external));
    let refused = refusal(&net.events("o"));
    let Some(Refusal::Answered(info)) = refused else { panic!("{refused:?}") };
    let expected = Outcome::SignalingSessionFailure(SignalingSessionFailure::NoReservation);
    assert_eq!(info.outcome, expected);
    // The other sender is not the one for whom the port is.
    net.expose("c", 1, expose_request(Some(net.address("s"))));
    let external = external_of(&net.events("c"));
    net.open_with("o", 1, open_to(external));
    let refused = refusal(&net.events("o"));
    let Some(Refusal::Answered(info)) = refused else { panic!("{refused:?}") };
    assert_eq!(info.outcome, expected);
}

#[test]
fn reservation_is_refreshed_and_ends_with_its_host() {
    let mut net = Net::new();
    let lifetime = Some(Duration::from_secs(20));
    net.expose("c", 1, ExposeRequest { lifetime, ..expose_request(None) });
    let external = external_of(&net.events("c"));
    net.run(100);
    net.open_with("o", 1, open_to(external));
    assert!(granted(&net.events("o")));
    net.release("o", 1);
    net.network.kill(net.id("c"));
    net.run(21);
    assert!(net.sessions("nat").is_empty() && net.sessions("fw1").is_empty());
    net.open_with("o", 1, open_to(external));
    assert!(refusal(&net.events("o")).is_some());
}

#[test]
fn pair_of_ports_is_reserved() {
    let mut net = Net::new();
    net.expose("c", 1, ExposeRequest { next_port: true, ..expose_request(None) });
    let external = external_of(&net.events("c"));
    assert_eq!(external.port % 2, 0);
    let next = Endpoint { port: external.port + 1, ..external };
    let streams = [external, next].map(|to| net.stream("o", 5_000, to.address, to.port));
    net.open_with("o", 1, OpenRequest { source_port: None, next_port: true, ..open_to(external) });
    let events = net.events("o");
    assert!(granted(&events), "{events:?}");
    assert!(streams.iter().all(|stream| net.passes(*stream)));
    net.release("o", 1);
    assert!(!streams.iter().any(|stream| net.passes(*stream)));
    net.open_with("o", 2, open_to(next));
    let events = net.events("o");
    assert!(granted(&events), "{events:?}");
    assert!(!net.passes(streams[0]));
    assert!(net.passes(streams[1]));
}

#[test]
fn server_behind_firewalls_is_reached_under_its_own_address() {
    for ipv6 in [false, true] {
        let mut net = Net::with(ipv6, &|_, _| {});
        let from = Some(net.address("o"));
        let data = net.stream("o", 5_000, net.address("s"), 6_000);
        net.expose("s", 1, expose_request(from));
        let events = net.events("s");
        assert!(granted(&events), "{events:?}");
        assert!(!net.passes(data));
        net.open("o", 1, net.address("s"));
        let events = net.events("o");
        assert!(granted(&events), "{events:?}");
        assert!(net.passes(data));
        net.release("s", 1);
        net.release("o", 1);
        assert!(!net.passes(data));
    }
}

#[test]
fn path_coupled_reservation_without_a_sender_counts_for_any() {
    let mut net = Net::new();
    net.expose("s", 1, ExposeRequest { untranslated: true, ..expose_request(None) });
    let events = net.events("s");
    assert!(granted(&events), "{events:?}");
    net.open("o", 1, net.address("s"));
    let events = net.events("o");
    assert!(granted(&events), "{events:?}");
}

/// Makes the edge firewall of the server let everything pass that is not blocked.
fn open_edge(name: &str, config: &mut Config) {
    accept_all(name, config);
    if name == "fw2" {
        // Nothing is guarded there.
        config.signaling_destination = None;
    }
}

#[test]
fn blocked_data_is_dropped_at_the_edge() {
    for ipv6 in [false, true] {
        let mut net = Net::with(ipv6, &open_edge);
        let server = net.address("s");
        let streams = ["o", "p"].map(|from| net.stream(from, 5_000, server, 6_000));
        assert!(streams.iter().all(|stream| net.passes(*stream)));
        let from = Some(net.address("o"));
        let deny = ExposeRequest { action: FilterAction::Deny, ..expose_request(from) };
        net.expose("s", 1, deny);
        let events = net.events("s");
        assert!(granted(&events), "{events:?}");
        assert_eq!(net.rule_counts(["fw2"]), [1]);
        assert!(!net.passes(streams[0]));
        assert!(net.passes(streams[1]));
        net.open("o", 1, server);
        assert!(refusal(&net.events("o")).is_some(), "the receiver blocks it");
        net.release("s", 1);
        assert_eq!(net.rule_counts(["fw2"]), [0]);
        assert!(net.passes(streams[0]));
    }
}

#[test]
fn translator_blocks_nothing() {
    let mut net = Net::new();
    let from = Some(net.address("o"));
    net.expose("c", 1, ExposeRequest { action: FilterAction::Deny, ..expose_request(from) });
    let refused = refusal(&net.events("c"));
    let Some(Refusal::Answered(info)) = refused else { panic!("{refused:?}") };
    assert_eq!(
        info.outcome,
        Outcome::SignalingSessionFailure(SignalingSessionFailure::RuleActionNotApplicable)
    );
    assert!(net.sessions("fw1").is_empty() && net.sessions("nat").is_empty());
}

/// A host that is in no network with an edge reserves nothing.
#[test]
fn host_without_an_edge_is_refused() {
    let mut net = Net::new();
    net.expose("o", 1, expose_request(Some(net.address("p"))));
    net.run(60);
    let refused = refusal(&net.events("o")).expect("there is no edge");
    if let Refusal::Answered(info) = refused {
        assert_eq!(info.outcome, Outcome::PermanentFailure(PermanentFailure::NoEdgeDevice));
    }
    assert!(net.sessions("o").is_empty());
}

/// Two translators, one behind the other: the outer one is the edge.
#[test]
fn host_behind_two_translators_is_reached() {
    for from in [None, Some("o")] {
        let mut net = Net::with(false, &nested);
        let from = from.map(|from| net.address(from));
        net.expose("c", 1, expose_request(from));
        let events = net.events("c");
        let external = external_of(&events);
        assert_eq!(external.address, net.address("nat"));
        let bindings = events.iter().find_map(|event| match event {
            Event::Granted { bindings, .. } => Some(bindings.clone()),
            _ => None,
        });
        let inner = bindings.expect("it is granted");
        assert_eq!(inner.len(), 1, "{inner:?}");
        assert_eq!(inner[0].address, crate::network::address("10.0.1.1"));
        let data = net.stream("o", 5_000, external.address, external.port);
        assert!(!net.passes(data));
        net.open_with("o", 1, open_to(external));
        let events = net.events("o");
        assert!(granted(&events), "{events:?}");
        assert_eq!(net.rule_counts(["fw1", "nat"]), [1, 1]);
        assert!(net.passes(data));
        let replies = net.stream("c", 6_000, net.address("o"), 5_000);
        assert!(net.passes(replies));
        for _ in 0..50 {
            assert!(net.passes(data));
        }
        net.release("o", 1);
        net.release("c", 1);
        assert!(!net.passes(data));
        assert!(net.sessions("fw1").is_empty() && net.sessions("nat").is_empty());
    }
}

#[test]
fn data_pass_two_translators() {
    let mut net = Net::with(false, &nested);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    net.open("c", 1, server);
    let events = net.events("c");
    assert!(granted(&events), "{events:?}");
    assert!(net.passes(data));
    let external = net.external_source();
    assert_eq!(net.rules("fw2")[0].packets.flow.source, Some(external.address));
    let replies = net.stream("s", 6_000, external.address, external.port);
    assert!(net.passes(replies));
    net.release("c", 1);
    assert!(!net.passes(data));
}

/// Makes the inner firewall of the client's network a translator, too.
fn nested(name: &str, config: &mut Config) {
    accept_all(name, config);
    if name == "c" {
        config.responder = earmark_nsis::natfw::Responder::Exposed;
    }
    if name == "fw1" {
        config.translator = Some(earmark_nsis::natfw::Translator::default());
        config.external = vec!["eth1".to_owned()];
        config.edge = false;
    }
}

/// What was open already is blocked, too.
#[test]
fn block_ends_the_data_of_an_open_path() {
    let mut net = Net::with(false, &accept_all);
    let server = net.address("s");
    let data = net.stream("o", 5_000, server, 6_000);
    net.open("o", 1, server);
    assert!(net.passes(data));
    let from = Some(net.address("o"));
    net.expose("s", 1, ExposeRequest { action: FilterAction::Deny, ..expose_request(from) });
    assert!(granted(&net.events("s")));
    for _ in 0..50 {
        assert!(!net.passes(data));
    }
    net.release("s", 1);
    net.release("o", 1);
    assert_eq!(net.rule_counts(["fw2"]), [0]);
}

#[test]
fn refused_rule_of_a_block_is_reported() {
    let mut net = Net::new();
    net.network.refuse_filter_rules(net.id("fw2"), Some(12));
    let from = Some(net.address("o"));
    net.expose("s", 1, ExposeRequest { action: FilterAction::Deny, ..expose_request(from) });
    let events = net.events("s");
    assert!(
        events.iter().any(|event| matches!(event, Event::Ended { info: Some(_), .. })),
        "{events:?}"
    );
    assert!(net.sessions("fw2").is_empty() && net.sessions("s").is_empty());
}

/// Queries upstream need a setting of GIST, unless the sender is on a link of the host (RFC 5971 section 5.8.1.3).
#[test]
fn reservation_that_cannot_travel_upstream_is_refused_at_once() {
    let mut net = Net::new();
    let client = net.id("c");
    let mut settings = config(&net.settings["c"], Attributes::default());
    settings.nsis.gist.upstream_queries = UpstreamQueries::OnLink;
    net.network.set_config(client, settings);
    net.network.kill(client);
    net.network.restart(client, Duration::ZERO);
    let from = Some(net.address("o"));
    net.expose("c", 1, expose_request(from));
    assert_eq!(refusal(&net.events("c")), Some(Refusal::Unsent(SendFailure::NoUpstreamState)));
}

/// Opens the paths of many streams of a host outside to an exposed port of `c`.
fn open_many(net: &mut Net, count: u16) -> Endpoint {
    let lifetime = Some(Duration::from_secs(20));
    net.expose("c", 1, ExposeRequest { lifetime, ..expose_request(None) });
    let outside = external_of(&net.events("c"));
    for number in 0..count {
        let request = OpenRequest { source_port: Some(10_000 + number), ..open_to(outside) };
        let application = Application(number.into());
        net.command("o", Command::Open { application, request });
    }
    net.run(3);
    outside
}

/// The daemon of the receiver tells the firewalls that nobody wants the data any more.
#[test]
fn paths_end_when_the_application_stops_that_admits_them() {
    const COUNT: u16 = 150;
    let mut net = Net::new();
    let outside = open_many(&mut net, COUNT);
    assert_eq!(net.rule_counts(["nat", "fw1"]), [usize::from(COUNT); 2]);
    let data = net.stream("o", 10_000, outside.address, outside.port);
    assert!(net.passes(data));
    net.release("c", 1);
    assert_eq!(net.rule_counts(["nat", "fw1"]), [0, 0]);
    assert!(!net.passes(data));
    let events = net.events("o");
    let ended = events.iter().filter(|event| matches!(event, Event::Ended { .. })).count();
    assert_eq!(ended, usize::from(COUNT), "each initiator is told");
}

/// "An NI+ may decide to tear down a reservation immediately after receiving a CREATE message" (RFC 5973 section 3.7.2). The
/// address stays that of its host as long as data go there.
#[test]
fn open_path_keeps_its_address_without_the_reservation() {
    let mut net = Net::with(false, &|name, config| {
        accept_all(name, config);
        if let Some(translator) = &mut config.translator {
            (translator.first_port, translator.last_port) = (40_000, 40_000);
        }
    });
    let outside = open_many(&mut net, 1);
    let data = net.stream("o", 10_000, outside.address, outside.port);
    net.release("c", 1);
    assert!(net.passes(data));
    net.expose("fw1", 7, expose_request(None));
    assert!(refusal(&net.events("fw1")).is_some(), "the only port is taken");
    net.run(100);
    assert!(net.passes(data), "its refreshes are granted");
    net.release("o", 0);
    assert!(!net.passes(data));
    net.expose("fw1", 8, expose_request(None));
    assert_eq!(external_of(&net.events("fw1")), outside, "the port is free again");
}
