//! Tickets in the simulator: scenarios, fault exploration, and messages of others.

use earmark_core::admission::{Demand, Service};
use earmark_core::outcome::Kind as Extent;
use earmark_core::{Flow, InterfaceId, Rate, Time};
use earmark_node::{Command as NodeCommand, Event, NodeConfig, OtherCommand, OtherEvent};
use earmark_scenario::explore::explore_with;
use earmark_scenario::topology::{DEMO, Topology};
use earmark_scenario::{Protocols, Scenario, network, play};
use earmark_sim::{LogEvent, Network, NodeId};
use earmark_tickets::engine::{Command, NAME, Tickets};
use earmark_tickets::node::{ENGINE, command};
use earmark_tickets::scenario::TicketsInScenarios;

fn protocols() -> Protocols {
    Protocols::default().with(&TicketsInScenarios).expect("a new name and number")
}

/// The demo's network with Tickets on every node; returns also h1, r1 and h2.
fn demo() -> (Network, [NodeId; 3], Flow) {
    let topology = Topology::parse(DEMO).expect("the demo's");
    let engines = NodeConfig::default().engines.with(ENGINE).expect("a new name and number");
    let config = NodeConfig { engines, ..NodeConfig::default() };
    let (network, nodes) = network(&topology, 1, &config);
    let place = |name: &str| topology.node(name).expect("a node of the demo");
    let address = |name: &str| topology.address(place(name)).expect("an address").into();
    let flow = Flow {
        destination: address("h2"),
        source: Some(address("h1")),
        protocol: 17,
        destination_port: 5_000,
        source_port: 4_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    (network, ["h1", "r1", "h2"].map(|name| nodes[place(name)]), flow)
}

fn reserve(application: u64, flow: Flow, rate: Rate) -> NodeCommand {
    let service = Service::ControlledLoad;
    let demand = Demand { service, rate, burst: 10_000, max_packet: 1_500, min_packet: 0 };
    command(&Command::Reserve { application, flow, demand })
}

/// Returns the outcomes that the log reports since the last call, with the application.
fn outcomes(network: &mut Network) -> Vec<(u64, Extent, Option<Rate>)> {
    let log = network.take_log();
    let outcomes = log.iter().filter_map(|entry| match &entry.what {
        LogEvent::Event(Event::Other(event)) => {
            let outcome = event.outcome.as_ref()?;
            Some((event.application?, outcome.kind, outcome.available_bps))
        }
        _ => None,
    });
    outcomes.collect()
}

fn sessions(network: &Network, node: NodeId) -> usize {
    let node = network.node(node).expect("its daemon runs");
    node.engine::<Tickets>().expect("it has the engine");
    node.session_rows(Time::ZERO).filter(|row| row.protocol == NAME).count()
}

#[test]
fn request_reserves_whole_path_and_release_empties_it() {
    let (mut network, [h1, r1, _], flow) = demo();
    network.command(h1, reserve(7, flow, Rate::from_mbps(1)));
    network.run_until(Time::from_secs(2));
    assert_eq!(outcomes(&mut network), [(7, Extent::Whole, None)]);
    let classes: Vec<_> = network.traffic_control(r1).collect();
    assert_eq!(classes.len(), 1);
    assert_eq!(classes[0].1.demand.rate, Rate::from_mbps(1));
    network.run_until(Time::from_secs(200)); // several refreshes
    assert_eq!((sessions(&network, h1), sessions(&network, r1)), (1, 1));
    network.command(h1, command(&Command::Release { application: 7 }));
    network.run_until(Time::from_secs(201));
    assert_eq!((sessions(&network, h1), sessions(&network, r1)), (0, 0));
    assert_eq!(network.traffic_control(r1).count(), 0);
}

#[test]
fn request_over_capacity_is_refused_with_available_rate_and_leaves_nothing() {
    let (mut network, [h1, r1, _], flow) = demo();
    network.command(h1, reserve(7, flow, Rate::from_mbps(900)));
    network.run_until(Time::from_secs(2));
    let refused = outcomes(&mut network);
    let &[(7, Extent::Refused, Some(available))] = &refused[..] else { panic!("{refused:?}") };
    assert!(available > Rate::ZERO && available < Rate::from_mbps(900), "{available}");
    assert_eq!((sessions(&network, h1), sessions(&network, r1)), (0, 0));
}

#[test]
fn malformed_command_is_rejected_with_its_reason() {
    let (mut network, [h1, ..], _) = demo();
    let mut rejected = |text: &str| -> OtherEvent {
        let command = serde_json::from_str(text).expect("JSON");
        network.command(h1, NodeCommand::Other(OtherCommand { name: NAME.into(), command }));
        let log = network.take_log();
        let mut events = log.into_iter().filter_map(|entry| match entry.what {
            LogEvent::Event(Event::Other(event)) => Some(event),
            _ => None,
        });
        events.next().expect("an event")
    };
    for (text, application, reason) in [
        (r#"{"reserve": {"application": 7}}"#, Some(7), "missing field `flow`"),
        (r#"{"renew": {"application": 8}}"#, Some(8), "unknown variant `renew`"),
        ("5", None, "invalid type"),
    ] {
        let event = rejected(text);
        assert_eq!(event.event["event"], "rejected", "{text}");
        assert!(event.event["reason"].as_str().is_some_and(|r| r.contains(reason)), "{event:?}");
        let extent = event.outcome.map(|outcome| outcome.kind);
        assert_eq!(
            (event.application, extent),
            (application, application.map(|_| Extent::Refused))
        );
    }
}

/// The second application's ticket is another one, so its request is refused and its release releases nothing.
#[test]
fn other_ticket_changes_nothing() {
    let (mut network, [h1, r1, _], flow) = demo();
    network.command(h1, reserve(7, flow, Rate::from_mbps(1)));
    network.run_until(Time::from_secs(2));
    network.command(h1, reserve(8, flow, Rate::from_bps(64_000)));
    network.run_until(Time::from_secs(4));
    assert_eq!(
        outcomes(&mut network),
        [(7, Extent::Whole, None), (8, Extent::Refused, Some(Rate::ZERO))]
    );
    network.command(h1, command(&Command::Release { application: 8 }));
    network.run_until(Time::from_secs(6));
    let node = network.node(r1).expect("its daemon runs");
    let held: Vec<(InterfaceId, Rate)> =
        node.ledger().links().map(|(id, status)| (id, status.held)).collect();
    assert!(held.iter().any(|(_, rate)| *rate == Rate::from_mbps(1)), "{held:?}");
}

#[test]
fn state_of_dead_source_expires() {
    let (mut network, [h1, r1, _], flow) = demo();
    network.command(h1, reserve(7, flow, Rate::from_mbps(1)));
    network.run_until(Time::from_secs(2));
    network.kill(h1);
    network.run_until(Time::from_secs(110));
    assert_eq!(sessions(&network, r1), 1, "four intervals of 30 s");
    network.run_until(Time::from_secs(200));
    assert_eq!(sessions(&network, r1), 0);
    assert_eq!(network.traffic_control(r1).count(), 0);
}

#[test]
fn scenario_file_is_played_by_name() {
    let scenario = Scenario::parse(include_str!("../retry.toml")).expect("a scenario");
    let topology = Topology::parse(include_str!("../../../topologies/retry.toml"));
    let topology = topology.expect("a topology");
    let error = play(&scenario, &topology, 1).expect_err("nobody has added the protocol");
    assert!(error.to_string().contains("unknown protocol `tickets`"), "{error}");
    let scenario = Scenario { protocols: protocols(), ..scenario };
    let outcome = play(&scenario, &topology, 1).expect("it fits");
    assert!(outcome.completed > 40 && outcome.completed <= outcome.wanted, "{outcome:?}");
}

#[test]
fn invariants_hold_under_faults() {
    for seed in 0..24 {
        let explored = explore_with(seed, &protocols());
        assert_eq!(explored.breaches, [], "seed {seed}");
    }
}

#[test]
fn invalid_settings_are_refused() {
    use earmark_tickets::daemon::TicketsInDaemon;
    use earmarkd::protocol::Protocol;

    let check =
        |text: &str| TicketsInDaemon.check_settings(&serde_json::from_str(text).expect("JSON"));
    assert_eq!(check(r#"{"interval_s": 5}"#), Ok(()));
    for text in [r#"{"interval_s": 300}"#, r#"{"interval_s": "5s"}"#, r#"{"interval": 5}"#, "5"] {
        assert!(check(text).is_err(), "{text}");
    }
}
