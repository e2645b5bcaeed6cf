//! A stream of exactly its reserved rate, through a router whose link is flooded with three times its bandwidth.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use earmark_core::admission::ClaimId;
use earmark_core::{Installation, InterfaceId, Outgoing, Rate};
use earmark_linux::{ClassifierChoice, LinkPlan, SignallingSocket, TrafficControl};

use crate::support::{Line, RECEIVER, SENDER, demand, eventually, flow, installation, plan};

/// Octets of UDP payload; with 28 of headers, 1 028 octets of IP.
pub(crate) const PAYLOAD: usize = 1_000;
/// Rate that the stream sends and reserves, counted from the IP header on.
pub(crate) const RATE: u64 = 2_000_000;
pub(crate) const STREAM: (u16, u16) = (6_000, 5_000);
const FLOOD: (u16, u16) = (6_001, 5_001);

/// Sends packets of `payload` octets at `rate`, numbered, until `stop` or for `time`. Returns their number.
pub(crate) fn send(
    socket: &UdpSocket,
    port: u16,
    payload: usize,
    rate: u64,
    time: Duration,
    stop: &AtomicBool,
) -> u32 {
    let destination = SocketAddr::from((RECEIVER, port));
    let gap = Duration::from_nanos((payload as u64 + 28) * 8 * 1_000_000_000 / rate);
    let (start, mut count) = (Instant::now(), 0_u32);
    let mut packet = vec![0; payload];
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        packet[..4].copy_from_slice(&count.to_be_bytes());
        // Send errors are normal in a flood.
        let _ = socket.send_to(&packet, destination);
        count += 1;
        let due = start + gap * count;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    count
}

/// Receives until nothing has arrived for a while: returns packets, and IP octets.
pub(crate) fn drain(socket: &UdpSocket) -> (u32, u64) {
    let (mut packets, mut octets) = (0, 0);
    let mut packet = [0; 2_048];
    while let Ok(length) = socket.recv(&mut packet) {
        packets += 1;
        octets += length as u64 + 28;
    }
    (packets, octets)
}

/// Result of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) sent: u32,
    pub(crate) received: u32,
    /// Bits per second of the flood that arrived.
    flood: u64,
}

/// Sends stream and flood for `time`, or for the duration of `meanwhile`.
pub(crate) fn run(line: &Line, time: Duration, meanwhile: impl FnOnce()) -> Outcome {
    let (stream, flood) = (line.source(STREAM.0), line.source(FLOOD.0));
    let (sink, flood_sink) = (line.sink(STREAM.1), line.sink(FLOOD.1));
    let (stream_ends, flood_ends) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let start = Instant::now();
        let flood_end = AtEnd(&flood_ends);
        scope.spawn(|| send(&flood, FLOOD.1, 1_400, 30_000_000, Duration::MAX, &flood_ends));
        let flooded = scope.spawn(|| drain(&flood_sink));
        // The flood has filled the queue when the stream begins.
        std::thread::sleep(Duration::from_millis(100));
        let stream_end = AtEnd(&stream_ends);
        let received = scope.spawn(|| drain(&sink));
        let sender =
            scope.spawn(|| send(&stream, STREAM.1, PAYLOAD, RATE, Duration::MAX, &stream_ends));
        let over = Instant::now() + time;
        meanwhile();
        std::thread::sleep(over.saturating_duration_since(Instant::now()));
        drop(stream_end);
        let sent = sender.join().expect("the stream ends");
        std::thread::sleep(Duration::from_millis(100));
        drop(flood_end);
        let everything = start.elapsed();
        let (received, _) = received.join().expect("the sink ends");
        let (_, octets) = flooded.join().expect("the flood's sink ends");
        Outcome { sent, received, flood: octets * 8 * 1_000 / everything.as_millis() as u64 }
    })
}

/// Sets a flag when it is dropped, also by a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The stream loses packets without a reservation, and none with one; the flood gets the rest.
pub(crate) fn reserved_stream_in_a_flood_loses_nothing(choice: ClassifierChoice) {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), choice);
    let without = run(&line, Duration::from_secs(1), || ());
    assert!(without.received < without.sent * 9 / 10, "the flood does no harm: {without:?}");

    let stream = installation(&line, 1, flow(STREAM.0, STREAM.1), Rate::from_bps(RATE));
    line.router.run_in(|| control.install(&stream)).expect("inside").expect("installed");
    let with = run(&line, Duration::from_secs(2), || ());
    assert!((4_000_000..8_500_000).contains(&with.flood), "10 Mbit/s less the stream: {with:?}");
    assert_carried(&mut control, &stream, &with);
    assert_best_effort_once_removed(&line, &mut control, &stream);
}

/// Asserts that the stream arrived completely, and that traffic control has counted every packet of it.
pub(crate) fn assert_carried(
    control: &mut TrafficControl,
    stream: &Installation,
    outcome: &Outcome,
) {
    assert_eq!(outcome.received, outcome.sent, "{outcome:?}");
    let statistics = control.statistics(stream.claim).expect("counted");
    assert_eq!(statistics.packets, u64::from(outcome.sent));
    assert_eq!(statistics.octets, u64::from(outcome.sent) * 1_028, "from the IP header on");
    assert_eq!(statistics.drops, 0);
}

