//! Changes of the configuration of a real daemon: applied, taken back in time, and taken back by the next daemon after a kill.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ChildStderr;

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_linux::link;
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{ETH0, Host, Outcome, check, pair, until};
use crate::interfaces::queues;

/// A host whose daemon has a state directory.
struct Daemon {
    host: Host,
    config: PathBuf,
}

impl Daemon {
    fn new(host: Host, more: &str) -> Result<Daemon, Failed> {
        let config = host.configure(&format!("{ETH0}{more}"))?;
        std::fs::create_dir(host.directory.join("c.toml.d"))?;
        std::fs::create_dir(host.directory.join("state"))?;
        let mut daemon = Daemon { host, config };
        daemon.start()?;
        Ok(daemon)
    }

    fn start(&mut self) -> Outcome {
        let mut command = self.host.command(&self.config)?;
        // As systemd names it.
        command.env("STATE_DIRECTORY", self.host.directory.join("state"));
        let path = self.host.directory.join("log");
        let mut daemon = command.stderr(File::create(&path)?).spawn()?;
        daemon.stderr = Some(ChildStderr::from(OwnedFd::from(File::open(&path)?)));
        self.host.await_daemon(daemon)
    }

    fn log(&self) -> Result<String, Failed> {
        Ok(std::fs::read_to_string(self.host.directory.join("log"))?)
    }

    fn drop_in(&self, text: &str) -> Outcome {
        Ok(std::fs::write(self.host.directory.join("c.toml.d/change.toml"), text)?)
    }

    /// Runs `earmark config`, and returns whether it succeeds and what it prints.
    fn run(&self, arguments: &[&str]) -> Result<(bool, String), Failed> {
        let output = self.host.earmark(&[&["config"], arguments].concat())?;
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.success(), said))
    }

    /// Runs `earmark config`, and checks that it succeeds and prints these words.
    fn done(&self, arguments: &[&str], words: &[&str]) -> Outcome {
        let (is_done, said) = self.run(arguments)?;
        check(is_done && words.iter().all(|words| said.contains(words)), &said)
    }

    /// Runs `earmark config`, and checks that it fails and prints these words.
    fn refused(&self, arguments: &[&str], words: &str) -> Outcome {
        let (is_done, said) = self.run(arguments)?;
        check(!is_done && said.contains(words) && said.contains("help: "), &said)
    }

    /// Returns the interfaces that take part, with bandwidth in Mbit/s and number of reservations.
    fn links(&self) -> Result<Vec<(String, u64, u32)>, Failed> {
        let rows = self.host.client()?.show_links()?.rows;
        let link = |row: earmark_control::LinkRow| {
            (row.interface, row.bandwidth_bps.as_bps() / 1_000_000, row.claims + row.adopted)
        };
        Ok(rows.into_iter().map(link).collect())
    }

    fn expect(&self, expected: &[(&str, u64, u32)]) -> Outcome {
        until(&format!("links are {expected:?}"), || {
            let links = self.links()?;
            let same = links.iter().map(|(name, mbps, claims)| (name.as_str(), *mbps, *claims));
            Ok(same.eq(expected.iter().copied()).then_some(()))
        })
    }
}

const SLOWER: &str =
    "[[interface]]\nname = \"eth0\"\nbandwidth = \"4Mbit\"\nreservable = \"1Mbit\"\n";

