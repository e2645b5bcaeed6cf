//! State machines of routing state, as tables (RFC 5972).
//!
//! Each half of a routing state ([`crate::gist`]) has one: that of the querying node, or that of the responding node. A
//! row is a transition of RFC 5972 appendix A, with its number. Where RFC 5971 has more (section 6: the failing
//! refresh, state that is installed only with the Confirm), rows are named after its sections. The first row whose
//! state, event and guards match is taken; an event without a row changes nothing.
//!
//! Names are those of the RFCs without their abbreviations: MRS is routing state, MA an association.

mod tables;

use core::fmt;

pub use self::tables::{QUERYING, RESPONDING};

/// State of a half of a routing state.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No state.
    #[default]
    Idle,
    /// Querying: a Query was sent, the peer is unknown.
    WaitResponse,
    /// Querying: the peer is known, and an association with it is being set up.
    WaitAssociation,
    /// Querying: the peer is known, messages can be sent.
    EstablishedDownstream,
    /// Responding: a Query was answered, and the Confirm is pending.
    WaitConfirm,
    /// Responding: the peer is known, messages can be sent.
    EstablishedUpstream,
}

impl State {
    /// Returns whether this node has sent the Query.
    pub const fn is_querying(self) -> bool {
        matches!(self, State::WaitResponse | State::WaitAssociation | State::EstablishedDownstream)
    }

    /// Returns whether this node has received the Query.
    pub const fn is_responding(self) -> bool {
        matches!(self, State::WaitConfirm | State::EstablishedUpstream)
    }
}

/// Events of the state machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// An application sends a message: tg_SendMsg.
    SendMessage,
    /// A Query was received: rx_Query.
    Query,
    /// A Response with the right cookie was received: rx_Response.
    Response,
    /// A Confirm with the right cookie was received: rx_Confirm.
    Confirm,
    /// Data was received: rx_Data.
    Data,
    /// The requested association is established: tg_MA_Established.
    AssociationEstablished,
    /// The association could not be set up, or was closed: tg_MA_Error.
    AssociationError,
    /// An application reports that the next hop is wrong: tg_InvalidRoutingState.
    Invalidate,
    /// An application has released the state: tg_SetStateLifetime(0).
    Forget,
    /// No Response in time: timeout T_No_Response.
    NoResponse,
    /// No Confirm in time: timeout T_No_Confirm.
    NoConfirm,
    /// A refresh is due: timeout T_Refresh_QNode, or the flow takes another hop.
    Refresh,
    /// No use or no refresh in time: timeout T_Inactive_QNode, T_Expire_RNode.
    Expire,
    /// The peer has no routing state: er_NoRSM.
    NoRoutingState,
    /// The end of the path does not take part: Endpoint Found.
    EndpointFound,
    /// The peer supports no common protocol for an association.
    NoCommonStack,
    /// Any other error: tg_ERROR.
    Error,
}

/// Conditions that transitions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fact {
    /// The limit of Queries is reached: MaxRetry.
    MaxRetry,
    /// The message, or the agreement with the peer, needs an association: C-mode, MAinfo.
    NeedsAssociation,
    /// An association that serves the needs exists: MAexist.
    AssociationExists,
    /// The peer has changed: NewPeer.
    NewPeer,
    /// This node requests a Confirm: ConfirmRequired.
    ConfirmRequired,
    /// This node keeps no state before the Confirm (RFC 5971 section 6.3, case 3).
    Delayed,
    /// The peer requests a Confirm although no Query is pending: No_MRS_installed.
    PeerLostState,
    /// The peer is known: UpstreamPeerInfo.
    PeerKnown,
    /// The next hop is known to be wrong.
    Bad,
    /// The handshake before this one has failed, too: the peer refused it, or closed the association.
    Refused,
}

/// A set of facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts(u16);

impl Facts {
    /// Adds a fact, if it holds.
    #[must_use]
    pub const fn with(self, fact: Fact, holds: bool) -> Facts {
        Facts(if holds { self.0 | 1 << fact as u8 } else { self.0 })
    }

    /// Returns whether the set has a fact.
    pub const fn has(self, fact: Fact) -> bool {
        self.0 >> fact as u8 & 1 != 0
    }
}

/// A condition of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The fact holds.
    If(Fact),
    /// The fact does not hold.
    Unless(Fact),
    /// The first holds without the second, as in C-mode && !MAexist.
    IfWithout(Fact, Fact),
    /// The first does not hold, or the second does.
    UnlessWithout(Fact, Fact),
    /// At least one of both holds.
    Either(Fact, Fact),
    /// Neither holds.
    Neither(Fact, Fact),
}

