//! The initiator of Ping NSLP: sends messages, receives them back, and evaluates their records.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::timer::{TimerId, TimingWheel};
use earmark_core::{Rate, Time};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::ping_nslp::{self as wire, Ping, Record, STANDARD, Timestamp, WITH_BANDWIDTH};

use super::api::{Application, Command, Event, Rejection, Request, Visit};
use super::config::Config;
use super::counters::Counters;
use super::node_record::{available, timestamp};
use crate::nslp::{HandlerContext, Received, SendFailure, SendMessage};
use crate::session::SessionIds;

/// Limit of timers for one call of [`Initiator::expire`].
const MAX_TIMERS_PER_CALL: usize = 64;

/// Requests of this node.
#[derive(Debug)]
pub(super) struct Initiator {
    config: Config,
    ids: SessionIds,
    /// Applications by session. The map is ordered, because peers choose the keys of lookups.
    sessions: BTreeMap<SessionId, Application>,
    asked: BTreeMap<Application, PendingQuery>,
    timers: TimingWheel<TimerPurpose>,
}

/// The request of an application.
#[derive(Debug)]
struct PendingQuery {
    request: Request,
    session: SessionId,
    mri: Mri,
    /// Number of messages sent; the number of the last one.
    sent: u32,
    /// Timer of the next message, if there is one.
    next: Option<TimerId>,
    /// Unanswered messages by number: when they were sent, and their timeout.
    outstanding: BTreeMap<u32, (Time, TimerId)>,
}

/// Purpose of a timer.
#[derive(Clone, Copy, Debug)]
enum TimerPurpose {
    /// The next message is due.
    Next(Application),
    /// A message has timed out.
    Answer(Application, u32),
}

impl Initiator {
    pub(super) fn new(config: Config, random: &RandomStreams) -> Initiator {
        Initiator {
            config,
            ids: SessionIds::new(random, "ping"),
            sessions: BTreeMap::new(),
            asked: BTreeMap::new(),
            timers: TimingWheel::new(),
        }
    }

