//! POLICY_DATA (RFC 2750): options, which are RSVP objects, and policy elements, one for each policy.
//!
//! [`super::Message::parse`] does not parse POLICY_DATA, because nodes without policy forward it as received. Policy
//! nodes find it in [`super::Carried`], parse it with [`PolicyData::parse`], and emit their own with
//! [`PolicyData::emit`].

use core::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::decode;
use super::error::{ErrorKind, ParseError};
use super::frame::{Frames, OBJECT_HEADER, RawObject, next_object};
use super::iana::{ObjectClass, PolicyElementType, c_type};
use super::identity::{Attribute, attributes};
use super::integrity::Integrity;
use super::list::{Item, List, sealed::Sealed};
use super::object_writer::{
    filter_len, put_filter, put_header, put_hop, put_integrity, put_scope, put_time_values,
    scope_len, with_address_len,
};
use super::objects::{FilterSpec, RsvpHop};
use crate::writer::{EmitError, Writer};

/// POLICY_DATA (class 14, C-Type 1; RFC 2750 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyData<'a> {
    /// Options: origin, destination and subject of the object.
    pub options: List<'a, PolicyOption<'a>>,
    /// Policy elements.
    pub elements: List<'a, PolicyElement<'a>>,
}

/// An option of POLICY_DATA (RFC 2750 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyOption<'a> {
    /// FILTER_SPEC: a sender to which the object applies. Without any, the object applies to the whole session.
    Filter(FilterSpec),
    /// SCOPE: the senders to which the object applies; not beside [`PolicyOption::Filter`].
    Scope(List<'a, IpAddr>),
    /// RSVP_HOP: the first one is the policy node that created the object, a second one the policy node that it is for.
    Hop(RsvpHop),
    /// INTEGRITY: authenticates the policy node that created the object (appendix B).
    Integrity(Integrity<'a>),
    /// TIME_VALUES: refresh period of the object, milliseconds.
    RefreshMs(u32),
}

/// A policy element (RFC 2750 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyElement<'a> {
    /// An element with only a type: withdraws an earlier element of the type (RFC 2750 section 3.4).
    Empty(PolicyElementType),
    /// PREEMPTION_PRI: preemption and defending priority.
    Preemption(PreemptionPriority),
    /// AUTH_USER: identity of the user.
    User(List<'a, Attribute<'a>>),
    /// AUTH_APP: identity of the application.
    Application(List<'a, Attribute<'a>>),
    /// ADMISSION_PRI: admission priority, which determines the share of a link open to the flow.
    Admission(AdmissionPriority),
    /// APP_RESOURCE_PRI: priority in the application's own namespaces.
    Resource(List<'a, ResourcePriority>),
    /// REC_PROXY_CONTROL: Control-Value, whether the sender wants a receiver proxy;
    /// [`super::iana::ReceiverProxyControl`].
    ReceiverProxy(u8),
    /// An element of unknown type with its body: a multiple of four octets, at least four.
    Unknown(u16, &'a [u8]),
}

/// PREEMPTION_PRI (P-Type 1; RFC 3181 section 4). Higher numbers are more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreemptionPriority {
    /// Merge strategy; [`super::iana::MergeStrategy`].
    pub merge_strategy: u8,
    /// Error code of the element in an error message, otherwise zero; [`super::iana::PreemptionError`].
    pub error: u8,
    /// Preemption Priority: compared with the defending priority of admitted reservations.
    pub preemption: u16,
    /// Defending Priority, after admission. Should not be below `preemption`.
    pub defending: u16,
}

/// ADMISSION_PRI (P-Type 5; RFC 6401 section 5.1). Higher numbers are more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AdmissionPriority {
    /// Merge strategy; [`super::iana::MergeStrategy`].
    pub merge_strategy: u8,
    /// Error code of the element in an error message, otherwise zero; [`super::iana::PreemptionError`].
    pub error: u8,
    /// Adm. Priority.
    pub priority: u8,
}

/// One item of APP_RESOURCE_PRI (P-Type 6; RFC 6401 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourcePriority {
    /// ALRP Namespace, a number of the registry "Resource-Priority Namespaces" of SIP.
    pub namespace: u16,
    /// ALRP Value within the namespace.
    pub value: u8,
}

/// Length in front of the options: the object's header, Data Offset and a reserved field; octets.
const HEADER: usize = OBJECT_HEADER + 4;
/// Length of an element's length and P-Type fields, octets.
const ELEMENT_HEADER: usize = 4;

