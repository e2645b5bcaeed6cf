//! Cookies: octets that a peer must return to prove that it has received the message with them (RFC 5971 section 8.5).
//!
//! ```text
//! Query-Cookie      number of the Query, 4      seal, 8
//! Responder-Cookie  name of the secret, 4       interface, 4      seal, 8
//! ```
//!
//! Both have a SipHash-2-4 seal, as SYN cookies of TCP and cookies of DNS servers (RFC 9018) have: a keyed function for
//! short inputs. Its 64 bits must withstand guessing, message by message, for a minute. The seal of a Query-Cookie
//! covers the routing state and the number, which increases with each Query from a random start for each routing state:
//! nothing but the last number is stored. The seal of a Responder-Cookie covers the querying node (Peer-Identity and
//! Interface-Address), MRI, SID, NSLPID, and the incoming interface of the Query. Its secret is replaced periodically.
//! The name of a secret is random, so that most forged cookies are refused by one comparison.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{InterfaceId, Time};
use earmark_wire::gist::{Direction, Mri, NetworkLayerInformation, SessionId};
use siphasher::sip::SipHasher24;
use zeroize::Zeroize;

use super::state::Key;

/// Length of a Query-Cookie, octets.
pub(crate) const QUERY_COOKIE: usize = 12;
/// Length of a Responder-Cookie, octets.
pub(crate) const RESPONDER_COOKIE: usize = 16;

/// Number of latest Queries of a handshake for which a Response is accepted.
const WINDOW: u32 = 16;

/// Creates and verifies the cookies of this node.
#[derive(Debug)]
pub(crate) struct Cookies {
    random: Stream,
    query: Secret,
    /// The current secret, and the previous one.
    responder: [Secret; 2],
    /// When the current secret is replaced.
    until: Time,
    /// Time that a secret is in use.
    lifetime: Duration,
}

/// A key, and its name in cookies.
#[derive(Clone, Debug)]
struct Secret {
    name: u32,
    key: [u8; 16],
}

impl Secret {
    fn draw(random: &mut Stream) -> Secret {
        let mut key = [0; 16];
        let (first, second) = key.split_at_mut(8);
        first.copy_from_slice(&random.next_u64().to_be_bytes());
        second.copy_from_slice(&random.next_u64().to_be_bytes());
        Secret { name: (random.next_u64() >> 32) as u32, key }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The values that a Responder-Cookie is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieBinding<'a> {
    pub(crate) nli: &'a NetworkLayerInformation<'a>,
    /// MRI as in the Query and the Confirm.
    pub(crate) mri: &'a Mri,
    pub(crate) session: SessionId,
    pub(crate) nslpid: u16,
}

impl Cookies {
    /// Draws secrets from a stream of which nothing else is visible on the network.
    pub(crate) fn new(mut random: Stream, lifetime: Duration) -> Cookies {
        let query = Secret::draw(&mut random);
        let responder = [Secret::draw(&mut random), Secret::draw(&mut random)];
        Cookies { random, query, responder, until: Time::ZERO + lifetime, lifetime }
    }

    /// Sets how long a secret is in use, from the next one on.
    pub(crate) fn reload(&mut self, lifetime: Duration) {
        self.lifetime = lifetime;
    }

    /// Returns the number of the first Query of a routing state.
    pub(crate) fn first_query(&mut self) -> u32 {
        (self.random.next_u64() >> 32) as u32
    }

    /// Returns the cookie of the Query with this number.
    pub(crate) fn query(&self, key: &Key, number: u32) -> [u8; QUERY_COOKIE] {
        let mut sealed = SealInput::new(&key.mri, key.session, key.nslpid, 0);
        sealed.put(number.into());
        let seal = sealed.seal(&self.query.key);
        let mut cookie = [0; QUERY_COOKIE];
        let (place, rest) = cookie.split_at_mut(4);
        place.copy_from_slice(&number.to_be_bytes());
        rest.copy_from_slice(&seal);
        cookie
    }

