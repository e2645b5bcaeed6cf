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

/// Writes a classic capture of IPv4 packets, each of a protocol, link type RAW.
fn capture(name: &str, payloads: &[(u8, Vec<u8>)]) -> PathBuf {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_be_bytes());
    file.extend([0, 2, 0, 4]);
    for word in [0, 0, 65_535, 101] {
        file.extend(u32::to_be_bytes(word));
    }
    for (protocol, payload) in payloads {
        let mut header = [0; 60];
        let length = ipv4::Repr {
            tos: 0,
            identification: 1,
            dont_fragment: false,
            ttl: 64,
            protocol: *protocol,
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
#[allow(dead_code)] // not in every test
pub(crate) fn values(
    dissector: &str,
    name: &str,
    protocol: u8,
    payloads: &[Vec<u8>],
    fields: &[&str],
) -> Vec<String> {
    let mut arguments = vec!["-T", "fields", "-E", "separator=;"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    let payloads: Vec<_> = payloads.iter().map(|payload| (protocol, payload.clone())).collect();
    output(dissector, name, &payloads, &arguments).lines().map(str::to_owned).collect()
}

/// A field as tshark shows it, with its place in the packet.
#[allow(dead_code)] // not in every test
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) at: usize,
    pub(crate) size: usize,
    pub(crate) show: String,
}

/// Returns all fields of each packet, by the dissector of this name.
///
/// # Panics
/// A dissector fails.
#[allow(dead_code)] // not in every test
pub(crate) fn fields(dissector: &str, name: &str, payloads: &[(u8, Vec<u8>)]) -> Vec<Vec<Field>> {
    let text = output(dissector, name, payloads, &["-T", "pdml"]);
    assert!(
        !text.contains("Lua Error"),
        "{}",
        text.lines().find(|it| it.contains("Lua Error")).unwrap_or("")
    );
    let mut packets: Vec<Vec<Field>> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("<packet>") {
            packets.push(Vec::new());
        }
        let attribute = |name: &str| {
            let (_, rest) = line.split_once(&format!(" {name}=\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        let number = |name: &str| attribute(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        if let (Some(packet), Some(name)) = (packets.last_mut(), attribute("name"))
            && line.starts_with("<field ")
        {
            let (at, size) = (number("pos"), number("size"));
            packet.push(Field { name, at, size, show: attribute("show").unwrap_or_default() });
        }
    }
    packets
}

/// Returns what tshark prints about these packets.
fn output(dissector: &str, name: &str, payloads: &[(u8, Vec<u8>)], arguments: &[&str]) -> String {
    let path = capture(name, payloads);
    let script =
        format!("lua_script:{}/../../dissectors/{dissector}.lua", env!("CARGO_MANIFEST_DIR"));
    let mut tshark = Process::new("tshark");
    tshark.args(["-X", &script, "-r"]).arg(&path).args(arguments);
    let output = tshark.output().expect("it was there a moment ago");
    std::fs::remove_file(&path).expect("it was written");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
