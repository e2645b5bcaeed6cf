//! Refresh reduction (RFC 2961) of a light host: numbers its messages, acknowledges those of its neighbor, and sends
//! summary refreshes for acknowledged messages.
//!
//! The host has one neighbor and one message a session, so the number of the session is the Message_Identifier. An
//! unacknowledged message is covered by its ordinary refreshes.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Neighbor, Time};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, List, Message, MessageId, RefreshIds, RefreshList,
    Srefresh,
};

use super::session::write;

/// Epoch of this host.
const EPOCH: u32 = 1;
/// Largest number of identifiers in a summary, which is then shorter than 1 500 octets.
const NUMBERS: usize = 300;
/// Largest number of acknowledgements in an Ack, which is then shorter than 1 500 octets.
const ACKNOWLEDGEMENTS: usize = 100;

/// Refresh-reduction objects of a received message.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReductionObject {
    /// The neighbor requests an acknowledgement.
    AcknowledgeTo(Neighbor, Acknowledgement),
    /// The neighbor acknowledges the message of a session, or NACKs it as unknown.
    Session(AcknowledgementKind, u32),
}

/// Returns the refresh-reduction objects of a message that `hop` sent.
pub(super) fn reduction_objects<'m>(
    message: &'m Message<'_>,
    hop: Neighbor,
) -> impl Iterator<Item = ReductionObject> + 'm {
    let wanted = message.message_id.filter(|id| id.flags & MessageId::ACK_DESIRED != 0);
    let acknowledgement = wanted.map(|MessageId { epoch, id, .. }| {
        let kind = AcknowledgementKind::Ack;
        ReductionObject::AcknowledgeTo(hop, Acknowledgement { kind, epoch, id })
    });
    let acknowledged =
        message.acknowledgements.iter().filter(|acknowledged| acknowledged.epoch == EPOCH);
    acknowledgement.into_iter().chain(
        acknowledged
            .map(|acknowledged| ReductionObject::Session(acknowledged.kind, acknowledged.id)),
    )
}

/// Returns the MESSAGE_ID of a session's message.
pub(super) fn number(session: u32) -> MessageId {
    MessageId { flags: MessageId::ACK_DESIRED, epoch: EPOCH, id: session }
}

/// State of refresh reduction with the one neighbor.
#[derive(Debug)]
pub(super) struct RefreshReduction {
    neighbor: Option<Neighbor>,
    pending: Vec<Acknowledgement>,
    /// By session, whether summaries refresh it.
    listed: Vec<bool>,
    /// First session of the next summary.
    next: usize,
    due: Time,
    refresh: Duration,
}

impl RefreshReduction {
    /// Creates the state for `sessions` sessions, each refreshed every R.
    pub(super) fn new(sessions: u32, refresh: Duration) -> RefreshReduction {
        let listed = vec![false; sessions as usize];
        let (neighbor, pending, due) = (None, Vec::new(), Time::ZERO);
        RefreshReduction { neighbor, pending, listed, next: 0, due, refresh }
    }

    /// Returns the neighbor, once a message of it has been received.
    pub(super) fn neighbor(&self) -> Option<Neighbor> {
        self.neighbor
    }

    /// Returns whether summaries refresh a session, so that it needs no refresh of its own.
    pub(super) fn is_listed(&self, session: u32) -> bool {
        self.listed[session as usize]
    }

    /// Removes a session from summaries until the neighbor acknowledges its next message.
    pub(super) fn forget(&mut self, session: u32) {
        self.listed[session as usize] = false;
    }

    /// Handles an object; returns the session whose message has to be sent again.
    pub(super) fn handle(&mut self, reduction_objects: ReductionObject) -> Option<u32> {
        match reduction_objects {
            ReductionObject::AcknowledgeTo(neighbor, acknowledgement) => {
                self.neighbor = Some(neighbor);
                self.pending.push(acknowledgement);
            }
            ReductionObject::Session(kind, session) => {
                let listed = self.listed.get_mut(session as usize)?;
                *listed = kind == AcknowledgementKind::Ack;
                return (!*listed).then_some(session);
            }
        }
        None
    }

    /// Writes the next message to the neighbor; returns its destination, or `None` if nothing is due.
    pub(super) fn write_next(&mut self, now: Time, octets: &mut Vec<u8>) -> Option<IpAddr> {
        let neighbor = self.neighbor?.address;
        if !self.pending.is_empty() {
            let count = self.pending.len().min(ACKNOWLEDGEMENTS);
            let acknowledgements = List::Items(&self.pending[..count]);
            write(Message { acknowledgements, ..message(Body::Ack) }, octets);
            self.pending.drain(..count);
            return Some(neighbor);
        }
        if now < self.due {
            return None;
        }
        // Summaries are spread over the period, so that a round takes a little less than R.
        let rounds = self.listed.len().div_ceil(NUMBERS).max(1) as u32;
        self.due = now + self.refresh * 9 / 10 / rounds;
        let end = self.listed.len().min(self.next + NUMBERS);
        let listed = (self.next..end).filter(|&session| self.listed[session]);
        let ids: Vec<u32> = listed.map(|session| session as u32).collect();
        self.next = if end == self.listed.len() { 0 } else { end };
        if ids.is_empty() {
            return None;
        }
        let names = RefreshIds::Messages(List::Items(&ids));
        let lists = [RefreshList { epoch: EPOCH, ids: names }];
        write(message(Body::Srefresh(Srefresh { lists: List::Items(&lists) })), octets);
        Some(neighbor)
    }
}

/// A message of a node that supports refresh reduction.
pub(super) fn message(body: Body<'_>) -> Message<'_> {
    Message {
        flags: Message::REFRESH_REDUCTION,
        ..Message::new(super::session::ttl_of(&body), body)
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::InterfaceId;

    use super::*;

    #[test]
    fn acknowledged_sessions_are_summarized_within_a_round() {
        let router = IpAddr::from([10, 0, 0, 2]);
        let neighbor = Neighbor { interface: InterfaceId(2), address: router };
        let refresh = Duration::from_secs(30);
        let mut reduction_state = RefreshReduction::new(1_000, refresh);
        let mut octets = Vec::new();
        assert_eq!(reduction_state.write_next(Time::from_secs(1), &mut octets), None, "to nobody");
        let wanted = Acknowledgement { kind: AcknowledgementKind::Ack, epoch: 9, id: 7 };
        assert_eq!(reduction_state.handle(ReductionObject::AcknowledgeTo(neighbor, wanted)), None);
        for session in [3, 999, 1_000] {
            reduction_state.handle(ReductionObject::Session(AcknowledgementKind::Ack, session));
        }
        assert!(reduction_state.is_listed(3) && !reduction_state.is_listed(4));
        let (mut now, mut names, mut acknowledged) = (Time::from_secs(1), Vec::new(), Vec::new());
        while now < Time::from_secs(27) {
            now = now + Duration::from_millis(100);
            if reduction_state.write_next(now, &mut octets) != Some(router) {
                continue;
            }
            let message = Message::parse(&octets).expect("it can be read");
            acknowledged.extend(message.acknowledgements.iter());
            let Body::Srefresh(srefresh) = message.body else { continue };
            for list in srefresh.lists {
                let RefreshIds::Messages(ids) = list.ids else { panic!("no groups") };
                names.extend(ids);
            }
        }
        assert_eq!((names, acknowledged), (vec![3, 999], vec![wanted]));
        assert_eq!(
            reduction_state.handle(ReductionObject::Session(AcknowledgementKind::Nack, 3)),
            Some(3)
        );
        assert!(!reduction_state.is_listed(3));
    }
}
