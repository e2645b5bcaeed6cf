//! Messages that a test writes in the name of any node.

use std::net::IpAddr;

use earmark_nsis::PORT;
use earmark_wire::gist::{
    Body, Extensions, Message, Mri, NetworkLayerInformation, Query, SessionId, emit_magic,
};
use earmark_wire::udp;

use super::{Packet, address, alerted};

/// Returns the information about a node with an address.
pub fn nli<'a>(identity: &'a [u8], host: &str) -> NetworkLayerInformation<'a> {
    NetworkLayerInformation {
        peer_identity: identity,
        ip_ttl: 64,
        interface_address: address(host),
        routing_state_validity: 30_000,
    }
}

/// Returns a Query without data.
pub fn query<'a>(mri: Mri, session: SessionId, nli: NetworkLayerInformation<'a>) -> Query<'a> {
    Query {
        nat_traversal: None,
        mri,
        session,
        nli,
        query_cookie: b"cookiecookie",
        stack: None,
        nslp_data: None,
    }
}

/// Returns a message of an application.
pub fn message(nslpid: u16, body: Body<'_>) -> Message<'_> {
    Message { hops: 10, nslpid, source_is_peer: false, body, extensions: Extensions::NONE }
}

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