/// Settings are taken back by the daemon itself, in time. Reservations stay throughout; a new interface takes part for a while.
pub(super) fn settings_are_taken_back_in_time_and_reservations_stay() -> Outcome {
    let (a, mut b) = pair()?;
    link::create_veth(&a.namespace, "eth1", &b.namespace, "eth1")?;
    link::set_up(&a.namespace, "eth1", true)?;
    link::set_up(&b.namespace, "eth1", true)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let daemon = Daemon::new(a, "")?;
    let to = "10.0.1.2:5001".parse()?;
    daemon.host.client()?.sender(ReservationRequest::new(to, Rate::from_mbps(2)))?;
    daemon.expect(&[("eth0", 10, 1)])?;

    let eth1 = "[[interface]]\nname = \"eth1\"\nbandwidth = \"5Mbit\"\n";
    daemon.drop_in(&format!("{SLOWER}{eth1}"))?;
    daemon.done(
        &["apply", "--dry-run"],
        &[
            "eth0: 2 Mbit/s in 1 reservation exceed the reservable 1 Mbit/s: they stay",
            "eth1: takes part with 5 Mbit/s",
            "change.toml:3",
        ],
    )?;
    check(daemon.links()? == [("eth0".to_owned(), 10, 1)], "a dry run changes nothing")?;
    daemon.done(&["apply", "--confirm-within", "2s"], &["await `earmark config confirm`"])?;
    daemon.expect(&[("eth0", 4, 1), ("eth1", 5, 0)])?;
    check(queues(&daemon.host, "eth1")?.contains("ea4d:"), "eth1 takes part")?;
    daemon.refused(&["apply"], "await confirmation for")?;
    // The connection of the client has ended long ago.
    daemon.expect(&[("eth0", 10, 1)])?;
    check(!queues(&daemon.host, "eth1")?.contains("ea4d:"), "eth1 takes part no more")?;
    daemon.refused(&["confirm"], "no settings await confirmation")?;
    check(daemon.log()?.contains("were not confirmed in time"), &daemon.log()?)?;

    daemon.done(&["diff"], &["interface eth1: bandwidth", "reload"])?;
    daemon.done(&["apply", "--confirm-within", "60s"], &[])?;
    daemon.done(&["confirm"], &["the settings stay"])?;
    daemon.expect(&[("eth0", 4, 1), ("eth1", 5, 0)])
}

/// The daemon is killed before the confirmation: the next one has the earlier settings, and adopts what is reserved.
pub(super) fn killed_daemon_is_followed_by_one_with_the_earlier_settings() -> Outcome {
    let (a, mut b) = pair()?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let mut daemon = Daemon::new(a, "")?;
    let to = "10.0.1.2:5001".parse()?;
    daemon.host.client()?.sender(ReservationRequest::new(to, Rate::from_mbps(2)))?;
    daemon.expect(&[("eth0", 10, 1)])?;
    daemon.drop_in(SLOWER)?;
    daemon.done(&["apply", "--confirm-within", "10min"], &[])?;
    daemon.expect(&[("eth0", 4, 1)])?;
    check(daemon.host.end(Signal::KILL)?.is_none(), "killed")?;

    for start in ["after the kill", "once more"] {
        daemon.start()?;
        daemon.expect(&[("eth0", 10, 1)]).map_err(|error| format!("{start}: {error:?}"))?;
        check(daemon.log()?.contains("nobody has confirmed this configuration"), &daemon.log()?)?;
        daemon.refused(&["confirm"], "no settings await confirmation")?;
        daemon.done(&["diff"], &["interface eth0: bandwidth", "\"4Mbit\""])?;
        check(daemon.host.end(Signal::TERM)? == Some(0), "status 0")?;
    }

    daemon.drop_in("[[interface]]\nname = \"eth0\"\nbandwidth = \"8Mbit\"\n")?;
    daemon.start()?;
    daemon.expect(&[("eth0", 8, 1)])?;
    // A reload waits for the end of the time, and the daemon serves on.
    daemon.drop_in(SLOWER)?;
    daemon.done(&["apply", "--confirm-within", "10min"], &[])?;
    daemon.drop_in("")?;
    let pid = Pid::from_child(daemon.host.daemon.as_ref().ok_or("no daemon")?);
    kill_process(pid, Signal::HUP)?;
    until("the reload is refused", || {
        Ok(daemon.log()?.contains("not read: settings await confirmation").then_some(()))
    })?;
    daemon.expect(&[("eth0", 4, 1)])?;
    daemon.done(&["rollback"], &["the earlier settings run again"])?;
    daemon.expect(&[("eth0", 8, 1)])?;
    kill_process(pid, Signal::HUP)?;
    daemon.expect(&[("eth0", 10, 1)])
}

/// Root would start the next daemon, and does not trust what another user has written.
pub(super) fn daemon_that_has_changed_its_user_has_no_way_back() -> Outcome {
    let (a, _other) = pair()?;
    let daemon = Daemon::new(a, "[daemon]\nuser = \"nobody\"\n")?;
    daemon.drop_in(SLOWER)?;
    daemon.refused(&["apply", "--confirm-within", "10min"], "has changed its user")?;
    check(daemon.links()?[0].1 == 10, "nothing has changed")
}
