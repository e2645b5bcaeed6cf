//! Identity of applications of this host, for their messages.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_token::{Token, name_parts};
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
        let application = self.application.as_deref().map(application_attributes).transpose()?;
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
        elements.extend(
            application.as_deref().map(|names| PolicyElement::Application(List::Items(names))),
        );
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

/// Returns the attributes of an application: its name, and behind a distinguished name the APP of that as CREDENTIAL (RFC
/// 2872 section 2).
fn application_attributes(name: &str) -> Result<Vec<Attribute<'_>>, BadName> {
    let first = attribute(name)?;
    let is_distinguished = first.a_type == AttributeType::PolicyLocator;
    let app =
        name_parts(name).find(|(key, value)| key.eq_ignore_ascii_case("APP") && !value.is_empty());
    let credential = app.filter(|_| is_distinguished).map(|(_, value)| Attribute {
        a_type: AttributeType::Credential,
        sub_type: CredentialForm::AsciiId.code(),
        value: value.as_bytes(),
    });
    Ok([first].into_iter().chain(credential).collect())
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

    /// RFC 2872 section 2: a POLICY_LOCATOR with the distinguished name, then a CREDENTIAL with the name of the application.
    #[test]
    fn application_has_locator_and_credential() {
        for (name, expected) in [
            ("GUID=http://example.org, APP=voice, VER=1.2", &["", "voice"][..]),
            ("app=\"a, b\"", &["", "a, b"]),
            ("VER=1, APP=", &[""]),
            ("vic.exe", &[""]),
        ] {
            let identity = Identity { application: Some(name.into()), ..Identity::default() };
            let octets = identity.policy_data().expect("a good name");
            let read = Evidence::read(Carried::Objects(&octets)).expect("it can be read");
            let expected: Vec<&str> =
                expected.iter().map(|text| if text.is_empty() { name } else { *text }).collect();
            assert_eq!(read.applications, expected);
        }
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
