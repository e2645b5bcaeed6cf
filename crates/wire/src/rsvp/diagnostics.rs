//! Diagnostics: queries about a session's state, hop by hop from a last hop towards the sender (RFC 2745).
//!
//! A DREQ collects one [`DiagResponse`] from every node on its path, and returns as a DREP, directly or along the
//! recorded [`Route`].

use core::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::decode;
use super::error::{ErrorKind, ParseError};
use super::frame::{
    COMMON_HEADER, Carried, Frames, OBJECT_HEADER, RawObject, UnknownClass, next_object,
};
use super::iana::{ObjectClass, c_type};
use super::leading_objects::{self, LeadingObjects};
use super::list::{Item, List, sealed::Sealed};
use super::object_writer::{filter_len, put_address, put_filter, put_header};
use super::objects::{FilterSpec, RsvpHop, SenderTemplate, Session};
use crate::writer::{EmitError, Writer};

/// Objects of a DREQ or DREP (RFC 2745 section 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diagnosis<'a> {
    /// Session of the query.
    pub session: Session,
    /// RSVP_HOP with the next hop's LIH of the interface through which the DREQ arrives.
    pub hop: RsvpHop,
    /// DIAGNOSTIC object: start, end and requester of the query.
    pub diagnostic: Diagnostic,
    /// Objects that every node reports; SENDER_TSPEC, STYLE and FLOWSPEC if absent.
    pub select: Option<List<'a, Selected>>,
    /// Recorded route, if the DREP returns along it.
    pub route: Option<Route<'a>>,
    /// Responses of the nodes on the path.
    pub responses: List<'a, DiagResponse<'a>>,
    /// Objects to be forwarded.
    pub carried: Carried<'a>,
}

/// DIAGNOSTIC (class 30; RFC 2745 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Max-RSVP-hops: number of nodes after which the message returns; 0 for no limit.
    pub max_hops: u8,
    /// RSVP-hop-count: number of nodes passed.
    pub hop_count: u8,
    /// MF flag: further parts of the answer follow this DREP.
    pub more_fragments: bool,
    /// Request ID, chosen by the requester.
    pub request_id: u32,
    /// Path MTU, octets.
    pub path_mtu: u16,
    /// Offset of this part within the whole answer, octets.
    pub fragment_offset: u16,
    /// LAST-HOP: node at which collection begins.
    pub last_hop: IpAddr,
    /// Sender at which collection ends.
    pub sender: SenderTemplate,
    /// Requester, to which the answer is sent.
    pub requester: FilterSpec,
}

/// An entry of DIAG_SELECT (class 33; RFC 2745 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// Class-Num of the requested objects.
    pub class_num: u8,
    /// C-Type of the requested objects; 0 for any.
    pub c_type: u8,
}

/// ROUTE (class 31; RFC 2745 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route<'a> {
    /// R-pointer: number of nodes that the message still has to pass on its way back.
    pub pointer: u8,
    /// Nodes from LAST-HOP on.
    pub nodes: List<'a, IpAddr>,
}

/// DIAG_RESPONSE (class 32; RFC 2745 section 3.6). Unknown addresses are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagResponse<'a> {
    /// DREQ Arrival Time: the middle 32 bits of an NTP timestamp, in units of 2^-16 s.
    pub arrival: u32,
    /// Address of the incoming interface, through which the sender's messages arrive.
    pub incoming: IpAddr,
    /// Address of the outgoing interface, through which the DREQ arrived and the data leave.
    pub outgoing: IpAddr,
    /// Previous RSVP hop towards the sender.
    pub previous_hop: IpAddr,
    /// D-TTL: IP hops from the previous RSVP node; more than 1 indicates nodes without RSVP.
    pub ip_hops: u8,
    /// M flag: the reservation is merged with those of other interfaces.
    pub merged: bool,
    /// R-error, 3 bits: [`DiagResponse::NO_PATH_STATE`] and others.
    pub error: u8,
    /// K: refresh timer multiple, 4 bits.
    pub refresh_multiple: u8,
    /// Timer value: refresh period, seconds.
    pub refresh_s: u16,
    /// Objects of the node; [`super::objects_in`] parses them.
    pub objects: &'a [u8],
}

