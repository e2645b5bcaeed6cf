//! Verification: whether a token covers a request.

use alloc::string::String;
use core::fmt;

use earmark_core::{Flow, Prefix, Rate};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::claims::AccessPort;
use crate::encoding::Signed;
use crate::entrance::Entrance;
use crate::key::PublicKey;

/// Tolerated difference between the clocks of issuers and routers, seconds.
pub const TOLERANCE: u64 = 60;

/// An issuer whose tokens are accepted. Several keys of one issuer have the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Name, as in the tokens.
    pub name: String,
    /// Key that verifies the tokens.
    pub key: PublicKey,
}

/// Request for which a token is used.
#[derive(Clone, Copy, Debug)]
pub struct TokenUse<'a> {
    /// Destination addresses of the flow.
    pub destination: Prefix,
    /// IP protocol of the flow.
    pub protocol: u8,
    /// Destination port of the flow; 0 for none, or any.
    pub port: u16,
    /// Addresses of the senders of the flow; empty for any.
    pub sources: &'a [Prefix],
    /// Requested rate.
    pub rate: Rate,
    /// Interface where the request enters this node; `None` for a request of this node itself.
    pub entrance: Option<Entrance<'a>>,
}

impl<'a> TokenUse<'a> {
    /// Describes a request for a flow, whose [sources](Flow::sources) the caller holds.
    pub fn of(
        flow: &Flow,
        sources: &'a Option<Prefix>,
        rate: Rate,
        entrance: Option<Entrance<'a>>,
    ) -> TokenUse<'a> {
        let (destination, sources) = (flow.destinations(), sources.as_slice());
        let (protocol, port) = (flow.protocol, flow.destination_port);
        TokenUse { destination, protocol, port, sources, rate, entrance }
    }
}

/// A name that a token proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Name of the user.
    pub name: String,
    /// Time until which the token is accepted, seconds since 1970.
    pub until: u64,
}

/// Reason for refusing a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The token is too long.
    TooLong,
    /// The octets are not a token of this format.
    Malformed,
    /// No key of this issuer is known.
    UnknownIssuer,
    /// The signature is not that of the issuer.
    BadSignature,
    /// The token is of the future: it becomes valid at this time, seconds since 1970.
    NotYetValid(u64),
    /// The token has expired at this time, seconds since 1970.
    Expired(u64),
    /// The token is for another destination.
    OtherDestination,
    /// The token is for other senders.
    OtherSources,
    /// The token is for a lower rate.
    RateTooLarge(Rate),
    /// The token is for requests through another access interface.
    OtherInterface,
}

impl TokenError {
    /// Returns the name in counters.
    pub fn name(&self) -> &'static str {
        match self {
            TokenError::TooLong => "token_too_long",
            TokenError::Malformed => "token_malformed",
            TokenError::UnknownIssuer => "unknown_issuer",
            TokenError::BadSignature => "bad_signature",
            TokenError::NotYetValid(_) => "not_yet_valid",
            TokenError::Expired(_) => "expired",
            TokenError::OtherDestination => "other_destination",
            TokenError::OtherSources => "other_sources",
            TokenError::RateTooLarge(_) => "rate_too_large",
            TokenError::OtherInterface => "other_interface",
        }
    }
}

impl core::error::Error for TokenError {}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::TooLong => write!(f, "token longer than {} octets", crate::MAX_LENGTH),
            TokenError::Malformed => f.write_str("malformed token"),
            TokenError::UnknownIssuer => f.write_str("token of an unknown issuer"),
            TokenError::BadSignature => f.write_str("token with an invalid signature"),
            TokenError::NotYetValid(from) => {
                write!(f, "token not yet valid: it starts at {}", Date(*from))
            }
            TokenError::Expired(at) => write!(f, "token expired at {}", Date(*at)),
            TokenError::OtherDestination => f.write_str("token for another destination"),
            TokenError::OtherSources => f.write_str("token for other senders"),
            TokenError::RateTooLarge(most) => write!(f, "token for at most {most}"),
            TokenError::OtherInterface => f.write_str("token for another access interface"),
        }
    }
}

/// A time in seconds since 1970, as a date.
struct Date(u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0).ok().and_then(|at| Timestamp::from_second(at).ok()) {
            Some(date) => date.fmt(f),
            None => f.write_str("a time beyond the year 9999"),
        }
    }
}

/// Verifies a token for a request at the router of this name, at `now`, seconds since 1970.
///
/// # Errors
/// The token is malformed, is not signed by one of the issuers, or does not cover the request.
pub fn verify(
    token: &[u8],
    issuers: &[Issuer],
    here: &str,
    request: &TokenUse<'_>,
    now: u64,
) -> Result<Verified, TokenError> {
    let Signed { claims, message, signature } = Signed::decode(token)?;
    let mut keys = issuers.iter().filter(|issuer| issuer.name == claims.issuer).peekable();
    if keys.peek().is_none() {
        return Err(TokenError::UnknownIssuer);
    }
    // The signature is by far the most work, so everything else is checked first.
    if now.saturating_add(TOLERANCE) < claims.not_before {
        return Err(TokenError::NotYetValid(claims.not_before));
    }
    let until = claims.expires.saturating_add(TOLERANCE);
    if until <= now {
        return Err(TokenError::Expired(claims.expires));
    }
    let TokenUse { destination, protocol, port, .. } = *request;
    if let Some(bound) = claims.destination
        && !bound.contains(destination, protocol, port)
    {
        return Err(TokenError::OtherDestination);
    }
    if let Some(range) = claims.sources
        && (request.sources.is_empty()
            || !request.sources.iter().all(|source| range.covers(*source)))
    {
        return Err(TokenError::OtherSources);
    }
    if request.rate > claims.rate {
        return Err(TokenError::RateTooLarge(claims.rate));
    }
    if let (Some(AccessPort { router, interface }), Some(entrance)) =
        (&claims.port, request.entrance)
    {
        let is_here = router == here;
        if if is_here { interface != entrance.name } else { !entrance.is_core } {
            return Err(TokenError::OtherInterface);
        }
    }
    if !keys.any(|issuer| issuer.key.has_signed(&message, &signature)) {
        return Err(TokenError::BadSignature);
    }
    Ok(Verified { name: claims.name, until })
}
