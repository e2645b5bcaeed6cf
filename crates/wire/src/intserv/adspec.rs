//! The ADSPEC: what a path offers, gathered hop by hop on the way from sender to receiver (RFC 2210 section 3.3).
//!
//! It begins with the general parameters, which always are there, and goes on with one fragment for each service that
//! the sender can make use of. [`Adspec::advertise`] is the work of one hop: it composes what arrived with what the hop
//! has to offer (RFC 2215 section 3, RFC 2212 for the error terms). A service that the hop does not offer, or does not
//! even know, gets its break bit set and is passed on otherwise unchanged.
//!
//! A parsed [`Adspec`] borrows what it does not understand from the octets it was read from; nothing is allocated. Flags
//! of single parameters, of which none has a use yet, are not kept.

use super::ValueError;
use super::format::{FormatError, FormatProblem, HEADER, Reader, put_message, put_service};
use super::iana::Service;
use crate::writer::{EmitError, Writer};

mod compose;
mod fragments;
mod standard;

pub use compose::{GuaranteedHop, HopCharacteristics, LocalOverrides};

/// Length of a parameter of one word, header included, octets.
const WORD_PARAMETER: usize = HEADER + 4;

/// The body of an ADSPEC object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adspec<'a> {
    /// Service 1: what holds for all services.
    pub general: General<'a>,
    /// Service 2, if the sender can use it.
    pub guaranteed: Option<Guaranteed<'a>>,
    /// Service 5, if the sender can use it.
    pub controlled_load: Option<ControlledLoad<'a>>,
    /// All other services.
    pub others: Fragments<'a>,
}

/// Default general parameters (RFC 2210 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct General<'a> {
    /// Some element of the path knows nothing of integrated services: all the rest may be wrong.
    pub break_bit: bool,
    /// Elements of the path that do know (RFC 2215 section 3.2).
    pub hops: u32,
    /// Bandwidth available along the path, octets per second; 0 where it is not known.
    pub bandwidth: f32,
    /// Minimum path latency, microseconds; all ones where it is not known.
    pub latency_us: u32,
    /// Path MTU, octets.
    pub mtu: u32,
    /// Parameters that are none of these.
    pub extra: Parameters<'a>,
}

/// Values that hold for one service instead of the general ones (RFC 2210 section 3.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides<'a> {
    /// See [`General::hops`].
    pub hops: Option<u32>,
    /// See [`General::bandwidth`].
    pub bandwidth: Option<f32>,
    /// See [`General::latency_us`].
    pub latency_us: Option<u32>,
    /// See [`General::mtu`].
    pub mtu: Option<u32>,
    /// Parameters that are none of these.
    pub extra: Parameters<'a>,
}

/// The fragment of guaranteed service (RFC 2210 section 3.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guaranteed<'a> {
    /// Some element of the path does not offer it.
    pub break_bit: bool,
    /// The error terms; `None` until the first element that offers the service has added its own.
    pub terms: Option<GuaranteedTerms>,
    /// There are none while there are no terms.
    pub overrides: Overrides<'a>,
}

/// By how much the elements of the path miss the fluid model (RFC 2212).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuaranteedTerms {
    /// Rate-dependent error of the whole path, octets.
    pub c_total: u32,
    /// Rate-independent error of the whole path, microseconds.
    pub d_total: u32,
    /// Rate-dependent error since traffic was last reshaped, octets.
    pub c_sum: u32,
    /// Rate-independent error since traffic was last reshaped, microseconds.
    pub d_sum: u32,
}

/// The fragment of controlled load (RFC 2210 section 3.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlledLoad<'a> {
    /// Some element of the path does not offer it.
    pub break_bit: bool,
    /// Values of its own.
    pub overrides: Overrides<'a>,
}

/// Parameters kept as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters<'a> {
    /// All parameters of the fragment after those of fixed place; iteration leaves out those that have a name.
    octets: &'a [u8],
}

/// Fragments of services that this program does not know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fragments<'a> {
    /// All fragments; iteration leaves out the known services.
    octets: &'a [u8],
    /// Break bits are set whatever the octets say: this element does not offer these services.
    broken: bool,
}

