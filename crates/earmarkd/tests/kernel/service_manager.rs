//! The daemon under a service manager: the reports that it sends, on a socket in place of systemd's.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{ETH0, Host, Outcome, PATIENCE, check, pair};

/// Timeout of the watchdog.
const WATCHDOG: Duration = Duration::from_millis(600);

/// The socket that receives the reports.
struct Reports(UnixDatagram);

impl Reports {
    /// Starts the daemon of a host with this socket.
    fn of(host: &mut Host, more: &str) -> Result<Reports, Failed> {
        let path = host.directory.join("notify");
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let config = host.configure(more)?;
        let mut command = host.command(&config)?;
        command.env("NOTIFY_SOCKET", &path);
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        let daemon = command.env_remove("WATCHDOG_PID").spawn()?;
        host.await_daemon(daemon)?;
        Ok(Reports(socket))
    }

    fn next(&self) -> Result<String, Failed> {
        let mut octets = [0; 4096];
        let length = self.0.recv(&mut octets)?;
        Ok(String::from_utf8_lossy(&octets[..length]).into_owned())
    }

    /// Returns the next report that is not to the watchdog.
    fn next_change(&self) -> Result<String, Failed> {
        loop {
            let report = self.next()?;
            if !report.starts_with("WATCHDOG=1\n") {
                return Ok(report);
            }
        }
    }
}

fn signal(host: &Host, signal: Signal) -> Outcome {
    let daemon = host.daemon.as_ref().ok_or("no daemon")?;
    Ok(kill_process(Pid::from_child(daemon), signal)?)
}

pub(super) fn service_manager_is_told_of_start_reload_and_end() -> Outcome {
    let (mut host, _other) = pair()?;
    let reports = Reports::of(&mut host, ETH0)?;
    let ready = "READY=1\nSTATUS=1 of 1 interfaces up, 0 reservations, 0 adopted\n";
    let first = reports.next()?;
    check(first == ready, &first)?;

    signal(&host, Signal::HUP)?;
    let reloading = reports.next_change()?;
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").ok_or(reloading.clone())?;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let age = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000 - time.trim().parse::<i64>()?;
    check((0..60_000_000).contains(&age), &format!("{age} us ago"))?;
    let reloaded = reports.next_change()?;
    check(reloaded == ready, &reloaded)?;

    // A reload must end even if it changes nothing, or systemd waits for it.
    host.configure("[[interface]]\nname = \"eth0\"\nbandwidth = \"10MB\"\n")?;
    signal(&host, Signal::HUP)?;
    check(reports.next_change()?.starts_with("RELOADING=1\n"), "it reloads")?;
    let refused = reports.next_change()?;
    let is_named = refused.contains("c.toml:7: interface.bandwidth: the unit of a rate");
    check(refused.starts_with("READY=1\n") && is_named, &refused)?;

    signal(&host, Signal::TERM)?;
    let stopping = reports.next_change()?;
    check(stopping == "STOPPING=1\nSTATUS=stopping\n", &stopping)
}

/// Reports come at half of the timeout, although nothing else happens, and end with a process that stands still.
pub(super) fn watchdog_hears_from_an_idle_daemon_and_not_from_a_stopped_one() -> Outcome {
    let mut host = Host::new("watchdog")?;
    let reports = Reports::of(&mut host, "")?;
    let is_report = |report: String| -> Outcome {
        let status = "WATCHDOG=1\nSTATUS=0 of 0 interfaces up, 0 reservations, 0 adopted\n";
        check(report == status, &report)
    };
    check(reports.next()?.starts_with("READY=1\n"), "it serves")?;
    is_report(reports.next()?)?;
    let start = Instant::now();
    for _ in 0..6 {
        is_report(reports.next()?)?;
    }
    // Three timeouts, with time for a machine that is busy.
    let took = start.elapsed();
    check(took >= WATCHDOG * 2 && took < WATCHDOG * 12, &format!("six reports in {took:?}"))?;

    signal(&host, Signal::STOP)?;
    reports.0.set_read_timeout(Some(WATCHDOG))?;
    // One report may be under way.
    let silent = reports.next().is_err() || reports.next().is_err();
    signal(&host, Signal::CONT)?;
    check(silent, "a process that stands still does not report")
}
