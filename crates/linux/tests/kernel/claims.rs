//! Several claims on one flow: each packet is served by the best installed claim, and no claim takes anything from
//! another.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use earmark_core::admission::{ClaimId, Demand, Protocol};
use earmark_core::random::RandomStreams;
use earmark_core::{Flow, Installation, Rate, Time};
use earmark_linux::{ClassifierChoice, Enforcement, LinkPlan, Queues, TrafficControl};

use crate::flood::{PAYLOAD, RATE, STREAM, drain, run, send};
use crate::support::{Line, RECEIVER, TIME_LIMIT, flow, installation};

/// Kinds of separation of reservations, with the classifier of each.
const WAYS: [(Queues, ClassifierChoice); 4] = [
    (Queues::PerFlow, ClassifierChoice::Bpf),
    (Queues::PerFlow, ClassifierChoice::U32),
    (Queues::Aggregate, ClassifierChoice::Bpf),
    (Queues::Priority, ClassifierChoice::Bpf),
];

/// Steps of one random sequence.
const STEPS: usize = 150;
/// Ports of the flows of a sequence: few, so that claims overlap.
const PORTS: std::ops::Range<u16> = 5_000..5_003;

/// A claim in the model.
#[derive(Clone, Debug)]
struct Claim {
    installation: Installation,
    /// Flows of the claim, its own first.
    flows: Vec<Flow>,
}

/// Returns every flow that matches the packets to a port, the most specific first, as in the classifier.
fn names(port: u16) -> Vec<Flow> {
    let exact = flow(6_000, port);
    let any = Flow { source: None, ..exact };
    let range = |length| {
        let range = Flow::to_range(format!("10.77.2.0/{length}").parse().expect("a prefix"));
        [Flow { protocol: 17, destination_port: port, ..range }, range]
    };
    let kinds = [exact, any].into_iter().flat_map(|flow| {
        let to_port = Flow { source_port: 0, ..flow };
        let from_port = Flow { destination_port: 0, ..flow };
        [flow, to_port, from_port, Flow { destination_port: 0, ..to_port }]
    });
    kinds.chain(range(24)).chain(range(20)).collect()
}

/// Returns the claim of the packets to a port, if each arrives alone, so that every bucket has room: that of the
/// narrowest flow; among one flow's claims first those of its own, then the shared ones; the largest of each. With
/// filters, which have no buckets: that of the narrowest flow, or the largest of those that contain it.
fn best(claims: &[Claim], port: u16, choice: ClassifierChoice) -> Option<ClaimId> {
    let rank = |claim: &&Claim| {
        let Installation { demand, claim, .. } = claim.installation;
        (std::cmp::Reverse(demand.rate), claim)
    };
    let on = |name: &Flow| -> Vec<&Claim> {
        claims.iter().filter(|claim| claim.flows.contains(name)).collect()
    };
    if choice == ClassifierChoice::U32 {
        let first = names(port).into_iter().find(|name| !on(name).is_empty())?;
        let wider = names(port).into_iter().filter(|name| name.covers(&first));
        let all: Vec<&Claim> = wider.flat_map(|name| on(&name)).collect();
        return all.into_iter().min_by_key(rank).map(|claim| claim.installation.claim);
    }
    let mut of_flows = names(port).into_iter().map(|name| on(&name));
    of_flows.find_map(|claims| {
        let sort = |shared: bool| {
            let of_sort = claims.iter().filter(|claim| (claim.flows.len() > 1) == shared);
            of_sort.copied().min_by_key(rank)
        };
        sort(false).or_else(|| sort(true)).map(|claim| claim.installation.claim)
    })
}

