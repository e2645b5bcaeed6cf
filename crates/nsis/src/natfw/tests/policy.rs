//! Policy at a node: RFC 5973 sections 3.6 and 5.3, and appendix D.1.

use super::*;

fn with_rules(rules: Vec<Rule>) -> Net {
    Net::with(&[Place::Host, Place::Firewall, Place::Host], move |number, c| match number {
        1 => Config { rules: rules.clone(), ..c },
        _ => c,
    })
}

/// Nothing opens without a rule that allows it.
#[test]
fn nothing_opens_without_authorization() {
    for (rules, expected) in [
        (vec![], "1>0 RESPONSE 5/0x02 msn=0"),
        (vec![Rule { refuse: true, ..Rule::default() }], "1>0 RESPONSE 5/0x02 msn=0"),
        (vec![Rule { secure: true, ..Rule::default() }], "1>0 RESPONSE 5/0x02 msn=0"),
        (vec![Rule { ports: (1_024, 4_999), ..Rule::default() }], "1>0 RESPONSE 5/0x02 msn=0"),
        (vec![Rule::default()], "1>2 CREATE lt=60 msn=0"),
    ] {
        let mut net = with_rules(rules.clone());
        net.open(0, to_server(5_000));
        assert_eq!(net.log()[1], expected, "{rules:?}");
    }
}

/// Privileged ports need a rule that names them.
#[test]
fn privileged_port_needs_a_rule_of_its_own() {
    let mut net = with_rules(vec![Rule::default()]);
    net.open(0, OpenRequest { protocol: Some(6), ..to_server(22) });
    assert_eq!(net.log()[1], "1>0 RESPONSE 5/0x02 msn=0");
    let mut net = with_rules(vec![Rule { ports: (22, 22), ..Rule::default() }]);
    net.open(0, OpenRequest { protocol: Some(6), ..to_server(22) });
    assert_eq!(net.log()[1], "1>2 CREATE lt=60 msn=0");
}

/// Wildcarded requests beyond the policy get the code of the field that is too wide.
#[test]
fn wildcards_are_refused_with_their_field() {
    let any_port = OpenRequest { source_port: None, destination_port: Some(0), ..to_server(0) };
    let any_protocol =
        OpenRequest { protocol: None, source_port: None, destination_port: None, ..to_server(0) };
    for (request, code) in [(any_port, "0x0a"), (any_protocol, "0x0a")] {
        let mut net = with_rules(vec![Rule::default()]);
        net.open(0, request.clone());
        assert_eq!(net.log()[1], format!("1>0 RESPONSE 7/{code} msn=0"));
        let mut net = with_rules(vec![Rule { wildcards: true, ..Rule::default() }]);
        net.open(0, request);
        assert_eq!(net.log()[1], "1>2 CREATE lt=60 msn=0");
    }
    for (source, destination, code) in [(24, 32, "0x0c"), (0, 32, "0x0c"), (32, 24, "0x0d")] {
        let mut net = with_rules(vec![Rule::default()]);
        let (mut message, data) = net.create_with(SessionId([9; 16]), |_| {});
        if let Mri::PathCoupled(flow) = &mut message.mri {
            (flow.source_prefix, flow.destination_prefix) = (source, destination);
            if source == 24 {
                flow.source = address("10.0.0.0");
            }
        }
        // Everything may come from behind a core interface.
        let mut link = net.nodes[1].interfaces.by_id(LEFT).expect("a link").clone();
        link.trust = Trust::CORE;
        net.nodes[1].interfaces.set(link);
        net.deliver_as(0, 1, &message, &data);
        net.run();
        assert_eq!(net.log(), [format!("1>0 RESPONSE 7/{code} msn=0")], "{source} {destination}");
    }
}

