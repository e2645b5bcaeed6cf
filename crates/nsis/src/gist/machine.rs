//! The state machines of routing state, as tables: what happens in which state, and what follows (RFC 5972).
//!
//! Each half of a routing state ([`crate::gist`]) has one: that of the querying node, which asks who is next, or that of the
//! responding node, which was asked. A row is a transition of RFC 5972 appendix A under its number; where RFC 5971 knows
//! more (section 6: the refresh that fails, the state that is installed only when the Confirm has come), rows are named
//! after its sections. The first row whose state, event and guards fit is taken; an event without a row changes nothing.
//!
//! Names are those of the RFCs without their abbreviations: MRS is routing state, MA an association.

mod tables;

use core::fmt;

pub use self::tables::{QUERYING, RESPONDING};

/// Where a half of a routing state stands.
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
    /// There is nothing.
    #[default]
    Idle,
    /// Querying: the next node is sought.
    WaitResponse,
    /// Querying: it was found, and an association with it is being set up.
    WaitAssociation,
    /// Querying: messages flow.
    EstablishedDownstream,
    /// Responding: a Query was answered, and the Confirm is missing.
    WaitConfirm,
    /// Responding: messages flow.
    EstablishedUpstream,
}

impl State {
    /// Whether this node asked.
    pub const fn is_querying(self) -> bool {
        matches!(self, State::WaitResponse | State::WaitAssociation | State::EstablishedDownstream)
    }

    /// Whether this node was asked.
    pub const fn is_responding(self) -> bool {
        matches!(self, State::WaitConfirm | State::EstablishedUpstream)
    }
}

/// What can happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// An application wants a message sent: tg_SendMsg.
    SendMessage,
    /// A Query has come: rx_Query.
    Query,
    /// A Response with the right cookie has come: rx_Response.
    Response,
    /// A Confirm with the right cookie has come: rx_Confirm.
    Confirm,
    /// Data has come: rx_Data.
    Data,
    /// The association that was wanted stands: tg_MA_Established.
    AssociationEstablished,
    /// The association could not be set up, or has broken: tg_MA_Error.
    AssociationError,
    /// An application says that the next hop is wrong: tg_InvalidRoutingState.
    Invalidate,
    /// An application needs the state no more: tg_SetStateLifetime(0).
    Forget,
    /// No Response came in time: timeout T_No_Response.
    NoResponse,
    /// No Confirm came in time: timeout T_No_Confirm.
    NoConfirm,
    /// It is time to ask again: timeout T_Refresh_QNode.
    Refresh,
    /// It was not used, or not refreshed, for long: timeout T_Inactive_QNode, T_Expire_RNode.
    Expire,
    /// The peer says that it has no routing state: er_NoRSM.
    NoRoutingState,
    /// The end of the path says that it does not take part: Endpoint Found.
    EndpointFound,
    /// The peer speaks no protocol that an association could be made of.
    NoCommonStack,
    /// Something is wrong that nothing else names: tg_ERROR.
    Error,
}

/// What a transition may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fact {
    /// As many Queries were sent as may be: MaxRetry.
    MaxRetry,
    /// What is to be sent, or what was agreed, needs an association: C-mode, MAinfo.
    NeedsAssociation,
    /// There is one that serves: MAexist.
    AssociationExists,
    /// The peer is another one than before: NewPeer.
    NewPeer,
    /// This node wants a Confirm: ConfirmRequired.
    ConfirmRequired,
    /// It keeps nothing until the Confirm has come (RFC 5971 section 6.3, case 3).
    Delayed,
    /// The peer asks for a Confirm although no Query is under way: No_MRS_installed.
    PeerLostState,
    /// It is known who the peer is: UpstreamPeerInfo.
    PeerKnown,
    /// The next hop is known to be wrong.
    Bad,
}

/// Some facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts(u16);

impl Facts {
    /// With another one, if it holds.
    #[must_use]
    pub const fn with(self, fact: Fact, holds: bool) -> Facts {
        Facts(if holds { self.0 | 1 << fact as u8 } else { self.0 })
    }

    /// Whether it is among them.
    pub const fn has(self, fact: Fact) -> bool {
        self.0 >> fact as u8 & 1 != 0
    }
}

/// A condition of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It holds.
    If(Fact),
    /// It does not.
    Unless(Fact),
    /// The first holds without the second, as in C-mode && !MAexist.
    IfWithout(Fact, Fact),
    /// Not so: the first does not hold, or the second does.
    UnlessWithout(Fact, Fact),
    /// One of both holds.
    Either(Fact, Fact),
    /// None of both.
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

/// What is done in a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// tx_Query, and T_No_Response is started.
    SendQuery,
    /// tx_Response, with or without a Responder-Cookie.
    SendResponse,
    /// tx_Confirm, if the Response asked for it.
    SendConfirm,
    /// tx_Data.
    SendData,
    /// tx_Data of what has waited.
    SendQueued,
    /// The error No Routing State is sent.
    RefuseData,
    /// Queue NSLP data.
    Queue,
    /// tg_RecvMsg, if the sender is the peer.
    Deliver,
    /// tg_MessageStatus for all that waits.
    FailQueued,
    /// Install or update the peer, and what the message says of it.
    Install,
    /// Refresh the state: its timers start anew.
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
    /// tg_NetworkNotification: the state is gone.
    TellGone,
    /// tg_NetworkNotification: messages may have been lost.
    TellFailure,
    /// Delete the routing state.
    Delete,
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Its number in RFC 5972, or the section of RFC 5971 that asks for it.
    pub rule: &'static str,
    /// From this state,
    pub from: State,
    /// when this happens
    pub event: Event,
    /// and all of these hold,
    pub guards: &'static [Guard],
    /// these are done in order,
    pub actions: &'static [Action],
    /// and this is the state afterwards.
    pub to: State,
}

/// The rows of a machine, those of one state behind each other.
#[derive(Debug)]
pub struct Table {
    rows: &'static [Transition],
    /// The first row of each state and event; past the end where there is none.
    starts: [[u8; EVENTS]; STATES],
}

/// How many states there are, and how many events.
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

    /// All rows, in order.
    pub const fn rows(&self) -> &'static [Transition] {
        self.rows
    }

    /// The transition that is taken.
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
