//! EXTERNAL, as RFC 5973 sections 3.7.2 and 3.8 tell it.
//!
//! The data receiver is node 0, inside; it asks for an address at the edge towards the right.

use earmark_testkit::messages::natfw_nslp::EXTERNAL;
use earmark_wire::gist::LooseEnd;
use earmark_wire::natfw_nslp::{External, ExternalBinding};

use super::*;

/// A CREATE of the server for a port at a public address, as the message of node `from`.
pub(super) fn create_to(net: &Net, destination: Endpoint) -> (SendMessage, Vec<u8>) {
    let (mut message, data) = net.create_with(SessionId([5; 16]), |_| {});
    let Mri::PathCoupled(flow) = &mut message.mri else { panic!("a path-coupled message") };
    (flow.source, flow.source_port) = (address(SERVER), Some(900));
    (flow.destination, flow.destination_port) = (destination.address, Some(destination.port));
    (message, data)
}

/// Returns the external address that the client was granted.
pub(super) fn granted(net: &Net) -> Endpoint {
    let found = net.nodes[0].events.iter().rev().find_map(|event| match event {
        Event::Granted { external, .. } => *external,
        _ => None,
    });
    found.expect("an external address was granted")
}

/// Figure 15: the edge answers, and its RESPONSE has the external address.
#[test]
fn edge_translator_reserves_an_address() {
    let places = [Place::Host, Place::Firewall, Place::EdgeTranslator, Place::Host];
    let mut net = Net::of(&places);
    net.expose(0, port_of_client(8_000));
    let log = net.log();
    let external = granted(&net);
    assert_eq!(external.address, address(PUBLIC));
    let at = format!("RESPONSE 2/0x01 lt=60 at {external} msn=0");
    assert_eq!(
        log,
        [
            "0>1 EXTERNAL lt=60 msn=0".to_string(),
            "1>2 EXTERNAL lt=60 msn=0".to_string(),
            format!("2>1 {at}"),
            format!("1>0 {at}"),
        ],
        "forwarding beyond the edge is prohibited"
    );
    // "The reservation will only allow forwarding of signaling messages, but not data flow packets" (section 3.2.2).
    assert_eq!([net.rules(1), net.rules(2)], [vec![""; 0], vec![""; 0]]);
    net.release(0);
    net.assert_nothing_is_left();
}

/// Section 3.8: a CREATE to the external address finds the reservation, and travels on to the internal address.
#[test]
fn create_to_the_external_address_reaches_the_receiver() {
    let places = [Place::Host, Place::Firewall, Place::EdgeTranslator, Place::Host];
    let mut net = Net::of(&places);
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    net.log();
    let (message, data) = create_to(&net, external);
    net.deliver_as(3, 2, &message, &data);
    net.run();
    assert_eq!(
        net.log(),
        [
            "2>1 CREATE lt=60 msn=0",
            "1>0 CREATE lt=60 msn=0",
            "0>1 RESPONSE 2/0x01 lt=60 msn=0",
            "1>2 RESPONSE 2/0x01 lt=60 msn=0",
            "2>3 RESPONSE 2/0x01 lt=60 msn=0",
        ]
    );
    let at_edge = format!("allow 198.51.100.9:900 to {external} forwarded to 10.0.0.1:8000");
    assert_eq!(net.rules(2), [at_edge]);
    assert_eq!(net.rules(1), ["allow 198.51.100.9:900 to 10.0.0.1:8000"]);
    let admitted = net.nodes[0]
        .events
        .iter()
        .any(|event| matches!(event, Event::Admitted { application: Some(APP), port: 8_000, .. }));
    assert!(admitted, "the application that has exposed the port hears of it");
    // "The CREATE message does not re-use the NATFW NSLP signaling session created by EXTERNAL."
    assert_eq!(net.nodes[2].natfw.session_count(), 2);
}

