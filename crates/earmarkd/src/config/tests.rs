//! Valid settings are read as documented; invalid ones are refused with their line and key.

use earmark_core::Rate;

use super::*;
use crate::config::{InterfaceConfig, ProtocolSettings, Queueing};

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("r1.toml"))
}

/// The example is valid, and contains the defaults except for the interface.
#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    let config = read(super::super::EXAMPLE).unwrap();
    assert_eq!(config.control.socket, Path::new(DEFAULT_SOCKET));
    assert_eq!(config.settings, ProtocolSettings::default());
    assert!(config.keep_reservations_on_exit);
    assert_eq!(config.adoption_time, Config::new("", "").adoption_time);
    let shown = &config.interfaces[0];
    let place = shown.place.clone();
    assert_eq!(
        *shown,
        InterfaceConfig { place, ..InterfaceConfig::new("eth0", Rate::from_mbps(100)) }
    );
}

/// The expected keys of each table are those that the parser lists when it finds an unknown one.
#[test]
fn the_example_shows_every_key_and_what_it_shows_is_valid() {
    let example = super::super::EXAMPLE;
    // A commented-out key is one word before an equals sign.
    let uncommented: Vec<&str> = example
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') => rest,
            Some(rest) if rest.split_once(" = ").is_some_and(|(k, _)| !k.contains(' ')) => rest,
            _ => line,
        })
        .collect();
    // Only a file can include others.
    let full = uncommented.join("\n").replace("\ninclude = ", "\n# include = ");
    assert!(full.contains("\n# include = "));
    let config = read(&full).unwrap();
    assert_eq!(config.user.as_deref(), Some("earmark"));
    let mut keys = 0;
    let tables = [
        "[node]",
        "[control]",
        "[[interface]]",
        "[[interface.across]]",
        "[boomerang]",
        "[[boomerang.aggregate]]",
        "[yessir]",
        "[nsis]",
        "[nsis.tls]",
        "[[nsis.aggregate]]",
        "[[nsis.rule]]",
        "[natfw]",
        "[natfw.translator]",
        "[[natfw.rule]]",
        "[rsvp]",
        "[rsvp.reduction]",
        "[rsvp.hello]",
        "[rsvp.notify]",
        "[integrity]",
        "[policy]",
        "[[policy.rule]]",
        "[[policy.issuer]]",
        "[[sender_proxy]]",
        "[[receiver_proxy]]",
        "[daemon]",
    ];
    for table in tables {
        let error = read(&format!("{table}\nno_such_key = 1\n")).unwrap_err();
        let header = format!("\n{table}\n");
        let sections = full.split(&header).skip(1).filter_map(|after| after.split("\n[").next());
        let section = sections.collect::<Vec<_>>().join("\n");
        assert!(!section.is_empty(), "{table}");
        // A key that is a table itself is shown as a table header; old keys are not shown.
        let keys_of_table = error.message.split('`').skip(3).step_by(2);
        for key in keys_of_table.filter(|key| {
            !["rule", "issuer", "max_partners", "user", "key", "signed_on"].contains(key)
        }) {
            let line = format!("{key} = ");
            let inner = format!("[{}.{key}]", table.trim_matches(['[', ']']));
            assert!(
                section.lines().any(|l| l.starts_with(&line)) || full.contains(&inner),
                "{table} {key}\n{section}"
            );
            keys += 1;
        }
    }
    assert!(keys >= 16, "only {keys} keys: has the parser's message changed?");
}

#[test]
fn misspelled_key_is_refused_with_suggestion() {
    for (text, hint) in [
        ("[[interface]]\nname = 'a'\nbandwith = '1Mbit'", "did you mean `bandwidth`?"),
        ("[[interface]]\nnmae = 'a'", "did you mean `name`?"),
        ("[[interfaces]]\nname = 'a'", "did you mean `interface`?"),
        ("[rsvp]\nrefesh = '30s'", "did you mean `refresh`?"),
        ("[interface]\nname = 'a'", "[[interface]]"),
        ("[daemon]\nzzz = 1", "`earmarkd config example` shows every key"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.hint.contains(hint), "{text}\n{error}");
    }
}