/// A quota is per host that asks, as long as no token proves a name.
#[test]
fn quota_of_a_host_is_refused_for_now() {
    let mut net = with_rules(vec![Rule { per_user: Some(1), ..Rule::default() }]);
    net.open(0, to_server(5_000));
    net.log();
    let request = to_server(5_001);
    net.command(0, Command::Open { application: OTHER_APP, request: request.clone() });
    assert_eq!(net.log()[1], "1>0 RESPONSE 4/0x01 msn=0");
    net.release(0);
    net.log();
    net.command(0, Command::Open { application: OTHER_APP, request });
    assert_eq!(net.log()[1], "1>2 CREATE lt=60 msn=0");
}

/// The rule of section 5.3: data comes in only for what its receiver has reserved at its own edge.
#[test]
fn inbound_data_may_need_a_reservation_of_its_receiver() {
    let inbound = Rule { interfaces: vec!["right".into()], reserved: true, ..Rule::default() };
    let outbound = Rule { interfaces: vec!["left".into()], wildcards: true, ..Rule::default() };
    for reserves in [false, true] {
        let rules = vec![inbound.clone(), outbound.clone()];
        let mut net =
            Net::with(&[Place::Host, Place::EdgeFirewall, Place::Host], move |number, c| {
                if number == 1 { Config { rules: rules.clone(), ..c } } else { c }
            });
        if reserves {
            net.expose(0, port_of_client(8_000));
        }
        net.log();
        let (mut message, data) = net.create_with(SessionId([5; 16]), |_| {});
        if let Mri::PathCoupled(flow) = &mut message.mri {
            (flow.source, flow.source_port) = (address(SERVER), Some(900));
            (flow.destination, flow.destination_port) = (address(CLIENT), Some(8_000));
        }
        net.deliver_as(2, 1, &message, &data);
        net.run();
        let expected =
            if reserves { "1>0 CREATE lt=60 msn=0" } else { "1>2 RESPONSE 5/0x02 msn=0" };
        assert_eq!(net.log()[0], expected);
    }
}

/// New rules count from the next refresh on: what they refuse ends at once.
#[test]
fn withdrawn_rule_ends_its_sessions() {
    let mut net = with_rules(vec![Rule::default()]);
    net.open(0, to_server(5_000));
    let config = Config { firewall: true, enabled: true, ..Config::default() };
    net.call(1, |natfw, _| natfw.reload(config));
    assert_eq!(net.rules(1).len(), 1, "it stays until the refresh");
    net.advance(Duration::from_secs(60));
    assert_eq!(net.rules(1), [""; 0]);
    let refused = net.nodes[0].events.iter().any(|event| matches!(event, Event::Refused { .. }));
    assert!(refused, "the initiator hears of it: {:?}", net.nodes[0].events);
    net.assert_nothing_is_left();
}

/// A lifetime of 2^32 - 1 s is lowered like any other.
#[test]
fn longest_lifetime_of_a_rule_counts() {
    let mut net = with_rules(vec![Rule {
        longest_lifetime: Some(Duration::from_secs(30)),
        ..Rule::default()
    }]);
    let (message, data) = net.create_with(SessionId([9; 16]), |create| create.lifetime = u32::MAX);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.log().last().unwrap(), "1>0 RESPONSE 2/0x01 lt=30 msn=0");
    let (message, data) = net.create_with(SessionId([9; 16]), |create| {
        (create.lifetime, create.msn) = (u32::MAX, 1);
    });
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.log().last().unwrap(), "1>0 RESPONSE 2/0x01 lt=30 msn=1", "of a refresh, too");
}

/// A peer cannot keep the packet filter busy.
#[test]
fn refreshes_of_a_peer_are_limited() {
    let mut net = Net::with(&[Place::Host, Place::Firewall, Place::Host], |number, mut c| {
        if number == 1 {
            c.limits.changes_per_second = 10;
        }
        c
    });
    net.open(0, to_server(5_000));
    let session = net.session(0);
    let first = net.first_msn(session);
    net.log();
    for number in 1..=100 {
        let (message, data) =
            net.create_with(session, |create| create.msn = first.wrapping_add(number));
        net.deliver_as(0, 1, &message, &data);
        net.run();
    }
    let refreshed = net.log().iter().filter(|line| line.starts_with("1>2")).count();
    assert!((1..=20).contains(&refreshed), "{refreshed}");
    assert_eq!(net.rules(1).len(), 1);
}

