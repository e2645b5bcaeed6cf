//! A light host: the end of many sessions at once, without a daemon.
//!
//! A measurement needs two ends that cost little beside the daemons between them. Each is a process of its own in the
//! namespace of its host. Each uses the same formats and sockets as a daemon, and records two times of each session:
//! its begin here, and its completion.
//!
//! | | begins with | completes with | refreshes | answers |
//! |---|---|---|---|---|
//! | sender | its first Path | the first Resv | its Path | a Resv that requests a confirmation, with a ResvConf |
//! | receiver | the first Path | the ResvConf | its Resv | the first Path, with a Resv |
//!
//! Hosts refresh as in RFC 2205 section 3.7, each session at random intervals of 0.5 R to 1.5 R, and have no other
//! means against loss. Every 50 ms a host writes a line of JSON about its progress to standard output; when its
//! standard input ends, it writes a last line with all times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Datagram, Effect, Effects, Neighbor, Outgoing, Time};
use earmark_linux::SignallingSocket;
use earmark_rsvp::{Bundler, Envelope};
use earmark_wire::rsvp::{Body, Message, RsvpHop};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::refresh_reduction::{ReductionObject, RefreshReduction, reduction_objects};
use super::session::{NEIGHBOR_TTL, Sessions, TTL, envelope};
use earmark_lab::traffic::now;

/// IP protocol number of RSVP.
const RSVP: u8 = 46;
/// Batches of messages that are read before sending.
const BATCHES: usize = 8;
/// Messages that are sent before reading.
const MESSAGES: usize = 64;
/// Interval of progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
/// Largest IP packet of the link, octets.
const MTU: u32 = 1_500;
/// Longest wait for a message, so that the end of the standard input is noticed.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Parameters of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostPlan {
    /// Role of the host.
    pub end: End,
    /// Sessions of the host.
    pub sessions: Sessions,
    /// Address of the host.
    pub here: Ipv4Addr,
}

/// Role of a host in its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum End {
    /// A sender, which offers its sessions in this way.
    Sender(Offer),
    /// A receiver, which answers.
    Receiver,
}

/// Rate at which sessions are offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Sessions per second.
    Rate(u32),
    /// As fast as possible with at most this number unanswered.
    Unanswered(u32),
    /// All at once.
    Flood,
}

impl Offer {
    /// Returns a description for tables.
    pub fn describe(self) -> String {
        match self {
            Offer::Rate(rate) => format!("{rate}/s"),
            Offer::Unanswered(most) => format!("{most} unanswered"),
            Offer::Flood => "all at once".to_owned(),
        }
    }
}

/// Progress of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Sessions begun.
    pub begun: u32,
    /// Sessions completed.
    pub done: u32,
    /// Messages that the socket rejected.
    pub unsent: u64,
    /// Messages lost because the socket's receive buffer was full.
    pub overflowed: u64,
    /// Error messages received; none are expected.
    pub errors: u64,
}

/// Final result of a host. Times are nanoseconds of the machine's monotonic clock, by session, 0 for never.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostResult {
    /// Final progress.
    pub progress: Progress,
    /// Begin of each session.
    pub begun: Vec<u64>,
    /// Completion of each session.
    pub done: Vec<u64>,
}

/// A line of a host's output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLine {
    /// Progress while the host runs.
    Progress(Progress),
    /// The last line.
    HostResult(HostResult),
}

/// Runs a host in this network namespace until its standard input ends.
///
/// # Errors
/// The sockets cannot be opened, or fail; or the standard output is closed.
pub fn run(plan: HostPlan) -> Result<()> {
    let mut host = Host::new(plan)?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new()); // an error is an end too
        end.store(true, Ordering::Relaxed);
    });
    let mut reported = Time::ZERO;
    while !ended.load(Ordering::Relaxed) {
        let busy = host.turn()?;
        let now = now();
        if now.since(reported) >= PROGRESS_INTERVAL {
            reported = now;
            write_line(&OutputLine::Progress(host.progress()))?;
        }
        if !busy {
            let socket = host.socket.as_fd();
            poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&IDLE))?;
        }
    }
    write_line(&OutputLine::HostResult(host.result()))
}

fn write_line(line: &OutputLine) -> Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

/// State of a session at this host.
#[derive(Clone, Copy, Debug)]
struct SessionTimes {
    begun: Time,
    done: Time,
    /// Previous hop, at a receiver.
    hop: Option<RsvpHop>,
}

/// A received message to be handled once the socket is free again.
#[derive(Clone, Copy, Debug)]
enum Received {
    Path(u32, RsvpHop),
    Resv(u32, Option<IpAddr>),
    Confirmation(u32),
    Error,
    Reduction(ReductionObject),
}

