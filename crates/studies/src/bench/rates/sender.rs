//! Sender of a rate measurement: offers loads, and receives the answers.
//!
//! A message is through when it was answered, if the protocol answers (Resv; the echo of Boomerang, by the kernel of
//! the destination), or has arrived at the destination (PathTear; reports of YESSIR).

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_core::{Effect, Effects, InterfaceId};
use earmark_linux::datagram_receiver::DatagramReceiver;
use earmark_linux::{Gist, InterfaceSignalling, SignallingSocket};
use earmark_wire::boomerang::Reservation;
use earmark_wire::icmp::{HEADER, Kind, PseudoHeader};
use earmark_wire::rsvp::iana::MessageType;
use socket2::{Domain, Socket, Type};

use super::super::Supervision;
use super::load::{Load, LoadResult};
use super::message_cache::MessageCache;
use super::message_writer::{MessageWriter, SESSIONS};
use super::nsis::{Initiator, SetUpProgress};
use crate::bench::router::{Protocol, Step};

/// Messages that are sent before receiving.
const MESSAGES: usize = 64;
/// Sleep of an idle end. No wake-up is sent: messages that arrive meanwhile are received together, so that a message
/// costs neither the end nor the router a wake-up.
const IDLE: Duration = Duration::from_micros(250);
/// Time without any message after which the missing ones count as lost.
const QUIET: Duration = Duration::from_millis(300);
/// Longer time for sessions that are to stay: a large table of the router that grows may take longer than [`QUIET`].
const LONG_QUIET: Duration = Duration::from_secs(3);
/// Silence after which a GIST node may again send its full allowance of a second (RFC 5971 section 5.3.3).
const ALLOWANCE: Duration = Duration::from_secs(1);
/// Time for late answers, which do not count.
const STRAGGLERS: Duration = Duration::from_secs(5);
/// Largest number of unanswered releases after a burst, which are not measured.
const UNANSWERED: u64 = 500;
/// Bounds of a session's lifetime at a rate, which is half the length of the window: a message that waits longer is
/// overtaken, and so is lost.
const LIFE: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Timeout until the other end opens its sockets.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Factor of the planned time above which a rate was not offered.
const LATE: f64 = 1.05;
/// Factor of the planned time above which a load is aborted.
const TOO_LATE: f64 = 1.25;
/// Time after the window in which everything has to be through; a longer delay means that the rate was not sustained
/// but deferred.
const SOON: Duration = Duration::from_millis(50);
/// Receive buffer of an end, octets.
pub(super) const RECEIVE_BUFFER: i32 = 32 << 20;
/// Octets of the longest message of a test.
pub(super) const LONGEST: usize = 2_048;

/// State that both ends share.
#[derive(Default)]
pub(super) struct SharedState {
    /// Messages without an answer that arrived at the destination.
    pub(super) arrived: AtomicU64,
    /// Messages that arrived there and continue a set-up.
    pub(super) steps: AtomicU64,
    pub(super) is_listening: AtomicBool,
    pub(super) is_over: AtomicBool,
}

impl SharedState {
    /// Waits until the destination has its sockets open.
    pub(super) fn await_listener(&self) -> Result<()> {
        let count_lost = Instant::now() + TIMEOUT;
        while !self.is_listening.load(Ordering::Relaxed) {
            if Instant::now() >= count_lost || self.is_over.load(Ordering::Relaxed) {
                bail!("the destination does not listen");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Stops the destination when dropped, however the sender ends.
pub(super) struct StopOnDrop<'s>(pub(super) &'s SharedState);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sender of a rate measurement.
pub struct Sender<'s> {
    writer: &'s MessageWriter,
    shared: &'s SharedState,
    socket: SignallingSocket,
    replies: ReplyReceiver,
    cache: MessageCache,
    /// Messages to be sent next.
    queued: Vec<(u32, Step)>,
    /// Messages to be sent before a set-up is answered.
    outbox: Effects<Infallible>,
    /// Next session to be set up.
    next: u32,
    count: Counters,
    /// Whether late answers may still come.
    is_behind: bool,
}

/// Refreshes of a time.
#[derive(Clone, Copy, Debug)]
pub struct Refreshed {
    /// Number sent.
    pub sent: u32,
    /// Number that was due when the last ones were sent.
    pub due: u32,
}

/// Counts since a load began.
#[derive(Default)]
struct Counters {
    sent: u64,
    unsent: u64,
    answered: u64,
    /// Messages received that continue a set-up.
    steps: u64,
    /// Messages that are no longer awaited.
    given_up: u64,
}

/// Receiver of answers.
enum ReplyReceiver {
    /// Resvs; YESSIR has no answers.
    Signalling,
    /// Echoes, which are not signalling for a host without a daemon.
    Echoes(Box<DatagramReceiver>),
    /// Messages of GIST, some of which need an answer themselves.
    Gist(Initiator),
}

impl<'s> Sender<'s> {
    pub(super) fn open(
        writer: &'s MessageWriter,
        interface: InterfaceId,
        shared: &'s SharedState,
    ) -> Result<Sender<'s>> {
        let replies = match writer.protocol {
            Protocol::Rsvp | Protocol::Yessir => ReplyReceiver::Signalling,
            Protocol::Boomerang => {
                ReplyReceiver::Echoes(Box::new(echoes().context("the sender cannot hear echoes")?))
            }
            Protocol::Nsis | Protocol::Natfw => ReplyReceiver::Gist(Initiator::new(writer)),
        };
        Ok(Sender {
            writer,
            shared,
            socket: signalling(writer.protocol, interface)
                .context("the sender cannot open its sockets")?,
            replies,
            cache: MessageCache::default(),
            queued: Vec::new(),
            outbox: Effects::new(),
            next: 0,
            count: Counters::default(),
            is_behind: false,
        })
    }

    /// Offers a load, and waits for the answers; afterwards releases all sessions.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn offer(&mut self, load: Load, supervision: &Supervision<'_>) -> Result<LoadResult> {
        self.begin(supervision)?;
        let in_time = match load {
            Load::Burst(count) => {
                self.burst(count, supervision)?;
                true
            }
            Load::Rate { rate, window } => self.offer_rate(rate, window, supervision)?,
        };
        let Counters { sent, unsent, .. } = self.count;
        Ok(LoadResult { sent: sent + unsent, through: self.through(), in_time })
    }

