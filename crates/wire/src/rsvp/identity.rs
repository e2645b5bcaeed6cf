//! Identity representation: the attributes of AUTH_USER and AUTH_APP (RFC 3182), and the names of applications in
//! policy locators (RFC 2872).

use super::iana::AttributeType;
use super::list::{Item, List, sealed::Sealed};
use crate::writer::{EmitError, Writer};

/// An authentication attribute (RFC 3182 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// A-Type: kind of attribute.
    pub a_type: AttributeType,
    /// SubType: format of the value, by A-Type; [`super::iana::LocatorForm`], [`super::iana::CredentialForm`].
    pub sub_type: u8,
    /// Value without padding.
    pub value: &'a [u8],
}

/// Length of an attribute's header, octets.
const HEADER: usize = 4;

/// Parses the attributes in an element's body; `None` if one is framed wrongly.
pub(super) fn attributes(body: &[u8]) -> Option<List<'_, Attribute<'_>>> {
    let mut rest = body;
    while !rest.is_empty() {
        Attribute::next(&mut rest, &mut ())?;
    }
    Some(List::Wire(body))
}

impl<'a> Attribute<'a> {
    /// Returns the error value of a POLICY_ERROR_OBJECT, a number of [`super::iana::IdentityError`], and its additional
    /// data. `None` if this is another attribute or too short.
    pub fn policy_error(&self) -> Option<(u16, &'a [u8])> {
        let ([_, _, e0, e1], text) = self.value.split_first_chunk()?;
        (self.a_type == AttributeType::PolicyErrorObject)
            .then_some((u16::from_be_bytes([*e0, *e1]), text))
    }

    /// Returns the value as text, without trailing zeros; `None` if it is not ASCII.
    pub fn ascii(&self) -> Option<&'a str> {
        let end = self.value.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        core::str::from_utf8(self.value.get(..end)?).ok().filter(|text| text.is_ascii())
    }

    /// Length on the wire, octets.
    pub(super) fn padded_len(&self) -> usize {
        (HEADER + self.value.len()).next_multiple_of(4)
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let length = HEADER + self.value.len();
        let [l0, l1] = u16::try_from(length).map_err(|_| EmitError::TooLong)?.to_be_bytes();
        w.put([l0, l1, self.a_type.code(), self.sub_type])?;
        w.put_slice(self.value)?;
        w.put_slice(&[0; 3][..self.padded_len() - length])
    }
}

impl Sealed for Attribute<'_> {}

/// Wire format: attributes, each padded to a multiple of four octets.
impl<'a> Item<'a> for Attribute<'a> {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<Attribute<'a>> {
        let [l0, l1, a_type, sub_type] = *rest.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let value = rest.get(HEADER..length)?;
        let a_type = AttributeType::from_code(a_type);
        *rest = rest.get(length.next_multiple_of(4)..)?;
        Some(Attribute { a_type, sub_type, value })
    }
}