/// Random claims are installed, changed and removed, and get and lose flows; daemons restart. After each step a packet
/// to each port takes the class of the model, according to the kernel's counters.
pub(crate) fn random_sequence_equals_the_model() {
    for (number, (queues, choice)) in (0..).zip(WAYS) {
        let line = Line::new();
        let plan = LinkPlan { queues, pool: 32, ..line.plan() };
        let mut random = RandomStreams::new(16).stream(&format!("claims {number}"));
        let mut below = |n: u64| random.next_u64() % n;
        let (mut control, _) = line.open(&plan, choice);
        let mut claims: Vec<Claim> = Vec::new();
        let sinks: Vec<_> = PORTS.map(|port| line.sink(port)).collect();
        sinks.iter().for_each(|sink| sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout"));
        let source = line.source(6_000);
        let mut slot = 0;
        for step in 0..STEPS {
            let port = PORTS.start + below(3) as u16;
            let name = names(port)[below(12) as usize];
            match (below(10), claims.len() as u64) {
                (0..=3, _) | (_, 0) => {
                    slot += 1;
                    let rate = Rate::from_bps((1 + below(9)) * 100_000 + u64::from(slot) * 8);
                    let installation = installation(&line, slot, name, rate);
                    // So deep that every packet has room in every bucket.
                    let demand = Demand { burst: 1_000_000, ..installation.demand };
                    let installation = Installation { demand, ..installation };
                    control.install(&installation).expect("installed");
                    claims.push(Claim { installation, flows: vec![name] });
                }
                (4, count) => {
                    let claim = &mut claims[below(count) as usize];
                    let slot = u64::from(claim.installation.claim.slot);
                    claim.installation.demand.rate =
                        Rate::from_bps((1 + below(9)) * 100_000 + slot * 8);
                    let changed = Installation { flow: claim.flows[0], ..claim.installation };
                    control.install(&changed).expect("changed");
                }
                (5, count) => {
                    let claim = &mut claims[below(count) as usize];
                    control.add_flow(claim.installation.claim, name).expect("added");
                    if !claim.flows.contains(&name) {
                        claim.flows.push(name);
                    }
                }
                (6, count) => {
                    let claim = &mut claims[below(count) as usize];
                    if claim.flows.len() > 1 {
                        let gone = claim.flows.pop().expect("several");
                        control.remove_flow(claim.installation.claim, gone).expect("removed");
                    }
                }
                (7, _) if below(5) == 0 => {
                    drop(control);
                    control = line.open(&plan, choice).0;
                    // Soft state is refreshed in another order, and then nothing of the old state is left.
                    claims.reverse();
                    for claim in &claims {
                        let own = Installation { flow: claim.flows[0], ..claim.installation };
                        control.install(&own).expect("installed again");
                        for flow in &claim.flows[1..] {
                            control.add_flow(own.claim, *flow).expect("added again");
                        }
                    }
                    control.reap_adopted().expect("reaped");
                }
                (_, count) => {
                    let gone = claims.remove(below(count) as usize);
                    control.remove(gone.installation.claim).expect("removed");
                }
            }
            control.park_released().expect("tidied");
            for (port, sink) in PORTS.zip(&sinks) {
                let before = counts(&mut control, &claims);
                source.send_to(&[0; 100], SocketAddr::from((RECEIVER, port))).expect("sent");
                sink.recv(&mut [0; 200]).expect("received");
                let after = counts(&mut control, &claims);
                let taken: Vec<_> = after.iter().zip(&before).filter(|(a, b)| a != b).collect();
                let taken: Vec<ClaimId> = taken.into_iter().map(|((claim, _), _)| *claim).collect();
                let expected = Vec::from_iter(best(&claims, port, choice));
                let what = || format!("{queues:?} {choice:?} step {step} port {port}: {claims:#?}");
                assert_eq!(taken, expected, "{}", what());
            }
        }
        let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
        assert_eq!((found.removed, found.restored), (0, 0), "{queues:?} {choice:?}: {found:?}");
        claims.iter().for_each(|claim| control.remove(claim.installation.claim).expect("removed"));
        let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
        assert_eq!((found.removed, found.restored), (0, 0), "{queues:?} {choice:?}: {found:?}");
    }
}

fn counts(control: &mut TrafficControl, claims: &[Claim]) -> Vec<(ClaimId, u64)> {
    let ids = claims.iter().map(|claim| claim.installation.claim);
    ids.map(|id| (id, control.statistics(id).expect("counted").packets)).collect()
}

/// Returns a reservation for the measured stream, with a bucket as deep as its source may be late.
fn stream(line: &Line) -> Installation {
    let stream = installation(line, 1, flow(STREAM.0, STREAM.1), Rate::from_bps(RATE));
    Installation { demand: Demand { burst: 100_000, ..stream.demand }, ..stream }
}

/// During a flood, other claims on the stream's flow are installed, for more and for less, before and after its own,
/// and removed; another claim on a larger range that contains the stream is installed and used up by other packets; the
/// stream's own claim ends while a range covers it. The stream loses nothing.
pub(crate) fn claim_of_another_protocol_takes_nothing(choice: ClassifierChoice) {
    let ways = WAYS.iter().filter(|(queues, c)| *c == choice && *queues != Queues::Priority);
    for &(queues, _) in ways {
        let line = Line::new();
        let plan = LinkPlan { queues, ..line.plan() };
        let (mut control, _) = line.open(&plan, choice);
        let stream = stream(&line);
        let claim = |slot, flow, rate| installation(&line, slot, flow, Rate::from_bps(rate));
        let range = Flow::to_range("10.77.2.0/24".parse().expect("a prefix"));
        control.install(&claim(9, stream.flow, 8_000)).expect("another claim is first");
        control.install(&stream).expect("installed");
        let (source, sink) = (line.source(6_009), line.sink(5_009));
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| drain(&sink));
            run(&line, Duration::from_secs(4), || {
                let pause = || std::thread::sleep(Duration::from_millis(250));
                for (slot, rate) in [(10, 8_000), (11, 100_000), (12, 3_000_000)] {
                    control.install(&claim(slot, stream.flow, rate)).expect("installed");
                    pause();
                }
                for slot in [12, 9, 11] {
                    control.remove(claim(slot, stream.flow, 0).claim).expect("removed");
                    control.park_released().expect("tidied");
                    pause();
                }
                // Another flow's packets use up the larger range, and the flood is in it. Filters cannot distinguish
                // them.
                if choice == ClassifierChoice::Bpf {
                    control.install(&claim(13, range, 2_500_000)).expect("installed");
                    let greedy = Duration::from_millis(1_000);
                    send(&source, 5_009, PAYLOAD, 10_000_000, greedy, &stop);
                    control.remove(claim(13, range, 0).claim).expect("removed");
                }
                let to_port = Flow { protocol: 17, destination_port: STREAM.1, ..range };
                let wide = Installation { demand: stream.demand, ..claim(14, to_port, RATE) };
                control.install(&wide).expect("installed");
                control.remove(stream.claim).expect("removed");
                pause();
                control.install(&stream).expect("installed again");
                control.remove(wide.claim).expect("removed");
                pause();
            })
        });
        assert_eq!(outcome.received, outcome.sent, "{queues:?}: {outcome:?}");
    }
}

