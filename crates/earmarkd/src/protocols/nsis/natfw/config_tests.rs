//! The table `[natfw]`: valid settings are read as documented, invalid ones are refused with their line and key.

use std::path::Path;

use earmark_nsis::natfw::Rule;

use super::*;
use crate::config::Reloaded;

const INTERFACES: &str = "[[interface]]\nname = 'in0'\n[[interface]]\nname = 'out0'\n";

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::parse(&format!("{INTERFACES}{text}"), Path::new("r1.toml"))
}

fn settings(text: &str) -> NatfwSettings {
    read(text).expect(text).settings.get()
}

#[test]
fn settings_are_read_as_documented() {
    assert_eq!(settings(""), NatfwSettings::default());
    assert!(!NatfwSettings::default().engine.enabled);
    let text = "[natfw]\nenabled = true\nfirewall = true\nexternal = ['out0']\nguard = ['out0']\nresponder = 'any'\n\
        signaling_destination = '198.51.100.1'\nlifetime = '10min'\nlongest_lifetime = '20min'\nshortest_lifetime = '30s'\n\
        lost_refreshes = 2\ntransport = 'datagrams'\nmax_sessions = 5\nmax_sessions_per_peer = 4\nshare_of_interface = 50\n\
        changes_per_second = 3\nmax_icmp_types = 2\n\
        [natfw.translator]\naddresses = ['203.0.113.1']\nsources = ['10.0.0.0/8', '192.168.1.7']\nports = '2000-3000'\n\
        [[natfw.rule]]\ninterfaces = ['in0']\nfrom = '10.0.0.0/8'\nto = '198.51.100.0/24'\nprotocols = ['udp', 6]\n\
        ports = '5000-6000'\nsecure = true\nverified = true\nusers = ['*@example.org']\nreserved = true\nwildcards = true\n\
        deny = true\nlongest_lifetime = '5min'\nper_user = 2\ntotal = 9\n\
        [[natfw.rule]]\nports = 22\nprivileged_ports = true\nrefuse = true\n[[natfw.rule]]\n";
    let NatfwSettings { engine, guard } = settings(text);
    assert_eq!((guard, &engine.external), (vec!["out0".to_owned()], &vec!["out0".to_owned()]));
    assert!(engine.enabled && engine.firewall);
    assert_eq!(engine.responder, Responder::Any);
    assert_eq!(engine.signaling_destination, Some("198.51.100.1".parse().unwrap()));
    let seconds = [engine.shortest_lifetime, engine.lifetime, engine.longest_lifetime];
    assert_eq!(seconds.map(|lifetime| lifetime.as_secs()), [30, 600, 1_200]);
    assert_eq!(engine.attributes, Attributes { reliable: false, secure: false });
    let limits = natfw::Limits {
        sessions: 5,
        share_of_interface: 50,
        sessions_per_peer: 4,
        changes_per_second: 3,
        icmp_types: 2,
    };
    assert_eq!((engine.limits, engine.lost_refreshes), (limits, 2));
    let translator = Translator {
        addresses: vec!["203.0.113.1".parse().unwrap()],
        sources: vec!["10.0.0.0/8".parse().unwrap(), "192.168.1.7/32".parse().unwrap()],
        first_port: 2_000,
        last_port: 3_000,
    };
    assert_eq!(engine.translator, Some(translator));
    let [first, second, third] = &engine.rules[..] else { panic!("{:?}", engine.rules) };
    let expected = Rule {
        interfaces: vec!["in0".into()],
        from: Some("10.0.0.0/8".parse().unwrap()),
        to: Some("198.51.100.0/24".parse().unwrap()),
        protocols: vec![17, 6],
        ports: (5_000, 6_000),
        secure: true,
        required: first.required.clone(),
        reserved: true,
        refuse: false,
        wildcards: true,
        deny: true,
        longest_lifetime: Some(Duration::from_secs(300)),
        per_user: Some(2),
        total: Some(9),
    };
    assert_eq!(*first, expected);
    assert_eq!((first.required.verified, first.required.users.len()), (true, 1));
    assert_eq!((second.ports, second.refuse), ((22, 22), true));
    assert_eq!(*third, Rule::default());
}

