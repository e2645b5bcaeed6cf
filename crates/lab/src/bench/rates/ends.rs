//! The sender of a measurement of rates: offers loads, and hears what comes of them.
//!
//! A message is through when it was answered, where the protocol answers (Resv; the echo of Boomerang, by the kernel of the
//! destination), or has come to the destination (PathTear; reports of YESSIR).

use std::convert::Infallible;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_core::{Effect, Effects};
use earmark_linux::SignallingSocket;
use earmark_wire::boomerang::Reservation;
use earmark_wire::icmp::{Ends, HEADER, Kind};
use earmark_wire::rsvp::{Body, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

use super::super::Supervision;
use super::speaker::{Protocol, SESSIONS, Speaker, Step};

/// Messages that are sent before receiving has its turn.
const MESSAGES: usize = 64;
/// The longest wait for a message.
pub(super) const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };
/// What has not come when nothing more came for so long is lost.
const QUIET: Duration = Duration::from_millis(300);
/// Releases that are under way at a time after a burst: it is not they that are measured.
const UNANSWERED: u64 = 500;
/// A session is released so long after it was set up.
const LIFE: Duration = Duration::from_millis(100);
/// How long the other end may take to open its sockets.
const PATIENCE: Duration = Duration::from_secs(20);
/// A sender that takes longer than this by so much has not offered a rate.
const LATE: f64 = 1.05;
/// And one that takes so much longer is not let go on.
const TOO_LATE: f64 = 1.25;
/// What was offered at a rate has to be through so soon afterwards, or it was not sustained but only put off.
const SOON: Duration = Duration::from_millis(50);
/// Octets of the kernel that may wait at an end.
pub(super) const RECEIVE_BUFFER: usize = 32 << 20;
/// Octets of the longest message of a test.
pub(super) const LONGEST: usize = 2_048;

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many set-ups at once.
    Burst(u32),
    /// So many pairs of a set-up and a release a second, for so long.
    Rate {
        /// Pairs a second.
        rate: u32,
        /// For how long.
        window: Duration,
    },
}

impl Load {
    /// For people.
    pub fn describe(self) -> String {
        match self {
            Load::Burst(count) => format!("{count} set-ups at once"),
            Load::Rate { rate, window } => {
                format!("{rate} set-ups and releases a second for {:.1} s", window.as_secs_f64())
            }
        }
    }
}

/// What became of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Messages that were sent.
    pub sent: u64,
    /// Those that came through.
    pub through: u64,
    /// Whether they were sent as fast as they should have been, and did not wait for long.
    pub in_time: bool,
}

impl Course {
    /// Whether the load went through.
    pub fn is_whole(&self) -> bool {
        self.through == self.sent && self.in_time
    }
}

/// What both ends know of each other.
#[derive(Default)]
pub(super) struct Shared {
    /// Messages that came to the destination and have no answer.
    pub(super) arrived: AtomicU64,
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

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The sender.
pub struct Sender<'s> {
    speaker: &'s Speaker,
    shared: &'s Shared,
    socket: SignallingSocket,
    /// Hears echoes, where the protocol lives on them.
    echoes: Option<Socket>,
    outbox: Effects<Infallible>,
    message: Vec<u8>,
    /// The next session to be set up.
    next: u32,
    answered: u64,
    sent: u64,
    unsent: u64,
    /// Messages of which nothing more is awaited.
    given_up: u64,
}

