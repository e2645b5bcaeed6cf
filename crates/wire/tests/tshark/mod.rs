//! Runs tshark with a dissector of ours on packets between two nodes. Without tshark the tests are listed as ignored.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command as Process, ExitCode};

use earmark_wire::ipv4;
use libtest_mimic::{Arguments, Failed, Trial};

pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// A test with its name.
type Test<'a> = (&'a str, fn() -> Result<(), Failed>);

/// Runs these tests, if tshark is there.
pub(crate) fn run(tests: &[Test<'_>]) -> ExitCode {
    let available = Process::new("tshark").arg("--version").output();
    let missing = !available.is_ok_and(|output| output.status.success());
    let trial = |&(name, run)| Trial::test(name, run).with_ignored_flag(missing);
    let trials = tests.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Writes a classic capture of IPv4 packets, link type RAW.
fn capture(name: &str, protocol: u8, payloads: &[Vec<u8>]) -> PathBuf {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_be_bytes());
    file.extend([0, 2, 0, 4]);
    for word in [0, 0, 65_535, 101] {
        file.extend(u32::to_be_bytes(word));
    }
    for payload in payloads {
        let mut header = [0; 60];
        let length = ipv4::Repr {
            tos: 0,
            identification: 1,
            dont_fragment: false,
            ttl: 64,
            protocol,
            source: SOURCE,
            destination: DESTINATION,
            router_alert: Some(0),
            payload_len: payload.len(),
        }
        .emit(&mut header)
        .expect("the header fits");
        let size = u32::try_from(length + payload.len()).expect("short");
        for word in [0, 0, size, size] {
            file.extend(u32::to_be_bytes(word));
        }
        file.extend(&header[..length]);
        file.extend(payload);
    }
    let path = std::env::temp_dir().join(format!("earmark-{}-{name}.pcap", std::process::id()));
    std::fs::write(&path, file).expect("the temporary directory can be written to");
    path
}

/// Returns the values of these fields, one line for each packet, by the dissector of this name.
pub(crate) fn values(
    dissector: &str,
    name: &str,
    protocol: u8,
    payloads: &[Vec<u8>],
    fields: &[&str],
) -> Vec<String> {
    let path = capture(name, protocol, payloads);
    let mut tshark = Process::new("tshark");
    let script =
        format!("lua_script:{}/../../dissectors/{dissector}.lua", env!("CARGO_MANIFEST_DIR"));
    tshark.args(["-X", &script, "-r"]).arg(&path);
    tshark.args(["-T", "fields", "-E", "separator=;"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("it was there a moment ago");
    std::fs::remove_file(&path).expect("it was written");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
