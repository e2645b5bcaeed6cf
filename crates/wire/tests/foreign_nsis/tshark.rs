//! Runs tshark with our dissector on packets between two nodes.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command as Process;

use earmark_wire::gist::iana;
use earmark_wire::ipv4;

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dissectors/nsis.lua");
pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// Protocol number of TCP.
pub(crate) const TCP: u8 = 6;

/// Returns a TCP segment whose octets begin at sequence number `sequence`.
pub(crate) fn segment(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    octets.extend(50_000_u16.to_be_bytes());
    octets.extend(iana::PORT.to_be_bytes());
    octets.extend(sequence.to_be_bytes());
    octets.extend([0, 0, 0, 1, 5 << 4, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    octets.extend(payload);
    octets
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
            router_alert: None,
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
    let path =
        std::env::temp_dir().join(format!("earmark-nsis-{}-{name}.pcap", std::process::id()));
    std::fs::write(&path, file).expect("the temporary directory can be written to");
    path
}

/// Returns the values of these fields, one line for each packet.
pub(crate) fn tshark(
    name: &str,
    protocol: u8,
    payloads: &[Vec<u8>],
    fields: &[&str],
) -> Vec<String> {
    let path = capture(name, protocol, payloads);
    let mut tshark = Process::new("tshark");
    tshark.args(["-X", &format!("lua_script:{DISSECTOR}"), "-r"]).arg(&path);
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