struct Host {
    plan: HostPlan,
    socket: SignallingSocket,
    sessions: Vec<SessionTimes>,
    /// Next refresh of each session, earliest first.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    /// State of refresh reduction, if the host supports it.
    reduction: Option<RefreshReduction>,
    random: Stream,
    start: Time,
    received: Vec<Received>,
    /// Messages to be sent at the end of a turn.
    outbox: Effects<Infallible>,
    /// Bundles messages to the neighbor as a daemon does, if the neighbor supports refresh reduction.
    bundler: Bundler,
    /// Buffer of a message before it enters the outbox.
    message: Vec<u8>,
    progress: Progress,
}

impl Host {
    fn new(plan: HostPlan) -> Result<Host> {
        let unknown = SessionTimes { begun: Time::ZERO, done: Time::ZERO, hop: None };
        Ok(Host {
            socket: SignallingSocket::open()?,
            sessions: vec![unknown; plan.sessions.count as usize],
            due: BinaryHeap::new(),
            reduction: plan
                .sessions
                .reduction
                .then(|| RefreshReduction::new(plan.sessions.count, plan.sessions.refresh)),
            random: RandomStreams::new(u64::from(u32::from(plan.here))).stream("refresh"),
            start: now(),
            received: Vec::new(),
            outbox: Effects::new(),
            bundler: Bundler::default(),
            message: Vec::new(),
            progress: Progress::default(),
            plan,
        })
    }

    /// Runs one turn of all tasks; returns whether there was something to do.
    fn turn(&mut self) -> Result<bool> {
        let mut busy = false;
        for _ in 0..BATCHES {
            if !self.receive()? {
                break;
            }
            busy = true;
        }
        if let End::Sender(offer) = self.plan.end {
            busy |= self.offer(offer);
        }
        busy |= self.reduction();
        busy |= self.refresh();
        self.flush();
        Ok(busy)
    }

    fn receive(&mut self) -> Result<bool> {
        let Host { socket, received, plan, .. } = self;
        let count = socket.receive(|message| parse_actions(plan, &message.datagram, received))?;
        let mut received = std::mem::take(&mut self.received);
        let now = now();
        for received in received.drain(..) {
            self.handle(received, now);
        }
        self.received = received;
        self.flush();
        Ok(count > 0)
    }

    fn handle(&mut self, received: Received, now: Time) {
        match received {
            Received::Path(number, hop) => match self.sessions[number as usize].hop.replace(hop) {
                None => {
                    self.sessions[number as usize].begun = now;
                    self.progress.begun += 1;
                    self.begin(number, now);
                }
                // The previous hop has restarted or changed: a Resv goes there at once (RFC 2209, PATH MESSAGE
                // ARRIVES).
                Some(before) if before != hop => {
                    if let Some(reduction) = &mut self.reduction {
                        reduction.forget(number);
                    }
                    self.send_own(number);
                }
                Some(_) => {}
            },
            Received::Resv(number, confirm) => {
                self.is_done(number, now);
                if let Some(receiver) = confirm {
                    self.plan.sessions.resv_conf(number, receiver, &mut self.message);
                    self.send(self.plan.here.into(), receiver, true);
                }
            }
            Received::Confirmation(number) => self.is_done(number, now),
            Received::Error => self.progress.errors += 1,
            Received::Reduction(reduction_objects) => {
                let again = self
                    .reduction
                    .as_mut()
                    .and_then(|reduction| reduction.handle(reduction_objects));
                if let Some(number) = again {
                    self.send_own(number);
                }
            }
        }
    }

    fn is_done(&mut self, number: u32, now: Time) {
        let session = &mut self.sessions[number as usize];
        if session.done == Time::ZERO {
            session.done = now;
            self.progress.done += 1;
        }
    }

    /// Offers the sessions that are due.
    fn offer(&mut self, offer: Offer) -> bool {
        let now = now();
        let count = self.plan.sessions.count;
        let due = match offer {
            Offer::Rate(rate) => {
                let due = now.since(self.start).as_secs_f64() * f64::from(rate);
                count.min(due as u32)
            }
            Offer::Unanswered(most) => count.min(self.progress.done.saturating_add(most)),
            Offer::Flood => count,
        };
        let numbers = self.progress.begun..due.min(self.progress.begun + MESSAGES as u32);
        let is_any = !numbers.is_empty();
        for number in numbers {
            self.sessions[number as usize].begun = now;
            self.progress.begun += 1;
            self.begin(number, now);
        }
        is_any
    }

