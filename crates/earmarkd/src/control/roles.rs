//! Roles of the users of the control socket: who may change something, and who may only look.

use std::fmt;

use earmark_control::{Problem, ProblemCode, Request};
use earmark_linux::PeerCredentials;

use super::listener::{ListenerError, group_number};
use crate::config::Control;
use crate::user;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Send every request.
    Operator,
    /// List and watch.
    Reader,
}

/// Groups of operators and readers.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    operators: Option<Group>,
    /// Without a group of readers, the permissions of the socket's file decide, and every client is an operator.
    readers: Option<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    name: String,
    number: u32,
}

impl Roles {
    /// Looks up the groups of the settings.
    ///
    /// # Errors
    /// A group does not exist.
    pub fn of(control: &Control) -> Result<Roles, ListenerError> {
        let group = |name: &String| {
            let number = group_number(name)?.as_raw();
            Ok(Group { name: name.clone(), number })
        };
        Ok(Roles {
            operators: control.group.as_ref().map(group).transpose()?,
            readers: control.readers.as_ref().map(group).transpose()?,
        })
    }

    /// Returns the role of a client.
    ///
    /// # Errors
    /// The client is in none of the groups.
    pub(crate) fn role(&self, peer: &PeerCredentials) -> Result<Role, Problem> {
        let is_in = |group: &Option<Group>| {
            group.as_ref().is_some_and(|group| peer.groups.contains(&group.number))
        };
        let Some(readers) = &self.readers else { return Ok(Role::Operator) };
        if is_privileged(peer.uid) || is_in(&self.operators) {
            return Ok(Role::Operator);
        }
        if is_in(&self.readers) {
            return Ok(Role::Reader);
        }
        let operators = self.operators.as_ref().map_or("root", |group| group.name.as_str());
        Err(Problem::new(
            ProblemCode::Forbidden,
            format!("{} may not use the control socket", UserText(peer.uid)),
            format!("group {:?} may list and watch, {operators:?} everything", readers.name),
        ))
    }

    /// Checks that a client with this role may send a request.
    ///
    /// # Errors
    /// The request changes something, and the client is only a reader.
    pub(super) fn check(
        &self,
        role: Role,
        peer: &PeerCredentials,
        request: &Request,
    ) -> Result<(), Problem> {
        if role == Role::Operator || !changes(request) {
            return Ok(());
        }
        let (needed, hint) = match &self.operators {
            Some(group) => (
                format!("group {:?}", group.name),
                format!("add the user to group {:?} (control.group), or ask root", group.name),
            ),
            None => ("root".to_owned(), "control.group names a group of operators".to_owned()),
        };
        Err(Problem::new(
            ProblemCode::Forbidden,
            format!("{} may only list and watch; this request needs {needed}", UserText(peer.uid)),
            hint,
        ))
    }
}

/// Returns whether a user may use every place for clients: root and the daemon's own user.
pub(super) fn is_privileged(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Returns whether a request changes state of the daemon or sends messages.
pub(super) fn changes(request: &Request) -> bool {
    match request {
        Request::Show(_) | Request::Watch(_) | Request::Path(_) | Request::Version(_) => false,
        Request::Log(request) => request.changes(),
        Request::Reserve(_)
        | Request::Listen(_)
        | Request::Ping(_)
        | Request::Open(_)
        | Request::Expose(_)
        | Request::Statistics(_)
        | Request::Keep(_)
        | Request::Change(_)
        // Files of the configuration may be for operators only, so that a comparison is, too.
        | Request::Config(_)
        | Request::Release(_)
        | Request::Trace(_) => true,
    }
}

/// A user in an error, by name and number.
pub(super) struct UserText(pub(super) u32);

impl fmt::Display for UserText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uid = self.0;
        match user::name_of(uid) {
            Some(name) => write!(f, "user {name} (uid {uid})"),
            None => write!(f, "user {uid}"),
        }
    }
}
