//! Entries of the classifier: the target of a flow (`struct entry` and `struct bucket` of the BPF program).

use earmark_core::admission::Protocol;

use super::Statistics;
use super::bucket::{BUCKET, Bucket};
use super::guarantee::{BucketParameters, Guarantee};

/// Octets of `struct entry`.
pub(super) const ENTRY: usize = BUCKET;
/// Offset of the flow's other fields in its bucket: the protocol, and the shared bucket.
const BESIDE: usize = 52;
/// Number of bits of the protocol.
const SHARED_SHIFT: u32 = 8;

/// A flow's entry in the classifier, actual or desired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The best claim of the flow alone.
    pub(super) own: Option<Guarantee>,
    /// Number of the bucket of the best claim that it shares with other flows.
    pub(super) shared: Option<u32>,
    /// Protocol of the claim in `own`, or of the shared one if there is none.
    pub(super) protocol: Option<Protocol>,
}

impl Entry {
    /// Encodes the entry for the classifier, with a full bucket.
    pub(super) fn emit(&self) -> [u8; ENTRY] {
        let none = Guarantee { bucket: BucketParameters::NONE, class: 0, mark: None };
        self.emit_with(&Bucket::new(self.own.unwrap_or(none)))
    }

    /// Encodes the entry for the classifier, with the debt and the counters of the kernel's entry `before`.
    pub(super) fn emit_after(&self, before: &[u8; ENTRY]) -> [u8; ENTRY] {
        match self.own {
            Some(own) => self.emit_with(&Bucket::parse(before).with(own)),
            None => self.emit(),
        }
    }

    fn emit_with(&self, bucket: &Bucket) -> [u8; ENTRY] {
        let mut octets = bucket.emit();
        // There are at most 2^20 buckets.
        let shared = self.shared.map_or(0, |number| number + 1) << SHARED_SHIFT;
        let protocol = self.protocol.map_or(0, Protocol::number);
        octets[BESIDE..BESIDE + 4].copy_from_slice(&(shared | u32::from(protocol)).to_ne_bytes());
        octets
    }

    /// Decodes the kernel's entry.
    pub(super) fn parse(octets: &[u8; ENTRY]) -> Entry {
        let beside = u32::from_ne_bytes(octets.as_chunks::<4>().0[BESIDE / 4]);
        let own = Bucket::parse(octets).guarantee;
        Entry {
            own: (!own.bucket.is_none()).then_some(own),
            shared: (beside >> SHARED_SHIFT).checked_sub(1),
            protocol: Protocol::from_number(beside as u8),
        }
    }

    /// Returns the counters of the kernel's entry.
    pub(super) fn counters(octets: &[u8; ENTRY]) -> Statistics {
        Bucket::parse(octets).statistics()
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::Rate;
    use earmark_core::admission::{Demand, Service};

    use crate::traffic_control::claim_resources::MAX_FLOWS;

    use super::*;

    fn guarantee(bps: u64) -> Guarantee {
        let rate = Rate::from_bps(bps);
        let demand = Demand {
            service: Service::ControlledLoad,
            rate,
            burst: 3_000,
            max_packet: 1_500,
            min_packet: 0,
        };
        Guarantee { bucket: BucketParameters::reserved(&demand), class: 0xea4d_0010, mark: None }
    }

    #[test]
    fn entry_is_decoded_as_encoded() {
        for own in [None, Some(guarantee(1_000_000)), Some(guarantee(u64::MAX))] {
            for shared in [None, Some(0), Some(77), Some(MAX_FLOWS - 1)] {
                for protocol in [None].into_iter().chain([1, 4, 255].map(Protocol::from_number)) {
                    let entry = Entry { own, shared, protocol };
                    assert_eq!(Entry::parse(&entry.emit()), entry);
                }
            }
        }
    }

    #[test]
    fn changed_entry_keeps_debt_and_counters() {
        let before = Entry { own: Some(guarantee(1_000_000)), shared: None, protocol: None };
        let mut octets = before.emit();
        octets[..8].copy_from_slice(&99_u64.to_ne_bytes()); // full at
        octets[24..32].copy_from_slice(&5_u64.to_ne_bytes()); // packets
        let after = Entry { own: Some(guarantee(2_000_000)), shared: Some(3), protocol: None };
        let written = after.emit_after(&octets);
        assert_eq!(Entry::parse(&written), after);
        assert_eq!(Entry::counters(&written).packets, 5);
        assert_eq!(written[..8], octets[..8]);
        assert_eq!(Entry::counters(&after.emit()).packets, 0);
    }

    #[test]
    fn entry_of_an_unknown_protocol_keeps_its_number() {
        let mut octets = Entry { own: Some(guarantee(1)), ..Entry::default() }.emit();
        assert_eq!(Entry::parse(&octets).protocol, None);
        octets[BESIDE] = 0xff;
        assert_eq!(Entry::parse(&octets).protocol, Protocol::from_number(0xff));
    }
}
