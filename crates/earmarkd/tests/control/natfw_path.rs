//! NATFW NSLP over a path of three nodes, each with a hub of its own: a host outside, an edge router, and a host inside.
//!
//! The tests pass the datagrams from node to node. The edge is a firewall, or also an address translator.

use std::net::IpAddr;
use std::time::Duration;

use earmark_control::protocols::nsis::natfw::Refusal;
use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_node::{Input, NodeConfig};
use earmark_nsis::gist::UpstreamQueries;
use earmark_nsis::natfw::{Config, Rule, Translator};
use earmark_nsis::nslp::Attributes;
use serde_json::{Value, json};

use crate::host::{Host, Peer};

const OUTSIDE: usize = 0;
const EDGE: usize = 1;
const INSIDE: usize = 2;
/// Protocol number of UDP.
const UDP: u8 = 17;

/// 10.0.1.1 outside -- eth0 10.0.1.254 edge 10.0.2.254 eth1 -- 10.0.2.2 inside.
struct Path {
    nodes: [Host; 3],
    clients: Vec<Peer>,
}

fn node(name: &str, natfw: Config) -> NodeConfig {
    // Nodes with one seed would draw the same session identifiers.
    let seed = name.bytes().map(u64::from).sum();
    let mut config = NodeConfig { name: name.into(), seed, ..NodeConfig::default() };
    config.nsis.gist.upstream_queries = UpstreamQueries::Routed;
    config.nsis.natfw = Config {
        enabled: true,
        attributes: Attributes { reliable: false, secure: false },
        ..natfw
    };
    config
}

impl Path {
    fn new(translator: Option<Translator>) -> Path {
        // Ports are exposed to any data sender behind the translator.
        let wildcards = translator.is_some();
        let rule =
            Rule { wildcards, longest_lifetime: Some(Duration::from_secs(300)), ..Rule::default() };
        let edge = Config {
            firewall: true,
            external: vec!["eth0".into()],
            translator,
            rules: vec![rule],
            ..Config::default()
        };
        let links = [("eth0", [10, 0, 1, 254]), ("eth1", [10, 0, 2, 254])];
        let host = |name, address, gateway| {
            let config =
                Config { signaling_destination: Some([10, 0, 1, 1].into()), ..Config::default() };
            Host::on_links(node(name, config), &[("eth0", address)], Some(gateway))
        };
        let mut nodes = [
            host("outside", [10, 0, 1, 1], [10, 0, 1, 254]),
            Host::on_links(node("edge", edge), &links, None),
            host("inside", [10, 0, 2, 2], [10, 0, 2, 254]),
        ];
        let clients = nodes.iter_mut().map(Host::connect).collect();
        Path { nodes, clients }
    }

    fn ask(&mut self, place: usize, request: &Value) -> Value {
        let answer = self.nodes[place].ask(&mut self.clients[place], &request.to_string());
        self.settle();
        answer["ok"].clone()
    }

    fn show(&mut self, place: usize, what: &str) -> Value {
        self.ask(place, &json!({ "show": { "what": what } }))["rows"].take()
    }

    /// Returns the next event of this name that a client follows; other lines are skipped.
    fn event(&mut self, place: usize, name: &str) -> Option<Value> {
        let host = &mut self.nodes[place];
        host.serve(&self.clients[place]);
        let lines = self.clients[place].lines();
        lines.into_iter().map(|mut line| line["event"].take()).find(|event| event["event"] == name)
    }

    /// Handles what is due now, and passes datagrams until none are left.
    fn settle(&mut self) {
        for _ in 0..100 {
            let mut is_silent = true;
            for place in [OUTSIDE, EDGE, INSIDE] {
                let host = &mut self.nodes[place];
                host.driver.expire(host.now);
                host.hub.publish(host.now, &mut host.driver);
                for (how, octets) in std::mem::take(&mut host.driver.kernel().sent) {
                    is_silent = false;
                    self.pass(place, &how, &octets);
                }
            }
            if is_silent {
                return;
            }
        }
        panic!("the nodes never stop sending");
    }

