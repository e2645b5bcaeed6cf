//! POLICY_DATA of a message: identity and priority.
//!
//! Only the name that a token proves is verified. Any other one is claimed: as trustworthy as the neighbour that forwarded
//! it, which INTEGRITY authenticates.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_token::Verified;
use earmark_wire::rsvp::iana::{
    AttributeType, CredentialForm, LocatorForm, ObjectClass, PolicyElementType,
};
use earmark_wire::rsvp::{
    Attribute, Carried, List, ParseError, PolicyData, PolicyElement, PreemptionPriority,
};

/// Identity and priority as stated in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence<'a> {
    /// User names: POLICY_LOCATOR and CREDENTIAL of AUTH_USER, in ASCII.
    pub(crate) users: Vec<&'a str>,
    /// Application names: POLICY_LOCATOR and CREDENTIAL of AUTH_APP, in ASCII.
    pub(crate) applications: Vec<&'a str>,
    /// PREEMPTION_PRI.
    pub(crate) priority: Option<PreemptionPriority>,
    /// Token: CREDENTIAL of AUTH_USER.
    pub(crate) token: Option<&'a [u8]>,
    /// Name that the token proves, and the time until which it does; set by [`super::tokens`].
    pub(crate) verified: Option<Verified>,
}

impl<'a> Evidence<'a> {
    /// Parses all POLICY_DATA of a message. An element replaces an earlier one of its type, and an empty one removes it
    /// (RFC 2750 section 3.4).
    pub(crate) fn read(carried: Carried<'a>) -> Result<Evidence<'a>, ParseError> {
        let mut evidence = Evidence::default();
        for object in carried.iter() {
            if ObjectClass::from_code(object.class_num()) != ObjectClass::PolicyData {
                continue;
            }
            for element in PolicyData::parse(&object)?.elements {
                match element {
                    PolicyElement::User(attributes) => {
                        evidence.users = names(attributes);
                        evidence.token = token(attributes);
                    }
                    PolicyElement::Application(attributes) => {
                        evidence.applications = names(attributes);
                    }
                    PolicyElement::Preemption(priority) => evidence.priority = Some(priority),
                    PolicyElement::Empty(PolicyElementType::AuthUser) => {
                        evidence.users.clear();
                        evidence.token = None;
                    }
                    PolicyElement::Empty(PolicyElementType::AuthApplication) => {
                        evidence.applications.clear();
                    }
                    PolicyElement::Empty(PolicyElementType::PreemptionPriority) => {
                        evidence.priority = None;
                    }
                    PolicyElement::Empty(_)
                    | PolicyElement::Admission(_)
                    | PolicyElement::Resource(_)
                    | PolicyElement::Unknown(..) => {}
                }
            }
        }
        Ok(evidence)
    }

    /// Returns the name under which reservations are accounted: the user's, or the application's.
    pub(crate) fn account(&self) -> String {
        match &self.verified {
            Some(verified) => verified.name.clone(),
            None => self
                .users
                .first()
                .or(self.applications.first())
                .map_or_else(String::new, |&name| name.into()),
        }
    }
}

/// Returns the first token among some attributes.
fn token<'a>(attributes: List<'a, Attribute<'a>>) -> Option<&'a [u8]> {
    let is_token = |attribute: &Attribute<'_>| {
        attribute.a_type == AttributeType::Credential
            && attribute.sub_type == CredentialForm::WebToken.code()
    };
    attributes.iter().find(is_token).map(|attribute| attribute.value)
}

/// Returns the names among some attributes. Encrypted and non-ASCII names are skipped.
fn names<'a>(attributes: List<'a, Attribute<'a>>) -> Vec<&'a str> {
    attributes
        .iter()
        .filter(|attribute| match attribute.a_type {
            AttributeType::PolicyLocator => attribute.sub_type == LocatorForm::AsciiDn.code(),
            AttributeType::Credential => attribute.sub_type == CredentialForm::AsciiId.code(),
            _ => false,
        })
        .filter_map(|attribute| attribute.ascii())
        .collect()
}
