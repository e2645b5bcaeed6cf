//! The promise: delay and loss of a flow within its rate beside a flood that fills the link.
//!
//! The device behind the router takes [`DEVICE`] for a packet: the other end of its veth pair receives by a kernel
//! thread on the other processor, which is busy for that long with each. So the device's ring fills, the device stops
//! its queue, and packets wait in front of it. Traffic control that shapes has a link of [`BANDWIDTH`], somewhat
//! slower than the device.
//!
//! Each packet of the flow carries a number, and packet sockets record when it arrived at the router, when its queue
//! handed it to the device, and when the device was done with it. This separates the wait in the queue from the wait
//! in the device's ring, which no queue can shorten.
//!
//! If the device itself pauses, because another program or another machine has its processor, everything in front of
//! it waits. One more router shows this unavoidable part: `strict` has `pfifo_fast`, and the type of service of the
//! flow's packets gives them strict priority at any rate. The promise is about the wait beyond that.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_core::Rate;
use earmark_lab::statistics::percentile;
use earmark_linux::netns::Namespace;
use earmark_linux::packet_times;
use earmark_linux::packets::{self, MeasuredFlow, Mix};
use serde::Serialize;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::processor::Processor;
use super::router::{Line, Router, Treatment};
use super::{End, KINDS, NONE, OTHERS, UNRESERVED, name};
use crate::bench::Supervision;

/// Time of the device for a packet: 200 000 a second.
pub const DEVICE: Duration = Duration::from_micros(5);
/// Bandwidth of a shaped link: 136 000 frames a second.
pub const BANDWIDTH: Rate = Rate::from_mbps(100);
/// The reservation of the flow.
pub const RESERVED: Rate = Rate::from_mbps(4);
/// Longest wait in the queue of a flow within its rate, at the 99th percentile, beyond the wait with strict priority,
/// milliseconds.
pub const LONGEST_MS: f64 = 1.0;

/// Name of the router without a daemon that gives the flow strict priority.
const STRICT: &str = "strict";
/// Type of service `IPTOS_LOWDELAY`, which has the highest priority in `pfifo_fast`.
const LOW_DELAY: u8 = 0x10;
/// Number of the flow among the reserved ones.
const FLOW: u32 = 0;
/// Number of packets of the flood for each one of the flow, which has 1.2 Mbit/s of a million packets a second.
const EVERY: u32 = 512;
/// Pause after each packet if there is no flood.
const PAUSE: Duration = Duration::from_millis(1);
/// Time for packets in flight at the end.
const REST: Duration = Duration::from_millis(300);
/// Receive buffer of the packet sockets, octets.
const ROOM: i32 = 64 << 20;
/// Offset of the number in a frame: after the headers of Ethernet, IPv4 and UDP.
const NUMBER: usize = 42;
/// `ETH_P_ALL`: frames of every protocol, outgoing ones included.
const ALL_PROTOCOLS: u16 = 3;

/// Delay and loss of the flow.
#[derive(Clone, Debug, Serialize)]
pub struct Promise {
    /// Queue mode; `none` without a daemon; `strict` without a daemon and with strict priority for the flow.
    pub queues: &'static str,
    /// Whether there was a flood beside the flow.
    pub flood: bool,
    /// Packets of the flow that arrived at the router.
    pub packets: u64,
    /// Packets of the flow that never reached the device.
    pub lost: u64,
    /// Median wait in the router and its queue, milliseconds.
    pub queue_p50_ms: f64,
    /// 99th percentile of the wait in the router and its queue, milliseconds.
    pub queue_p99_ms: f64,
    /// Median time in the device's ring and in service, milliseconds.
    pub ring_p50_ms: f64,
    /// 99th percentile of the time in the device's ring and in service, milliseconds.
    pub ring_p99_ms: f64,
    /// Whether the promise held; `None` if nothing was promised.
    pub kept: Option<bool>,
}

/// Times of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct PacketTransit {
    came: Option<Duration>,
    left_queue: Option<Duration>,
    left_device: Option<Duration>,
}

/// Packet socket that sees the flow's packets on the interfaces of a namespace.
struct Tap(Socket);

