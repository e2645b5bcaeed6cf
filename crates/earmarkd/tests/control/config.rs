//! The configuration is compared, applied, confirmed and taken back; whatever is refused changes nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use earmark_core::{Flow, Prefix, Rate, Time};
use earmark_linux::PeerCredentials;
use earmark_node::{HostUpdate, Input};
use earmark_testkit::command_line::TemporaryDirectory;
use earmarkd::config::{Config, Control};
use earmarkd::control::Roles;
use earmarkd::running_config::{self, ConfigChange, RunningConfig};
use serde_json::{Value, json};

use crate::host::{Host, Peer};

const MAIN: &str = "[node]\nname = \"h1\"\n[[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\n\
    [rsvp]\nrefresh = \"30s\"\n";
const COMPARE: &str = r#"{"config":{"compare":{}}}"#;
const APPLY: &str = r#"{"config":{"apply":{}}}"#;
const APPLY_60S: &str = r#"{"config":{"apply":{"confirm_within_ms":60000}}}"#;
const CONFIRM: &str = r#"{"config":{"confirm":{}}}"#;
const ROLL_BACK: &str = r#"{"config":{"roll_back":{}}}"#;

/// A host whose configuration is a file.
struct Configured {
    place: TemporaryDirectory,
    host: Host,
}

impl Configured {
    fn new(text: &str) -> Configured {
        let place = TemporaryDirectory::new("running-config");
        place.file("h1.toml", text);
        let mut configured = Configured { place, host: Host::new() };
        std::fs::create_dir(configured.state()).expect("an own directory");
        configured.start();
        configured
    }

    fn file(&self) -> PathBuf {
        self.place.0.join("h1.toml")
    }

    fn state(&self) -> PathBuf {
        self.place.0.join("state")
    }

    /// Starts a daemon, also after one that was killed. Returns its settings.
    fn start(&mut self) -> Config {
        let config = running_config::load(&self.file(), &self.state()).expect("valid");
        let config = Config { state_directory: Some(self.state()), ..config };
        self.host = Host::new();
        self.host.hub = std::mem::take(&mut self.host.hub)
            .with_config(RunningConfig::new(&config).expect("valid"));
        config
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).expect("an own file");
    }

    fn ask(&mut self, line: &str) -> Value {
        let mut peer = self.host.connect();
        self.host.ask(&mut peer, line)
    }

    fn refused(&mut self, line: &str) -> String {
        let answer = self.ask(line);
        assert_eq!(answer["error"]["code"], "rejected", "{line}: {answer}");
        assert!(answer["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{answer}");
        answer["error"]["message"].as_str().expect("a message").to_owned()
    }

    /// Lets time pass, and returns the refresh period and the number of interfaces that node and host are told, if they are.
    fn after(&mut self, seconds: u64) -> Option<(u64, usize)> {
        self.host.now = self.host.now + Duration::from_secs(seconds);
        let config = self.host.hub.config();
        config.expire(self.host.now);
        config.take_change().map(|change| told(&change))
    }

    /// Returns the names of the files in the state directory.
    fn kept(&self) -> usize {
        std::fs::read_dir(self.state()).expect("a directory").count()
    }

    /// Returns the keys that differ.
    fn differing(&mut self) -> Vec<String> {
        let answer = self.ask(COMPARE);
        let rows = answer["ok"]["differences"].as_array().unwrap_or_else(|| panic!("{answer}"));
        rows.iter().map(|row| row["key"].as_str().expect("a key").to_owned()).collect()
    }
}

fn refresh(config: &Config) -> u64 {
    let rsvp: earmarkd::protocols::rsvp::RsvpConfig = config.settings.get();
    rsvp.timing.refresh.as_secs()
}

fn told(change: &ConfigChange) -> (u64, usize) {
    (refresh(&change.config), change.config.interfaces.len())
}

fn with_refresh(seconds: u64) -> String {
    MAIN.replace("30s", &format!("{seconds}s"))
}

#[test]
fn comparison_names_what_differs_and_changes_nothing() {
    let mut daemon = Configured::new(MAIN);
    let same = daemon.ask(COMPARE);
    assert_eq!(same["ok"]["differences"], json!([]), "{same}");
    assert_eq!(same["ok"]["files"], json!([daemon.file()]));
    daemon.write(&with_refresh(9).replace("h1", "h2"));
    let answer = daemon.ask(COMPARE);
    let place = |line: u32| format!("{}:{line}", daemon.file().display());
    let expected = json!([
        {"key": "node.name", "running": "\"h1\"", "file": "\"h2\"", "place": place(2), "effect": "restart"},
        {"key": "rsvp.refresh", "running": "\"30s\"", "file": "\"9s\"", "place": place(7), "effect": "reload"},
    ]);
    assert_eq!(answer["ok"]["differences"], expected, "{answer}");
    assert_eq!(daemon.after(100), None);
    assert_eq!(daemon.kept(), 0);
}

