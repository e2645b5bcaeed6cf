//! How an event is logged.

use std::net::IpAddr;

use crate::log::kind::Kind;

/// Fields of the line about an event, beside protocol and interface.
#[derive(Debug, Default)]
pub struct LogFields {
    /// Flow that the event is about.
    pub(crate) flow: Option<String>,
    /// Neighbor, or source of the message.
    pub(crate) peer: Option<IpAddr>,
}

impl LogFields {
    /// Fields of an event about a flow.
    pub(crate) fn flow(flow: String) -> LogFields {
        LogFields { flow: Some(flow), ..LogFields::default() }
    }

    /// Fields of an event about another node.
    pub(crate) fn peer(address: IpAddr) -> LogFields {
        LogFields { peer: Some(address), ..LogFields::default() }
    }
}

/// Kind of the line about an event.
pub type LogKind = &'static Kind;
