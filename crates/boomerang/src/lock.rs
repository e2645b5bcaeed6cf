//! Locks: a node that does not trust its users multiplies a private prime into the key of the message.
//!
//! The reservation is set aside, but not in force. The initiating node finds a key other than 1 in the returned
//! message and repeats the message with it. A node whose prime divides the key knows that the initiating node is at
//! its address, and puts the reservation in force. From then on only a node that knows the key can change or release
//! it.

use earmark_core::random::Stream;

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::selector::Direction;
use crate::state::{Index, flag};
use crate::store::Grant;

/// Size of the primes in binary digits, so that a key has room for at least three of them.
const PRIME_BITS: u32 = 20;

impl Boomerang {
    /// Returns the new key of a message if this node locks the session, or has locked it and the initiating node does
    /// not know yet.
    #[inline]
    pub(crate) fn multiply_key(
        &mut self,
        transit: &TransitMessage<'_>,
        grant: &mut Grant,
    ) -> Result<Option<u64>, Refused> {
        let key = transit.view.key();
        let prime = match grant {
            Grant::New { prime, .. } => {
                let is_locking = self.config.lock && transit.origin != Origin::Own;
                // The far end of a one-way reservation has nothing to lock.
                if !is_locking || !transit.requests_on_pass() {
                    return Ok(None);
                }
                *prime = draw_prime(&mut self.primes);
                *prime
            }
            Grant::Known(index) => {
                let session = self.store.session(*index);
                let known = session.prime == 0 || key.is_multiple_of(session.prime.into());
                if known || session.flags & flag::LOCKED == 0 {
                    return Ok(None);
                }
                session.prime
            }
        };
        let product = key.max(1).checked_mul(prime.into());
        product.map(Some).ok_or(Refused::without_offer(RefusalReason::KeyOverflow))
    }

    /// Unlocks a session by a message that this node did not multiply: if the message is on the pass that locked the
    /// session, and the prime is in its key, the session is in force from now on.
    #[inline]
    pub(crate) fn unlock<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        index: Index,
    ) {
        let session = self.store.session_mut(index);
        let on_return = session.flags & flag::LOCKED_ON_RETURN != 0;
        if session.flags & flag::LOCKED == 0
            || on_return != (transit.direction == Direction::Reverse)
        {
            return;
        }
        session.flags &= !(flag::LOCKED | flag::LOCKED_ON_RETURN);
        for slot in 0..self.store.session(index).slots() {
            if self.store.session(index).half_at(slot).is_there() {
                self.install(cx, index, slot);
                self.notify_reservation(cx, index, slot, Change::Unlocked);
            }
        }
    }
}

/// Draws a random prime of [`PRIME_BITS`] binary digits.
fn draw_prime(stream: &mut Stream) -> u32 {
    loop {
        let top = 1 << (PRIME_BITS - 1);
        let candidate = (stream.next_u64() as u32 & (top - 1)) | top | 1;
        if is_prime(candidate) {
            return candidate;
        }
    }
}

/// Tests by trial division; about one odd number in seven of that size is prime.
fn is_prime(odd: u32) -> bool {
    (3..)
        .step_by(2)
        .take_while(|divisor| divisor * divisor <= odd)
        .all(|divisor| !odd.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    #[test]
    fn drawn_primes_are_prime_large_and_distinct() {
        assert!(is_prime(524_309) && is_prime(1_048_573));
        assert!(!is_prime(1_048_575) && !is_prime(1_018_081), "the square of 1009");
        let mut stream = RandomStreams::new(1).stream("primes");
        let drawn: alloc::collections::BTreeSet<u32> =
            (0..100).map(|_| draw_prime(&mut stream)).collect();
        assert!(drawn.len() > 95);
        assert!(drawn.iter().all(|p| (1 << 19..1 << 20).contains(p)));
    }
}
