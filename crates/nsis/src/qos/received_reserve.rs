//! A received RESERVE, and the order of its sequence number.

use earmark_wire::gist::PathCoupled;
use earmark_wire::qos_nslp::{Reserve, Rsn};

use crate::nslp::{PeerHandle, Received};

/// A received RESERVE with its peer and flow.
#[derive(Clone, Copy)]
pub(super) struct ReceivedReserve<'a> {
    pub(super) message: &'a Received<'a>,
    pub(super) reserve: &'a Reserve<'a>,
    pub(super) mri: PathCoupled,
    pub(super) peer: PeerHandle,
}

/// Order of a sequence number relative to the known one (RFC 1982, RFC 5974 section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Older,
    Same,
    Newer,
}

/// Compares sequence numbers. Numbers of another epoch are newer, and so is a number at half the range, which RFC 1982
/// leaves undefined.
#[inline]
pub(super) fn order(known: Rsn, new: Rsn) -> Order {
    if known == new {
        return Order::Same;
    }
    let ahead = new.number.wrapping_sub(known.number);
    if known.epoch == new.epoch && ahead > 1 << 31 { Order::Older } else { Order::Newer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_and_epochs_come_first() {
        let rsn = |number, epoch| Rsn { number, epoch };
        for (known, new, expected) in [
            (rsn(5, 1), rsn(5, 1), Order::Same),
            (rsn(5, 1), rsn(6, 1), Order::Newer),
            (rsn(5, 1), rsn(4, 1), Order::Older),
            (rsn(u32::MAX, 1), rsn(0, 1), Order::Newer),
            (rsn(0, 1), rsn(u32::MAX, 1), Order::Older),
            (rsn(5, 1), rsn(5 + (1 << 31), 1), Order::Newer),
            (rsn(5, 1), rsn(6 + (1 << 31), 1), Order::Older),
            (rsn(5, 1), rsn(4, 2), Order::Newer),
            (rsn(5, 1), rsn(5, 2), Order::Newer),
        ] {
            assert_eq!(order(known, new), expected, "{known:?} {new:?}");
        }
    }
}
