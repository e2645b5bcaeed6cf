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
                    | PolicyElement::ReceiverProxy(_)
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

#[cfg(test)]
mod tests {
    use earmark_wire::rsvp::AdmissionPriority;

    use super::*;

    /// Plain names in ASCII are read, whatever else an element holds; encrypted names, Unicode, tickets, certificates and
    /// signatures are not (RFC 3182 sections 3.3.1 to 3.3.3). Of several elements of a type the last one counts (RFC 2750
    /// section 3.4).
    #[test]
    fn only_plain_names_are_read() {
        use AttributeType::{Credential, DigitalSignature, PolicyLocator};
        let attribute =
            |a_type, sub_type, value: &'static [u8]| Attribute { a_type, sub_type, value };
        let first = [attribute(PolicyLocator, LocatorForm::AsciiDn.code(), b"CN=Mallory")];
        let all = [
            attribute(PolicyLocator, 2, b"\0C\0N"),
            attribute(PolicyLocator, 3, b"CN=Secret"),
            attribute(PolicyLocator, 4, b"CN=Secret"),
            attribute(PolicyLocator, LocatorForm::AsciiDn.code(), b"CN=Alice"),
            attribute(Credential, 2, b"\0a"),
            attribute(Credential, 3, b"ticket"),
            attribute(Credential, 4, b"certificate"),
            attribute(Credential, 5, b"certificate"),
            attribute(Credential, CredentialForm::AsciiId.code(), b"alice\0\0"),
            attribute(DigitalSignature, 0, b"signature"),
        ];
        let elements = [
            PolicyElement::User(List::Items(&first)),
            PolicyElement::Application(List::Items(&first)),
            PolicyElement::User(List::Items(&all)),
            PolicyElement::Empty(PolicyElementType::AuthApplication),
        ];
        let data = PolicyData { options: List::Items(&[]), elements: List::Items(&elements) };
        let mut octets = alloc::vec![0; data.buffer_len()];
        data.emit(&mut octets).expect("it can be written");
        let evidence = Evidence::read(Carried::Objects(&octets)).expect("it can be read");
        assert_eq!(evidence.users, ["CN=Alice", "alice"]);
        assert_eq!((evidence.applications.len(), evidence.token), (0, None));
        assert_eq!(evidence.account(), "CN=Alice");
    }

    /// RFC 6401 section 5.1: ADMISSION_PRI does not say that a flow preempts others.
    #[test]
    fn admission_priority_is_no_preemption_priority() {
        let admission = AdmissionPriority { merge_strategy: 1, error: 0, priority: 255 };
        let preemption =
            PreemptionPriority { merge_strategy: 1, error: 0, preemption: 3, defending: 4 };
        for (elements, expected) in [
            (&[PolicyElement::Admission(admission)][..], None),
            (
                &[PolicyElement::Preemption(preemption), PolicyElement::Admission(admission)],
                Some(preemption),
            ),
        ] {
            let data = PolicyData { options: List::Items(&[]), elements: List::Items(elements) };
            let mut octets = alloc::vec![0; data.buffer_len()];
            data.emit(&mut octets).expect("it can be written");
            let evidence = Evidence::read(Carried::Objects(&octets)).expect("it can be read");
            assert_eq!(evidence.priority, expected);
        }
    }
}
