//! Processors of nodes: what the daemons do takes time.
//!
//! A node without a processor acts at once. With one, its daemon is a single server that takes its inputs in the order of
//! their arrival. Messages wait in the receive buffers of the sockets, one for each IP protocol, and are lost if it is
//! full; whatever else the daemon reacts to waits without a limit, as its kernel keeps it. The daemon's state changes
//! when a turn begins, and what it causes leaves when the turn ends.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use earmark_core::{Datagram, Effects, StreamEvent, Time};
use earmark_node::{Event, Input, Node};

/// Processor time of a daemon's turns.
///
/// A turn is one input and all that the engines do about it at once.
pub trait CostModel: Debug + Send {
    /// Returns the time that a turn takes.
    fn cost(&mut self, turn: &Turn<'_>) -> Duration;
}

/// A turn of a daemon.
#[derive(Debug)]
pub struct Turn<'a> {
    /// When it begins.
    pub now: Time,
    /// What the daemon reacts to.
    pub cause: Cause<'a>,
    /// What its engines have done.
    pub effects: &'a Effects<Event>,
    /// The engines after that.
    pub node: &'a Node,
}

/// What a daemon reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// A message arrived.
    Message {
        /// IP protocol number.
        ip_protocol: u8,
        /// What follows the IP header.
        payload: &'a [u8],
    },
    /// Octets arrived on a connection, not necessarily whole messages.
    Octets(&'a [u8]),
    /// A connection was opened or closed.
    Connection,
    /// Timers expired.
    Timer,
    /// An application gave a command.
    Command,
}

/// Receive buffer of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Size, octets.
    pub octets: u64,
    /// Octets that a message takes beside its IP packet.
    pub overhead: u32,
}

impl ReceiveBuffer {
    /// A buffer that is never full.
    pub const UNLIMITED: ReceiveBuffer = ReceiveBuffer { octets: u64::MAX, overhead: 0 };
}

/// Use of a processor so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorUse {
    /// Time that it has worked, including the whole of the present turn.
    pub busy: Duration,
    /// Turns.
    pub turns: u64,
    /// Messages that found a full buffer.
    pub lost: u64,
    /// Largest number of inputs that waited.
    pub longest_queue: usize,
}

/// The processor of a node.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) costs: Box<dyn CostModel>,
    buffer: ReceiveBuffer,
    /// Octets that wait, by IP protocol.
    taken: BTreeMap<u8, u64>,
    waiting: VecDeque<WaitingInput>,
    /// Whether a turn is in progress.
    pub(crate) is_busy: bool,
    /// Whether the expiry of timers waits.
    pub(crate) expiry_waits: bool,
    /// Number of the daemon, so that the end of a dead daemon's turn is recognized.
    pub(crate) daemon: u64,
    pub(crate) usage: ProcessorUse,
}

/// An input of a daemon that waits.
#[derive(Debug)]
pub(crate) struct WaitingInput {
    /// The input, with no octets.
    input: Input<'static>,
    octets: Vec<u8>,
}

impl WaitingInput {
    pub(crate) fn new(input: Input<'_>) -> WaitingInput {
        let mut kept = Vec::new();
        let input = match input {
            Input::Datagram(protocol, datagram) => {
                let Datagram { interface, source, destination, ttl, router_alert, .. } = datagram;
                kept = datagram.payload.to_vec();
                let (encapsulated, payload) = (datagram.encapsulated, &[][..]);
                let waiting = Datagram {
                    interface,
                    source,
                    destination,
                    ttl,
                    router_alert,
                    encapsulated,
                    payload,
                };
                Input::Datagram(protocol, waiting)
            }
            Input::Stream(event) => Input::Stream(match event {
                StreamEvent::Data { connection, octets } => {
                    kept = octets.to_vec();
                    StreamEvent::Data { connection, octets: &[] }
                }
                StreamEvent::Open { connection, local, peer, transport } => {
                    StreamEvent::Open { connection, local, peer, transport }
                }
                StreamEvent::Closed { connection, reason } => {
                    StreamEvent::Closed { connection, reason }
                }
            }),
            Input::Expire => Input::Expire,
            Input::Host(update) => Input::Host(update),
            Input::Command(command) => Input::Command(command),
        };
        WaitingInput { input, octets: kept }
    }

    pub(crate) fn input(&self) -> Input<'_> {
        let payload = &self.octets[..];
        match self.input.clone() {
            Input::Datagram(protocol, datagram) => {
                Input::Datagram(protocol, Datagram { payload, ..datagram })
            }
            Input::Stream(StreamEvent::Data { connection, .. }) => {
                Input::Stream(StreamEvent::Data { connection, octets: payload })
            }
            input => input,
        }
    }

    /// Returns what the daemon reacts to; `None` for changes of its host, which take no time.
    pub(crate) fn cause(&self) -> Option<Cause<'_>> {
        let payload = &self.octets[..];
        Some(match &self.input {
            Input::Datagram(ip_protocol, _) => {
                Cause::Message { ip_protocol: *ip_protocol, payload }
            }
            Input::Stream(StreamEvent::Data { .. }) => Cause::Octets(payload),
            Input::Stream(_) => Cause::Connection,
            Input::Expire => Cause::Timer,
            Input::Host(_) => return None,
            Input::Command(_) => Cause::Command,
        })
    }

    /// Returns the socket of a message, by its IP protocol, and the octets of its IP packet.
    fn buffered(&self) -> Option<(u8, u64)> {
        let Input::Datagram(protocol, Datagram { source, .. }) = &self.input else { return None };
        let header = if source.is_ipv4() { 20 } else { 40 };
        Some((*protocol, header + self.octets.len() as u64))
    }
}

impl Processor {
    pub(crate) fn new(costs: Box<dyn CostModel>, buffer: ReceiveBuffer) -> Processor {
        Processor {
            costs,
            buffer,
            taken: BTreeMap::new(),
            waiting: VecDeque::new(),
            is_busy: false,
            expiry_waits: false,
            daemon: 0,
            usage: ProcessorUse::default(),
        }
    }

    /// Appends an input; `false` if its buffer is full. Timers that wait already are not appended again.
    pub(crate) fn push(&mut self, input: WaitingInput) -> bool {
        if input.input == Input::Expire && core::mem::replace(&mut self.expiry_waits, true) {
            return true;
        }
        if let Some((protocol, octets)) = input.buffered() {
            let taken = self.taken.entry(protocol).or_default();
            let needed = octets + u64::from(self.buffer.overhead);
            if *taken + needed > self.buffer.octets {
                self.usage.lost += 1;
                return false;
            }
            *taken += needed;
        }
        self.waiting.push_back(input);
        self.usage.longest_queue = self.usage.longest_queue.max(self.waiting.len());
        true
    }

    /// Takes the next input out of its buffer.
    pub(crate) fn pop(&mut self) -> Option<WaitingInput> {
        let input = self.waiting.pop_front()?;
        if let Some((protocol, octets)) = input.buffered()
            && let Some(taken) = self.taken.get_mut(&protocol)
        {
            *taken -= octets + u64::from(self.buffer.overhead);
        }
        if input.input == Input::Expire {
            self.expiry_waits = false;
        }
        Some(input)
    }

    /// Forgets all that waits and the turn in progress, because the daemon is dead.
    pub(crate) fn clear(&mut self) {
        self.taken.clear();
        self.waiting.clear();
        (self.is_busy, self.expiry_waits) = (false, false);
        self.daemon += 1;
    }
}