impl DiagResponse<'_> {
    /// R-error: the node has no path state for the session.
    pub const NO_PATH_STATE: u8 = 0x01;
    /// R-error: the message would have exceeded the path MTU.
    pub const PACKET_TOO_BIG: u8 = 0x02;
    /// R-error: ROUTE was too long and has been emptied.
    pub const ROUTE_TOO_BIG: u8 = 0x04;
}

/// Position of an object in the message. All but the last class occur once (RFC 2745 section 3).
fn place(class: ObjectClass) -> Option<u8> {
    Some(match class {
        ObjectClass::Session => 1,
        ObjectClass::RsvpHop => 2,
        ObjectClass::Diagnostic => 3,
        ObjectClass::DiagSelect => 4,
        ObjectClass::Route => 5,
        ObjectClass::DiagResponse => 6,
        _ => return None,
    })
}

/// Parses the objects of a DREQ or DREP.
pub(super) fn diagnosis(objects: &[u8]) -> Result<(LeadingObjects<'_>, Diagnosis<'_>), ParseError> {
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    let (mut session, mut hop, mut diagnostic_object, mut select, mut route) =
        (None, None, None, None, None);
    let (mut last, mut responses) = (0, false);
    for object in frames {
        let object = object?;
        let class = ObjectClass::from_code(object.class_num());
        let Some(place) = place(class) else {
            check_unplaced(class, &object)?;
            continue;
        };
        if place < last {
            return Err(object.error(ErrorKind::ObjectOrder));
        }
        if place == last && class != ObjectClass::DiagResponse {
            return Err(object.error(ErrorKind::DuplicateObject));
        }
        last = place;
        match class {
            ObjectClass::Session => session = Some(decode::valid_session(&object)?),
            ObjectClass::RsvpHop => hop = Some(decode::rsvp_hop(&object)?),
            ObjectClass::Diagnostic => diagnostic_object = Some(diagnostic(&object)?),
            ObjectClass::DiagSelect => select = Some(diag_select(&object)?),
            ObjectClass::Route => route = Some(self::route(&object)?),
            _ => {
                diag_response(&object)?;
                responses = true;
            }
        }
        let ipv4 = session.is_some_and(|session| session.destination.is_ipv4());
        let has_family =
            !matches!(class, ObjectClass::DiagSelect | ObjectClass::Session) && session.is_some();
        if has_family && ipv4 != (object.c_type() == c_type::IPV4) {
            return Err(object.error(ErrorKind::AddressFamily));
        }
    }
    let missing = |class: ObjectClass| {
        let offset = COMMON_HEADER + objects.len();
        ParseError { kind: ErrorKind::MissingObject, offset, class_num: class.code(), c_type: 0 }
    };
    let diagnosis = Diagnosis {
        session: session.ok_or(missing(ObjectClass::Session))?,
        hop: hop.ok_or(missing(ObjectClass::RsvpHop))?,
        diagnostic: diagnostic_object.ok_or(missing(ObjectClass::Diagnostic))?,
        select,
        route,
        responses: if responses { List::Wire(objects) } else { List::EMPTY },
        carried: Carried::Wire(objects),
    };
    Ok((leading, diagnosis))
}

/// Checks that an object without a position in these messages may be ignored or forwarded.
fn check_unplaced(class: ObjectClass, object: &RawObject<'_>) -> Result<(), ParseError> {
    match class {
        ObjectClass::Null
        | ObjectClass::DClass
        | ObjectClass::PolicyData
        | ObjectClass::SessionOfInterest => Ok(()),
        ObjectClass::RestartCap | ObjectClass::Capability => Ok(()),
        ObjectClass::Unknown(number) if UnknownClass::of(number) != UnknownClass::Reject => Ok(()),
        ObjectClass::Unknown(_) => Err(object.error(ErrorKind::UnknownClass)),
        ObjectClass::Integrity | ObjectClass::MessageIdAck | ObjectClass::MessageId => {
            Err(leading_objects::out_of_order(object))
        }
        _ => Err(object.error(ErrorKind::IllegalObject)),
    }
}

