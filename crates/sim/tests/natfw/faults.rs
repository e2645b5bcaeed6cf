//! Middleboxes that crash, are replaced or leave the path.

use std::time::Duration;

use earmark_node::Command as NodeCommand;
use earmark_nsis::natfw::{Application, Command, Event, ExposeRequest, OpenRequest};
use earmark_nsis::nslp::Attributes;
use earmark_sim::{Faults, StreamId};

use crate::network::{
    Net, accept_all, config, expose_request, external_of, granted, open_request, refusal,
};

const LIFETIME: Duration = Duration::from_secs(30);

/// Returns a network with an open path from the client to the server, and the data on it.
fn open_path(ipv6: bool) -> (Net, StreamId) {
    let mut net = Net::with(ipv6, &accept_all);
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    net.open_with("c", 1, OpenRequest { lifetime: Some(LIFETIME), ..open_request(server) });
    assert!(granted(&net.events("c")));
    assert!(net.passes(data));
    (net, data)
}

/// The rule outlives the daemon, and the next refresh installs it again, with the same translation.
#[test]
fn restarted_middlebox_keeps_the_path_open() {
    for ipv6 in [false, true] {
        for restarted in ["fw1", "nat", "fw2"] {
            let (mut net, data) = open_path(ipv6);
            let before = net.rules(restarted);
            net.network.kill(net.id(restarted));
            assert!(net.passes(data), "{restarted}");
            net.network.restart(net.id(restarted), Duration::ZERO);
            for second in 0..60 {
                assert!(net.passes(data), "{restarted} after {second}: {:?}", net.events("c"));
            }
            assert_eq!(net.rules(restarted), before);
            net.release("c", 1);
            assert!(!net.passes(data), "{restarted}");
            assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [0, 0, 0], "{restarted}");
        }
    }
}

/// Both sides refresh; which side comes first after the restart is a matter of chance.
#[test]
fn restarted_translator_keeps_the_path_of_a_reservation() {
    for delay in 0..12 {
        let mut net = Net::new();
        let lifetime = Some(LIFETIME);
        net.expose("c", 1, ExposeRequest { lifetime, ..expose_request(None) });
        let outside = external_of(&net.events("c"));
        let destination_port = Some(outside.port);
        let request = OpenRequest { lifetime, destination_port, ..open_request(outside.address) };
        net.open_with("s", 1, request);
        assert!(granted(&net.events("s")));
        let data = net.stream("s", 5_000, outside.address, outside.port);
        net.run(delay);
        assert!(net.passes(data));
        net.network.kill(net.id("nat"));
        net.network.restart(net.id("nat"), Duration::ZERO);
        for second in 0..30 {
            assert!(net.passes(data), "{delay}, after {second}: {:?}", net.events("s"));
        }
        net.release("c", 1);
        assert!(!net.passes(data));
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [0, 0, 0]);
    }
}

#[test]
fn replaced_middlebox_opens_the_path_with_the_next_refresh() {
    for replaced in ["fw1", "nat", "fw2"] {
        let (mut net, data) = open_path(false);
        net.network.replace(net.id(replaced));
        net.run(30);
        assert!(net.passes(data), "{replaced}: {:?}", net.events("c"));
        net.release("c", 1);
        assert!(!net.passes(data), "{replaced}");
    }
}

#[test]
fn restarted_server_keeps_the_path_open() {
    let (mut net, data) = open_path(false);
    net.network.kill(net.id("s"));
    net.network.restart(net.id("s"), Duration::ZERO);
    for second in 0..60 {
        assert!(net.passes(data), "after {second}: {:?}", net.events("c"));
    }
}

#[test]
fn reserved_address_survives_a_restart_of_the_translator() {
    let mut net = Net::new();
    net.expose("c", 1, expose_request(None));
    let external = external_of(&net.events("c"));
    let open = |port| OpenRequest {
        source_port: Some(port),
        destination_port: Some(external.port),
        ..open_request(external.address)
    };
    net.open_with("o", 1, open(5_000));
    let data = net.stream("o", 5_000, external.address, external.port);
    assert!(net.passes(data));
    net.network.kill(net.id("nat"));
    net.network.restart(net.id("nat"), Duration::ZERO);
    for second in 0..100 {
        assert!(net.passes(data), "{second}: {:?}", net.events("o"));
    }
    net.open_with("o", 2, open(5_001));
    let events = net.events("o");
    assert!(granted(&events), "{events:?}");
}