    /// Passes a datagram to the next node, and on to the last one if the router has no use for it.
    fn pass(&mut self, from: usize, how: &Outgoing, octets: &[u8]) {
        assert_eq!(how.protocol, UDP);
        let is_for = |network: u8| match how.destination {
            IpAddr::V4(address) => address.octets()[..3] == [10, 0, network],
            IpAddr::V6(_) => false,
        };
        let is_own = |address: IpAddr| {
            address == IpAddr::from([10, 0, 1, 254]) || address == IpAddr::from([10, 0, 2, 254])
        };
        let (to, interface) = match from {
            OUTSIDE if how.router_alert || is_own(how.destination) => (EDGE, 2),
            INSIDE if how.router_alert || is_own(how.destination) => (EDGE, 3),
            OUTSIDE => (INSIDE, 2),
            INSIDE => (OUTSIDE, 2),
            _ if is_for(1) => (OUTSIDE, 2),
            _ => (INSIDE, 2),
        };
        let datagram = Datagram {
            interface: InterfaceId(interface),
            source: how.source,
            destination: how.destination,
            ttl: how.ttl,
            router_alert: how.router_alert,
            encapsulated: false,
            payload: octets,
        };
        let host = &mut self.nodes[to];
        host.now = host.now + Duration::from_millis(1);
        host.driver.handle(host.now, Input::Datagram(UDP, datagram));
    }
}

fn follow(request: &str, mut members: Value) -> Value {
    members["follow"] = json!(true);
    json!({ request: members })
}

/// A port is exposed, opened from outside, listed at every node, and closed again.
#[test]
fn exposed_port_is_opened_listed_and_closed() {
    let mut path = Path::new(None);
    let exposed = path.ask(INSIDE, &follow("expose", json!({ "port": 5_001, "from": "10.0.1.1" })));
    let granted = path.event(INSIDE, "granted").expect("a RESPONSE");
    assert_eq!(granted["application"], exposed["application"]);
    assert_eq!(granted["lifetime"], 300, "the rule of the edge limits it: {granted}");
    let rows = path.show(EDGE, "translations");
    let inside = json!({ "address": "10.0.2.2", "port": 5_001 });
    assert_eq!((&rows[0]["internal"], &rows[0]["external"]), (&inside, &inside), "{rows}");
    assert_eq!((&rows[0]["role"], &rows[0]["from"]), (&json!("responder"), &json!("10.0.1.1")));
    assert_eq!(path.show(EDGE, "pinholes"), json!([]), "a reservation opens nothing");

    let request = json!({ "to": "10.0.2.2:5001", "next_port": true });
    let opened = path.ask(OUTSIDE, &follow("open", request));
    let granted = path.event(OUTSIDE, "granted").expect("a RESPONSE");
    assert_eq!(granted["outcome"]["kind"], "unverified", "{granted}");
    let admitted = path.event(INSIDE, "admitted").expect("an event");
    assert_eq!(
        (&admitted["port"], &admitted["application"]),
        (&json!(5_001), &exposed["application"])
    );
    let rows = path.show(EDGE, "pinholes");
    let rows = rows.as_array().unwrap();
    let ports: Vec<&Value> = rows.iter().map(|row| &row["destination_port"]).collect();
    assert_eq!(ports, [5_001, 5_002], "{rows:?}");
    for row in rows {
        assert_eq!((&row["installed"], &row["action"]), (&json!(true), &json!("allow")), "{row}");
        assert_eq!(
            (&row["source"], &row["ip_protocol"]),
            (&json!("10.0.1.1"), &json!(17)),
            "{row}"
        );
        assert_eq!((&row["role"], &row["stage"]), (&json!("forwarder"), &json!("established")));
        assert!(row["expires_in_s"].as_f64() > Some(299.0), "{row}");
    }
    assert_eq!(path.nodes[EDGE].driver.kernel().filter.len(), 2);
    let counters = path.show(EDGE, "counters");
    assert_eq!(counters[0]["natfw_nslp"]["messages"]["creates"], 1, "{counters}");

    let released =
        path.ask(OUTSIDE, &json!({ "release": { "application": opened["application"] } }));
    assert_eq!(released["applications"][0], opened["application"]);
    assert_eq!(path.show(EDGE, "pinholes"), json!([]));
    assert!(path.nodes[EDGE].driver.kernel().filter.is_empty());
    path.ask(INSIDE, &json!({ "release": { "all": {} } }));
    assert_eq!(path.show(EDGE, "translations"), json!([]));
}