/// A change of rate keeps the time of installation; a claim of another link, or after a removal, has its own.
pub(crate) fn claim_has_the_time_of_its_installation() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let stream = stream(&line);
    let larger = installation(&line, stream.claim.slot, stream.flow, Rate::from_bps(2 * RATE));
    assert_eq!(control.installed_at(stream.claim), None);
    for (installation, at) in [(stream, 5), (larger, 9)] {
        control.install_for(None, &installation, Time::from_secs(at)).expect("installed");
        assert_eq!(control.installed_at(stream.claim), Some(Time::from_secs(5)));
    }
    control.remove(stream.claim).expect("removed");
    assert_eq!(control.installed_at(stream.claim), None);
    control.install_for(None, &stream, Time::from_secs(12)).expect("installed");
    assert_eq!(control.installed_at(stream.claim), Some(Time::from_secs(12)));
}

/// After a restart a small claim by another protocol comes before the owner's: the flow keeps its guarantee.
pub(crate) fn small_claim_after_adoption_takes_nothing() {
    for queues in [Queues::PerFlow, Queues::Aggregate, Queues::Priority] {
        let line = Line::new();
        let plan = LinkPlan { queues, ..line.plan() };
        let (mut first, _) = line.open(&plan, ClassifierChoice::Bpf);
        let stream = stream(&line);
        first.install_for(Some(Protocol::new(1)), &stream, Time::ZERO).expect("installed");
        drop(first);
        let plans = std::slice::from_ref(&plan);
        let opened = line.router.run_in(|| TrafficControl::open(plans, ClassifierChoice::Bpf));
        let (mut second, adopted) = opened.expect("inside").expect("traffic control");
        let adopted: Vec<_> = adopted.iter().map(|a| (a.rate, a.protocol)).collect();
        assert_eq!(adopted, [(Rate::from_bps(RATE), Some(Protocol::new(1)))], "{queues:?}");
        let ping = installation(&line, 5, stream.flow, Rate::from_bps(8_000));
        second.install_for(Some(Protocol::new(3)), &ping, Time::ZERO).expect("installed");
        assert_eq!(second.enforcement(ping.claim), Some(Enforcement::Standby), "{queues:?}");
        if queues != Queues::Priority {
            let outcome = run(&line, Duration::from_secs(1), || ());
            assert_eq!(outcome.received, outcome.sent, "{queues:?}: {outcome:?}");
        }
        assert_eq!(second.statistics(ping.claim).expect("counted").packets, 0);
        let again = Installation { claim: ClaimId { slot: 6, generation: 0 }, ..stream };
        second.install_for(Some(Protocol::new(1)), &again, Time::ZERO).expect("taken over");
        assert_eq!(second.enforcement(again.claim), Some(Enforcement::Enforced), "{queues:?}");
        assert_eq!(second.reap_adopted().expect("reaped"), 0, "{queues:?}");
        second.remove(again.claim).expect("removed");
        assert_eq!(second.enforcement(ping.claim), Some(Enforcement::Enforced), "{queues:?}");
        let found = line.router.run_in(|| second.reconcile()).expect("inside").expect("compared");
        assert_eq!((found.removed, found.restored), (0, 0), "{queues:?}: {found:?}");
    }
}

