//! Settings of the aggregation: borders, and the aggregates across them.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Marking, Markings, Prefix, Rate};
use serde::{Deserialize, Serialize};

use super::core_packets::CorePackets;
use crate::protocols::CoreProtocol;

/// Settings of an interface towards a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Border {
    /// Whether RSVP messages that follow the data leave as IP protocol 134, which the nodes of the core ignore (RFC
    /// 3175 section 2.1). All other edges must then support this protocol.
    pub hide: bool,
    /// Aggregates across the core.
    pub across: Vec<Across>,
    /// Aggregates of other edges that end here.
    pub deaggregates: Vec<Deaggregate>,
}

impl Border {
    /// Returns the DSCPs of packets that leave towards the core: those of the aggregates that are told apart by them.
    pub fn markings(&self) -> Markings {
        Markings::new(self.across.iter().map(|across| Marking {
            range: across.range,
            protocol: earmark_rsvp::ID,
            dscp: across.by.dscp(),
        }))
    }
}

/// Settings of a deaggregating router, or of the exit of a tunnel: aggregates of RSVP that it answers (RFC 3175 section 1.4.12,
/// RFC 2746 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deaggregate {
    /// Address of this node that other edges name as far edge.
    pub at: IpAddr,
    /// Packets of the aggregates.
    pub packets: CorePackets,
}

/// Settings of an aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// Far edge, beyond the core in the direction of the range: with RSVP a node that [deaggregates](Border::deaggregates),
    /// otherwise any host that answers pings.
    pub to: IpAddr,
    /// Destinations behind the far edge.
    pub range: Prefix,
    /// Protocol that reserves the aggregate.
    #[serde(default)]
    pub by: CoreProtocol,
    /// Step of growth and shrinking.
    pub step: Rate,
    /// Lowest rate.
    #[serde(default)]
    pub lowest: Rate,
    /// Highest rate.
    pub highest: Rate,
    /// Rate kept free for new flows, so that most of them need not wait.
    #[serde(default)]
    pub margin: Rate,
    /// Time for which a lower rate must have been sufficient before the aggregate shrinks.
    #[serde(default = "half_a_minute")]
    pub shrink_after: Duration,
    /// Maximum time that a request waits for the aggregate to grow.
    #[serde(default = "two_seconds")]
    pub patience: Duration,
    /// Maximum number of requests that wait at the same time.
    #[serde(default = "a_thousand")]
    pub waiting: u32,
    /// Pause between a refusal by the core and the next request.
    #[serde(default = "five_seconds")]
    pub pause: Duration,
    /// Time for which flows keep their reservations while a lost aggregate is set up again.
    #[serde(default = "five_seconds")]
    pub recover: Duration,
}

fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

fn two_seconds() -> Duration {
    Duration::from_secs(2)
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn a_thousand() -> u32 {
    1_000
}
