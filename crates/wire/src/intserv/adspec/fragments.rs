//! The fragments of an ADSPEC, one for each service, and their parameters: parsed and written one by one, in any order
//! and with unknown parts.

use super::{
    Fragments, General, Guaranteed, GuaranteedTerms, Overrides, Parameters, UnknownFragment,
    WORD_PARAMETER,
};
use crate::intserv::format::{
    FormatError, FormatProblem, HEADER, Reader, put_parameter, put_service,
};
use crate::intserv::iana::{Parameter, Service};
use crate::writer::{EmitError, Writer};

impl<'a> General<'a> {
    pub(super) fn parse(message: &mut Reader<'a>) -> Result<General<'a>, FormatError> {
        let start = *message;
        let (header, data) = message.part()?;
        if header.number != Service::General.code() {
            return Err(start.error(FormatProblem::ServiceOrder));
        }
        let values = Overrides::parse(data)?;
        let (Some(hops), Some(bandwidth), Some(latency_us), Some(mtu)) =
            (values.hops, values.bandwidth, values.latency_us, values.mtu)
        else {
            return Err(start.error(FormatProblem::MissingParameter));
        };
        let extra = values.extra;
        Ok(General { break_bit: header.high_bit, hops, bandwidth, latency_us, mtu, extra })
    }

    /// Returns the values in the form of override values.
    pub(super) fn as_overrides(&self) -> Overrides<'a> {
        Overrides {
            hops: Some(self.hops),
            bandwidth: Some(self.bandwidth),
            latency_us: Some(self.latency_us),
            mtu: Some(self.mtu),
            extra: self.extra,
        }
    }

    pub(super) fn data_len(&self) -> usize {
        self.as_overrides().data_len()
    }

    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        put_service(writer, Service::General, self.break_bit, self.data_len())?;
        self.as_overrides().put(writer)
    }
}

impl<'a> Guaranteed<'a> {
    pub(super) fn parse(
        break_bit: bool,
        mut data: Reader<'a>,
    ) -> Result<Guaranteed<'a>, FormatError> {
        if data.is_empty() {
            return Ok(Guaranteed { break_bit, ..Guaranteed::default() });
        }
        let mut term = |which| data.parameter(which).map(u32::from_be_bytes);
        let terms = GuaranteedTerms {
            c_total: term(Parameter::CTotal)?,
            d_total: term(Parameter::DTotal)?,
            c_sum: term(Parameter::CSum)?,
            d_sum: term(Parameter::DSum)?,
        };
        Ok(Guaranteed { break_bit, terms: Some(terms), overrides: Overrides::parse(data)? })
    }

    pub(super) fn data_len(&self) -> usize {
        self.terms.map_or(0, |_| 4 * WORD_PARAMETER + self.overrides.data_len())
    }

    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        put_service(writer, Service::Guaranteed, self.break_bit, self.data_len())?;
        let Some(terms) = self.terms else {
            return Ok(());
        };
        put_parameter(writer, Parameter::CTotal, terms.c_total.to_be_bytes())?;
        put_parameter(writer, Parameter::DTotal, terms.d_total.to_be_bytes())?;
        put_parameter(writer, Parameter::CSum, terms.c_sum.to_be_bytes())?;
        put_parameter(writer, Parameter::DSum, terms.d_sum.to_be_bytes())?;
        self.overrides.put(writer)
    }
}