#[test]
fn reservable_is_a_share_or_a_rate() {
    for (text, rate) in
        [("\"75%\"", 7_500_000), ("0.5", 5_000_000), ("\"2Mbit\"", 2_000_000), ("1", 10_000_000)]
    {
        let text = format!("[[interface]]\nname='a'\nbandwidth='10Mbit'\nreservable={text}");
        let capacity = read(&text).unwrap().interfaces[0].capacity(None).unwrap();
        assert_eq!(capacity.reservable, Rate::from_bps(rate), "{text}");
    }
}

#[test]
fn absent_bandwidth_is_left_to_driver() {
    let interface = |text: &str| {
        read(&format!("[[interface]]\nname='a'\n{text}")).unwrap().interfaces.remove(0)
    };
    let of = |text: &str, mbps: u64| {
        let capacity = interface(text).capacity(Some(Rate::from_mbps(mbps))).unwrap();
        (capacity.bandwidth, capacity.reservable)
    };
    assert_eq!(interface("").bandwidth, None);
    assert_eq!(of("", 1_000), (Rate::from_mbps(1_000), Rate::from_mbps(750)));
    assert_eq!(of("reservable='50%'", 100), (Rate::from_mbps(100), Rate::from_mbps(50)));
    assert_eq!(of("reservable='200Mbit'", 100), (Rate::from_mbps(100), Rate::from_mbps(100)));
    assert_eq!(interface("").capacity(None), None);
}

/// Valid names include the longest one of Linux, and names with unusual characters.
#[test]
fn valid_interface_names_are_accepted() {
    for name in ["a", "fifteen-octets-", "enp0s31f6", "eth0.5", "br-12ab@", "wg%d", "\u{e9}th0"] {
        let text = format!("[[interface]]\nname = \"{name}\"\n");
        assert_eq!(read(&text).unwrap().interfaces[0].name, name);
    }
}

