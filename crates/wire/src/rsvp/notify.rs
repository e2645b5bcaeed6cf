//! Notify and NOTIFY_REQUEST (RFC 3473 sections 4.2 and 4.3): a node asks for notifications with its address in a Path
//! or Resv, and gets them in messages addressed to it.
//!
//! Nodes that do not know the class of NOTIFY_REQUEST forward it, so that the object is part of [`Carried`].

use core::net::IpAddr;

use super::decode;
use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, Carried, Frames, OBJECT_HEADER, RawObject, UnknownClass};
use super::iana::{ObjectClass, c_type};
use super::leading_objects::{self, LeadingObjects};
use super::list::{Item, List, sealed::Sealed};
use super::message::FixedFilterFlow;
use super::object_writer::*;
use super::objects::{ErrorSpec, FilterSpec, SenderTemplate, Session};
use crate::intserv::{FlowSpec, SenderTspec};
use crate::writer::{EmitError, Writer};

/// Notify: an error, and the sessions that it concerns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Notify<'a> {
    /// ERROR_SPEC, shared by all sessions.
    pub error: ErrorSpec,
    /// Notify session list, at least one.
    pub sessions: List<'a, NotifySession<'a>>,
}

/// One entry of the notify session list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotifySession<'a> {
    /// SESSION.
    pub session: Session,
    /// POLICY_DATA, and objects such as ADMIN_STATUS.
    pub carried: Carried<'a>,
    /// Subject of the notification, which also tells its direction.
    pub subject: NotifySubject<'a>,
}

/// Subject of a notification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NotifySubject<'a> {
    /// Upstream notify session: a sender, as in a PathErr.
    Sender(SenderTemplate, Option<SenderTspec>),
    /// Downstream notify session of explicit senders, as in a ResvErr. RFC 3473 gives it no STYLE; each filter has the
    /// FLOWSPEC in front of it.
    Flows(List<'a, FixedFilterFlow>),
    /// Downstream notify session of a wildcard reservation.
    Wildcard(FlowSpec),
}

impl<'a> Carried<'a> {
    /// Returns the address of the first NOTIFY_REQUEST, the only one with a meaning; `None` if it cannot be read.
    pub fn notify_request(&self) -> Option<IpAddr> {
        let class = ObjectClass::NotifyRequest.code();
        let request = self.iter().find(|object| object.class_num() == class)?;
        notify_request(&request).ok()
    }
}

/// Parses a NOTIFY_REQUEST object.
pub(super) fn notify_request(object: &RawObject<'_>) -> Result<IpAddr, ParseError> {
    decode::resv_confirm(object)
}

pub(super) fn put_notify_request(w: &mut Writer<'_>, node: IpAddr) -> Result<(), EmitError> {
    let (c_type, size) = if node.is_ipv4() { (c_type::IPV4, 4) } else { (c_type::IPV6, 16) };
    put_header(w, ObjectClass::NotifyRequest, c_type, size)?;
    put_address(w, node)
}

/// Parses a Notify behind its common header.
pub(super) fn notify(objects: &[u8]) -> Result<(LeadingObjects<'_>, Notify<'_>), ParseError> {
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    let missing = |class: ObjectClass| {
        let offset = COMMON_HEADER + objects.len();
        ParseError { kind: ErrorKind::MissingObject, offset, class_num: class.code(), c_type: 0 }
    };
    let mut error = None;
    let sessions = loop {
        let ahead = frames.rest();
        let Some(object) = frames.next() else {
            let class = if error.is_none() { ObjectClass::ErrorSpec } else { ObjectClass::Session };
            return Err(missing(class));
        };
        let object = object?;
        match ObjectClass::from_code(object.class_num()) {
            ObjectClass::Session if error.is_some() => break ahead,
            ObjectClass::ErrorSpec if error.is_some() => {
                return Err(object.error(ErrorKind::DuplicateObject));
            }
            ObjectClass::ErrorSpec => error = Some(decode::error_spec(&object)?),
            ObjectClass::Session => return Err(missing(ObjectClass::ErrorSpec)),
            _ => accept(&object)?,
        }
    };
    let error = error.ok_or_else(|| missing(ObjectClass::ErrorSpec))?;
    let mut rest = sessions;
    while !rest.is_empty() {
        let offset = COMMON_HEADER + objects.len() - rest.len();
        NotifySession::take(&mut rest, offset)?;
    }
    Ok((leading, Notify { error, sessions: List::Wire(sessions) }))
}

