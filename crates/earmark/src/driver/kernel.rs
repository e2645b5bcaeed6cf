//! What the driver needs of the system under it, as a trait, so that everything above runs in tests without privileges.

use std::io;
use std::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, LinkStatus, Protocol};
use earmark_core::{
    Connect, ConnectionId, Datagram, Flow, Installation, InterfaceId, Outgoing, Rate, StreamEvent,
    Time,
};
use earmark_linux::{FlowClaim, FlowOnLink, FlowPath, PathQuestion};
use earmark_node::{EnforcementRow, TrafficRow};

/// What effects need of the system.
pub trait Kernel {
    /// Takes one batch of waiting messages and hands each to `each`; gives how many there were.
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize>;
    /// Does what the engine of Boomerang tells about what the kernel may do; gives the answer to a question. Never asked
    /// where [`earmark_boomerang::Config::offload`] is off.
    fn offload(&mut self, _now: Time, _event: &boomerang::Event) -> Option<boomerang::Seen> {
        None
    }
    /// Ends refreshes and set-ups by the kernel, until the engine says anew what it may do.
    fn suspend_refreshes(&mut self) {}
    /// Takes back what the kernel was lent of links, to set sessions up by itself; gives what of each it may have
    /// granted already.
    fn take_back(&mut self) -> Vec<(InterfaceId, Rate)> {
        Vec::new()
    }
    /// Lends the kernel parts of links, of what nobody holds; gives what it has of each.
    fn lend(
        &mut self,
        _now: Time,
        _link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        Vec::new()
    }
    /// When to look what the kernel has done; never, where it is lent nothing.
    fn next_look(&self) -> Option<Time> {
        None
    }
    /// Whether the kernel has left word of what it has done.
    fn has_copies(&self) -> bool {
        false
    }
    /// The messages that the kernel has sent on without a word since the last call.
    fn passed(&mut self) -> Option<boomerang::Command> {
        None
    }
    /// What the kernel has seen of a session of Boomerang.
    fn seen(&self, _now: Time, _selector: &boomerang::Selector) -> Option<boomerang::Seen> {
        None
    }
    /// Sends messages in their order; `failed` hears of each that the kernel would not take.
    fn send<'a>(
        &mut self,
        messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        failed: &mut dyn FnMut(&Outgoing, SendFailure),
    );
    /// Begins a connection; what becomes of it is told by [`Kernel::follow_streams`].
    fn connect(&mut self, _now: Time, _connect: &Connect) {}
    /// Writes into a connection, when [`Kernel::flush`] is called.
    fn write(&mut self, _connection: ConnectionId, _octets: &[u8]) {}
    /// Ends a connection, once what was written has left.
    fn close(&mut self, _now: Time, _connection: ConnectionId) {}
    /// Lets out what was written into connections.
    fn flush(&mut self) {}
    /// Hands out what has happened to connections, bounded in work.
    fn follow_streams(
        &mut self,
        _now: Time,
        _each: &mut dyn FnMut(StreamEvent<'_>),
    ) -> io::Result<()> {
        Ok(())
    }
    /// When to call it, whether a connection has something or not.
    fn next_stream_deadline(&self) -> Option<Time> {
        None
    }
    /// Puts a reservation of a protocol into traffic control, or changes it.
    fn install(
        &mut self,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(), TrafficControlFailure>;
    /// Lets another flow use a reservation.
    fn add_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure>;
    /// Stops a flow from using a reservation.
    fn remove_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure>;
    /// Takes out what a dead daemon left and the node cannot keep; with a protocol, only what was of this one, or what does
    /// not say of which it was.
    fn drop_adopted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        protocol: Option<Protocol>,
    ) -> Result<(), TrafficControlFailure>;
    /// Takes a reservation out.
    fn remove(&mut self, claim: ClaimId) -> Result<(), TrafficControlFailure>;
    /// Does what [`Kernel::remove`] has put off until what came of it is on its way.
    fn tidy(&mut self) {}
    /// What has gone through a reservation's queue; `None` where nothing is queued.
    fn traffic(&mut self, claim: ClaimId) -> Option<TrafficRow>;
    /// Whether the packets of a reservation get it; `None` where nothing is queued.
    fn enforcement(&self, _claim: ClaimId) -> Option<EnforcementRow> {
        None
    }
    /// Where the packets of a flow go from here. Nothing that is kept changes by it.
    ///
    /// # Errors
    /// The system cannot say.
    fn flow_path(&mut self, _asked: &PathQuestion) -> Result<FlowPath, LookupFailure> {
        Err(LookupFailure("this system cannot be asked for the route of a flow".to_owned()))
    }
    /// How the packets of a flow stand on a link, with so many of the claims that they match.
    ///
    /// # Errors
    /// The system cannot say.
    fn flow_on_link(
        &mut self,
        _interface: InterfaceId,
        _packets: &Flow,
        _limit: usize,
    ) -> Result<LinkView, LookupFailure> {
        Ok(LinkView::TakesNoPart)
    }
    /// Claims on other links, each with its link, that packets of a flow would match there; as many as are wanted.
    fn claims_elsewhere(
        &self,
        _interface: Option<InterfaceId>,
        _packets: &Flow,
        _limit: usize,
    ) -> Vec<(InterfaceId, FlowClaim)> {
        Vec::new()
    }
    /// Hears what is sent to a group, on all interfaces that take part; until it was left as often as joined.
    fn join(&mut self, group: IpAddr);
    /// Undoes one [`Kernel::join`].
    fn leave(&mut self, group: IpAddr);
    /// Whether messages can be sent for sessions with this destination.
    fn can_signal(&self, destination: IpAddr) -> bool;
    /// What the kernel's side counts: part, name, count.
    fn counters(&self) -> Vec<(&'static str, &'static str, u64)>;
}

/// What comes in from the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival<'a> {
    /// A message, with its IP protocol.
    Message(u8, Datagram<'a>),
    /// Word of one that the kernel has treated.
    Settled(boomerang::Command),
}

/// Why a message was not sent; soft state recovers by the next refresh, so it is counted and forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SendFailure(pub String);

/// Why traffic control did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct TrafficControlFailure {
    /// The system's error number.
    pub errno: u16,
    /// The same for people.
    pub text: String,
}

/// Why the system could not say how a flow stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupFailure(pub String);

/// How a flow stands on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkView {
    /// The link's queues are ours.
    Planned(FlowOnLink),
    /// The link takes part, and its queues are left alone: what is reserved is only counted.
    LeftAlone,
    /// Nothing is ever reserved there.
    TakesNoPart,
}
