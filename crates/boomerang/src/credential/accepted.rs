//! Sequence numbers of accepted credentials.

use crate::selector::Direction;

/// Sequence numbers of the accepted messages of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(super) transaction_id: u32,
    /// Transaction before that one, whose messages are replays now.
    pub(super) earlier: Option<u32>,
    /// Last sequence number of each pass.
    pub(super) last: [Option<u16>; 2],
}

impl Accepted {
    /// Accepts a message after those before; `None` if it is a replay.
    pub(super) fn accept(
        before: Option<Accepted>,
        transaction_id: u32,
        direction: Direction,
        sequence: u16,
    ) -> Option<Accepted> {
        let mut accepted = match before {
            Some(known) if known.transaction_id == transaction_id => known,
            Some(known) if known.earlier == Some(transaction_id) => return None,
            _ => Accepted {
                transaction_id,
                earlier: before.map(|known| known.transaction_id),
                last: [None; 2],
            },
        };
        let last = &mut accepted.last[direction as usize];
        // Serial numbers (RFC 1982): half of all numbers are later ones.
        let is_later = last.is_none_or(|last| (sequence.wrapping_sub(last) as i16) > 0);
        *last = Some(sequence);
        is_later.then_some(accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_a_pass_grow() {
        let forward = |before, transaction, sequence| {
            Accepted::accept(before, transaction, Direction::Forward, sequence)
        };
        let first = forward(None, 7, 65_530);
        assert!(forward(first, 7, 65_530).is_none() && forward(first, 7, 65_529).is_none());
        let wrapped = forward(first, 7, 5);
        assert!(wrapped.is_some() && forward(wrapped, 7, 65_535).is_none());
        let back = Accepted::accept(wrapped, 7, Direction::Reverse, 5);
        assert!(back.is_some(), "each pass counts by itself");
        let restarted = forward(back, 8, 1);
        assert!(restarted.is_some(), "another transaction");
        assert!(forward(restarted, 7, 100).is_none(), "the one before has ended");
    }
}