/// Only a firewall or a translator that is enabled has a packet filter.
#[test]
fn packet_filter_is_that_of_a_middlebox() {
    let filter = |text: &str| settings(&format!("[natfw]\n{text}")).packet_filter();
    assert_eq!(filter("enabled = true"), None);
    assert_eq!(filter("enabled = false\nfirewall = true"), None);
    let firewall = filter("enabled = true\nfirewall = true\nguard = ['out0']").expect("a firewall");
    assert!(firewall.guard.contains("out0"));
    let translator = "enabled = true\nexternal = ['out0']\n[natfw.translator]";
    assert!(filter(translator).expect("a translator").guard.is_empty());
}

/// A request without a lifetime of its own is never refused by this node.
#[test]
fn usual_lifetime_follows_its_bounds() {
    let lifetime = |text: &str| {
        settings(&format!("[natfw]\nenabled = true\n{text}")).engine.lifetime.as_secs()
    };
    assert_eq!(lifetime(""), 1_575);
    assert_eq!(lifetime("longest_lifetime = '10min'"), 600);
    assert_eq!(lifetime("shortest_lifetime = '30min'"), 1_800);
}

#[test]
fn privileged_ports_are_read_if_the_table_says_so() {
    let ports = |text: &str| {
        settings(&format!("[natfw]\nenabled = true\n[[natfw.rule]]\n{text}")).engine.rules[0].ports
    };
    assert_eq!(ports(""), (1_024, 65_535));
    assert_eq!(ports("privileged_ports = true"), (1, 65_535));
    assert_eq!(ports("privileged_ports = true\nports = ' 1 - 80 '"), (1, 80));
    assert_eq!(ports("ports = '5000'"), (5_000, 5_000));
}