    /// Refreshes the sessions that are due.
    fn refresh(&mut self) -> bool {
        let now = now();
        let mut count = 0;
        while count < MESSAGES
            && let Some(&Reverse((due, number))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            self.schedule(number, now);
            if self.reduction.as_ref().is_some_and(|reduction| reduction.is_listed(number)) {
                continue;
            }
            self.send_own(number);
            count += 1;
        }
        count > 0
    }

    /// Sends acknowledgements and summary refreshes; returns whether any were due.
    fn reduction(&mut self) -> bool {
        let now = now();
        let mut reduction_objects = false;
        while let Some(reduction) = &mut self.reduction
            && let Some(neighbor) = reduction.write_next(now, &mut self.message)
        {
            self.send(self.plan.here.into(), neighbor, false);
            reduction_objects = true;
        }
        reduction_objects
    }

    /// Sends this end's first message about a session.
    fn begin(&mut self, number: u32, now: Time) {
        self.send_own(number);
        self.schedule(number, now);
    }

    /// Sends this end's message about a session.
    fn send_own(&mut self, number: u32) {
        let SessionTimes { done, hop, .. } = self.sessions[number as usize];
        let here = self.plan.here.into();
        match hop {
            None => {
                self.plan.sessions.path(number, &mut self.message);
                let (session, _) = self.plan.sessions.names(number);
                self.send(here, session.destination, true);
            }
            Some(hop) => {
                let confirm = done == Time::ZERO;
                self.plan.sessions.resv(number, here, hop.lih, confirm, &mut self.message);
                self.send(here, hop.address, false);
            }
        }
    }

    /// Schedules the next refresh of a session. Each session has one scheduled refresh at any time, however often it
    /// is sent meanwhile.
    fn schedule(&mut self, number: u32, now: Time) {
        let period = self.plan.sessions.refresh;
        let pause = self.random.uniform(period / 2, period * 3 / 2);
        self.due.push(Reverse((now + pause, number)));
    }

    fn send(&mut self, source: IpAddr, destination: IpAddr, router_alert: bool) {
        let out = Outgoing {
            router_alert,
            ttl: if router_alert { TTL } else { NEIGHBOR_TTL },
            // All messages go to the only neighbor.
            neighbor: self.reduction.as_ref().and_then(RefreshReduction::neighbor),
            ..envelope(RSVP, source, destination)
        };
        self.outbox.send(out, self.message.len()).copy_from_slice(&self.message);
    }

    /// Hands the outbox to the kernel.
    fn flush(&mut self) {
        let Host { socket, outbox, bundler, progress, plan, .. } = self;
        let (source, flags) = (plan.here.into(), Message::REFRESH_REDUCTION);
        bundler.bundle(outbox, |_| Some(Envelope { source, flags, mtu: MTU, is_first: false }));
        let messages = outbox.iter().filter_map(|effect| match effect {
            Effect::Send(out, range) => Some((out, outbox.octets(range))),
            _ => None,
        });
        socket.send_all(messages, |_, _| progress.unsent += 1);
        outbox.clear();
    }

    fn progress(&self) -> Progress {
        Progress { overflowed: self.socket.counters().overflowed, ..self.progress }
    }

    fn result(&self) -> HostResult {
        HostResult {
            progress: self.progress(),
            begun: self.sessions.iter().map(|session| session.begun.as_nanos()).collect(),
            done: self.sessions.iter().map(|session| session.done.as_nanos()).collect(),
        }
    }
}

/// Parses a message into the actions of this end; messages for others have none.
fn parse_actions(plan: &HostPlan, datagram: &Datagram<'_>, received: &mut Vec<Received>) {
    let Ok(message) = Message::parse(datagram.payload) else {
        return received.push(Received::Error);
    };
    let address = match &message.body {
        Body::Bundle(bundle) => {
            for payload in bundle.iter() {
                parse_actions(plan, &Datagram { payload, ..*datagram }, received);
            }
            return;
        }
        Body::Path(path) => path.hop.address,
        Body::Resv(resv) => resv.hop.address,
        _ => datagram.source,
    };
    let maker = Neighbor { interface: datagram.interface, address };
    received.extend(reduction_objects(&message, maker).map(Received::Reduction));
    let Some(number) = message.body.session().and_then(|session| plan.sessions.number(session))
    else {
        return;
    };
    received.extend(match (plan.end, &message.body) {
        (End::Receiver, Body::Path(path)) => Some(Received::Path(number, path.hop)),
        (End::Receiver, Body::ResvConf(_)) => Some(Received::Confirmation(number)),
        (End::Sender(_), Body::Resv(resv)) => Some(Received::Resv(number, resv.confirm)),
        (_, Body::PathErr(_) | Body::ResvErr(_)) => Some(Received::Error),
        _ => None,
    });
}
