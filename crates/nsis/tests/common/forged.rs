//! Messages that a test writes in the name of any node.

use std::net::IpAddr;

use earmark_nsis::PORT;
use earmark_wire::gist::{Message, emit_magic};
use earmark_wire::udp;

use super::{Packet, alerted};

/// Returns a message as received in a datagram.
pub fn packet(source: IpAddr, destination: IpAddr, ttl: u8, message: &Message<'_>) -> Packet {
    raw(source, destination, ttl, &octets(message))
}

/// Returns the octets of a message.
pub fn octets(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("a message");
    octets
}

/// Returns the octets of a message as received in a datagram.
pub fn raw(source: IpAddr, destination: IpAddr, ttl: u8, message: &[u8]) -> Packet {
    let mut octets = vec![0; udp::HEADER + 4 + message.len()];
    let room = emit_magic(&mut octets[udp::HEADER..]).expect("room");
    room.copy_from_slice(message);
    let header = udp::Repr { source, destination, source_port: PORT, destination_port: PORT };
    header.emit(&mut octets).expect("room");
    Packet { how: alerted(source, destination, ttl), octets }
}