/// Makes `fw3` carry what `fw2` has carried so far.
fn change_routes(net: &mut Net) {
    for (node, to, from, by) in [("r", 5, 3, 6), ("e", 10, 4, 7)] {
        let (old, new) = (net.route(node, to, from), net.route(node, to, by));
        net.network.remove_route(net.id(node), old);
        net.network.add_route(net.id(node), new);
    }
}

/// The path leads through another firewall, which must open, and the old one closes.
#[test]
fn path_follows_a_changed_route() {
    for ipv6 in [false, true] {
        let (mut net, data) = open_path(ipv6);
        change_routes(&mut net);
        net.run(60);
        assert!(net.passes(data), "{ipv6} {:?} {:?}", net.events("c"), net.rules("fw3"));
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2", "fw3"]), [1, 1, 0, 1]);
        net.release("c", 1);
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2", "fw3"]), [0, 0, 0, 0]);
        assert!(!net.passes(data));
    }
}

/// A client that starts again asks for its path anew.
#[test]
fn restarted_client_opens_its_path_again() {
    let (mut net, data) = open_path(false);
    net.network.kill(net.id("c"));
    net.network.restart(net.id("c"), Duration::ZERO);
    let server = net.address("s");
    let request = OpenRequest { lifetime: Some(LIFETIME), ..open_request(server) };
    net.command("c", Command::Open { application: Application(1), request });
    for second in 0..60 {
        assert!(net.passes(data), "{second}: {:?}", net.events("c"));
    }
    assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [1, 1, 1]);
    net.release("c", 1);
    assert!(!net.passes(data));
}

/// Refreshes that a dead daemon does not see are repeated, and its pinhole is open meanwhile.
#[test]
fn daemon_that_is_dead_for_a_while_keeps_the_path_open() {
    for restarted in ["fw1", "nat", "fw2", "s"] {
        let mut net = Net::with(false, &accept_all);
        let server = net.address("s");
        let data = net.stream("c", 5_000, server, 6_000);
        let lifetime = Some(Duration::from_secs(120));
        net.open_with("c", 1, OpenRequest { lifetime, ..open_request(server) });
        net.network.kill(net.id(restarted));
        for second in 0..20 {
            assert!(net.passes(data), "{restarted} {second}");
        }
        net.network.restart(net.id(restarted), Duration::ZERO);
        for second in 20..120 {
            assert!(net.passes(data), "{restarted} {second}: {:?}", net.events("c"));
        }
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [1, 1, 1]);
    }
}

/// The client hears of a daemon that stays dead, and nothing stays open.
#[test]
fn daemon_that_stays_dead_ends_the_session() {
    for dead in ["fw1", "nat", "fw2", "s"] {
        let (mut net, data) = open_path(false);
        net.network.kill(net.id(dead));
        net.run(80);
        assert!(refusal(&net.events("c")).is_some(), "{dead}");
        assert!(!net.passes(data), "{dead}");
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [0, 0, 0]);
        assert!(net.sessions("c").is_empty());
    }
}

#[test]
fn bad_links_delay_the_path_and_do_not_close_it() {
    let mut net = Net::with(false, &accept_all);
    for (node, link) in [("c", 0), ("fw1", 1), ("nat", 2), ("r", 3), ("fw2", 4), ("e", 5)] {
        let jitter = Duration::from_millis(3);
        let faults = Faults { loss: 0.05, duplication: 0.05, corruption: 0.05, jitter };
        net.network.set_faults(net.id(node), net.interface(node, link), faults);
    }
    let server = net.address("s");
    let data = net.stream("c", 5_000, server, 6_000);
    net.open_with("c", 1, OpenRequest { lifetime: Some(LIFETIME), ..open_request(server) });
    net.run(20);
    assert!(granted(&net.events("c")));
    for second in 0..200 {
        assert!(net.passes(data), "{second}: {:?}", net.events("c"));
    }
    net.release("c", 1);
    net.run(60);
    assert!(!net.passes(data));
}

