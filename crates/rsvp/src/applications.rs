//! The applications of this host that have a session open, and what each of them has asked for.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use earmark_wire::rsvp::{Carried, FilterSpec, SenderTemplate, Session};

use crate::api::Application;
use crate::state::key;

/// Applications with an open session. Few on a host, none on most routers, so ordered maps serve.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    pub(crate) open: BTreeMap<Application, Open>,
    by_session: BTreeMap<Session, Vec<Application>>,
    /// POLICY_DATA of those that say who they are.
    identities: BTreeMap<Application, Vec<u8>>,
}

/// What one application has asked for.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) session: Session,
    /// Its sender, if it is one.
    pub(crate) sender: Option<SenderTemplate>,
    /// For whom it has reserved with fixed filters.
    pub(crate) reserved: Vec<FilterSpec>,
}

impl Applications {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Those that have this session open.
    pub(crate) fn of_session(&self, session: &Session) -> impl Iterator<Item = Application> {
        self.by_session.get(&key(*session)).into_iter().flatten().copied()
    }

    /// Whether anybody has this session open.
    pub(crate) fn has_session(&self, session: &Session) -> bool {
        self.by_session.contains_key(&key(*session))
    }

    pub(crate) fn open(&mut self, application: Application, session: Session) {
        self.open.insert(application, Open { session, sender: None, reserved: Vec::new() });
        self.by_session.entry(session).or_default().push(application);
    }

    /// Notes what an application says of itself, as POLICY_DATA.
    pub(crate) fn identify(&mut self, application: Application, policy_data: Vec<u8>) {
        if policy_data.is_empty() {
            self.identities.remove(&application);
        } else {
            self.identities.insert(application, policy_data);
        }
    }

    /// What the messages for an application carry.
    pub(crate) fn carried(&self, application: Application) -> Carried<'_> {
        self.identities.get(&application).map_or(Carried::NONE, |octets| Carried::Objects(octets))
    }

    pub(crate) fn close(&mut self, application: Application) -> Option<Open> {
        self.identities.remove(&application);
        let open = self.open.remove(&application)?;
        if let Some(others) = self.by_session.get_mut(&open.session) {
            others.retain(|&other| other != application);
            if others.is_empty() {
                self.by_session.remove(&open.session);
            }
        }
        Some(open)
    }
}