    /// Returns whether a Response with this cookie belongs to the latest handshake, which has sent this many Queries, the
    /// last one with the number `last`. Responses to earlier handshakes are replays (RFC 5971 section 8.5).
    pub(crate) fn is_query(&self, key: &Key, last: u32, queries: u8, cookie: &[u8]) -> bool {
        let Some(&number) = cookie.first_chunk() else { return false };
        let number = u32::from_be_bytes(number);
        let window = WINDOW.min(queries.into());
        last.wrapping_sub(number) < window && is_same(&self.query(key, number), cookie)
    }

    /// Returns the cookie of the Response to a Query that arrived on `interface`.
    pub(crate) fn responder(
        &mut self,
        now: Time,
        binding: &CookieBinding<'_>,
        interface: InterfaceId,
    ) -> [u8; RESPONDER_COOKIE] {
        if now >= self.until {
            self.rotate(now);
        }
        seal(&self.responder[0], binding, interface)
    }

    /// Returns the incoming interface of the Query that a cookie belongs to; `None` if the cookie is forged, expired,
    /// or bound to other values.
    pub(crate) fn open(
        &mut self,
        now: Time,
        binding: &CookieBinding<'_>,
        cookie: &[u8],
    ) -> Option<InterfaceId> {
        if now >= self.until {
            self.rotate(now);
        }
        let &[n0, n1, n2, n3, i0, i1, i2, i3] = cookie.first_chunk()?;
        let name = u32::from_be_bytes([n0, n1, n2, n3]);
        let interface = InterfaceId(u32::from_be_bytes([i0, i1, i2, i3]));
        let secret = self.responder.iter().find(|secret| secret.name == name)?;
        is_same(&seal(secret, binding, interface), cookie).then_some(interface)
    }

    /// Replaces the current secret; the old one stays valid for one lifetime.
    #[cold]
    fn rotate(&mut self, now: Time) {
        self.responder.swap(0, 1);
        self.responder[0] = Secret::draw(&mut self.random);
        if now >= self.until + self.lifetime {
            self.responder[1] = Secret::draw(&mut self.random);
        }
        self.until = now + self.lifetime;
    }
}

fn seal(
    secret: &Secret,
    binding: &CookieBinding<'_>,
    interface: InterfaceId,
) -> [u8; RESPONDER_COOKIE] {
    let NetworkLayerInformation { interface_address, peer_identity, .. } = *binding.nli;
    let length = peer_identity.len() as u64; // at most 255
    let more = length << 1 | u64::from(interface_address.is_ipv6());
    let mut sealed = SealInput::new(binding.mri, binding.session, binding.nslpid, more);
    match interface_address {
        IpAddr::V4(address) => {
            sealed.put(u64::from(interface.0) << 32 | u64::from(address.to_bits()));
        }
        IpAddr::V6(address) => {
            sealed.put(interface.0.into());
            sealed.put_long(address.to_bits());
        }
    }
    let identity = identity(&secret.key, peer_identity);
    sealed.put((identity >> 64) as u64);
    if length > 8 {
        sealed.put(identity as u64);
    }
    let mut cookie = [0; RESPONDER_COOKIE];
    cookie[..4].copy_from_slice(&secret.name.to_be_bytes());
    cookie[4..8].copy_from_slice(&interface.0.to_be_bytes());
    cookie[8..].copy_from_slice(&sealed.seal(&secret.key));
    cookie
}

/// Limit of sealed words: 8 for the routing state, 5 for the querying node and its interface.
const MAX_SEALED_WORDS: usize = 13;

/// Input of a seal: words, with each field at a fixed position.
struct SealInput {
    words: [[u8; 8]; MAX_SEALED_WORDS],
    length: usize,
}

impl SealInput {
    /// Starts with all fields that identify a routing state; `more`, nine bits, fits into the first word.
    #[inline(always)] // cheaper to build in place than to return
    fn new(mri: &Mri, session: SessionId, nslpid: u16, more: u64) -> SealInput {
        let mut sealed = SealInput { words: [[0; 8]; MAX_SEALED_WORDS], length: 0 };
        let (source, destination) = mri.addresses();
        let session = u128::from_be_bytes(session.0);
        let (selectors, kind) = details(mri);
        let upstream = u64::from(mri.direction() == Direction::Upstream);
        let six = u64::from(source.is_ipv6());
        sealed.put(u64::from(nslpid) << 48 | kind | more << 15 | upstream << 1 | six);
        sealed.put_long(session);
        sealed.put(selectors);
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                sealed.put(u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits()));
            }
            (source, destination) => {
                sealed.put_long(bits(source));
                sealed.put_long(bits(destination));
            }
        }
        sealed
    }

    #[inline]
    fn put(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.length) {
            *place = word.to_le_bytes();
            self.length += 1;
        }
    }

    #[inline]
    fn put_long(&mut self, long: u128) {
        self.put((long >> 64) as u64);
        self.put(long as u64);
    }

    fn seal(&self, key: &[u8; 16]) -> [u8; 8] {
        let words = self.words.get(..self.length).unwrap_or_default();
        SipHasher24::new_with_key(key).hash(words.as_flattened()).to_be_bytes()
    }
}