/// Finding the place of each interface and error by scanning the text before it would take minutes, also for a line at the
/// end that names an interface twice.
#[test]
fn twenty_thousand_interfaces_are_parsed_quickly() {
    let mut text = String::new();
    for number in 0..20_000 {
        text.push_str(&format!("[[interface]]\nname = \"eth{number}\"\nbandwidth = \"10Mbit\"\n"));
    }
    let start = std::time::Instant::now();
    let mut config = read(&text).unwrap();
    assert_eq!(config.interfaces.len(), 20_000);
    let last = config.interfaces[19_999].place.clone().unwrap();
    assert_eq!((last.line, last.key.as_str()), (59_999, "interface.name"));
    let renewed = config.clone();
    assert_eq!(config.reload(renewed).waiting, Vec::<String>::new());
    text.push_str("[[interface]]\nname = \"eth0\"\n");
    let error = read(&text).unwrap_err();
    assert_eq!((error.place.line, error.place.key.as_str()), (60_002, "interface.name"));
    assert!(error.message.contains("already, in line 2"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn queues_setting_has_four_values() {
    for (text, queues) in [
        ("", Queueing::PerFlow),
        ("queues = 'per-flow'", Queueing::PerFlow),
        ("queues = 'aggregate'", Queueing::Aggregate),
        ("queues = 'priority'", Queueing::Priority),
        ("queues = 'none'", Queueing::None),
    ] {
        let text = format!("[[interface]]\nname='a'\nbandwidth='10Mbit'\n{text}");
        assert_eq!(read(&text).unwrap().interfaces[0].queues, queues, "{text}");
    }
}

#[test]
fn an_empty_file_gives_a_daemon_without_interfaces_and_with_the_hosts_name() {
    let config = read("").unwrap();
    assert!(config.interfaces.is_empty());
    assert!(!config.name.is_empty());
}

/// Text behind the bandwidth of an interface, which begins with a key, and a word that the message must contain.
const WRONG_OF_INTERFACE: &[(&str, &str)] = &[
    ("queues = 'shared'", "expected one of `per-flow`, `aggregate`, `priority`, `none`"),
    ("reservable = 1.5", "0 to 100%"),
    ("reservable = '120%'", "share 120% is outside"),
    ("reservable = '-3%'", "0 to 100%"),
    ("reservable = 'x%'", "invalid share"),
    ("reservable = '2Mbit'", "exceeds the bandwidth of the link"),
    ("reservable = nan", "0 to 100%"),
    ("reservable = true", "a share such as"),
    ("classes = 0", "out of range"),
    ("classes = 99999", "out of range"),
    ("queue_packets = 0", "out of range"),
    ("neighbors = ['10.0.0.0/33']", "range"),
    ("largest_reservation = 'all'", "number"),
    ("overhead = 2000", "out of range"),
    ("dscp = [46, 64]", "six bits"),
    ("integrity = 'yes'", "one of them for each protocol"),
    ("integrity = 'receive'", "one of them for each protocol"),
    ("integrity = { nsis = 'both' }", "signs no messages of \"nsis\""),
    ("integrity = { yessir = 'yes' }", "one of them for each protocol"),
    ("integrity = { yessir = 'both' }\nprotocols = ['rsvp']", "signs no messages of \"yessir\""),
    ("role = 'edge'", "expected `access` or `core`"),
    ("sources = '10.0.0.0/8'", "invalid type"),
    ("sources = ['10.0.0.0/8', '10/8']", "range"),
    ("sources = ['10.0.0.0/8']\nrole = 'core'", "accepts data from all sources"),
];

/// Text, line, key, and a word that the message must contain.
const WRONG: &[(&str, usize, &str, &str)] = &[
    ("[node]\nname = \"\"", 2, "node.name", "empty"),
    ("[node]\nseed = -1", 2, "node.seed", "expected u64"),
    ("[node]\ncolour = 3", 2, "node.colour", "unknown field"),
    ("[nodes]\nname = 'a'", 1, "nodes", "unknown field"),
    ("x = 1", 1, "x", "unknown field"),
    ("[metrics]\naddress = '9470'", 2, "metrics.address", "invalid socket address"),
    ("[metrics]\naddress = 'localhost:9470'", 2, "metrics.address", "invalid socket address"),
    ("[metrics]\nreservations = 1001", 2, "metrics.reservations", "too many"),
    ("[metrics]\nreservations = -1", 2, "metrics.reservations", "expected usize"),
    ("[history]\njournal_size = '1MiB'", 2, "history.journal_size", "too small"),
    ("[history]\njournal_size = '64'", 2, "history.journal_size", "too small"),
    ("[history]\njournal_size = '9GB'", 2, "history.journal_size", "unit"),
    ("[history]\nretention = '1h'", 2, "history.retention", "out of range"),
    ("[history]\nretention = 'forever'", 2, "history.retention", "unit"),
    ("[history]\ninterval = '10ms'", 2, "history.interval", "out of range"),
    ("[history]\nserver = 'x'", 2, "history.server", "unknown field"),
    ("[metrics]\nport = 9470", 2, "metrics.port", "unknown field"),
    ("[web]\nlisten = '9480'", 2, "web.listen", "invalid socket address"),
    ("[web]\nlisten = '127.0.0.1:9480'", 2, "web.listen", "every user of this host"),
    ("[web]\nlisten = '192.0.2.1:9480'\ntoken_file = 't'", 2, "web.listen", "the page has no TLS"),
    ("[web]\nlisten = '0.0.0.0:9480'\ntoken_file = 't'", 2, "web.listen", "the page has no TLS"),
    ("[web]\nlisten = 'unix:'", 2, "web.listen", "1 to 90 octets"),
    (
        "[web]\nlisten = 'unix:/s'\ntoken_file = 't'",
        3,
        "web.token_file",
        "the user of the client decides",
    ),
    ("[web]\nlisten = 'unix:/s'\nrole = 'reader'", 3, "web.role", "the user of the client decides"),
    ("[web]\nrole = 'root'", 2, "web.role", "unknown variant"),
    ("[control]\nsocket = \"\"", 2, "control.socket", "1 to 90 octets"),
    ("[control]\n\nsocket = 7", 3, "control.socket", "invalid type"),
    ("[[interface]]\nbandwidth = '1Mbit'", 1, "interface", "missing field `name`"),
    ("[[interface]]\nname = 'a'\nbandwidth = '10MB'", 3, "interface.bandwidth", "unit"),
    ("[[interface]]\nname = 'a'\nbandwidth = 'fast'", 3, "interface.bandwidth", "number"),
    ("[[interface]]\nname = 'a'\nbandwidth = 10", 3, "interface.bandwidth", "invalid type"),
    (
        "[[interface]]\nname = 'a'\nbandwidth = '0bit'",
        3,
        "interface.bandwidth",
        "the bandwidth is 0",
    ),
    (
        "[[interface]]\nname = 'a/b'\nbandwidth = '1Mbit'",
        2,
        "interface.name",
        "invalid interface name",
    ),
    ("[[interface]]\nname = 'a b'", 2, "interface.name", "a space"),
    ("[[interface]]\nname = \"a\\tb\"", 2, "interface.name", "a space"),
    ("[[interface]]\nname = ''", 2, "interface.name", "it is empty, . or .."),
    ("[[interface]]\nname = '..'", 2, "interface.name", "it is empty, . or .."),
    ("[[interface]]\nname = 'sixteen-octets-x'", 2, "interface.name", "more than 15 octets"),
    ("[[interface]]\nname = 'eth0:1'", 2, "interface.name", "contains ':'"),
    ("[[interface]]\nname = 'lo'", 2, "interface.name", "loopback"),
    (
        "[[interface]]\nname = 'a'\nbandwidth = '1Mbit'\n[[interface]]\nname = 'a'\nbandwidth = '1Mbit'",
        5,
        "interface.name",
        "already, in line 2",
    ),
    ("[control]\nidle_timeout = 'soon'", 2, "control.idle_timeout", "unit"),
    ("[daemon]\nsyscall_filter = 'maybe'", 2, "daemon.syscall_filter", "unknown variant"),
    ("[boomerang]\nrefresh = '1500ms'", 2, "boomerang.refresh", "whole seconds"),
    ("[boomerang]\nrefresh = '256s'", 2, "boomerang.refresh", "out of range"),
    ("[yessir]\nrefresh = '1500ms'", 2, "yessir.refresh", "whole seconds"),
    ("[boomerang]\nunproven_lifetime = '1ms'", 2, "boomerang.unproven_lifetime", "out of range"),
    ("[boomerang]\nunproven_lifetime = '300s'", 2, "boomerang.unproven_lifetime", "out of range"),
    ("[nsis]\nrequire = 'secure'", 2, "nsis.require", "without TLS"),
    ("[nsis]\nrequire = 'reliable'\ntcp = 0", 2, "nsis.require", "without TCP and TLS"),
    ("[rsvp]\nmax_sessions = 0", 2, "rsvp.max_sessions", "out of range"),
    ("[rsvp]\nmax_senders = 65537", 2, "rsvp.max_senders", "out of range"),
    ("[rsvp]\nmax_next_hops = 0", 2, "rsvp.max_next_hops", "out of range"),
    ("[rsvp]\nmax_next_hops = 4097", 2, "rsvp.max_next_hops", "out of range"),
    ("[rsvp]\nmax_per_neighbor = 0", 2, "rsvp.max_per_neighbor", "out of range"),
    (
        "[policy]\nverifications_per_second = 0",
        2,
        "policy.verifications_per_second",
        "out of range",
    ),
    ("[nsis]\nerrors_per_second = 0", 2, "nsis.errors_per_second", "out of range"),
    ("[boomerang]\nverified_users = [' ']", 2, "boomerang.verified_users", "an empty pattern"),
    ("[yessir]\nverified_users = ['']", 2, "yessir.verified_users", "an empty pattern"),
    ("[[nsis.rule]]\nusers = [',']", 2, "nsis.rule.users", "an empty pattern"),
    ("[rsvp.access]\nmax_per_interface = 0", 2, "rsvp.access.max_per_interface", "out of range"),
    ("[rsvp.access]\nmax_lifetime = '1ms'", 2, "rsvp.access.max_lifetime", "out of range"),
    ("[nsis]\nshare_of_interface = 0", 2, "nsis.share_of_interface", "out of range"),
    ("[nsis]\nshare_of_interface = 101", 2, "nsis.share_of_interface", "out of range"),
    ("[rsvp]\nchanges_per_second = '5'", 2, "rsvp.changes_per_second", "invalid type"),
    ("[rsvp]\nrefresh = '30'", 2, "rsvp.refresh", "unit"),
    ("[rsvp]\nrefresh = '1us'", 2, "rsvp.refresh", "out of range"),
    ("[rsvp]\nlifetime_factor = 0", 2, "rsvp.lifetime_factor", "out of range"),
    ("[rsvp]\nslew_percent = 0", 2, "rsvp.slew_percent", "out of range"),
    ("[rsvp]\nrepair_delay = '1h'", 2, "rsvp.repair_delay", "out of range"),
    (
        "[rsvp.reduction]\nretransmit_after = '1ms'",
        2,
        "rsvp.reduction.retransmit_after",
        "out of range",
    ),
    ("[rsvp.reduction]\ntransmissions = 0", 2, "rsvp.reduction.transmissions", "out of range"),
    ("[rsvp.reduction]\nincrement = -1.0", 2, "rsvp.reduction.increment", "out of range"),
    ("[rsvp.reduction]\nburst = 0", 2, "rsvp.reduction.burst", "out of range"),
    ("[rsvp.reduction]\nacknowledge_within = 'soon'", 2, "rsvp.reduction.acknowledge_within", ""),
    ("[rsvp.hello]\ninterval = '1ms'", 2, "rsvp.hello.interval", "out of range"),
    ("[rsvp.hello]\nrestart_time = '10ms'", 2, "rsvp.hello.restart_time", "out of range"),
    ("[rsvp.hello]\nrecovery_time = '2h'", 2, "rsvp.hello.recovery_time", "out of range"),
    ("[rsvp.hello]\nmax_restart_time = '0s'", 2, "rsvp.hello.max_restart_time", "out of range"),
    ("[rsvp.hello]\nlost_after = 0.5", 2, "rsvp.hello.lost_after", "out of range"),
    ("[integrity]\nkeys = 3", 2, "integrity.keys", "invalid type"),
    ("[integrity]\nwindow = 0", 2, "integrity.window", "out of range"),
    ("[integrity]\nwindow = 2000", 2, "integrity.window", "out of range"),
    ("[integrity]\nhandshake = 'sometimes'", 2, "integrity.handshake", "unknown variant"),
    ("[integrity]\nsecret = 'a secret'", 2, "integrity.secret", "unknown field"),
    (
        "[[interface]]\nname = 'a'\nbandwidth = '1Mbit'\nintegrity = 'both'",
        2,
        "interface.name",
        "no keys are configured",
    ),
    ("[[boomerang.user]]\nname = 'a'", 1, "boomerang.user", "[[key]] tables"),
    ("[[yessir.key]]\nid = 1", 1, "yessir.key", "[[key]] tables"),
    ("[yessir]\nsigned_on = ['a']", 2, "yessir.signed_on", "[[key]] tables"),
    ("[policy]\npreemption = 'yes'", 2, "policy.preemption", "unknown variant"),
    ("[policy]\ndefault = 'deny'", 2, "policy.default", "unknown variant"),
    ("[policy]\nrules = []", 2, "policy.rules", "unknown field"),
    ("[[policy.rule]]\nabout = 'Path'", 2, "policy.rule.about", "unknown variant"),
    ("[[policy.rule]]\nuser = 'a'", 2, "policy.rule.user", "unknown field"),
    ("[[policy.rule]]\nusers = 'a'", 2, "policy.rule.users", "invalid type"),
    ("[[policy.rule]]\nusers = ['a', '']", 2, "policy.rule.users", "names nobody"),
    ("[[policy.rule]]\napplications = [',']", 2, "policy.rule.applications", "names nobody"),
    ("[[policy.rule]]\nsources = ['10/8']", 2, "policy.rule.sources", "range"),
    ("[[policy.rule]]\ndestinations = ['::/129']", 2, "policy.rule.destinations", "range"),
    ("[[policy.rule]]\ninterfaces = ['a']", 2, "policy.rule.interfaces", "no [[interface]] a"),
    ("[[policy.rule]]\nflow = '2MB'", 2, "policy.rule.flow", "unit"),
    ("[[policy.rule]]\ntotal = -3", 2, "policy.rule.total", "invalid type"),
    ("[[policy.rule]]\ninterface_total = 'much'", 2, "policy.rule.interface_total", "number"),
    ("[[policy.rule]]\npriority = 65536", 2, "policy.rule.priority", "u16"),
    ("[[policy.rule]]\ndefending = 3", 2, "policy.rule.defending", "displaced by equals"),
    (
        "[[policy.rule]]\npriority = 5\ndefending = 4",
        3,
        "policy.rule.defending",
        "displaced by equals",
    ),
    (
        "[[policy.rule]]\nabout = 'senders'\ntotal = '5Mbit'",
        3,
        "policy.rule.total",
        "a sender reserves nothing",
    ),
    (
        "[[policy.rule]]\nabout = 'senders'\ninterface_total = '5Mbit'",
        3,
        "policy.rule.interface_total",
        "a sender reserves nothing",
    ),
    (
        "[[policy.rule]]\nabout = 'senders'\npriority = 3",
        3,
        "policy.rule.priority",
        "a sender reserves nothing",
    ),
    (
        "[[policy.rule]]\nabout = 'senders'\nhighest_priority = 3",
        3,
        "policy.rule.highest_priority",
        "a sender reserves nothing",
    ),
    ("[[sender_proxy]]\nfrom = '10.0.0.1:1'", 1, "sender_proxy", "missing field `to`"),
    (
        "[[sender_proxy]]\nfrom = 'a'\nto = '10.0.0.1:1'\nrate = '1Mbit'",
        2,
        "sender_proxy.from",
        "socket address",
    ),
    (
        "[[sender_proxy]]\nfrom = '0.0.0.0:1'\nto = '10.0.0.1:1'\nrate = '1Mbit'",
        2,
        "sender_proxy.from",
        "need an address",
    ),
    (
        "[[sender_proxy]]\nfrom = '[::1]:1'\nto = '10.0.0.1:1'\nrate = '1Mbit'",
        2,
        "sender_proxy.from",
        "same IP version",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:0'\nto = '10.0.0.1:1'\nip_protocol = 50\nrate = '1Mbit'",
        3,
        "sender_proxy.to",
        "do not fit",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:0'\nto = '10.0.0.1:1'\nspi = 0x1000\nrate = '1Mbit'",
        3,
        "sender_proxy.to",
        "do not fit",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:0'\nto = '10.0.0.1:1'\nip_protocol = 50\nspi = 0\nrate = '1Mbit'",
        5,
        "sender_proxy.spi",
        "no packet has SPI 0",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:0'\nto = '10.0.0.1:1'\nip_protocol = 50\nspi = 0x1000\nrate = '0bit'",
        6,
        "sender_proxy.rate",
        "reserves nothing",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:1'\nto = '10.0.0.1:1'\nrate = '0bit'",
        4,
        "sender_proxy.rate",
        "reserves nothing",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:1'\nto = '10.0.0.1:1'\nrate = '1Mbit'\nmax_packet = 90000",
        5,
        "sender_proxy.max_packet",
        "does not hold",
    ),
    (
        "[[receiver_proxy]]\ninterfaces = ['x']",
        2,
        "receiver_proxy.interfaces",
        "no [[interface]] x",
    ),
    ("[[receiver_proxy]]\ndestinations = ['x']", 2, "receiver_proxy.destinations", "range"),
    ("[[receiver_proxy]]\nport = 70000", 2, "receiver_proxy.port", "u16"),
    ("[[receiver_proxy]]\nrate = 'x'", 2, "receiver_proxy.rate", "number"),
    ("[[nsis.aggregate]]\nto = '10.1.0.0/16'", 2, "nsis.aggregate.to", "needs a domain"),
    (
        "[nsis]\ninner = ['a']\n[[nsis.aggregate]]\nto = '10.1.0.1/32'",
        4,
        "nsis.aggregate.to",
        "a range of addresses",
    ),
    (
        "[nsis]\ninner = ['a']\n[[nsis.aggregate]]\nto = '10.1.0.0/16'\nleast = '1Mbit'",
        5,
        "nsis.aggregate.least",
        "unknown field",
    ),
    (
        "[nsis]\ninner = ['a']\n[[nsis.aggregate]]\nto = '10.1.0.0/16'\n[[nsis.aggregate]]\nto = '10.1.0.9/16'",
        6,
        "nsis.aggregate.to",
        "flows to 10.1.0.0/16 are in an aggregate already, in line 4",
    ),
    (
        "[[boomerang.aggregate]]\nname = 'a'\nsource = '10.1.0.0/16'\ndestination = '10.2.0.0/16'\n\
         [[boomerang.aggregate]]\nname = 'b'\nsource = '10.1.0.0/16'\ndestination = '10.2.0.0/16'",
        7,
        "boomerang.aggregate.source",
        "flows from 10.1.0.0/16 to 10.2.0.0/16 are in an aggregate already, in line 3",
    ),
    (
        "[[sender_proxy]]\nfrom = '10.0.0.2:1'\nto = '10.0.0.1:1'\nrate = '1Mbit'\n\
         [[sender_proxy]]\nfrom = '10.0.0.2:1'\nto = '10.0.0.1:1'\nrate = '2Mbit'",
        6,
        "sender_proxy.from",
        "10.0.0.2:1 to 10.0.0.1:1 has a [[sender_proxy]] already, in line 2",
    ),
    (
        "[[mark]]\nmark = 1\nto = '10.1.0.0/16'\n[[mark]]\nmark = 2\nto = '10.1.0.0/16'",
        5,
        "mark.mark",
        "a [[mark]] is for the same packets already, in line 2",
    ),
    ("[daemon]\nuser = 3", 2, "daemon.user", "invalid type"),
    ("[daemon]\nrecord = 3", 2, "daemon.record", "invalid type"),
    (
        "[daemon]\nkeep_reservations_on_exit = 'no'",
        2,
        "daemon.keep_reservations_on_exit",
        "expected a boolean",
    ),
    ("[daemon]\nadoption_time = 'long'", 2, "daemon.adoption_time", "number"),
    ("[daemon]\nadoption_time = '10ms'", 2, "daemon.adoption_time", "out of range"),
    ("[daemon]\nadoption_time = '2000min'", 2, "daemon.adoption_time", "out of range"),
    ("[daemon]\nreconcile = 'often'", 2, "daemon.reconcile", "number"),
    ("[daemon]\nreconcile = '1ms'", 2, "daemon.reconcile", "out of range"),
    ("[node\n", 1, "node", ""),
    ("[node]\nname = 'a'\nname = 'b'", 3, "node.name", "duplicate"),
];

#[test]
fn invalid_settings_are_refused_with_line_and_key() {
    let of_interface = |&(text, word): &(&str, &'static str)| {
        let key = text.split(' ').next().expect("a key");
        let text = format!("[[interface]]\nname = 'a'\nbandwidth = '1Mbit'\n{text}");
        (text, 4, format!("interface.{key}"), word)
    };
    let of_any =
        |&(text, line, key, word): &(&str, _, &str, _)| (text.into(), line, key.into(), word);
    let all = WRONG.iter().map(of_any).chain(WRONG_OF_INTERFACE.iter().map(of_interface));
    for (text, line, key, word) in all {
        let error = read(&text).expect_err(&text);
        assert_eq!((error.place.line, &error.place.key), (line, &key), "{text}\n{error}");
        assert!(error.message.contains(word), "{text}\n{error}");
        assert!(!error.hint.is_empty(), "{text}");
        assert!(error.to_string().starts_with(&format!("r1.toml:{line}: {key}: ")), "{error}");
    }
}

#[test]
fn missing_file_is_named() {
    let error = Config::load(Path::new("/nonexistent/r1.toml")).unwrap_err();
    assert!(
        error.to_string().starts_with("/nonexistent/r1.toml: cannot read the file: No such file")
    );
}

/// This program adds no protocol, and those of this project have tables of their own.
#[test]
fn table_of_an_unknown_protocol_is_refused() {
    for name in ["tickets", "rsvp", "no-such"] {
        let error = read(&format!("[protocol.{name}]\ninterval_s = 5\n")).unwrap_err();
        let expected = format!("this program adds no protocol {name:?}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    assert!(read("[protocol]\n").is_ok());
    assert!(read("protocol = 5\n").is_err());
}

/// One table is for all protocols.
#[test]
fn every_engine_has_the_issuers_and_the_name_of_the_router() {
    let key = earmark_token::SecretKey::from_random(&[1; 32]).public();
    let table = format!("[[policy.issuer]]\nname = 'provider'\nkey = '{key}'\n");
    let text = format!("[node]\nname = 'r1'\n{table}");
    let config = Config::parse(&text, Path::new("r1.toml")).expect("valid settings");
    let origin = "2026-11-26T00:00:00Z".parse().expect("a time");
    let node = crate::node_settings::node_config(&config, origin);
    let expected = config.tokens(origin);
    assert_eq!((expected.issuers.len(), expected.router.as_str()), (1, "r1"));
    for (protocol, tokens) in [
        ("rsvp", &node.rsvp.tokens),
        ("nsis", &node.nsis.qos.tokens),
        ("natfw", &node.nsis.natfw.tokens),
        ("boomerang", &node.boomerang.tokens),
        ("yessir", &node.yessir.tokens),
    ] {
        assert_eq!(*tokens, expected, "{protocol}");
    }
}
