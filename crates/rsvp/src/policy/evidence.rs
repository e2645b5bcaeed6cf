//! What a message says of who asks, and how important that is: its POLICY_DATA, read.
//!
//! Nothing of this is proven. A name is as good as the neighbour that passed it on, which is what INTEGRITY is for.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_wire::rsvp::iana::{
    AttributeType, CredentialForm, LocatorForm, ObjectClass, PolicyElementType,
};
use earmark_wire::rsvp::{
    Attribute, Carried, List, ParseError, PolicyData, PolicyElement, PreemptionPriority,
};

/// Who asks, in the words of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence<'a> {
    /// Names of users: POLICY_LOCATOR and CREDENTIAL of AUTH_USER, those in ASCII.
    pub(crate) users: Vec<&'a str>,
    /// Names of applications, likewise from AUTH_APP.
    pub(crate) applications: Vec<&'a str>,
    /// PREEMPTION_PRI.
    pub(crate) priority: Option<PreemptionPriority>,
}

impl<'a> Evidence<'a> {
    /// Reads all POLICY_DATA that a message carries. An element replaces an earlier one of its type, and an empty one
    /// takes it back (RFC 2750 section 3.4).
    pub(crate) fn read(carried: Carried<'a>) -> Result<Evidence<'a>, ParseError> {
        let mut evidence = Evidence::default();
        for object in carried.iter() {
            if ObjectClass::from_code(object.class_num()) != ObjectClass::PolicyData {
                continue;
            }
            for element in PolicyData::parse(&object)?.elements {
                match element {
                    PolicyElement::User(attributes) => evidence.users = names(attributes),
                    PolicyElement::Application(attributes) => {
                        evidence.applications = names(attributes);
                    }
                    PolicyElement::Preemption(priority) => evidence.priority = Some(priority),
                    PolicyElement::Empty(PolicyElementType::AuthUser) => evidence.users.clear(),
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

    /// The name under which what is reserved is counted together: the user's, or the application's.
    pub(crate) fn account(&self) -> String {
        self.users
            .first()
            .or(self.applications.first())
            .map_or_else(String::new, |&name| name.into())
    }
}

/// The names among some attributes. Encrypted ones and those in other than ASCII letters name nobody here.
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
