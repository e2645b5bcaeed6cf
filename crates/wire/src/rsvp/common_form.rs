//! Fast parsing of the common form of Path, Resv, PathTear and ResvTear, recognized by object headers at fixed
//! positions: IPv4, objects in the order that RFC 2205 section 3.1 recommends, no carried objects, and no leading
//! objects except a MESSAGE_ID. An ADSPEC, if present, has its own common form; a Resv or ResvTear is for one flow of
//! the fixed-filter style, with its flowspec.
//!
//! Nearly all messages have this form. The general parser handles all other ones, and reports all faults.

use core::net::{IpAddr, Ipv4Addr};

use super::decode;
use super::frame::{Carried, next_object};
use super::iana::ObjectClass;
use super::list::{Item, List, sealed::Sealed};
use super::message::{
    Body, FixedFilterFlow, FlowDescriptors, Path, PathTear, Resv, ResvTear, SenderDescriptor,
};
use super::objects::{FilterSpec, RsvpHop, Session, SourceSelector};
use super::refresh_reduction::MessageId;
use crate::intserv::{Adspec, FlowSpec, SenderTspec};

const MESSAGE_ID: u32 = 0x000c_1701;
const SESSION: u32 = 0x000c_0101;
const RSVP_HOP: u32 = 0x000c_0301;
const TIME_VALUES: u32 = 0x0008_0501;
const STYLE: u32 = 0x0008_0801;
/// Option vector of the fixed-filter style, without flags.
const FIXED_FILTER: u32 = 0b01010;
const FILTER_SPEC: u32 = 0x000c_0a01;
const SENDER_TEMPLATE: u32 = 0x000c_0b01;
const SENDER_TSPEC: u32 = 0x0024_0c02;
const RESV_CONFIRM: u32 = 0x0008_0f01;
/// Class and C-Type of FLOWSPEC.
const FLOWSPEC: u32 = 0x0902;
/// Class and C-Type of ADSPEC.
const ADSPEC: u32 = 0x0d02;

/// Splits off a MESSAGE_ID at the start of `objects`, the octets behind the common header.
#[inline]
pub(super) fn message_id(objects: &[u8]) -> (Option<MessageId>, &[u8]) {
    match objects.split_first_chunk::<12>() {
        Some(([h0, h1, h2, h3, flags, e0, e1, e2, i0, i1, i2, i3], behind))
            if u32::from_be_bytes([*h0, *h1, *h2, *h3]) == MESSAGE_ID =>
        {
            let epoch = u32::from_be_bytes([0, *e0, *e1, *e2]);
            let id = u32::from_be_bytes([*i0, *i1, *i2, *i3]);
            (Some(MessageId { flags: *flags, epoch, id }), behind)
        }
        _ => (None, objects),
    }
}

/// Parses the body of a Path of the common form in `objects`, without leading objects.
#[inline]
pub(super) fn path(objects: &[u8]) -> Option<Body<'_>> {
    let (head, rest) = words::<12>(objects)?;
    if (word(head[6]) ^ TIME_VALUES) | (word(head[11]) ^ SENDER_TSPEC) != 0 {
        return None;
    }
    let (session, hop) = session_and_hop(head.first_chunk()?)?;
    let template = sender(&session, [head[8], head[9], head[10]])?;
    let (tspec, rest) = rest.split_at_checked(SenderTspec::BODY_LEN)?;
    let tspec = SenderTspec::parse(tspec).ok()?;
    Some(Body::Path(Path {
        session,
        hop,
        refresh_ms: word(head[7]),
        carried: Carried::NONE,
        sender: SenderDescriptor { template, tspec, adspec: adspec(rest)? },
    }))
}

/// Parses the body of a Resv of the common form in `objects`, without leading objects.
#[inline]
pub(super) fn resv(objects: &[u8]) -> Option<Body<'_>> {
    let (head, mut rest) = words::<8>(objects)?;
    if word(head[6]) != TIME_VALUES {
        return None;
    }
    let (session, hop) = session_and_hop(head.first_chunk()?)?;
    let mut confirm = None;
    if let Some(([header, receiver], behind)) = words(rest)
        && word(*header) == RESV_CONFIRM
    {
        confirm = Some(Ipv4Addr::from(*receiver).into());
        rest = behind;
    }
    let flows = one_flow(&session, rest)?;
    let (scope, carried) = (None, Carried::NONE);
    Some(Body::Resv(Resv {
        session,
        hop,
        refresh_ms: word(head[7]),
        confirm,
        scope,
        carried,
        flows,
    }))
}

/// Parses the body of a ResvTear of the common form in `objects`, without leading objects.
#[inline]
pub(super) fn resv_tear(objects: &[u8]) -> Option<Body<'_>> {
    let (head, rest) = words::<6>(objects)?;
    let (session, hop) = session_and_hop(head)?;
    let flows = one_flow(&session, rest)?;
    Some(Body::ResvTear(ResvTear { session, hop, scope: None, carried: Carried::NONE, flows }))
}

/// Parses the body of a PathTear of the common form in `objects`, without leading objects.
#[inline]
pub(super) fn path_tear(objects: &[u8]) -> Option<Body<'_>> {
    let (head, rest) = words::<9>(objects)?;
    let (session, hop) = session_and_hop(head.first_chunk()?)?;
    let template = sender(&session, [head[6], head[7], head[8]])?;
    let tspec = match words(rest) {
        None if rest.is_empty() => None,
        Some(([header], body))
            if word(*header) == SENDER_TSPEC && body.len() == SenderTspec::BODY_LEN =>
        {
            Some(SenderTspec::parse(body).ok()?)
        }
        _ => return None,
    };
    Some(Body::PathTear(PathTear { session, hop, carried: Carried::NONE, template, tspec }))
}