    /// Starts the counts, once earlier messages have stopped.
    fn begin(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        if std::mem::take(&mut self.is_behind) {
            let start = Instant::now();
            let (mut last, mut seen) = (start, self.progress());
            while last.elapsed() < QUIET && start.elapsed() < STRAGGLERS {
                if self.receive()? == 0 {
                    idle();
                }
                if self.progress() > seen {
                    (last, seen) = (Instant::now(), self.progress());
                }
                supervision.check_interrupted()?;
            }
        }
        self.reset_counters();
        Ok(())
    }

    fn reset_counters(&mut self) {
        self.count = Counters::default();
        self.shared.arrived.store(0, Ordering::Relaxed);
        self.shared.steps.store(0, Ordering::Relaxed);
    }

    /// Sends all set-ups as fast as possible, then their releases.
    fn burst(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        let first = self.next;
        self.prepare(first, count, &[Step::SetUp, Step::Release]);
        if self.writer.protocol == Protocol::Nsis {
            std::thread::sleep(ALLOWANCE);
        }
        for number in 0..count {
            self.queue(first + number, Step::SetUp);
            if self.queued.len() >= MESSAGES {
                self.flush();
                // Answers that are not received in time would be lost here, and not in the router.
                self.receive()?;
            }
        }
        self.flush();
        self.settle(supervision)?;
        self.send_each(first, count, Step::Release, supervision)?;
        self.next = (first + count) % SESSIONS;
        Ok(())
    }

