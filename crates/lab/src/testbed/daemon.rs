//! Daemon of a node as a child process: its configuration, its start, and its readiness.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use earmark_linux::netns::Namespace;

use super::{Options, State};
use earmark_scenario::topology::Topology;

/// Timeout until a daemon serves its control socket: loading the classifier may take half a second on an idle
/// machine.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Lines of a daemon's log that are shown when it does not start.
const LAST_LINES: usize = 10;

/// Returns the contents of the configuration file of a node's daemon.
pub(super) fn configuration(
    topology: &Topology,
    node: usize,
    control: &Path,
    options: &Options,
) -> String {
    let name = &topology.nodes[node].name;
    let mut text = format!(
        "[node]\nname = \"{name}\"\n\n[control]\nsocket = \"{}\"\n\n[rsvp]\nrefresh = \"{}ms\"\n{}\n\
         [boomerang]\n{}\n[yessir]\n{}\n[nsis]\n{}{}",
        control.display(),
        options.refresh.as_millis(),
        options.settings.rsvp,
        options.settings.boomerang,
        options.settings.yessir,
        options.settings.nsis,
        options.settings.own_nsis.get(name).map_or("", String::as_str)
    );
    for (end, link) in topology.interfaces(node) {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n[[interface]]\nname = \"{}\"\nbandwidth = \"{}bit\"\nreservable = \"{}bit\"\nlatency_us = {}\n\
             queue_packets = {}\nclasses = 64\n{}",
            end.interface,
            link.bandwidth.as_bps(),
            link.reservable.as_bps(),
            link.delay.as_micros(),
            link.queue_packets,
            options.settings.interface
        );
        if let Some(own) = options.settings.own.get(&(name.clone(), end.interface.clone())) {
            text.push_str(own);
        }
    }
    text
}

/// Starts the daemon of a node in its namespace, with its log appended to that of its predecessor.
pub(super) fn start(
    namespace: &Namespace,
    state: &State,
    node: &str,
    options: &Options,
) -> Result<Child> {
    let log = File::options().create(true).append(true).open(state.log(node))?;
    let mut command = namespace.command(&options.program)?;
    command.arg("node").arg("--config").arg(state.configuration(node));
    if options.bound {
        command.arg("--bound");
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // The daemon has a process group of its own: Ctrl-C on the terminal is for the program that started it, which
    // then ends it in order.
    command.process_group(0);
    Ok(command.spawn()?)
}

/// Waits until a daemon serves its control socket.
pub(super) fn wait_until_ready(child: &mut Child, state: &State, node: &str) -> Result<()> {
    let control = state.control(node);
    let deadline = Instant::now() + READY_WITHIN;
    while UnixStream::connect(&control).is_err() {
        if let Some(status) = child.try_wait()? {
            bail!(
                "the daemon of {node} ended ({status}); last lines of its log:\n{}",
                last_error_line(state, node)
            );
        }
        if Instant::now() >= deadline {
            let words = last_error_line(state, node);
            bail!(
                "the daemon of {node} is not ready after {READY_WITHIN:?}; last lines of its log:\n{words}"
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn last_error_line(state: &State, node: &str) -> String {
    let log = fs::read_to_string(state.log(node)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use earmarkd::config::Queueing;
    use earmarkd::protocols::boomerang::BoomerangConfig;
    use earmarkd::protocols::nsis::NsisConfig;
    use earmarkd::protocols::rsvp::RsvpConfig;
    use earmarkd::protocols::yessir::YessirConfig;

    use super::super::Settings;
    use super::*;

    /// The daemon's own parser reads the written configuration.
    #[test]
    fn daemon_configuration_is_valid() {
        let topology = Topology::parse(earmark_scenario::topology::DEMO).unwrap();
        let control = Path::new("/run/earmark-lab/earmark/r1.sock");
        let settings = Settings {
            rsvp: "lifetime_factor = 5\n".to_owned(),
            boomerang: "refresh = \"2s\"\n".to_owned(),
            yessir: "refresh = \"3s\"\n".to_owned(),
            nsis: "refresh = \"4s\"\n".to_owned(),
            own_nsis: [("r1".to_owned(), "validity = \"5s\"\n".to_owned())].into(),
            interface: "queues = \"none\"\n".to_owned(),
            own: [(("r1".to_owned(), "eth0".to_owned()), "faces_core = true\n".to_owned())].into(),
        };
        let options = Options::new("earmark-lab".into(), Duration::from_secs(2));
        let text = configuration(&topology, 1, control, &Options { settings, ..options });
        let config = earmarkd::config::Config::parse(&text, Path::new("r1.toml")).unwrap();
        assert_eq!((config.name.as_str(), config.control.socket.as_path()), ("r1", control));
        let rsvp: RsvpConfig = config.settings.get();
        assert_eq!(rsvp.timing.refresh, Duration::from_secs(2));
        assert_eq!(rsvp.timing.lifetime_factor, 5);
        let boomerang: BoomerangConfig = config.settings.get();
        let yessir: YessirConfig = config.settings.get();
        assert_eq!((boomerang.engine.refresh_interval, yessir.engine.interval), (2, 3));
        let nsis = config.settings.get::<NsisConfig>().engine;
        assert_eq!(nsis.qos.refresh, Duration::from_secs(4));
        assert_eq!(nsis.gist.validity, Duration::from_secs(5));
        assert!(config.interfaces.iter().all(|interface| interface.queues == Queueing::None));
        let faces_core = config.interfaces.iter().map(|interface| interface.border.is_some());
        assert!(faces_core.eq([true, false]));
        let links: Vec<_> = config
            .interfaces
            .iter()
            .map(|i| {
                let capacity = i.capacity(None).unwrap();
                (i.name.as_str(), capacity.bandwidth.as_bps(), capacity.reservable.as_bps())
            })
            .collect();
        assert_eq!(links, [("eth0", 100_000_000, 75_000_000), ("eth1", 10_000_000, 7_500_000)]);
    }
}