impl<'a> PolicyData<'a> {
    /// Parses an object of class 14, including the fields of known elements.
    ///
    /// # Errors
    /// The C-Type is unknown; the object is too short; an option is invalid or not one of RFC 2750; an element is
    /// framed wrongly or invalid. [`ParseError::report`] has the error value of RFC 2750 for each.
    pub fn parse(object: &RawObject<'a>) -> Result<PolicyData<'a>, ParseError> {
        if object.c_type() != c_type::POLICY_DATA {
            return Err(object.error(ErrorKind::UnknownCType));
        }
        let Some([o0, o1, _, _]) = object.body().first_chunk() else {
            return Err(object.error(ErrorKind::ObjectSize));
        };
        let data_offset = usize::from(u16::from_be_bytes([*o0, *o1]));
        let parts = object.bytes.split_at_checked(data_offset).and_then(|(before, elements)| {
            Some((before.get(HEADER..)?, elements)).filter(|_| data_offset.is_multiple_of(4))
        });
        let Some((options, elements)) = parts else {
            let offset = object.offset + OBJECT_HEADER;
            return Err(ParseError { offset, ..object.error(ErrorKind::PolicyOption) });
        };
        check_options(object, options)?;
        check_elements(object, elements, data_offset)?;
        Ok(PolicyData { options: List::Wire(options), elements: List::Wire(elements) })
    }

    /// Length of the object, octets.
    pub fn buffer_len(&self) -> usize {
        self.data_offset() + self.elements.iter().map(|element| element.len()).sum::<usize>()
    }

    fn data_offset(&self) -> usize {
        HEADER + self.options.iter().map(|option| option.len()).sum::<usize>()
    }

    /// Writes the object with its header, [`PolicyData::buffer_len`] octets; returns the length.
    ///
    /// # Errors
    /// The buffer is too short, the object is too long, or receivers would refuse it.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        self.put(&mut writer)?;
        Ok(writer.written().len())
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let body = self.buffer_len() - OBJECT_HEADER;
        put_header(w, ObjectClass::PolicyData, c_type::POLICY_DATA, body)?;
        let data_offset = u16::try_from(self.data_offset()).map_err(|_| EmitError::TooLong)?;
        let [o0, o1] = data_offset.to_be_bytes();
        w.put([o0, o1, 0, 0])?;
        self.options.iter().try_for_each(|option| option.put(w))?;
        self.elements.iter().try_for_each(|element| element.put(w))
    }
}

/// Checks that every option is framed correctly, of a known class, and valid.
fn check_options(object: &RawObject<'_>, options: &[u8]) -> Result<(), ParseError> {
    for option in Frames::new(options, object.offset + HEADER) {
        let fault = |error: ParseError| ParseError { kind: ErrorKind::PolicyOption, ..error };
        let option = option.map_err(fault)?;
        if PolicyOption::decode(&option).map_err(fault)?.is_none() {
            return Err(option.error(ErrorKind::PolicyOption));
        }
    }
    Ok(())
}

/// Checks that every element is framed correctly, and valid if its type is known.
fn check_elements(
    object: &RawObject<'_>,
    elements: &[u8],
    data_offset: usize,
) -> Result<(), ParseError> {
    let mut rest = elements;
    while !rest.is_empty() {
        let offset = object.offset + data_offset + (elements.len() - rest.len());
        if PolicyElement::next(&mut rest, &mut ()).is_none() {
            return Err(ParseError { offset, ..object.error(ErrorKind::PolicyElement) });
        }
    }
    Ok(())
}

impl<'a> PolicyOption<'a> {
    /// Decodes an option; `None` if its class cannot be an option.
    fn decode(object: &RawObject<'a>) -> Result<Option<PolicyOption<'a>>, ParseError> {
        Ok(Some(match ObjectClass::from_code(object.class_num()) {
            ObjectClass::FilterSpec => PolicyOption::Filter(decode::filter_spec(object)?),
            ObjectClass::Scope => {
                decode::scope(object)?;
                PolicyOption::Scope(List::Wire(object.bytes))
            }
            ObjectClass::RsvpHop => PolicyOption::Hop(decode::rsvp_hop(object)?),
            ObjectClass::Integrity => PolicyOption::Integrity(Integrity::parse(object)?),
            ObjectClass::TimeValues => PolicyOption::RefreshMs(decode::time_values(object)?),
            _ => return Ok(None),
        }))
    }

    fn len(&self) -> usize {
        match self {
            PolicyOption::Filter(filter) => filter_len(filter),
            PolicyOption::Scope(senders) => scope_len(&Some(*senders)),
            PolicyOption::Hop(hop) => with_address_len(hop.address, 4),
            PolicyOption::Integrity(integrity) => integrity.object_len(),
            PolicyOption::RefreshMs(_) => OBJECT_HEADER + 4,
        }
    }

    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        match self {
            PolicyOption::Filter(filter) => put_filter(w, ObjectClass::FilterSpec, filter),
            PolicyOption::Scope(senders) => {
                let family = senders.iter().next().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                put_scope(w, &Some(*senders), family)
            }
            PolicyOption::Hop(hop) => put_hop(w, hop),
            PolicyOption::Integrity(integrity) => put_integrity(w, integrity),
            PolicyOption::RefreshMs(refresh_ms) => put_time_values(w, *refresh_ms),
        }
    }
}