    /// Sets up sessions, and refreshes each once in a period for a time; they stay. Returns whether the pace was
    /// kept.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn hold_sessions(
        &mut self,
        count: u32,
        how_long: Duration,
        supervision: &Supervision<'_>,
    ) -> Result<bool> {
        self.set_up(count, supervision)?;
        let Refreshed { sent, .. } = self.refresh(count, how_long, supervision)?;
        let period = self.writer.sessions.refresh.as_secs_f64();
        let due = how_long.as_secs_f64() / period * f64::from(count);
        Ok(f64::from(sent) * LATE >= due)
    }

    /// Sets up sessions, which stay. Returns the number of those whose set-up was not answered.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn set_up(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<u64> {
        self.begin(supervision)?;
        let (first, refresh) = (self.next, self.writer.protocol.refresh());
        self.prepare(first, count, &[Step::SetUp, refresh, Step::Release]);
        self.send_each(first, count, Step::SetUp, supervision)?;
        Ok(self.count.given_up)
    }

    /// Refreshes sessions that were set up, each once in a period, for a time.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn refresh(
        &mut self,
        count: u32,
        how_long: Duration,
        supervision: &Supervision<'_>,
    ) -> Result<Refreshed> {
        let (first, refresh) = (self.next, self.writer.protocol.refresh());
        let period = self.writer.sessions.refresh.as_secs_f64();
        let (start, mut queued, mut due) = (Instant::now(), 0, 0);
        while start.elapsed() < how_long {
            due = (start.elapsed().as_secs_f64() / period * f64::from(count)) as u32;
            let until = due.min(queued + MESSAGES as u32);
            for place in queued..until {
                self.queue(first + place % count.max(1), refresh);
            }
            let is_behind = until < due;
            queued = until;
            self.flush();
            if self.receive()? == 0 && !is_behind {
                idle();
            }
            supervision.check_interrupted()?;
        }
        // RSVP does not answer refreshes.
        self.count_lost();
        Ok(Refreshed { sent: queued, due })
    }

    /// Refreshes each session that was set up once, at a pace that a daemon keeps, and waits until it is done.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn refresh_once(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        /// Time for a batch, 12 800 messages a second.
        const BATCH: Duration = Duration::from_millis(5);
        let (first, refresh) = (self.next, self.writer.protocol.refresh());
        let start = Instant::now();
        for (number, batch) in (0..count.div_ceil(MESSAGES as u32)).zip(1..) {
            let begin = number * MESSAGES as u32;
            for place in begin..count.min(begin + MESSAGES as u32) {
                self.queue(first + place, refresh);
            }
            self.flush();
            while start.elapsed() < BATCH * batch {
                if self.receive()? == 0 {
                    idle();
                }
            }
            supervision.check_interrupted()?;
        }
        let end = Instant::now();
        while end.elapsed() < QUIET {
            if self.receive()? == 0 {
                idle();
            }
        }
        self.count_lost();
        Ok(())
    }

    /// Receives what comes for a while.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn listen(&mut self, how_long: Duration, supervision: &Supervision<'_>) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < how_long {
            if self.receive()? == 0 {
                idle();
            }
            supervision.check_interrupted()?;
        }
        Ok(())
    }

    /// Releases the sessions of [`Sender::hold_sessions`].
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn release(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        // There may be more answers to refreshes than refreshes.
        self.reset_counters();
        let first = self.next;
        self.send_each(first, count, Step::Release, supervision)?;
        self.next = (first + count) % SESSIONS;
        Ok(())
    }

    /// Sends the message of one step for many sessions, with a limit of unanswered ones.
    fn send_each(
        &mut self,
        first: u32,
        count: u32,
        step: Step,
        supervision: &Supervision<'_>,
    ) -> Result<()> {
        for number in 0..count {
            self.queue(first + number, step);
            if self.queued.len() < MESSAGES {
                continue;
            }
            self.flush();
            self.await_answers(UNANSWERED, LONG_QUIET, supervision)?;
        }
        self.flush();
        self.await_answers(0, LONG_QUIET, supervision)
    }

    /// Offers pairs at a rate: a session is released a while after its set-up. Returns whether the pace was kept.
    fn offer_rate(
        &mut self,
        rate: u32,
        window: Duration,
        supervision: &Supervision<'_>,
    ) -> Result<bool> {
        let mut all = (window.as_secs_f64() * f64::from(rate)) as u32;
        let [shortest, longest] = LIFE;
        let life = (window / 2).clamp(shortest, longest);
        // A session is set up again after a second, long after its release.
        let (first, span) = (self.next, all.min(rate).clamp(1, SESSIONS));
        self.prepare(first, span, &[Step::SetUp, Step::Release]);
        let start = Instant::now();
        let due = |since: Duration| (since.as_secs_f64() * f64::from(rate)) as u32;
        let most = MESSAGES as u32 / 2;
        let (mut begun, mut released, mut in_time) = (0, 0, true);
        while released < all {
            let since = start.elapsed();
            // The load also ends if messages wait for as long as a second: two belong to each pair.
            let is_too_late =
                since > window.mul_f64(TOO_LATE) || self.under_way() > 2 * u64::from(rate);
            if begun < all && is_too_late {
                (all, in_time) = (begun, false);
            }
            let until = due(since).min(all).min(begun + most);
            for number in begun..until {
                self.queue(first + number % span, Step::SetUp);
            }
            if begun < until && until == all {
                in_time &= since <= window.mul_f64(LATE);
            }
            begun = begun.max(until);
            let until = due(since.saturating_sub(life)).min(begun).min(released + most);
            for number in released..until {
                self.queue(first + number % span, Step::Release);
            }
            released = released.max(until);
            let is_behind = self.queued.len() >= most as usize;
            self.flush();
            if self.receive()? == 0 && !is_behind {
                idle();
            }
            supervision.check_interrupted()?;
        }
        let sent = Instant::now();
        self.settle(supervision)?;
        in_time &= sent.elapsed() <= SOON;
        self.next = (first + span) % SESSIONS;
        Ok(in_time)
    }

    /// Waits until everything is through, or no more messages arrive.
    fn settle(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        self.await_answers(0, QUIET, supervision)
    }

    /// Waits until at most `most` messages are under way; gives them up when nothing has arrived for `quiet`.
    fn await_answers(
        &mut self,
        most: u64,
        quiet: Duration,
        supervision: &Supervision<'_>,
    ) -> Result<()> {
        let (mut last, mut seen) = (Instant::now(), self.progress());
        while self.under_way() > most {
            if self.receive()? == 0 {
                idle();
            }
            if self.progress() > seen {
                (last, seen) = (Instant::now(), self.progress());
            } else if last.elapsed() >= quiet {
                self.count_lost();
            }
            supervision.check_interrupted()?;
        }
        Ok(())
    }

    /// Number of messages that may still come through.
    fn under_way(&self) -> u64 {
        self.count.sent.saturating_sub(self.through() + self.count.given_up)
    }

    /// Counts all messages under way as lost.
    fn count_lost(&mut self) {
        self.is_behind |= self.under_way() > 0;
        self.count.given_up += self.under_way();
    }

    fn through(&self) -> u64 {
        self.count.answered + self.shared.arrived.load(Ordering::Relaxed)
    }

    /// Number of answers, of whatever kind, so far.
    fn progress(&self) -> u64 {
        self.through() + self.count.steps + self.shared.steps.load(Ordering::Relaxed)
    }

    /// Writes the messages of these sessions and steps in advance.
    fn prepare(&mut self, first: u32, count: u32, steps: &[Step]) {
        let numbers = (0..count).map(|number| (first + number) % SESSIONS);
        self.cache.prepare(self.writer, numbers, steps);
    }

    /// Sends a prepared message.
    fn queue(&mut self, number: u32, step: Step) {
        self.queued.push((number % SESSIONS, step));
    }

    /// Hands the outbox to the kernel.
    fn flush(&mut self) {
        let Sender { socket, cache, queued, .. } = self;
        let messages = queued.iter().map(|&(number, step)| cache.message(number, step));
        let mut unsent = 0;
        socket.send_all(messages, |_, _| unsent += 1);
        self.count.sent += queued.len() as u64 - unsent;
        self.count.unsent += unsent;
        queued.clear();
    }

    /// Receives answers; returns their number.
    fn receive(&mut self) -> Result<u64> {
        let Sender { socket, replies, outbox, count, .. } = self;
        let before = count.answered;
        match replies {
            ReplyReceiver::Signalling => {
                socket.receive(|message| {
                    count.answered += u64::from(is_resv(message.datagram.payload));
                })?;
            }
            ReplyReceiver::Echoes(echoes) => {
                echoes.receive(|packet| count.answered += u64::from(is_reply(packet)))?;
            }
            ReplyReceiver::Gist(initiator) => {
                socket.receive(|message| {
                    match initiator.handle(message.datagram.payload, outbox) {
                        SetUpProgress::Nothing => {}
                        SetUpProgress::Step => count.steps += 1,
                        SetUpProgress::Last => count.answered += 1,
                    }
                })?;
                // A message that cannot be sent leaves a set-up without an answer, which counts as lost.
                send(socket, outbox);
            }
        }
        Ok(count.answered - before)
    }
}