/// Checks an object that a Notify has no use for.
fn accept(object: &RawObject<'_>) -> Result<(), ParseError> {
    match ObjectClass::from_code(object.class_num()) {
        ObjectClass::Null
        | ObjectClass::DClass
        | ObjectClass::NotifyRequest
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

impl Notify<'_> {
    #[cold]
    pub(super) fn objects_len(&self) -> usize {
        let sessions: usize = self.sessions.iter().map(|session| session.buffer_len()).sum();
        with_address_len(self.error.node, 4) + sessions
    }

    #[cold]
    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        put_error(w, &self.error)?;
        if self.sessions.is_empty() {
            return Err(EmitError::Contradiction);
        }
        self.sessions.iter().try_for_each(|session| session.put(w))
    }
}

impl<'a> NotifySession<'a> {
    /// Length of the objects, octets.
    pub fn buffer_len(&self) -> usize {
        let subject = match self.subject {
            NotifySubject::Sender(template, tspec) => {
                filter_len(&template) + tspec.map_or(0, |_| TSPEC)
            }
            NotifySubject::Flows(flows) => stated(flows)
                .map(|(flowspec, filter)| flowspec_len(&flowspec) + filter_len(&filter))
                .sum(),
            NotifySubject::Wildcard(flowspec) => flowspec_len(&Some(flowspec)),
        };
        with_address_len(self.session.destination, 4) + self.carried.octets() + subject
    }

    /// Writes the objects, [`NotifySession::buffer_len`] octets; returns the length.
    ///
    /// # Errors
    /// The buffer is too short, or a flow has no flowspec.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        self.put(&mut writer)?;
        Ok(writer.written().len())
    }

    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        put_session(w, &self.session)?;
        put_carried(w, &self.carried)?;
        match self.subject {
            NotifySubject::Sender(template, tspec) => {
                put_filter(w, ObjectClass::SenderTemplate, &template)?;
                tspec.map_or(Ok(()), |tspec| put_tspec(w, &tspec))
            }
            NotifySubject::Flows(flows) => {
                if flows.iter().next().is_none_or(|flow| flow.flowspec.is_none()) {
                    return Err(EmitError::Contradiction);
                }
                stated(flows).try_for_each(|(flowspec, filter)| {
                    put_flowspec(w, &flowspec)?;
                    put_filter(w, ObjectClass::FilterSpec, &filter)
                })
            }
            NotifySubject::Wildcard(flowspec) => put_flowspec(w, &Some(flowspec)),
        }
    }

    /// Takes the next entry of `rest`, at an offset from the start of the message, and checks it.
    fn take(rest: &mut &'a [u8], offset: usize) -> Result<NotifySession<'a>, ParseError> {
        let whole = *rest;
        let mut frames = Frames::new(whole, offset);
        let mut part = Part::default();
        loop {
            let ahead = frames.rest();
            let Some(object) = frames.next() else {
                *rest = &[];
                break;
            };
            let object = object?;
            let class = ObjectClass::from_code(object.class_num());
            if class == ObjectClass::Session && part.session.is_some() {
                *rest = ahead;
                break;
            }
            part.add(class, &object, ahead)?;
        }
        let octets = &whole[..whole.len() - rest.len()];
        let end = |kind, class: ObjectClass| {
            let offset = offset + octets.len();
            ParseError { kind, offset, class_num: class.code(), c_type: 0 }
        };
        let missing = |class| end(ErrorKind::MissingObject, class);
        let session = part.session.ok_or_else(|| missing(ObjectClass::Session))?;
        let subject = match (part.template, part.flows) {
            (Some(template), _) => NotifySubject::Sender(template, part.tspec),
            (None, Some(flows)) if part.filters > 0 && !part.after_flowspec => {
                let behind = flows.len() - rest.len();
                NotifySubject::Flows(List::Wire(&flows[..behind]))
            }
            (None, Some(_)) => match part.flowspec.filter(|_| part.filters == 0) {
                Some(flowspec) => NotifySubject::Wildcard(flowspec),
                None => return Err(end(ErrorKind::FlowDescriptors, ObjectClass::FlowSpec)),
            },
            (None, None) => return Err(missing(ObjectClass::SenderTemplate)),
        };
        Ok(NotifySession { session, carried: Carried::Wire(octets), subject })
    }
}

