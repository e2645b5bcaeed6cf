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
use super::load::{Course, Load};
use super::nsis::{Asking, Heard};
use super::prepared::Prepared;
use super::speaker::{Protocol, SESSIONS, Speaker, Step};

/// Messages that are sent before receiving.
const MESSAGES: usize = 64;
/// Sleep of an idle end. No wake-up is sent: messages that arrive meanwhile are received together, so that a message
/// costs neither the end nor the router a wake-up.
const NAP: Duration = Duration::from_micros(250);
/// Time without any message after which the missing ones count as lost.
const QUIET: Duration = Duration::from_millis(300);
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
const PATIENCE: Duration = Duration::from_secs(20);
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
pub(super) struct Shared {
    /// Messages without an answer that arrived at the destination.
    pub(super) arrived: AtomicU64,
    /// Messages that arrived there and continue a set-up.
    pub(super) steps: AtomicU64,
    pub(super) is_listening: AtomicBool,
    pub(super) is_over: AtomicBool,
}

impl Shared {
    /// Waits until the destination has its sockets open.
    pub(super) fn await_listener(&self) -> Result<()> {
        let give_up = Instant::now() + PATIENCE;
        while !self.is_listening.load(Ordering::Relaxed) {
            if Instant::now() >= give_up || self.is_over.load(Ordering::Relaxed) {
                bail!("the destination does not listen");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Stops the destination when dropped, however the sender ends.
pub(super) struct Ending<'s>(pub(super) &'s Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sender of a rate measurement.
pub struct Sender<'s> {
    speaker: &'s Speaker,
    shared: &'s Shared,
    socket: SignallingSocket,
    ear: Ear,
    prepared: Prepared,
    /// Messages to be sent next.
    said: Vec<(u32, Step)>,
    /// Messages to be sent before a set-up is answered.
    outbox: Effects<Infallible>,
    /// Next session to be set up.
    next: u32,
    count: Count,
    /// Whether late answers may still come.
    is_behind: bool,
}

/// Counts since a load began.
#[derive(Default)]
struct Count {
    sent: u64,
    unsent: u64,
    answered: u64,
    /// Messages received that continue a set-up.
    steps: u64,
    /// Messages that are no longer awaited.
    given_up: u64,
}

/// Receiver of answers.
enum Ear {
    /// Resvs; YESSIR has no answers.
    Plain,
    /// Echoes, which are not signalling for a host without a daemon.
    Echoes(Box<DatagramReceiver>),
    /// Messages of GIST, some of which need an answer themselves.
    Gist(Asking),
}

impl<'s> Sender<'s> {
    pub(super) fn open(
        speaker: &'s Speaker,
        interface: InterfaceId,
        shared: &'s Shared,
    ) -> Result<Sender<'s>> {
        let ear = match speaker.protocol {
            Protocol::Rsvp | Protocol::Yessir => Ear::Plain,
            Protocol::Boomerang => {
                Ear::Echoes(Box::new(echoes().context("the sender cannot hear echoes")?))
            }
            Protocol::Nsis => Ear::Gist(Asking::new(speaker)),
        };
        Ok(Sender {
            speaker,
            shared,
            socket: signalling(speaker.protocol, interface)
                .context("the sender cannot open its sockets")?,
            ear,
            prepared: Prepared::default(),
            said: Vec::new(),
            outbox: Effects::new(),
            next: 0,
            count: Count::default(),
            is_behind: false,
        })
    }

    /// Offers a load, and waits for the answers; afterwards releases all sessions.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn offer(&mut self, load: Load, supervision: &Supervision<'_>) -> Result<Course> {
        self.begin(supervision)?;
        let in_time = match load {
            Load::Burst(count) => {
                self.burst(count, supervision)?;
                true
            }
            Load::Rate { rate, window } => self.steadily(rate, window, supervision)?,
        };
        let Count { sent, unsent, .. } = self.count;
        Ok(Course { sent: sent + unsent, through: self.through(), in_time })
    }

    /// Starts the counts, once earlier messages have stopped.
    fn begin(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        if std::mem::take(&mut self.is_behind) {
            let start = Instant::now();
            let (mut last, mut seen) = (start, self.progress());
            while last.elapsed() < QUIET && start.elapsed() < STRAGGLERS {
                if self.receive()? == 0 {
                    nap();
                }
                if self.progress() > seen {
                    (last, seen) = (Instant::now(), self.progress());
                }
                supervision.go_on()?;
            }
        }
        self.count_anew();
        Ok(())
    }

    fn count_anew(&mut self) {
        self.count = Count::default();
        self.shared.arrived.store(0, Ordering::Relaxed);
        self.shared.steps.store(0, Ordering::Relaxed);
    }

    /// Sends all set-ups as fast as possible, then their releases.
    fn burst(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        let first = self.next;
        self.prepare(first, count, &[Step::SetUp, Step::Release]);
        if self.speaker.protocol == Protocol::Nsis {
            std::thread::sleep(ALLOWANCE);
        }
        for number in 0..count {
            self.say(first + number, Step::SetUp);
            if self.said.len() >= MESSAGES {
                self.flush();
                // Answers that are not received in time would be lost here, and not in the router.
                self.receive()?;
            }
        }
        self.flush();
        self.settle(supervision)?;
        self.say_all(first, count, Step::Release, supervision)?;
        self.next = (first + count) % SESSIONS;
        Ok(())
    }

    /// Sets up sessions, and refreshes each once in a period for a time; they stay. Returns whether the pace was
    /// kept.
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn stand(
        &mut self,
        count: u32,
        how_long: Duration,
        supervision: &Supervision<'_>,
    ) -> Result<bool> {
        self.begin(supervision)?;
        let (first, refresh) = (self.next, self.speaker.protocol.refresh());
        self.prepare(first, count, &[Step::SetUp, refresh, Step::Release]);
        self.say_all(first, count, Step::SetUp, supervision)?;
        let period = self.speaker.sessions.refresh.as_secs_f64();
        let (start, mut said) = (Instant::now(), 0);
        while start.elapsed() < how_long {
            let due = (start.elapsed().as_secs_f64() / period * f64::from(count)) as u32;
            let until = due.min(said + MESSAGES as u32);
            for place in said..until {
                self.say(first + place % count.max(1), refresh);
            }
            let is_behind = until < due;
            said = until;
            self.flush();
            if self.receive()? == 0 && !is_behind {
                nap();
            }
            supervision.go_on()?;
        }
        // RSVP does not answer refreshes.
        self.give_up();
        let due = how_long.as_secs_f64() / period * f64::from(count);
        Ok(f64::from(said) * LATE >= due)
    }

    /// Releases the sessions of [`Sender::stand`].
    ///
    /// # Errors
    /// A socket fails; the measurement was interrupted.
    pub fn release(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        // There may be more answers to refreshes than refreshes.
        self.count_anew();
        let first = self.next;
        self.say_all(first, count, Step::Release, supervision)?;
        self.next = (first + count) % SESSIONS;
        Ok(())
    }

    /// Sends the message of one step for many sessions, with a limit of unanswered ones.
    fn say_all(
        &mut self,
        first: u32,
        count: u32,
        step: Step,
        supervision: &Supervision<'_>,
    ) -> Result<()> {
        for number in 0..count {
            self.say(first + number, step);
            if self.said.len() < MESSAGES {
                continue;
            }
            self.flush();
            self.await_answers(UNANSWERED, supervision)?;
        }
        self.flush();
        self.settle(supervision)
    }

    /// Offers pairs at a rate: a session is released a while after its set-up. Returns whether the pace was kept.
    fn steadily(
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
                self.say(first + number % span, Step::SetUp);
            }
            if begun < until && until == all {
                in_time &= since <= window.mul_f64(LATE);
            }
            begun = begun.max(until);
            let until = due(since.saturating_sub(life)).min(begun).min(released + most);
            for number in released..until {
                self.say(first + number % span, Step::Release);
            }
            released = released.max(until);
            let is_behind = self.said.len() >= most as usize;
            self.flush();
            if self.receive()? == 0 && !is_behind {
                nap();
            }
            supervision.go_on()?;
        }
        let sent = Instant::now();
        self.settle(supervision)?;
        in_time &= sent.elapsed() <= SOON;
        self.next = (first + span) % SESSIONS;
        Ok(in_time)
    }

    /// Waits until everything is through, or no more messages arrive.
    fn settle(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        self.await_answers(0, supervision)
    }

    /// Waits until at most `most` messages are under way; gives up those for which no more answers arrive.
    fn await_answers(&mut self, most: u64, supervision: &Supervision<'_>) -> Result<()> {
        let (mut last, mut seen) = (Instant::now(), self.progress());
        while self.under_way() > most {
            if self.receive()? == 0 {
                nap();
            }
            if self.progress() > seen {
                (last, seen) = (Instant::now(), self.progress());
            } else if last.elapsed() >= QUIET {
                self.give_up();
            }
            supervision.go_on()?;
        }
        Ok(())
    }

    /// Number of messages that may still come through.
    fn under_way(&self) -> u64 {
        self.count.sent.saturating_sub(self.through() + self.count.given_up)
    }

    /// Counts all messages under way as lost.
    fn give_up(&mut self) {
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
        self.prepared.prepare(self.speaker, numbers, steps);
    }

    /// Sends a prepared message.
    fn say(&mut self, number: u32, step: Step) {
        self.said.push((number % SESSIONS, step));
    }

    /// Hands the outbox to the kernel.
    fn flush(&mut self) {
        let Sender { socket, prepared, said, .. } = self;
        let messages = said.iter().map(|&(number, step)| prepared.message(number, step));
        let mut unsent = 0;
        socket.send_all(messages, |_, _| unsent += 1);
        self.count.sent += said.len() as u64 - unsent;
        self.count.unsent += unsent;
        said.clear();
    }

    /// Receives answers; returns their number.
    fn receive(&mut self) -> Result<u64> {
        let Sender { socket, ear, outbox, count, .. } = self;
        let before = count.answered;
        match ear {
            Ear::Plain => {
                socket.receive(|message| {
                    count.answered += u64::from(is_resv(message.datagram.payload));
                })?;
            }
            Ear::Echoes(echoes) => {
                echoes.receive(|packet| count.answered += u64::from(is_reply(packet)))?;
            }
            Ear::Gist(asking) => {
                socket.receive(|message| match asking.hear(message.datagram.payload, outbox) {
                    Heard::Nothing => {}
                    Heard::Step => count.steps += 1,
                    Heard::Last => count.answered += 1,
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

pub(super) fn nap() {
    std::thread::sleep(NAP);
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
