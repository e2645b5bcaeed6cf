//! Message parser: one pass over the objects, then the rules that involve several of them.
//!
//! Objects may come in any order, except that [leading objects](super::leading_objects) come first and STYLE with its
//! flow descriptors last (RFC 2205 sections 3.1.3 and 3.1.4). Rules between objects are therefore checked after all
//! objects have been collected, in an order that reports the cause: a damaged frame before its contents, a missing
//! object before objects that depend on it.

use core::net::IpAddr;

use super::common_form;
use super::control;
use super::decode;
use super::error::{ErrorKind, ParseError};
use super::flows::Grammar;
use super::frame::{
    COMMON_HEADER, Carried, CommonHeader, Frames, RawObject, UnknownClass, VERSION_1,
};
use super::iana::{MessageType, ObjectClass, c_type};
use super::leading_objects::{self, LeadingObjects};
use super::list::List;
use super::message::*;
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, SenderTemplate, Session, SourceSelector};
use super::rules::{FLOWS, REPEATABLE, Rules, bit};
use crate::checksum;
use crate::intserv::SenderTspec;

const PATH: u8 = MessageType::Path.code();
const RESV: u8 = MessageType::Resv.code();
const PATH_TEAR: u8 = MessageType::PathTear.code();
const RESV_TEAR: u8 = MessageType::ResvTear.code();

impl<'a> Message<'a> {
    /// Parses a whole message, from the common header to its last octet, and checks all that RFC 2205 demands.
    ///
    /// A checksum of zero means that none was sent, and is accepted. Values that only traffic control can check are not
    /// checked, see [`crate::intserv`]. INTEGRITY is not verified, and the messages of a Bundle are not parsed.
    ///
    /// # Errors
    /// The first fault found; [`ParseError::report`] returns the answer, if any.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, ParseError> {
        let (header, objects) = common_header(bytes)?;
        let (message_id, behind) = common_form::message_id(objects);
        let CommonHeader { flags, send_ttl, .. } = header;
        let message = |body| Message { flags, message_id, ..Message::new(send_ttl, body) };
        // Each fast path returns directly, so that the body is constructed at its final place.
        match header.message_type {
            PATH if let Some(body) = common_form::path(behind) => Ok(message(body)),
            RESV if let Some(body) = common_form::resv(behind) => Ok(message(body)),
            PATH_TEAR if let Some(body) = common_form::path_tear(behind) => Ok(message(body)),
            RESV_TEAR if let Some(body) = common_form::resv_tear(behind) => Ok(message(body)),
            _ => any_message(header, bytes, objects),
        }
    }
}

/// Parses any message, object by object, in any order.
fn any_message<'a>(
    header: CommonHeader,
    bytes: &[u8],
    objects: &'a [u8],
) -> Result<Message<'a>, ParseError> {
    let message_type = MessageType::from_code(header.message_type);
    let Some(rules) = Rules::of(message_type) else {
        return control::message(header, message_type, objects);
    };
    let mut found = Found::default();
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    while let Some(object) = frames.next() {
        found.add(&object?, &rules, message_type, frames.rest())?;
    }
    found.check(&rules, bytes)?;
    let flows = match found.flows.take() {
        Some(grammar) => Some(
            grammar
                .finish()
                .ok_or_else(|| at_end(ErrorKind::FlowDescriptors, ObjectClass::Style, bytes))?,
        ),
        None => None,
    };
    match found.body(message_type, objects, flows) {
        Some(body) => Ok(Message::assemble(header, leading, body)),
        None => Err(missing(rules.required, bytes)),
    }
}

/// Checks the common header against the whole message; returns it with the objects behind it.
#[inline]
fn common_header(bytes: &[u8]) -> Result<(CommonHeader, &[u8]), ParseError> {
    let Some((header, objects)) = CommonHeader::split(bytes) else {
        return Err(ParseError::header(ErrorKind::Truncated, bytes.len()));
    };
    if header.version != VERSION_1 >> 4 {
        return Err(ParseError::header(ErrorKind::Version, 0));
    }
    if usize::from(header.length) != bytes.len() {
        return Err(ParseError::header(ErrorKind::Length, 6));
    }
    if header.checksum != 0 && checksum::sum(bytes) != 0xffff {
        return Err(ParseError::header(ErrorKind::Checksum, 2));
    }
    Ok((header, objects))
}

