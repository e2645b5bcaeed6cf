//! Reservations that share a class, each with a token bucket.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use earmark_core::admission::{ClaimId, Demand};
use earmark_core::{Installation, Rate};
use earmark_linux::{ClassifierChoice, LinkPlan, Queues, TcError, TrafficControl};

use crate::flood::{
    PAYLOAD, RATE, STREAM, assert_best_effort_once_removed, assert_carried, drain, run, send,
};
use crate::support::{Line, flow, installation};

/// Ports of the stream that exceeds its reservation.
const GREEDY: (u16, u16) = (6_002, 5_002);

fn plan(line: &Line) -> LinkPlan {
    LinkPlan { queues: Queues::Aggregate, ..line.plan() }
}

/// Returns a reservation for the stream. Its bucket is as deep as the source's delay on a busy machine: the source
/// catches up at once, and a bucket does not queue.
fn stream(line: &Line) -> Installation {
    let stream = installation(line, 1, flow(STREAM.0, STREAM.1), Rate::from_bps(RATE));
    Installation { demand: Demand { burst: 100_000, ..stream.demand }, ..stream }
}

fn install(line: &Line, control: &mut TrafficControl, installation: &Installation) {
    line.router.run_in(|| control.install(installation)).expect("inside").expect("installed");
}

/// A stream of exactly its rate loses nothing in a flood, is counted, and loses again when it is released.
pub(crate) fn reserved_stream_in_a_flood_loses_nothing() {
    let line = Line::new();
    let (mut control, _) = line.open(&plan(&line), ClassifierChoice::Bpf);
    let stream = stream(&line);
    install(&line, &mut control, &stream);
    let with = run(&line, Duration::from_secs(2), || ());
    assert_carried(&mut control, &stream, &with);
    assert_best_effort_once_removed(&line, &mut control, &stream);
}

/// A stream of ten times its reservation gets the reservation, and its excess is sent with best effort; the other
/// stream and its delay are not affected.
pub(crate) fn flow_above_its_bucket_harms_no_other() {
    let line = Line::new();
    let (mut control, _) = line.open(&plan(&line), ClassifierChoice::Bpf);
    let stream = stream(&line);
    let greedy = installation(&line, 2, flow(GREEDY.0, GREEDY.1), Rate::from_bps(RATE));
    install(&line, &mut control, &stream);
    install(&line, &mut control, &greedy);
    let (source, sink) = (line.source(GREEDY.0), line.sink(GREEDY.1));
    let time = Duration::from_secs(2);
    let stop = AtomicBool::new(false);
    let (with, octets) = std::thread::scope(|scope| {
        scope.spawn(|| send(&source, GREEDY.1, PAYLOAD, 10 * RATE, time, &stop));
        let received = scope.spawn(|| drain(&sink));
        let with = run(&line, time, || ());
        (with, received.join().expect("the sink ends").1)
    });
    assert_eq!(with.received, with.sent, "{with:?}");
    let statistics = control.statistics(greedy.claim).expect("counted");
    let promised = RATE / 8 * time.as_secs();
    // Two more packets of burst and 2 ms of jitter.
    assert!((promised * 9 / 10..promised + 6_000).contains(&statistics.octets), "{statistics:?}");
    assert!(statistics.drops > statistics.packets, "{statistics:?}");
    assert!(octets >= statistics.octets, "what was reserved has arrived: {octets}, {statistics:?}");
}

/// The next daemon adopts flows and buckets, and finds nothing to repair; a daemon with other settings drops and
/// removes them.
pub(crate) fn buckets_after_a_restart_are_adopted() {
    let line = Line::new();
    let (mut first, _) = line.open(&plan(&line), ClassifierChoice::Bpf);
    let stream = stream(&line);
    install(&line, &mut first, &stream);
    let other = installation(&line, 2, flow(GREEDY.0, GREEDY.1), Rate::from_mbps(1));
    install(&line, &mut first, &other);
    drop(first);

    let open = |plan: &LinkPlan| {
        let plans = std::slice::from_ref(plan);
        let opened = line.router.run_in(|| TrafficControl::open(plans, ClassifierChoice::Bpf));
        opened.expect("inside").expect("traffic control")
    };
    let (mut second, adopted) = open(&plan(&line));
    let rates: Vec<_> = adopted.iter().map(|adopted| (adopted.flow, adopted.rate)).collect();
    assert_eq!(rates, [(stream.flow, Rate::from_bps(RATE)), (other.flow, Rate::from_mbps(1))]);
    let claim = ClaimId { slot: 7, generation: 1 };
    install(&line, &mut second, &Installation { claim, ..stream });
    let more = Installation {
        claim,
        demand: installation(&line, 7, stream.flow, Rate::from_mbps(3)).demand,
        ..stream
    };
    install(&line, &mut second, &more);
    assert_eq!(second.reap_adopted().expect("reaped"), 1, "the other one");
    let found = line.router.run_in(|| second.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0), "all is as it should be");
    drop(second);

    let (mut third, adopted) = open(&line.plan());
    assert!(adopted.is_empty(), "{adopted:?}");
    let found = line.router.run_in(|| third.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0), "nothing is left");
}

/// Many more reservations than HTB could have classes, in a time that does not grow with their number.
pub(crate) fn seventy_thousand_reservations_are_installed() {
    const COUNT: u32 = 70_000;
    let line = Line::new();
    let all = Rate::from_mbps(400_000);
    let plan = LinkPlan { queues: Queues::Aggregate, ..LinkPlan::new(line.outward, all, all) };
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    let numbered = |n: u32| {
        let ports = ((n >> 8) as u16 + 1, n as u16 % 256 + 1);
        installation(&line, n, flow(ports.0, ports.1), Rate::from_bps(64_000))
    };
    line.router
        .run_in(|| (0..COUNT).try_for_each(|n| control.install(&numbered(n))))
        .expect("inside")
        .expect("installed");
    for n in [0, COUNT / 2, COUNT - 1] {
        control.statistics(numbered(n).claim).expect("there");
        control.remove(numbered(n).claim).expect("removed");
    }
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0));
}

/// u32 filters have no buckets; the error says so.
pub(crate) fn aggregate_without_bpf_is_refused() {
    let line = Line::new();
    let plan = plan(&line);
    let plans = std::slice::from_ref(&plan);
    let opened = line.router.run_in(|| TrafficControl::open(plans, ClassifierChoice::U32));
    let error = opened.expect("inside").expect_err("refused");
    assert!(matches!(error, TcError::NoBuckets { interface } if interface == line.outward));
}
