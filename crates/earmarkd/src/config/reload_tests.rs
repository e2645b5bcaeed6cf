//! A reload applies what may change, and names what waits for a restart.

use std::path::Path;

use earmark_core::Rate;

use super::*;
use crate::protocols::nsis::NsisConfig;
use crate::protocols::rsvp::{RsvpConfig, RsvpInterface};

const STARTED: &str = "[node]\nname = \"r1\"\n\
    [[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\n\
    [[interface]]\nname = \"eth1\"\nbandwidth = \"10Mbit\"\n";

fn config(text: &str) -> Config {
    Config::parse(text, Path::new("r1.toml")).expect("it can be read")
}

#[test]
fn reload_applies_changes_and_names_the_others() {
    let mut started = config(STARTED);
    let text = STARTED.replace("\"r1\"", "\"r9\"").replacen(
        "\"10Mbit\"",
        "\"20Mbit\"\nqueues = \"none\"\nlargest_reservation = \"5Mbit\"\noverhead = 24\nneighbors = [\"10.0.0.1/32\"]",
        1,
    );
    let text = format!(
        "{text}[rsvp]\nrefresh = \"5s\"\nmax_sessions = 7\nmax_senders = 8\nmax_next_hops = 9\nstrict = true\nreduction.enabled = false\nhello.lost_after = 9\nhello.restart_time = \"9s\"\naccess.max_per_interface = 5\n\
         [metrics]\naddress = \"127.0.0.1:9470\"\n[web]\nlisten = \"unix:/w\"\n[history]\ndatabase = \"h.db\"\n[policy]\ndefault = \"refuse\"\n[daemon]\nreconcile = \"9s\"\nuser = \"nobody\"\n\
         [nsis]\nrefresh = \"7s\"\nmax_states = 9\nshare_of_interface = 50\nlevel = 3\nhold = \"9s\"\n[[nsis.rule]]\nrefuse = true\n"
    );
    let Reloaded { config: renewed, waiting } = started.reload(config(&text));
    assert_eq!(
        waiting,
        [
            "interface eth0: queues",
            "node.name",
            "metrics",
            "web",
            "history",
            "rsvp.reduction",
            "rsvp.hello",
            "nsis.hold",
            "nsis.level",
            "daemon.user"
        ]
    );
    let new = config(&text);
    let [nsis, wanted] = [&renewed, &new].map(|config| config.settings.get::<NsisConfig>().engine);
    assert_eq!(nsis.gist.limits, wanted.gist.limits);
    assert_eq!(nsis.qos.limits, wanted.qos.limits);
    assert_eq!((nsis.qos.refresh, &nsis.qos.policy), (wanted.qos.refresh, &wanted.qos.policy));
    assert_eq!((nsis.qos.level, wanted.qos.level), (0, 3));
    let [rsvp, wanted] = [&renewed, &new].map(|config| config.settings.get::<RsvpConfig>());
    assert_eq!((rsvp.timing, rsvp.limits), (wanted.timing, wanted.limits));
    assert!(rsvp.strict);
    assert_eq!((rsvp.hello.restart, rsvp.hello.lost_after), (wanted.hello.restart, 3.5));
    assert!(rsvp.hello.restart.restart_time.is_some());
    assert_eq!((rsvp.limits.access.max_blocks, nsis.qos.limits.share_of_interface), (5, 50));
    assert_eq!((rsvp.policy, renewed.reconcile), (wanted.policy, new.reconcile));
    assert_eq!(rsvp.reduction, started.settings.get::<RsvpConfig>().reduction);
    assert_eq!((renewed.name.as_str(), renewed.user), ("r1", None));
    let [eth0, eth1] = &renewed.interfaces[..] else { panic!("{:?}", renewed.interfaces) };
    assert_eq!((eth0.bandwidth, eth0.queues), (Some(Rate::from_mbps(20)), Default::default()));
    assert_eq!(eth0.settings.get::<RsvpInterface>().limits.neighbors.len(), 1);
    assert_eq!((eth0.largest, eth0.overhead), (Some(Rate::from_mbps(5)), 24));
    assert!(eth1.says_the_same_as(&started.interfaces[1]), "only its line is another");
    // The file is changed back to what it was.
    let Reloaded { config: renewed, waiting } = started.reload(config(STARTED));
    assert_eq!((renewed, waiting), (started, vec![]));
}

#[test]
fn reload_adds_interfaces_and_removes_none() {
    let mut started = config(STARTED);
    let eth2 = "[[interface]]\nname = \"eth2\"\nbandwidth = \"1Mbit\"\n";
    let added = format!("{STARTED}{eth2}");
    let Reloaded { config: renewed, waiting } = started.reload(config(&added));
    assert_eq!((renewed.interfaces.len(), waiting), (3, vec![]));
    let Reloaded { config: renewed, waiting } = started.reload(config(STARTED));
    assert_eq!(renewed.interfaces.len(), 3);
    assert_eq!(waiting, ["interface eth2, which was removed"]);
}
