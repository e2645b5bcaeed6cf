//! The integrated-services objects of RFC 2210: traffic and service specifications.
//!
//! Parsing checks the frame only. `validate` checks the values (NaN, a peak rate below the token rate): RFC 2205
//! answers invalid values for each flow descriptor with a traffic-control error (appendix B, code 21), while a broken
//! frame makes the whole message invalid.

use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

mod adspec;
pub mod exact;
mod format;
pub mod iana;

pub use adspec::{
    Adspec, ControlledLoad, Fragments, General, Guaranteed, GuaranteedHop, GuaranteedTerms,
    HopCharacteristics, LocalOverrides, Overrides, Parameters, UnknownFragment,
};
pub use format::{FormatError, FormatProblem};

use crate::writer::{EmitError, Writer};
use format::{HEADER, Reader, put_message, put_parameter, put_service};
use iana::{Parameter, Service};

/// A token bucket with peak rate (RFC 2210 section 3.1, parameter 127).
///
/// Values are kept exactly as received, so that NaN, infinities and negative numbers may occur;
/// [`TokenBucket::validate`] checks them. Equality compares bits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Token rate r, octets per second.
    #[serde(with = "exact")]
    pub rate: f32,
    /// Bucket depth b, octets.
    #[serde(with = "exact")]
    pub depth: f32,
    /// Peak rate p, octets per second; positive infinity if unknown.
    #[serde(with = "exact")]
    pub peak: f32,
    /// Minimum policed unit m, octets.
    pub min_policed_unit: u32,
    /// Maximum packet size M, octets.
    pub max_packet_size: u32,
}

/// Traffic specification of a sender (SENDER_TSPEC, RFC 2210 section 3.1).
pub type SenderTspec = TokenBucket;

/// The guaranteed-service part of a reservation (RFC 2210 section 3.2, parameter 130). Equality compares bits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Rspec {
    /// Reserved rate R, octets per second.
    #[serde(with = "exact")]
    pub rate: f32,
    /// Slack term S, microseconds.
    pub slack_us: u32,
}

/// A receiver's request (FLOWSPEC, RFC 2210 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowSpec {
    /// Controlled load (RFC 2211, service 5).
    ControlledLoad(TokenBucket),
    /// Guaranteed service (RFC 2212, service 2).
    Guaranteed(TokenBucket, Rspec),
}

/// Values that the frame allows and the service does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ValueError {
    /// Invalid token rate r (RFC 2215 section 3.6).
    #[error("token rate r must be a finite number above zero")]
    TokenRate,
    /// Invalid bucket depth b (RFC 2215 section 3.6).
    #[error("bucket depth b must be a finite number above zero")]
    BucketDepth,
    /// Invalid peak rate p (RFC 2215 section 3.6).
    #[error("peak rate p must be a number above zero or positive infinity")]
    PeakRate,
    /// Peak rate below the token rate, p < r (RFC 2210 section 3.2.1).
    #[error("peak rate p must not be below token rate r")]
    PeakBelowTokenRate,
    /// Invalid minimum policed unit m (RFC 2210 section 3.1).
    #[error("minimum policed unit m must not be zero")]
    MinPolicedUnit,
    /// Maximum packet size below the minimum policed unit, M < m (RFC 2215 section 3.6).
    #[error("maximum packet size M must not be below minimum policed unit m")]
    MaxPacketSize,
    /// Requested rate r or R outside the range of the services (RFC 2211 section 5, RFC 2212 "Invocation Information").
    #[error("requested rate must be 1 to 40e12 octets per second")]
    RateRange,
    /// Requested bucket depth b outside the range of the services.
    #[error("requested bucket depth must be 1 to 250e9 octets")]
    DepthRange,
    /// Invalid reserved rate R (RFC 2212, "Invocation Information").
    #[error("reserved rate R must be a finite number, not below token rate r")]
    ReservedRate,
    /// Invalid bandwidth in an ADSPEC (RFC 2215 section 3.3).
    #[error("path bandwidth must be a finite number, zero or above")]
    PathBandwidth,
}

/// Rates that a service accepts, octets per second.
const RATES: RangeInclusive<f32> = 1.0..=40e12;
/// Bucket depths that a service accepts, octets.
const DEPTHS: RangeInclusive<f32> = 1.0..=250e9;

/// Length of the value of parameter 127, octets.
const BUCKET: usize = 20;
/// Length of the value of parameter 130, octets.
const RSPEC: usize = 8;

impl TokenBucket {
    /// Length of a SENDER_TSPEC body, octets.
    pub const BODY_LEN: usize = 2 * HEADER + HEADER + BUCKET;

