//! The work of one hop on an ADSPEC: what arrived, composed with what the hop has to offer (RFC 2215 sections 2 and 3,
//! RFC 2210 section 3.3.5, RFC 2212 for the error terms).

use super::standard;
use super::{Adspec, ControlledLoad, Fragments, General, Guaranteed, GuaranteedTerms, Overrides};

/// Latency that nobody knows (RFC 2215 section 3.4).
const INDETERMINATE: u32 = u32::MAX;
/// What one element of the path has to offer on the link ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopCharacteristics {
    /// Between the previous RSVP hop and this one there may be elements without integrated services (the IP TTL and
    /// Send_TTL differ, RFC 2205 section 3.8).
    pub non_is_hop: bool,
    /// Bandwidth available to packets, octets per second; 0 where it is not known.
    pub bandwidth: f32,
    /// Latency of the link and this element, microseconds; all ones where it is not known.
    pub latency_us: u32,
    /// MTU of the link, octets.
    pub mtu: u32,
    /// Guaranteed service, if it is offered.
    pub guaranteed: Option<GuaranteedHop>,
    /// Controlled load, if it is offered, with values of its own.
    pub controlled_load: Option<LocalOverrides>,
}

/// How far this element misses the fluid model (RFC 2212).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GuaranteedHop {
    /// Rate-dependent error C, octets.
    pub c: u32,
    /// Rate-independent error D, microseconds.
    pub d: u32,
    /// It reshapes traffic, so that the sums start anew with its own terms.
    pub reshapes: bool,
    /// Values that hold for this service only.
    pub overrides: LocalOverrides,
}

/// What an element offers to one service where that differs from what it offers to all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LocalOverrides {
    /// See [`HopCharacteristics::bandwidth`].
    pub bandwidth: Option<f32>,
    /// See [`HopCharacteristics::latency_us`].
    pub latency_us: Option<u32>,
    /// See [`HopCharacteristics::mtu`].
    pub mtu: Option<u32>,
}

impl<'a> Adspec<'a> {
    /// [`Adspec::advertise`] from octets to octets: writes into `buffer` what goes on to the next hop when `body` is what
    /// arrived, and says how many octets. `None` where the ADSPEC is not of the shape that nearly all are of, general
    /// parameters and both services without values of their own, or the buffer is too short.
    #[inline]
    pub fn forward(body: &[u8], hop: &HopCharacteristics, buffer: &mut [u8]) -> Option<usize> {
        standard::forward(body, hop, buffer)
    }

    /// What goes on to the next hop when this is what arrived (RFC 2210 section 3.3.5, RFC 2215 section 2).
    #[must_use]
    pub fn advertise(&self, hop: &HopCharacteristics) -> Adspec<'a> {
        let arrived = &self.general;
        let guaranteed = self.guaranteed.map(|fragment| match &hop.guaranteed {
            None => Guaranteed { break_bit: true, ..fragment },
            Some(local) => Guaranteed {
                break_bit: fragment.break_bit,
                terms: Some(fragment.terms.unwrap_or_default().add(local)),
                overrides: fragment.overrides.compose(arrived, hop, &local.overrides),
            },
        });
        let controlled_load = self.controlled_load.map(|fragment| match &hop.controlled_load {
            None => ControlledLoad { break_bit: true, ..fragment },
            Some(local) => ControlledLoad {
                break_bit: fragment.break_bit,
                overrides: fragment.overrides.compose(arrived, hop, local),
            },
        });
        Adspec {
            general: arrived.compose(hop),
            guaranteed,
            controlled_load,
            others: Fragments { broken: true, ..self.others },
        }
    }
}

impl<'a> General<'a> {
    /// These and what the hop has to offer.
    #[inline]
    pub(super) fn compose(&self, hop: &HopCharacteristics) -> General<'a> {
        General {
            break_bit: self.break_bit || hop.non_is_hop,
            hops: self.hops.saturating_add(1),
            bandwidth: compose_bandwidth(self.bandwidth, hop.bandwidth),
            latency_us: compose_latency(self.latency_us, hop.latency_us),
            mtu: self.mtu.min(hop.mtu),
            extra: self.extra,
        }
    }
}

/// The smaller one; 0, which stands for unknown, wins, and so does nonsense that arrived, lest it look sound.
fn compose_bandwidth(arrived: f32, local: f32) -> f32 {
    if local < arrived { local } else { arrived }
}

/// The sum; all ones, which stands for unknown, wins and is the limit (RFC 2215 section 3.4).
fn compose_latency(arrived: u32, local: u32) -> u32 {
    const { assert!(INDETERMINATE == u32::MAX, "saturation is what makes it win") };
    arrived.saturating_add(local)
}

impl GuaranteedTerms {
    /// These and the terms of one more element (RFC 2212: sums stop at all ones).
    #[inline]
    pub(super) fn add(self, hop: &GuaranteedHop) -> GuaranteedTerms {
        let (c_sum, d_sum) = if hop.reshapes { (0, 0) } else { (self.c_sum, self.d_sum) };
        GuaranteedTerms {
            c_total: self.c_total.saturating_add(hop.c),
            d_total: self.d_total.saturating_add(hop.d),
            c_sum: c_sum.saturating_add(hop.c),
            d_sum: d_sum.saturating_add(hop.d),
        }
    }
}

impl<'a> Overrides<'a> {
    /// The rules for override values: own value before default value, on both sides.
    fn compose(
        &self,
        arrived: &General<'_>,
        hop: &HopCharacteristics,
        local: &LocalOverrides,
    ) -> Overrides<'a> {
        /// `None` where neither side has a value of its own.
        fn either<T: Copy>(
            arrived: Option<T>,
            arrived_default: T,
            local: Option<T>,
            local_default: T,
            compose: impl Fn(T, T) -> T,
        ) -> Option<T> {
            (arrived.is_some() || local.is_some()).then(|| {
                compose(arrived.unwrap_or(arrived_default), local.unwrap_or(local_default))
            })
        }
        Overrides {
            hops: self.hops.map(|hops| hops.saturating_add(1)),
            bandwidth: either(
                self.bandwidth,
                arrived.bandwidth,
                local.bandwidth,
                hop.bandwidth,
                compose_bandwidth,
            ),
            latency_us: either(
                self.latency_us,
                arrived.latency_us,
                local.latency_us,
                hop.latency_us,
                compose_latency,
            ),
            mtu: either(self.mtu, arrived.mtu, local.mtu, hop.mtu, u32::min),
            extra: self.extra,
        }
    }
}