/// Hands an outbox to the kernel; returns the number of messages that the kernel rejected.
pub(super) fn send(socket: &mut SignallingSocket, outbox: &mut Effects<Infallible>) -> u64 {
    let mut unsent = 0;
    let messages = outbox.iter().filter_map(|effect| match effect {
        Effect::Send(out, range) => Some((out, outbox.octets(range))),
        _ => None,
    });
    socket.send_all(messages, |_, _| unsent += 1);
    outbox.clear();
    unsent
}

pub(super) fn idle() {
    std::thread::sleep(IDLE);
}

/// Opens the signalling socket of an end, for the messages that its protocol needs there.
pub(super) fn signalling(protocol: Protocol, interface: InterfaceId) -> Result<SignallingSocket> {
    let mut socket = SignallingSocket::open()?;
    if protocol == Protocol::Nsis {
        let how = InterfaceSignalling { gist: Gist::RouterAlert, ..InterfaceSignalling::default() };
        socket.set_interface(interface, how)?;
    }
    Ok(socket)
}

/// Opens a socket that receives echoes.
fn echoes() -> io::Result<DatagramReceiver> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::ICMPV4))?;
    DatagramReceiver::new(socket, LONGEST, RECEIVE_BUFFER)
}

/// Returns whether an RSVP message is a Resv, by its common header (RFC 2205 section 3.1.1).
fn is_resv(message: &[u8]) -> bool {
    message.get(1).is_some_and(|code| MessageType::from_code(*code) == MessageType::Resv)
}

/// Returns whether an IP packet is an echo reply that carries a Boomerang message.
fn is_reply(packet: &[u8]) -> bool {
    let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let message = packet.get(header..).unwrap_or_default();
    message.first() == Some(&PseudoHeader::V4.code(Kind::Reply))
        && message.get(HEADER..).is_some_and(|data| Reservation::parse(data).is_ok())
}
