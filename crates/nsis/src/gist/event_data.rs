//! Data of the events of the state machines.

use earmark_core::Hop;
use earmark_wire::gist::{Confirm, Data, Query, Response};

use super::handshake::Handshake;
use super::receipt::Receipt;
use super::state::{Index, Needs};
use crate::nslp::{Origin, SendMessage};

/// The data of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventData<'a> {
    /// No data.
    Nothing,
    /// A message of an application, and the hop of the Query if one is needed first.
    Send { message: &'a SendMessage, data: &'a [u8], needs: Needs, hop: Option<Hop> },
    /// A Query; the peer exists if the state is installed at once.
    Query {
        receipt: &'a Receipt<'a>,
        query: &'a Query<'a>,
        answer: &'a [u8],
        peer: Index,
        confirm: bool,
        /// Association that carries the Response, if any.
        over: Index,
    },
    /// A Response and its sender.
    Response { receipt: &'a Receipt<'a>, response: &'a Response<'a>, peer: Index },
    /// A Confirm and its sender.
    Confirm { receipt: &'a Receipt<'a>, confirm: &'a Confirm<'a>, peer: Index },
    /// The association that the Response needed is established.
    Established { handshake: &'a Handshake },
    /// Received Data; the sender may touch the half, if it has a peer.
    Data { receipt: &'a Receipt<'a>, data: &'a Data<'a>, sender: Origin },
}
