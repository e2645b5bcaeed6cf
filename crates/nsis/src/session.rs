//! Identifiers of new sessions: 128 bits that nobody can guess, because whoever knows them can act for the session (RFC
//! 5971 section 3.7).

use earmark_core::hash::KeyedHash;
use earmark_core::random::RandomStreams;
use earmark_wire::gist::SessionId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Generator of the session identifiers of an application.
///
/// The identifiers are consecutive numbers under a keyed hash. All nodes on the path of a session see its identifier;
/// an observer could continue the generator of [`RandomStreams`] from a few of its outputs, but not the hash.
#[derive(Debug)]
pub struct SessionIds {
    hash: Hmac<Sha256>,
    drawn: u64,
}

impl SessionIds {
    /// Creates the generator of the application with this name.
    pub fn new(random: &RandomStreams, application: &str) -> SessionIds {
        let mut stream = random.part("nsis session ids").stream(application);
        let mut key = [0; 64];
        for word in key.as_chunks_mut::<8>().0 {
            *word = stream.next_u64().to_be_bytes();
        }
        SessionIds { hash: Hmac::new(&key.into()), drawn: 0 }
    }

    /// Returns an identifier that was never returned before.
    pub fn draw(&mut self) -> SessionId {
        self.drawn += 1;
        let mut hash = self.hash.clone();
        hash.update(&self.drawn.to_be_bytes());
        let digest = hash.finalize().into_bytes();
        let mut id = [0; SessionId::LEN];
        for (octet, drawn) in id.iter_mut().zip(digest) {
            *octet = drawn;
        }
        SessionId(id)
    }
}

/// Returns the keyed hash of a session identifier, which peers choose.
#[inline]
pub(crate) fn hash(key: &KeyedHash, id: SessionId) -> u64 {
    let [a, b, c, d, e, f, g, h, rest @ ..] = id.0;
    key.of_two([u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes(rest)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_differ_by_number_application_and_node() {
        let random = RandomStreams::new(1);
        let mut ids = SessionIds::new(&random, "ping");
        let first = ids.draw();
        assert_ne!(first, ids.draw());
        assert_ne!(first, SessionIds::new(&random, "qos").draw());
        assert_ne!(first, SessionIds::new(&RandomStreams::new(2), "ping").draw());
        assert_eq!(first, SessionIds::new(&random, "ping").draw(), "the same in each run");
    }
}