/// Measures each queue mode and the router without a daemon: `alone` packets of the flow without a flood, and a flood
/// of `flood` packets.
///
/// # Errors
/// The process lacks root, or there are fewer than two processors.
pub fn measure(flood: u32, alone: u32, supervision: &Supervision<'_>) -> Result<Vec<Promise>> {
    let kinds = KINDS.map(|queues| (name(queues), Treatment::Reserved(queues, 1), 0));
    let without = [(NONE, Treatment::Default, 0), (STRICT, Treatment::Default, LOW_DELAY)];
    let all: Vec<_> = without.into_iter().chain(kinds).collect();
    supervision.watcher.begin("a flow beside a flood", all.len() as u64);
    let mut promises: Vec<Promise> = Vec::new();
    for (done, &(queues, treatment, service)) in all.iter().enumerate() {
        for (packets, flood) in [(alone, false), (flood, true)] {
            supervision.check_interrupted()?;
            let transits = watch(treatment, service, packets, flood, supervision)?;
            let mut promise = summary(queues, flood, transits.values())?;
            if treatment != Treatment::Default {
                let is_strict = |other: &&Promise| other.queues == STRICT && other.flood == flood;
                promise.judge(promises.iter().find(is_strict));
            }
            promises.push(promise);
        }
        supervision.watcher.reached(done as u64 + 1);
    }
    Ok(promises)
}

/// Returns when each packet of the flow passed.
fn watch(
    treatment: Treatment,
    service: u8,
    packets: u32,
    flood: bool,
    supervision: &Supervision<'_>,
) -> Result<BTreeMap<u32, PacketTransit>> {
    let processor = Processor::last()?;
    let device = Some((DEVICE, processor.another()?));
    let (rate, watched, end) = (Some(RESERVED), Some(FLOW), End::Drop);
    let line = Line { bandwidth: BANDWIDTH, rate, device, watched, end };
    let router = Router::up(treatment, line)?;
    let watched = |every| MeasuredFlow { every, flow: FLOW, service };
    let alone = Mix { flows: OTHERS, first: UNRESERVED, measured: Some(watched(1)) };
    let beside = Mix { measured: Some(watched(EVERY)), ..alone };
    router.warm_up(processor, &Mix { measured: None, ..alone })?;
    // The bucket is full and the queues are empty at the start.
    std::thread::sleep(REST);
    let taps = (Tap::open(&router.router)?, Tap::open(&router.sink)?);
    match flood {
        true => drop(router.sample(processor, packets, &beside)?),
        false => router
            .send_slowly(processor, packets, PAUSE, &alone, || supervision.check_interrupted())?,
    }
    std::thread::sleep(REST);
    let mut transits = BTreeMap::new();
    taps.0.take(&mut transits, |transit, leaves| match leaves {
        false => &mut transit.came,
        true => &mut transit.left_queue,
    })?;
    taps.1.take(&mut transits, |transit, _| &mut transit.left_device)?;
    Ok(transits)
}

fn summary<'a>(
    queues: &'static str,
    flood: bool,
    transits: impl Iterator<Item = &'a PacketTransit> + Clone,
) -> Result<Promise> {
    let came = transits.filter(|transit| transit.came.is_some());
    let waits = |between: fn(&PacketTransit) -> Option<(Duration, Duration)>| {
        let pairs = came.clone().filter_map(between);
        let mut waits: Vec<Duration> = pairs.map(|(from, to)| to.saturating_sub(from)).collect();
        waits.sort_unstable();
        waits
    };
    let queue = waits(|transit| transit.came.zip(transit.left_queue));
    let ring = waits(|transit| transit.left_queue.zip(transit.left_device));
    let packets = came.clone().count() as u64;
    ensure!(packets > 0, "no packet of the flow came to the router");
    let lost =
        packets - came.clone().filter(|transit| transit.left_device.is_some()).count() as u64;
    Ok(Promise {
        queues,
        flood,
        packets,
        lost,
        queue_p50_ms: percentile_ms(&queue, 50),
        queue_p99_ms: percentile_ms(&queue, 99),
        ring_p50_ms: percentile_ms(&ring, 50),
        ring_p99_ms: percentile_ms(&ring, 99),
        kept: None,
    })
}

impl Promise {
    /// Compares the result with strict priority; without that result nothing was promised.
    fn judge(&mut self, strict: Option<&Promise>) {
        let beyond = |strict: &Promise| self.queue_p99_ms - strict.queue_p99_ms;
        self.kept = strict.map(|strict| self.lost == 0 && beyond(strict) < LONGEST_MS);
    }
}