/// "If no matching reservation can be found ... 'No reservation found matching the MRI of the CREATE request' (0x03)."
#[test]
fn create_without_a_reservation_is_refused_by_the_translator() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    let (message, data) = create_to(&net, endpoint(PUBLIC, 40_000));
    net.deliver_as(2, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), ["1>2 RESPONSE 7/0x03 msn=0"]);
    net.assert_nothing_is_left();
}

/// "An edge-NAT will use the information provided in the NATFW_DTINFO object to allow only a NATFW CREATE message with a
/// matching MRI to be forwarded."
#[test]
fn reservation_is_for_the_stated_data_sender() {
    for (from, from_port, matches) in [
        (Some(SERVER), None, true),
        (Some(SERVER), Some(900), true),
        (Some(SERVER), Some(901), false),
        (Some("198.51.100.10"), None, false),
        (None, Some(900), true),
    ] {
        let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
        let from = from.map(address);
        net.expose(0, ExposeRequest { from, from_port, ..port_of_client(8_000) });
        let reserved = net.nodes[1].natfw.translations().next().expect("a reservation").external;
        net.log();
        let (message, data) = create_to(&net, reserved);
        net.deliver_as(2, 1, &message, &data);
        net.run();
        let log = net.log();
        match matches {
            true => assert_eq!(log.last().unwrap(), "1>2 RESPONSE 2/0x01 lt=60 msn=0"),
            false => assert_eq!(log, ["1>2 RESPONSE 7/0x03 msn=0"], "{from:?} {from_port:?}"),
        }
    }
}

/// "Case 1 requires ... the path-coupled message routing method. The EXTERNAL message MUST be sent with PC-MRM with the direction
/// set to 'upstream'"; case 2 behind a translator uses the loose-end method, and behind a firewall only the path-coupled one
/// "and the data flow source IP address set to 'wildcard'".
#[test]
fn routing_method_follows_what_is_known() {
    let from = Some(address(SERVER));
    for (request, expected) in [
        (port_of_client(8_000), "loose end"),
        (ExposeRequest { from, ..port_of_client(8_000) }, "from the sender"),
        (ExposeRequest { untranslated: true, ..port_of_client(8_000) }, "from any"),
    ] {
        let mut net = Net::of(&[Place::Host, Place::EdgeFirewall, Place::Host]);
        net.call(0, |natfw, cx| {
            natfw.command(cx, Command::Expose { application: APP, request });
        });
        let sent = net.wire.front().expect("an EXTERNAL").message.mri;
        let found = match sent {
            Mri::LooseEnd(LooseEnd { direction: Direction::Downstream, .. }) => "loose end",
            Mri::PathCoupled(flow) if flow.direction == Direction::Upstream => {
                if flow.source_prefix == 0 { "from any" } else { "from the sender" }
            }
            _ => "otherwise",
        };
        assert_eq!(found, expected);
        net.run();
        let granted = matches!(net.nodes[0].events[..], [Event::Granted { .. }]);
        assert!(granted, "{expected}: {:?}", net.nodes[0].events);
        net.release(0);
        net.assert_nothing_is_left();
    }
}

/// "This type of message should never be received by any NR+, and it MUST generate an error RESPONSE ... 'No edge-device here'
/// (0x06)."
#[test]
fn external_without_an_edge_is_refused_at_the_end() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.expose(0, port_of_client(8_000));
    assert_eq!(net.log()[2..], ["2>1 RESPONSE 5/0x06 msn=0", "1>0 RESPONSE 5/0x06 msn=0"]);
    net.assert_nothing_is_left();
}

/// "If received at the external address, an NF MUST generate an error RESPONSE ... 'Received EXTERNAL request message on external
/// side' (0x0B)."
#[test]
fn external_from_outside_is_refused() {
    let mut net = Net::of(&[Place::Host, Place::FarEdgeFirewall, Place::Host]);
    net.expose(0, port_of_client(8_000));
    assert_eq!(net.log()[1..], ["1>0 RESPONSE 3/0x0b msn=0"]);
    net.assert_nothing_is_left();
}

