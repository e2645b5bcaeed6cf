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
use crate::protocols::PROTOCOLS;
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
    let Options { settings, refresh, .. } = options;
    let mut text =
        format!("[node]\nname = \"{name}\"\n\n[control]\nsocket = \"{}\"\n", control.display());
    for protocol in PROTOCOLS {
        let table = protocol.name();
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n[{table}]\n{}", protocol.settings(*refresh));
        let lines = settings.protocols.get(table);
        let own = settings.own_protocols.get(&(name.clone(), table));
        text.extend(lines.into_iter().chain(own).map(String::as_str));
    }
    text.push_str(&settings.tables);
    for (end, link) in topology.interfaces(node) {
        let _ = write!(
            text,
            "\n[[interface]]\nname = \"{}\"\nbandwidth = \"{}bit\"\nreservable = \"{}bit\"\nlatency_us = {}\n\
             queue_packets = {}\nclasses = 64\n{}",
            end.interface,
            link.bandwidth.as_bps(),
            link.reservable.as_bps(),
            link.delay.as_micros(),
            link.queue_packets,
            settings.interface
        );
        if settings.all_core || topology.is_between_routers(link) {
            text.push_str("role = \"core\"\n");
        }
        if let Some(own) = settings.own.get(&(name.clone(), end.interface.clone())) {
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
mod tests;
