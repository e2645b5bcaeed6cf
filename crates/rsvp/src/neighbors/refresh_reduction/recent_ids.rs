//! Message_Identifiers of the latest messages that leave no state.
//!
//! A message that is sent again because its acknowledgement was lost has the same identifier (RFC 2961 section 6). State
//! blocks recognize it by the identifier that they keep. An error or a confirmation leaves no state: without the
//! identifiers of those handled already, each copy would be forwarded, and each of them sent again by the next node.

use crate::state::message_id_key::MessageIdKey;
use crate::state::{Index, NONE};

/// The highest identifier so far, and which of those before it were received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecentIds {
    highest: Option<u32>,
    /// Bit n is the identifier n + 1 before the highest.
    earlier: u64,
}

impl RecentIds {
    /// Records an identifier, and returns whether it is new. One further back than these counts as known: a copy arrives
    /// seconds later, an original does not.
    pub(crate) fn record(&mut self, id: u32) -> bool {
        let Some(highest) = self.highest else {
            self.highest = Some(id);
            return true;
        };
        let ahead = id.wrapping_sub(highest);
        if (ahead as i32) > 0 {
            let kept = self.earlier.checked_shl(ahead).unwrap_or(0);
            self.earlier = kept | 1_u64.checked_shl(ahead - 1).unwrap_or(0);
            self.highest = Some(id);
            return true;
        }
        let behind = highest.wrapping_sub(id);
        let bit = behind.checked_sub(1).and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0);
        let is_new = bit != 0 && self.earlier & bit == 0;
        self.earlier |= bit;
        is_new
    }
}

/// The latest messages that leave no state and come from the far end, so that another node may have sent them in the name
/// of a peer. Each stands for itself only: one with an identifier far ahead makes no other one known.
#[derive(Debug)]
pub(crate) struct RecentMessages {
    latest: [(Index, MessageIdKey); RecentMessages::LIMIT],
    next: usize,
}

impl RecentMessages {
    const LIMIT: usize = 64;

    /// Records a message of a peer, and returns whether it is new.
    pub(crate) fn record(&mut self, message: (Index, MessageIdKey)) -> bool {
        if self.latest.contains(&message) {
            return false;
        }
        self.latest[self.next] = message;
        self.next = (self.next + 1) % RecentMessages::LIMIT;
        true
    }
}

impl Default for RecentMessages {
    fn default() -> RecentMessages {
        let none = (NONE, MessageIdKey::NONE);
        RecentMessages { latest: [none; RecentMessages::LIMIT], next: 0 }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The model keeps all identifiers: what has come is known, what has not and is not far back is new.
        #[test]
        fn identifiers_are_new_once(start: u32, steps in prop::collection::vec(-80..80_i32, 1..200)) {
            let (mut recent, mut known) = (RecentIds::default(), BTreeSet::new());
            let (mut at, mut highest) = (0_i64, None);
            for step in steps {
                at += i64::from(step);
                let expected = highest.is_none_or(|highest| at >= highest - 64) && known.insert(at);
                prop_assert_eq!(recent.record(start.wrapping_add(at as u32)), expected);
                known.insert(at);
                highest = highest.max(Some(at));
            }
        }
    }
}
