//! Time of the kernel for messages of Boomerang that its offload handles, by the kernel's test runner
//! (`BPF_PROG_RUN`).
//!
//! The time runs from the first octet of the packet to the verdict that passes it on, without the kernel's own
//! forwarding. A refresh can run many times in one call, and then has its session in the processor's caches.
//! Refreshes of sessions in turn, set-ups and releases run one by one, with a system call each, which includes the
//! time of starting and stopping the clock.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_core::InterfaceId;
use earmark_linux::netns::Namespace;
use earmark_linux::{Offload, OffloadKey, OffloadSession, Share, SignallingSocket, link};
use earmark_wire::{checksum, icmp, ipv4};
use serde::Serialize;

const INITIATOR: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
const FAR_END: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
/// Rate in each direction, bits per second.
const RATE: u32 = 64_000;
/// Number of runs of the one refresh in one call.
const HOT: u32 = 1_000_000;
/// Number of sessions that are refreshed in turn, set up, and released.
const IN_TURN: u32 = 10_000;
/// Interface that the measured packets arrive through.
const LOOPBACK: InterfaceId = InterfaceId(1);
/// IP protocol number of TCP.
const TCP: u8 = 6;
/// Capacity of the kernel's map, sessions.
const CAPACITY: u32 = 250_000;

/// Goal: largest time of a refresh, nanoseconds.
pub const GOAL: u32 = 400;

/// Times of the kernel, nanoseconds a message.
#[derive(Clone, Debug, Serialize)]
pub struct OffloadCost {
    /// Sessions in the kernel's map.
    pub sessions: u32,
    /// Repeated refresh of one session.
    pub refresh: u64,
    /// Refreshes of sessions in turn, one by one.
    pub refresh_in_turn: u64,
    /// Set-ups of new sessions, one by one.
    pub set_up: u64,
    /// Releases of these sessions, one by one.
    pub release: u64,
    /// Repeated ping without a Boomerang message: the cost for unrelated packets.
    pub other_ping: u64,
    /// Repeated TCP packet.
    pub tcp: u64,
    /// Goal for the refresh.
    pub goal: u32,
}

/// Measures in a network namespace of its own, which needs root.
///
/// # Errors
/// A namespace or BPF is unavailable.
pub fn measure(sessions: u32) -> Result<OffloadCost> {
    let namespace = Namespace::unnamed().context("network namespaces are unavailable")?;
    let out = router(&namespace)?;
    // A program runs in the namespace of the process that runs it.
    namespace.run_in(|| measure_here(out, sessions.min(CAPACITY)))?
}

/// Sets up a router with a route to the far end.
fn router(namespace: &Namespace) -> Result<InterfaceId> {
    let (out, _) = link::create_veth(namespace, "out", namespace, "other")?;
    link::add_address(namespace, "out", [10, 77, 2, 2].into(), 24)?;
    for name in ["out", "other"] {
        link::set_up(namespace, name, true)?;
    }
    link::sysctl(namespace, "net.ipv4.ip_forward", "1")?;
    Ok(out)
}

fn measure_here(out: InterfaceId, sessions: u32) -> Result<OffloadCost> {
    let mut socket = SignallingSocket::open()?;
    let [set_up, release] = changes(&mut socket, out)?;
    let path = socket.offload().context("BPF is unavailable")?;
    let share = Some(Share { interface: InterfaceId(1), rate: RATE });
    let arrivals = [LOOPBACK, InterfaceId(0)];
    for number in 0..sessions {
        let session = OffloadSession {
            initiator: INITIATOR,
            far_end: FAR_END,
            arrivals,
            interval: 30,
            forward: share,
            reverse: share,
        };
        path.set(&key(number), &session)?;
    }
    let refresh = nanoseconds(path.measure(&packet(0, RATE), HOT)?);
    // A stride that has no divisor in common with the number of sessions visits them all, out of order.
    let order = (0..IN_TURN).map(|visit| (u64::from(visit) * 7_919 % u64::from(sessions)) as u32);
    let refresh_in_turn = one_by_one(path, order, RATE)?;
    // A message that was passed to the daemon would have another cost.
    let passed = path.forwarded()?;
    ensure!(passed.refreshes == u64::from(HOT + IN_TURN), "the kernel has passed on {passed:?}");
    let ping = packet_of(icmp::PROTOCOL_V4, &[8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
    let other_ping = nanoseconds(path.measure(&ping, HOT)?);
    let tcp = nanoseconds(path.measure(&packet_of(TCP, &[0; 1_000]), HOT)?);
    let goal = GOAL;
    Ok(OffloadCost { sessions, refresh, refresh_in_turn, set_up, release, other_ping, tcp, goal })
}

/// Returns the times of a set-up and of a release of sessions that the kernel does not hold yet.
fn changes(socket: &mut SignallingSocket, link: InterfaceId) -> Result<[u64; 2]> {
    let path = socket.offload_mut().context("BPF is unavailable")?;
    path.set_longest_interval(Some(30))?;
    path.delegate(link, u64::from(RATE) * u64::from(IN_TURN))?;
    path.allow(INITIATOR, LOOPBACK, IN_TURN)?;
    let mut change = |rate| -> Result<u64> {
        let path = socket.offload().context("BPF is unavailable")?;
        let mean = one_by_one(path, (0..IN_TURN).map(|number| CAPACITY + number), rate)?;
        // The offload reports its changes to the daemon; reading the reports makes room for more.
        while socket.receive(|_| {})? > 0 {}
        Ok(mean)
    };
    Ok([change(RATE)?, change(0)?])
}

/// Mean time of one message for each of these sessions.
fn one_by_one(path: &Offload, numbers: impl Iterator<Item = u32>, rate: u32) -> Result<u64> {
    let (mut spent, mut count) = (Duration::ZERO, 0);
    for number in numbers {
        spent += path.measure(&packet(number, rate), 1)?;
        count += 1;
    }
    Ok(nanoseconds(spent / count))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn key(number: u32) -> OffloadKey {
    let (mut classifier, mut mask) = ([0; 16], [0xff; 16]);
    classifier[..4].copy_from_slice(&INITIATOR.octets());
    classifier[4..8].copy_from_slice(&FAR_END.octets());
    // Both ports, neither of them zero.
    classifier[8..12].copy_from_slice(&(number + 0x0001_0001).to_be_bytes());
    classifier[12] = 17;
    mask[13..].fill(0);
    OffloadKey { classifier, mask }
}

/// A Boomerang echo in its IP packet, with this rate in both directions.
fn packet(number: u32, rate: u32) -> Vec<u8> {
    let key = key(number);
    let mut message = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend([0x47, 0x11, 0x47, 0x11, 0, 0, 0, 7, 0x10, 0x12, 0, 0]);
    message.extend([30, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    message.extend(key.classifier);
    message.extend(key.mask);
    message.extend(rate.to_be_bytes());
    message.extend(rate.to_be_bytes());
    let sum = checksum::checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    packet_of(icmp::PROTOCOL_V4, &message)
}

fn packet_of(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr {
        tos: 0,
        identification: 0,
        dont_fragment: false,
        ttl: 64,
        protocol,
        source: INITIATOR,
        destination: FAR_END,
        router_alert: Some(0),
        payload_len: payload.len(),
    };
    let mut packet = vec![0; header.header_len()];
    header.emit(&mut packet).expect("it fits");
    packet.extend(payload);
    packet
}