    /// Returns whether this node has created a session.
    pub(super) fn knows(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Returns whether a message about a known session may be an answer: by the routing state of the session, and
    /// secured if the request was.
    pub(super) fn may_answer(&self, message: &Received<'_>) -> bool {
        let application = self.sessions.get(&message.session);
        let Some(asked) = application.and_then(|application| self.asked.get(application)) else {
            return false;
        };
        let is_secured = message.origin.channel.is_secured();
        message.mri == asked.mri.inverted()
            && !message.explicitly_routed
            && (is_secured || !asked.request.attributes.secure)
    }

    pub(super) fn applications(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    pub(super) fn command(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        counters: &mut Counters,
        command: Command,
    ) {
        let (application, done) = match command {
            Command::Ping { application, request } => {
                (application, self.open(cx, counters, application, request))
            }
            Command::Release { application } => (application, self.close(cx, application)),
        };
        if let Err(reason) = done {
            cx.report(Event::Rejected { application, reason });
        }
    }

    fn open(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        counters: &mut Counters,
        application: Application,
        request: Request,
    ) -> Result<(), Rejection> {
        if self.asked.contains_key(&application) {
            return Err(Rejection::Open);
        }
        if self.asked.len() >= self.config.applications {
            return Err(Rejection::TooMany);
        }
        if request.interval < self.config.shortest_interval || request.count == Some(0) {
            return Err(Rejection::Interval);
        }
        let mri = self.mri_to(cx, request.destination)?;
        let session = self.ids.draw();
        self.sessions.insert(session, application);
        let asked = PendingQuery {
            request,
            session,
            mri,
            sent: 0,
            next: None,
            outstanding: BTreeMap::new(),
        };
        self.asked.insert(application, asked);
        self.send_next(cx, counters, application);
        Ok(())
    }

    /// Returns the MRI of all packets from this node to a destination.
    fn mri_to(&self, cx: &HandlerContext<'_, '_>, destination: IpAddr) -> Result<Mri, Rejection> {
        let interfaces = cx.context.interfaces;
        if destination.is_multicast()
            || destination.is_unspecified()
            || interfaces.is_local(destination)
        {
            return Err(Rejection::Destination);
        }
        let hop = cx.context.routes.lookup(destination).ok_or(Rejection::NoRoute)?;
        let source = hop
            .source
            .or_else(|| interfaces.by_id(hop.interface)?.address_like(destination))
            .ok_or(Rejection::NoRoute)?;
        let all_bits = if source.is_ipv4() { 32 } else { 128 };
        Ok(Mri::PathCoupled(PathCoupled {
            source,
            destination,
            source_prefix: all_bits,
            destination_prefix: all_bits,
            protocol: None,
            ds_field: None,
            flow_label: None,
            spi: None,
            source_port: None,
            destination_port: None,
            direction: Direction::Downstream,
        }))
    }

    /// Sends the next message of an application, and arms the timers for its answer and for the message after it.
    fn send_next(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        counters: &mut Counters,
        application: Application,
    ) {
        let Some(asked) = self.asked.get_mut(&application) else { return };
        if asked.outstanding.len() < self.config.outstanding {
            asked.sent += 1;
            counters.sent += 1;
            let timeout = asked.request.timeout.unwrap_or(self.config.timeout);
            let answer =
                self.timers.arm(cx.now + timeout, TimerPurpose::Answer(application, asked.sent));
            asked.outstanding.insert(asked.sent, (cx.now, answer));
            asked.send(cx, timeout);
        }
        let more = asked.request.count.is_none_or(|count| asked.sent < count);
        asked.next = more.then(|| {
            self.timers.arm(cx.now + asked.request.interval, TimerPurpose::Next(application))
        });
    }

    /// Handles a message that has returned.
    pub(super) fn answered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        counters: &mut Counters,
        session: SessionId,
        ping: &Ping<'_>,
    ) {
        let Some((application, sent_at)) = self.take(session, ping.sequence) else {
            counters.late += 1;
            return;
        };
        counters.answered += 1;
        let round_trip = cx.now.since(sent_at);
        let (nodes, visits) = visits(ping, round_trip);
        let sequence = ping.sequence;
        cx.report(Event::Pong { application, sequence, round_trip, nodes, visits });
        self.finish_if_done(cx, application);
    }

    /// Handles a message that could not be sent.
    pub(super) fn undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        counters: &mut Counters,
        session: SessionId,
        data: &[u8],
        failure: SendFailure,
    ) {
        let Ok(ping) = Ping::parse(data) else { return };
        if let Some((application, _)) = self.take(session, ping.sequence) {
            self.lost(cx, counters, application, ping.sequence, Some(failure));
        }
    }

    /// Handles due timers.
    pub(super) fn expire(&mut self, cx: &mut HandlerContext<'_, '_>, counters: &mut Counters) {
        for _ in 0..MAX_TIMERS_PER_CALL {
            match self.timers.pop_due(cx.now) {
                None => break,
                Some((_, TimerPurpose::Next(application))) => {
                    self.send_next(cx, counters, application);
                }
                Some((_, TimerPurpose::Answer(application, sequence))) => {
                    if let Some(asked) = self.asked.get_mut(&application) {
                        asked.outstanding.remove(&sequence);
                    }
                    self.lost(cx, counters, application, sequence, None);
                }
            }
        }
    }

    /// Removes an unanswered message: returns its application, and when it was sent.
    fn take(&mut self, session: SessionId, sequence: u32) -> Option<(Application, Time)> {
        let application = *self.sessions.get(&session)?;
        let (sent_at, timer) = self.asked.get_mut(&application)?.outstanding.remove(&sequence)?;
        self.timers.cancel(timer);
        Some((application, sent_at))
    }

