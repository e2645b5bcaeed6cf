//! The daemon as a process: start, refusal, user, end and restart.

use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Instant;

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use libtest_mimic::Failed;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{ETH0, Host, Outcome, PATIENCE, PROGRAM, check, line, log, pair, until, wait};

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

/// The log goes to a full disk, or to a program that has ended.
pub(super) fn a_daemon_serves_without_its_log() -> Outcome {
    let (reader, closed) = std::io::pipe()?;
    drop(reader);
    let full = OwnedFd::from(File::options().write(true).open("/dev/full")?);
    for (name, log) in [("full", full), ("closed", closed.into())] {
        let (mut host, _other) = pair()?;
        let config = host.configure(ETH0)?;
        let daemon = host.command(&config)?.stderr(log).spawn()?;
        host.await_daemon(daemon)?;
        check(host.client()?.show_links()?.rows.len() == 1, name)?;
        check(host.end(Signal::TERM)? == Some(0), name)?;
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

/// Clients of other users are told apart by their groups: a reader lists and changes nothing, a stranger is refused, and
/// the log names who changed what.
pub(super) fn readers_operators_and_strangers_are_told_apart() -> Outcome {
    let (mut host, _other) = pair()?;
    std::fs::set_permissions(&host.directory, Permissions::from_mode(0o755))?;
    let config = host.configure(&format!("{ETH0}[daemon]\nuser = \"nobody\"\n"))?;
    let text = std::fs::read_to_string(&config)?;
    let text = text.replacen("[control]\n", "[control]\ngroup = \"4001\"\nreaders = \"4002\"\n", 1);
    std::fs::write(&config, text)?;
    host.start_with(&config)?;
    check(mode(&host.socket())? == 0o666, "the socket is for all, the daemon decides")?;
    // Another user may have no access to the build directory.
    let program = host.directory.join("earmark");
    std::fs::copy(std::env::current_exe()?, &program)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", host.directory.display());
    let earmark = |uid: u32, groups: &str, arguments: &[&str]| -> Result<(bool, String), Failed> {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={uid}"));
        command.arg(format!("--groups={groups}")).args(["--", "earmark"]);
        command.env("PATH", path.as_str());
        let output = command.arg("--control").arg(host.socket()).args(arguments).output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let announce = ["send", "--to", "10.0.1.2:5001", "--rate", "1Mbit"];
    let (show, release) = (["show", "links"], ["release", "1"]);
    let change = ["change", "1", "--rate", "2Mbit"];
    for (uid, groups, arguments, told) in [
        (4_100, "4003", &show[..], Some("user 4100 may not use the control socket")),
        (4_101, "4002,4003", &show[..], None),
        (4_101, "4002,4003", &announce[..], Some("this request needs group \"4001\"")),
        (4_101, "4002", &release[..], Some("user 4101 may only list and watch")),
        (4_102, "4001", &announce[..], None),
        (4_101, "4002", &change[..], Some("user 4101 may only list and watch")),
        (4_102, "4001", &change[..], None),
        (4_102, "4001", &release[..], None),
        (65_534, "65534", &show[..], None),
    ] {
        let (is_ok, said) = earmark(uid, groups, arguments)?;
        let what = format!("{uid} in {groups}: {arguments:?}: {said}");
        check(is_ok == told.is_none() && said.contains(told.unwrap_or_default()), &what)?;
    }
    let mut daemon = host.daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    wait(&mut daemon)?;
    let said = log(&mut daemon);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("control request")).collect();
    for (user, parts) in [
        ("uid=4101 ", ["request=reserve", "flow=\"to 10.0.1.2:5001", "outcome=forbidden"]),
        ("uid=4101 ", ["request=release", "application=1", "outcome=forbidden"]),
        ("uid=4102 ", ["request=reserve", "application=1", "outcome=ok"]),
        ("uid=4101 ", ["request=change", "application=1", "outcome=forbidden"]),
        ("uid=4102 ", ["request=change", "5001 rate 2 Mbit/s", "outcome=ok"]),
        ("uid=4102 ", ["request=release", "flow=\"to 10.0.1.2:5001", "outcome=ok"]),
    ] {
        let is_it = |line: &&&str| line.contains(user) && parts.iter().all(|p| line.contains(p));
        check(lines.iter().filter(is_it).count() == 1, &format!("{user}{parts:?}: {lines:#?}"))?;
    }
    check(lines.len() == 6, &format!("{lines:#?}"))
}

/// Recordings are for their owner even if a file for all existed, and neither they nor the log contain a secret seed.
pub(super) fn recording_is_private_and_the_log_has_no_seed() -> Outcome {
    let (mut host, _other) = pair()?;
    let recording = host.directory.join("inputs.jsonl");
    std::fs::write(&recording, "of an earlier daemon")?;
    std::fs::set_permissions(&recording, Permissions::from_mode(0o644))?;
    host.start(&format!("{ETH0}[daemon]\nrecord = {recording:?}\n"))?;
    check(mode(&recording)? == 0o600, "mode of the recording")?;
    check(mode(&host.socket())? == 0o660, "mode of the socket")?;
    let pid = host.daemon.as_ref().ok_or("no daemon")?.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    check(status.contains("Umask:\t0077\n"), &status)?;
    let secrets = host.directory.join("inputs.jsonl.secrets");
    check(!secrets.exists(), "secrets are written on request only")?;
    let text = std::fs::read_to_string(&recording)?;
    check(text.contains("\"secret_seed\":\"redacted\""), "the seed is redacted")?;
    let mut daemon = host.daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    wait(&mut daemon)?;
    check(!log(&mut daemon).contains("seed"), "the log has no seed")?;

    let mut command = host.command(&host.directory.join("c.toml"))?;
    let mut daemon = command.arg("--record-secrets").spawn()?;
    until("the secrets are written", || Ok(secrets.exists().then_some(())))?;
    check(mode(&secrets)? == 0o600, "mode of the secrets")?;
    // Before it listens, the signal ends it with an incomplete recording.
    until("the daemon listens", || Ok(UnixStream::connect(host.socket()).ok()))?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    wait(&mut daemon)?;
    let replay = |arguments: &[&std::ffi::OsStr]| -> Result<String, Failed> {
        let output =
            Command::new(PROGRAM).arg("replay").arg(&recording).args(arguments).output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let differs = "identifiers and cookies differ";
    check(replay(&[])?.contains(differs), "without the secrets")?;
    check(!replay(&["--secrets".as_ref(), secrets.as_ref()])?.contains(differs), "with them")
}

fn mode(path: &std::path::Path) -> Result<u32, Failed> {
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o7777)
}