    /// Reads the body of a SENDER_TSPEC object.
    ///
    /// # Errors
    /// The frame is not the one of RFC 2210 section 3.1.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<SenderTspec, FormatError> {
        match token_bucket_only(Service::General, body) {
            Some(bucket) => Ok(bucket),
            None => TokenBucket::parse_any(body),
        }
    }

    /// Parses any form, header by header.
    fn parse_any(body: &[u8]) -> Result<SenderTspec, FormatError> {
        let mut message = Reader::message(body)?;
        let start = message;
        let (service, mut data) = message.part()?;
        if service.number != Service::General.code() {
            return Err(start.error(FormatProblem::UnknownService));
        }
        let bucket = TokenBucket::from_octets(data.parameter(Parameter::TokenBucketTspec)?);
        finish(data, message)?;
        Ok(bucket)
    }

    /// Writes the body of a SENDER_TSPEC object, [`TokenBucket::BODY_LEN`] octets; returns the length.
    ///
    /// # Errors
    /// The buffer is too short.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        self.put(&mut writer)?;
        Ok(writer.written().len())
    }

    #[inline]
    pub(crate) fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let [message, service, parameter] = BUCKET_HEADERS;
        let service = with_service(service, Service::General);
        let [r, b, p, m, max] = self.bits();
        writer.put_numbers([message, service, parameter, r, b, p, m, max])
    }

    /// Checks the values (RFC 2215 section 3.6).
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), ValueError> {
        let positive = |value: f32| value.is_finite() && value > 0.0;
        if !positive(self.rate) {
            return Err(ValueError::TokenRate);
        }
        if !positive(self.depth) {
            return Err(ValueError::BucketDepth);
        }
        if self.peak.is_nan() || self.peak <= 0.0 {
            return Err(ValueError::PeakRate);
        }
        if self.peak < self.rate {
            return Err(ValueError::PeakBelowTokenRate);
        }
        if self.min_policed_unit == 0 {
            return Err(ValueError::MinPolicedUnit);
        }
        if self.max_packet_size < self.min_policed_unit {
            return Err(ValueError::MaxPacketSize);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn from_octets(octets: [u8; BUCKET]) -> TokenBucket {
        let (words, _) = octets.as_chunks();
        let [r, b, p, m, max] = [0, 1, 2, 3, 4].map(|i| words.get(i).copied().unwrap_or([0; 4]));
        TokenBucket {
            rate: f32::from_be_bytes(r),
            depth: f32::from_be_bytes(b),
            peak: f32::from_be_bytes(p),
            min_policed_unit: u32::from_be_bytes(m),
            max_packet_size: u32::from_be_bytes(max),
        }
    }

    #[inline]
    pub(crate) fn to_octets(self) -> [u8; BUCKET] {
        let mut octets = [0; BUCKET];
        for (target, word) in octets.as_chunks_mut().0.iter_mut().zip(self.bits()) {
            *target = word.to_be_bytes();
        }
        octets
    }

    #[inline]
    fn bits(&self) -> [u32; 5] {
        [
            self.rate.to_bits(),
            self.depth.to_bits(),
            self.peak.to_bits(),
            self.min_policed_unit,
            self.max_packet_size,
        ]
    }
}

impl PartialEq for TokenBucket {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for TokenBucket {}

impl PartialEq for Rspec {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.rate.to_bits(), self.slack_us) == (other.rate.to_bits(), other.slack_us)
    }
}

impl Eq for Rspec {}