/// Objects found so far.
#[derive(Default)]
struct Found<'a> {
    /// Set of the classes found.
    seen: u16,
    session: Option<Session>,
    hop: Option<RsvpHop>,
    refresh_ms: Option<u32>,
    error: Option<ErrorSpec>,
    confirm: Option<IpAddr>,
    scope: Option<List<'a, IpAddr>>,
    /// Whether there are objects to be carried.
    carried: bool,
    template: Option<SenderTemplate>,
    tspec: Option<SenderTspec>,
    adspec: Option<&'a [u8]>,
    flows: Option<Grammar<'a>>,
    /// Whether an address is IPv4, and whether one is IPv6.
    families: (bool, bool),
    /// Whether a source port is not zero.
    source_port: bool,
    /// Kinds of selectors of filters, as bits.
    selectors: u8,
}

impl<'a> Found<'a> {
    /// Adds an object; `behind` are all octets behind it.
    #[inline]
    fn add(
        &mut self,
        object: &RawObject<'a>,
        rules: &Rules,
        message_type: MessageType,
        behind: &'a [u8],
    ) -> Result<(), ParseError> {
        let number = object.class_num();
        let bit = if number < 16 { 1 << number } else { 0 };
        if rules.allowed & bit == 0 {
            return self.add_other(object);
        }
        let class = ObjectClass::from_code(number);
        if self.seen & bit & !REPEATABLE != 0 {
            return Err(object.error(ErrorKind::DuplicateObject));
        }
        if (FLOWS & bit != 0) != self.flows.is_some() {
            return Err(object.error(ErrorKind::ObjectOrder));
        }
        self.seen |= bit;
        self.decode(class, object, message_type, behind)
    }

    /// Adds an object of a class outside the message's rules.
    #[cold]
    fn add_other(&mut self, object: &RawObject<'a>) -> Result<(), ParseError> {
        match ObjectClass::from_code(object.class_num()) {
            ObjectClass::Null | ObjectClass::SessionOfInterest => Ok(()),
            ObjectClass::RestartCap | ObjectClass::Capability => Ok(()),
            ObjectClass::Unknown(number) => match UnknownClass::of(number) {
                UnknownClass::Reject => Err(object.error(ErrorKind::UnknownClass)),
                UnknownClass::Ignore => Ok(()),
                UnknownClass::Forward => {
                    self.carried = true;
                    Ok(())
                }
            },
            ObjectClass::DClass | ObjectClass::NotifyRequest => {
                self.carried = true;
                Ok(())
            }
            ObjectClass::Integrity | ObjectClass::MessageIdAck | ObjectClass::MessageId => {
                Err(leading_objects::out_of_order(object))
            }
            _ => Err(object.error(ErrorKind::IllegalObject)),
        }
    }

    #[inline]
    fn decode(
        &mut self,
        class: ObjectClass,
        object: &RawObject<'a>,
        message_type: MessageType,
        behind: &'a [u8],
    ) -> Result<(), ParseError> {
        match class {
            ObjectClass::Session => {
                let session = decode::valid_session(object)?;
                self.note_address(session.destination);
                self.session = Some(session);
            }
            ObjectClass::RsvpHop => {
                let hop = decode::valid_hop(object)?;
                self.note_address(hop.address);
                self.hop = Some(hop);
            }
            ObjectClass::TimeValues => self.refresh_ms = Some(decode::time_values(object)?),
            ObjectClass::ErrorSpec => {
                let error = decode::error_spec(object)?;
                self.note_address(error.node);
                self.error = Some(error);
            }
            ObjectClass::Scope => {
                let size = decode::scope(object)?;
                self.note_family(size == 4);
                self.scope = Some(List::Wire(object.bytes));
            }
            ObjectClass::Style => {
                let style = decode::style(object)?;
                self.flows = Some(Grammar::new(message_type, style, behind));
            }
            ObjectClass::FlowSpec => {
                let flowspec = decode::flowspec(object)?;
                if !self.flows.as_mut().is_some_and(|flows| flows.flowspec(flowspec)) {
                    return Err(object.error(ErrorKind::FlowDescriptors));
                }
            }
            ObjectClass::FilterSpec => {
                self.sender(object)?;
                if !self.flows.as_mut().is_some_and(Grammar::filter) {
                    return Err(object.error(ErrorKind::FlowDescriptors));
                }
            }
            ObjectClass::SenderTemplate => self.template = Some(self.sender(object)?),
            ObjectClass::SenderTspec => self.tspec = Some(decode::sender_tspec(object)?),
            ObjectClass::Adspec => {
                decode::check_adspec(object)?;
                self.adspec = Some(object.body());
            }
            ObjectClass::PolicyData => self.carried = true,
            ObjectClass::ResvConfirm => {
                let receiver = decode::resv_confirm(object)?;
                self.note_address(receiver);
                self.confirm = Some(receiver);
            }
            // These classes are in no message's rules.
            _ => {}
        }
        Ok(())
    }

