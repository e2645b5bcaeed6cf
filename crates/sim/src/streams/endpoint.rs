//! One end of a connection: what it does with segments, with time, and with what its daemon wants.
//!
//! ```text
//! asked for   Calling ---------------------------> Open       Calling -> Hello -> Open        with TLS
//! called      Called -> Silent ------------------> Open       Called -> Silent -> Greeted -> Open
//!             and from each of them                Over       what is on its way still arrives
//! ```
//!
//! It is TCP without congestion control, options and urgent data, and goes back to the first octet that is missing when
//! time runs out. TLS is its handshake alone: it takes as long, and then octets go in the clear.

mod hear;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{CloseReason, ConnectionId, Time, Transport};

use super::segment::{Segment, flag};

/// Octets that an end takes before its daemon has read them.
const WINDOW: usize = 0xffff;
/// Octets that may wait for the other end.
pub(super) const BACKLOG: usize = 1 << 20;
/// How long an acknowledgement may take at first.
const TIMEOUT: Duration = Duration::from_millis(300);
/// After how many times that it was repeated in vain an end gives up, each after twice the time: 38 seconds.
const ATTEMPTS: u32 = 6;

/// Records of TLS, by their first octet.
const HANDSHAKE: u8 = 0x16;
const ALERT: u8 = 0x15;
/// Lengths of what is said until TLS stands, octets: about those of a handshake with certificates on both sides.
const CLIENT_HELLO: usize = 250;
const SERVER_HELLO: usize = 1_200;
const CLIENT_FINISHED: usize = 900;

/// Who is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Welcome {
    /// Everybody.
    #[default]
    Everybody,
    /// Over TLS nobody can prove who he is.
    NotOverTls,
    /// Nobody: nothing listens.
    Nobody,
}

/// How far a connection has come; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Calling,
    Hello,
    Called,
    Silent,
    Greeted,
    Open,
    /// The daemon hears nothing more of it.
    Over,
}

/// What the daemon is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Open(Transport),
    Data(Vec<u8>),
    Closed(CloseReason),
}

/// What an end wants done.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// To be sent, in order. Ports are filled in by who sends.
    pub(super) segments: Vec<Segment>,
    pub(super) told: Vec<Told>,
}

/// See the module's text. Numbers of octets wrap; the call has one, and so has the end.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) connection: ConnectionId,
    transport: Transport,
    stage: Stage,
    /// Most octets of a segment.
    longest: usize,
    /// Number of the first octet that the other end has not said to have.
    acknowledged: u32,
    /// Number of the next octet to be sent.
    next: u32,
    /// Number behind all that was ever sent; beyond `next` where it had to go back.
    furthest: u32,
    /// Whether the call is acknowledged.
    called: bool,
    /// What was written and is not acknowledged.
    outgoing: VecDeque<u8>,
    /// What was written before it stood.
    waiting: Vec<u8>,
    /// Whether nothing more will be written.
    ending: bool,
    /// Whether the end is acknowledged, or there is no more to be said for another reason.
    ended: bool,
    /// How many octets from `acknowledged` on the other end has room for.
    window: u32,
    /// Number of the next octet to come.
    expected: u32,
    /// What came before that which it follows, by number.
    early: BTreeMap<u32, Vec<u8>>,
    /// Number of the other end's end, where that is known.
    ends_at: Option<u32>,
    /// What came and was not read.
    unread: Vec<u8>,
    /// How often the first of what is not acknowledged was repeated since the other end was heard of.
    attempts: u32,
    /// When something is to be repeated.
    pub(super) timer: Option<Time>,
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
            called: false,
            outgoing: VecDeque::new(),
            waiting: Vec::new(),
            ending: false,
            ended: false,
            window: 0,
            expected: 0,
            early: BTreeMap::new(),
            ends_at: None,
            unread: Vec::new(),
            attempts: 0,
            timer: None,
        }
    }

    /// One that the daemon asks for, with segments of at most `longest` octets.
    pub(super) fn call(
        connection: ConnectionId,
        transport: Transport,
        longest: usize,
        now: Time,
    ) -> (Endpoint, Wanted) {
        let mut end = Endpoint::new(connection, transport, Stage::Calling, longest);
        let mut wanted = Wanted::default();
        end.transmit(now, &mut wanted);
        (end, wanted)
    }

    /// One that the other end asks for.
    pub(super) fn answer(
        connection: ConnectionId,
        longest: usize,
        now: Time,
        call: &Segment,
    ) -> (Endpoint, Wanted) {
        let mut end = Endpoint::new(connection, Transport::Tcp, Stage::Called, longest);
        end.expected = call.sequence.wrapping_add(1);
        let mut wanted = Wanted::default();
        end.transmit(now, &mut wanted);
        (end, wanted)
    }

    /// Whether it can be forgotten.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Over && self.ended
    }

    /// The daemon writes.
    pub(super) fn write(&mut self, octets: &[u8], now: Time) -> Wanted {
        let mut wanted = Wanted::default();
        match self.stage {
            Stage::Over => {}
            _ if self.outgoing.len() + self.waiting.len() + octets.len() > BACKLOG => {
                self.abort(&mut wanted);
                wanted.told.push(Told::Closed(CloseReason::Backlog));
            }
            Stage::Open => {
                self.outgoing.extend(octets);
                self.transmit(now, &mut wanted);
            }
            _ => self.waiting.extend(octets),
        }
        wanted
    }

    /// The daemon wants no more of it.
    pub(super) fn close(&mut self, now: Time) -> Wanted {
        let mut wanted = Wanted::default();
        if self.stage == Stage::Open {
            self.say_goodbye(now, &mut wanted);
        } else {
            self.abort(&mut wanted);
        }
        wanted
    }

    /// It ends now, without a farewell; for the other end it is broken.
    pub(super) fn abort(&mut self, wanted: &mut Wanted) {
        wanted.segments.push(self.segment(flag::RST | flag::ACK, self.next, Vec::new()));
        self.fall_silent();
    }

    /// It ends when all has arrived that was written.
    fn say_goodbye(&mut self, now: Time, wanted: &mut Wanted) {
        self.stage = Stage::Over;
        self.ending = true;
        self.transmit(now, wanted);
    }

    fn fall_silent(&mut self) {
        self.stage = Stage::Over;
        self.ended = true;
        self.timer = None;
    }
}

