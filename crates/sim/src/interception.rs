//! Interception: the packets that the engines of a node receive, by the rules of `earmark-linux`.
//!
//! This file alone knows how the messages of each protocol look in IP packets.

use earmark_node::{NodeConfig, RSVP_E2E_IGNORE};
use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::rtcp::PacketType;
use earmark_wire::{icmp, ipv6, udp, yessir};

use crate::packet::{Body, Packet, UDP};

/// IP protocol number of RSVP.
pub(crate) const RSVP: u8 = 46;

/// Result of interception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interception {
    /// The engines receive the packet; it is not forwarded.
    Taken,
    /// The engines receive a copy; the packet is forwarded.
    Copied,
    /// The packet is forwarded.
    Left,
}

/// Returns the result of interception at a node with a daemon. `forwards`: the node is a router; `here`: the packet is
/// for this node.
pub(crate) fn intercept(
    config: &NodeConfig,
    forwards: bool,
    packet: &Packet,
    here: bool,
) -> Interception {
    match kind(packet) {
        MessageKind::Rsvp if here || (packet.router_alert && forwards) => Interception::Taken,
        MessageKind::HiddenRsvp
            if packet.router_alert && config.borders.values().any(|border| border.hide) =>
        {
            Interception::Taken
        }
        MessageKind::Boomerang if here || forwards => Interception::Taken,
        MessageKind::Gist if here || (packet.router_alert && forwards) => Interception::Taken,
        // The destination application must receive its report, too.
        MessageKind::Yessir if here => Interception::Copied,
        MessageKind::Yessir if packet.router_alert && forwards => Interception::Taken,
        MessageKind::SenderReport if !config.yessir.measured.is_empty() => Interception::Copied,
        _ => Interception::Left,
    }
}

/// Whether a router keeps a forwarded message in the signalling queue: RSVP uses it by its IP protocol.
pub(crate) fn keeps_signalling_queue(packet: &Packet) -> bool {
    matches!(kind(packet), MessageKind::Rsvp | MessageKind::HiddenRsvp)
}

/// Whether a router that is a member of a group intercepts the message to the group, and forwards it to its own members,
/// too.
pub(crate) fn reaches_member_routers(packet: &Packet) -> bool {
    kind(packet) == MessageKind::Rsvp
}

/// Returns the value of the IPv6 router-alert option in messages of an IP protocol. All but RSVP have the value of "any
/// datagram of interest" (RFC 2711: 0).
pub(crate) fn router_alert_value(protocol: u8) -> u16 {
    match protocol {
        RSVP => ipv6::ALERT_RSVP,
        _ => 0,
    }
}

/// Kinds of messages that interception distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    /// An RSVP message.
    Rsvp,
    /// An RSVP message that only the edges of a core process.
    HiddenRsvp,
    /// A ping whose data begin with MAGIC.
    Boomerang,
    /// A GIST message in a datagram.
    Gist,
    /// An RTCP compound with YSSR in it.
    Yessir,
    /// An RTCP compound without YESSIR that begins with a sender report.
    SenderReport,
    /// None of these.
    Foreign,
}

fn kind(packet: &Packet) -> MessageKind {
    let Body::Signalling(octets) = &packet.body else { return MessageKind::Foreign };
    match packet.protocol {
        RSVP => MessageKind::Rsvp,
        RSVP_E2E_IGNORE => MessageKind::HiddenRsvp,
        icmp::PROTOCOL_V4 | icmp::PROTOCOL_V6 => {
            let data = octets.get(icmp::HEADER..).unwrap_or_default();
            match data.starts_with(&MAGIC.to_be_bytes()) {
                true => MessageKind::Boomerang,
                false => MessageKind::Foreign,
            }
        }
        UDP => match udp::Packet::parse(octets) {
            Ok(datagram) if datagram.destination_port == earmark_nsis::PORT => MessageKind::Gist,
            Ok(datagram) if yessir::has_message(datagram.payload) => MessageKind::Yessir,
            Ok(datagram) if begins_with_a_report(datagram.payload) => MessageKind::SenderReport,
            _ => MessageKind::Foreign,
        },
        _ => MessageKind::Foreign,
    }
}

/// RTP version (RFC 3550 section 6.4.1).
const RTP_VERSION: u8 = 2;

fn begins_with_a_report(compound: &[u8]) -> bool {
    let is_report = |code| PacketType::from_code(code) == PacketType::SenderReport;
    compound.first().is_some_and(|first| first >> 6 == RTP_VERSION)
        && compound.get(1).is_some_and(|&code| is_report(code))
}
