//! The ADSPEC: the properties of a path, collected hop by hop from sender to receiver (RFC 2210 section 3.3).
//!
//! An ADSPEC begins with the general parameters, which are always present, followed by a fragment for each service that
//! the sender can use. [`Adspec::advertise`] is the update at one hop: it composes the received values with the hop's
//! own (RFC 2215 section 3, RFC 2212 for the error terms). If the hop does not offer or know a service, it sets that
//! fragment's break bit and forwards the fragment otherwise unchanged.
//!
//! A parsed [`Adspec`] borrows unknown parts from the parsed octets; nothing is allocated. Flags of single parameters,
//! none of which is in use yet, are not kept.

use super::ValueError;
use super::format::{FormatError, FormatProblem, HEADER, Reader, put_message, put_service};
use super::iana::Service;
use crate::writer::{EmitError, Writer};

mod common_form;
mod compose;
mod fragments;

pub use compose::{GuaranteedHop, HopCharacteristics, LocalOverrides};

/// Length of a parameter of one word, header included, octets.
const WORD_PARAMETER: usize = HEADER + 4;

/// The body of an ADSPEC object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adspec<'a> {
    /// Service 1: general parameters, valid for all services.
    pub general: General<'a>,
    /// Service 2: guaranteed service, if the sender can use it.
    pub guaranteed: Option<Guaranteed<'a>>,
    /// Service 5: controlled load, if the sender can use it.
    pub controlled_load: Option<ControlledLoad<'a>>,
    /// Fragments of all other services.
    pub others: Fragments<'a>,
}

/// Default general parameters (RFC 2210 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct General<'a> {
    /// Global break bit: a network element on the path does not support integrated services, and all other values may
    /// be wrong.
    pub break_bit: bool,
    /// Number of integrated-services hops on the path (RFC 2215 section 3.2).
    pub hops: u32,
    /// Available path bandwidth, octets per second; 0 if unknown.
    pub bandwidth: f32,
    /// Minimum path latency, microseconds; all ones if unknown.
    pub latency_us: u32,
    /// Path MTU, octets.
    pub mtu: u32,
    /// Other parameters.
    pub extra: Parameters<'a>,
}

/// Service-specific values that override the general ones (RFC 2210 section 3.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides<'a> {
    /// Override of [`General::hops`].
    pub hops: Option<u32>,
    /// Override of [`General::bandwidth`].
    pub bandwidth: Option<f32>,
    /// Override of [`General::latency_us`].
    pub latency_us: Option<u32>,
    /// Override of [`General::mtu`].
    pub mtu: Option<u32>,
    /// Other parameters.
    pub extra: Parameters<'a>,
}

/// The fragment of guaranteed service (RFC 2210 section 3.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guaranteed<'a> {
    /// Break bit: a network element on the path does not offer the service.
    pub break_bit: bool,
    /// Error terms; `None` until the first element that offers the service has added its own.
    pub terms: Option<GuaranteedTerms>,
    /// Override values; none without error terms.
    pub overrides: Overrides<'a>,
}

/// Error terms: deviation of the path from the fluid model (RFC 2212).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuaranteedTerms {
    /// C_tot: rate-dependent error of the whole path, octets.
    pub c_total: u32,
    /// D_tot: rate-independent error of the whole path, microseconds.
    pub d_total: u32,
    /// C_sum: rate-dependent error since the last reshaping point, octets.
    pub c_sum: u32,
    /// D_sum: rate-independent error since the last reshaping point, microseconds.
    pub d_sum: u32,
}

/// The fragment of controlled load (RFC 2210 section 3.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlledLoad<'a> {
    /// Break bit: a network element on the path does not offer the service.
    pub break_bit: bool,
    /// Override values.
    pub overrides: Overrides<'a>,
}

/// Parameters kept as received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters<'a> {
    /// All parameters of the fragment behind those at fixed places; iteration skips the known ones.
    octets: &'a [u8],
}

/// Fragments of unknown services.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fragments<'a> {
    /// All fragments; iteration skips the known services.
    octets: &'a [u8],
    /// Whether all break bits are set, whatever the octets: this element does not offer these services.
    broken: bool,
}

