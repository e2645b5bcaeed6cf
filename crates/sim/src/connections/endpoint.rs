//! One end of a connection: its handling of segments, time, and requests of its daemon.
//!
//! ```text
//! requested   SynSent -------------------> Open      SynSent -> ClientHelloSent -> Open      with TLS
//! accepted    SynReceived -> Accepted ---> Open      SynReceived -> Accepted -> ServerHelloSent -> Open
//!             and from each of them        Closed    data in flight still arrives
//! ```
//!
//! The protocol is TCP without congestion control, options and urgent data; after a timeout it retransmits from the
//! first missing octet. TLS is its handshake alone: it takes as long, and then octets are sent in the clear.

mod receive;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{CloseReason, ConnectionId, Time, Transport};

use super::segment::{Segment, flag};

/// Receive buffer: octets that the daemon has not read.
const WINDOW: usize = 0xffff;
/// Send buffer: octets that may wait for the other end.
pub(crate) const BACKLOG: usize = 1 << 20;
/// Initial retransmission timeout.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Number of retransmissions without an answer before an end gives up, each after twice the time: 38 seconds.
const ATTEMPTS: u32 = 6;

/// TLS records, by their first octet.
const HANDSHAKE: u8 = 0x16;
const ALERT: u8 = 0x15;
/// Lengths of the handshake messages of TLS, octets: about those with certificates on both sides.
const CLIENT_HELLO: usize = 250;
const SERVER_HELLO: usize = 1_200;
const CLIENT_FINISHED: usize = 900;

/// Callers that a node accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptPolicy {
    /// All callers.
    #[default]
    Everyone,
    /// No caller over TLS: nobody can authenticate.
    NotOverTls,
    /// None: nothing listens.
    NoOne,
}

/// Stage of a connection; the module's documentation has the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SynSent,
    ClientHelloSent,
    SynReceived,
    /// The handshake of TCP is complete; the first octet tells whether TLS follows.
    Accepted,
    ServerHelloSent,
    Open,
    /// Closed for the daemon.
    Closed,
}

/// Event of a connection for the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Open(Transport),
    Data(Vec<u8>),
    Closed(CloseReason),
}

/// Actions that an endpoint requests.
#[derive(Debug, Default)]
pub(crate) struct EndpointOutput {
    /// Segments to send, in order. The sender fills in the ports.
    pub(crate) segments: Vec<Segment>,
    pub(crate) events: Vec<ConnectionEvent>,
}

/// One end of a connection. Sequence numbers wrap; SYN and FIN count as one octet each.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) connection: ConnectionId,
    transport: Transport,
    stage: Stage,
    /// Maximum segment size, octets.
    longest: usize,
    /// Sequence number of the first octet that the other end has not acknowledged.
    acknowledged: u32,
    /// Sequence number of the next octet to send.
    next: u32,
    /// Highest sequence number sent, plus one; after `next` during a retransmission.
    furthest: u32,
    /// Whether the SYN is acknowledged.
    syn_acknowledged: bool,
    /// Written octets that are not acknowledged.
    outgoing: VecDeque<u8>,
    /// Octets written before the connection was open.
    waiting: Vec<u8>,
    /// Whether the daemon will write no more.
    fin_requested: bool,
    /// Whether the FIN is acknowledged, or no more is to be sent for another reason.
    fin_acknowledged: bool,
    /// Receive window of the other end, octets from `acknowledged` on.
    window: u32,
    /// Sequence number of the next expected octet.
    expected: u32,
    /// Octets received out of order, by sequence number.
    out_of_order: BTreeMap<u32, Vec<u8>>,
    /// Sequence number of the other end's FIN, if it is known.
    ends_at: Option<u32>,
    /// Received octets that are not read.
    unread: Vec<u8>,
    /// Number of retransmissions since the last segment of the other end.
    attempts: u32,
    /// Time of the next retransmission.
    pub(crate) timer: Option<Time>,
}

