//! Index keys as octets, and their hashes. Peers choose the keys, so the hash is SipHash with a random key.

use core::hash::Hasher;
use core::net::IpAddr;

use earmark_wire::rsvp::{SenderTemplate, Session, SourceSelector};
use siphasher::sip::SipHasher13;

pub(super) fn same_session(a: &Session, b: &Session) -> bool {
    a.port == b.port && a.protocol == b.protocol && a.destination == b.destination
}

pub(super) fn same_destination(a: &Session, b: &Session) -> bool {
    a.protocol == b.protocol && a.destination == b.destination
}

/// Key as octets with fixed positions, so that different keys have different octets. IPv4 keys are shorter.
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
            SourceSelector::Spi(spi) => key.push(&spi.to_be_bytes()),
            SourceSelector::Aggregator => {}
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
        hash(key, &self.octets[..self.length])
    }
}

// IPv4 keys are built at once, as all positions are known at compile time.

#[inline]
pub(super) fn hash_destination(key: (u64, u64), session: &Session) -> u64 {
    let IpAddr::V4(destination) = session.destination else {
        return Octets::of_destination(session.destination, session.protocol).hash(key);
    };
    let [d0, d1, d2, d3] = destination.octets();
    hash(key, &[session.protocol, d0, d1, d2, d3])
}

#[inline]
pub(super) fn hash_session(key: (u64, u64), session: &Session) -> u64 {
    let IpAddr::V4(destination) = session.destination else {
        return Octets::of_session(session).hash(key);
    };
    let ([d0, d1, d2, d3], [p0, p1]) = (destination.octets(), session.port.to_be_bytes());
    hash(key, &[session.protocol, d0, d1, d2, d3, p0, p1])
}

#[inline]
pub(super) fn hash_sender(key: (u64, u64), session: &Session, template: &SenderTemplate) -> u64 {
    let (IpAddr::V4(destination), IpAddr::V4(source), SourceSelector::Port(source_port)) =
        (session.destination, template.source, template.selector)
    else {
        return Octets::of_sender(session, template).hash(key);
    };
    let ([d0, d1, d2, d3], [p0, p1]) = (destination.octets(), session.port.to_be_bytes());
    let ([s0, s1, s2, s3], [q0, q1]) = (source.octets(), source_port.to_be_bytes());
    hash(key, &[session.protocol, d0, d1, d2, d3, p0, p1, s0, s1, s2, s3, q0, q1])
}

/// Returns the hash of objects that a message carries.
#[cold]
pub(super) fn hash_objects(key: (u64, u64), objects: &[u8]) -> u64 {
    // By another function than short keys, so that the compiler makes that one for their lengths.
    let mut hasher = SipHasher13::new_with_keys(key.0, key.1);
    hasher.write(objects);
    hasher.finish()
}

#[inline]
fn hash(key: (u64, u64), octets: &[u8]) -> u64 {
    SipHasher13::new_with_keys(key.0, key.1).hash(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_differ_by_protocol_address_and_port() {
        let address = |text: &str| text.parse().expect("an address");
        let session =
            Session { destination: address("10.1.2.3"), protocol: 17, flags: 0, port: 5004 };
        for (other, is_destination) in [
            (Session { port: 5005, ..session }, true),
            (Session { protocol: 6, ..session }, false),
            (Session { destination: address("10.1.2.4"), ..session }, false),
        ] {
            assert_eq!(same_destination(&session, &other), is_destination, "{other:?}");
            assert!(!same_session(&session, &other), "{other:?}");
        }
        assert!(same_session(&session, &session));
    }

    /// Both ways to build an IPv4 key must give the same octets.
    #[test]
    fn ipv4_keys_equal_generic_keys() {
        let address = |text: &str| text.parse().expect("an address");
        let session =
            Session { destination: address("10.1.2.3"), protocol: 17, flags: 0, port: 5004 };
        let template =
            SenderTemplate { source: address("172.16.4.5"), selector: SourceSelector::Port(4000) };
        let key = (1, 2);
        let destination = Octets::of_destination(session.destination, session.protocol);
        assert_eq!(hash_destination(key, &session), destination.hash(key));
        assert_eq!(hash_session(key, &session), Octets::of_session(&session).hash(key));
        let sender = Octets::of_sender(&session, &template);
        assert_eq!(hash_sender(key, &session, &template), sender.hash(key));
        assert_ne!(
            hash_session(key, &session),
            hash_session(key, &Session { port: 5005, ..session })
        );
    }
}
