//! State blocks of NATFW NSLP.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::timer::TimerId;
use earmark_core::{Endpoint, FilterAction, InterfaceId, Time};
use earmark_token::Verified;
use earmark_wire::gist::{Mri, PathCoupled, SessionId};
use earmark_wire::natfw_nslp::{DataTerminal, ExtendedFlow, Nonce, ProxyMode, RuleAction};

use super::api::Application;
use super::policy::Counted;
use crate::nslp::{Attributes, PeerHandle};

/// Identifier that stands for all sessions of the sender (RFC 5973 sections 3.7.4 and 3.7.5).
pub(super) const ALL_SESSIONS: SessionId = SessionId([0; SessionId::LEN]);

/// Slot of a block in its slab.
pub(super) type Index = u32;

/// Message that creates and refreshes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// CREATE: opens the path of a flow.
    Create,
    /// EXTERNAL: reserves an address, or blocks data.
    External,
}

/// State of a session (RFC 5973 section 3.2.8). A dead session is removed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for the RESPONSE.
    Pending,
    /// The RESPONSE has granted it.
    Established,
    /// A NOTIFY about a changed route has arrived; the session ends if nothing refreshes it.
    Transitory,
}

/// Role of this node in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// NI for an application.
    Initiator(Application),
    /// NI for a host without NSIS: the CREATE of an edge that belongs to this EXTERNAL session (section 3.7.6.1).
    Proxy(Index),
    /// NF.
    Forwarder,
    /// NR, or an edge that answers in its place.
    Responder,
}

/// Flags of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    /// Data of the session passes this node, which therefore has rules for it.
    pub(super) const PASSES: u8 = 1 << 0;
    /// The rules are in the packet filter.
    pub(super) const INSTALLED: u8 = 1 << 1;
    /// A request arrived over a secured channel: nothing in the clear touches the session any more.
    pub(super) const SECURED: u8 = 1 << 2;
    /// The last request arrived over an association.
    pub(super) const OVER_ASSOCIATION: u8 = 1 << 3;
    /// This node has answered, and sends the request on as well (section 3.7.6.3): the answers to it change nothing.
    pub(super) const PROBED: u8 = 1 << 4;

    pub(super) fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, on: bool) {
        self.0 = if on { self.0 | flag } else { self.0 & !flag };
    }

    pub(super) fn with(mut self, flag: u8, on: bool) -> Flags {
        self.set(flag, on);
        self
    }
}

/// One request at one node.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    pub(super) role: Role,
    pub(super) flags: Flags,
    pub(super) attributes: Attributes,
    /// Action, and whether the rule also applies to the next port.
    pub(super) extended_flow: ExtendedFlow,
    /// Routing of requests, as the side of the initiator knows the flow.
    pub(super) near: Mri,
    /// Routing of requests, as the side of the responder knows the flow.
    pub(super) far: Mri,
    /// Peer towards the initiator; `None` if this node is the initiator.
    pub(super) back: Option<PeerHandle>,
    /// Peer towards the responder; `None` if it is unknown, or if this is the last node.
    pub(super) on: Option<PeerHandle>,
    /// Interface that leads to `back`; counts for nothing if this node is the initiator.
    pub(super) arrival: InterfaceId,
    /// Sequence number of the last request.
    pub(super) msn: u32,
    /// Lifetime that this node accepts, or has granted; seconds.
    pub(super) lifetime: u32,
    /// End of the session without a refresh.
    pub(super) expires_at: Time,
    /// When this node, the initiator, sends the request again; [`Time::MAX`] otherwise.
    pub(super) next_at: Time,
    pub(super) timer: Option<TimerId>,
    /// Policy rule that counts the session.
    pub(super) counted: Counted,
    /// Binding of the translator.
    pub(super) binding: Option<Index>,
    /// Fields that few sessions need.
    pub(super) extra: Option<Box<Extra>>,
}

/// Fields that few sessions need.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// Data sender and transport of an EXTERNAL, as the side of the initiator knows them.
    pub(super) terminal: Option<DataTerminal>,
    /// Proxy mode of the request.
    pub(super) proxy: ProxyMode,
    pub(super) nonce: Option<Nonce>,
    pub(super) icmp_types: Vec<u8>,
    /// SESSION_AUTH of a request of this node, in wire format.
    pub(super) auth: Vec<u8>,
    /// User whose token proves the name.
    pub(super) verified: Option<Box<Verified>>,
    /// User that the session counts for.
    pub(super) user: Option<User>,
    /// EXTERNAL session of this node, the responder, that admits the data of this CREATE.
    pub(super) reservation: Option<SessionId>,
    /// CREATE of this edge that belongs to this EXTERNAL.
    pub(super) secondary: Option<Index>,
    /// Number of times that the last request of this node was sent.
    pub(super) sent: u32,
    /// Whether a RESPONSE has ever granted the request of this node.
    pub(super) was_granted: bool,
    /// Until when the last RESPONSE has granted the request of this node.
    pub(super) granted_until: Time,
    /// Address and port at the edge.
    pub(super) external: Option<Endpoint>,
}

/// User of a quota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum User {
    /// A proven name.
    Name(String),
    /// The host that asks.
    Host(IpAddr),
}

impl Session {
    /// Returns whether this node asks for the session.
    pub(super) fn is_initiator(&self) -> bool {
        matches!(self.role, Role::Initiator(_) | Role::Proxy(_))
    }

    /// Returns the flow of a CREATE, as the side of the initiator knows it.
    pub(super) fn near_flow(&self) -> Option<&PathCoupled> {
        path_coupled(&self.near)
    }

    /// Returns the flow of a CREATE, as the side of the responder knows it.
    pub(super) fn far_flow(&self) -> Option<&PathCoupled> {
        path_coupled(&self.far)
    }

    /// Returns what happens to the data of the session.
    pub(super) fn action(&self) -> FilterAction {
        match self.extended_flow.action {
            RuleAction::Allow => FilterAction::Allow,
            RuleAction::Deny => FilterAction::Deny,
        }
    }

    pub(super) fn icmp_types(&self) -> &[u8] {
        self.extra.as_ref().map_or(&[], |extra| &extra.icmp_types)
    }

    pub(super) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Returns the earliest of the times for its timer.
    pub(super) fn due(&self) -> Time {
        self.expires_at.min(self.next_at)
    }
}

/// Returns the flow of a path-coupled message.
pub(super) fn path_coupled(mri: &Mri) -> Option<&PathCoupled> {
    match mri {
        Mri::PathCoupled(flow) => Some(flow),
        Mri::LooseEnd(_) => None,
    }
}

/// Returns a duration in whole seconds.
pub(super) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// Returns the end of a session after a lifetime in seconds.
pub(super) fn end_after(now: Time, lifetime: u32) -> Time {
    now + Duration::from_secs(lifetime.into())
}
