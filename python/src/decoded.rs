//! Messages as text and JSON, by the decoder of capture files.

use earmark_decode::{Format, decode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Link type of capture files whose frames are IP packets (LINKTYPE_RAW).
const RAW: u32 = 101;
/// Longest frame of the file, octets.
const LONGEST: u32 = 1 << 16;

/// Returns an IP packet as text.
pub(crate) fn text(packet: &[u8]) -> PyResult<String> {
    show(packet, Format::Text)
}

/// Returns an IP packet as JSON.
pub(crate) fn json(packet: &[u8]) -> PyResult<String> {
    show(packet, Format::Json)
}

fn show(packet: &[u8], format: Format) -> PyResult<String> {
    let mut out = Vec::new();
    decode(&capture_of(packet)[..], &mut out, format)
        .map_err(|why| PyValueError::new_err(why.to_string()))?;
    Ok(String::from_utf8_lossy(out.trim_ascii_end()).into_owned())
}

/// Returns a capture file with one packet, captured at time zero.
fn capture_of(packet: &[u8]) -> Vec<u8> {
    let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    // Magic number, version 2.4, zone, accuracy, longest frame, link type; then seconds, microseconds, and the lengths.
    let header = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, LONGEST, RAW, 0, 0, length, length];
    let mut file: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    file.extend(packet);
    file
}
