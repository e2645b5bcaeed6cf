//! The sender of a measurement of rates: offers loads, and hears what comes of them.
//!
//! A message is through when it was answered, where the protocol answers (Resv; the echo of Boomerang, by the kernel of the
//! destination), or has come to the destination (PathTear; reports of YESSIR).

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_core::{Effect, Effects, InterfaceId};
use earmark_linux::inbox::Inbox;
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

/// Messages that are sent before receiving has its turn.
const MESSAGES: usize = 64;
/// How long an end sleeps that has nothing to do. Nobody wakes it: what comes meanwhile is taken together, so that a message costs neither
/// the end nor the router a wake-up.
const NAP: Duration = Duration::from_micros(250);
/// What has not come when nothing more came for so long is lost.
const QUIET: Duration = Duration::from_millis(300);
/// How long a node of GIST has to be silent until it may send again all that it may send in a second (RFC 5971 section 5.3.3).
const ALLOWANCE: Duration = Duration::from_secs(1);
/// How long answers are taken in that come too late to count.
const STRAGGLERS: Duration = Duration::from_secs(5);
/// Releases that are under way at a time after a burst: it is not they that are measured.
const UNANSWERED: u64 = 500;
/// A session is released half the time after its set-up that a rate is offered for, within these bounds: a message that waits for longer is
/// overtaken, and so is lost.
const LIFE: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// How long the other end may take to open its sockets.
const PATIENCE: Duration = Duration::from_secs(20);
/// A sender that takes longer than this by so much has not offered a rate.
const LATE: f64 = 1.05;
/// And one that takes so much longer is not let go on.
const TOO_LATE: f64 = 1.25;
/// What was offered at a rate has to be through so soon afterwards, or it was not sustained but only put off.
const SOON: Duration = Duration::from_millis(50);
/// Octets of the kernel that may wait at an end.
pub(super) const RECEIVE_BUFFER: i32 = 32 << 20;
/// Octets of the longest message of a test.
pub(super) const LONGEST: usize = 2_048;

/// What both ends know of each other.
#[derive(Default)]
pub(super) struct Shared {
    /// Messages that came to the destination and have no answer.
    pub(super) arrived: AtomicU64,
    /// And those after which a set-up goes on.
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

/// Ends the destination when it is dropped, in whatever way the sender came to its end.
pub(super) struct Ending<'s>(pub(super) &'s Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// The sender.
pub struct Sender<'s> {
    speaker: &'s Speaker,
    shared: &'s Shared,
    socket: SignallingSocket,
    ear: Ear,
    prepared: Prepared,
    /// What is sent next.
    said: Vec<(u32, Step)>,
    /// What has to be said before a set-up is answered.
    outbox: Effects<Infallible>,
    /// The next session to be set up.
    next: u32,
    count: Count,
    /// Whether answers may still come that nobody awaits any more.
    is_behind: bool,
}

/// What was counted since a load began.
#[derive(Default)]
struct Count {
    sent: u64,
    unsent: u64,
    answered: u64,
    /// Messages that were heard, after which a set-up goes on.
    steps: u64,
    /// Messages of which nothing more is awaited.
    given_up: u64,
}

/// How the sender hears answers.
enum Ear {
    /// Resvs; of YESSIR there is nothing to hear.
    Plain,
    /// Echoes, which are no signalling for a host without a daemon.
    Echoes(Box<Inbox>),
    /// Messages of GIST, some of which want an answer themselves.
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

    /// Offers a load, and waits for what comes of it; afterwards all sessions are released.
    ///
    /// # Errors
    /// A socket fails; it was interrupted.
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

    /// Begins to count, once nothing comes any more of what was before.
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

