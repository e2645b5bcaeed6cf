//! `earmarkd clear`: removes the traffic control and the packet filter that a stopped daemon left in the kernel, now or after the
//! adoption time.
//!
//! The daemon has ended and cannot wait itself. In a shell this command waits; under systemd a timer does, because systemd
//! ends all processes of a service with the service.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use earmark_control::command::{Failure, Output, with_cause};
use earmark_linux::{
    InterfaceName, NamespaceClaim, OpenError, PacketFilterError, TcError, capabilities, nftables,
    traffic_control,
};
use serde_json::json;

use super::arguments::ClearOptions;
use crate::config::Config;

/// Interval between checks whether a daemon has started.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn clear(options: &ClearOptions, out: &mut Output) -> Result<(), Failure> {
    if let Some(file) = &options.schedule {
        return schedule(file, out);
    }
    let missing = capabilities::missing_to_clear()?;
    if !missing.is_empty() {
        let message = format!("insufficient privileges: {}", missing.join(", "));
        return Err(Failure::new("privileges", message, "run it as root"));
    }
    if let Some(wait) = options.after
        && starts_within(wait)?
    {
        let text = "a daemon is running in this network namespace: its traffic control and packet \
                    filter stay";
        out.line(text, &json!({ "running": true, "cleared": [], "packet_filter": false }))?;
        return Ok(());
    }
    let claim = match NamespaceClaim::take() {
        Ok(claim) => claim,
        Err(OpenError::AlreadyRunning) => {
            return Err(Failure::new(
                "running",
                "a daemon is running in this network namespace",
                "stop it first; started with --cleanup it clears at its end",
            ));
        }
        Err(error) => return Err(Failure::new("input_output", with_cause(&error), "")),
    };
    let cleared = traffic_control::clear();
    // Whatever becomes of the queues, nobody keeps the pinholes any more.
    let packet_filter = nftables::clear().map_err(|error: PacketFilterError| {
        Failure::new("packet_filter", format!("cannot clear: {}", with_cause(&error)), "")
    });
    let cleared = cleared.map_err(|error: TcError| {
        Failure::new("traffic_control", format!("cannot clear: {}", with_cause(&error)), "")
    })?;
    let packet_filter = packet_filter?;
    drop(claim);
    if options.after.is_none() && sd_notify::booted().unwrap_or(false) {
        // The timer has nothing left to do, and the program may be removed before it fires.
        stop_timer(&own_namespace()?.unit());
    }
    let names: Vec<String> = cleared.iter().map(|&id| InterfaceName(id).to_string()).collect();
    let mut parts = names.clone();
    parts.extend(packet_filter.then(|| "the packet filter".to_owned()));
    let text = match parts.is_empty() {
        true => "the kernel has no traffic control and no packet filter of a daemon".to_owned(),
        false => format!("cleared: {}", parts.join(", ")),
    };
    let json = json!({ "running": false, "cleared": names, "packet_filter": packet_filter });
    out.line(&text, &json)?;
    Ok(())
}

/// Waits up to `wait` for a daemon to start. Returns whether one runs.
fn starts_within(wait: Duration) -> io::Result<bool> {
    let start = Instant::now();
    loop {
        if NamespaceClaim::is_taken()? {
            return Ok(true);
        }
        match wait.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => std::thread::sleep(left.min(LOOK)),
            None => return Ok(false),
        }
    }
}

/// Has systemd clear this network namespace after the adoption time, counted from now. An earlier timer for it is stopped.
fn schedule(file: &Path, out: &mut Output) -> Result<(), Failure> {
    // A mistake in the file keeps the daemon from starting, but its queues must still be removed.
    let time = Config::load(file).map(|config| config.adoption_time).unwrap_or_else(|error| {
        eprintln!("earmarkd: {error}");
        Config::new("", "").adoption_time
    });
    let program = std::env::current_exe()?;
    let namespace = own_namespace()?;
    let unit = namespace.unit();
    stop_timer(&unit);
    let seconds = time.as_secs_f64();
    let mut command = Command::new("systemd-run");
    command.args(["--quiet", "--collect", "--timer-property=AccuracySec=1s"]);
    command.args([format!("--unit={unit}"), format!("--on-active={seconds}s")]);
    command.arg("--description=Earmark: clear traffic control that no daemon has adopted");
    if let Some(path) = &namespace.path {
        command.arg(format!("--property=NetworkNamespacePath={}", path.display()));
    }
    let output = command.arg(&program).args(["clear", "--after", "0s"]).output();
    let why = match output {
        Ok(output) if output.status.success() => {
            let text = format!(
                "traffic control that no daemon adopts within {seconds} s is cleared \
                    ({unit}.timer)"
            );
            out.line(&text, &json!({ "unit": format!("{unit}.timer"), "after_s": seconds }))?;
            return Ok(());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::new(
        "schedule",
        format!("systemd-run failed: {why}"),
        "without systemd, `earmarkd clear --after TIME` waits by itself",
    ))
}

/// Stops the timer of a network namespace, and what it has started. Units that do not exist are no error.
fn stop_timer(unit: &str) {
    let stop = ["stop", &format!("{unit}.timer"), &format!("{unit}.service")];
    let _ = Command::new("systemctl").args(stop).stderr(Stdio::null()).status();
}

/// A network namespace, in the forms by which another process can name it.
struct OwnNamespace {
    /// Inode of the namespace, unique while the namespace exists.
    number: u64,
    /// Mount point of the namespace, if `ip netns` knows it.
    path: Option<PathBuf>,
}

impl OwnNamespace {
    /// Name of the timer that clears this namespace, and of its service.
    fn unit(&self) -> String {
        format!("earmark-clear-{}", self.number)
    }
}

fn own_namespace() -> io::Result<OwnNamespace> {
    let own = std::fs::metadata("/proc/self/ns/net")?;
    let is_own = |path: &PathBuf| {
        let other = std::fs::metadata(path);
        other.is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    };
    let named = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let path = named.map(|entry| entry.path()).find(is_own);
    Ok(OwnNamespace { number: own.ino(), path })
}
