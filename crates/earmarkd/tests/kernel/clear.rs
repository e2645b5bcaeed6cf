//! Traffic control that a daemon leaves in the kernel is adopted by the next one, or cleared after the adoption time, as is its
//! packet filter.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_linux::clock::Clock;
use earmark_linux::{PacketFilter, PacketFilterSettings, traffic_control};
use libtest_mimic::Failed;
use rustix::process::Signal;

use crate::host::{ETH0, Host, Outcome, PROGRAM, check, pair, until};
use crate::interfaces::queues;

/// Runs `earmarkd clear` in a host's namespace.
fn clear(host: &Host, arguments: &[&str]) -> Result<Output, Failed> {
    Ok(host.namespace.command(PROGRAM)?.arg("clear").args(arguments).output()?)
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A host whose daemon has reserved 2 Mbit/s and was stopped by a signal, and the host at the other end of the reservation.
fn ended_daemon(signal: Signal) -> Result<(Host, Host), Failed> {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    a.client()?.sender(ReservationRequest::new("10.0.1.2:5001".parse()?, Rate::from_mbps(2)))?;
    until("it is reserved", || Ok((a.client()?.show_links()?.rows[0].claims == 1).then_some(())))?;
    let status = a.end(signal)?;
    check(status == (signal == Signal::TERM).then_some(0), &format!("{status:?}"))?;
    check(has_class(&a)?, "the class of the reservation stays")?;
    Ok((a, b))
}

/// Whether a class of 2 Mbit/s is on the link.
fn has_class(host: &Host) -> Result<bool, Failed> {
    let output = host.namespace.command("tc")?.args(["class", "show", "dev", "eth0"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("rate 2Mbit"))
}

/// Checks that no interface has queues or a classifier of the daemon; a second `clear` finds a classifier by its name.
fn check_clear(host: &Host) -> Outcome {
    let left = queues(host, "eth0")?;
    check(!left.contains("ea4d"), &left)?;
    let found = host.namespace.run_in(traffic_control::clear)??;
    check(found.is_empty(), &format!("left on {found:?}"))
}

pub(crate) fn what_is_left_is_cleared_once_no_daemon_runs() -> Outcome {
    for signal in [Signal::TERM, Signal::KILL] {
        let (a, b) = ended_daemon(signal)?;
        let refused = clear(&b, &[])?;
        check(refused.status.code() == Some(1), &said(&refused))?;
        check(said(&refused).contains("a daemon is running"), &said(&refused))?;
        check(queues(&b, "eth0")?.contains("ea4d"), "the queues of a running daemon stay")?;

        let settings = PacketFilterSettings::new(["eth0"]);
        let opened = a.namespace.run_in(|| PacketFilter::open(settings, Clock::start()))?;
        drop(opened?);
        let start = Instant::now();
        let cleared = clear(&a, &["--after", "1500ms"])?;
        check(start.elapsed() >= Duration::from_millis(1_500), "it waits")?;
        check(cleared.status.code() == Some(0), &said(&cleared))?;
        check(said(&cleared) == "cleared: eth0, the packet filter\n", &said(&cleared))?;
        check_clear(&a)?;
        let again = clear(&a, &["--json"])?;
        let nothing = "{\"running\":false,\"cleared\":[],\"packet_filter\":false}\n";
        check(said(&again) == nothing, &said(&again))?;
    }
    Ok(())
}

/// A daemon that failed to start leaves nothing, unless an earlier one has left reservations.
pub(crate) fn failed_start_leaves_only_what_was_reserved() -> Outcome {
    let (host, _other) = pair()?;
    let wrong = format!("{ETH0}[daemon]\nrecord = \"/nonexistent/inputs.jsonl\"\n");
    let (status, said) = host.fail_to_start(&host.configure(&wrong)?)?;
    check(status == Some(1) && said.contains("daemon.record"), &said)?;
    check_clear(&host)?;
    let (host, _other) = ended_daemon(Signal::TERM)?;
    let (status, said) = host.fail_to_start(&host.configure(&wrong)?)?;
    check(status == Some(1) && said.contains("daemon.record"), &said)?;
    check(has_class(&host)?, "the reservation keeps its class")
}

/// A daemon that starts in time adopts the reservations; a waiting `earmarkd clear` detects it and leaves them alone.
pub(crate) fn what_is_adopted_in_time_stays() -> Outcome {
    let (mut a, _b) = ended_daemon(Signal::TERM)?;
    let mut command = a.namespace.command(PROGRAM)?;
    command.args(["clear", "--after", "3s"]).stdout(Stdio::piped());
    let waiting: Child = command.spawn()?;
    a.start(ETH0)?;
    let row = a.client()?.show_links()?.rows.remove(0);
    check(row.adopted + row.claims == 1, &format!("{row:?}"))?;
    let output = waiting.wait_with_output()?;
    check(output.status.code() == Some(0), &said(&output))?;
    check(said(&output).contains("its traffic control and packet filter stay"), &said(&output))?;
    check(has_class(&a)?, "the reservation keeps its class")
}

/// Stub programs record the request to systemd: the adoption time of the configuration, counted anew, in the right namespace.
/// For a configuration with an error the default applies.
pub(crate) fn clearing_is_scheduled_after_the_adoption_time() -> Outcome {
    let host = Host::new("s")?;
    for program in ["systemctl", "systemd-run"] {
        let path = host.directory.join(program);
        let calls = host.directory.join("calls");
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho {program} \"$@\" >> {}\n", calls.display()),
        )?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let path = format!("{}:{}", host.directory.display(), std::env::var("PATH")?);
    for (text, seconds) in [
        ("[daemon]\nadoption_time = \"45s\"\n", 45),
        ("", 180),
        ("[daemon]\nadoption_time = \"never\"\n", 180),
    ] {
        let config = host.configure(text)?;
        let mut command = host.namespace.command(PROGRAM)?;
        let command = command.env("PATH", &path).args(["clear", "--schedule"]).arg(&config);
        let output = command.output()?;
        check(output.status.code() == Some(0), &said(&output))?;
        check(said(&output).contains(&format!("within {seconds} s")), &said(&output))?;
        let calls = std::fs::read_to_string(host.directory.join("calls"))?;
        std::fs::remove_file(host.directory.join("calls"))?;
        let [stop, run] = calls.lines().collect::<Vec<_>>()[..] else {
            return Err(calls.into());
        };
        let unit = stop.split_once("stop ").map_or("", |(_, rest)| rest);
        let unit = unit.split_once(".timer").map_or("", |(unit, _)| unit);
        check(unit.starts_with("earmark-clear-"), stop)?;
        for words in [&format!("--unit={unit} "), &format!("--on-active={seconds}s ")] {
            check(run.contains(words), &format!("{words}: {run}"))?;
        }
        check(run.ends_with("earmarkd clear --after 0s"), run)?;
        check(!run.contains("NetworkNamespacePath"), "a namespace without a name is the host's")?;
    }
    let mut command = host.namespace.command(PROGRAM)?;
    let output =
        command.env("PATH", "/nonexistent").args(["clear", "--schedule", "c.toml"]).output()?;
    check(output.status.code() == Some(1), &said(&output))?;
    check(said(&output).contains("systemd-run failed"), &said(&output))
}
