//! Ping NSLP on one node: finds out which nodes on a flow's path take part in signalling, how far away they are, and what
//! they could still reserve.
//!
//! An initiator sends a message downstream, along the path of packets to a destination. Each node on the path counts itself
//! and appends a record: its address, its time, its free bandwidth. The last one turns the message round, and on its way
//! back each node appends another. The initiator takes the two times of each node, whose difference is how long the
//! message was beyond it, from the whole round trip, and so has the distance of each without any two clocks agreeing.
//!
//! This is also the shortest whole application that there can be on GIST: all of it but what initiators remember is in
//! this file. GIST finds the next node on the path and brings messages there; [`Nslp::receive`] is called with those that
//! come, and [`Turn::send`] sends another. There is no state in transit, not even of messages that wait for their next
//! node to be found: where GIST finds none, it gives the message back to [`Nslp::undelivered`], and this node is the last.

mod api;
mod config;
mod counters;
mod initiator;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{Context, Time};
use earmark_wire::gist::{Direction, Mri};
use earmark_wire::ping_nslp::{self as wire, Ping, Timestamp, iana::NSLPID};

pub use api::{Application, Command, Event, Rejection, Request, Visit};
pub use config::Config;
pub use counters::Counters;

use crate::nslp::{
    HandlerContext, MessageHandle, NetworkNotification, Nslp, Peering, Received, SendFailure,
    SendMessage,
};
use crate::route;
use initiator::Initiator;

/// Ping NSLP on one node.
#[derive(Debug)]
pub struct PingNslp {
    /// What is remembered of this node's own messages.
    initiator: Initiator,
    /// See [`Config::discovery`].
    discovery: Duration,
    counters: Counters,
}

impl PingNslp {
    pub(crate) fn new(config: Config, random: &RandomStreams) -> PingNslp {
        let discovery = config.discovery;
        PingNslp {
            initiator: Initiator::new(config, random),
            discovery,
            counters: Counters::default(),
        }
    }

    /// Does what a user of this node asks for.
    pub(crate) fn command(&mut self, cx: &mut HandlerContext<'_, '_>, command: Command) {
        self.initiator.command(cx, &mut self.counters, command);
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many applications of this node wait for something.
    pub fn applications(&self) -> usize {
        self.initiator.applications()
    }

    /// Sends a message on with this node's record, to the next node that `mri` leads to: the same flow, either way.
    fn send_on(
        &self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        ping: &Ping<'_>,
        mri: Mri,
    ) {
        let visit = visit(cx, message);
        let going_on = SendMessage {
            handle: None,
            session: message.session,
            mri,
            to: None,
            attributes: message.attributes,
            timeout: self.discovery,
            // On its way back the message has as many hops before it as it had at first.
            hops: (mri == message.mri).then_some(message.hops),
        };
        // GIST carries whole words.
        let room = cx.send(going_on, ping.appended_len().next_multiple_of(4));
        room.fill(0);
        let length = ping.buffer_len();
        if let (Some(start), Some(came)) = (room.get_mut(..length), message.data.get(..length)) {
            start.copy_from_slice(came);
            // Neither this nor what follows can fail, as the message was read before.
            let _ = wire::count_hop(start);
        }
        let _ = wire::append(room, length, &visit);
    }
}

impl Nslp for PingNslp {
    fn id(&self) -> u16 {
        NSLPID
    }

    /// Every node on the path wants to be seen.
    fn may_peer(
        &mut self,
        _turn: &mut HandlerContext<'_, '_>,
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
                self.send_on(cx, message, &ping, message.mri.inverted());
            }
            Direction::Upstream if self.initiator.knows(message.session) => {
                self.initiator.answered(cx, &mut self.counters, message.session, &ping);
            }
            Direction::Downstream | Direction::Upstream => {
                self.counters.passed_on += 1;
                self.send_on(cx, message, &ping, message.mri);
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
                // This node's record is in it already.
                self.counters.turned_round += 1;
                let back = SendMessage { mri: message.mri.inverted(), hops: None, ..*message };
                cx.send(back, data.len()).copy_from_slice(data);
            }
            Direction::Downstream | Direction::Upstream => self.counters.stuck += 1,
        }
    }

    /// A message that GIST has lost is one that does not come back in time.
    fn status(&mut self, _: &mut HandlerContext<'_, '_>, _: MessageHandle, _: SendFailure) {}

    /// The next message finds out for itself.
    fn notify(&mut self, _: &mut HandlerContext<'_, '_>, _: &NetworkNotification) {}

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.initiator.expire(cx, &mut self.counters);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.initiator.next_deadline()
    }
}

/// What this node says when a message comes by.
fn visit(cx: &HandlerContext<'_, '_>, message: &Received<'_>) -> wire::Visit {
    let (source, _) = message.mri.addresses();
    let interface = cx.context.interfaces.by_id(message.interface);
    wire::Visit {
        // A node without an address of the family could not have been reached.
        address: interface.and_then(|it| it.address_like(source)).unwrap_or(source),
        time: timestamp(cx.now),
        available: available(cx.context, &message.mri),
    }
}

/// A time of this node's: since its daemon, or the simulation, began.
fn timestamp(now: Time) -> Timestamp {
    let since = now.since(Time::ZERO);
    Timestamp {
        seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
        microseconds: since.subsec_micros(),
    }
}

/// What could still be reserved, in bit/s, for packets that go the way that `mri` says; `None` where they go no further.
fn available(context: &Context<'_>, mri: &Mri) -> Option<u64> {
    let (source, destination) = mri.addresses();
    let end = match mri.direction() {
        Direction::Downstream => destination,
        Direction::Upstream => source,
    };
    if context.interfaces.is_local(end) {
        return None;
    }
    let link = route::hop(context, mri)?.interface;
    context.ledger.link(link).map(|_| context.ledger.available(link).as_bps())
}
