//! Arithmetic of flowspecs: least upper and greatest lower bound, order, sum and minimum (RFC 2205 sections 2.2 and 3.5,
//! RFC 2211 and 2212 "Ordering and Merging").

use core::cmp::Ordering;

use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};

/// Returns the smallest flowspec that satisfies both, or `None` if they request different services.
///
/// The maximum packet size becomes the *smaller* one of the two, so that a receiver with a small path MTU is not sent
/// packets that it cannot receive (RFC 2211, "merged TSpec").
pub fn least_upper_bound(a: &FlowSpec, b: &FlowSpec) -> Option<FlowSpec> {
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

/// Returns the largest flowspec that both satisfy, or `None` if they request different services. It is requested
/// upstream if all requests here have failed there (RFC 2205 section 3.5).
pub(crate) fn greatest_lower_bound(a: &FlowSpec, b: &FlowSpec) -> Option<FlowSpec> {
    let lower = |a: &TokenBucket, b: &TokenBucket| TokenBucket {
        rate: a.rate.min(b.rate),
        depth: a.depth.min(b.depth),
        peak: a.peak.min(b.peak),
        min_policed_unit: a.min_policed_unit.min(b.min_policed_unit),
        max_packet_size: a.max_packet_size.min(b.max_packet_size),
    };
    match (a, b) {
        (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) => {
            Some(FlowSpec::ControlledLoad(lower(a, b)))
        }
        (FlowSpec::Guaranteed(a, ra), FlowSpec::Guaranteed(b, rb)) => {
            let rspec =
                Rspec { rate: ra.rate.min(rb.rate), slack_us: ra.slack_us.max(rb.slack_us) };
            Some(FlowSpec::Guaranteed(lower(a, b), rspec))
        }
        _ => None,
    }
}

/// Returns whether `a` is strictly greater than `b` (RFC 2205 section 3.5): it has a higher rate, and is smaller in no
/// parameter.
///
/// The RFC does not define the order. If one greater parameter were enough, of two requests one could have the rate and
/// the other one the bucket of what failed; both would be smaller, and merged they would fail again forever. If all
/// parameters had to be greater, a smaller rate with a bucket of the same size would not count. Packet sizes never make
/// a request smaller, because merging takes the smaller ones whoever else requests more.
pub(crate) fn is_greater(a: &FlowSpec, b: &FlowSpec) -> bool {
    let services = match (a, b) {
        (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) if a.rate > b.rate => {
            Some(Ordering::Equal)
        }
        (FlowSpec::Guaranteed(_, a), FlowSpec::Guaranteed(_, b)) if a.rate > b.rate => {
            product(a.rate.partial_cmp(&b.rate), b.slack_us.partial_cmp(&a.slack_us))
        }
        _ => None,
    };
    let (a, b) = (a.token_bucket(), b.token_bucket());
    let buckets = [
        a.rate.partial_cmp(&b.rate),
        a.depth.partial_cmp(&b.depth),
        a.peak.partial_cmp(&b.peak),
        Some(a.max_packet_size.cmp(&b.max_packet_size).max(Ordering::Equal)),
    ];
    buckets.into_iter().fold(services, product) == Some(Ordering::Greater)
}

/// Returns the order of two pairs in the product order; `None` if one part is greater and the other less.
fn product(a: Option<Ordering>, b: Option<Ordering>) -> Option<Ordering> {
    match (a?, b?) {
        (a, Ordering::Equal) => Some(a),
        (Ordering::Equal, b) => Some(b),
        (a, b) => (a == b).then_some(a),
    }
}

/// Returns the flowspec to reserve if the senders announce `path` in total (Path_Te): never more than the senders can
/// send (RFC 2205 section 2.2; the minimum of RFC 2211 section 8).
#[inline]
pub(crate) fn effective(flowspec: &FlowSpec, path: &TokenBucket) -> FlowSpec {
    match flowspec {
        FlowSpec::ControlledLoad(bucket) => FlowSpec::ControlledLoad(minimum(bucket, path)),
        FlowSpec::Guaranteed(bucket, rspec) => FlowSpec::Guaranteed(minimum(bucket, path), *rspec),
    }
}

/// Returns the minimum of two traffic specifications: the smaller one if they can be compared, else the lower rates
/// with the larger bucket. Packet sizes are compared separately, so that a sender of smaller packets does not get a
/// larger bucket.
fn minimum(a: &TokenBucket, b: &TokenBucket) -> TokenBucket {
    let covers = |a: &TokenBucket, b: &TokenBucket| {
        a.rate >= b.rate && a.depth >= b.depth && a.peak >= b.peak
    };
    let ordered = covers(a, b) || covers(b, a);
    TokenBucket {
        rate: a.rate.min(b.rate),
        depth: if ordered { a.depth.min(b.depth) } else { a.depth.max(b.depth) },
        peak: a.peak.min(b.peak),
        min_policed_unit: a.min_policed_unit.min(b.min_policed_unit),
        max_packet_size: a.max_packet_size.min(b.max_packet_size),
    }
}

/// Returns the sum of the traffic of two senders (RFC 2211 section 8, "the sum").
pub(crate) fn sum(a: &TokenBucket, b: &TokenBucket) -> TokenBucket {
    TokenBucket {
        rate: a.rate + b.rate,
        depth: a.depth + b.depth,
        peak: a.peak + b.peak,
        min_policed_unit: a.min_policed_unit.min(b.min_policed_unit),
        max_packet_size: a.max_packet_size.max(b.max_packet_size),
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

    /// Each parameter has its own rule, independent of the order of the arguments.
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

    /// The lower bound takes the smaller value of each parameter, so that both requests satisfy it.
    #[test]
    fn the_lower_bound_takes_the_smaller_of_each() {
        let lower = TokenBucket {
            rate: 1_000.0,
            depth: 3_000.0,
            peak: 2_000.0,
            min_policed_unit: 64,
            max_packet_size: 1_500,
        };
        let (a, b) = (FlowSpec::ControlledLoad(SMALL), FlowSpec::ControlledLoad(LARGE));
        assert_eq!(greatest_lower_bound(&a, &b), Some(FlowSpec::ControlledLoad(lower)));
        assert_eq!(greatest_lower_bound(&b, &a), Some(FlowSpec::ControlledLoad(lower)));
        let rspec = |rate, slack_us| FlowSpec::Guaranteed(SMALL, Rspec { rate, slack_us });
        assert_eq!(greatest_lower_bound(&rspec(5.0, 1), &rspec(6.0, 2)), Some(rspec(5.0, 2)));
        assert_eq!(greatest_lower_bound(&a, &rspec(5.0, 1)), None);
    }

    /// Neither a higher rate with less of another parameter nor an equal rate is greater; packet sizes do not count.
    #[test]
    fn greater_is_a_higher_rate_and_less_in_nothing() {
        let load = FlowSpec::ControlledLoad;
        let more = TokenBucket { rate: 2_000.0, ..SMALL };
        assert!(is_greater(&load(more), &load(SMALL)));
        assert!(!is_greater(&load(SMALL), &load(more)));
        assert!(!is_greater(&load(SMALL), &load(SMALL)));
        let shallow = TokenBucket { depth: 1.0, ..more };
        assert!(
            !is_greater(&load(shallow), &load(SMALL)) && !is_greater(&load(SMALL), &load(shallow))
        );
        let jumbo = TokenBucket { max_packet_size: 9_000, ..SMALL };
        assert!(is_greater(&load(more), &load(jumbo)) && !is_greater(&load(jumbo), &load(SMALL)));
        let deep = TokenBucket { depth: 90_000.0, ..SMALL };
        assert!(!is_greater(&load(deep), &load(SMALL)));
        let rspec = |rate, slack_us| FlowSpec::Guaranteed(SMALL, Rspec { rate, slack_us });
        assert!(
            is_greater(&rspec(6.0, 1), &rspec(5.0, 1))
                && is_greater(&rspec(6.0, 0), &rspec(5.0, 1))
                && !is_greater(&rspec(5.0, 0), &rspec(5.0, 1))
        );
        assert!(
            !is_greater(&rspec(6.0, 2), &rspec(5.0, 1))
                && !is_greater(&rspec(5.0, 1), &load(SMALL))
        );
    }

    /// The effective flowspec exceeds neither the senders' traffic nor the request.
    #[test]
    fn the_effective_flowspec_is_the_smaller_one() {
        let load = FlowSpec::ControlledLoad;
        let more = TokenBucket { rate: 2_000.0, ..SMALL };
        assert_eq!(effective(&load(more), &SMALL), load(SMALL));
        assert_eq!(effective(&load(SMALL), &more), load(SMALL));
        let mixed = TokenBucket { rate: 1_000.0, depth: 9_000.0, peak: 2_000.0, ..SMALL };
        assert_eq!(effective(&load(SMALL), &LARGE), load(mixed));
        let rspec = Rspec { rate: 5_000.0, slack_us: 0 };
        let guaranteed = FlowSpec::Guaranteed(more, rspec);
        assert_eq!(effective(&guaranteed, &SMALL), FlowSpec::Guaranteed(SMALL, rspec));
        assert_eq!(sum(&SMALL, &SMALL).rate, 2_000.0);
        let both = sum(&LARGE, &SMALL);
        assert_eq!((both.min_policed_unit, both.max_packet_size), (64, 9_000));
    }
}