impl Endpoint {
    fn new(
        connection: ConnectionId,
        transport: Transport,
        stage: Stage,
        longest: usize,
    ) -> Endpoint {
        Endpoint {
            connection,
            transport,
            stage,
            longest,
            acknowledged: 0,
            next: 0,
            furthest: 0,
            syn_acknowledged: false,
            outgoing: VecDeque::new(),
            waiting: Vec::new(),
            fin_requested: false,
            fin_acknowledged: false,
            window: 0,
            expected: 0,
            out_of_order: BTreeMap::new(),
            ends_at: None,
            unread: Vec::new(),
            attempts: 0,
            timer: None,
        }
    }

    /// Creates an endpoint for a connection that the daemon requests, with segments of at most `longest` octets.
    pub(crate) fn connect(
        connection: ConnectionId,
        transport: Transport,
        longest: usize,
        now: Time,
    ) -> (Endpoint, EndpointOutput) {
        let mut end = Endpoint::new(connection, transport, Stage::SynSent, longest);
        let mut output = EndpointOutput::default();
        end.transmit(now, &mut output);
        (end, output)
    }

    /// Creates an endpoint for a connection that the other end requests.
    pub(crate) fn accept(
        connection: ConnectionId,
        longest: usize,
        now: Time,
        call: &Segment,
    ) -> (Endpoint, EndpointOutput) {
        let mut end = Endpoint::new(connection, Transport::Tcp, Stage::SynReceived, longest);
        end.expected = call.sequence.wrapping_add(1);
        let mut output = EndpointOutput::default();
        end.transmit(now, &mut output);
        (end, output)
    }

    /// Whether it can be removed.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Closed && self.fin_acknowledged
    }

    /// Writes octets of the daemon.
    pub(crate) fn write(&mut self, octets: &[u8], now: Time) -> EndpointOutput {
        let mut output = EndpointOutput::default();
        match self.stage {
            Stage::Closed => {}
            _ if self.outgoing.len() + self.waiting.len() + octets.len() > BACKLOG => {
                self.abort(&mut output);
                output.events.push(ConnectionEvent::Closed(CloseReason::Backlog));
            }
            Stage::Open => {
                self.outgoing.extend(octets);
                self.transmit(now, &mut output);
            }
            _ => self.waiting.extend(octets),
        }
        output
    }

    /// Closes the connection for the daemon.
    pub(crate) fn close(&mut self, now: Time) -> EndpointOutput {
        let mut output = EndpointOutput::default();
        if self.stage == Stage::Open {
            self.finish(now, &mut output);
        } else {
            self.abort(&mut output);
        }
        output
    }

    /// Resets the connection at once; the other end sees it broken.
    pub(crate) fn abort(&mut self, output: &mut EndpointOutput) {
        output.segments.push(self.segment(flag::RST | flag::ACK, self.next, Vec::new()));
        self.terminate();
    }

    /// Closes the connection after all written octets have arrived.
    fn finish(&mut self, now: Time, output: &mut EndpointOutput) {
        self.stage = Stage::Closed;
        self.fin_requested = true;
        self.transmit(now, output);
    }

    fn terminate(&mut self) {
        self.stage = Stage::Closed;
        self.fin_acknowledged = true;
        self.timer = None;
    }
}

/// Sending.
impl Endpoint {
    /// Returns the octets that are in flight, as far as is known.
    fn in_flight(&self) -> usize {
        self.next.wrapping_sub(self.acknowledged) as usize
    }

    fn segment(&self, flags: u8, sequence: u32, payload: Vec<u8>) -> Segment {
        Segment {
            source_port: 0,
            destination_port: 0,
            sequence,
            acknowledgement: if flags & flag::ACK == 0 { 0 } else { self.expected },
            flags,
            window: self.room() as u16, // at most WINDOW
            payload,
        }
    }

