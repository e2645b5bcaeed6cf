//! Object bodies, each decoded separately (RFC 2205 appendix A).
//!
//! Only C-Type and length of an object are checked here, not its place in the message.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::dclass::Dscp;
use super::error::{ErrorKind, ParseError};
use super::frame::{OBJECT_HEADER, RawObject, next_object};
use super::iana::{ErrorCode, ObjectClass, c_type};
use super::list::{Item, sealed::Sealed};
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, Session, SourceSelector, Style};
use crate::intserv::{Adspec, FlowSpec, FormatError, SenderTspec};

/// Splits a body that is one address and `N` more octets.
#[inline]
fn address_and<const N: usize>(object: &RawObject<'_>) -> Result<(IpAddr, [u8; N]), ParseError> {
    match object.c_type() {
        c_type::IPV4 => address_of_family_and(object, true),
        c_type::IPV6 => address_of_family_and(object, false),
        _ => Err(object.error(ErrorKind::UnknownCType)),
    }
}

/// Splits a body that is one address of a family and `N` more octets.
#[inline]
fn address_of_family_and<const N: usize>(
    object: &RawObject<'_>,
    ipv4: bool,
) -> Result<(IpAddr, [u8; N]), ParseError> {
    let mut rest = object.body();
    let address = take_address(&mut rest, ipv4);
    match (address, rest.try_into()) {
        (Some(address), Ok(rest)) => Ok((address, rest)),
        _ => Err(object.error(ErrorKind::ObjectSize)),
    }
}

/// Takes the next address of `rest`.
#[inline]
pub(super) fn take_address(rest: &mut &[u8], ipv4: bool) -> Option<IpAddr> {
    let (address, behind) = if ipv4 {
        let (octets, behind) = rest.split_first_chunk::<4>()?;
        (Ipv4Addr::from(*octets).into(), behind)
    } else {
        let (octets, behind) = rest.split_first_chunk::<16>()?;
        (Ipv6Addr::from(*octets).into(), behind)
    };
    *rest = behind;
    Some(address)
}

#[inline]
pub(super) fn session(object: &RawObject<'_>) -> Result<Session, ParseError> {
    let (has_gpi, parts) = match object.c_type() {
        c_type::SESSION_IPV4_GPI => (true, address_of_family_and(object, true)),
        c_type::SESSION_IPV6_GPI => (true, address_of_family_and(object, false)),
        c_type::AGGREGATE_IPV4 | c_type::AGGREGATE_IPV6 => return aggregate_session(object),
        _ => (false, address_and(object)),
    };
    let (destination, [protocol, flags, p0, p1]) = parts?;
    if protocol == 0 {
        return Err(object.error(ErrorKind::ZeroProtocol));
    }
    let session = Session { destination, protocol, flags, port: u16::from_be_bytes([p0, p1]) };
    match session.has_gpi() == has_gpi {
        true => Ok(session),
        false => Err(object.error(ErrorKind::BadGpi)),
    }
}

/// Decodes RSVP-AGGREGATE-IP4 and RSVP-AGGREGATE-IP6 SESSION (RFC 3175 section 3.3).
#[cold]
fn aggregate_session(object: &RawObject<'_>) -> Result<Session, ParseError> {
    let is_ipv4 = object.c_type() == c_type::AGGREGATE_IPV4;
    let (destination, [_, flags, _, dscp]) = address_of_family_and(object, is_ipv4)?;
    let session = Session { flags, ..Session::aggregate(destination, Dscp(dscp)) };
    match dscp {
        1..=63 => Ok(session),
        _ => Err(object.error(ErrorKind::BadDscp)),
    }
}

/// Decodes a SESSION that a message may have.
#[inline]
pub(super) fn valid_session(object: &RawObject<'_>) -> Result<Session, ParseError> {
    let session = session(object)?;
    if session.destination.is_unspecified() {
        return Err(object.error(ErrorKind::ZeroAddress));
    }
    Ok(session)
}

/// Decodes an RSVP_HOP that a message may have.
#[inline]
pub(super) fn valid_hop(object: &RawObject<'_>) -> Result<RsvpHop, ParseError> {
    let hop = rsvp_hop(object)?;
    if hop.address.is_unspecified() || hop.address.is_multicast() {
        return Err(object.error(ErrorKind::HopAddress));
    }
    Ok(hop)
}

/// Decodes a FILTER_SPEC or SENDER_TEMPLATE that a message may have.
#[inline]
pub(super) fn valid_filter(object: &RawObject<'_>) -> Result<FilterSpec, ParseError> {
    let filter = filter_spec(object)?;
    if filter.source.is_unspecified() {
        return Err(object.error(ErrorKind::ZeroAddress));
    }
    if filter.spi() == Some(0) {
        return Err(object.error(ErrorKind::ZeroSpi));
    }
    Ok(filter)
}

#[inline]
pub(super) fn rsvp_hop(object: &RawObject<'_>) -> Result<RsvpHop, ParseError> {
    let (address, lih) = address_and(object)?;
    Ok(RsvpHop { address, lih: u32::from_be_bytes(lih) })
}

#[inline]
pub(super) fn time_values(object: &RawObject<'_>) -> Result<u32, ParseError> {
    if object.c_type() != c_type::TIME_VALUES {
        return Err(object.error(ErrorKind::UnknownCType));
    }
    match object.body().try_into() {
        Ok(octets) => Ok(u32::from_be_bytes(octets)),
        Err(_) => Err(object.error(ErrorKind::ObjectSize)),
    }
}

