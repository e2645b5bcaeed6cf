//! What a path offers to the receiver, from its ADSPEC.

use earmark_wire::intserv::{Adspec, Overrides};
use serde::{Deserialize, Serialize};

/// Content of an ADSPEC for the receiver (RFC 2210 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Number of RSVP hops so far.
    pub hops: u32,
    /// Smallest bandwidth of the path, octets per second.
    #[serde(with = "earmark_wire::intserv::exact")]
    pub path_bandwidth: f32,
    /// Latency of the path without queueing, microseconds; `u32::MAX` if a hop did not know it.
    pub min_latency_us: u32,
    /// Path MTU, octets.
    pub path_mtu: u32,
    /// Path MTU of guaranteed service, octets: [`Offer::path_mtu`] unless a hop offers the service less (RFC 2210
    /// section 3.3.5).
    pub guaranteed_mtu: u32,
    /// Path MTU of controlled load, octets: [`Offer::path_mtu`] unless a hop offers the service less.
    pub controlled_load_mtu: u32,
    /// Break bit: some hop does not support RSVP, so all values are only bounds.
    pub broken: bool,
    /// Guaranteed service: end-to-end C (octets) and D (microseconds), if every hop supports it.
    pub guaranteed: Option<(u32, u32)>,
    /// Whether every hop supports controlled load.
    pub controlled_load: bool,
}

impl Offer {
    /// Converts an ADSPEC. `broken` means that some hop did not update it.
    pub(crate) fn of(adspec: &Adspec<'_>, broken: bool) -> Offer {
        let general = &adspec.general;
        let guaranteed = adspec.guaranteed.as_ref().filter(|g| !g.break_bit);
        // A service cannot have more than the path (RFC 2215 section 3.5).
        let mtu = |of: Option<&Overrides<'_>>| {
            general.mtu.min(of.and_then(|of| of.mtu).unwrap_or(u32::MAX))
        };
        Offer {
            hops: general.hops,
            path_bandwidth: general.bandwidth,
            min_latency_us: general.latency_us,
            path_mtu: general.mtu,
            guaranteed_mtu: mtu(adspec.guaranteed.as_ref().map(|g| &g.overrides)),
            controlled_load_mtu: mtu(adspec.controlled_load.as_ref().map(|c| &c.overrides)),
            broken: broken || general.break_bit,
            guaranteed: guaranteed.and_then(|g| g.terms).map(|t| (t.c_total, t.d_total)),
            controlled_load: adspec.controlled_load.as_ref().is_some_and(|c| !c.break_bit),
        }
    }
}