/// Asserts that the stream loses packets to the flood without its reservation.
pub(crate) fn assert_best_effort_once_removed(
    line: &Line,
    control: &mut TrafficControl,
    stream: &Installation,
) {
    control.remove(stream.claim).expect("removed");
    let after = run(line, Duration::from_secs(1), || ());
    assert!(after.received < after.sent * 9 / 10, "as before: {after:?}");
}

/// A daemon is killed in the middle of the stream that it reserved for, and another one starts. There is one class
/// only, so the second daemon must use that of the first.
pub(crate) fn restart_of_the_daemon_loses_no_packet(choice: ClassifierChoice) {
    let line = Line::new();
    let plan = LinkPlan { pool: 1, pool_limit: 1, ..line.plan() };
    let stream = installation(&line, 1, flow(STREAM.0, STREAM.1), Rate::from_bps(RATE));
    let mut first = first_daemon(&line, choice);

    let outcome = run(&line, Duration::from_secs(2), || {
        std::thread::sleep(Duration::from_millis(500));
        first.kill().expect("killed");
        first.wait().expect("dead");
        std::thread::sleep(Duration::from_millis(300));
        let (mut second, adopted) = line.open(&plan, choice);
        assert_eq!(adopted, [stream.flow]);
        std::thread::sleep(Duration::from_millis(300));
        let claim = ClaimId { slot: 77, generation: 3 };
        let again = Installation { claim, ..stream };
        line.router.run_in(|| second.install(&again)).expect("inside").expect("installed");
        assert_eq!(second.reap_adopted().expect("reaped"), 0, "all are claimed");
        eventually("the stream goes through the class of the second", || {
            second.statistics(claim).expect("counted").packets > 50
        });
        let found = line.router.run_in(|| second.reconcile()).expect("inside").expect("compared");
        assert_eq!((found.removed, found.restored), (0, 0), "all was as it should be");
    });
    assert_eq!(outcome.received, outcome.sent, "{outcome:?}");
}

/// Environment variable that makes a process of this program the daemon of [`restart`]: interface and classifier.
const DAEMON: &str = "EARMARK_TEST_DAEMON";

/// Starts this program again, inside the router, and waits until it has reserved for the stream.
fn first_daemon(line: &Line, choice: ClassifierChoice) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = line.router.command(program).expect("a command");
    command.env(DAEMON, format!("{} {choice:?}", line.outward.0)).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let mut ready = [0; 5];
    let output = child.stdout.as_mut().expect("a pipe");
    output.read_exact(&mut ready).expect("the daemon is ready");
    assert_eq!(ready, *b"ready");
    child
}

/// In a process started by [`first_daemon`]: reserves, reports it, and waits to be killed. Returns in all others.
pub(crate) fn run_as_daemon_if_requested() {
    let Ok(orders) = std::env::var(DAEMON) else { return };
    let (interface, choice) = orders.split_once(' ').expect("an interface and a classifier");
    let interface = InterfaceId(interface.parse().expect("a number"));
    let choice = if choice == "Bpf" { ClassifierChoice::Bpf } else { ClassifierChoice::U32 };
    let plan = LinkPlan { pool: 1, pool_limit: 1, ..plan(interface) };
    let (mut control, adopted) = TrafficControl::open(&[plan], choice).expect("traffic control");
    assert!(adopted.is_empty());
    let stream = flow(STREAM.0, STREAM.1);
    let demand = demand(Rate::from_bps(RATE));
    let claim = ClaimId { slot: 1, generation: 0 };
    control.install(&Installation { claim, interface, flow: stream, demand }).expect("installed");
    print!("ready");
    std::io::stdout().flush().expect("said");
    std::thread::sleep(Duration::from_secs(30));
    std::process::exit(1);
}

/// RSVP messages that the router forwards pass the flood without a reservation.
pub(crate) fn signalling_passes_a_flood(choice: ClassifierChoice) {
    let line = Line::new();
    let (_control, _) = line.open(&line.plan(), choice);
    let [mut sender, mut receiver] = [&line.sender, &line.receiver].map(|namespace| {
        namespace.run_in(SignallingSocket::open).expect("inside").expect("the sockets")
    });
    let resv = Outgoing {
        protocol: 46,
        interface: None,
        source: SENDER.into(),
        destination: RECEIVER.into(),
        ttl: 255,
        router_alert: false,
        encapsulated: false,
        neighbor: None,
        next_hop: None,
    };
    const COUNT: u32 = 100;
    let messages = || {
        for number in 0..COUNT {
            sender.send(&resv, &number.to_be_bytes()).expect("sent");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let outcome = run(&line, Duration::from_secs(1), messages);
    assert!(outcome.received < outcome.sent * 9 / 10, "the flood does no harm: {outcome:?}");
    let mut received = 0;
    while receiver.receive(|_| received += 1).expect("received") > 0 {}
    assert_eq!(received, COUNT);
}