/// Without a RESPONSE the rule is only remembered, and the listing says what it waits for.
#[test]
fn pinhole_without_answer_waits_for_the_responder() {
    let mut path = Path::new(None);
    let request = follow("open", json!({ "to": "10.0.2.7:5001" }));
    let host = &mut path.nodes[OUTSIDE];
    host.ask(&mut path.clients[OUTSIDE], &request.to_string());
    path.settle();
    let rows = path.show(EDGE, "pinholes");
    let row = &rows[0];
    assert_eq!((&row["installed"], &row["stage"]), (&json!(false), &json!("pending")), "{rows}");
    assert_eq!(row["reason"], "waits for the responder", "{rows}");
    assert!(path.nodes[EDGE].driver.kernel().filter.is_empty());
}

/// A port that nobody has exposed is refused by the host inside, and the client learns why.
#[test]
fn port_that_is_not_exposed_is_refused_with_reason() {
    let mut path = Path::new(None);
    path.ask(OUTSIDE, &follow("open", json!({ "to": "10.0.2.2:5001" })));
    let refused = path.event(OUTSIDE, "refused").expect("a RESPONSE");
    let answer = &refused["refusal"]["answered"];
    assert_eq!(answer["outcome"], "authorization failed", "{refused}");
    let rows = path.show(OUTSIDE, "applications");
    assert_eq!(rows[0]["outcome"]["kind"], "refused", "{rows}");
    assert_eq!(path.show(EDGE, "pinholes"), json!([]));
}

/// The edge lets in any data sender only if its rule says so; the refusal tells what to do.
#[test]
fn any_sender_needs_a_rule_with_wildcards() {
    let mut path = Path::new(None);
    path.ask(INSIDE, &follow("expose", json!({ "port": 5_001 })));
    let refused = path.event(INSIDE, "refused").expect("a RESPONSE");
    let refusal: Refusal = serde_json::from_value(refused["refusal"].clone()).unwrap();
    assert!(refusal.reason().contains("source IP address range is too large"), "{refused}");
    assert!(refusal.advice().contains("--from") && refusal.advice().contains("wildcards = true"));
    assert_eq!(path.show(EDGE, "translations"), json!([]));
}

/// A request for a data sender behind routers travels upstream, for which the settings of GIST have to allow Queries.
#[test]
fn sender_behind_routers_needs_upstream_queries() {
    let mut config = node("inside", Config::default());
    config.nsis.gist.upstream_queries = UpstreamQueries::OnLink;
    let mut path = Path::new(None);
    path.nodes[INSIDE] = Host::on_links(config, &[("eth0", [10, 0, 2, 2])], Some([10, 0, 2, 254]));
    path.clients[INSIDE] = path.nodes[INSIDE].connect();
    path.ask(INSIDE, &follow("expose", json!({ "port": 5_001, "from": "10.0.1.1" })));
    let rows = path.show(INSIDE, "applications");
    let last = rows[0]["last"].as_str().expect("an event");
    assert_eq!(last, "the request could not be sent: no routing state upstream", "{rows}");
    assert_eq!(rows[0]["outcome"]["kind"], "unanswered", "{rows}");
}

/// Behind a translator the host learns its external address and port, and data that is sent there is forwarded to it.
#[test]
fn translated_port_is_known_by_its_external_address() {
    let translator = Translator { first_port: 40_000, last_port: 40_999, ..Translator::default() };
    let mut path = Path::new(Some(translator));
    path.ask(INSIDE, &follow("expose", json!({ "port": 5_001 })));
    let granted = path.event(INSIDE, "granted").expect("a RESPONSE");
    assert_eq!(granted["external"]["address"], "10.0.1.254", "{granted}");
    let port = granted["external"]["port"].as_u64().expect("a port");
    assert!((40_000..41_000).contains(&port), "{granted}");
    for place in [EDGE, INSIDE] {
        let rows = path.show(place, "translations");
        assert_eq!(rows[0]["external"], granted["external"], "{rows}");
    }

    path.ask(OUTSIDE, &follow("open", json!({ "to": format!("10.0.1.254:{port}") })));
    path.event(OUTSIDE, "granted").expect("a RESPONSE");
    let rows = path.show(EDGE, "pinholes");
    let inside = json!({ "address": "10.0.2.2", "port": 5_001 });
    assert_eq!(
        (&rows[0]["new_destination"], &rows[0]["installed"]),
        (&inside, &json!(true)),
        "{rows}"
    );
    assert_eq!(
        (&rows[0]["destination"], &rows[0]["destination_port"]),
        (&json!("10.0.1.254"), &json!(port))
    );

    path.ask(OUTSIDE, &follow("open", json!({ "to": "10.0.1.254:39999" })));
    let refused = path.event(OUTSIDE, "refused").expect("a RESPONSE");
    let answer = refused["refusal"]["answered"]["outcome"].as_str().expect("an outcome");
    assert!(answer.starts_with("no reservation found"), "{refused}");
}