#[inline]
pub(super) fn error_spec(object: &RawObject<'_>) -> Result<ErrorSpec, ParseError> {
    let (node, [flags, code, v0, v1]) = address_and(object)?;
    let code = ErrorCode::from_code(code);
    Ok(ErrorSpec { node, flags, code, value: u16::from_be_bytes([v0, v1]) })
}

#[inline]
pub(super) fn resv_confirm(object: &RawObject<'_>) -> Result<IpAddr, ParseError> {
    let (receiver, []) = address_and(object)?;
    Ok(receiver)
}

/// Checks a SCOPE object, which is whole addresses; returns the length of one address, octets.
#[inline]
pub(super) fn scope(object: &RawObject<'_>) -> Result<usize, ParseError> {
    let size = match object.c_type() {
        c_type::IPV4 => 4,
        c_type::IPV6 => 16,
        _ => return Err(object.error(ErrorKind::UnknownCType)),
    };
    if object.body().len().is_multiple_of(size) {
        Ok(size)
    } else {
        Err(object.error(ErrorKind::ObjectSize))
    }
}

/// Returns the option vector: 24 bits behind 8 bits of flags.
#[inline]
pub(super) fn option_vector(object: &RawObject<'_>) -> Result<u32, ParseError> {
    if object.c_type() != c_type::STYLE {
        return Err(object.error(ErrorKind::UnknownCType));
    }
    match object.body().try_into() {
        Ok(octets) => Ok(u32::from_be_bytes(octets) & 0x00ff_ffff),
        Err(_) => Err(object.error(ErrorKind::ObjectSize)),
    }
}

#[inline]
pub(super) fn style(object: &RawObject<'_>) -> Result<Style, ParseError> {
    match Style::from_option_vector(option_vector(object)?) {
        Some(style) => Ok(style),
        None => Err(object.error(ErrorKind::UnknownStyle)),
    }
}

/// Decodes FILTER_SPEC or SENDER_TEMPLATE.
#[inline]
pub(super) fn filter_spec(object: &RawObject<'_>) -> Result<FilterSpec, ParseError> {
    let (source, selector) = match object.c_type() {
        c_type::IPV6_FLOW_LABEL => {
            let (source, [_, l0, l1, l2]) = address_of_family_and(object, false)?;
            (source, SourceSelector::FlowLabel(u32::from_be_bytes([0, l0, l1, l2])))
        }
        c_type @ (c_type::SENDER_IPV4_GPI | c_type::SENDER_IPV6_GPI) => {
            let is_ipv4 = c_type == c_type::SENDER_IPV4_GPI;
            let (source, spi) = address_of_family_and(object, is_ipv4)?;
            (source, SourceSelector::Spi(u32::from_be_bytes(spi)))
        }
        c_type @ (c_type::AGGREGATE_IPV4 | c_type::AGGREGATE_IPV6) => {
            let is_ipv4 = c_type == c_type::AGGREGATE_IPV4;
            let (source, []) = address_of_family_and(object, is_ipv4)?;
            (source, SourceSelector::Aggregator)
        }
        _ => {
            let (source, [_, _, p0, p1]) = address_and(object)?;
            (source, SourceSelector::Port(u16::from_be_bytes([p0, p1])))
        }
    };
    Ok(FilterSpec { source, selector })
}

/// Decodes the body of an object in the format of RFC 2210; a format error becomes an error of this object.
#[inline]
fn intserv<'a, T>(
    object: &RawObject<'a>,
    parse: impl FnOnce(&'a [u8]) -> Result<T, FormatError>,
) -> Result<T, ParseError> {
    if object.c_type() != c_type::INTSERV {
        return Err(object.error(ErrorKind::UnknownCType));
    }
    parse(object.body()).map_err(|error| {
        let offset = object.offset + OBJECT_HEADER + error.offset;
        ParseError { offset, ..object.error(ErrorKind::Intserv(error.problem)) }
    })
}

#[inline]
pub(super) fn sender_tspec(object: &RawObject<'_>) -> Result<SenderTspec, ParseError> {
    intserv(object, SenderTspec::parse)
}

#[inline]
pub(super) fn flowspec(object: &RawObject<'_>) -> Result<FlowSpec, ParseError> {
    intserv(object, FlowSpec::parse)
}

#[inline]
pub(super) fn adspec<'a>(object: &RawObject<'a>) -> Result<Adspec<'a>, ParseError> {
    intserv(object, Adspec::parse)
}

/// Checks whether [`adspec`] would succeed. Cheaper, for an ADSPEC that is only kept and forwarded.
#[inline]
pub(super) fn check_adspec(object: &RawObject<'_>) -> Result<(), ParseError> {
    intserv(object, Adspec::check)
}

impl Sealed for FilterSpec {}

/// Wire format: all octets behind the STYLE object.
impl<'a> Item<'a> for FilterSpec {
    type State = ();

    #[inline]
    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<FilterSpec> {
        loop {
            let object = next_object(rest)?;
            if object.class_num() == ObjectClass::FilterSpec.code() {
                return filter_spec(&object).ok();
            }
        }
    }
}

impl Sealed for IpAddr {}

/// Wire format: a SCOPE or ROUTE object with its header. The state is its C-Type.
impl<'a> Item<'a> for IpAddr {
    type State = u8;

    #[inline]
    fn next(rest: &mut &'a [u8], state: &mut u8) -> Option<IpAddr> {
        const ROUTE: u8 = ObjectClass::Route.code();
        if *state == 0 {
            let ([_, _, class, c_type], body) = rest.split_first_chunk::<OBJECT_HEADER>()?;
            *state = *c_type;
            *rest = if *class == ROUTE { body.get(4..)? } else { body };
        }
        match *state {
            c_type::IPV4 => take_address(rest, true),
            c_type::IPV6 => take_address(rest, false),
            _ => None,
        }
    }
}
