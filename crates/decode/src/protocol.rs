//! Description of a protocol, as far as the decoder needs to know it.

use std::net::IpAddr;

use earmark_wire::udp;
use serde_json::{Map, Value};

/// A protocol whose messages are decoded.
pub(super) struct Protocol {
    /// Name in JSON.
    pub(super) name: &'static str,
    /// Name in text.
    pub(super) title: &'static str,
    /// IP protocol whose packets are all messages of this protocol, fragments and those with a malformed header included.
    pub(super) ip_protocol: Option<u8>,
    /// Returns the fields of the message in a packet, well-formed or malformed; `None` without a message.
    pub(super) decode: fn(&IpPacket<'_>) -> Option<Map<String, Value>>,
}

/// An IP packet without its header.
pub(super) struct IpPacket<'a> {
    pub(super) ip_protocol: u8,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) payload: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// Returns the UDP packet inside the IP packet.
    pub(super) fn udp(&self) -> Option<udp::Packet<'a>> {
        (self.ip_protocol == udp::PROTOCOL).then(|| udp::Packet::parse(self.payload).ok())?
    }
}
