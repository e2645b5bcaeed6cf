//! The daemon as a process: start, refusal, user, end and restart.

use std::process::Command;
use std::time::Instant;

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use libtest_mimic::Failed;
use rustix::process::Signal;

use crate::host::{ETH0, Host, Outcome, PATIENCE, PROGRAM, check, line, pair, until};

pub(super) fn a_daemon_serves_and_ends_in_good_order() -> Outcome {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut host, _other) = pair()?;
        host.start(ETH0)?;
        let links = host.client()?.show_links()?.rows;
        check(links.len() == 1 && links[0].interface == "eth0", &format!("{links:?}"))?;
        check(links[0].reservable_bps == Rate::from_bps(7_500_000), &format!("{links:?}"))?;
        let mut watcher = host.client()?;
        watcher.start_watching()?;
        check(host.end(signal)? == Some(0), "status 0")?;
        let last = watcher.next_event(Some(Instant::now() + PATIENCE));
        check(last.is_err_and(|e| e.to_string() == "the daemon stops"), "watchers are told")?;
        check(!host.socket().exists(), "the control socket is gone")?;
    }
    Ok(())
}

pub(super) fn a_second_daemon_is_refused() -> Outcome {
    let (mut host, _other) = pair()?;
    host.start(ETH0)?;
    let other_socket = host.directory.join("second.toml");
    std::fs::write(
        &other_socket,
        format!("[control]\nsocket = \"{}2\"\n", host.socket().display()),
    )?;
    let (status, said) = host.fail_to_start(&other_socket)?;
    check(status == Some(1) && said.contains("another daemon is running"), &said)?;
    check(host.client()?.show_links().is_ok(), "the first one serves on")
}

pub(super) fn a_socket_that_is_served_is_refused() -> Outcome {
    let (mut first, second) = pair()?;
    first.start(ETH0)?;
    let config = second.directory.join("c.toml");
    std::fs::write(&config, format!("[control]\nsocket = \"{}\"\n", first.socket().display()))?;
    let (status, said) = second.fail_to_start(&config)?;
    check(status == Some(1) && said.contains("another daemon is serving on"), &said)?;
    check(first.client()?.show_links().is_ok(), "the first one serves on")
}

pub(super) fn a_killed_daemon_is_replaced() -> Outcome {
    let (mut host, _other) = pair()?;
    host.start(ETH0)?;
    check(host.end(Signal::KILL)?.is_none(), "killed")?;
    check(host.socket().exists(), "it leaves its socket behind")?;
    host.start(ETH0)?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")
}

/// An ordinary user gets one error that names the missing privileges and what to do.
pub(super) fn without_privileges_it_says_which() -> Outcome {
    use std::os::unix::process::CommandExt;
    let host = Host::new("nobody")?;
    let config = host.configure(ETH0)?;
    // The build directory may be inaccessible to that user.
    let program = host.directory.join("earmarkd");
    std::fs::copy(PROGRAM, &program)?;
    let mut command = Command::new(program);
    command.arg("--config").arg(config).uid(65_534).gid(65_534);
    // The thread's namespace is inherited by the child; entering it takes privileges that the child no longer has.
    let output = host.namespace.run_in(|| command.output())??;
    let said = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(1), &format!("{:?}", output.status))?;
    check(said.contains("CAP_NET_ADMIN, CAP_NET_RAW"), &said)?;
    check(said.contains("help: start the daemon as root"), &said)
}

/// With `daemon.user` the process belongs to that user, keeps two capabilities, and works as before.
pub(super) fn a_daemon_becomes_its_user_and_still_serves() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{ETH0}[daemon]\nuser = \"nobody\"\n"))?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let output =
        a.earmark(&["reserve", "--to", "10.0.1.2:5001", "--rate", "2Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    let pid = a.daemon.as_ref().ok_or("no daemon")?.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let ids = field("Uid:").unwrap_or_default().split_whitespace();
    check(ids.clone().count() == 4 && ids.clone().all(|id| id == "65534"), &status)?;
    // CAP_NET_ADMIN is bit 12, CAP_NET_RAW bit 13.
    for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
        let bits = u64::from_str_radix(field(set).unwrap_or_default().trim(), 16)?;
        check(bits == 0b11 << 12, &status)?;
    }
    check(a.end(Signal::TERM)? == Some(0), "status 0")
}

/// The router's daemon dies and restarts: the class is adopted, and the refreshes restore the state for it.
pub(super) fn a_reservation_survives_kill_and_restart() -> Outcome {
    let [mut a, mut r, mut b] = line()?;
    let both = format!("{ETH0}{}", ETH0.replace("eth0", "eth1"));
    a.start(ETH0)?;
    r.start(&both)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.2.2:5001".parse()?))?;
    a.client()?.sender(ReservationRequest::new("10.0.2.2:5001".parse()?, Rate::from_mbps(2)))?;
    let claims = |r: &Host| -> Result<Option<(u32, u32)>, Failed> {
        let rows = r.client()?.show_links()?.rows;
        let link = rows.iter().find(|link| link.interface == "eth1").ok_or("no eth1")?;
        Ok(Some((link.claims, link.adopted)))
    };
    until("the router has reserved", || Ok(claims(&r)?.filter(|&found| found == (1, 0))))?;

    r.end(Signal::KILL)?;
    r.start(&both)?;
    // The reservation is adopted at once and claimed by the next refreshes, without any other state in between.
    until("the new daemon has claimed what it adopted", || {
        let found = claims(&r)?.ok_or("no answer")?;
        check(found.0 + found.1 == 1, &format!("claims and adopted flows: {found:?}"))?;
        Ok((found == (1, 0)).then_some(()))
    })?;
    let rows = r.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].rate_bps == 2_000_000, &format!("{rows:?}"))
}