/// Returns a percentile of sorted times, milliseconds; 0 of none.
fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    percentile(sorted, percent).map_or(0.0, |time| time.as_nanos() as f64 / 1e6)
}

impl Tap {
    fn open(namespace: &Namespace) -> Result<Tap> {
        let port = packets::ports(FLOW).1;
        let filter = [
            SockFilter::new(0x28, 0, 0, 12),          // 0 load the EtherType
            SockFilter::new(0x15, 0, 5, 0x0800),      // 1 not IPv4: to 7
            SockFilter::new(0x30, 0, 0, 23),          // 2 load the protocol
            SockFilter::new(0x15, 0, 3, 17),          // 3 not UDP: to 7
            SockFilter::new(0x28, 0, 0, 36),          // 4 load the destination port
            SockFilter::new(0x15, 0, 1, port.into()), // 5 another one: to 7
            SockFilter::new(0x06, 0, 0, u32::MAX),    // 6 accept all of it
            SockFilter::new(0x06, 0, 0, 0),           // 7 drop
        ];
        let open = || -> std::io::Result<Socket> {
            let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
            socket.attach_filter(&filter)?;
            packet_times::prepare(&socket, ROOM)?;
            Ok(socket)
        };
        let socket = namespace.run_in(open).and_then(|socket| socket);
        Ok(Tap(socket.context("cannot watch the interfaces")?))
    }

    /// Records when each packet passed, in the field that `place` selects.
    fn take(
        &self,
        transits: &mut BTreeMap<u32, PacketTransit>,
        place: impl Fn(&mut PacketTransit, bool) -> &mut Option<Duration>,
    ) -> Result<()> {
        let mut frame = [0; 256];
        while let Some(seen) = packet_times::next(&self.0, &mut frame)? {
            let number = frame[..seen.length].get(NUMBER..).and_then(<[u8]>::first_chunk);
            if let Some(number) = number {
                let transit = transits.entry(u32::from_be_bytes(*number)).or_default();
                *place(transit, seen.is_outgoing) = Some(seen.at);
            }
        }
        ensure!(packet_times::missed(&self.0)? == 0, "packets passed unseen: too many waited");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Option<Duration> {
        Some(Duration::from_micros(micros))
    }

    #[test]
    fn queue_and_ring_waits_are_separated_and_losses_counted() {
        let transit = |n: u64| PacketTransit {
            came: at(n * 1_000),
            left_queue: at(n * 1_000 + n),
            left_device: at(n * 1_000 + n + 500),
        };
        let mut transits: Vec<PacketTransit> = (1..=100).map(transit).collect();
        let whole = summary("per-flow", true, transits.iter()).unwrap();
        assert_eq!((whole.packets, whole.lost), (100, 0));
        assert_eq!((whole.queue_p50_ms, whole.queue_p99_ms), (0.050, 0.099));
        assert_eq!((whole.ring_p50_ms, whole.ring_p99_ms), (0.5, 0.5));
        transits.push(PacketTransit { came: at(7), ..PacketTransit::default() });
        // A packet that never arrived at the router does not count as lost.
        transits.push(PacketTransit { left_device: at(7), ..PacketTransit::default() });
        let lossy = summary("per-flow", true, transits.iter()).unwrap();
        assert_eq!((lossy.packets, lossy.lost), (101, 1));
        assert!(summary("none", true, [].iter()).is_err());
    }

    #[test]
    fn losses_and_long_waits_break_the_promise() {
        let waiting = |micros: u64| {
            let transit =
                PacketTransit { came: at(0), left_queue: at(micros), left_device: at(micros + 1) };
            summary("aggregate", true, [transit].iter()).unwrap()
        };
        let judged = |mut promise: Promise, strict: Option<&Promise>| {
            promise.judge(strict);
            promise.kept
        };
        let strict = waiting(300);
        assert_eq!(judged(waiting(1_250), Some(&strict)), Some(true));
        assert_eq!(judged(waiting(1_350), Some(&strict)), Some(false));
        assert_eq!(judged(Promise { lost: 1, ..waiting(0) }, Some(&strict)), Some(false));
        assert_eq!(judged(waiting(0), None), None);
    }
}