/// Returns a translated path that is open, with a reservation that is bound to it: the external port.
fn reserved_path(path: &mut Path) -> u64 {
    path.ask(INSIDE, &json!({ "listen": { "protocol": "nsis", "on": "10.0.2.2:5001" } }));
    path.ask(INSIDE, &follow("expose", json!({ "port": 5_001 })));
    let granted = path.event(INSIDE, "granted").expect("a RESPONSE");
    let port = granted["external"]["port"].as_u64().expect("a port");
    let to = format!("10.0.1.254:{port}");
    let opened = path.ask(OUTSIDE, &follow("open", json!({ "to": to, "from": "10.0.1.1:4000" })));
    path.event(OUTSIDE, "granted").expect("a RESPONSE");
    let request = json!({
        "protocol": "nsis", "to": to, "from": "10.0.1.1:4000", "rate_bps": 2_000_000,
        "options": { "bound_to": opened["application"] },
    });
    path.ask(OUTSIDE, &follow("reserve", request));
    let reserved = path.event(OUTSIDE, "reserved").expect("a RESPONSE");
    assert_eq!(reserved["rate"], 2_000_000, "{reserved}");
    port
}

/// On each side of the translator the reservation has the addresses of that side, and it ends with the path.
#[test]
fn bound_reservation_crosses_the_translator_and_ends_with_the_path() {
    let translator = Translator { first_port: 40_000, last_port: 40_999, ..Translator::default() };
    let mut path = Path::new(Some(translator));
    let port = reserved_path(&mut path);
    let rows = path.show(OUTSIDE, "reservations");
    let to = (&rows[0]["destination"], &rows[0]["destination_port"]);
    assert_eq!(to, (&json!("10.0.1.254"), &json!(port)), "{rows}");
    let rows = path.show(EDGE, "reservations");
    let to = (&rows[0]["destination"], &rows[0]["destination_port"]);
    assert_eq!(to, (&json!("10.0.2.2"), &json!(5_001)), "{rows}");
    assert_eq!(rows[0]["interface"], "eth1", "{rows}");

    let rows = path.show(OUTSIDE, "applications");
    let rows = rows.as_array().expect("rows");
    let opened = rows.iter().find(|row| row["protocol"] == "natfw").expect("an application");
    path.ask(OUTSIDE, &json!({ "release": { "application": opened["application"] } }));
    for place in [OUTSIDE, EDGE] {
        assert_eq!(path.show(place, "reservations"), json!([]));
    }
    assert_eq!(path.show(EDGE, "pinholes"), json!([]));
}

#[test]
fn reservation_is_bound_to_an_opened_path_only() {
    let mut path = Path::new(None);
    let exposed =
        path.ask(INSIDE, &json!({ "listen": { "protocol": "nsis", "on": "10.0.2.2:1" } }));
    for number in [exposed["application"].clone(), json!(4_711)] {
        let request = json!({ "reserve": {
            "protocol": "nsis", "to": "10.0.1.1:5001", "rate_bps": 1_000, "options": { "bound_to": number },
        } });
        let host = &mut path.nodes[INSIDE];
        let answer = host.ask(&mut path.clients[INSIDE], &request.to_string());
        let error = answer["error"].to_string();
        assert!(error.contains("has opened no path") && error.contains("earmark open"), "{answer}");
    }
}
