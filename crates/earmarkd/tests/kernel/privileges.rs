//! Least privilege: the user, the capabilities and the system calls of a daemon that serves, and the hardening of its unit.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::Rate;
use rustix::process::Signal;

use crate::host::{ETH0, Host, Outcome, PROGRAM, check, pair, until};

/// Capabilities of the shipped unit.
const CAPABILITIES: &str = "+net_admin,+net_raw,+sys_admin,+net_bind_service";
/// Number of an ordinary user, `nobody`.
const USER: &str = "65534";

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/earmark.service");

/// Starts a daemon as the unit does: as an ordinary user with some capabilities.
fn start(host: &mut Host) -> Outcome {
    let config = host.configure(ETH0)?;
    std::fs::set_permissions(&host.directory, Permissions::from_mode(0o777))?;
    // The build directory may be inaccessible to that user.
    let program = host.directory.join("earmarkd");
    if !program.exists() {
        std::fs::copy(PROGRAM, &program)?;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    command.arg(format!("--inh-caps=-all,{CAPABILITIES}"));
    command.arg(format!("--ambient-caps=-all,{CAPABILITIES}"));
    command.arg("--bounding-set").arg(format!("-all,{CAPABILITIES}"));
    command.arg("--").arg(program).arg("--config").arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let daemon = host.namespace.run_in(|| command.spawn())??;
    host.await_daemon(daemon)
}

pub(super) fn a_daemon_of_an_ordinary_user_serves_and_adopts() -> Outcome {
    let (mut a, mut b) = pair()?;
    start(&mut a)?;
    b.start(ETH0)?;
    let pid = a.daemon.as_ref().ok_or("no daemon")?.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    for line in [
        &format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n"),
        // CAP_NET_ADMIN is bit 12, CAP_NET_RAW bit 13.
        "CapPrm:\t0000000000003000\n",
        "CapEff:\t0000000000003000\n",
        "CapInh:\t0000000000000000\n",
        "CapAmb:\t0000000000000000\n",
        "NoNewPrivs:\t1\n",
        "Seccomp:\t2\n",
        "Umask:\t0077\n",
    ] {
        check(status.contains(line), &format!("{line}: {status}"))?;
    }
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    a.client()?.sender(ReservationRequest::new("10.0.1.2:5001".parse()?, Rate::from_mbps(2)))?;
    let found = |a: &Host| -> Result<_, libtest_mimic::Failed> {
        let rows = a.client()?.show_links()?.rows;
        Ok(rows.first().map(|link| (link.claims, link.adopted)))
    };
    until("it has reserved", || Ok(found(&a)?.filter(|&found| found == (1, 0))))?;
    a.end(Signal::KILL)?;
    start(&mut a)?;
    let after = found(&a)?.ok_or("no link")?;
    check(after.0 + after.1 == 1, &format!("claims and adopted flows: {after:?}"))?;
    check(a.end(Signal::TERM)? == Some(0), "status 0")
}

/// `daemon.syscall_filter = "off"` leaves the process without a filter.
pub(super) fn syscall_filter_can_be_switched_off() -> Outcome {
    for (setting, state) in [("enforce", 2), ("log", 2), ("off", 0)] {
        let mut host = Host::new("filter")?;
        host.start(&format!("[daemon]\nsyscall_filter = \"{setting}\"\n"))?;
        let pid = host.daemon.as_ref().ok_or("no daemon")?.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        check(status.contains(&format!("Seccomp:\t{state}\n")), &format!("{setting}: {status}"))?;
        check(host.end(Signal::TERM)? == Some(0), "status 0")?;
    }
    Ok(())
}

/// The exposure level of the unit is at most 2.0; docs/operation.md explains what remains.
pub(super) fn unit_is_hardened() -> Outcome {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=yes", "--threshold=20", "--no-pager", UNIT]);
    let output = command.output()?;
    check(output.status.success(), &String::from_utf8_lossy(&output.stdout))
}