pub(super) fn diagnostic(object: &RawObject<'_>) -> Result<Diagnostic, ParseError> {
    let ipv4 = is_ipv4(object)?;
    let read = || -> Option<(Diagnostic, &[u8])> {
        let ([max_hops, hop_count, _, flags, id @ .., m0, m1, f0, f1], mut rest) =
            object.body().split_first_chunk::<12>()?;
        let last_hop = decode::take_address(&mut rest, ipv4)?;
        let mut embedded = |class: ObjectClass| {
            let filter = next_object(&mut rest).filter(|o| o.class_num() == class.code())?;
            decode::filter_spec(&filter).ok().filter(|filter| filter.source.is_ipv4() == ipv4)
        };
        let sender = embedded(ObjectClass::SenderTemplate)?;
        let requester = embedded(ObjectClass::FilterSpec)?;
        let diagnostic = Diagnostic {
            max_hops: *max_hops,
            hop_count: *hop_count,
            more_fragments: flags & 1 != 0,
            request_id: u32::from_be_bytes(*id),
            path_mtu: u16::from_be_bytes([*m0, *m1]),
            fragment_offset: u16::from_be_bytes([*f0, *f1]),
            last_hop,
            sender,
            requester,
        };
        Some((diagnostic, rest))
    };
    match read() {
        Some((diagnostic, [])) => Ok(diagnostic),
        _ => Err(object.error(ErrorKind::ObjectSize)),
    }
}

pub(super) fn diag_select<'a>(object: &RawObject<'a>) -> Result<List<'a, Selected>, ParseError> {
    match object.c_type() {
        c_type::DIAG_SELECT => Ok(List::Wire(object.body())),
        _ => Err(object.error(ErrorKind::UnknownCType)),
    }
}

pub(super) fn route<'a>(object: &RawObject<'a>) -> Result<Route<'a>, ParseError> {
    let size = if is_ipv4(object)? { 4 } else { 16 };
    match object.body().split_first_chunk() {
        Some(([_, _, _, pointer], nodes)) if nodes.len().is_multiple_of(size) => {
            Ok(Route { pointer: *pointer, nodes: List::Wire(object.bytes) })
        }
        _ => Err(object.error(ErrorKind::ObjectSize)),
    }
}

pub(super) fn diag_response<'a>(object: &RawObject<'a>) -> Result<DiagResponse<'a>, ParseError> {
    let ipv4 = is_ipv4(object)?;
    let read = || {
        let (arrival, mut rest) = object.body().split_first_chunk()?;
        let mut address = || decode::take_address(&mut rest, ipv4);
        let (incoming, outgoing, previous_hop) = (address()?, address()?, address()?);
        let ([ip_hops, bits, t0, t1], objects) = rest.split_first_chunk()?;
        Some(DiagResponse {
            arrival: u32::from_be_bytes(*arrival),
            incoming,
            outgoing,
            previous_hop,
            ip_hops: *ip_hops,
            merged: bits & 0x80 != 0,
            error: bits >> 4 & 0x07,
            refresh_multiple: bits & 0x0f,
            refresh_s: u16::from_be_bytes([*t0, *t1]),
            objects,
        })
    };
    let response = read().ok_or_else(|| object.error(ErrorKind::ObjectSize))?;
    let start = object.offset + object.bytes.len() - response.objects.len();
    Frames::new(response.objects, start).try_for_each(|object| object.map(|_| ()))?;
    Ok(response)
}

fn is_ipv4(object: &RawObject<'_>) -> Result<bool, ParseError> {
    match object.c_type() {
        c_type::IPV4 => Ok(true),
        c_type::IPV6 => Ok(false),
        _ => Err(object.error(ErrorKind::UnknownCType)),
    }
}

impl Sealed for Selected {}

/// Wire format: pairs of octets; a pair of zeros completes the last word.
impl<'a> Item<'a> for Selected {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<Selected> {
        let ([class_num, c_type], behind) = rest.split_first_chunk()?;
        *rest = behind;
        let fill = behind.is_empty() && (*class_num, *c_type) == (0, 0);
        (!fill).then_some(Selected { class_num: *class_num, c_type: *c_type })
    }
}

impl Sealed for DiagResponse<'_> {}

/// Wire format: all objects of the message.
impl<'a> Item<'a> for DiagResponse<'a> {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<DiagResponse<'a>> {
        loop {
            let object = next_object(rest)?;
            if object.class_num() == ObjectClass::DiagResponse.code() {
                return diag_response(&object).ok();
            }
        }
    }
}

