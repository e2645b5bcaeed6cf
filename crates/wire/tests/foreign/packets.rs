//! Packets for the other tools: every message behind an IP header, in a capture file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use earmark_wire::rsvp::*;
use earmark_wire::{ipv4, ipv6};

use earmark_testkit::messages::rsvp::{KINDS, Parts, STYLES, has_flows, octets, sample};

/// Returns all messages of RFC 2205, one for each packet.
pub(crate) fn corpus() -> Vec<Parts> {
    let mut corpus = Vec::new();
    for ipv6 in [false, true] {
        for kind in KINDS {
            let styles = if has_flows(kind) { &STYLES[..] } else { &STYLES[..1] };
            corpus.extend(styles.iter().map(|style| sample(kind, *style, ipv6)));
        }
    }
    corpus
}

/// Returns the message behind an IP header as in RFC 2205 section 3.3.
pub(crate) fn packet(parts: &Parts) -> Vec<u8> {
    let message = octets(&parts.message());
    let alert =
        matches!(parts.kind, MessageType::Path | MessageType::PathTear | MessageType::ResvConf);
    let source = parts.template.map_or(parts.hop.address, |template| template.source);
    behind_ip(&message, source, parts.session.destination, alert)
}

/// Returns the messages newer than RFC 2205, and those of RFC 2205 with newer objects; one for each packet, with the
/// message type.
pub(crate) fn extensions() -> Vec<(MessageType, Vec<u8>)> {
    let mut packets = Vec::new();
    for ipv6 in [false, true] {
        let Parts { hop, session, .. } = sample(MessageType::Path, Style::Wildcard, ipv6);
        for message in earmark_testkit::messages::rsvp::extensions(ipv6) {
            let packet = behind_ip(&message, hop.address, session.destination, false);
            packets.push((MessageType::from_code(message[1]), packet));
        }
    }
    packets
}

fn behind_ip(message: &[u8], source: IpAddr, destination: IpAddr, alert: bool) -> Vec<u8> {
    const TTL: u8 = 63;
    let mut header = [0xa5; 64];
    let length = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Repr {
            tos: 0xc0,
            identification: 1,
            dont_fragment: false,
            ttl: TTL,
            protocol: 46,
            source,
            destination,
            router_alert: alert.then_some(0),
            payload_len: message.len(),
        }
        .emit(&mut header),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Repr {
            traffic_class: 0xc0,
            flow_label: 0,
            hop_limit: TTL,
            source,
            destination,
            router_alert: alert.then_some(earmark_wire::rsvp::iana::ROUTER_ALERT),
            next_header: 46,
            payload_len: message.len(),
        }
        .emit(&mut header),
        _ => panic!("a sample is of one family"),
    };
    [&header[..length.expect("the header fits")], message].concat()
}

/// A capture file of all packets, classic format, link type RAW; removed when dropped.
pub(crate) struct Capture(PathBuf);

impl Capture {
    pub(crate) fn write(name: &str, packets: &[Vec<u8>]) -> Capture {
        const LINKTYPE_RAW: u32 = 101;
        let mut file = Vec::new();
        file.extend(0xa1b2_c3d4_u32.to_be_bytes());
        file.extend([0, 2, 0, 4]);
        for word in [0, 0, 65_535, LINKTYPE_RAW] {
            file.extend(word.to_be_bytes());
        }
        for (second, packet) in (0u32..).zip(packets) {
            let length = u32::try_from(packet.len()).expect("short");
            for word in [second, 0, length, length] {
                file.extend(word.to_be_bytes());
            }
            file.extend(packet);
        }
        let path = std::env::temp_dir().join(format!("earmark-{}-{name}.pcap", std::process::id()));
        std::fs::write(&path, file).expect("the temporary directory can be written to");
        Capture(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the packets of [`corpus`], then those of [`extensions`].
pub(crate) fn everything() -> Vec<Vec<u8>> {
    let plain = corpus();
    plain.iter().map(packet).chain(extensions().into_iter().map(|(_, packet)| packet)).collect()
}
