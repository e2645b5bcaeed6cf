//! Recognition of messages of Boomerang: pings whose data begin with MAGIC.

use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::icmp::{HEADER, PROTOCOL_V4, PROTOCOL_V6};

/// Returns whether what follows the IP header is a message, well formed or not.
pub(super) fn is_message(ip_protocol: u8, payload: &[u8]) -> bool {
    let data = payload.get(HEADER..).filter(|_| [PROTOCOL_V4, PROTOCOL_V6].contains(&ip_protocol));
    data.is_some_and(|data| data.starts_with(&MAGIC.to_be_bytes()))
}

/// Returns the name of a message by its direction.
pub(super) fn name(ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
    let is_reply = matches!(payload.first(), Some(0 | 129));
    is_message(ip_protocol, payload).then_some(if is_reply { "echo reply" } else { "echo" })
}