/// What waits for a restart still differs after it was applied.
#[test]
fn applied_settings_run_and_others_wait_for_a_restart() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9).replace("h1", "h2"));
    let answer = daemon.ask(APPLY);
    assert_eq!(answer["ok"]["differences"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(daemon.after(0), Some((9, 1)));
    assert_eq!(daemon.differing(), ["node.name"]);
    assert_eq!(
        (daemon.after(1_000), daemon.kept()),
        (None, 0),
        "without a time it needs no confirmation"
    );
}

#[test]
fn confirmed_settings_stay() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    let answer = daemon.ask(APPLY_60S);
    assert_eq!(answer["ok"]["pending"]["left_ms"], 60_000, "{answer}");
    assert_eq!(daemon.after(0), Some((9, 1)));
    assert_eq!((daemon.after(59), daemon.kept()), (None, 1));
    let pending = daemon.ask(COMPARE)["ok"]["pending"].clone();
    assert_eq!(pending["left_ms"], 1_000, "{pending}");
    assert!(daemon.ask(CONFIRM)["ok"].is_object());
    assert_eq!((daemon.after(1_000), daemon.kept()), (None, 0));
    assert_eq!(daemon.differing(), [""; 0]);
    assert!(daemon.refused(CONFIRM).contains("no settings await confirmation"));
    assert!(daemon.refused(ROLL_BACK).contains("no settings await confirmation"));
    assert_eq!(refresh(&daemon.start()), 9);
}

#[test]
fn settings_without_confirmation_are_taken_back_though_their_client_is_gone() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&format!("{}[[interface]]\nname = \"eth1\"\n", with_refresh(9)));
    let mut peer = daemon.host.connect();
    assert!(daemon.host.ask(&mut peer, APPLY_60S)["ok"].is_object());
    let Peer { id, stream, .. } = peer;
    stream.shutdown(std::net::Shutdown::Both).expect("connected");
    let gone = Peer { id, stream, read: Vec::new() };
    daemon.host.serve(&gone);
    assert!(!daemon.host.is_connected(&gone));
    assert_eq!(daemon.after(0), Some((9, 2)));
    assert_eq!(daemon.after(59), None);
    let due = daemon.host.now + Duration::from_secs(1);
    assert_eq!(daemon.host.hub.config().next_deadline(), Some(due));
    assert_eq!(daemon.after(1), Some((30, 1)), "also the new interface takes part no more");
    assert_eq!(daemon.host.hub.config().next_deadline(), None);
    assert_eq!(daemon.after(1_000), None, "once");
    // The file still has what was taken back, which the interface may join again by.
    assert_eq!(daemon.differing(), ["interface eth1: name", "rsvp.refresh"]);
    assert!(daemon.ask(APPLY)["ok"].is_object());
    assert_eq!(daemon.after(0), Some((9, 2)));
}

#[test]
fn rollback_takes_settings_back_at_once() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    assert_eq!(daemon.after(1), Some((9, 1)));
    assert!(daemon.ask(ROLL_BACK)["ok"].is_object());
    assert_eq!(daemon.after(0), Some((30, 1)));
}

#[test]
fn second_apply_and_reload_are_refused_while_settings_await_confirmation() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    assert_eq!(daemon.after(18), Some((9, 1)));
    daemon.write(&with_refresh(8));
    for apply in [APPLY, APPLY_60S] {
        let message = daemon.refused(apply);
        assert!(message.contains("await confirmation for 42 s more"), "{message}");
        assert!(message.contains("user "), "{message}");
    }
    let now = daemon.host.now;
    let error = daemon.host.hub.config().reload(now).expect_err("SIGHUP").to_string();
    assert!(error.contains("h1.toml: not read: settings await confirmation for 42 s"), "{error}");
    assert!(error.contains("help: `earmark config confirm`"), "{error}");
    assert_eq!(daemon.after(41), None, "neither changes settings nor the time");
    assert_eq!(daemon.after(1), Some((30, 1)));
    let now = daemon.host.now;
    daemon.host.hub.config().reload(now).expect("SIGHUP");
    assert_eq!(daemon.after(0), Some((8, 1)));
    assert_eq!(daemon.kept(), 0, "the operator has asked for the file");
}