/// "The policy rule is immediately loaded if the action in the NATFW_EFI object is set to 'deny' and the node is an edge-firewall."
#[test]
fn edge_firewall_blocks_data_at_once() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::EdgeFirewall, Place::Host]);
    let from = Some(address(SERVER));
    net.expose(0, ExposeRequest { action: FilterAction::Deny, from, ..port_of_client(8_000) });
    assert_eq!(net.rules(1), [""; 0], "a firewall within the network only remembers it");
    assert_eq!(net.rules(2), ["deny 198.51.100.9 to 10.0.0.1:8000"]);
    net.log();
    // "A policy rule with this action blocks data traffic ... and the NATFW NSLP MUST NOT allow NSLP signaling to be forwarded"
    // (section 4.2.4).
    let (message, data) = create_to(&net, endpoint(CLIENT, 8_000));
    net.deliver_as(3, 2, &message, &data);
    net.run();
    assert_eq!(net.log(), ["2>3 RESPONSE 7/0x04 msn=0"]);
    net.release(0);
    net.assert_nothing_is_left();
}

/// "If received at the internal (private address) and the NATFW_EFI object contains the action 'deny', an error RESPONSE ... with
/// response code 'Requested rule action not applicable' (0x06) MUST be generated."
#[test]
fn translator_cannot_block() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.expose(0, ExposeRequest { action: FilterAction::Deny, ..port_of_client(8_000) });
    assert_eq!(net.log()[1..], ["1>0 RESPONSE 7/0x06 msn=0"]);
    net.assert_nothing_is_left();
}

/// An edge firewall answers an EXTERNAL of the loose-end method with the address and port of the data receiver.
#[test]
fn edge_firewall_answers_with_the_receivers_own_address() {
    let mut net = Net::of(&[Place::Host, Place::EdgeFirewall, Place::Host]);
    net.expose(0, port_of_client(8_000));
    assert_eq!(granted(&net), endpoint(CLIENT, 8_000));
}

/// Two translators: each one reserves, and the edge is asked for the address of the inner one. The RESPONSE has all of them.
#[test]
fn every_translator_on_the_path_reserves() {
    let places = [Place::Host, Place::InnerTranslator, Place::EdgeTranslator, Place::Host];
    let mut net = Net::of(&places);
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    assert_eq!(external.address, address(PUBLIC));
    let inner = net.nodes[1].natfw.translations().next().expect("a reservation").external;
    assert_eq!(inner.address, address("10.9.0.1"));
    let Some(Event::Granted { bindings, .. }) = net.nodes[0].events.last() else {
        panic!("{:?}", net.nodes[0].events)
    };
    assert_eq!(
        *bindings,
        [inner],
        "any NAT that is not an edge-NAT MUST include the allocated address"
    );
    let (message, data) = create_to(&net, external);
    net.deliver_as(3, 2, &message, &data);
    net.run();
    assert_eq!(net.log().last().unwrap(), "2>3 RESPONSE 2/0x01 lt=60 msn=0");
    let outer_rule = format!("allow 198.51.100.9:900 to {external} forwarded to {inner}");
    assert_eq!(net.rules(2), [outer_rule]);
    let inner_rule = format!("allow 198.51.100.9:900 to {inner} forwarded to 10.0.0.1:8000");
    assert_eq!(net.rules(1), [inner_rule]);
    net.release(0);
    net.advance(Duration::from_secs(61));
    net.assert_nothing_is_left();
}

