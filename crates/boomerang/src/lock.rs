//! Locks: a node that does not trust its users multiplies a prime of its own into the key of the message.
//!
//! What is reserved is set aside, but not in force. The initiating node finds a key other than 1 in the message that comes
//! back, and repeats the message with it; a node whose prime divides the key knows that the initiating node is where it
//! says, and puts the reservation in force. From then on nobody who does not know the key can change or end it.

use earmark_core::random::Stream;

use crate::admission::Grant;
use crate::api::{Change, Direction, Event};
use crate::counters::RefusalReason;
use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Origin, Passing, Refused};
use crate::state::{Index, flag};

/// Primes have this many binary digits, so that a key has room for three of them at least.
const PRIME_BITS: u32 = 20;

impl Boomerang {
    /// What the key of a message becomes, where this node locks the session, or has locked it and the initiating node does
    /// not know yet.
    #[inline]
    pub(crate) fn turn_key(
        &mut self,
        passing: &Passing<'_>,
        grant: &mut Grant,
    ) -> Result<Option<u64>, Refused> {
        let key = passing.view.key();
        let prime = match grant {
            Grant::New { prime, .. } => {
                if !self.config.lock || passing.origin == Origin::Own {
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
        product.map(Some).ok_or(Refused::flatly(RefusalReason::KeyOverflow))
    }

    /// A message that this node did not have to multiply: if it is on the pass that locked the session, and the prime is
    /// in its key, the session is in force from now on.
    #[inline]
    pub(crate) fn unlock<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        index: Index,
    ) {
        let session = self.store.session_mut(index);
        let on_return = session.flags & flag::LOCKED_ON_RETURN != 0;
        if session.flags & flag::LOCKED == 0
            || on_return != (passing.direction == Direction::Reverse)
        {
            return;
        }
        session.flags &= !(flag::LOCKED | flag::LOCKED_ON_RETURN);
        for slot in 0..self.store.session(index).slots() {
            if self.store.session(index).half_at(slot).is_there() {
                self.install(cx, index, slot);
                self.tell(cx, index, slot, Change::Unlocked);
            }
        }
    }
}

/// A random prime of [`PRIME_BITS`] binary digits.
fn draw_prime(stream: &mut Stream) -> u32 {
    loop {
        let top = 1 << (PRIME_BITS - 1);
        let candidate = (stream.next_u64() as u32 & (top - 1)) | top | 1;
        if is_prime(candidate) {
            return candidate;
        }
    }
}

/// By trial division; about one odd number in seven of that size is prime.
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
    fn primes_are_prime_and_large_and_differ() {
        assert!(is_prime(524_309) && is_prime(1_048_573));
        assert!(!is_prime(1_048_575) && !is_prime(1_018_081), "the square of 1009");
        let mut stream = RandomStreams::new(1).stream("primes");
        let drawn: alloc::collections::BTreeSet<u32> =
            (0..100).map(|_| draw_prime(&mut stream)).collect();
        assert!(drawn.len() > 95);
        assert!(drawn.iter().all(|p| (1 << 19..1 << 20).contains(p)));
    }
}