/// A reload changes who may ask, not what the node is: its rules in the packet filter depend on that.
#[test]
fn reload_leaves_what_the_node_is() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    let new = Config { rules: vec![Rule::default()], ..Config::default() };
    net.nodes[1].natfw.reload(new);
    net.open(0, to_server(5_000));
    assert_eq!(net.log().last().unwrap(), "1>0 RESPONSE 2/0x01 lt=60 msn=0");
    assert_eq!(net.rules(1).len(), 1);
    assert!(net.rules(1)[0].contains(" as 203.0.113.1:"), "{:?}", net.rules(1));
}

/// Sessions may share the packets of a rule, a bounded number of them, and only if they want the same.
#[test]
fn few_sessions_share_their_packets() {
    let mut net = with_rules(vec![Rule { wildcards: true, deny: true, ..Rule::default() }]);
    let answers = |net: &mut Net, number: u8| {
        let (message, data) = net.create_with(SessionId([number; 16]), |_| {});
        net.deliver_as(0, 1, &message, &data);
        net.run();
        net.log().last().cloned().expect("an answer")
    };
    for number in 1..=8 {
        assert_eq!(answers(&mut net, number), "1>0 RESPONSE 2/0x01 lt=60 msn=0", "{number}");
    }
    assert_eq!(answers(&mut net, 9), "1>0 RESPONSE 7/0x04 msn=0", "policy conflict");
    assert_eq!(net.rules(1).len(), 1);
}

#[test]
fn application_has_the_number_of_iana() {
    let net = Net::of(&[Place::Host, Place::Host]);
    assert_eq!(net.nodes[0].natfw.id(), 33);
    assert!(net.nodes[0].natfw.serves(33) && !net.nodes[0].natfw.serves(1));
}

/// A peer has as many sessions as the limit allows, and room again for each that ends.
#[test]
fn sessions_of_a_peer_are_limited() {
    let mut net = Net::with(&[Place::Host, Place::Firewall, Place::Host], |number, mut c| {
        if number == 1 {
            c.limits.sessions_per_peer = 3;
        }
        c
    });
    let send = |net: &mut Net, number: u8, (msn, lifetime): (u32, u32)| {
        let change = |create: &mut earmark_wire::natfw_nslp::Create<'_>| {
            (create.msn, create.lifetime) = (msn, lifetime);
        };
        let (mut message, data) = net.create_with(SessionId([number; 16]), change);
        if let Mri::PathCoupled(flow) = &mut message.mri {
            flow.source_port = Some(700 + u16::from(number));
        }
        net.deliver_as(0, 1, &message, &data);
        net.run();
        net.nodes[1].natfw.session_count()
    };
    for number in 1..=3 {
        assert_eq!(send(&mut net, number, (0, 60)), usize::from(number));
    }
    assert_eq!(send(&mut net, 4, (0, 60)), 3);
    assert_eq!(net.log().last().unwrap(), "1>0 RESPONSE 4/0x01 msn=0");
    assert_eq!(send(&mut net, 1, (1, 0)), 2);
    assert_eq!(send(&mut net, 5, (0, 60)), 3);
    assert_eq!(send(&mut net, 6, (0, 60)), 3);
}

/// What a session has already is refreshed, and anything else is decided again.
#[test]
fn refreshes_and_changes_are_counted() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    let mut send = |msn, port| {
        let (mut message, data) = net.create_with(SessionId([5; 16]), |create| create.msn = msn);
        if let Mri::PathCoupled(flow) = &mut message.mri {
            flow.source_port = Some(port);
        }
        net.deliver_as(0, 1, &message, &data);
        net.run();
        let counters = net.nodes[1].natfw.counters();
        (counters.created, counters.refreshed, counters.updated)
    };
    assert_eq!(send(0, 700), (1, 0, 0));
    assert_eq!(send(1, 700), (1, 1, 0));
    assert_eq!(send(2, 701), (1, 1, 1));
    assert_eq!(send(3, 701), (1, 2, 1));
}