#[test]
fn refused_apply_changes_nothing() {
    let mut daemon = Configured::new(MAIN);
    daemon.place.file("keys", "nonsense");
    let keys = daemon.place.0.join("keys");
    let refused = [
        (MAIN.replace("10Mbit", "10MB"), "h1.toml:5: interface.bandwidth: the unit of a rate"),
        (MAIN.replace("[rsvp]", "[rsvp"), "h1.toml:6"),
        (format!("include = [\"none\"]\n{MAIN}"), "none: cannot read the file"),
        (
            format!(
                "{MAIN}[nsis.tls]\nport = 30271\nkey = \"/none\"\nby = \"keys\"\npublic_keys = \"/none\"\n"
            ),
            "/none",
        ),
    ];
    for (text, told) in &refused {
        daemon.write(text);
        for line in [COMPARE, APPLY, APPLY_60S] {
            let message = daemon.refused(line);
            assert!(message.contains(told), "{line}: {message}");
        }
        // A reload keeps old keys and certificates instead.
        if !text.contains("nsis.tls") {
            let now = daemon.host.now;
            assert!(daemon.host.hub.config().reload(now).is_err(), "{text}");
        }
        assert_eq!((daemon.after(100), daemon.kept()), (None, 0), "{text}");
    }
    daemon.write(&with_refresh(9));
    for ms in ["0", "999", "86400001", "18446744073709551615"] {
        let message = daemon.refused(&APPLY_60S.replace("60000", ms));
        assert!(message.contains("out of range"), "{ms}: {message}");
    }
    std::fs::remove_file(daemon.file()).expect("an own file");
    assert!(daemon.refused(APPLY).contains("No such file"));
    assert_eq!((daemon.after(100), daemon.kept()), (None, 0));

    // A mistake in the keys that the daemon needs.
    std::fs::set_permissions(&keys, Permissions::from_mode(0o600)).expect("an own file");
    let signed = MAIN.replace("10Mbit\"", "10Mbit\"\nintegrity = \"both\"");
    let text = format!("{signed}[integrity]\nkeys = {keys:?}\n");
    daemon.write(&text);
    let config = Config::load(&daemon.file()).expect("the settings are valid");
    let started = RunningConfig::new(&config).expect("valid");
    daemon.host.hub = std::mem::take(&mut daemon.host.hub).with_config(started);
    let message = daemon.refused(APPLY);
    assert!(message.contains("keys:1"), "{message}");
    assert_eq!(daemon.after(100), None);
}

#[test]
fn apply_without_a_way_back_is_refused() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    std::fs::remove_dir(daemon.state()).expect("an own directory");
    let message = daemon.refused(APPLY_60S);
    assert!(message.contains("state directory: No such file"), "{message}");
    assert_eq!(daemon.after(100), None);
    assert!(daemon.ask(APPLY)["ok"].is_object(), "without a confirmation nothing is kept");

    let config = Config::load(&daemon.file()).expect("valid");
    let without = RunningConfig::new(&config).expect("valid");
    daemon.host.hub = std::mem::take(&mut daemon.host.hub).with_config(without);
    assert!(daemon.refused(APPLY_60S).contains("no directory to keep the earlier"));

    daemon.host.hub = std::mem::take(&mut daemon.host.hub).with_config(RunningConfig::default());
    for line in [COMPARE, APPLY, APPLY_60S, CONFIRM, ROLL_BACK] {
        assert!(daemon.refused(line).contains("runs without a configuration file"));
    }
}

/// The daemon is killed before the confirmation: the next ones start with the earlier settings until the file changes.
#[test]
fn earlier_settings_come_back_after_a_crash() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    assert_eq!(daemon.after(1), Some((9, 1)));
    for start in 0..3 {
        assert_eq!(refresh(&daemon.start()), 30, "start {start}");
    }
    assert_eq!(daemon.differing(), ["rsvp.refresh"], "it is compared with what runs");
    daemon.write(&with_refresh(8));
    assert_eq!(refresh(&daemon.start()), 8, "somebody has changed the file");
    assert_eq!(daemon.kept(), 0);
}

/// A daemon that has taken settings back is killed later: the next one does not use them either.
#[test]
fn settings_that_were_taken_back_are_not_used_by_the_next_daemon() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    assert_eq!(daemon.after(0), Some((9, 1)));
    assert_eq!(daemon.after(60), Some((30, 1)));
    assert_eq!(refresh(&daemon.start()), 30);
    // With the file broken, the earlier settings still start, because nobody has confirmed others.
    daemon.write("nonsense");
    let broken = running_config::load(&daemon.file(), &daemon.state());
    assert!(broken.is_err(), "a file that was changed is read");
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY)["ok"].is_object());
    assert_eq!(refresh(&daemon.start()), 9, "it was applied for good");
}

#[test]
fn file_is_broken_in_the_window_and_the_daemon_is_killed() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    daemon.write("nonsense");
    assert_eq!(refresh(&daemon.start()), 30);
    assert_eq!(refresh(&daemon.start()), 30);
}

