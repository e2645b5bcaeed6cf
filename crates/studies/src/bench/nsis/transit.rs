//! Time that messages of GIST stay in a router: from the arrival of a message to the departure of its answer or of
//! the message itself, by the kernel's timestamps of frames.
//!
//! ```text
//!   h1 --- r1 --- h2        both senders have half of the sessions, and ping h2
//!   h3 ---'
//! ```
//!
//! As in *Overhead and Performance Study of GIST* (section IV-C): the time from a Query to its Response, and the time
//! until Data (with a ping in it) is forwarded. Messages travel in datagrams, so that each is a frame.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use earmark_linux::frames::Frames;
use earmark_wire::gist::{Body, Direction, Message, Mode, SessionId, datagram};
use earmark_wire::udp;
use serde::Serialize;

use super::super::Supervision;
use super::sender::{PingEvent, Sender};
use super::steady_state::{DAEMON, begin};
use super::{Chain, Times};

/// Octets of the Ethernet header.
const ETHERNET: usize = 14;
/// Longest time that senders run before they check for the end.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// Interval at which waiting frames are read.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time that both senders may take to begin, beyond the planned time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Parameters of a measurement on a chain with two senders.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sessions, of both senders together.
    pub sessions: u32,
    /// Ping interval of each session.
    pub ping: Duration,
    /// Time between the set-up and the window.
    pub settle: Duration,
    /// Length of the window.
    pub window: Duration,
    /// Number of parts of the window.
    pub parts: u32,
}

/// Result of the measurement; each list has an item for each part of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransitTimes {
    /// Number of sessions.
    pub sessions: u32,
    /// Times from a Query to its Response.
    pub queries: Vec<Times>,
    /// Times from the arrival of Data to its departure.
    pub data: Vec<Times>,
    /// Round-trip times of pings, from both senders to the last host and back.
    pub round_trips: Times,
    /// Pings that did not come back.
    pub lost: u64,
    /// Additional memory of the router's daemon, octets a session.
    pub memory_octets: f64,
    /// Share of one processor that the router's daemon took, 0 to 1.
    pub processor: f64,
    /// Frames that the capture missed.
    pub unseen: u64,
}

/// Signals between the measurement and its senders.
#[derive(Default)]
struct Signals {
    started: AtomicUsize,
    failed: AtomicBool,
    is_counted: AtomicBool,
    is_over: AtomicBool,
}

/// Results of one sender in the window.
#[derive(Default)]
struct SenderResult {
    round_trips: Vec<Duration>,
    lost: u64,
}