    /// Sends `flags` and octets after everything sent so far.
    fn push(&mut self, flags: u8, payload: Vec<u8>, output: &mut EndpointOutput) {
        let extent = payload.len() as u32 + u32::from(flags & (flag::SYN | flag::FIN) != 0);
        output.segments.push(self.segment(flags, self.next, payload));
        self.next = self.next.wrapping_add(extent);
        if self.next.wrapping_sub(self.furthest) as i32 > 0 {
            self.furthest = self.next;
        }
    }

    fn acknowledge(&self, output: &mut EndpointOutput) {
        output.segments.push(self.segment(flag::ACK, self.next, Vec::new()));
    }

    /// Sends the unsent octets that the window permits.
    fn transmit(&mut self, now: Time, output: &mut EndpointOutput) {
        match self.syn_acknowledged {
            true => self.transmit_octets(output),
            false if self.in_flight() == 0 => {
                let ack = if self.stage == Stage::SynReceived { flag::ACK } else { 0 };
                self.push(flag::SYN | ack, Vec::new(), output);
            }
            false => {}
        }
        let waits = self.in_flight() > 0 || !self.outgoing.is_empty();
        match self.timer {
            _ if !waits => self.timer = None,
            None => self.timer = Some(now + TIMEOUT * 2_u32.pow(self.attempts)),
            Some(_) => {}
        }
    }

    fn transmit_octets(&mut self, output: &mut EndpointOutput) {
        loop {
            let (sent, all) = (self.in_flight(), self.outgoing.len());
            let most = (self.window as usize).saturating_sub(sent).min(self.longest);
            let length = all.saturating_sub(sent).min(most);
            if length == 0 {
                break;
            }
            let payload = self.outgoing.range(sent..sent + length).copied().collect();
            self.push(flag::ACK, payload, output);
        }
        if self.fin_requested && !self.fin_acknowledged && self.in_flight() == self.outgoing.len() {
            self.push(flag::ACK | flag::FIN, Vec::new(), output);
        }
    }

    /// Processes an acknowledgement of the other end.
    fn receive_acknowledgement(&mut self, segment: &Segment, now: Time) {
        let advanced = segment.acknowledgement.wrapping_sub(self.acknowledged) as usize;
        if advanced > self.furthest.wrapping_sub(self.acknowledged) as usize {
            return;
        }
        self.window = segment.window.into();
        self.attempts = 0;
        if advanced == 0 {
            return;
        }
        self.acknowledged = segment.acknowledgement;
        if self.acknowledged.wrapping_sub(self.next) as i32 > 0 {
            self.next = self.acknowledged;
        }
        self.timer = (self.in_flight() > 0).then(|| now + TIMEOUT);
        let of_call = usize::from(!self.syn_acknowledged);
        self.syn_acknowledged = true;
        let octets = (advanced - of_call).min(self.outgoing.len());
        self.outgoing.drain(..octets);
        self.fin_acknowledged |= advanced > of_call + octets;
    }

    /// Retransmits after a missing acknowledgement.
    pub(crate) fn retransmit(&mut self, now: Time) -> EndpointOutput {
        let mut output = EndpointOutput::default();
        self.timer = None;
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            if self.notifies_daemon() {
                output.events.push(ConnectionEvent::Closed(CloseReason::TimedOut));
            }
            self.terminate();
            return output;
        }
        if self.syn_acknowledged && self.window == 0 {
            // An octet that was received already; the answer has the current window.
            output.segments.push(self.segment(
                flag::ACK,
                self.acknowledged.wrapping_sub(1),
                Vec::new(),
            ));
            self.timer = Some(now + TIMEOUT * 2_u32.pow(self.attempts));
        } else {
            self.next = self.acknowledged;
            self.transmit(now, &mut output);
        }
        output
    }

    /// Whether the daemon knows the connection and still uses it.
    fn notifies_daemon(&self) -> bool {
        matches!(self.stage, Stage::SynSent | Stage::ClientHelloSent | Stage::Open)
    }
}