/// One fragment of a service that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFragment<'a> {
    /// Service number.
    pub service: u8,
    /// Some element of the path does not offer it.
    pub break_bit: bool,
    /// Its parameters, unexamined.
    pub data: &'a [u8],
}

impl<'a> Adspec<'a> {
    /// What a sender starts with: nothing is on the path yet, both services are wanted (RFC 2210 section 3.3).
    ///
    /// All values are neutral, so that [`Adspec::advertise`] with the sender's own link gives what leaves the host.
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

    /// Reads the body of an ADSPEC object.
    ///
    /// # Errors
    /// The frame is not the one of RFC 2210 section 3.3.
    pub fn parse(body: &'a [u8]) -> Result<Adspec<'a>, FormatError> {
        match standard::parse(body) {
            Some(adspec) => Ok(adspec),
            None => Adspec::parse_any(body),
        }
    }

    /// Whether [`Adspec::parse`] would succeed.
    ///
    /// # Errors
    /// Those of [`Adspec::parse`].
    #[inline]
    pub fn check(body: &[u8]) -> Result<(), FormatError> {
        match standard::words(body) {
            Some(_) => Ok(()),
            None => Adspec::parse_any(body).map(|_| ()),
        }
    }

    /// Fragment by fragment, parameter by parameter.
    fn parse_any(body: &'a [u8]) -> Result<Adspec<'a>, FormatError> {
        let mut message = Reader::message(body)?;
        let general = General::parse(&mut message)?;
        let mut adspec = Adspec {
            general,
            guaranteed: None,
            controlled_load: None,
            others: Fragments { octets: message.rest(), broken: false },
        };
        let mut last = Service::General.code();
        while !message.is_empty() {
            let start = message;
            let (header, data) = message.part()?;
            if header.number <= last {
                return Err(start.error(FormatProblem::ServiceOrder));
            }
            last = header.number;
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
        if let Some(length) = standard::length(self) {
            return length;
        }
        let others: usize = self.others.iter().map(|other| HEADER + other.data.len()).sum();
        HEADER
            + (HEADER + self.general.data_len())
            + self.guaranteed.map_or(0, |guaranteed| HEADER + guaranteed.data_len())
            + self.controlled_load.map_or(0, |load| HEADER + load.overrides.data_len())
            + others
    }

    /// Writes the body, [`Adspec::buffer_len`] octets; says how many.
    ///
    /// # Errors
    /// The buffer is too short.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        match standard::emit(self, buffer) {
            Some(length) => Ok(length),
            None => self.emit_any(buffer),
        }
    }

    /// Fragment by fragment, parameter by parameter.
    fn emit_any(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        put_message(&mut writer, self.buffer_len() - HEADER)?;
        self.general.put(&mut writer)?;
        if let Some(guaranteed) = &self.guaranteed {
            guaranteed.put(&mut writer)?;
        }
        let after = Service::ControlledLoad.code();
        for other in self.others.iter().filter(|other| other.service < after) {
            other.put(&mut writer)?;
        }
        if let Some(load) = &self.controlled_load {
            let length = load.overrides.data_len();
            put_service(&mut writer, Service::ControlledLoad, load.break_bit, length)?;
            load.overrides.put(&mut writer)?;
        }
        for other in self.others.iter().filter(|other| other.service > after) {
            other.put(&mut writer)?;
        }
        Ok(writer.written().len())
    }

    /// Whether the values make sense (RFC 2215 section 3.3).
    ///
    /// # Errors
    /// A bandwidth that is no bandwidth.
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
        /// The shortcut must say what the long way says, about the standard shape and about what only looks like it.
        #[test]
        fn the_shortcut_agrees_with_the_long_way(
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
            prop_assert_eq!(standard::emit(&adspec, &mut body), Some(80));
            let mut long_way = [0xff; 80];
            prop_assert_eq!(adspec.emit_any(&mut long_way), Ok(80));
            prop_assert_eq!(body, long_way);
            prop_assert_eq!(standard::parse(&body), Some(adspec));
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
