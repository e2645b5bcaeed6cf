//! The integrated-services objects of RFC 2210, which RSVP and YESSIR carry: traffic and service specifications.

use serde::{Deserialize, Serialize};

/// A token bucket with peak rate (RFC 2210 section 3.1, parameter 127).
///
/// Values are kept exactly as they stood on the wire, so NaN, infinities and negative numbers may occur here;
/// [`TokenBucket::validate`] judges them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Token rate r, octets per second.
    pub rate: f32,
    /// Bucket depth b, octets.
    pub depth: f32,
    /// Peak rate p, octets per second; positive infinity where it is not known.
    pub peak: f32,
    /// Minimum policed unit m, octets.
    pub min_policed_unit: u32,
    /// Maximum packet size M, octets.
    pub max_packet_size: u32,
}

/// What a sender's traffic looks like (SENDER_TSPEC, RFC 2210 section 3.1).
pub type SenderTspec = TokenBucket;

/// The guaranteed-service half of a reservation (RFC 2210 section 3.2, parameter 130).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rspec {
    /// Reserved rate R, octets per second.
    pub rate: f32,
    /// Slack term S, microseconds.
    pub slack_us: u32,
}

/// What a receiver asks for (FLOWSPEC, RFC 2210 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FlowSpec {
    /// Controlled load (RFC 2211, service 5).
    ControlledLoad(TokenBucket),
    /// Guaranteed service (RFC 2212, service 2).
    Guaranteed(TokenBucket, Rspec),
}
