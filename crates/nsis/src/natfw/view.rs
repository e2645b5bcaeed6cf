//! Views of the sessions, for listings and tests.

use core::net::IpAddr;

use earmark_core::{Endpoint, FilterAction, FilterRule, Time};
use earmark_wire::gist::SessionId;
use serde::Serialize;

use super::api::Application;
use super::flow::{asking_end, receiver_port};
use super::instance::NatfwNslp;
use super::state::{Flags, Kind, Role, Session, Stage};

earmark_core::named_enum! {
    /// Role of a node in a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum RoleView {
        /// NI.
        Initiator = "initiator",
        /// NI for a host without NSIS.
        Proxy = "proxy",
        /// NF.
        Forwarder = "forwarder",
        /// NR.
        Responder = "responder",
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// Identifier.
    pub session: SessionId,
    /// Message that creates and refreshes it: CREATE or EXTERNAL.
    pub message: &'static str,
    /// Role of this node.
    pub role: RoleView,
    /// pending, established or transitory.
    pub stage: &'static str,
    /// Application of this node that asks.
    pub application: Option<Application>,
    /// User that the session counts for, if its name is proven.
    pub user: Option<alloc::string::String>,
    /// End without a refresh; `None` for a session of this node.
    pub expires_at: Option<Time>,
    /// Whether the rules of the session are in the packet filter.
    pub is_installed: bool,
}

/// A rule of a session in the packet filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PinholeView {
    /// The session.
    pub session: SessionView,
    /// The rule.
    pub rule: FilterRule,
}

/// An address and port that a session has reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TranslationView {
    /// The session.
    pub session: SessionView,
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// Internal address and port.
    pub internal: Endpoint,
    /// External address and port.
    pub external: Endpoint,
    /// Whether data may come in, or is blocked.
    pub action: FilterAction,
    /// Data sender; `None` for any.
    pub from: Option<IpAddr>,
}

impl Session {
    fn view(&self) -> SessionView {
        let role = match self.role {
            Role::Initiator(_) => RoleView::Initiator,
            Role::Proxy(_) => RoleView::Proxy,
            Role::Forwarder => RoleView::Forwarder,
            Role::Responder => RoleView::Responder,
        };
        let application = match self.role {
            Role::Initiator(application) => Some(application),
            _ => None,
        };
        let verified = self.extra.as_ref().and_then(|extra| extra.verified.as_ref());
        SessionView {
            session: self.id,
            message: match self.kind {
                Kind::Create => "CREATE",
                Kind::External => "EXTERNAL",
            },
            role,
            stage: match self.stage {
                Stage::Pending => "pending",
                Stage::Established => "established",
                Stage::Transitory => "transitory",
            },
            application,
            user: verified.map(|verified| verified.name.clone()),
            expires_at: (self.expires_at != Time::MAX).then_some(self.expires_at),
            is_installed: self.flags.has(Flags::INSTALLED),
        }
    }
}

impl NatfwNslp {
    /// Returns all sessions, in slab order.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.store.sessions.iter().map(|(_, session)| session.view())
    }

    /// Returns the session of an application.
    pub fn session_of_application(&self, application: Application) -> Option<SessionId> {
        let index = self.store.applications.get(&application)?;
        Some(self.store.session(*index).id)
    }

    /// Returns the number of slots of the table of sessions, empty ones included. A session stays in its slot.
    pub fn session_slots(&self) -> u32 {
        self.store.sessions.capacity() as u32
    }

    /// Returns the rules of all sessions at this node, installed or remembered.
    pub fn pinholes(&self) -> impl Iterator<Item = PinholeView> + '_ {
        (0..self.session_slots()).flat_map(|slot| self.pinholes_at(slot))
    }

    /// Returns the rules of the session in a slot.
    pub fn pinholes_at(&self, slot: u32) -> impl Iterator<Item = PinholeView> + '_ {
        let session = self.store.sessions.get(slot as usize);
        session.into_iter().flat_map(|session| {
            session.rules().map(|rule| PinholeView { session: session.view(), rule })
        })
    }

    /// Returns the addresses and ports that are reserved at this node by EXTERNAL, in slab order.
    pub fn translations(&self) -> impl Iterator<Item = TranslationView> + '_ {
        (0..self.session_slots()).filter_map(|slot| self.translation_at(slot))
    }

    /// Returns the address and port that the session in a slot has reserved.
    pub fn translation_at(&self, slot: u32) -> Option<TranslationView> {
        let session = self.store.sessions.get(slot as usize)?;
        let extra = session.extra.as_ref()?;
        let terminal = extra.terminal.filter(|_| session.kind == Kind::External)?;
        let address = asking_end(Kind::External, &session.near);
        let internal = Endpoint { address, port: receiver_port(&terminal) };
        let external = match session.binding {
            Some(binding) => self.bindings.get(binding).external,
            None => extra.external.unwrap_or(internal),
        };
        Some(TranslationView {
            session: session.view(),
            protocol: terminal.transport.protocol().unwrap_or(0),
            internal,
            external,
            action: session.action(),
            from: (terminal.sender_prefix != 0).then(|| terminal.sender.into()),
        })
    }
}