/// Each of a thousand claims on one flow takes no longer than the first, and can be removed again.
pub(crate) fn thousand_claims_on_one_flow_are_kept() {
    let line = Line::new();
    for queues in [Queues::Aggregate, Queues::PerFlow] {
        let plan = LinkPlan { queues, pool: 1_024, ..line.plan() };
        let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
        let best = installation(&line, 5_000, flow(6_000, 5_000), Rate::from_bps(2_000_000));
        let claim = |slot: u32| {
            let rate = Rate::from_bps(1_000 + u64::from(slot));
            installation(&line, slot, best.flow, rate)
        };
        (0..500).for_each(|slot| control.install(&claim(slot)).expect("installed"));
        control.install(&best).expect("installed");
        (500..1_000).for_each(|slot| control.install(&claim(slot)).expect("installed"));
        assert_eq!(control.other_claims(best.claim), 1_001);
        assert_eq!(control.enforcement(best.claim), Some(Enforcement::Enforced));
        (0..1_000).for_each(|slot| control.remove(claim(slot).claim).expect("removed"));
        assert_eq!(control.enforcement(best.claim), Some(Enforcement::Enforced));
        control.remove(best.claim).expect("removed");
        control.park_released().expect("tidied");
        let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
        assert_eq!((found.removed, found.restored), (0, 0), "{found:?}");
        line.router.run_in(|| control.teardown()).expect("inside").expect("removed");
    }
}