/// "The edge-NAT MUST copy the NATFW_EXTERNAL_BINDING object to response message, if the object is included in the EXTERNAL
/// message", also if no translator has added its address.
#[test]
fn edge_copies_the_external_binding() {
    let addresses: [&[[u8; 4]]; 2] = [&[], &[[10, 9, 0, 1]]];
    for place in [Place::EdgeTranslator, Place::EdgeFirewall] {
        for asked in [None].into_iter().chain(addresses.map(Some)) {
            let mut net = Net::of(&[Place::Host, place, Place::Host]);
            let (message, _) = net.create_with(SessionId([9; 16]), |_| {});
            let (source, destination) = (address(CLIENT), address(SERVER));
            let mri = LooseEnd { source, destination, direction: Direction::Downstream };
            let mri = Mri::LooseEnd(mri);
            let asked = asked.map(|wire| ExternalBinding { port: 7, wire });
            let external = External { external_binding: asked, ..EXTERNAL };
            let data = emit(&Message::External(external));
            net.deliver_as(0, 1, &SendMessage { mri, ..message }, &data);
            let sent = net.wire.front().expect("a RESPONSE");
            match Message::parse(&sent.data).expect("it is well-formed") {
                Message::Response(response) => assert_eq!(response.external_binding, asked),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// "Reservations ... can be reused for multiple, different CREATE messages."
#[test]
fn reservation_serves_several_creates() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    for (number, port) in [(5, 900), (6, 901)] {
        let (mut message, data) = create_to(&net, external);
        message.session = SessionId([number; 16]);
        if let Mri::PathCoupled(flow) = &mut message.mri {
            flow.source_port = Some(port);
        }
        net.deliver_as(2, 1, &message, &data);
        net.run();
    }
    assert_eq!(net.rules(1).len(), 2);
    net.release(0);
    assert_eq!(net.rules(1).len(), 2, "sessions of CREATE end with their own lifetime");
}

/// A node that nobody exposed refuses the CREATE, although the translator is right.
#[test]
fn blocked_ports_and_other_ports_are_not_admitted() {
    let mut net = Net::with(&[Place::Host, Place::EdgeTranslator, Place::Host], |number, c| {
        if number == 0 { Config { responder: Responder::Exposed, ..c } } else { c }
    });
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    let (message, data) = create_to(&net, external);
    net.deliver_as(2, 1, &message, &data);
    net.run();
    assert_eq!(net.log().last().unwrap(), "1>2 RESPONSE 2/0x01 lt=60 msn=0");
    let other = Endpoint { port: external.port.wrapping_add(1), ..external };
    let (mut message, data) = create_to(&net, other);
    message.session = SessionId([6; 16]);
    net.deliver_as(2, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), ["1>2 RESPONSE 7/0x03 msn=0"]);
}

/// A refresh keeps the reservation with its port.
#[test]
fn refreshes_keep_the_external_port() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    net.advance(Duration::from_secs(300));
    let reserved = net.nodes[1].natfw.translations().next().expect("a reservation");
    assert_eq!(reserved.external, external);
    assert!(net.log().iter().filter(|line| line.contains("EXTERNAL")).count() > 10);
    net.nodes[0].natfw = Node::new(0, &[Place::Host, Place::Host], Place::Host.config()).natfw;
    net.advance(Duration::from_secs(61));
    net.assert_nothing_is_left();
}

/// "Plain IP policy rules not permitted -- need transport layer information" (0x0A), of a translator.
#[test]
fn translator_needs_a_port() {
    use earmark_wire::natfw_nslp::{
        DataTerminal, ExtendedFlow, External, Extra, RuleAction, TransportSelector,
    };
    for transport in [
        TransportSelector::Any,
        TransportSelector::Protocol(UDP),
        TransportSelector::Ports { protocol: UDP, destination: 0, source: 0 },
    ] {
        let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
        let (message, _) = net.create_with(SessionId([9; 16]), |_| {});
        let (source, destination) = (address(CLIENT), address(SERVER));
        let direction = Direction::Downstream;
        let mri = Mri::LooseEnd(LooseEnd { source, destination, direction });
        let external = External {
            proxy: ProxyMode::Off,
            lifetime: 60,
            msn: 0,
            extended_flow: ExtendedFlow { action: RuleAction::Allow, next_port: false },
            data_terminal: DataTerminal {
                sender: std::net::Ipv4Addr::UNSPECIFIED,
                sender_prefix: 0,
                transport,
            },
            nonce: None,
            icmp_types: None,
            external_binding: None,
            extra: Extra::NONE,
        };
        let data = emit(&Message::External(external));
        net.deliver_as(0, 1, &SendMessage { mri, ..message }, &data);
        net.run();
        assert_eq!(net.log(), ["1>0 RESPONSE 7/0x0a msn=0"], "{transport:?}");
        net.assert_nothing_is_left();
    }
}

/// "NFs and the NR can also tear down the CREATE session at any time by generating a NOTIFY message" (section 3.7.1): the
/// responder does when the application that admits the data stops.
#[test]
fn application_that_stops_ends_the_sessions_that_it_admits() {
    let places = [Place::Host, Place::EdgeTranslator, Place::Host];
    let mut net = Net::with(&places, |number, c| {
        if number == 0 { Config { responder: Responder::Exposed, ..c } } else { c }
    });
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    // More than end in one call.
    for number in 1..=100 {
        let (mut message, data) = create_to(&net, external);
        message.session = SessionId([number; 16]);
        if let Mri::PathCoupled(flow) = &mut message.mri {
            flow.source_port = Some(1_000 + u16::from(number));
        }
        net.deliver_as(2, 1, &message, &data);
        net.run();
    }
    assert_eq!(net.rules(1).len(), 100);
    net.log();
    net.release(0);
    let notified =
        |net: &mut Net| net.log().iter().filter(|line| *line == "1>2 NOTIFY 1/0x05").count();
    assert_eq!(notified(&mut net), 64, "a bounded number in one call");
    net.advance(Duration::ZERO);
    assert_eq!(notified(&mut net), 36);
    net.assert_nothing_is_left();
}

/// "An NI+ may decide to tear down a reservation immediately after receiving a CREATE message" (section 3.7.2): the session goes
/// on, and its rule may be changed.
#[test]
fn open_path_is_updated_without_its_reservation() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.expose(0, port_of_client(8_000));
    let external = granted(&net);
    let (message, data) = create_to(&net, external);
    net.deliver_as(2, 1, &message, &data);
    net.run();
    net.release(0);
    let rules = net.rules(1);
    assert_eq!(rules.len(), 1);
    // The rules of the administrator have changed, so that the next refresh is decided again.
    let config = Config {
        rules: vec![Rule { reserved: true, ..Rule::default() }],
        ..Place::EdgeTranslator.config()
    };
    net.nodes[1].natfw.reload(config);
    net.log();
    let mut again = net.create_with(message.session, |create| create.msn = 1);
    again.0.mri = message.mri;
    net.deliver_as(2, 1, &again.0, &again.1);
    net.run();
    assert_eq!(net.log().last().unwrap(), "1>2 RESPONSE 2/0x01 lt=60 msn=1");
    assert_eq!(net.rules(1), rules);
    // Another port has no reservation.
    let mut other = net.create_with(message.session, |create| create.msn = 2);
    other.0.mri = message.mri;
    if let Mri::PathCoupled(flow) = &mut other.0.mri {
        flow.destination_port = Some(external.port ^ 1);
    }
    net.deliver_as(2, 1, &other.0, &other.1);
    net.run();
    assert_eq!(net.log().last().unwrap(), "1>2 RESPONSE 7/0x03 msn=2");
}

/// With sub_ports the reservation is for the next port, too.
#[test]
fn next_port_is_reserved_with_its_pair() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.expose(0, ExposeRequest { next_port: true, ..port_of_client(8_000) });
    let external = granted(&net);
    for (number, distance, answer) in
        [(5, 0, "2/0x01 lt=60"), (6, 1, "2/0x01 lt=60"), (7, 2, "7/0x03")]
    {
        let at = Endpoint { port: external.port + distance, ..external };
        let (mut message, data) = create_to(&net, at);
        message.session = SessionId([number; 16]);
        net.deliver_as(2, 1, &message, &data);
        net.run();
        assert_eq!(net.log().last().unwrap(), &format!("1>2 RESPONSE {answer} msn=0"));
    }
    let next = format!("allow 198.51.100.9:900 to {PUBLIC}:{} ", external.port + 1);
    let rules = net.rules(1);
    let forwarded = |rule: &String| rule.starts_with(&next) && rule.ends_with("10.0.0.1:8001");
    assert!(rules.iter().any(forwarded), "{rules:?}");
}