    /// Decodes a FILTER_SPEC or SENDER_TEMPLATE.
    #[inline]
    fn sender(&mut self, object: &RawObject<'_>) -> Result<FilterSpec, ParseError> {
        let filter = decode::valid_filter(object)?;
        self.note_address(filter.source);
        self.source_port |= filter.needs_destination_port();
        self.selectors |= selector_bit(&filter);
        Ok(filter)
    }

    #[inline]
    fn note_address(&mut self, address: IpAddr) {
        self.note_family(address.is_ipv4());
    }

    #[inline]
    fn note_family(&mut self, ipv4: bool) {
        if ipv4 {
            self.families.0 = true;
        } else {
            self.families.1 = true;
        }
    }

    /// Checks the rules between objects.
    #[inline]
    fn check(&self, rules: &Rules, bytes: &[u8]) -> Result<(), ParseError> {
        let absent = rules.required & !self.seen;
        if absent != 0 {
            return Err(missing(absent, bytes));
        }
        let Some(session) = &self.session else {
            return Err(missing(bit(ObjectClass::Session), bytes));
        };
        if self.families == (true, true) {
            let ipv4 = session.destination.is_ipv4();
            return Err(first_at_fault(bytes, ErrorKind::AddressFamily, |object| {
                family_of(object).is_some_and(|family| family != ipv4)
            }));
        }
        // RFC 2205 section 3.2, rule 2.
        if session.port == 0 && self.source_port {
            return Err(first_sender_at_fault(bytes, ErrorKind::BadSourcePort, |sender| {
                sender.needs_destination_port()
            }));
        }
        if self.selectors & !selectors_of(session) != 0 {
            return Err(first_sender_at_fault(bytes, ErrorKind::ConflictingCType, |sender| {
                !sender.fits(session)
            }));
        }
        Ok(())
    }

    /// Assembles the body; `None` if a required object is missing, which [`Found::check`] has excluded.
    #[inline]
    fn body(
        self,
        message_type: MessageType,
        objects: &'a [u8],
        flows: Option<FlowDescriptors<'a>>,
    ) -> Option<Body<'a>> {
        let carried = if self.carried { Carried::Wire(objects) } else { Carried::NONE };
        let scope = self.scope;
        let session = self.session?;
        Some(match message_type {
            MessageType::Path | MessageType::RecoveryPath => {
                let (hop, refresh_ms, adspec) = (self.hop?, self.refresh_ms?, self.adspec);
                let (template, tspec) = (self.template?, self.tspec?);
                let sender = SenderDescriptor { template, tspec, adspec };
                let path = Path { session, hop, refresh_ms, carried, sender };
                match message_type {
                    MessageType::Path => Body::Path(path),
                    _ => Body::RecoveryPath(path),
                }
            }
            MessageType::Resv => {
                let (hop, refresh_ms, confirm) = (self.hop?, self.refresh_ms?, self.confirm);
                let flows = flows?;
                Body::Resv(Resv { session, hop, refresh_ms, confirm, scope, carried, flows })
            }
            MessageType::PathErr => {
                let (error, tspec) = (self.error?, self.tspec);
                let sender = self.template.map(|template| (template, tspec));
                Body::PathErr(PathErr { session, error, carried, sender })
            }
            MessageType::ResvErr => {
                let (hop, error, flows) = (self.hop?, self.error?, flows?);
                Body::ResvErr(ResvErr { session, hop, error, scope, carried, flows })
            }
            MessageType::PathTear => {
                let (hop, template, tspec) = (self.hop?, self.template?, self.tspec);
                Body::PathTear(PathTear { session, hop, carried, template, tspec })
            }
            MessageType::ResvTear => {
                let (hop, flows) = (self.hop?, flows?);
                Body::ResvTear(ResvTear { session, hop, scope, carried, flows })
            }
            MessageType::ResvConf => {
                let (error, confirm, flows) = (self.error?, self.confirm?, flows?);
                Body::ResvConf(ResvConf { session, error, confirm, carried, flows })
            }
            _ => return None,
        })
    }
}