impl Guard {
    const fn holds(self, facts: Facts) -> bool {
        match self {
            Guard::If(fact) => facts.has(fact),
            Guard::Unless(fact) => !facts.has(fact),
            Guard::IfWithout(fact, other) => facts.has(fact) && !facts.has(other),
            Guard::UnlessWithout(fact, other) => !facts.has(fact) || facts.has(other),
            Guard::Either(fact, other) => facts.has(fact) || facts.has(other),
            Guard::Neither(fact, other) => !facts.has(fact) && !facts.has(other),
        }
    }
}

/// Actions of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// tx_Query, and start T_No_Response.
    SendQuery,
    /// Start T_No_Response without a Query; the longer, the more handshakes in succession have failed.
    DelayQuery,
    /// tx_Response, with or without a Responder-Cookie.
    SendResponse,
    /// tx_Confirm, if the Response asked for it.
    SendConfirm,
    /// tx_Data.
    SendData,
    /// tx_Data of the queued messages.
    SendQueued,
    /// Send the error No Routing State.
    RefuseData,
    /// Queue NSLP data.
    Queue,
    /// tg_RecvMsg, if the sender is the peer.
    Deliver,
    /// tg_MessageStatus for all queued messages, before other notifications.
    FailQueued,
    /// Install or update the peer, and the values in its message.
    Install,
    /// Refresh the state: restart its timers.
    Refresh,
    /// Restart T_Inactive_QNode or T_Expire_RNode.
    RestartExpire,
    /// Start T_No_Confirm.
    StartNoConfirm,
    /// tg_Establish_MA.
    Connect,
    /// Delete UpstreamPeerInfo.
    ForgetPeer,
    /// Stop using a shared association.
    Release,
    /// tg_NetworkNotification: this is the last node.
    TellLastNode,
    /// tg_NetworkNotification: the state is bad, because it is removed or its peer is forgotten.
    TellGone,
    /// tg_NetworkNotification: messages may have been lost.
    TellFailure,
    /// Delete the routing state, which leaves its association and refuses what is still queued.
    Delete,
}

/// A row of a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Number in RFC 5972, or section of RFC 5971.
    pub rule: &'static str,
    /// State before.
    pub from: State,
    /// Event.
    pub event: Event,
    /// Conditions, all of which must hold.
    pub guards: &'static [Guard],
    /// Actions, in order.
    pub actions: &'static [Action],
    /// State afterwards.
    pub to: State,
}

/// The rows of a state machine, grouped by state.
#[derive(Debug)]
pub struct Table {
    rows: &'static [Transition],
    /// First row of each state and event; past the end if there is none.
    starts: [[u8; EVENTS]; STATES],
}

/// Numbers of states and of events.
const STATES: usize = State::EstablishedUpstream as usize + 1;
const EVENTS: usize = Event::Error as usize + 1;

impl Table {
    const fn new(rows: &'static [Transition]) -> Table {
        let mut starts = [[u8::MAX; EVENTS]; STATES];
        let mut row = rows.len();
        while row > 0 {
            row -= 1;
            starts[rows[row].from as usize][rows[row].event as usize] = row as u8;
        }
        Table { rows, starts }
    }

    /// Returns all rows, in order.
    pub const fn rows(&self) -> &'static [Transition] {
        self.rows
    }

    /// Returns the transition for an event.
    #[inline]
    pub fn transition(
        &self,
        from: State,
        event: Event,
        facts: Facts,
    ) -> Option<&'static Transition> {
        let start = usize::from(self.starts[from as usize][event as usize]);
        for row in self.rows.get(start..)? {
            if row.from != from {
                break;
            }
            if row.event == event && row.guards.iter().all(|guard| guard.holds(facts)) {
                return Some(row);
            }
        }
        None
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12} {:?}", self.rule, self.event)?;
        for guard in self.guards {
            match guard {
                Guard::If(fact) => write!(f, ", {fact:?}")?,
                Guard::Unless(fact) => write!(f, ", not {fact:?}")?,
                Guard::IfWithout(fact, other) => write!(f, ", {fact:?} and not {other:?}")?,
                Guard::UnlessWithout(fact, other) => write!(f, ", not {fact:?} or {other:?}")?,
                Guard::Either(fact, other) => write!(f, ", {fact:?} or {other:?}")?,
                Guard::Neither(fact, other) => write!(f, ", neither {fact:?} nor {other:?}")?,
            }
        }
        write!(f, " -> {:?}", self.to)?;
        self.actions.iter().try_for_each(|action| write!(f, "\n{:<15} {action:?}", ""))
    }
}
