//! State that a newer version has left in the kernel: the daemon does not start, and leaves it alone.

use libtest_mimic::Failed;
use rustix::process::Signal;

use crate::host::{ETH0, Host, Outcome, PROGRAM, check, pair};
use crate::interfaces::queues;

/// Attaches a program with the name of our classifier, in a layout of the future, at the egress of eth0: it passes all packets on.
const ATTACH: &str = r#"
import ctypes, os, socket, struct
def bpf(command, attributes):
    area = ctypes.create_string_buffer(attributes, 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(NUMBER, command, area, len(area))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
NUMBER = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
LOAD, ATTACH, CLASSIFIER, EGRESS = 5, 8, 3, 47
code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, -1, 0x95, 0, 0, 0))
license = ctypes.create_string_buffer(b"MIT")
name = b"earmark_egress2"
program = bpf(LOAD, struct.pack("=IIQQIIQII16sI", CLASSIFIER, 2, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0, name, 0))
bpf(ATTACH, struct.pack("=IIII", socket.if_nametoindex("eth0"), program, EGRESS, 0))
"#;

fn run(host: &Host, program: &str, arguments: &[&str]) -> Result<String, Failed> {
    let output = host.namespace.command(program)?.args(arguments).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    check(output.status.success(), &format!("{program} {arguments:?}: {errors}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks that the daemon refuses to start because of the state of a newer version, and says what to do.
fn check_refused(host: &Host, config: &str, reason: &str) -> Outcome {
    let (status, said) = host.fail_to_start(&host.configure(config)?)?;
    let is_clear = said.contains(reason) && said.contains("help: install the newer version again");
    check(status == Some(1) && is_clear, &said)
}

pub(crate) fn reservations_of_newer_version_are_refused_and_left() -> Outcome {
    let (mut host, _other) = pair()?;
    let before = queues(&host, "eth0")?;
    run(&host, "python3", &["-c", ATTACH])?;
    let reason =
        "eth0 has reservations of a newer version of Earmark (layout 2, this version knows 1)";
    check_refused(&host, ETH0, reason)?;
    check(queues(&host, "eth0")? == before, "the queues stay as they are")?;
    // It is still there: a second start is refused as well.
    check_refused(&host, ETH0, reason)?;

    check(run(&host, PROGRAM, &["clear"])? == "cleared: eth0\n", "the newer version's is cleared")?;
    host.start(ETH0)?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")
}

pub(crate) fn packet_filter_of_newer_version_is_refused_and_left() -> Outcome {
    let (mut host, _other) = pair()?;
    let table = "table inet earmark { comment \"Earmark packet filter, layout 9\"; }";
    run(&host, "nft", &[table])?;
    let config =
        &format!("{ETH0}[natfw]\nenabled = true\nfirewall = true\nexternal = [\"eth0\"]\n");
    check_refused(&host, config, "newer version of Earmark (layout 9, this version knows 1)")?;
    let listed = run(&host, "nft", &["list", "ruleset"])?;
    check(listed.contains("layout 9"), &listed)?;
    check(run(&host, PROGRAM, &["clear"])? == "cleared: the packet filter\n", "it is cleared")?;
    host.start(config)?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")
}