    /// All set-ups as fast as they can be sent, then their releases.
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
                // Answers that nobody took would be lost here, and not in the router.
                self.receive()?;
            }
        }
        self.flush();
        self.settle(supervision)?;
        self.say_all(first, count, Step::Release, supervision)?;
        self.next = (first + count) % SESSIONS;
        Ok(())
    }

    /// Sets so many sessions up, and refreshes each once in a period for so long; they stay. Gives whether the pace was kept.
    ///
    /// # Errors
    /// A socket fails; it was interrupted.
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
        // Nobody answers a refresh with RSVP.
        self.give_up();
        let due = how_long.as_secs_f64() / period * f64::from(count);
        Ok(f64::from(said) * LATE >= due)
    }

    /// Releases sessions that stand.
    ///
    /// # Errors
    /// A socket fails; it was interrupted.
    pub fn release(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        // Refreshes may have been answered more often than they were sent.
        self.count_anew();
        let first = self.next;
        self.say_all(first, count, Step::Release, supervision)?;
        self.next = (first + count) % SESSIONS;
        Ok(())
    }

    /// Says the same of many sessions, with so many unanswered.
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

    /// Pairs, at a rate: a session is released a while after it was set up. Gives whether the pace was kept.
    fn steadily(
        &mut self,
        rate: u32,
        window: Duration,
        supervision: &Supervision<'_>,
    ) -> Result<bool> {
        let mut all = (window.as_secs_f64() * f64::from(rate)) as u32;
        let [shortest, longest] = LIFE;
        let life = (window / 2).clamp(shortest, longest);
        // A session is set up again when it has long been released: after a second.
        let (first, span) = (self.next, all.min(rate).clamp(1, SESSIONS));
        self.prepare(first, span, &[Step::SetUp, Step::Release]);
        let start = Instant::now();
        let due = |since: Duration| (since.as_secs_f64() * f64::from(rate)) as u32;
        let most = MESSAGES as u32 / 2;
        let (mut begun, mut released, mut in_time) = (0, 0, true);
        while released < all {
            let since = start.elapsed();
            // Nor one whose messages wait for as long as a second: two belong to each pair.
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

    /// Waits until all is through, or nothing more comes.
    fn settle(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        self.await_answers(0, supervision)
    }

    /// Waits until no more than so many messages are under way; those of which nothing more comes are given up.
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

    /// Messages that may still come through.
    fn under_way(&self) -> u64 {
        self.count.sent.saturating_sub(self.through() + self.count.given_up)
    }

    /// What is still under way is lost.
    fn give_up(&mut self) {
        self.is_behind |= self.under_way() > 0;
        self.count.given_up += self.under_way();
    }

    fn through(&self) -> u64 {
        self.count.answered + self.shared.arrived.load(Ordering::Relaxed)
    }

    /// All that has come of what was said.
    fn progress(&self) -> u64 {
        self.through() + self.count.steps + self.shared.steps.load(Ordering::Relaxed)
    }

    /// Writes what will be said of so many sessions.
    fn prepare(&mut self, first: u32, count: u32, steps: &[Step]) {
        let numbers = (0..count).map(|number| (first + number) % SESSIONS);
        self.prepared.prepare(self.speaker, numbers, steps);
    }

    /// Says something that was prepared.
    fn say(&mut self, number: u32, step: Step) {
        self.said.push((number % SESSIONS, step));
    }

    /// Hands the kernel what is to be sent.
    fn flush(&mut self) {
        let Sender { socket, prepared, said, .. } = self;
        let messages = said.iter().map(|&(number, step)| prepared.message(number, step));
        let mut unsent = 0;
        socket.send_all(messages, |_, _| unsent += 1);
        self.count.sent += said.len() as u64 - unsent;
        self.count.unsent += unsent;
        said.clear();
    }

    /// Takes answers in; gives how many.
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
                // What cannot be sent is a set-up without an answer, and so counts as lost.
                send(socket, outbox);
            }
        }
        Ok(count.answered - before)
    }
}

/// Hands the kernel what is to be sent; gives how much of it the kernel would not take.
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

/// The signalling socket of an end, which hears what its protocol wants heard.
pub(super) fn signalling(protocol: Protocol, interface: InterfaceId) -> Result<SignallingSocket> {
    let mut socket = SignallingSocket::open()?;
    if protocol == Protocol::Nsis {
        let how = InterfaceSignalling { gist: Gist::RouterAlert, ..InterfaceSignalling::default() };
        socket.set_interface(interface, how)?;
    }
    Ok(socket)
}

/// A socket that hears echoes.
fn echoes() -> io::Result<Inbox> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::ICMPV4))?;
    Inbox::new(socket, LONGEST, RECEIVE_BUFFER)
}

/// Whether a message of RSVP is a Resv, by its common header (RFC 2205 section 3.1.1).
fn is_resv(message: &[u8]) -> bool {
    message.get(1).is_some_and(|code| MessageType::from_code(*code) == MessageType::Resv)
}

/// Whether an IP packet is a reply with a message of Boomerang in it.
fn is_reply(packet: &[u8]) -> bool {
    let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let message = packet.get(header..).unwrap_or_default();
    message.first() == Some(&PseudoHeader::V4.code(Kind::Reply))
        && message.get(HEADER..).is_some_and(|data| Reservation::parse(data).is_ok())
}