/// Sending.
impl Endpoint {
    /// Octets that are on their way, as far as is known.
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
            window: self.room() as u16, // it is at most WINDOW
            payload,
        }
    }

    /// Sends `flags` and octets, which go behind all that was sent.
    fn push(&mut self, flags: u8, payload: Vec<u8>, wanted: &mut Wanted) {
        let extent = payload.len() as u32 + u32::from(flags & (flag::SYN | flag::FIN) != 0);
        wanted.segments.push(self.segment(flags, self.next, payload));
        self.next = self.next.wrapping_add(extent);
        if self.next.wrapping_sub(self.furthest) as i32 > 0 {
            self.furthest = self.next;
        }
    }

    fn acknowledge(&self, wanted: &mut Wanted) {
        wanted.segments.push(self.segment(flag::ACK, self.next, Vec::new()));
    }

    /// Sends what has not been sent and may be.
    fn transmit(&mut self, now: Time, wanted: &mut Wanted) {
        match self.called {
            true => self.transmit_octets(wanted),
            false if self.in_flight() == 0 => {
                let ack = if self.stage == Stage::Called { flag::ACK } else { 0 };
                self.push(flag::SYN | ack, Vec::new(), wanted);
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

    fn transmit_octets(&mut self, wanted: &mut Wanted) {
        loop {
            let (sent, all) = (self.in_flight(), self.outgoing.len());
            let most = (self.window as usize).saturating_sub(sent).min(self.longest);
            let length = all.saturating_sub(sent).min(most);
            if length == 0 {
                break;
            }
            let payload = self.outgoing.range(sent..sent + length).copied().collect();
            self.push(flag::ACK, payload, wanted);
        }
        if self.ending && !self.ended && self.in_flight() == self.outgoing.len() {
            self.push(flag::ACK | flag::FIN, Vec::new(), wanted);
        }
    }

    /// The other end says what it has.
    fn hear_acknowledgement(&mut self, segment: &Segment, now: Time) {
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
        let of_call = usize::from(!self.called);
        self.called = true;
        let octets = (advanced - of_call).min(self.outgoing.len());
        self.outgoing.drain(..octets);
        self.ended |= advanced > of_call + octets;
    }

    /// An acknowledgement has not come.
    pub(super) fn repeat(&mut self, now: Time) -> Wanted {
        let mut wanted = Wanted::default();
        self.timer = None;
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            if self.is_told() {
                wanted.told.push(Told::Closed(CloseReason::TimedOut));
            }
            self.fall_silent();
            return wanted;
        }
        if self.called && self.window == 0 {
            // Something that was heard already, and that is answered with the window as it is now.
            wanted.segments.push(self.segment(
                flag::ACK,
                self.acknowledged.wrapping_sub(1),
                Vec::new(),
            ));
            self.timer = Some(now + TIMEOUT * 2_u32.pow(self.attempts));
        } else {
            self.next = self.acknowledged;
            self.transmit(now, &mut wanted);
        }
        wanted
    }

    /// Whether the daemon knows of it, and is still interested.
    fn is_told(&self) -> bool {
        matches!(self.stage, Stage::Calling | Stage::Hello | Stage::Open)
    }
}