impl<'a> PolicyElement<'a> {
    /// Decodes an element of a type; `None` if it is invalid.
    fn decode(p_type: PolicyElementType, body: &'a [u8]) -> Option<PolicyElement<'a>> {
        if body.is_empty() {
            return Some(PolicyElement::Empty(p_type));
        }
        Some(match p_type {
            PolicyElementType::PreemptionPriority => {
                let [_, merge_strategy, error, _, p0, p1, d0, d1] = *body.as_array()?;
                let preemption = u16::from_be_bytes([p0, p1]);
                let defending = u16::from_be_bytes([d0, d1]);
                PolicyElement::Preemption(PreemptionPriority {
                    merge_strategy,
                    error,
                    preemption,
                    defending,
                })
            }
            PolicyElementType::AdmissionPriority => {
                let [_, merge_strategy, error, _, _, _, _, priority] = *body.as_array()?;
                PolicyElement::Admission(AdmissionPriority { merge_strategy, error, priority })
            }
            PolicyElementType::AuthUser => PolicyElement::User(attributes(body)?),
            PolicyElementType::AuthApplication => PolicyElement::Application(attributes(body)?),
            PolicyElementType::ResourcePriority => PolicyElement::Resource(List::Wire(body)),
            // Reserved bits are ignored; the length is always 8 (RFC 5946 section 4.2).
            PolicyElementType::ReceiverProxyControl => {
                let [_, _, _, control] = *body.as_array()?;
                PolicyElement::ReceiverProxy(control)
            }
            PolicyElementType::Unknown(number) => PolicyElement::Unknown(number, body),
        })
    }

    /// P-Type of the element.
    pub fn element_type(&self) -> PolicyElementType {
        match self {
            PolicyElement::Empty(p_type) => *p_type,
            PolicyElement::Preemption(_) => PolicyElementType::PreemptionPriority,
            PolicyElement::User(_) => PolicyElementType::AuthUser,
            PolicyElement::Application(_) => PolicyElementType::AuthApplication,
            PolicyElement::Admission(_) => PolicyElementType::AdmissionPriority,
            PolicyElement::Resource(_) => PolicyElementType::ResourcePriority,
            PolicyElement::ReceiverProxy(_) => PolicyElementType::ReceiverProxyControl,
            PolicyElement::Unknown(number, _) => PolicyElementType::from_code(*number),
        }
    }

    fn len(&self) -> usize {
        ELEMENT_HEADER
            + match self {
                PolicyElement::Empty(_) => 0,
                PolicyElement::Preemption(_) | PolicyElement::Admission(_) => 8,
                PolicyElement::User(attributes) | PolicyElement::Application(attributes) => {
                    attributes.iter().map(|attribute| attribute.padded_len()).sum()
                }
                PolicyElement::Resource(priorities) => priorities.len() * 4,
                PolicyElement::ReceiverProxy(_) => 4,
                PolicyElement::Unknown(_, body) => body.len(),
            }
    }

    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let [l0, l1] = u16::try_from(self.len()).map_err(|_| EmitError::TooLong)?.to_be_bytes();
        let [t0, t1] = self.element_type().code().to_be_bytes();
        w.put([l0, l1, t0, t1])?;
        match self {
            PolicyElement::Empty(_) => Ok(()),
            PolicyElement::Preemption(priority) => {
                w.put([0, priority.merge_strategy, priority.error, 0])?;
                w.put(priority.preemption.to_be_bytes())?;
                w.put(priority.defending.to_be_bytes())
            }
            PolicyElement::Admission(AdmissionPriority { merge_strategy, error, priority }) => {
                w.put([0, *merge_strategy, *error, 0, 0, 0, 0, *priority])
            }
            PolicyElement::User(attributes) | PolicyElement::Application(attributes) => {
                attributes.iter().try_for_each(|attribute| attribute.put(w))
            }
            PolicyElement::Resource(priorities) => priorities.iter().try_for_each(|priority| {
                let [n0, n1] = priority.namespace.to_be_bytes();
                w.put([n0, n1, 0, priority.value])
            }),
            PolicyElement::ReceiverProxy(control) => w.put([0, 0, 0, *control]),
            PolicyElement::Unknown(_, body) if body.len().is_multiple_of(4) => w.put_slice(body),
            PolicyElement::Unknown(..) => Err(EmitError::Contradiction),
        }
    }
}

impl Sealed for PolicyOption<'_> {}

/// Wire format: the options, each with its header.
impl<'a> Item<'a> for PolicyOption<'a> {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<PolicyOption<'a>> {
        PolicyOption::decode(&next_object(rest)?).ok()?
    }
}

impl Sealed for PolicyElement<'_> {}

/// Wire format: the elements, each with its header.
impl<'a> Item<'a> for PolicyElement<'a> {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<PolicyElement<'a>> {
        let [l0, l1, t0, t1] = *rest.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let (element, behind) = rest.split_at_checked(length)?;
        let body = element.get(ELEMENT_HEADER..).filter(|_| length.is_multiple_of(4))?;
        let p_type = PolicyElementType::from_code(u16::from_be_bytes([t0, t1]));
        let element = PolicyElement::decode(p_type, body)?;
        *rest = behind;
        Some(element)
    }
}

impl Sealed for ResourcePriority {}

/// Wire format: four octets for each item.
impl<'a> Item<'a> for ResourcePriority {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<ResourcePriority> {
        let ([n0, n1, _, value], behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(ResourcePriority { namespace: u16::from_be_bytes([*n0, *n1]), value: *value })
    }
}