    fn lost(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        counters: &mut Counters,
        application: Application,
        sequence: u32,
        failure: Option<SendFailure>,
    ) {
        counters.lost += 1;
        cx.report(Event::Lost { application, sequence, failure });
        self.finish_if_done(cx, application);
    }

    fn finish_if_done(&mut self, cx: &mut HandlerContext<'_, '_>, application: Application) {
        let done = |asked: &PendingQuery| asked.next.is_none() && asked.outstanding.is_empty();
        if self.asked.get(&application).is_some_and(done) {
            // The request exists.
            let _ = self.close(cx, application);
        }
    }

    fn close(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
    ) -> Result<(), Rejection> {
        let asked = self.asked.remove(&application).ok_or(Rejection::NotOpen)?;
        self.sessions.remove(&asked.session);
        let answers = asked.outstanding.into_values().map(|(_, timer)| timer);
        for timer in answers.chain(asked.next) {
            self.timers.cancel(timer);
        }
        cx.set_state_lifetime(asked.mri, asked.session, Duration::ZERO);
        cx.report(Event::Finished { application });
        Ok(())
    }
}

impl PendingQuery {
    /// Sends a message with the record of this node.
    fn send(&self, cx: &mut HandlerContext<'_, '_>, timeout: Duration) {
        let objects: &[_] = if self.request.bandwidth { &WITH_BANDWIDTH } else { &STANDARD };
        let ping = Ping {
            version: self.request.version,
            hops: 0,
            sequence: self.sent,
            objects,
            data: &[],
        };
        let (source, _) = self.mri.addresses();
        let visit = wire::NodeRecord {
            address: source,
            time: timestamp(cx.now),
            available: available(cx.context, &self.mri),
        };
        let message = SendMessage {
            handle: None,
            session: self.session,
            mri: self.mri,
            to: None,
            attributes: self.request.attributes,
            timeout,
            hops: None,
        };
        let room = cx.send(message, ping.appended_len());
        // Neither can fail: both lists are valid, and one record of either fits in both versions.
        let _ = ping.emit(room);
        let _ = wire::append(room, ping.buffer_len(), &visit);
    }
}

/// Returns the number of nodes that a returned message has visited, and their records.
///
/// For N nodes the message has N records of the forward path, of which the last is that of the node that returned it,
/// and then one for each node on the way back; the last of these would be that of the initiator. If the message was
/// full, the last ones are missing.
fn visits(ping: &Ping<'_>, round_trip: Duration) -> (u16, Vec<Visit>) {
    let records: Vec<Record<'_>> = ping.records().collect();
    // The hop count has all nodes except this one, in both directions, until it saturates.
    let nodes = match ping.hops {
        u8::MAX => records.len() / 2 + 1,
        hops => usize::from(hops).div_ceil(2) + 1,
    };
    let visit = |(place, there): (usize, &Record<'_>)| {
        // The last node has only one record.
        let back = records.get(2 * (nodes - 1) - place);
        let beyond = since(back.and_then(Record::time), there.time());
        let rate = |record: Option<&Record<'_>>| record?.available().map(Rate::from_bps);
        Some(Visit {
            address: there.address()?,
            round_trip: match place {
                0 => Some(Duration::ZERO),
                _ => beyond.map(|beyond| round_trip.saturating_sub(beyond)),
            },
            forward: rate(Some(there)),
            reverse: rate(back.filter(|_| place + 1 < nodes)),
        })
    };
    let visits = records.iter().take(nodes).enumerate().filter_map(visit).collect();
    (u16::try_from(nodes).unwrap_or(u16::MAX), visits)
}

/// Returns the time between two timestamps of a node; `None` if they cannot be from one clock.
fn since(later: Option<Timestamp>, earlier: Option<Timestamp>) -> Option<Duration> {
    let micros = |time: Timestamp| {
        u64::from(time.seconds) * 1_000_000 + u64::from(time.microseconds.min(999_999))
    };
    micros(later?).checked_sub(micros(earlier?)).map(Duration::from_micros)
}