impl FlowSpec {
    /// Parses the body of a FLOWSPEC object.
    ///
    /// # Errors
    /// The frame is not one of RFC 2210 section 3.2; [`FormatProblem::UnknownService`] for any other service.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<FlowSpec, FormatError> {
        match token_bucket_only(Service::ControlledLoad, body) {
            Some(bucket) => Ok(FlowSpec::ControlledLoad(bucket)),
            None => FlowSpec::parse_any(body),
        }
    }

    /// Parses any form, header by header.
    fn parse_any(body: &[u8]) -> Result<FlowSpec, FormatError> {
        let mut message = Reader::message(body)?;
        let start = message;
        let (header, mut data) = message.part()?;
        let service = Service::from_code(header.number);
        if !matches!(service, Service::ControlledLoad | Service::Guaranteed) {
            return Err(start.error(FormatProblem::UnknownService));
        }
        let bucket = TokenBucket::from_octets(data.parameter(Parameter::TokenBucketTspec)?);
        let flowspec = if service == Service::Guaranteed {
            let [r0, r1, r2, r3, s0, s1, s2, s3] = data.parameter(Parameter::GuaranteedRspec)?;
            let rate = f32::from_be_bytes([r0, r1, r2, r3]);
            let slack_us = u32::from_be_bytes([s0, s1, s2, s3]);
            FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us })
        } else {
            FlowSpec::ControlledLoad(bucket)
        };
        finish(data, message)?;
        Ok(flowspec)
    }

    /// Length of the body, octets.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        match self {
            FlowSpec::ControlledLoad(_) => 3 * HEADER + BUCKET,
            FlowSpec::Guaranteed(..) => 4 * HEADER + BUCKET + RSPEC,
        }
    }

    /// Writes the body of a FLOWSPEC object, [`FlowSpec::buffer_len`] octets; returns the length.
    ///
    /// # Errors
    /// The buffer is too short.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        self.put(&mut writer)?;
        Ok(writer.written().len())
    }

    #[inline]
    pub(crate) fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let (bucket, rspec) = match self {
            FlowSpec::ControlledLoad(bucket) => {
                let [message, service, parameter] = BUCKET_HEADERS;
                let service = with_service(service, Service::ControlledLoad);
                let [r, b, p, m, max] = bucket.bits();
                return writer.put_numbers([message, service, parameter, r, b, p, m, max]);
            }
            FlowSpec::Guaranteed(bucket, rspec) => (bucket, rspec),
        };
        let length = self.buffer_len();
        put_message(writer, length - HEADER)?;
        put_service(writer, Service::Guaranteed, false, length - 2 * HEADER)?;
        put_parameter(writer, Parameter::TokenBucketTspec, bucket.to_octets())?;
        let [r0, r1, r2, r3] = rspec.rate.to_be_bytes();
        let [s0, s1, s2, s3] = rspec.slack_us.to_be_bytes();
        put_parameter(writer, Parameter::GuaranteedRspec, [r0, r1, r2, r3, s0, s1, s2, s3])
    }

    /// Returns the token bucket.
    #[inline]
    pub const fn token_bucket(&self) -> &TokenBucket {
        match self {
            FlowSpec::ControlledLoad(bucket) | FlowSpec::Guaranteed(bucket, _) => bucket,
        }
    }

    /// Checks the values (RFC 2215 section 3.6; RFC 2212: R at least r), and the range of r, b and R that a service
    /// accepts (RFC 2211 section 5). A finite peak rate beyond the range counts as unknown.
    ///
    /// # Errors
    /// The first invalid value.
    #[inline]
    pub fn validate(&self) -> Result<(), ValueError> {
        let bucket = self.token_bucket();
        bucket.validate()?;
        if !RATES.contains(&bucket.rate) {
            return Err(ValueError::RateRange);
        }
        if !DEPTHS.contains(&bucket.depth) {
            return Err(ValueError::DepthRange);
        }
        match self {
            FlowSpec::Guaranteed(_, rspec)
                if rspec.rate.is_finite() && rspec.rate > *RATES.end() =>
            {
                Err(ValueError::RateRange)
            }
            FlowSpec::Guaranteed(bucket, rspec)
                if !rspec.rate.is_finite() || rspec.rate < bucket.rate =>
            {
                Err(ValueError::ReservedRate)
            }
            _ => Ok(()),
        }
    }
}

/// Headers of a body that has only a token bucket, as numbers: message, service without its number, parameter 127. The
/// lengths count the words behind each header.
const BUCKET_HEADERS: [u32; 3] = [0x0000_0007, 0x0000_0006, 0x7f00_0005];
/// Bits of the headers that are compared; reserved bits and flags are not.
const BUCKET_HEADER_MASKS: [u32; 3] = [0xf000_ffff, 0xff00_ffff, 0xff00_ffff];

/// Inserts the service number into a service header.
const fn with_service(header: u32, service: Service) -> u32 {
    header | (service.code() as u32) << 24
}

/// Returns the token bucket of a body that has nothing else for `service`, the form of nearly every TSpec and FLOWSPEC.
/// `None` if the body has another form or a fault.
#[inline]
fn token_bucket_only(service: Service, body: &[u8]) -> Option<TokenBucket> {
    let (headers, bucket) = body.split_first_chunk::<{ 3 * HEADER }>()?;
    let [message, of, parameter] = BUCKET_HEADERS;
    let expected = [message, with_service(of, service), parameter];
    let mut difference = 0;
    for ((header, expected), counts) in
        headers.as_chunks().0.iter().zip(expected).zip(BUCKET_HEADER_MASKS)
    {
        difference |= (u32::from_be_bytes(*header) ^ expected) & counts;
    }
    let bucket = bucket.try_into().ok()?;
    (difference == 0).then(|| TokenBucket::from_octets(bucket))
}

/// Checks that nothing follows the last parameter of the only service.
#[inline]
fn finish(data: Reader<'_>, message: Reader<'_>) -> Result<(), FormatError> {
    if !data.is_empty() {
        return Err(data.error(FormatProblem::UnexpectedParameter));
    }
    if !message.is_empty() {
        return Err(message.error(FormatProblem::Length));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
