//! Messages leave: in datagrams, with the addresses and options that the encapsulation asks for (RFC 5971 section 5.3).

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
use super::state::{Half, Index};
use crate::PORT;
use crate::instance::Work;

/// What IP and the layers below may add to a message (RFC 5971 section 4.3.3).
const ALLOWANCE: usize = 64;
/// The largest packet that is let onto a path of which nothing is known.
const SAFE_MTU: u32 = 576;
/// The TTL of Queries against the flow, by which it is seen how far they came (RFC 5971 section 5.8.1.3).
pub(super) const UPSTREAM_TTL: u8 = 255;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramPath {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) port: u16,
    /// Through which interface; `None` lets the routes decide.
    pub(super) interface: Option<InterfaceId>,
    /// Which router there takes it; `None` lets the routes decide.
    pub(super) next_hop: Option<IpAddr>,
    pub(super) ttl: u8,
    pub(super) router_alert: bool,
}

/// This node's Peer-Identity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    octets: [u8; 16],
    length: u8,
}

impl Identity {
    pub(super) fn new(identity: &[u8]) -> Identity {
        let mut octets = [0; 16];
        let length = identity.len().min(octets.len());
        octets[..length].copy_from_slice(&identity[..length]);
        Identity { octets, length: length as u8 }
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl Gist {
    /// Sends a message in a datagram; `false` where too many were sent already, or it cannot be written.
    pub(super) fn send_datagram(
        &mut self,
        work: &mut Work<'_, '_>,
        way: &DatagramPath,
        message: &Message<'_>,
    ) -> bool {
        if !self.totals.admits(work.now, 0, self.config.limits.datagrams_per_second) {
            self.counters.held_back += 1;
            return false;
        }
        let how = Outgoing {
            protocol: udp::PROTOCOL,
            interface: way.interface,
            source: way.source,
            destination: way.destination,
            ttl: way.ttl,
            router_alert: way.router_alert,
            encapsulated: false,
            neighbor: None,
            next_hop: way.next_hop,
        };
        let header = udp::Repr {
            source: way.source,
            destination: way.destination,
            source_port: PORT,
            destination_port: way.port,
        };
        // To write a message aside and copy it costs less than to find out first how long it is.
        let Some(length) = write_aside(&mut self.copy, message) else {
            debug_assert!(false, "{message:?} to {way:?}");
            return false;
        };
        let packet = work.out.send_copy(how, self.copy.get(..length).unwrap_or_default());
        if header.emit(packet).is_err() {
            debug_assert!(false, "{message:?} to {way:?}");
            work.out.take_back();
            return false;
        }
        self.count(message.body.message_type()).sent += 1;
        mark(Checkpoint::Compose);
        true
    }

    /// What is counted of messages of a type.
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

    /// The way to a peer that is known, and the address of this node that it sees.
    pub(super) fn way_to(&self, work: &Work<'_, '_>, peer: Index) -> Option<DatagramPath> {
        let peer = self.peers.get(peer)?;
        let interface = work.context.interfaces.by_id(peer.interface)?;
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

    /// What this node says of itself in a message that goes in a direction.
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
            // RFC 5971 section 5.2.2: downstream the TTL that the packet begins with, upstream the hops to the peer.
            ip_ttl: match direction {
                Direction::Downstream => self.config.ttl,
                Direction::Upstream => ip_distance,
            },
            interface_address: address,
            routing_state_validity: validity_ms.max(1),
        }
    }

    /// How long routing state shall hold, as this node proposes: longer where so many would ask for more Queries than may
    /// be sent (RFC 5971 section 4.4.4).
    pub(super) fn validity_ms(&self) -> u32 {
        let states = self.store.states.len() as u64;
        let rate = u64::from(self.config.limits.datagrams_per_second.max(1));
        let needed = 2_000 * states / rate;
        self.validities.configured.max(needed as u32).max(1)
    }

    /// The largest GIST message that a datagram takes to the peer of a half, octets.
    pub(super) fn largest_datagram(&self, half: &Half) -> usize {
        let mtu = self.peers.get(half.peer).map_or(SAFE_MTU, |peer| peer.mtu);
        // Nobody is between two neighbours; of other paths nothing is known.
        let mtu = if half.ip_distance == 1 { mtu } else { mtu.min(SAFE_MTU) };
        (mtu as usize).saturating_sub(ALLOWANCE)
    }
}

/// The longest message that is written without measuring it first, octets.
const USUAL: usize = 2_048;

/// Writes a message behind room for a UDP header, and gives the length of both.
#[inline]
fn write_aside(aside: &mut Vec<u8>, message: &Message<'_>) -> Option<usize> {
    const IN_FRONT: usize = udp::HEADER + MAGIC_LEN;
    if aside.len() < USUAL {
        aside.resize(USUAL, 0);
    }
    let write = |aside: &mut Vec<u8>| -> Option<usize> {
        let room = emit_magic(aside.get_mut(udp::HEADER..)?).ok()?;
        Some(IN_FRONT + message.emit(room).ok()?)
    };
    write(aside).or_else(|| {
        let length = IN_FRONT + message.buffer_len();
        aside.resize(length.max(USUAL), 0);
        write(aside)
    })
}

/// The address of an interface to show to nodes of the same family as `like`: a global one, since others may not be of use
/// beyond the link (RFC 5971 section 5.2.2), unless there is none.
pub(super) fn own_address(interface: &Interface, like: IpAddr) -> Option<IpAddr> {
    let is_local = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let family = interface.addresses.iter().filter(|address| address.is_ipv4() == like.is_ipv4());
    family.clone().find(|address| !is_local(address)).or(family.clone().next()).copied()
}

/// Where a message goes that finds its way by its MRI.
pub(super) fn target(mri: &Mri) -> IpAddr {
    let (source, destination) = mri.addresses();
    match mri.direction() {
        Direction::Downstream => destination,
        Direction::Upstream => source,
    }
}

/// A message of this node.
pub(super) fn message(hops: u8, nslpid: u16, source_is_peer: bool, body: Body<'_>) -> Message<'_> {
    let extensions = earmark_wire::gist::Extensions::NONE;
    Message { hops, nslpid, source_is_peer, body, extensions }
}
