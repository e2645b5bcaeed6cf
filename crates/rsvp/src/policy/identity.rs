//! Identity of applications of this host, for their messages.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_token::Token;
use earmark_wire::rsvp::iana::{AttributeType, CredentialForm, LocatorForm, MergeStrategy};
use earmark_wire::rsvp::{Attribute, List, PolicyData, PolicyElement, PreemptionPriority};
use serde::{Deserialize, Serialize};

/// User, application and priority of a request. All fields are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// User, as a distinguished name (`CN=Alice, O=Example`) or as a plain one (`alice@example.org`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Application, in the syntax of RFC 2872: `GUID=http://example.org, APP=voice, VER=1.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Preemption and defending priority (RFC 3181).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Token that proves the name of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

/// A name that cannot be encoded in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name of a user or application is 1 to 512 printable ASCII letters")]
pub struct BadName;

/// Maximum length of a name, octets.
const LONGEST_NAME: usize = 512;

impl Identity {
    /// Returns whether all fields are missing.
    pub fn is_empty(&self) -> bool {
        *self == Identity::default()
    }

    /// Returns the POLICY_DATA objects; empty if the identity is empty.
    ///
    /// # Errors
    ///
    /// A name is empty, too long, or contains characters other than printable ASCII.
    pub fn policy_data(&self) -> Result<Vec<u8>, BadName> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let user = self.user.as_deref().map(attribute).transpose()?;
        let application = self.application.as_deref().map(attribute).transpose()?;
        let token = self.token.as_ref().map(|token| Attribute {
            a_type: AttributeType::Credential,
            sub_type: CredentialForm::WebToken.code(),
            value: token.octets(),
        });
        let of_user: Vec<Attribute<'_>> = user.into_iter().chain(token).collect();
        let mut elements = Vec::new();
        if !of_user.is_empty() {
            elements.push(PolicyElement::User(List::Items(&of_user)));
        }
        elements.extend(application.as_ref().map(|name| PolicyElement::Application(one(name))));
        elements.extend(self.priority.map(|level| {
            PolicyElement::Preemption(PreemptionPriority {
                merge_strategy: MergeStrategy::HighestQos.code(),
                error: 0,
                preemption: level,
                defending: level,
            })
        }));
        let data = PolicyData { options: List::Items(&[]), elements: List::Items(&elements) };
        let mut octets = alloc::vec![0; data.buffer_len()];
        data.emit(&mut octets).map_err(|_| BadName)?;
        Ok(octets)
    }
}

/// Returns the attribute for a name: POLICY_LOCATOR for a distinguished name, CREDENTIAL for a plain one (RFC 3182
/// section 3.3).
fn attribute(name: &str) -> Result<Attribute<'_>, BadName> {
    let printable = name.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic());
    if name.is_empty() || name.len() > LONGEST_NAME || !printable {
        return Err(BadName);
    }
    let (a_type, sub_type) = if name.contains('=') {
        (AttributeType::PolicyLocator, LocatorForm::AsciiDn.code())
    } else {
        (AttributeType::Credential, CredentialForm::AsciiId.code())
    };
    Ok(Attribute { a_type, sub_type, value: name.as_bytes() })
}

fn one<'a>(attribute: &'a Attribute<'a>) -> List<'a, Attribute<'a>> {
    List::Items(core::slice::from_ref(attribute))
}

#[cfg(test)]
mod tests {
    use earmark_wire::rsvp::Carried;

    use super::super::evidence::Evidence;
    use super::*;

    /// Rules read the names that were written.
    #[test]
    fn identity_round_trips_through_policy_data() {
        let token: Option<Token> = "0123456789".parse().ok();
        for (user, application, priority, token) in [
            (Some("CN=Alice, O=Example"), None, None, None),
            (Some("alice@example.org"), Some("APP=voice, VER=1"), Some(7), token.clone()),
            (None, None, Some(u16::MAX), None),
            (None, None, None, token),
        ] {
            let identity = Identity {
                user: user.map(String::from),
                application: application.map(String::from),
                priority,
                token: token.clone(),
            };
            let octets = identity.policy_data().expect("good names");
            let read = Evidence::read(Carried::Objects(&octets)).expect("it can be read");
            assert_eq!(read.users.first().copied(), user);
            assert_eq!(read.token, token.as_ref().map(Token::octets));
            assert_eq!(read.applications.first().copied(), application);
            assert_eq!(read.priority.map(|stated| (stated.preemption, stated.defending)), {
                priority.map(|level| (level, level))
            });
        }
        assert_eq!(Identity::default().policy_data(), Ok(Vec::new()));
    }

    #[test]
    fn invalid_names_are_rejected() {
        for name in ["", "Älice", "a\nb", &"x".repeat(513)] {
            let user = Identity { user: Some(name.into()), ..Identity::default() };
            assert_eq!(user.policy_data(), Err(BadName), "{name:?}");
            let application = Identity { application: Some(name.into()), ..Identity::default() };
            assert_eq!(application.policy_data(), Err(BadName), "{name:?}");
        }
    }
}
