//! SESSION_AUTH, the authorization of a session by another entity (RFC 5981): a list of attributes.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |            Length             |    X-Type     |   SubType     |
//! //                           Value ...                         //
//! ```
//!
//! Length counts the octets of an attribute with its header and without its padding, which is zeros up to a whole word.
//!
//! A CBOR Web Token has the form of a Kerberos ticket (section 4.2): AUTH_ENT_ID names the issuer in a form of its own,
//! [`EntityIdForm::WebToken`], and AUTHENTICATION_DATA is the token, whose signature covers all that it claims.

use super::iana::{EntityIdForm, XType};
use super::object::{WORD, pad};
use crate::writer::{EmitError, Writer};

/// Length of an attribute's header, octets.
const HEADER: usize = 4;

error_kinds! {
    /// Faults of a SESSION_AUTH object.
    pub enum SessionAuthErrorKind {
        /// The object has no attributes.
        Empty = "session_auth_empty" "SESSION_AUTH is empty",
        /// The octets at the end are too few for the header of an attribute.
        Truncated = "session_auth_truncated" "fewer than four octets are left for an attribute",
        /// An attribute has no value, or leads past the end of the object.
        Length = "session_auth_length" "an attribute has an invalid length",
        /// The padding of an attribute is not zero.
        Padding = "session_auth_padding" "the padding of an attribute is not zero",
    }
}

/// A malformed SESSION_AUTH object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("octet {offset}: {kind}")]
pub struct SessionAuthError {
    /// Kind of fault.
    pub kind: SessionAuthErrorKind,
    /// Offset of the attribute, octets from the start of the value.
    pub offset: usize,
}

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Type.
    pub x_type: XType,
    /// SubType, whose meaning depends on the type.
    pub sub_type: u8,
    /// Value without padding; not empty.
    pub value: &'a [u8],
}

/// Value of a SESSION_AUTH object, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionAuth<'a> {
    octets: &'a [u8],
}

impl<'a> SessionAuth<'a> {
    /// Parses the value of an object. Unknown types of attributes are kept.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(octets: &'a [u8]) -> Result<SessionAuth<'a>, SessionAuthError> {
        if octets.is_empty() {
            return Err(SessionAuthError { kind: SessionAuthErrorKind::Empty, offset: 0 });
        }
        let mut attributes = Attributes { octets, offset: 0 };
        attributes.try_for_each(|attribute| attribute.map(|_| ()))?;
        Ok(SessionAuth { octets })
    }

    /// Iterates over the attributes.
    pub fn attributes(self) -> impl Iterator<Item = Attribute<'a>> + Clone {
        Attributes { octets: self.octets, offset: 0 }.map_while(Result::ok)
    }

    /// Returns the web token; `None` if the object is of another form. An object that claims this form but is not exactly an
    /// identifier and a token has an empty token, which is malformed: another attribute may be a restriction.
    pub fn web_token(self) -> Option<&'a [u8]> {
        let mut attributes = self.attributes();
        let first = attributes.next()?;
        let is_form =
            first.x_type == XType::AuthEntId && first.sub_type == EntityIdForm::WebToken.code();
        let token = match (attributes.next(), attributes.next()) {
            (Some(Attribute { x_type: XType::AuthenticationData, sub_type: 0, value }), None) => {
                value
            }
            _ => &[],
        };
        is_form.then_some(token)
    }
}

/// Iterator over the attributes of a value up to the end or to the first fault.
#[derive(Clone)]
struct Attributes<'a> {
    octets: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, SessionAuthError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.octets.get(offset..).filter(|rest| !rest.is_empty())?;
        let parsed = parse_attribute(rest);
        self.offset = match parsed {
            Ok((_, length)) => offset + length,
            Err(_) => self.octets.len(),
        };
        Some(match parsed {
            Ok((attribute, _)) => Ok(attribute),
            Err(kind) => Err(SessionAuthError { kind, offset }),
        })
    }
}

/// Parses the first attribute; returns it with its length including padding.
fn parse_attribute(octets: &[u8]) -> Result<(Attribute<'_>, usize), SessionAuthErrorKind> {
    let Some((&[l0, l1, x_type, sub_type], _)) = octets.split_first_chunk() else {
        return Err(SessionAuthErrorKind::Truncated);
    };
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    let padded = length.next_multiple_of(WORD);
    let value = octets.get(HEADER..length).filter(|value| !value.is_empty());
    let (Some(value), Some(padding)) = (value, octets.get(length..padded)) else {
        return Err(SessionAuthErrorKind::Length);
    };
    if padding.iter().any(|octet| *octet != 0) {
        return Err(SessionAuthErrorKind::Padding);
    }
    Ok((Attribute { x_type: XType::from_code(x_type), sub_type, value }, padded))
}

/// Returns the length of the value of a SESSION_AUTH object with these attributes, octets.
pub fn session_auth_len(attributes: &[Attribute<'_>]) -> usize {
    attributes.iter().map(|attribute| (HEADER + attribute.value.len()).next_multiple_of(WORD)).sum()
}

/// Writes the value of a SESSION_AUTH object; returns its length.
///
/// # Errors
/// The buffer is shorter than [`session_auth_len`]; a value is empty, or longer than the length field can express.
pub fn emit_session_auth(
    attributes: &[Attribute<'_>],
    buffer: &mut [u8],
) -> Result<usize, EmitError> {
    let mut writer = Writer::new(buffer);
    for Attribute { x_type, sub_type, value } in attributes {
        if value.is_empty() || XType::from_code(x_type.code()) != *x_type {
            return Err(EmitError::Contradiction);
        }
        let length = u16::try_from(HEADER + value.len()).map_err(|_| EmitError::TooLong)?;
        let [l0, l1] = length.to_be_bytes();
        writer.put([l0, l1, x_type.code(), *sub_type])?;
        writer.put_slice(value)?;
        pad(&mut writer, value.len())?;
    }
    Ok(writer.position())
}

serialize_as!(Attribute<'_>, |it| map! {
    "type": it.x_type.name(),
    "sub_type": it.sub_type,
    "octets": it.value.len(),
});
