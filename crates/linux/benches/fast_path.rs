//! Nanoseconds that the kernel takes for messages of Boomerang, by its own test runner (`BPF_PROG_RUN`).
//!
//! From the first octet of the packet to the verdict that it goes on; the kernel's own forwarding is not in it. The same
//! refresh again and again has its session in the processor's caches. All sessions in turn are run one by one, by a system
//! call each, which leaves the caches cold and counts what starting and stopping the clock takes; so beside them stands the
//! same message run one by one. Set-ups and releases can only be run so. Needs root; `cargo bench -p earmark-linux`.

use std::net::Ipv4Addr;
use std::time::Duration;

use earmark_core::InterfaceId;
use earmark_linux::netns::Namespace;
use earmark_linux::{FastKey, FastPath, FastSession, Share, SignallingSocket, link};
use earmark_wire::{checksum, ipv4};

const INITIATOR: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
const FAR_END: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
const RATE: u32 = 64_000;
/// How often the one message is sent, and how many of the sessions are visited in turn.
const HOT: u32 = 1_000_000;
const COLD: u32 = 100_000;
/// Most sessions that are refreshed.
const SESSIONS: u32 = 250_000;
/// How many sessions are set up and released.
const CHANGED: u32 = 10_000;

fn key(number: u32) -> FastKey {
    let (mut classifier, mut mask) = ([0; 16], [0xff; 16]);
    classifier[..4].copy_from_slice(&INITIATOR.octets());
    classifier[4..8].copy_from_slice(&FAR_END.octets());
    // Both ports, none of them zero.
    classifier[8..12].copy_from_slice(&(number + 0x0001_0001).to_be_bytes());
    classifier[12] = 17;
    mask[13..].fill(0);
    FastKey { classifier, mask }
}

/// An echo in its IP packet, with this rate in both directions.
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
    packet_of(1, &message)
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
    header.emit(&mut packet).expect("fits");
    packet.extend(payload);
    packet
}

/// One message in one go, one message one by one, and all in turn.
fn measure(path: &FastPath, sessions: u32) -> [Duration; 3] {
    let hot = path.time(&packet(0, RATE), HOT).expect("a refresh");
    let visits = COLD.min(sessions);
    let one_by_one = |number: &dyn Fn(u64) -> u64| {
        let times = (0..visits).map(|visit| {
            let packet = packet(number(visit.into()) as u32, RATE);
            path.time(&packet, 1).expect("a refresh")
        });
        times.sum::<Duration>() / visits
    };
    let same = one_by_one(&|_| 0);
    // A stride that has no divisor in common with the number of sessions visits them all, out of order.
    let in_turn = one_by_one(&|visit| visit * 7_919 % u64::from(sessions));
    [hot, same, in_turn]
}

/// A set-up, and a release, of sessions that the kernel does not know yet.
fn measure_changes(socket: &mut SignallingSocket, link: InterfaceId) -> [Duration; 2] {
    let path = socket.fast_path_mut().expect("BPF");
    path.set_longest_interval(Some(30)).expect("set");
    path.lend(link, u64::from(RATE) * u64::from(CHANGED)).expect("lent");
    path.allow(INITIATOR, CHANGED).expect("allowed");
    [RATE, 0].map(|rate| {
        let path = socket.fast_path().expect("BPF");
        let times = (0..CHANGED).map(|number| {
            path.time(&packet(SESSIONS + number, rate), 1).expect("the kernel can do that")
        });
        let mean = times.sum::<Duration>() / CHANGED;
        let mut copies = 0;
        while socket.receive(|m| copies += u32::from(m.settled.is_some())).expect("read") > 0 {}
        assert_eq!(copies, CHANGED);
        mean
    })
}

/// A router with a way to the far end.
fn router(namespace: &Namespace) -> InterfaceId {
    let (out, _) = link::create_veth(namespace, "out", namespace, "other").expect("a veth pair");
    link::add_address(namespace, "out", [10, 77, 2, 2].into(), 24).expect("an address");
    for name in ["out", "other"] {
        link::set_up(namespace, name, true).expect("up");
    }
    link::sysctl(namespace, "net.ipv4.ip_forward", "1").expect("forwarding");
    out
}

fn main() {
    let name = format!("earmark-bench-{}", std::process::id());
    let namespace = match Namespace::create(&name) {
        Ok(namespace) => namespace,
        Err(error) => return println!("not measured: no network namespace to be had ({error})"),
    };
    let out = router(&namespace);
    // Programs run in the namespace of whoever runs them.
    namespace.run_in(|| report(out)).expect("inside");
}

fn report(out: InterfaceId) {
    let mut socket = SignallingSocket::open().expect("the sockets");
    let [set_up, release] = measure_changes(&mut socket, out).map(|time| time.as_nanos());
    let path = socket.fast_path().expect("BPF");
    for (what, packet) in [
        ("a packet of TCP", packet_of(6, &[0; 1_000])),
        (
            "a ping of somebody else",
            packet_of(1, &[8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]),
        ),
    ] {
        let time = path.time(&packet, HOT).expect("it goes on");
        println!("{what}: {} ns", time.as_nanos());
    }
    println!("a set-up, one by one: {set_up} ns; a release: {release} ns");
    println!("refreshes: sessions   the same message   one by one   all in turn");
    let mut entered = 0;
    for sessions in [1_000, 10_000, 100_000, SESSIONS] {
        for number in entered..sessions {
            let share = Some(Share { interface: InterfaceId(1), rate: RATE });
            let session =
                FastSession { initiator: INITIATOR, interval: 30, forward: share, reverse: share };
            path.set(&key(number), &session).expect("room");
        }
        entered = sessions;
        let [hot, same, in_turn] = measure(path, sessions).map(|time| time.as_nanos());
        println!("{sessions:>19} {hot:>15} ns {same:>9} ns {in_turn:>10} ns");
    }
    let passed = path.passed().expect("an answer");
    assert_eq!(passed.refreshes, u64::from(4 * HOT + 4 * COLD + 22_000));
}