/// Objects of one entry found so far.
#[derive(Default)]
struct Part<'a> {
    session: Option<Session>,
    template: Option<SenderTemplate>,
    tspec: Option<SenderTspec>,
    /// The octets from the first FLOWSPEC on.
    flows: Option<&'a [u8]>,
    flowspec: Option<FlowSpec>,
    filters: usize,
    /// Whether the last object of the flow descriptors was a FLOWSPEC.
    after_flowspec: bool,
}

impl<'a> Part<'a> {
    /// Adds an object, which begins at `octets`.
    fn add(
        &mut self,
        class: ObjectClass,
        object: &RawObject<'a>,
        octets: &'a [u8],
    ) -> Result<(), ParseError> {
        match class {
            ObjectClass::Session => self.session = Some(decode::valid_session(object)?),
            // RFC 2205 has STYLE in front of the flow descriptors, RFC 3473 does not; the list says as much.
            ObjectClass::PolicyData | ObjectClass::Style => {}
            ObjectClass::SenderTemplate => {
                if self.template.is_some() || self.flows.is_some() {
                    return Err(object.error(ErrorKind::DuplicateObject));
                }
                self.template = Some(self.sender(object)?);
            }
            ObjectClass::SenderTspec if self.template.is_some() && self.tspec.is_none() => {
                self.tspec = Some(decode::sender_tspec(object)?);
            }
            ObjectClass::Adspec if self.template.is_some() => decode::check_adspec(object)?,
            ObjectClass::FlowSpec => {
                let flowspec = decode::flowspec(object)?;
                if self.template.is_some() || self.after_flowspec {
                    return Err(object.error(ErrorKind::FlowDescriptors));
                }
                self.flows = self.flows.or(Some(octets));
                self.flowspec = Some(flowspec);
                self.after_flowspec = true;
            }
            ObjectClass::FilterSpec => {
                self.sender(object)?;
                if self.flows.is_none() {
                    return Err(object.error(ErrorKind::FlowDescriptors));
                }
                self.filters += 1;
                self.after_flowspec = false;
            }
            _ => accept(object)?,
        }
        Ok(())
    }

    /// Decodes a FILTER_SPEC or SENDER_TEMPLATE, which must fit the SESSION.
    fn sender(&self, object: &RawObject<'_>) -> Result<FilterSpec, ParseError> {
        let sender = decode::valid_filter(object)?;
        let Some(session) = self.session else { return Err(object.error(ErrorKind::ObjectOrder)) };
        if let Some(kind) = sender.conflict(&session) {
            return Err(object.error(kind));
        }
        Ok(sender)
    }
}

/// Returns the flowspec and filter of each flow as written: a flowspec that repeats its predecessor is left out (RFC 2205
/// section 3.1.4). A list with one flowspec has the form of SE, others that of FF.
fn stated<'l>(
    flows: List<'l, FixedFilterFlow>,
) -> impl Iterator<Item = (Option<FlowSpec>, FilterSpec)> + use<'l> {
    let mut last = None;
    flows.iter().map(move |FixedFilterFlow { flowspec, filter }| {
        let new = flowspec.filter(|_| flowspec != last);
        last = flowspec.or(last);
        (new, filter)
    })
}

fn flowspec_len(flowspec: &Option<FlowSpec>) -> usize {
    flowspec.as_ref().map_or(0, |flowspec| OBJECT_HEADER + flowspec.buffer_len())
}

impl Sealed for NotifySession<'_> {}

/// Wire format: objects from a SESSION to the next one.
impl<'a> Item<'a> for NotifySession<'a> {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<NotifySession<'a>> {
        if rest.is_empty() {
            return None;
        }
        NotifySession::take(rest, 0).ok()
    }
}
