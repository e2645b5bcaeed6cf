//! The update of an ADSPEC at one hop: received values composed with the hop's own (RFC 2215 sections 2 and 3, RFC 2210
//! section 3.3.5, RFC 2212 for the error terms).

use super::common_form;
use super::{Adspec, ControlledLoad, Fragments, General, Guaranteed, GuaranteedTerms, Overrides};

/// Value of an unknown latency (RFC 2215 section 3.4).
const INDETERMINATE: u32 = u32::MAX;
/// Properties of this element and the link ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopCharacteristics {
    /// Whether elements without integrated services may be between the previous hop and this one (IP TTL and
    /// Send_TTL differ, RFC 2205 section 3.8).
    pub non_is_hop: bool,
    /// Available bandwidth, octets per second; 0 if unknown.
    pub bandwidth: f32,
    /// Latency of the link and this element, microseconds; all ones if unknown.
    pub latency_us: u32,
    /// MTU of the link, octets.
    pub mtu: u32,
    /// Guaranteed service, if offered.
    pub guaranteed: Option<GuaranteedHop>,
    /// Controlled load, if offered, with its override values.
    pub controlled_load: Option<LocalOverrides>,
}

/// Error terms of this element: deviation from the fluid model (RFC 2212).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GuaranteedHop {
    /// Rate-dependent error C, octets.
    pub c: u32,
    /// Rate-independent error D, microseconds.
    pub d: u32,
    /// Whether the element reshapes traffic, so that the sums restart with its own terms.
    pub reshapes: bool,
    /// Override values of this service.
    pub overrides: LocalOverrides,
}

/// Values that an element offers to one service and that differ from those for all services.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LocalOverrides {
    /// Override of [`HopCharacteristics::bandwidth`].
    pub bandwidth: Option<f32>,
    /// Override of [`HopCharacteristics::latency_us`].
    pub latency_us: Option<u32>,
    /// Override of [`HopCharacteristics::mtu`].
    pub mtu: Option<u32>,
}

impl<'a> Adspec<'a> {
    /// Works as [`Adspec::advertise`] on octets: writes the ADSPEC for the next hop into `buffer` for the received
    /// `body`, and returns the length in octets. `None` if the ADSPEC is not of the common form, general parameters and
    /// both services without override values, or if the buffer is too short.
    #[inline]
    pub fn forward(body: &[u8], hop: &HopCharacteristics, buffer: &mut [u8]) -> Option<usize> {
        common_form::forward(body, hop, buffer)
    }

    /// Returns the ADSPEC for the next hop (RFC 2210 section 3.3.5, RFC 2215 section 2).
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
    /// Composes the received values with those of the hop.
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

/// Returns the smaller bandwidth. 0, which stands for unknown, takes precedence; so does an invalid received value,
/// which must not be replaced by a valid one.
fn compose_bandwidth(arrived: f32, local: f32) -> f32 {
    if local < arrived { local } else { arrived }
}

/// Returns the sum of the latencies, at most all ones, which stands for unknown and takes precedence (RFC 2215 section
/// 3.4).
fn compose_latency(arrived: u32, local: u32) -> u32 {
    const { assert!(INDETERMINATE == u32::MAX, "saturation is what makes it win") };
    arrived.saturating_add(local)
}

impl GuaranteedTerms {
    /// Adds the terms of one more element (RFC 2212: sums are limited to all ones).
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
    /// Composes override values. On either side, an override takes precedence over the general value.
    fn compose(
        &self,
        arrived: &General<'_>,
        hop: &HopCharacteristics,
        local: &LocalOverrides,
    ) -> Overrides<'a> {
        /// Composes the values of both sides; `None` if neither side has an override.
        fn override_value<T: Copy>(
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
            bandwidth: override_value(
                self.bandwidth,
                arrived.bandwidth,
                local.bandwidth,
                hop.bandwidth,
                compose_bandwidth,
            ),
            latency_us: override_value(
                self.latency_us,
                arrived.latency_us,
                local.latency_us,
                hop.latency_us,
                compose_latency,
            ),
            mtu: override_value(self.mtu, arrived.mtu, local.mtu, hop.mtu, u32::min),
            extra: self.extra,
        }
    }
}