impl Diagnosis<'_> {
    /// Length of all objects behind RSVP_HOP, octets.
    pub(super) fn rest_len(&self) -> usize {
        self.diagnostic.object_len()
            + self.select.map_or(0, select_len)
            + self.route.map_or(0, |route| route.object_len(self.session.destination))
            + self.responses.iter().map(|response| response.object_len()).sum::<usize>()
            + self.carried.octets()
    }

    /// Writes all objects behind RSVP_HOP.
    pub(super) fn put_rest(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        self.diagnostic.put(w)?;
        if let Some(select) = self.select {
            put_select(w, select)?;
        }
        if let Some(route) = self.route {
            route.put(w, self.session.destination)?;
        }
        self.responses.iter().try_for_each(|response| response.put(w))?;
        self.carried.iter().try_for_each(|object| w.put_slice(object.bytes))
    }
}

impl Diagnostic {
    pub(super) fn object_len(&self) -> usize {
        let address = address_len(self.last_hop);
        OBJECT_HEADER + 12 + address + filter_len(&self.sender) + filter_len(&self.requester)
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let ipv4 = self.last_hop.is_ipv4();
        if self.sender.source.is_ipv4() != ipv4 || self.requester.source.is_ipv4() != ipv4 {
            return Err(EmitError::Contradiction);
        }
        let body = self.object_len() - OBJECT_HEADER;
        put_header(w, ObjectClass::Diagnostic, family(self.last_hop), body)?;
        w.put([self.max_hops, self.hop_count, 0, self.more_fragments.into()])?;
        w.put(self.request_id.to_be_bytes())?;
        w.put(self.path_mtu.to_be_bytes())?;
        w.put(self.fragment_offset.to_be_bytes())?;
        put_address(w, self.last_hop)?;
        put_filter(w, ObjectClass::SenderTemplate, &self.sender)?;
        put_filter(w, ObjectClass::FilterSpec, &self.requester)
    }
}

pub(super) fn select_len(select: List<'_, Selected>) -> usize {
    OBJECT_HEADER + (select.len() * 2).next_multiple_of(4)
}

pub(super) fn put_select(w: &mut Writer<'_>, select: List<'_, Selected>) -> Result<(), EmitError> {
    let body = select_len(select) - OBJECT_HEADER;
    put_header(w, ObjectClass::DiagSelect, c_type::DIAG_SELECT, body)?;
    select.iter().try_for_each(|entry| w.put([entry.class_num, entry.c_type]))?;
    w.put_slice(&[0; 2][..body - select.len() * 2])
}

impl Route<'_> {
    /// `like` is an address of the family, which a list without addresses does not show.
    pub(super) fn object_len(&self, like: IpAddr) -> usize {
        OBJECT_HEADER + 4 + self.nodes.len() * address_len(like)
    }

    pub(super) fn put(&self, w: &mut Writer<'_>, like: IpAddr) -> Result<(), EmitError> {
        put_header(w, ObjectClass::Route, family(like), self.object_len(like) - OBJECT_HEADER)?;
        w.put([0, 0, 0, self.pointer])?;
        self.nodes.iter().try_for_each(|node| match node.is_ipv4() == like.is_ipv4() {
            true => put_address(w, node),
            false => Err(EmitError::Contradiction),
        })
    }

    /// Returns the first address, or an IPv4 one if there are no nodes.
    pub(super) fn first(&self) -> IpAddr {
        self.nodes.iter().next().unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }
}

impl DiagResponse<'_> {
    /// Length of the object, octets.
    pub fn object_len(&self) -> usize {
        OBJECT_HEADER + 4 + 3 * address_len(self.incoming) + 4 + self.objects.len()
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let addresses = [self.incoming, self.outgoing, self.previous_hop];
        let c_type = family(self.incoming);
        let whole = Frames::new(self.objects, 0).all(|object| object.is_ok());
        if addresses.iter().any(|address| family(*address) != c_type) || !whole {
            return Err(EmitError::Contradiction);
        }
        put_header(w, ObjectClass::DiagResponse, c_type, self.object_len() - OBJECT_HEADER)?;
        w.put(self.arrival.to_be_bytes())?;
        addresses.iter().try_for_each(|address| put_address(w, *address))?;
        let bits =
            u8::from(self.merged) << 7 | (self.error & 0x07) << 4 | self.refresh_multiple & 0x0f;
        let [t0, t1] = self.refresh_s.to_be_bytes();
        w.put([self.ip_hops, bits, t0, t1])?;
        w.put_slice(self.objects)
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { c_type::IPV4 } else { c_type::IPV6 }
}

fn address_len(address: IpAddr) -> usize {
    if address.is_ipv4() { 4 } else { 16 }
}
