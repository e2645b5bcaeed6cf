//! Encoding of tokens: a CBOR Web Token (RFC 8392) in a COSE_Sign1 (RFC 9052).

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use coset::cbor::value::Value;
use coset::cwt::{ClaimName, ClaimsSet, ClaimsSetBuilder, Timestamp};
use coset::{
    CborSerializable, CoseSign1, CoseSign1Builder, Header, HeaderBuilder,
    RegisteredLabelWithPrivate, iana,
};
use earmark_core::{Prefix, Rate};

use crate::claims::{AccessPort, Claims, Destination};
use crate::{MAX_LENGTH, TokenError};

/// Claims for private use (RFC 8392 section 9.1).
const DESTINATION: i64 = -65_537;
const SOURCES: i64 = -65_538;
const RATE: i64 = -65_539;
const PORT: i64 = -65_540;

/// Context of the signature, so that a signature for another purpose is not one of a token.
const CONTEXT: &[u8] = b"earmark reservation token";

/// A decoded token whose signature is not verified yet.
pub(crate) struct Signed {
    pub(crate) claims: Claims,
    /// Octets that are signed.
    pub(crate) message: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// Encodes valid claims with the signature that `sign` makes.
pub(crate) fn encode(claims: &Claims, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let header = header(&claims.issuer);
    let payload = encode_claims(claims);
    let token = CoseSign1Builder::new().protected(header).payload(payload);
    let token = token.create_signature(CONTEXT, sign).build();
    token.to_vec().unwrap_or_default()
}

impl Signed {
    /// Decodes a token that was encoded by [`encode`], and nothing else.
    pub(crate) fn decode(octets: &[u8]) -> Result<Signed, TokenError> {
        if octets.len() > MAX_LENGTH {
            return Err(TokenError::TooLong);
        }
        Signed::decode_short(octets).ok_or(TokenError::Malformed)
    }

    fn decode_short(octets: &[u8]) -> Option<Signed> {
        let token = CoseSign1::from_slice(octets).ok()?;
        let issuer = String::from_utf8(token.protected.header.key_id.clone()).ok()?;
        // Only one encoding is accepted, so that no octet is without meaning.
        if token.protected.header != header(&issuer)
            || !token.unprotected.is_empty()
            || token.clone().to_vec().ok()? != octets
        {
            return None;
        }
        let payload = token.payload.as_deref()?;
        let claims = decode_claims(issuer, ClaimsSet::from_slice(payload).ok()?)?;
        claims.check().ok()?;
        let message = token.tbs_data(CONTEXT);
        Some(Signed { claims, message, signature: token.signature })
    }
}

/// Returns the signed header.
fn header(issuer: &str) -> Header {
    HeaderBuilder::new()
        .algorithm(iana::Algorithm::EdDSA)
        .key_id(issuer.as_bytes().to_vec())
        .build()
}

fn encode_claims(claims: &Claims) -> Vec<u8> {
    let seconds = |at: u64| Timestamp::WholeSeconds(i64::try_from(at).unwrap_or(i64::MAX));
    let mut set = ClaimsSetBuilder::new()
        .subject(claims.name.clone())
        .expiration_time(seconds(claims.expires))
        .not_before(seconds(claims.not_before));
    if let Some(Destination { range, port, protocol }) = claims.destination {
        let [address, length] = range_values(range);
        let optional = |number: Option<u64>| number.map_or(Value::Null, Value::from);
        let port = optional(port.map(u64::from));
        let protocol = optional(protocol.map(u64::from));
        set = set
            .private_claim(DESTINATION, Value::Array(alloc::vec![address, length, port, protocol]));
    }
    if let Some(range) = claims.sources {
        set = set.private_claim(SOURCES, Value::Array(range_values(range).into()));
    }
    set = set.private_claim(RATE, Value::from(claims.rate.as_bps()));
    if let Some(AccessPort { router, interface }) = &claims.port {
        let names = [router, interface].map(|name| Value::Text(name.clone()));
        set = set.private_claim(PORT, Value::Array(names.into()));
    }
    set.build().to_vec().unwrap_or_default()
}

fn range_values(range: Prefix) -> [Value; 2] {
    let address = match range.address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    [Value::Bytes(address), Value::from(range.length())]
}

fn decode_claims(issuer: String, set: ClaimsSet) -> Option<Claims> {
    if set.issuer.is_some()
        || set.audience.is_some()
        || set.issued_at.is_some()
        || set.cwt_id.is_some()
    {
        return None;
    }
    let mut claims = Claims {
        issuer,
        name: set.subject?,
        not_before: seconds(&set.not_before?)?,
        expires: seconds(&set.expiration_time?)?,
        rate: Rate::ZERO,
        destination: None,
        sources: None,
        port: None,
    };
    let mut rate = None;
    for (name, value) in set.rest {
        let RegisteredLabelWithPrivate::PrivateUse(number) = name as ClaimName else { return None };
        match number {
            DESTINATION => claims.destination = Some(destination(value)?),
            SOURCES => claims.sources = Some(range(&value.into_array().ok()?)?),
            RATE => rate = Some(Rate::from_bps(integer(&value)?)),
            PORT => {
                let names = value.into_array().ok()?;
                let [router, interface] = <[Value; 2]>::try_from(names).ok()?;
                let (router, interface) = (router.into_text().ok()?, interface.into_text().ok()?);
                claims.port = Some(AccessPort { router, interface });
            }
            _ => return None,
        }
    }
    claims.rate = rate?;
    Some(claims)
}

fn seconds(at: &Timestamp) -> Option<u64> {
    match at {
        Timestamp::WholeSeconds(seconds) => u64::try_from(*seconds).ok(),
        Timestamp::FractionalSeconds(_) => None,
    }
}

fn destination(value: Value) -> Option<Destination> {
    let values = value.into_array().ok()?;
    let [_, _, port, protocol] = values.as_slice() else { return None };
    let optional = |value: &Value| match value {
        Value::Null => Some(None),
        number => integer(number).map(Some),
    };
    let port = optional(port)?.map(u16::try_from).transpose().ok()?;
    let protocol = optional(protocol)?.map(u8::try_from).transpose().ok()?;
    Some(Destination { range: range(&values[..2])?, port, protocol })
}

fn range(values: &[Value]) -> Option<Prefix> {
    let [Value::Bytes(address), length] = values else { return None };
    let length = integer(length).and_then(|length| u8::try_from(length).ok())?;
    let address: IpAddr = match address.len() {
        4 => <[u8; 4]>::try_from(address.as_slice()).ok()?.into(),
        16 => <[u8; 16]>::try_from(address.as_slice()).ok()?.into(),
        _ => return None,
    };
    let range = Prefix::new(address, length);
    (range.address() == address && range.length() == length).then_some(range)
}

fn integer(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|number| u64::try_from(number).ok())
}
