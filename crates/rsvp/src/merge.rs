//! Merging of flowspecs: the least upper bound (RFC 2205 section 2.2, RFC 2211 and 2212 "Ordering and Merging").

use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};

/// The smallest flowspec that satisfies both, or `None` where they ask for different services.
///
/// The largest packet becomes the *smaller* one of the two, so that a receiver with a small path MTU is not sent what
/// it cannot get (RFC 2211, "merged TSpec").
pub(crate) fn least_upper_bound(a: &FlowSpec, b: &FlowSpec) -> Option<FlowSpec> {
    match (a, b) {
        (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) => {
            Some(FlowSpec::ControlledLoad(merge_buckets(a, b)))
        }
        (FlowSpec::Guaranteed(a, ra), FlowSpec::Guaranteed(b, rb)) => {
            let rspec =
                Rspec { rate: ra.rate.max(rb.rate), slack_us: ra.slack_us.min(rb.slack_us) };
            Some(FlowSpec::Guaranteed(merge_buckets(a, b), rspec))
        }
        _ => None,
    }
}

fn merge_buckets(a: &TokenBucket, b: &TokenBucket) -> TokenBucket {
    TokenBucket {
        rate: a.rate.max(b.rate),
        depth: a.depth.max(b.depth),
        peak: a.peak.max(b.peak),
        min_policed_unit: a.min_policed_unit.min(b.min_policed_unit),
        max_packet_size: a.max_packet_size.min(b.max_packet_size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: TokenBucket = TokenBucket {
        rate: 1_000.0,
        depth: 9_000.0,
        peak: 2_000.0,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    const LARGE: TokenBucket = TokenBucket {
        rate: 4_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 128,
        max_packet_size: 9_000,
    };

    /// Every parameter by its own rule, whichever side it stands on.
    #[test]
    fn controlled_load_takes_the_larger_traffic_and_the_smaller_packets() {
        let merged = TokenBucket {
            rate: 4_000.0,
            depth: 9_000.0,
            peak: f32::INFINITY,
            min_policed_unit: 64,
            max_packet_size: 1_500,
        };
        let (a, b) = (FlowSpec::ControlledLoad(SMALL), FlowSpec::ControlledLoad(LARGE));
        assert_eq!(least_upper_bound(&a, &b), Some(FlowSpec::ControlledLoad(merged)));
        assert_eq!(least_upper_bound(&b, &a), Some(FlowSpec::ControlledLoad(merged)));
        assert_eq!(least_upper_bound(&a, &a), Some(a));
    }

    #[test]
    fn guaranteed_takes_the_larger_rate_and_the_smaller_slack() {
        let a = FlowSpec::Guaranteed(SMALL, Rspec { rate: 5_000.0, slack_us: 10 });
        let b = FlowSpec::Guaranteed(SMALL, Rspec { rate: 4_500.0, slack_us: 0 });
        let merged = FlowSpec::Guaranteed(SMALL, Rspec { rate: 5_000.0, slack_us: 0 });
        assert_eq!(least_upper_bound(&a, &b), Some(merged));
    }

    #[test]
    fn different_services_do_not_merge() {
        let a = FlowSpec::ControlledLoad(SMALL);
        let b = FlowSpec::Guaranteed(SMALL, Rspec { rate: 5_000.0, slack_us: 0 });
        assert_eq!(least_upper_bound(&a, &b), None);
    }
}