#[test]
fn link_that_fails_for_a_while_keeps_the_path_open() {
    let (mut net, data) = open_path(false);
    let (node, interface) = (net.id("r"), net.interface("r", 3));
    net.network.set_link_up(node, interface, false);
    net.run(10);
    net.network.set_link_up(node, interface, true);
    for second in 0..60 {
        assert!(net.passes(data), "{second}: {:?}", net.events("c"));
    }
}

/// Sessions that new policy rules refuse end with their next refresh.
#[test]
fn withdrawn_permission_closes_the_path() {
    for withdrawing in ["fw1", "nat", "fw2"] {
        let (mut net, data) = open_path(false);
        let mut settings = net.settings[withdrawing].clone();
        settings.rules.clear();
        let renewed = Box::new(config(&settings, Attributes::default()).nsis);
        let command = NodeCommand::Nsis(earmark_nsis::Command::Renew(renewed));
        net.network.command(net.id(withdrawing), command);
        net.run(15);
        assert!(!net.passes(data), "{withdrawing}");
        assert!(refusal(&net.events("c")).is_some(), "{withdrawing}");
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [0, 0, 0], "{withdrawing}");
    }
}

#[test]
fn shorter_lifetime_of_a_firewall_is_kept_up() {
    for (short, seconds) in [("fw1", 9), ("nat", 10), ("fw2", 11), ("s", 12)] {
        let mut net = Net::with(false, &|name, config| {
            accept_all(name, config);
            if name == short {
                config.longest_lifetime = Duration::from_secs(seconds);
            }
        });
        let server = net.address("s");
        let data = net.stream("c", 5_000, server, 6_000);
        net.open("c", 1, server);
        let events = net.events("c");
        let lifetime = events.iter().find_map(|event| match event {
            Event::Granted { lifetime, .. } => Some(u64::from(*lifetime)),
            _ => None,
        });
        assert_eq!(lifetime, Some(seconds), "{short}");
        for second in 0..60 {
            assert!(net.passes(data), "{short} {second}: {:?}", net.events("c"));
        }
        net.network.kill(net.id("c"));
        net.run(13);
        assert!(!net.passes(data), "{short}");
    }
}

/// The rule of a session is refused when it is installed again.
#[test]
fn refused_rule_of_a_refresh_ends_the_session() {
    for refusing in ["fw1", "nat", "fw2"] {
        let (mut net, data) = open_path(false);
        net.network.refuse_filter_rules(net.id(refusing), Some(12));
        net.run(20);
        assert!(!net.passes(data), "{refusing}");
        let events = net.events("c");
        assert!(events.iter().any(|event| matches!(event, Event::Ended { .. })), "{events:?}");
        assert_eq!(net.rule_counts(["fw1", "nat", "fw2"]), [0, 0, 0], "{refusing}");
    }
}

/// The reservation of the server moves to the firewall of its new path, and CREATEs find it there.
#[test]
fn reservation_follows_a_changed_route() {
    let mut net = Net::new();
    let (server, from) = (net.address("s"), Some(net.address("o")));
    let data = net.stream("o", 5_000, server, 6_000);
    let lifetime = Some(LIFETIME);
    net.expose("s", 1, ExposeRequest { lifetime, ..expose_request(from) });
    net.open_with("o", 1, OpenRequest { lifetime, ..open_request(server) });
    assert!(net.passes(data));
    change_routes(&mut net);
    net.run(60);
    assert!(net.passes(data), "{:?}", net.events("o"));
    assert_eq!(net.rule_counts(["fw2", "fw3"]), [0, 1]);
    let messages = net.sessions("fw3").into_iter().map(|session| session.message);
    let mut messages: Vec<_> = messages.collect();
    messages.sort_unstable();
    assert_eq!(messages, ["CREATE", "EXTERNAL"]);
    net.release("s", 1);
    net.release("o", 1);
    assert!(!net.passes(data));
    assert!(net.sessions("fw3").is_empty());
}
