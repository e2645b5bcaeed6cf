//! Token buckets and flowspecs of any bits, NaN included.

use earmark_wire::intserv::{FlowSpec, HopCharacteristics, Rspec, TokenBucket};
use proptest::option;
use proptest::prelude::*;

/// A usual token bucket: 2 Mbit/s.
pub const BUCKET: TokenBucket = TokenBucket {
    rate: 250_000.0,
    depth: 3000.0,
    peak: 1_250_000.0,
    min_policed_unit: 64,
    max_packet_size: 1500,
};

/// A hop of 10 Mbit/s.
pub const HOP: HopCharacteristics = HopCharacteristics {
    non_is_hop: false,
    bandwidth: 1_250_000.0,
    latency_us: 50,
    mtu: 1500,
    guaranteed: None,
    controlled_load: None,
};

/// Generates single-precision numbers of any bits.
pub fn single() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits)
}

/// Generates token buckets.
pub fn bucket() -> impl Strategy<Value = TokenBucket> {
    (single(), single(), single(), any::<u32>(), any::<u32>()).prop_map(
        |(rate, depth, peak, min_policed_unit, max_packet_size)| TokenBucket {
            rate,
            depth,
            peak,
            min_policed_unit,
            max_packet_size,
        },
    )
}

/// Generates flowspecs of both services.
pub fn flowspec() -> impl Strategy<Value = FlowSpec> {
    (bucket(), option::of((single(), any::<u32>()))).prop_map(|(bucket, rspec)| match rspec {
        None => FlowSpec::ControlledLoad(bucket),
        Some((rate, slack_us)) => FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us }),
    })
}
