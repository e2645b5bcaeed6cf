//! Ping NSLP on one node: finds the signalling nodes on the path of a flow, their distance, and their reservable
//! bandwidth.
//!
//! An initiator sends a message downstream, along the path of packets to a destination. Each node on the path
//! increments the hop count and appends a record: its address, its time, its free bandwidth. The last one returns the
//! message, and on the way back each node appends another record. The difference of the two times of a node is how long
//! the message was beyond it. The initiator subtracts it from the whole round trip, and so gets the distance of each
//! node without synchronized clocks.
//!
//! This application is also the shortest complete example on GIST: everything except the state of initiators is in this
//! file. GIST finds the next node on the path and carries messages there; it calls [`Nslp::receive`] for each message,
//! and [`HandlerContext::send`] sends one. Transit nodes keep no state, not even for messages that wait for their next
//! node: if GIST finds none, it returns the message to [`Nslp::undelivered`], and this node is the last.

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
    /// Messages of this node.
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

    /// Executes a command of an application.
    pub(crate) fn command(&mut self, cx: &mut HandlerContext<'_, '_>, command: Command) {
        self.initiator.command(cx, &mut self.counters, command);
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of applications with a request.
    pub fn applications(&self) -> usize {
        self.initiator.applications()
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
            attributes: message.attributes,
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

impl Nslp for PingNslp {
    fn id(&self) -> u16 {
        NSLPID
    }

    /// Every node on the path takes part.
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

/// Creates the record of this node for a message.
fn visit(cx: &HandlerContext<'_, '_>, message: &Received<'_>) -> wire::NodeRecord {
    let (source, _) = message.mri.addresses();
    let interface = cx.context.interfaces.by_id(message.interface);
    wire::NodeRecord {
        // Without an address of this family the node could not have been reached.
        address: interface.and_then(|it| it.address_like(source)).unwrap_or(source),
        time: timestamp(cx.now),
        available: available(cx.context, &message.mri),
    }
}

/// Returns a time of this node: since the start of its daemon, or of the simulation.
fn timestamp(now: Time) -> Timestamp {
    let since = now.since(Time::ZERO);
    Timestamp {
        seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
        microseconds: since.subsec_micros(),
    }
}

/// Returns the reservable rate in the direction of `mri`, bit/s; `None` if the path ends here.
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
