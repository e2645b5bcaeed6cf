//! Notify messages (RFC 3473 sections 4.2 and 4.3, RFC 5946 section 3.2): an error is reported directly to the node whose
//! address a NOTIFY_REQUEST in the Path or Resv has, beside the PathErr or ResvErr that goes hop by hop.
//!
//! NOTIFY_REQUEST is stored and forwarded with the other objects of its message. Notifications of one input that go to the
//! same node with the same ERROR_SPEC leave in one message.
//!
//! # Who gets a Notify, and who is believed
//!
//! A Notify travels over many hops, so that signatures between neighbours do not protect it, and a NOTIFY_REQUEST names any
//! address (RFC 3473 section 12). Therefore nothing is sent, asked for or believed by default. If it is enabled:
//!
//! - A Notify is sent to the parties of the flow, which are shown by routes and state: the sender and the previous hop of a
//!   Path; the receiver, the next hop and the senders of a Resv. Any other address must be one of the configured nodes.
//! - The Notify messages to one address are limited in number per second, and their octets do not exceed those of the message
//!   that has failed by more than the reason for the failure.
//! - A Notify is believed only if it comes from one of the configured nodes, and if this node has asked for it in a Path or
//!   Resv of the flow. It changes no state: an application is told, or a receiver proxy tells the sender.
//! - Only a Notify that is believed is acknowledged, so that forged ones have no answers.

mod receive;
mod send;
mod settings;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::throttle::Throttle;
use earmark_wire::rsvp::{ErrorSpec, Object, SenderTemplate, Session};

pub use self::settings::Settings;

/// Limit of Notify messages that are remembered, as received or passed on.
const MAX_REMEMBERED: usize = 256;

/// State of notifications.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    /// Notifications of the current input.
    pending: Vec<Pending>,
    /// Use of the limit per second, by address.
    throttle: Throttle,
    /// The latest received ones: source, epoch and identifier. A copy means that the acknowledgement was lost.
    received: VecDeque<(IpAddr, u32, u32)>,
    /// Failures that senders were told of by a Notify that this node passed on, and until when the ResvErr is expected.
    passed_on: VecDeque<(Session, SenderTemplate, ErrorSpec, Time)>,
}

/// A Notify in the making.
#[derive(Debug)]
struct Pending {
    node: IpAddr,
    error: ErrorSpec,
    /// Octets of the notify session list.
    sessions: Vec<u8>,
}

impl Notifications {
    /// Returns whether notifications wait to be sent.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// Appends a value to those remembered, in place of the oldest.
fn remember<T>(remembered: &mut VecDeque<T>, value: T) {
    if remembered.len() >= MAX_REMEMBERED {
        remembered.pop_front();
    }
    remembered.push_back(value);
}

/// Returns a NOTIFY_REQUEST with this address.
pub(crate) fn notify_request(node: IpAddr) -> Vec<u8> {
    let mut octets = alloc::vec![0; LONGEST_REQUEST];
    let length = Object::NotifyRequest(node).emit(&mut octets).unwrap_or(0);
    octets.truncate(length);
    octets
}

/// Octets of a NOTIFY_REQUEST with an IPv6 address.
const LONGEST_REQUEST: usize = 20;
