//! The keys of the indexes as octets, and their hashes. Peers choose the keys, so the hash is SipHash with a random key.

use core::net::IpAddr;

use earmark_wire::rsvp::{SenderTemplate, Session, SourceSelector};
use siphasher::sip::SipHasher13;

pub(super) fn same_session(a: &Session, b: &Session) -> bool {
    a.port == b.port && a.protocol == b.protocol && a.destination == b.destination
}

pub(super) fn same_destination(a: &Session, b: &Session) -> bool {
    a.protocol == b.protocol && a.destination == b.destination
}

/// A key as octets: fixed places, so that different keys are different octets. IPv4 keys are short ones.
struct Octets {
    octets: [u8; 40],
    length: usize,
}

impl Octets {
    fn of_destination(address: IpAddr, protocol: u8) -> Octets {
        let mut key = Octets { octets: [0; 40], length: 0 };
        key.push(&[protocol]);
        key.push_address(address);
        key
    }

    fn of_session(session: &Session) -> Octets {
        let mut key = Octets::of_destination(session.destination, session.protocol);
        key.push(&session.port.to_be_bytes());
        key
    }

    fn of_sender(session: &Session, template: &SenderTemplate) -> Octets {
        let mut key = Octets::of_session(session);
        key.push_address(template.source);
        match template.selector {
            SourceSelector::Port(port) => key.push(&port.to_be_bytes()),
            SourceSelector::FlowLabel(label) => key.push(&label.to_be_bytes()[1..]),
        }
        key
    }

    fn push_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.push(&address.octets()),
            IpAddr::V6(address) => self.push(&address.octets()),
        }
    }

    #[inline]
    fn push(&mut self, octets: &[u8]) {
        self.octets[self.length..self.length + octets.len()].copy_from_slice(octets);
        self.length += octets.len();
    }

    fn hash(&self, key: (u64, u64)) -> u64 {
        SipHasher13::new_with_keys(key.0, key.1).hash(&self.octets[..self.length])
    }
}

pub(super) fn hash_destination(key: (u64, u64), session: &Session) -> u64 {
    Octets::of_destination(session.destination, session.protocol).hash(key)
}

pub(super) fn hash_session(key: (u64, u64), session: &Session) -> u64 {
    Octets::of_session(session).hash(key)
}

#[inline]
pub(super) fn hash_sender(key: (u64, u64), session: &Session, template: &SenderTemplate) -> u64 {
    Octets::of_sender(session, template).hash(key)
}