/// Text after `[natfw]` and `enabled = true`, which are the lines 5 and 6; line and key of the error, and words of its message
/// and its hint.
const WRONG: &[(&str, usize, &str, &str, &str)] = &[
    ("colour = 1", 7, "natfw.colour", "unknown field", ""),
    (
        "external = ['eth9']\nfirewall = true",
        7,
        "natfw.external",
        "no [[interface]] eth9",
        "take part",
    ),
    ("guard = ['eth9']\nfirewall = true", 7, "natfw.guard", "no [[interface]] eth9", "take part"),
    (
        "external = ['out0', 'out0']\nfirewall = true",
        7,
        "natfw.external",
        "out0 is named twice",
        "once",
    ),
    ("guard = ['in0', 'in0']\nfirewall = true", 7, "natfw.guard", "in0 is named twice", "once"),
    (
        "external = ['out0', 'in0']\nfirewall = true",
        7,
        "natfw.external",
        "every interface leads out",
        "leave out",
    ),
    ("external = ['out0']", 7, "natfw.external", "neither a firewall", "firewall = true"),
    ("guard = ['out0']", 7, "natfw.guard", "neither a firewall", "firewall = true"),
    ("[natfw.translator]", 7, "natfw.translator", "leads out of the network", "external = "),
    ("responder = 'all'", 7, "natfw.responder", "unknown variant", ""),
    ("signaling_destination = 'edge'", 7, "natfw.signaling_destination", "", "beyond the edge"),
    (
        "signaling_destination = '224.0.0.1'",
        7,
        "natfw.signaling_destination",
        "not a host outside",
        "beyond the edge",
    ),
    ("lifetime = 'long'", 7, "natfw.lifetime", "", "whole seconds"),
    ("lifetime = '90min'", 7, "natfw.lifetime", "refuse its own requests", "3600 s"),
    ("lifetime = '500ms'", 7, "natfw.lifetime", "out of range", "whole seconds"),
    ("longest_lifetime = '1500min'", 7, "natfw.longest_lifetime", "out of range", "86400s"),
    (
        "shortest_lifetime = '20min'\nlongest_lifetime = '10min'",
        7,
        "natfw.shortest_lifetime",
        "exceeds the longest",
        "1200 s",
    ),
    ("lost_refreshes = 0", 7, "natfw.lost_refreshes", "out of range", ""),
    ("transport = 'udp'", 7, "natfw.transport", "unknown variant", ""),
    ("transport = 'secure'", 7, "natfw.transport", "without TLS", "[nsis.tls]"),
    (
        "transport = 'reliable'\n[nsis]\ntcp = 0",
        7,
        "natfw.transport",
        "without TCP and TLS",
        "datagrams",
    ),
    ("[nsis]\ntcp = 0", 6, "natfw.enabled", "without TCP and TLS", "[nsis] tcp = 30270"),
    ("max_sessions = 0", 7, "natfw.max_sessions", "out of range", ""),
    ("max_sessions_per_peer = 0", 7, "natfw.max_sessions_per_peer", "out of range", ""),
    ("share_of_interface = 101", 7, "natfw.share_of_interface", "out of range", ""),
    ("changes_per_second = 0", 7, "natfw.changes_per_second", "out of range", ""),
    ("max_icmp_types = 256", 7, "natfw.max_icmp_types", "out of range", ""),
    ("[[natfw.rule]]\ninterfaces = ['x']", 8, "natfw.rule.interfaces", "no [[interface]] x", ""),
    ("[[natfw.rule]]\nfrom = '10/8'", 8, "natfw.rule.from", "", "10.1.0.0/16"),
    (
        "[[natfw.rule]]\nfrom = '10.0.0.0/8'\nto = '2001:db8::/32'",
        9,
        "natfw.rule.to",
        "IP versions",
        "",
    ),
    (
        "[[natfw.rule]]\nprotocols = ['ospf']",
        8,
        "natfw.rule.protocols",
        "unknown IP protocol",
        "\"udp\"",
    ),
    (
        "[[natfw.rule]]\nprotocols = [0]",
        8,
        "natfw.rule.protocols",
        "unknown IP protocol",
        "\"udp\"",
    ),
    ("[[natfw.rule]]\nprotocols = [256]", 8, "natfw.rule.protocols", "unknown IP protocol", ""),
    ("[[natfw.rule]]\nprotocols = [true]", 8, "natfw.rule.protocols", "an IP protocol such as", ""),
    (
        "[[natfw.rule]]\nports = '6000-5000'",
        8,
        "natfw.rule.ports",
        "exceeds the last",
        "\"5000-6000\"",
    ),
    (
        "[[natfw.rule]]\nports = '1000-2000'",
        8,
        "natfw.rule.ports",
        "system services",
        "privileged_ports",
    ),
    ("[[natfw.rule]]\nports = 22", 8, "natfw.rule.ports", "system services", "privileged_ports"),
    ("[[natfw.rule]]\nports = 0", 8, "natfw.rule.ports", "invalid range", "1 to 65535"),
    ("[[natfw.rule]]\nports = 65536", 8, "natfw.rule.ports", "invalid range", "1 to 65535"),
    ("[[natfw.rule]]\nports = '5000-'", 8, "natfw.rule.ports", "invalid range", "1 to 65535"),
    ("[[natfw.rule]]\nports = [5]", 8, "natfw.rule.ports", "a port such as 5000", ""),
    (
        "[[natfw.rule]]\nprotocols = ['icmp', 'esp']\nports = 5000",
        9,
        "natfw.rule.ports",
        "icmp has no ports",
        "leave ports out",
    ),
    ("[[natfw.rule]]\nusers = [',']", 8, "natfw.rule.users", "an empty pattern", ""),
    (
        "[[natfw.rule]]\nlongest_lifetime = '0s'",
        8,
        "natfw.rule.longest_lifetime",
        "out of range",
        "",
    ),
    ("[[natfw.rule]]\nper_user = 0", 8, "natfw.rule.per_user", "out of range", ""),
    ("[[natfw.rule]]\ntotal = 0", 8, "natfw.rule.total", "out of range", ""),
];