/// Returns the bit of a sender's selector in [`Found::selectors`].
#[inline]
fn selector_bit(sender: &FilterSpec) -> u8 {
    match sender.selector {
        SourceSelector::Port(_) | SourceSelector::FlowLabel(_) => PORTS,
        SourceSelector::Spi(_) => SPI,
        SourceSelector::Aggregator => AGGREGATOR,
    }
}

/// Returns the bit of the selectors that the senders of a session have ([`FilterSpec::fits`]).
#[inline]
fn selectors_of(session: &Session) -> u8 {
    match (session.is_aggregate(), session.has_gpi()) {
        (true, _) => AGGREGATOR,
        (_, true) => SPI,
        _ => PORTS,
    }
}

const PORTS: u8 = 1;
const SPI: u8 = 2;
const AGGREGATOR: u8 = 4;

/// Returns the error about the first missing class of a set.
#[cold]
fn missing(classes: u16, bytes: &[u8]) -> ParseError {
    let class = ObjectClass::from_code(classes.trailing_zeros() as u8); // at most 16
    at_end(ErrorKind::MissingObject, class, bytes)
}

/// Returns the error about an object that is missing at the end of the message.
#[cold]
fn at_end(kind: ErrorKind, class: ObjectClass, bytes: &[u8]) -> ParseError {
    ParseError { kind, offset: bytes.len(), class_num: class.code(), c_type: 0 }
}

/// Returns the error about the first object at fault. Only malformed messages need this second pass.
#[cold]
fn first_at_fault(
    bytes: &[u8],
    kind: ErrorKind,
    at_fault: impl Fn(&RawObject<'_>) -> bool,
) -> ParseError {
    let objects = bytes.get(COMMON_HEADER..).unwrap_or_default();
    Frames::new(objects, COMMON_HEADER)
        .map_while(Result::ok)
        .find(at_fault)
        .map_or(at_end(kind, ObjectClass::Session, bytes), |object| object.error(kind))
}

/// Returns the error about the first FILTER_SPEC or SENDER_TEMPLATE at fault.
#[cold]
fn first_sender_at_fault(
    bytes: &[u8],
    kind: ErrorKind,
    at_fault: impl Fn(&FilterSpec) -> bool,
) -> ParseError {
    first_at_fault(bytes, kind, |object| {
        let class = ObjectClass::from_code(object.class_num());
        matches!(class, ObjectClass::FilterSpec | ObjectClass::SenderTemplate)
            && decode::filter_spec(object).is_ok_and(|sender| at_fault(&sender))
    })
}

/// Returns whether the address family of an object is IPv4; `None` if the object has no family.
fn family_of(object: &RawObject<'_>) -> Option<bool> {
    match ObjectClass::from_code(object.class_num()) {
        ObjectClass::Session => {
            decode::session(object).ok().map(|session| session.destination.is_ipv4())
        }
        ObjectClass::FilterSpec | ObjectClass::SenderTemplate => {
            decode::filter_spec(object).ok().map(|sender| sender.source.is_ipv4())
        }
        ObjectClass::RsvpHop
        | ObjectClass::ErrorSpec
        | ObjectClass::Scope
        | ObjectClass::ResvConfirm => Some(object.c_type() == c_type::IPV4),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