/// Splits off the first `N` words of `octets`.
#[inline]
fn words<const N: usize>(octets: &[u8]) -> Option<(&[[u8; 4]; N], &[u8])> {
    let words = octets.as_chunks::<4>().0.first_chunk::<N>()?;
    Some((words, octets.get(4 * N..)?))
}

#[inline]
fn word(octets: [u8; 4]) -> u32 {
    u32::from_be_bytes(octets)
}

/// Reads SESSION and RSVP_HOP at the start of the message.
#[inline]
fn session_and_hop(head: &[[u8; 4]; 6]) -> Option<(Session, RsvpHop)> {
    let [class, destination, [protocol, flags, p0, p1], hop_class, hop, lih] = *head;
    let (destination, hop) = (Ipv4Addr::from(destination), Ipv4Addr::from(hop));
    let wrong = (word(class) ^ SESSION) | (word(hop_class) ^ RSVP_HOP) != 0
        || destination.is_unspecified()
        || hop.is_unspecified()
        || hop.is_multicast()
        || protocol == 0;
    if wrong {
        return None;
    }
    let port = u16::from_be_bytes([p0, p1]);
    let session = Session { destination: IpAddr::V4(destination), protocol, flags, port };
    if session.has_gpi() {
        return None;
    }
    Some((session, RsvpHop { address: IpAddr::V4(hop), lih: word(lih) }))
}

/// Parses `rest` as STYLE with one flow descriptor of the fixed-filter style.
#[inline]
fn one_flow<'a>(session: &Session, rest: &'a [u8]) -> Option<FlowDescriptors<'a>> {
    let ([header, style], flows) = words(rest)?;
    if (word(*header) ^ STYLE) | (word(*style) ^ FIXED_FILTER) != 0 {
        return None;
    }
    let (flow, []) = flow(flows)? else { return None };
    let wrong = flow.filter.source.is_unspecified()
        || (session.port == 0 && flow.filter.selector != SourceSelector::Port(0));
    (!wrong).then_some(FlowDescriptors::FixedFilter(List::Wire(flows)))
}

/// Splits a flow descriptor of the fixed-filter style and the common form off `rest`. The filter's values are not
/// checked.
#[inline]
pub(super) fn flow(rest: &[u8]) -> Option<(FixedFilterFlow, &[u8])> {
    let ([header], rest) = words(rest)?;
    let header = word(*header);
    if header & 0xffff != FLOWSPEC {
        return None;
    }
    let (flowspec, rest) = rest.split_at_checked(((header >> 16) as usize).checked_sub(4)?)?;
    let flowspec = FlowSpec::parse(flowspec).ok()?;
    let ([header, source, [_, _, p0, p1]], rest) = words(rest)?;
    if word(*header) != FILTER_SPEC {
        return None;
    }
    let selector = SourceSelector::Port(u16::from_be_bytes([*p0, *p1]));
    let filter = FilterSpec { source: IpAddr::V4(Ipv4Addr::from(*source)), selector };
    Some((FixedFilterFlow { flowspec: Some(flowspec), filter }, rest))
}

/// Parses the SENDER_TEMPLATE.
#[inline]
fn sender(session: &Session, object: [[u8; 4]; 3]) -> Option<FilterSpec> {
    let [header, source, [_, _, p0, p1]] = object;
    let source = Ipv4Addr::from(source);
    let port = u16::from_be_bytes([p0, p1]);
    if word(header) != SENDER_TEMPLATE
        || source.is_unspecified()
        || (session.port == 0 && port != 0)
    {
        return None;
    }
    Some(FilterSpec { source: IpAddr::V4(source), selector: SourceSelector::Port(port) })
}

/// Parses `rest` as an ADSPEC; returns its body, or `Some(None)` if `rest` is empty.
#[inline]
fn adspec(rest: &[u8]) -> Option<Option<&[u8]>> {
    let Some((header, body)) = rest.split_first_chunk::<4>() else {
        return rest.is_empty().then_some(None);
    };
    let header = u32::from_be_bytes(*header);
    let fits = header & 0xffff == ADSPEC && (header >> 16) as usize == rest.len();
    (fits && Adspec::check(body).is_ok()).then_some(Some(body))
}

impl Sealed for FixedFilterFlow {}

/// Wire format: all octets behind the STYLE object. A FLOWSPEC is valid until the next one (RFC 2205 section 3.1.4).
impl<'a> Item<'a> for FixedFilterFlow {
    type State = Option<FlowSpec>;

    #[inline]
    fn next(rest: &mut &'a [u8], flowspec: &mut Option<FlowSpec>) -> Option<FixedFilterFlow> {
        if let Some((flow, behind)) = flow(rest) {
            (*rest, *flowspec) = (behind, flow.flowspec);
            return Some(flow);
        }
        const FLOWSPEC: u8 = ObjectClass::FlowSpec.code();
        const FILTER_SPEC: u8 = ObjectClass::FilterSpec.code();
        loop {
            let object = next_object(rest)?;
            match object.class_num() {
                FLOWSPEC => *flowspec = Some(decode::flowspec(&object).ok()?),
                FILTER_SPEC => {
                    let filter = decode::filter_spec(&object).ok()?;
                    return Some(FixedFilterFlow { flowspec: *flowspec, filter });
                }
                _ => {}
            }
        }
    }
}
