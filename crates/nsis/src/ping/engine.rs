//! Dispatch of commands and messages, and what a node in transit does with a message.

use alloc::vec::Vec;

use earmark_core::Time;
use earmark_wire::gist::{Direction, Mri};
use earmark_wire::ping_nslp::{self as wire, Ping, iana::NSLPID};

use super::api::Command;
use super::instance::PingNslp;
use super::node_record::visit;
use crate::nslp::{
    HandlerContext, MessageHandle, NetworkNotification, Nslp, Peering, Received, SendFailure,
    SendMessage,
};

impl Nslp for PingNslp {
    fn id(&self) -> u16 {
        NSLPID
    }

    /// Every node on the path takes part.
    fn is_about_packets(&self) -> bool {
        false
    }

    fn may_peer(
        &mut self,
        _cx: &mut HandlerContext<'_, '_>,
        _query: &Received<'_>,
        _answer: &mut Vec<u8>,
    ) -> Peering {
        Peering::Accept
    }

    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        let ping = match Ping::parse(message.data) {
            Ok(ping) => ping,
            Err(error) => return self.counters.malformed(error.kind),
        };
        let (_, destination) = message.mri.addresses();
        match message.mri.direction() {
            Direction::Downstream if cx.context.interfaces.is_local(destination) => {
                self.counters.turned_round += 1;
                self.forward(cx, message, &ping, message.mri.inverted());
            }
            Direction::Upstream if self.initiator.knows(message.session) => {
                if !self.initiator.may_answer(message) {
                    self.counters.foreign += 1;
                    return;
                }
                self.initiator.answered(cx, &mut self.counters, message.session, &ping);
            }
            Direction::Downstream | Direction::Upstream => {
                self.counters.passed_on += 1;
                self.forward(cx, message, &ping, message.mri);
            }
        }
    }

    fn undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &SendMessage,
        data: &[u8],
        failure: SendFailure,
    ) {
        let nobody_follows = matches!(
            failure,
            SendFailure::NoNextNode | SendFailure::NoRoute | SendFailure::TimedOut
        );
        match message.mri.direction() {
            Direction::Downstream if self.initiator.knows(message.session) => {
                self.initiator.undelivered(cx, &mut self.counters, message.session, data, failure);
            }
            Direction::Downstream if nobody_follows => {
                // The message already has the record of this node.
                self.counters.turned_round += 1;
                let back = SendMessage { mri: message.mri.inverted(), hops: None, ..*message };
                cx.send(back, data.len()).copy_from_slice(data);
            }
            Direction::Downstream | Direction::Upstream => self.counters.stuck += 1,
        }
    }

    /// A message that GIST has lost times out.
    fn status(&mut self, _: &mut HandlerContext<'_, '_>, _: MessageHandle, _: SendFailure) {}

    /// The next message discovers the path again.
    fn notify(&mut self, _: &mut HandlerContext<'_, '_>, _: &NetworkNotification) {}

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.initiator.expire(cx, &mut self.counters);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.initiator.next_deadline()
    }
}

impl PingNslp {
    /// Executes a command of an application.
    pub(crate) fn command(&mut self, cx: &mut HandlerContext<'_, '_>, command: Command) {
        self.initiator.command(cx, &mut self.counters, command);
    }

    /// Forwards a message with the record of this node to the next node in the direction of `mri`: the same flow,
    /// either direction.
    fn forward(
        &self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        ping: &Ping<'_>,
        mri: Mri,
    ) {
        let visit = visit(cx, message);
        let forwarded = SendMessage {
            handle: None,
            session: message.session,
            mri,
            to: None,
            attributes: message.attributes(),
            timeout: self.discovery,
            // On its way back the message has its initial hop limit again.
            hops: (mri == message.mri).then_some(message.hops),
        };
        // GIST carries whole words.
        let room = cx.send(forwarded, ping.appended_len().next_multiple_of(4));
        room.fill(0);
        let length = ping.buffer_len();
        if let (Some(start), Some(came)) = (room.get_mut(..length), message.data.get(..length)) {
            start.copy_from_slice(came);
            // Neither this nor the next call can fail, because the message was parsed before.
            let _ = wire::count_hop(start);
        }
        let _ = wire::append(room, length, &visit);
    }
}