/// Returns a Peer-Identity as two words. Identities longer than 16 octets, which routers do not use, are hashed.
#[inline]
fn identity(key: &[u8; 16], identity: &[u8]) -> u128 {
    let mut octets = [0; 16];
    match octets.get_mut(..identity.len()) {
        Some(room) => {
            room.copy_from_slice(identity);
            u128::from_be_bytes(octets)
        }
        None => SipHasher24::new_with_key(key).hash(identity).into(),
    }
}

/// Returns the fields of an MRI besides addresses and direction: selectors, and bits 8 to 14 and 24 to 47 of the other
/// word.
#[inline]
fn details(mri: &Mri) -> (u64, u64) {
    let Mri::PathCoupled(mri) = mri else { return (0, 0) };
    let ports = u32::from(mri.source_port.unwrap_or_default()) << 16
        | u32::from(mri.destination_port.unwrap_or_default());
    // An SPI excludes ports, and the presence bits tell both apart.
    let selector = ports ^ mri.spi.unwrap_or_default();
    let label = mri.flow_label.unwrap_or_default() & 0x000f_ffff;
    let present = [
        mri.protocol.is_some(),
        mri.ds_field.is_some(),
        mri.flow_label.is_some(),
        mri.spi.is_some(),
        mri.source_port.is_some(),
        mri.destination_port.is_some(),
        true,
    ];
    let present = present.into_iter().fold(0, |bits, bit| bits << 1 | u64::from(bit));
    let selectors = u64::from(selector) << 32
        | u64::from(label) << 8
        | u64::from(mri.ds_field.unwrap_or_default());
    let kind = u64::from(mri.protocol.unwrap_or_default()) << 40
        | u64::from(mri.source_prefix) << 32
        | u64::from(mri.destination_prefix) << 24
        | present << 8;
    (selectors, kind)
}

