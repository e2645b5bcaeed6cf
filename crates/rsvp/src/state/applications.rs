//! Applications of this host with an open session, and their sender and reservations.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use earmark_core::ApplicationId as Application;
use earmark_wire::rsvp::{Carried, FilterSpec, SenderTemplate, Session};

use crate::state::key;

/// Application of receiver proxies. A driver must not assign it, nor those just below it, which are the sender proxies.
pub const PROXY: Application = Application(u64::MAX);

/// Applications of a node's edge, which carries flows in aggregates. Traffic control has no class for their reservations,
/// because each flow has its own.
pub const EDGE: Range<Application> = Application(1 << 63)..Application((1 << 63) + (1 << 33));

/// Applications with an open session. A host has few, most routers have none, so ordered maps are enough.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    pub(crate) open: BTreeMap<Application, Open>,
    by_session: BTreeMap<Session, Vec<Application>>,
    /// POLICY_DATA of applications with an identity.
    identities: BTreeMap<Application, Vec<u8>>,
}

/// State of one application.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) session: Session,
    /// Sender of the application, if any.
    pub(crate) sender: Option<SenderTemplate>,
    /// Senders that the application has fixed-filter reservations for.
    pub(crate) reserved: Vec<FilterSpec>,
    /// Whether the application has requested a confirmation of its last reservation.
    pub(crate) wants_confirmation: bool,
}

impl Applications {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the applications that have this session open.
    pub(crate) fn of_session(&self, session: &Session) -> impl Iterator<Item = Application> {
        self.by_session.get(&key(*session)).into_iter().flatten().copied()
    }

    /// Returns whether any application has this session open.
    pub(crate) fn has_session(&self, session: &Session) -> bool {
        self.by_session.contains_key(&key(*session))
    }

    pub(crate) fn open(&mut self, application: Application, session: Session) {
        let open = Open { session, sender: None, reserved: Vec::new(), wants_confirmation: false };
        self.open.insert(application, open);
        self.by_session.entry(session).or_default().push(application);
    }

    /// Stores the identity of an application as POLICY_DATA; empty data removes it.
    pub(crate) fn identify(&mut self, application: Application, policy_data: Vec<u8>) {
        if policy_data.is_empty() {
            self.identities.remove(&application);
        } else {
            self.identities.insert(application, policy_data);
        }
    }

    /// Returns the objects that messages for an application carry.
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