#[test]
fn state_that_others_could_have_written_is_refused() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    let mut entries = std::fs::read_dir(daemon.state()).expect("a directory");
    let file = entries.next().expect("a file").expect("readable").path();
    let load = || {
        let loaded = running_config::load(&daemon.file(), &daemon.state());
        loaded.map(|config| refresh(&config)).map_err(|error| error.to_string())
    };
    let mode = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("own");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    mode(0o666);
    let error = load().expect_err("mode 666");
    assert!(error.contains("other users may use it (mode 0666)"), "{error}");
    mode(0o600);
    std::fs::write(&file, "{\"earlier\":").expect("own");
    let error = load().expect_err("half a file");
    assert!(error.contains("no earlier configuration of a daemon"), "{error}");
    assert!(error.contains("help: remove it to start with the present"), "{error}");
    std::fs::remove_file(&file).expect("own");
    assert_eq!(load(), Ok(9));
}

/// Only operators change the configuration, or see its files.
#[test]
fn reader_neither_confirms_nor_compares() {
    let mut daemon = Configured::new(MAIN);
    daemon.write(&with_refresh(9));
    assert!(daemon.ask(APPLY_60S)["ok"].is_object());
    let mut control = Control::new("/unused");
    (control.group, control.readers) = (Some("4001".to_owned()), Some("4002".to_owned()));
    let roles = Roles::of(&control).expect("numbers");
    daemon.host.hub = std::mem::take(&mut daemon.host.hub).with(roles, control.idle_timeout);
    let connect = |host: &mut Host, group| {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        theirs.set_nonblocking(true).expect("a socket");
        let peer = PeerCredentials { uid: 1_001, pid: 1, groups: vec![group] };
        let id = host.hub.connect_as(ours, peer, host.now).expect("room for one more");
        Peer { id, stream: theirs, read: Vec::new() }
    };
    let mut reader = connect(&mut daemon.host, 4_002);
    for line in [COMPARE, APPLY, APPLY_60S, CONFIRM, ROLL_BACK] {
        let answer = daemon.host.ask(&mut reader, line);
        assert_eq!(answer["error"]["code"], "forbidden", "{line}: {answer}");
    }
    assert_eq!(daemon.after(59), Some((9, 1)));
    let mut operator = connect(&mut daemon.host, 4_001);
    assert!(daemon.host.ask(&mut operator, CONFIRM)["ok"].is_object());
    assert_eq!(daemon.after(1), None);
}

/// Reservations stay whatever becomes of their link; the comparison says what that means.
#[test]
fn comparison_says_what_becomes_of_reservations() {
    let mut daemon = Configured::new(MAIN);
    let to = Prefix::host("10.0.9.9".parse().expect("an address"));
    let flow = Flow { protocol: 17, destination_port: 5001, ..Flow::to_range(to) };
    let (interface, rate) = (daemon.host.interface.id, Rate::from_mbps(6));
    let adopted = HostUpdate::Adopted { interface, flow, rate, protocol: None };
    daemon.host.driver.handle(Time::ZERO, Input::Host(adopted));
    let eth0 = |settings: &str| MAIN.replace("bandwidth = \"10Mbit\"", settings);
    for (text, expected) in [
        (with_refresh(9), json!([])),
        (
            eth0("bandwidth = \"20Mbit\""),
            json!([{"interface": "eth0", "effect": "fits", "bandwidth_bps": 20_000_000, "reservable_bps": 15_000_000,
                "held_bps": 6_000_000, "claims": 1}]),
        ),
        (
            eth0("bandwidth = \"10Mbit\"\nreservable = \"4Mbit\""),
            json!([{"interface": "eth0", "effect": "exceeds_reservable", "bandwidth_bps": 10_000_000,
                "reservable_bps": 4_000_000, "held_bps": 6_000_000, "claims": 1}]),
        ),
        (
            eth0("bandwidth = \"5Mbit\""),
            json!([{"interface": "eth0", "effect": "exceeds_bandwidth", "bandwidth_bps": 5_000_000,
                "reservable_bps": 3_750_000, "held_bps": 6_000_000, "claims": 1}]),
        ),
        (
            "[node]\nname = \"h1\"\n[[interface]]\nname = \"none9\"\nbandwidth = \"1Mbit\"\n"
                .to_owned(),
            json!([
                {"interface": "eth0", "effect": "leaves_at_restart", "bandwidth_bps": 10_000_000, "reservable_bps": 7_500_000,
                    "held_bps": 6_000_000, "claims": 1},
                {"interface": "none9", "effect": "joins", "bandwidth_bps": 1_000_000, "reservable_bps": 750_000,
                    "held_bps": 0, "claims": 0},
            ]),
        ),
    ] {
        daemon.write(&text);
        let answer = daemon.ask(COMPARE);
        assert_eq!(answer["ok"]["links"], expected, "{text}: {answer}");
    }
    let links = daemon.ask(r#"{"show":{"what":"links"}}"#);
    assert_eq!(links["ok"]["rows"][0]["held_bps"], 6_000_000, "{links}");
}
