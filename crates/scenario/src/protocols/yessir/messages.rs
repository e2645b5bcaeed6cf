//! Recognition of messages of YESSIR: reports with an APP packet of it.

use earmark_wire::udp;
use earmark_wire::yessir::has_message;

/// RTCP packet type of a sender report (RFC 3550 section 6.4.1).
const SENDER_REPORT: u8 = 200;

/// Returns whether what follows the IP header is a message, well formed or not.
pub(super) fn is_message(ip_protocol: u8, payload: &[u8]) -> bool {
    let compound = payload.get(udp::HEADER..).filter(|_| ip_protocol == udp::PROTOCOL);
    compound.is_some_and(has_message)
}

/// Returns the name of a message, by the RTCP packet that it begins with.
pub(super) fn name(ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
    let begins_with = payload.get(udp::HEADER + 1).filter(|_| is_message(ip_protocol, payload))?;
    Some(if *begins_with == SENDER_REPORT { "sender report" } else { "receiver report" })
}
