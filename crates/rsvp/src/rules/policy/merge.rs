//! The priority of requests that are merged into one reservation (RFC 3181 section 5.1).

use earmark_core::Rate;
use earmark_core::admission::Priority;
use earmark_wire::rsvp::iana::MergeStrategy;

/// Priority of one of the merged requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPriority {
    /// Rate, which stands for the quality of service.
    pub(crate) rate: Rate,
    /// Merging strategy.
    pub(crate) strategy: u8,
    pub(crate) priority: Priority,
}

/// Merges preemption and defending priority separately: each is the highest among the requests that count. The result
/// is the lowest priority if none counts or has one.
///
/// An unknown strategy is treated as the recommended one.
pub(crate) fn merge_priorities(requests: &[RequestPriority]) -> Priority {
    let rates = || requests.iter().map(|request| request.rate);
    let (most, least) = (rates().max(), rates().min());
    let counts = |request: &&RequestPriority| match MergeStrategy::from_code(request.strategy) {
        MergeStrategy::HighestPriority => true,
        MergeStrategy::ForceError => most == least,
        MergeStrategy::HighestQos | MergeStrategy::Unknown(_) => Some(request.rate) == most,
    };
    requests.iter().filter(counts).map(|request| request.priority).fold(
        Priority::default(),
        |merged, priority| {
            Priority::new(
                merged.preemption.max(priority.preemption),
                merged.defending.max(priority.defending),
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(mbps: u64, level: u16, strategy: MergeStrategy) -> RequestPriority {
        let priority = Priority::new(level, level);
        RequestPriority { rate: Rate::from_mbps(mbps), strategy: strategy.code(), priority }
    }

    #[test]
    fn priorities_merge_by_their_strategies() {
        use MergeStrategy::{ForceError, HighestPriority, HighestQos};
        // r1 to r4 of RFC 3181 appendix A.1, at B and at A.
        let (r1, r2) = (request(9, 3, HighestQos), request(1, 4, HighestPriority));
        let (r3, r4) = (request(1, 7, HighestQos), request(1, 9, ForceError));
        for (requests, expected) in [
            (&[r1, r2, r3][..], 4),
            (&[r1, r2, r3, r4], 4),
            (&[r2, r3, r4], 9),
            (&[r1, r3], 3),
            (&[r1, r4], 3),
            (
                &[
                    request(9, 5, MergeStrategy::Unknown(7)),
                    request(1, 6, MergeStrategy::Unknown(7)),
                ],
                5,
            ),
            (&[], 0),
        ] {
            let expected = Priority::new(expected, expected);
            assert_eq!(merge_priorities(requests), expected, "{requests:?}");
        }
    }

    #[test]
    fn preemption_and_defending_priority_are_merged_apart() {
        let one = RequestPriority {
            priority: Priority::new(1, 8),
            ..request(1, 0, MergeStrategy::HighestQos)
        };
        let two = RequestPriority { priority: Priority::new(5, 5), ..one };
        assert_eq!(merge_priorities(&[one, two]), Priority::new(5, 8));
    }
}