/// Runs a measurement on a chain with these settings.
///
/// # Errors
/// A process of the chain ends; frames cannot be captured; the senders cannot set up their sessions.
pub fn measure_on(
    chain: &Chain,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<TransitTimes> {
    let signals = &Signals::default();
    let own = chain.addresses(DAEMON);
    let mut frames = chain.frames(DAEMON)?;
    let empty = chain.sample(DAEMON)?;
    let half = plan.sessions / 2;
    let (mut transits, seen) = std::thread::scope(|scope| {
        let work = move |sender: &mut Sender| run_sender(sender, half, plan, signals);
        let first = scope.spawn(move || note_failure(signals, chain.in_first_host(work)));
        let second = scope.spawn(move || note_failure(signals, chain.in_second_sender(work)));
        let watched = await_both(plan, signals, supervision)
            .and_then(|()| watch(chain, &mut frames, &own, plan, signals, supervision));
        signals.is_over.store(true, Ordering::Relaxed);
        let seen = [first, second].map(|thread| thread.join().expect("nothing there panics"));
        let [first, second] = seen;
        // An error of a sender explains a failed capture, so it comes first.
        let seen = [first?, second?];
        anyhow::Ok((watched?, seen))
    })?;
    let all = seen.iter().flat_map(|seen| seen.round_trips.iter().copied());
    transits.round_trips = Times::of(all.collect());
    transits.lost = seen.iter().map(|seen| seen.lost).sum();
    transits.sessions = half * 2;
    transits.unseen = frames.lost()?;
    transits.memory_octets = chain.sample(DAEMON)?.octets_a_session(&empty, half * 2);
    Ok(transits)
}

fn note_failure<T>(signals: &Signals, outcome: Result<T>) -> Result<T> {
    signals.failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
    outcome
}

/// Runs one sender: sets up its sessions, and pings until the end.
fn run_sender(
    sender: &mut Sender,
    count: u32,
    plan: &Plan,
    signals: &Signals,
) -> Result<SenderResult> {
    sender.serve_timers_exactly();
    begin(sender, count, plan.ping, plan.ping / count.max(1), &mut |_| {})?;
    signals.started.fetch_add(1, Ordering::Relaxed);
    let mut seen = SenderResult::default();
    while !signals.is_over.load(Ordering::Relaxed) {
        let counts = signals.is_counted.load(Ordering::Relaxed);
        sender.run_until(sender.now() + MAX_WAIT, &mut |event| match event {
            PingEvent::Back { round_trip } if counts => seen.round_trips.push(round_trip),
            PingEvent::Lost => seen.lost += 1,
            PingEvent::Back { .. } | PingEvent::Finished => {}
        })?;
    }
    Ok(seen)
}

fn await_both(plan: &Plan, signals: &Signals, supervision: &Supervision<'_>) -> Result<()> {
    let all = supervision.await_all("both senders begin", 2, plan.ping * 2 + TIMEOUT, || {
        ensure!(!signals.failed.load(Ordering::Relaxed), "a sender has failed");
        Ok(signals.started.load(Ordering::Relaxed) as u64)
    })?;
    ensure!(all, "the senders did not begin all their sessions in time");
    supervision.wait("sessions settle", plan.settle)
}

fn watch(
    chain: &Chain,
    frames: &mut Frames,
    own: &[Ipv4Addr],
    plan: &Plan,
    signals: &Signals,
    supervision: &Supervision<'_>,
) -> Result<TransitTimes> {
    // Frames before this moment do not belong to the window.
    while frames.receive(|_, _| {})? > 0 {}
    signals.is_counted.store(true, Ordering::Relaxed);
    let before = chain.sample(DAEMON)?;
    let mut under_way = PendingMessages::new(own);
    let mut transits = TransitTimes::default();
    let parts = plan.parts.max(1);
    let what = format!("{} sessions pass a router", plan.sessions);
    supervision.watcher.begin(&what, parts.into());
    for part in 1..=parts {
        let end = Instant::now() + plan.window / parts;
        while Instant::now() < end {
            if frames.receive(|at, frame| under_way.see(at, frame))? == 0 {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        transits.queries.push(Times::of(std::mem::take(&mut under_way.queries)));
        transits.data.push(Times::of(std::mem::take(&mut under_way.data)));
        supervision.watcher.reached(part.into());
        supervision.check_interrupted()?;
    }
    transits.processor = chain.sample(DAEMON)?.since(&before).processor;
    Ok(transits)
}

/// Messages that have arrived and not left yet.
struct PendingMessages<'o> {
    /// Addresses of the router: the source of departing messages.
    own: &'o [Ipv4Addr],
    asked: HashMap<SessionId, Duration>,
    came: HashMap<(SessionId, Direction), Duration>,
    queries: Vec<Duration>,
    data: Vec<Duration>,
}

impl<'o> PendingMessages<'o> {
    fn new(own: &'o [Ipv4Addr]) -> PendingMessages<'o> {
        let (asked, came) = (HashMap::new(), HashMap::new());
        PendingMessages { own, asked, came, queries: Vec::new(), data: Vec::new() }
    }

    /// Handles a frame with its timestamp; ignores frames that are not messages of GIST.
    fn see(&mut self, at: Duration, frame: &[u8]) {
        let Some((source, message)) = message(frame) else { return };
        let goes_out = self.own.contains(&source);
        match Message::parse(message, Mode::D).map(|message| message.body) {
            // A Query has the address of its flow's source, whoever sent it.
            Ok(Body::Query(query)) if !self.is_own(query.nli.interface_address) => {
                self.asked.insert(query.session, at);
            }
            Ok(Body::Response(response)) if goes_out => {
                let asked = self.asked.remove(&response.session);
                self.queries.extend(asked.map(|asked| at.saturating_sub(asked)));
            }
            Ok(Body::Data(data)) => {
                let what = (data.session, data.mri.direction());
                if goes_out {
                    let came = self.came.remove(&what);
                    self.data.extend(came.map(|came| at.saturating_sub(came)));
                } else {
                    self.came.insert(what, at);
                }
            }
            _ => {}
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if self.own.contains(&address))
    }
}

/// Returns the source of a packet and its GIST message; `None` if it has none.
fn message(frame: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    const SOURCE: usize = 12;
    const PROTOCOL: usize = 9;
    let packet = frame.get(ETHERNET..)?;
    let header = usize::from(packet.first()? & 0xf) * 4;
    let is_udp = packet[0] >> 4 == 4 && *packet.get(PROTOCOL)? == udp::PROTOCOL;
    let source = packet.get(SOURCE..)?.first_chunk::<4>().copied()?;
    let payload = packet.get(header + udp::HEADER..).filter(|_| is_udp)?;
    Some((source.into(), datagram(payload)?))
}

#[cfg(test)]
mod tests {
    use earmark_wire::gist::{
        Continuation, Data, Extensions, MAGIC_LEN, Mri, NetworkLayerInformation, PathCoupled,
        emit_magic,
    };

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// Data of a session from this address, as a frame.
    fn data(source: Ipv4Addr, session: u8) -> Vec<u8> {
        let flow = PathCoupled {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 1, 2].into(),
            source_prefix: 32,
            destination_prefix: 32,
            protocol: None,
            ds_field: None,
            flow_label: None,
            spi: None,
            source_port: None,
            destination_port: None,
            direction: Direction::Downstream,
        };
        let body = Body::Data(Data {
            nat_traversal: None,
            mri: Mri::PathCoupled(flow),
            session: SessionId([session; 16]),
            nli: Some(NetworkLayerInformation {
                peer_identity: &[1, 2, 3, 4],
                ip_ttl: 64,
                interface_address: source.into(),
                routing_state_validity: 30_000,
            }),
            nslp_data: &[1, 2, 3, 4],
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        });
        let extensions = Extensions::NONE;
        let message = Message { hops: 9, nslpid: 32_767, source_is_peer: true, body, extensions };
        let mut frame = vec![0; ETHERNET];
        frame.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, udp::PROTOCOL, 0, 0]);
        frame.extend(source.octets());
        frame.extend([10, 0, 0, 9]);
        let start = frame.len() + udp::HEADER;
        frame.resize(start + MAGIC_LEN + message.buffer_len(), 0);
        let room = emit_magic(&mut frame[start..]).unwrap();
        message.emit(room).unwrap();
        frame
    }

    #[test]
    fn the_time_in_the_router_is_that_between_two_frames() {
        let own = [OWN];
        let mut under_way = PendingMessages::new(&own);
        let micros = Duration::from_micros;
        under_way.see(micros(10), &data([10, 0, 0, 1].into(), 1));
        under_way.see(micros(11), &data([10, 0, 0, 1].into(), 2));
        under_way.see(micros(13), b"no frame of ours, but long enough to be one");
        under_way.see(micros(17), &data(OWN, 1));
        under_way.see(micros(20), &data(OWN, 3));
        assert_eq!(under_way.data, [micros(7)], "the second is still there, the third never came");
        assert!(under_way.queries.is_empty());
    }
}
