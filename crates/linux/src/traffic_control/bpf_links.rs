//! The classifier's data about each link (`struct link` of `bpf/link.h`).

use super::bucket::{BUCKET, Bucket};
use super::plan::{LinkSettings, MAX_SERVICES};

/// Octets of `struct link`.
pub(super) const LINK: usize = SERVICES + MAX_SERVICES * BUCKET;
/// Offset of the DSCPs that only claims have.
const MARKS: usize = 24;
/// Offsets of the bucket of control traffic, of the service numbers by DSCP, and of the services' buckets.
const CONTROL: usize = MARKS + 8;
const NUMBERS: usize = CONTROL + BUCKET;
const SERVICES: usize = NUMBERS + 64;
/// `LINK_SHAPED` and `LINK_SERVICES_SHAPED`.
const SHAPED: u32 = 1;
const SERVICES_SHAPED: u32 = 2;

/// Encodes the value of a link with flows of these kinds.
pub(super) fn emit(settings: &LinkSettings, kinds: [u32; 2]) -> [u8; LINK] {
    let flags = if settings.is_shaped { SHAPED } else { 0 }
        | if settings.are_services_shaped { SERVICES_SHAPED } else { 0 };
    let mut octets = [0; LINK];
    let LinkSettings { signalling, best_effort, overhead, .. } = *settings;
    let words = [kinds[0], kinds[1], flags, signalling, best_effort, overhead];
    for (part, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *part = word.to_ne_bytes();
    }
    octets[MARKS..CONTROL].copy_from_slice(&settings.marks.to_ne_bytes());
    octets[CONTROL..NUMBERS].copy_from_slice(&Bucket::new(settings.control).emit());
    for ((dscps, guarantee), number) in settings.services.iter().take(MAX_SERVICES).zip(0..) {
        for &dscp in dscps.iter().filter(|&&dscp| dscp < 64) {
            octets[NUMBERS + usize::from(dscp)] = number as u8 + 1; // at most 8
        }
        let at = SERVICES + number * BUCKET;
        octets[at..at + BUCKET].copy_from_slice(&Bucket::new(*guarantee).emit());
    }
    octets
}

/// Replaces the kinds of flows in a value.
pub(super) fn set_kinds(octets: &mut [u8; LINK], kinds: [u32; 2]) {
    octets[..4].copy_from_slice(&kinds[0].to_ne_bytes());
    octets[4..8].copy_from_slice(&kinds[1].to_ne_bytes());
}

/// Whether the kernel's value has the same settings for the link, except for counters, and includes at least these
/// kinds.
pub(super) fn is_like(found: &[u8; LINK], wanted: &[u8; LINK]) -> bool {
    let kinds =
        |octets: &[u8; LINK], family: usize| u32::from_ne_bytes(octets.as_chunks::<4>().0[family]);
    let bucket = |octets: &[u8; LINK], at: usize| {
        let mut bucket = [0; BUCKET];
        bucket.copy_from_slice(&octets[at..at + BUCKET]);
        Bucket::parse(&bucket).guarantee
    };
    let mut buckets = std::iter::once(CONTROL).chain((SERVICES..LINK).step_by(BUCKET));
    (0..2).all(|family| kinds(found, family) & kinds(wanted, family) == kinds(wanted, family))
        && found[8..CONTROL] == wanted[8..CONTROL]
        && found[NUMBERS..SERVICES] == wanted[NUMBERS..SERVICES]
        && buckets.all(|at| bucket(found, at) == bucket(wanted, at))
}

#[cfg(test)]
mod tests {
    use earmark_core::admission::Protocol;
    use earmark_core::{InterfaceId, Marking, Markings, Rate};

    use super::*;
    use crate::traffic_control::plan::{LinkPlan, LinkProperties, Queues, ServicePlan};

    const ETHERNET: LinkProperties = LinkProperties { mtu: 1_500, overhead: 14, queues: 1 };

    fn plan(queues: Queues) -> LinkPlan {
        let services = vec![
            ServicePlan { dscps: vec![46], rate: Rate::from_mbps(1) },
            ServicePlan { dscps: vec![34, 36, 38, 200], rate: Rate::from_mbps(2) },
        ];
        let plan = LinkPlan::new(InterfaceId(1), Rate::from_mbps(100), Rate::from_mbps(50));
        let range = "10.0.0.0/8".parse().expect("a prefix");
        let marking = Marking { range, protocol: Protocol::new(1), dscp: Some(46) };
        LinkPlan { queues, services, markings: Markings::new([marking]), ..plan }
    }

    #[test]
    fn link_has_the_layout_of_the_classifier() {
        let octets = emit(&plan(Queues::PerFlow).settings(ETHERNET), [5, 6]);
        let words: Vec<u32> =
            octets[..MARKS].as_chunks::<4>().0.iter().map(|w| u32::from_ne_bytes(*w)).collect();
        assert_eq!(words, [5, 6, 3, 0xea4d_0003, 0, 14]);
        assert_eq!(LINK, 672);
        assert_eq!(octets[24..32], (1_u64 << 46).to_ne_bytes());
        let numbers = &octets[96..160];
        assert_eq!((numbers[46], numbers[34], numbers[38], numbers[0]), (1, 2, 2, 0));
        assert_eq!(octets[160 + 48..160 + 52], 0xea4d_0006_u32.to_ne_bytes());
        let octets = emit(&plan(Queues::Priority).settings(ETHERNET), [0, 0]);
        assert_eq!(octets[8..20], [[0; 4], 7_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
    }

    #[test]
    fn only_counters_and_surplus_kinds_are_ignored_in_comparison() {
        let wanted = emit(&plan(Queues::Aggregate).settings(ETHERNET), [5, 0]);
        let mut found = wanted;
        set_kinds(&mut found, [7, 1]);
        found[CONTROL] = 1; // full at
        found[CONTROL + 24] = 9; // packets
        assert!(is_like(&found, &wanted));
        for at in [
            8,
            12,
            16,
            20,
            MARKS,
            CONTROL + 8,
            CONTROL + 48,
            CONTROL + 56,
            NUMBERS + 46,
            SERVICES + 8,
        ] {
            let mut other = found;
            other[at] ^= 0x40;
            assert!(!is_like(&other, &wanted), "octet {at}");
        }
        set_kinds(&mut found, [4, 0]);
        assert!(!is_like(&found, &wanted), "a kind is missing");
    }
}