/// A fragment of an unknown service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFragment<'a> {
    /// Service number.
    pub service: u8,
    /// Break bit: a network element on the path does not offer the service.
    pub break_bit: bool,
    /// Parameters, unparsed.
    pub data: &'a [u8],
}

impl<'a> Adspec<'a> {
    /// Creates the initial ADSPEC of a sender: no hop on the path yet, both services requested (RFC 2210 section 3.3).
    ///
    /// All values are neutral, so that [`Adspec::advertise`] with the sender's own link returns the ADSPEC that the
    /// host sends.
    pub const fn for_sender() -> Adspec<'static> {
        let none = Parameters { octets: &[] };
        let overrides =
            Overrides { hops: None, bandwidth: None, latency_us: None, mtu: None, extra: none };
        let terms = GuaranteedTerms { c_total: 0, d_total: 0, c_sum: 0, d_sum: 0 };
        Adspec {
            general: General {
                break_bit: false,
                hops: 0,
                bandwidth: f32::MAX,
                latency_us: 0,
                mtu: u32::MAX,
                extra: none,
            },
            guaranteed: Some(Guaranteed { break_bit: false, terms: Some(terms), overrides }),
            controlled_load: Some(ControlledLoad { break_bit: false, overrides }),
            others: Fragments { octets: &[], broken: false },
        }
    }

    /// Reads the body of an ADSPEC object. The services behind the general parameters may have any order; see
    /// [`Adspec::is_ordered`].
    ///
    /// # Errors
    /// The frame is not the one of RFC 2210 section 3.3.
    pub fn parse(body: &'a [u8]) -> Result<Adspec<'a>, FormatError> {
        match common_form::parse(body) {
            Some(adspec) => Ok(adspec),
            None => Adspec::parse_any(body),
        }
    }

    /// Whether [`Adspec::parse`] would succeed.
    ///
    /// # Errors
    /// The errors of [`Adspec::parse`].
    #[inline]
    pub fn check(body: &[u8]) -> Result<(), FormatError> {
        match common_form::words(body) {
            Some(_) => Ok(()),
            None => Adspec::parse_any(body).map(|_| ()),
        }
    }

    /// Returns whether the fragments of a body that can be read are ordered by their service numbers (RFC 2210 section
    /// 3.3.1). Some implementations send controlled load before guaranteed service.
    pub fn is_ordered(body: &[u8]) -> bool {
        common_form::words(body).is_some()
            || Reader::message(body).is_ok_and(|message| fragments::are_ordered(message))
    }

    /// Parses fragment by fragment, parameter by parameter.
    fn parse_any(body: &'a [u8]) -> Result<Adspec<'a>, FormatError> {
        let mut message = Reader::message(body)?;
        let general = General::parse(&mut message)?;
        let mut adspec = Adspec {
            general,
            guaranteed: None,
            controlled_load: None,
            others: Fragments { octets: message.rest(), broken: false },
        };
        let mut seen = [false; 256];
        seen[usize::from(Service::General.code())] = true;
        while !message.is_empty() {
            let start = message;
            let (header, data) = message.part()?;
            if core::mem::replace(&mut seen[usize::from(header.number)], true) {
                return Err(start.error(FormatProblem::DuplicateService));
            }
            match Service::from_code(header.number) {
                Service::Guaranteed => {
                    adspec.guaranteed = Some(Guaranteed::parse(header.high_bit, data)?);
                }
                Service::ControlledLoad => {
                    adspec.controlled_load = Some(ControlledLoad {
                        break_bit: header.high_bit,
                        overrides: Overrides::parse(data)?,
                    });
                }
                Service::General | Service::Unknown(_) => {}
            }
        }
        Ok(adspec)
    }

    /// Length of the body, octets.
    pub fn buffer_len(&self) -> usize {
        if let Some(length) = common_form::length(self) {
            return length;
        }
        let others: usize = self.others.iter().map(|other| HEADER + other.data.len()).sum();
        HEADER
            + (HEADER + self.general.data_len())
            + self.guaranteed.map_or(0, |guaranteed| HEADER + guaranteed.data_len())
            + self.controlled_load.map_or(0, |load| HEADER + load.overrides.data_len())
            + others
    }

    /// Writes the body, [`Adspec::buffer_len`] octets; returns the length.
    ///
    /// # Errors
    /// The buffer is too short.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        match common_form::emit(self, buffer) {
            Some(length) => Ok(length),
            None => self.emit_any(buffer),
        }
    }

    /// Writes fragment by fragment, parameter by parameter.
    fn emit_any(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        put_message(&mut writer, self.buffer_len() - HEADER)?;
        self.general.put(&mut writer)?;
        if let Some(guaranteed) = &self.guaranteed {
            guaranteed.put(&mut writer)?;
        }
        let after = Service::ControlledLoad.code();
        let others = self.others.by_number();
        let others = || others.iter().flatten();
        for other in others().filter(|other| other.service < after) {
            other.put(&mut writer)?;
        }
        if let Some(load) = &self.controlled_load {
            let length = load.overrides.data_len();
            put_service(&mut writer, Service::ControlledLoad, load.break_bit, length)?;
            load.overrides.put(&mut writer)?;
        }
        for other in others().filter(|other| other.service > after) {
            other.put(&mut writer)?;
        }
        Ok(writer.written().len())
    }

    /// Checks the values (RFC 2215 section 3.3).
    ///
    /// # Errors
    /// An invalid bandwidth.
    pub fn validate(&self) -> Result<(), ValueError> {
        let overrides = [
            self.guaranteed.and_then(|guaranteed| guaranteed.overrides.bandwidth),
            self.controlled_load.and_then(|load| load.overrides.bandwidth),
        ];
        let bandwidths =
            [self.general.bandwidth].into_iter().chain(overrides.into_iter().flatten());
        for bandwidth in bandwidths {
            if !bandwidth.is_finite() || bandwidth.is_sign_negative() {
                return Err(ValueError::PathBandwidth);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Fast and general parser agree on ADSPECs of the common form and on octets that resemble it.
        #[test]
        fn fast_parser_agrees_with_general_parser(
            values: [u32; 8],
            damage in proptest::option::of((0usize..80, any::<u8>())),
        ) {
            let mut adspec = Adspec::for_sender();
            let [hops, bandwidth, latency_us, mtu, c_total, d_total, c_sum, d_sum] = values;
            let bandwidth = f32::from_bits(bandwidth & 0x7f7f_ffff);
            adspec.general = General { hops, bandwidth, latency_us, mtu, ..adspec.general };
            let terms = GuaranteedTerms { c_total, d_total, c_sum, d_sum };
            adspec.guaranteed = Some(Guaranteed { terms: Some(terms), ..Guaranteed::default() });
            let mut body = [0; 80];
            prop_assert_eq!(common_form::emit(&adspec, &mut body), Some(80));
            let mut long_way = [0xff; 80];
            prop_assert_eq!(adspec.emit_any(&mut long_way), Ok(80));
            prop_assert_eq!(body, long_way);
            prop_assert_eq!(common_form::parse(&body), Some(adspec));
            let link = GuaranteedHop { c: mtu, d: c_sum, reshapes: hops % 2 == 0, ..GuaranteedHop::default() };
            let mut hop = HopCharacteristics {
                non_is_hop: hops % 3 == 0,
                bandwidth: f32::from_bits(values[1].rotate_left(8) & 0x7f7f_ffff),
                latency_us: d_total,
                mtu: c_total,
                guaranteed: Some(link),
                controlled_load: Some(LocalOverrides::default()),
            };
            prop_assert_eq!(Adspec::forward(&body, &hop, &mut long_way), Some(80));
            let mut composed = [0; 80];
            prop_assert_eq!(adspec.advertise(&hop).emit_any(&mut composed), Ok(80));
            prop_assert_eq!(long_way, composed);
            hop.controlled_load = Some(LocalOverrides { mtu: Some(mtu), ..LocalOverrides::default() });
            prop_assert_eq!(Adspec::forward(&body, &hop, &mut long_way), None, "it grows");
            if let Some((at, octet)) = damage {
                body[at] = octet;
            }
            let (long, short) = (Adspec::parse_any(&body), Adspec::parse(&body));
            let nan = long.is_ok_and(|adspec| adspec.general.bandwidth.is_nan());
            prop_assert!(nan || long == short);
            prop_assert_eq!(long.map(|_| ()), Adspec::check(&body));
        }
    }
}