#[inline]
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Compares in a time that does not depend on the position of a difference.
fn is_same(expected: &[u8], cookie: &[u8]) -> bool {
    let differing = expected.iter().zip(cookie).fold(0, |bits, (a, b)| bits | (a ^ b));
    expected.len() == cookie.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use earmark_core::random::RandomStreams;
    use earmark_wire::gist::LooseEnd;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(30);
    const SESSION: SessionId = SessionId([7; 16]);

    fn mri(last: u8) -> Mri {
        let [source, destination] = [1, last].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        Mri::LooseEnd(LooseEnd { source, destination, direction: Direction::Downstream })
    }

    fn nli(identity: &[u8], host: u8) -> NetworkLayerInformation<'_> {
        NetworkLayerInformation {
            peer_identity: identity,
            ip_ttl: 64,
            interface_address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
            routing_state_validity: 30_000,
        }
    }

    fn cookies() -> Cookies {
        Cookies::new(RandomStreams::new(1).stream("gist/cookies"), LIFETIME)
    }

    #[test]
    fn responder_cookie_is_bound_to_its_query() {
        let mut cookies = cookies();
        let now = Time::from_secs(1);
        let (interface, peer, flow) = (InterfaceId(3), nli(b"abcd", 1), mri(2));
        let binding = CookieBinding { nli: &peer, mri: &flow, session: SESSION, nslpid: 1 };
        let cookie = cookies.responder(now, &binding, interface);
        assert_eq!(cookies.open(now, &binding, &cookie), Some(interface));
        let (identity, address, other_flow) = (nli(b"abce", 1), nli(b"abcd", 2), mri(3));
        let (longer, long) = (nli(b"abcd\0", 1), nli(&[b'a'; 40], 1));
        let upstream = flow.inverted();
        for stolen in [
            CookieBinding { nli: &identity, ..binding },
            CookieBinding { nli: &address, ..binding },
            CookieBinding { nli: &longer, ..binding },
            CookieBinding { nli: &long, ..binding },
            CookieBinding { mri: &other_flow, ..binding },
            CookieBinding { mri: &upstream, ..binding },
            CookieBinding { session: SessionId([8; 16]), ..binding },
            CookieBinding { nslpid: 2, ..binding },
        ] {
            assert_eq!(cookies.open(now, &stolen, &cookie), None, "{stolen:?}");
        }
        for bit in 0..cookie.len() * 8 {
            let mut forged = cookie;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cookies.open(now, &binding, &forged), None, "bit {bit}");
        }
        assert_eq!(cookies.open(now, &binding, &cookie[..12]), None);
        assert_eq!(cookies.open(now, &binding, &[]), None);
        assert_eq!(self::cookies().open(now, &binding, &cookie), Some(interface));
    }

    #[test]
    fn long_identities_are_bound_in_full() {
        let mut cookies = cookies();
        let now = Time::from_secs(1);
        let flow = mri(2);
        for length in [8, 9, 16, 17, 255] {
            let octets = alloc::vec![7; length];
            let mut changed = octets.clone();
            changed[length - 1] = 8;
            let (peer, other) = (nli(&octets, 1), nli(&changed, 1));
            let binding = CookieBinding { nli: &peer, mri: &flow, session: SESSION, nslpid: 1 };
            let cookie = cookies.responder(now, &binding, InterfaceId(3));
            assert!(cookies.open(now, &binding, &cookie).is_some(), "{length}");
            let stolen = CookieBinding { nli: &other, ..binding };
            assert!(cookies.open(now, &stolen, &cookie).is_none(), "{length}");
        }
    }

    #[test]
    fn responder_cookie_is_valid_for_one_to_two_secret_lifetimes() {
        let mut cookies = cookies();
        let (peer, flow) = (nli(b"abcd", 1), mri(2));
        let binding = CookieBinding { nli: &peer, mri: &flow, session: SESSION, nslpid: 1 };
        let at = Time::from_secs;
        let cookie = cookies.responder(at(29), &binding, InterfaceId(1));
        let newer = cookies.responder(at(31), &binding, InterfaceId(1));
        assert_ne!(cookie, newer);
        assert!(cookies.open(at(60), &binding, &cookie).is_some());
        assert!(cookies.open(at(62), &binding, &cookie).is_none());
        assert!(cookies.open(at(62), &binding, &newer).is_some());
        assert!(cookies.open(at(200), &binding, &newer).is_none());
    }

    #[test]
    fn query_cookie_is_bound_to_routing_state_and_handshake() {
        let cookies = cookies();
        let key = Key::new(1, SESSION, mri(2));
        let other = Key { nslpid: 2, ..key };
        let last = 3_u32;
        for number in [last, 0, u32::MAX] {
            let cookie = cookies.query(&key, number);
            assert!(cookies.is_query(&key, last, 5, &cookie), "{number}");
            assert!(!cookies.is_query(&other, last, 5, &cookie));
            assert!(!cookies.is_query(&key, last, 5, &cookie[..8]));
        }
        assert!(!cookies.is_query(&key, last, 5, &cookies.query(&key, last + 1)), "not sent yet");
        assert!(!cookies.is_query(&key, last, 1, &cookies.query(&key, 2)), "earlier handshake");
        assert!(!cookies.is_query(&key, 100, 200, &cookies.query(&key, 84)), "too old");
        let mut forged = cookies.query(&key, last);
        forged[11] ^= 1;
        assert!(!cookies.is_query(&key, last, 5, &forged));
    }
}
