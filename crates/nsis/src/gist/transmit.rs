//! Transmission of messages: in datagrams, with the addresses and options of the encapsulation (RFC 5971 section 5.3).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Interface, InterfaceId, Outgoing};
use earmark_wire::gist::{
    Body, Direction, MAGIC_LEN, Message, MessageType, Mri, NetworkLayerInformation, emit_magic,
};
use earmark_wire::udp;

use super::Gist;
use super::counters::Messages;
use super::identity::Identity;
use super::state::{Half, Index};
use crate::PORT;
use crate::input_context::InputContext;

/// Octets that IP and the layers below may add to a message (RFC 5971 section 4.3.3).
const ALLOWANCE: usize = 64;
/// Largest packet for a path of unknown MTU, octets.
const SAFE_MTU: u32 = 576;
/// TTL of upstream Queries, which shows how many hops they have crossed (RFC 5971 section 5.8.1.3).
pub(super) const UPSTREAM_TTL: u8 = 255;

/// Addresses and route of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramPath {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) port: u16,
    /// Outgoing interface; `None` leaves it to the routing table.
    pub(super) interface: Option<InterfaceId>,
    /// Next hop on that interface; `None` leaves it to the routing table.
    pub(super) next_hop: Option<IpAddr>,
    pub(super) ttl: u8,
    pub(super) router_alert: bool,
}

impl Gist {
    /// Sends a message in a datagram; `false` if the rate limit is reached, or if it cannot be written.
    pub(super) fn send_datagram(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        path: &DatagramPath,
        message: &Message<'_>,
    ) -> bool {
        if !self.totals.admits(cx.now, 0, self.config.limits.datagrams_per_second) {
            self.counters.held_back += 1;
            return false;
        }
        let how = Outgoing {
            interface: path.interface,
            router_alert: path.router_alert,
            next_hop: path.next_hop,
            ..Outgoing::new(udp::PROTOCOL, path.source, path.destination, path.ttl)
        };
        let header = udp::Repr {
            source: path.source,
            destination: path.destination,
            source_port: PORT,
            destination_port: path.port,
        };
        // Writing to a buffer and copying costs less than computing the length first.
        let Some(length) = write_to_buffer(&mut self.copy, message) else {
            debug_assert!(false, "{message:?} to {path:?}");
            return false;
        };
        let packet = cx.out.send_copy(how, self.copy.get(..length).unwrap_or_default());
        if header.emit(packet).is_err() {
            debug_assert!(false, "{message:?} to {path:?}");
            cx.out.take_back();
            return false;
        }
        self.count(message.body.message_type()).sent += 1;
        mark(Checkpoint::Compose);
        true
    }

    /// Returns the counters of a message type.
    pub(super) fn count(&mut self, message_type: MessageType) -> &mut Messages {
        match message_type {
            MessageType::Query => &mut self.counters.query,
            MessageType::Response => &mut self.counters.response,
            MessageType::Confirm => &mut self.counters.confirm,
            MessageType::Data => &mut self.counters.data,
            MessageType::Hello => &mut self.counters.hello,
            MessageType::Error | MessageType::Unknown(_) => &mut self.counters.error,
        }
    }

    /// Returns the path to a known peer, and the address of this node that it sees.
    pub(super) fn path_to(&self, cx: &InputContext<'_, '_>, peer: Index) -> Option<DatagramPath> {
        let peer = self.peers.get(peer)?;
        let interface = cx.context.interfaces.by_id(peer.interface)?;
        Some(DatagramPath {
            source: own_address(interface, peer.address)?,
            destination: peer.address,
            port: peer.port,
            interface: None,
            next_hop: None,
            ttl: self.config.ttl,
            router_alert: false,
        })
    }

    /// Returns the NLI of this node for a message in a direction.
    pub(super) fn nli<'a>(
        &self,
        identity: &'a Identity,
        address: IpAddr,
        direction: Direction,
        ip_distance: u8,
        validity_ms: u32,
    ) -> NetworkLayerInformation<'a> {
        NetworkLayerInformation {
            peer_identity: identity.octets(),
            // RFC 5971 section 5.2.2: downstream the initial TTL of the packet, upstream the hops to the peer.
            ip_ttl: match direction {
                Direction::Downstream => self.config.ttl,
                Direction::Upstream => ip_distance,
            },
            interface_address: address,
            routing_state_validity: validity_ms.max(1),
        }
    }

    /// Returns the routing state validity that this node proposes; longer if the number of states would need more
    /// Queries than the rate limit allows (RFC 5971 section 4.4.4).
    pub(super) fn validity_ms(&self) -> u32 {
        let states = self.store.states.len() as u64;
        let rate = u64::from(self.config.limits.datagrams_per_second.max(1));
        let needed = 2_000 * states / rate;
        self.validities.configured.max(needed as u32).max(1)
    }

    /// Returns the largest GIST message that fits into a datagram to the peer of a half, octets.
    pub(super) fn largest_datagram(&self, half: &Half) -> usize {
        let mtu = self.peers.get(half.peer).map_or(SAFE_MTU, |peer| peer.mtu);
        // The MTU is known only for neighbors on the same link.
        let mtu = if half.ip_distance == 1 { mtu } else { mtu.min(SAFE_MTU) };
        (mtu as usize).saturating_sub(ALLOWANCE)
    }
}

/// Longest message that is written without measuring it first, octets.
const BUFFER_LEN: usize = 2_048;

/// Writes a message after space for a UDP header, and returns the length of both.
#[inline]
fn write_to_buffer(buffer: &mut Vec<u8>, message: &Message<'_>) -> Option<usize> {
    const PREFIX: usize = udp::HEADER + MAGIC_LEN;
    if buffer.len() < BUFFER_LEN {
        buffer.resize(BUFFER_LEN, 0);
    }
    let write = |buffer: &mut Vec<u8>| -> Option<usize> {
        let room = emit_magic(buffer.get_mut(udp::HEADER..)?).ok()?;
        Some(PREFIX + message.emit(room).ok()?)
    };
    write(buffer).or_else(|| {
        let length = PREFIX + message.buffer_len();
        buffer.resize(length.max(BUFFER_LEN), 0);
        write(buffer)
    })
}

/// Returns an address of an interface for nodes of the same family as `like`: a global one if there is one, because
/// others may be useless beyond the link (RFC 5971 section 5.2.2).
pub(super) fn own_address(interface: &Interface, like: IpAddr) -> Option<IpAddr> {
    let is_local = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let family = interface.addresses.iter().filter(|address| address.is_ipv4() == like.is_ipv4());
    family.clone().find(|address| !is_local(address)).or(family.clone().next()).copied()
}

/// Returns the destination of a message that is routed by its MRI.
pub(super) fn target(mri: &Mri) -> IpAddr {
    let (source, destination) = mri.addresses();
    match mri.direction() {
        Direction::Downstream => destination,
        Direction::Upstream => source,
    }
}

/// Creates a message of this node.
pub(super) fn message(hops: u8, nslpid: u16, source_is_peer: bool, body: Body<'_>) -> Message<'_> {
    let extensions = earmark_wire::gist::Extensions::NONE;
    Message { hops, nslpid, source_is_peer, body, extensions }
}