impl<'a> Overrides<'a> {
    /// Parses the general parameters of a fragment, each at most once.
    pub(super) fn parse(mut data: Reader<'a>) -> Result<Overrides<'a>, FormatError> {
        let extra = Parameters { octets: data.rest() };
        let mut overrides = Overrides { extra, ..Overrides::default() };
        while !data.is_empty() {
            let start = data;
            let (header, mut value) = data.part()?;
            let slot = match Parameter::from_code(header.number) {
                Parameter::NumberOfIsHops => &mut overrides.hops,
                Parameter::MinimumPathLatency => &mut overrides.latency_us,
                Parameter::PathMtu => &mut overrides.mtu,
                Parameter::AvailablePathBandwidth => {
                    let value = f32::from_be_bytes(word(&start, header.octets, &mut value)?);
                    if overrides.bandwidth.replace(value).is_some() {
                        return Err(start.error(FormatProblem::UnexpectedParameter));
                    }
                    continue;
                }
                _ => continue,
            };
            let value = u32::from_be_bytes(word(&start, header.octets, &mut value)?);
            if slot.replace(value).is_some() {
                return Err(start.error(FormatProblem::UnexpectedParameter));
            }
        }
        Ok(overrides)
    }

    /// Whether there is nothing to write. Unknown parameters may be present if this returns `false`.
    pub(super) fn is_empty(&self) -> bool {
        self.hops.is_none()
            && self.bandwidth.is_none()
            && self.latency_us.is_none()
            && self.mtu.is_none()
            && self.extra.octets.is_empty()
    }

    pub(super) fn data_len(&self) -> usize {
        let present = [
            self.hops.is_some(),
            self.bandwidth.is_some(),
            self.latency_us.is_some(),
            self.mtu.is_some(),
        ];
        let known = present.into_iter().filter(|there| *there).count() * WORD_PARAMETER;
        known + self.extra.iter().map(|(_, octets)| octets.len()).sum::<usize>()
    }

    /// Writes all parameters in the order of their numbers (RFC 2210 section 3.3).
    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let known = [
            (Parameter::NumberOfIsHops, self.hops),
            (Parameter::AvailablePathBandwidth, self.bandwidth.map(f32::to_bits)),
            (Parameter::MinimumPathLatency, self.latency_us),
            (Parameter::PathMtu, self.mtu),
        ];
        let known = known.into_iter().filter_map(|(which, value)| Some((which, value?)));
        let mut known = known.peekable();
        for (number, octets) in self.extra.iter() {
            while let Some((which, value)) = known.next_if(|(which, _)| which.code() < number) {
                put_parameter(writer, which, value.to_be_bytes())?;
            }
            writer.put_slice(octets)?;
        }
        known.try_for_each(|(which, value)| put_parameter(writer, which, value.to_be_bytes()))
    }
}

/// Reads the value of a parameter of one word; `start` is the position of its header.
fn word(start: &Reader<'_>, octets: usize, value: &mut Reader<'_>) -> Result<[u8; 4], FormatError> {
    if octets != 4 {
        return Err(start.error(FormatProblem::Length));
    }
    value.take()
}

impl<'a> Parameters<'a> {
    /// Iterates over the parameters without a place in [`Overrides`]: number and octets, header included.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.octets);
        core::iter::from_fn(move || {
            while !reader.is_empty() {
                let start = reader.rest();
                let (header, _) = reader.part().ok()?;
                let octets = start.get(..HEADER + header.octets)?;
                match Parameter::from_code(header.number) {
                    Parameter::NumberOfIsHops
                    | Parameter::AvailablePathBandwidth
                    | Parameter::MinimumPathLatency
                    | Parameter::PathMtu => {}
                    _ => return Some((header.number, octets)),
                }
            }
            None
        })
    }
}

impl PartialEq for Parameters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Returns whether fragments stand in the order of their service numbers.
pub(super) fn are_ordered(mut fragments: Reader<'_>) -> bool {
    let mut last = 0;
    while !fragments.is_empty() {
        match fragments.part() {
            Ok((header, _)) if header.number > last => last = header.number,
            _ => return false,
        }
    }
    true
}

impl<'a> Fragments<'a> {
    /// Returns the fragments by service number.
    pub(super) fn by_number(&self) -> [Option<UnknownFragment<'a>>; 256] {
        let mut fragments = [None; 256];
        for fragment in self.iter() {
            fragments[usize::from(fragment.service)] = Some(fragment);
        }
        fragments
    }

    /// Iterates in the order of the octets.
    pub fn iter(&self) -> impl Iterator<Item = UnknownFragment<'a>> + use<'a> {
        let mut reader = Reader::new(self.octets);
        let broken = self.broken;
        core::iter::from_fn(move || {
            while !reader.is_empty() {
                let (header, data) = reader.part().ok()?;
                if let Service::Unknown(service) = Service::from_code(header.number) {
                    let break_bit = header.high_bit || broken;
                    return Some(UnknownFragment { service, break_bit, data: data.rest() });
                }
            }
            None
        })
    }
}

impl PartialEq for Fragments<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl UnknownFragment<'_> {
    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let service = Service::Unknown(self.service);
        put_service(writer, service, self.break_bit, self.data.len())?;
        writer.put_slice(self.data)
    }
}