impl<'s> Sender<'s> {
    pub(super) fn open(speaker: &'s Speaker, shared: &'s Shared) -> Result<Sender<'s>> {
        let echoes = (speaker.protocol == Protocol::Boomerang).then(echoes).transpose();
        Ok(Sender {
            speaker,
            shared,
            socket: SignallingSocket::open().context("the sender cannot open its sockets")?,
            echoes: echoes.context("the sender cannot hear echoes")?,
            outbox: Effects::new(),
            message: Vec::new(),
            next: 0,
            answered: 0,
            sent: 0,
            unsent: 0,
            given_up: 0,
        })
    }

    /// Offers a load, and waits for what comes of it; afterwards all sessions are released.
    ///
    /// # Errors
    /// A socket fails; it was interrupted.
    pub fn offer(&mut self, load: Load, supervision: &Supervision<'_>) -> Result<Course> {
        let (sent, through, unsent) = (self.sent, self.through(), self.unsent);
        let in_time = match load {
            Load::Burst(count) => {
                self.burst(count, supervision)?;
                true
            }
            Load::Rate { rate, window } => self.steadily(rate, window, supervision)?,
        };
        let (sent, unsent) = (self.sent - sent, self.unsent - unsent);
        Ok(Course { sent: sent + unsent, through: self.through() - through, in_time })
    }

    /// All set-ups as fast as they can be sent, then their releases.
    fn burst(&mut self, count: u32, supervision: &Supervision<'_>) -> Result<()> {
        let first = self.next;
        for number in 0..count {
            self.say(first + number, Step::SetUp);
            if self.outbox.len() >= MESSAGES {
                self.flush();
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
        let first = self.next;
        self.say_all(first, count, Step::SetUp, supervision)?;
        let period = self.speaker.sessions.refresh.as_secs_f64();
        let (start, mut said) = (Instant::now(), 0);
        while start.elapsed() < how_long {
            let due = (start.elapsed().as_secs_f64() / period * f64::from(count)) as u32;
            let until = due.min(said + MESSAGES as u32);
            for place in said..until {
                self.say(first + place % count.max(1), Step::SetUp);
            }
            let is_idle = said == until;
            said = until;
            self.flush();
            if self.receive()? == 0 && is_idle {
                self.nap()?;
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
            if self.outbox.len() < MESSAGES {
                continue;
            }
            self.flush();
            let mut last = Instant::now();
            while self.under_way() > UNANSWERED {
                if self.receive()? > 0 {
                    last = Instant::now();
                } else if last.elapsed() < QUIET {
                    self.nap()?;
                } else {
                    self.give_up();
                }
            }
            supervision.go_on()?;
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
        let (first, start) = (self.next, Instant::now());
        let mut all = (window.as_secs_f64() * f64::from(rate)) as u32;
        let due = |since: Duration| (since.as_secs_f64() * f64::from(rate)) as u32;
        let most = MESSAGES as u32 / 2;
        let (mut begun, mut released, mut in_time) = (0, 0, true);
        while released < all {
            let since = start.elapsed();
            if begun < all && since > window.mul_f64(TOO_LATE) {
                (all, in_time) = (begun, false);
            }
            let until = due(since).min(all).min(begun + most);
            for number in begun..until {
                self.say(first + number, Step::SetUp);
            }
            if begun < until && until == all {
                in_time &= since <= window.mul_f64(LATE);
            }
            begun = begun.max(until);
            let until = due(since.saturating_sub(LIFE)).min(begun).min(released + most);
            for number in released..until {
                self.say(first + number, Step::Release);
            }
            released = released.max(until);
            let is_idle = self.outbox.is_empty();
            self.flush();
            if self.receive()? == 0 && is_idle {
                self.nap()?;
            }
            supervision.go_on()?;
        }
        let sent = Instant::now();
        self.settle(supervision)?;
        in_time &= sent.elapsed() <= SOON;
        self.next = (first + all) % SESSIONS;
        Ok(in_time)
    }

    /// Waits until all is through, or nothing more comes.
    fn settle(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        let (mut last, mut seen) = (Instant::now(), self.through());
        while self.under_way() > 0 && last.elapsed() < QUIET {
            if self.receive()? == 0 {
                self.nap()?;
            }
            if self.through() > seen {
                (last, seen) = (Instant::now(), self.through());
            }
            supervision.go_on()?;
        }
        self.give_up();
        Ok(())
    }

    /// Messages that may still come through.
    fn under_way(&self) -> u64 {
        self.sent.saturating_sub(self.through() + self.given_up)
    }

    /// What is still under way is lost.
    fn give_up(&mut self) {
        self.given_up += self.under_way();
    }

    fn through(&self) -> u64 {
        self.answered + self.shared.arrived.load(Ordering::Relaxed)
    }

    fn say(&mut self, number: u32, step: Step) {
        let out = self.speaker.write(number % SESSIONS, step, &mut self.message);
        self.outbox.send(out, self.message.len()).copy_from_slice(&self.message);
    }

    /// Hands the kernel what is to be sent.
    fn flush(&mut self) {
        let count = self.outbox.len() as u64;
        let unsent = send(&mut self.socket, &mut self.outbox);
        self.sent += count - unsent;
        self.unsent += unsent;
    }

    /// Takes answers in; gives how many.
    fn receive(&mut self) -> Result<u64> {
        let before = self.answered;
        if let Some(echoes) = &self.echoes {
            self.answered += hear(echoes)?;
            return Ok(self.answered - before);
        }
        let answered = &mut self.answered;
        self.socket.receive(|message| {
            let message = Message::parse(message.datagram.payload);
            *answered += u64::from(matches!(message.map(|it| it.body), Ok(Body::Resv(_))));
        })?;
        Ok(self.answered - before)
    }

    fn nap(&self) -> Result<()> {
        match &self.echoes {
            Some(echoes) => nap(echoes),
            None => nap(&self.socket),
        }
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

pub(super) fn nap(source: &impl AsFd) -> Result<()> {
    match poll(&mut [PollFd::new(source, PollFlags::IN)], Some(&NAP)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A socket that hears echoes.
fn echoes() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::ICMPV4))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Replies of Boomerang that are waiting, up to a batch: how many.
fn hear(mut echoes: &Socket) -> Result<u64> {
    let (mut octets, mut count) = ([0; LONGEST], 0);
    for _ in 0..MESSAGES {
        match echoes.read(&mut octets) {
            Ok(length) => count += u64::from(is_reply(&octets[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count)
}

/// Whether an IP packet is a reply with a message of Boomerang in it.
fn is_reply(packet: &[u8]) -> bool {
    let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let message = packet.get(header..).unwrap_or_default();
    message.first() == Some(&Ends::V4.code(Kind::Reply))
        && message.get(HEADER..).is_some_and(|data| Reservation::parse(data).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_whole_when_all_of_it_came_through_in_time() {
        let course = Course { sent: 10, through: 10, in_time: true };
        assert!(course.is_whole());
        assert!(!Course { through: 9, ..course }.is_whole());
        assert!(!Course { in_time: false, ..course }.is_whole());
        assert_eq!(Load::Burst(7).describe(), "7 set-ups at once");
    }
}