/// Keys of `[natfw.translator]`, which is line 8 with its `external` before it.
const WRONG_TRANSLATOR: &[(&str, &str, &str, &str)] = &[
    ("addresses = ['2001:db8::1']", "addresses", "", "IPv4 addresses"),
    ("addresses = ['0.0.0.0']", "addresses", "not the address of a node", "IPv4 addresses"),
    ("sources = ['10/8']", "sources", "", "range"),
    ("sources = ['2001:db8::/32']", "sources", "not translated", "IPv4"),
    ("ports = '3000-2000'", "ports", "exceeds the last", "\"2000-3000\""),
    ("ports = '1-65535'", "ports", "system services", "privileged_ports = true"),
    ("ports = '0-65535'", "ports", "invalid range", "1 to 65535"),
    ("port = 5", "port", "unknown field", ""),
];

#[test]
fn invalid_settings_are_refused_with_line_key_and_advice() {
    let wrong = WRONG.iter().map(|&(text, line, key, message, hint)| {
        (format!("[natfw]\nenabled = true\n{text}\n"), line, key.to_owned(), message, hint)
    });
    let of_translator = WRONG_TRANSLATOR.iter().map(|&(text, key, message, hint)| {
        let text =
            format!("[natfw]\nenabled = true\nexternal = ['out0']\n[natfw.translator]\n{text}\n");
        (text, 9, format!("natfw.translator.{key}"), message, hint)
    });
    for (text, line, key, message, hint) in wrong.chain(of_translator) {
        let error = read(&text).expect_err(&text);
        assert_eq!((error.place.line, &error.place.key), (line, &key), "{text}\n{error}");
        assert!(error.message.contains(message), "{text}\n{error}");
        assert!(!error.hint.is_empty() && error.hint.contains(hint), "{text}\n{error}");
    }
}

#[test]
fn table_says_whether_it_is_enabled() {
    let error = read("[natfw]\nfirewall = true\n").unwrap_err();
    assert!(error.message.contains("missing field `enabled`"), "{error}");
    let off = settings("[natfw]\nenabled = false\nfirewall = true\n[nsis]\ntcp = 0\n").engine;
    assert!(off.firewall && !off.enabled, "the other settings stay for later");
}

#[test]
fn an_interface_speaks_nsis_if_natfw_is_enabled() {
    let text = "[[interface]]\nname = 'eth0'\nprotocols = ['rsvp']\n[natfw]\nenabled = true\n";
    let error = Config::parse(text, Path::new("r1.toml")).unwrap_err();
    assert_eq!((error.place.line, error.place.key.as_str()), (5, "natfw.enabled"));
    assert!(error.message.contains("no interface speaks NSIS"), "{error}");
    assert!(error.hint.contains("protocols"), "{error}");
}

#[test]
fn reload_applies_policy_and_names_what_waits() {
    let mut started =
        read("[natfw]\nenabled = true\nfirewall = true\nexternal = ['out0']\n").unwrap();
    let text = "[natfw]\nenabled = true\nexternal = ['out0']\nguard = ['out0']\nlifetime = '10min'\nresponder = 'any'\n\
        [natfw.translator]\n[[natfw.rule]]\n";
    let Reloaded { config, waiting } = started.reload(read(text).unwrap());
    assert_eq!(waiting, ["natfw.firewall", "natfw.guard", "natfw.translator"]);
    let NatfwSettings { engine, guard } = config.settings.get();
    assert!(engine.firewall && engine.translator.is_none() && guard.is_empty());
    assert_eq!((engine.lifetime.as_secs(), engine.rules.len()), (600, 1));
    let node = crate::node_settings::node_config(&config, "2026-11-26T00:00:00Z".parse().unwrap());
    assert_eq!(node.nsis.natfw.rules, engine.rules, "the engine gets them");
}
