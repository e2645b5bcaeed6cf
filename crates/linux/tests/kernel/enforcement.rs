//! Changes of traffic control by others are detected, repaired and reported, with the affected reservation.

use earmark_core::Rate;
use earmark_linux::netlink::Message;
use earmark_linux::{
    Changed, ClassifierChoice, Deviation, Enforcement, Fault, LinkPlan, Monitor, Queues,
    TrafficControl,
};

use crate::support::{
    Line, eventually, flow, installation, plan, request_as_other_program, tc_header,
};

const ROOT: u32 = u32::MAX;
const OUR_ROOT: u32 = 0xea4d_0000;

/// Whether the monitor reports changes by others on the line's link.
fn is_reported(monitor: &mut Monitor, line: &Line) -> bool {
    match monitor.changed().expect("received") {
        Changed::Interfaces(interfaces) => interfaces.contains(&line.outward),
        Changed::Anything => true,
    }
}

/// Changes by traffic control itself are not announced; changes by others are, at once.
pub(crate) fn change_by_another_program_is_reported() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let mut monitor = line.router.run_in(|| control.monitor()).expect("inside").expect("opened");
    let claim = installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1));
    control.install(&claim).expect("installed");
    control.remove(claim.claim).expect("removed");
    control.park_released().expect("tidied");
    control.install(&claim).expect("installed");
    assert!(!is_reported(&mut monitor, &line), "it was ourselves");
    // The class of the reservation, which is the first of the pool that was parked (RTM_DELTCLASS).
    request_as_other_program(
        &line.router,
        Message::new(41, 0).fixed(&tc_header(line.outward, OUR_ROOT | 0x11, 0)),
    );
    eventually("the deleted class is reported", || is_reported(&mut monitor, &line));
    let links = [line.outward].into();
    let found =
        line.router.run_in(|| control.reconcile_queues(&links)).expect("inside").expect("compared");
    let whose = Some((claim.claim, claim.flow));
    let deviation = |fault| Deviation { interface: line.outward, reservation: whose, fault };
    assert_eq!(found.deviations, [deviation(Fault::ClassMissing), deviation(Fault::Queue)]);
    assert!(!is_reported(&mut monitor, &line), "it was ourselves");
    assert_eq!(control.enforcement(claim.claim), Some(Enforcement::Enforced));

    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)),
    );
    eventually("the deleted qdisc is reported", || is_reported(&mut monitor, &line));
    let found =
        line.router.run_in(|| control.reconcile_queues(&links)).expect("inside").expect("compared");
    let whole = Deviation { interface: line.outward, reservation: None, fault: Fault::Qdisc };
    assert_eq!(found.deviations, [whole], "once for all of the link");
}

/// Another daemon removes everything, also classifier and flows, without an announcement: the audit finds it.
pub(crate) fn unannounced_change_is_found() {
    for queues in [Queues::PerFlow, Queues::Aggregate, Queues::Priority] {
        let line = Line::new();
        let plan = LinkPlan { queues, ..line.plan() };
        let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
        let claim = installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1));
        let other = installation(&line, 2, flow(6_001, 5_000), Rate::from_mbps(1));
        for claim in [&claim, &other] {
            control.install(claim).expect("installed");
        }
        let audit = |control: &mut TrafficControl| {
            line.router.run_in(|| control.audit(1)).expect("inside").expect("looked")
        };
        assert_eq!(audit(&mut control), [], "{queues:?}");
        let (second, _) = line.open(&plan, ClassifierChoice::Bpf);
        line.router.run_in(|| second.teardown()).expect("inside").expect("taken out");

        let interface = line.outward;
        let mut found = Vec::new();
        // One flow at a time, and then from the beginning.
        (0..4).for_each(|_| found.extend(audit(&mut control)));
        let whole = Deviation { interface, reservation: None, fault: Fault::Classifier };
        let of = |claim: &earmark_core::Installation| Deviation {
            interface,
            reservation: Some((claim.claim, claim.flow)),
            fault: Fault::Flow,
        };
        assert_eq!(found.len(), 3, "{queues:?}: {found:?}");
        for deviation in [whole, of(&claim), of(&other)] {
            assert!(found.contains(&deviation), "{queues:?}: {found:?}");
        }
        let links = [interface].into();
        let queues_found = line.router.run_in(|| control.reconcile_queues(&links));
        let queues_found = queues_found.expect("inside").expect("compared");
        assert_eq!(queues_found.deviations.first().map(|d| d.fault), Some(Fault::Qdisc));
        let rest = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
        assert_eq!((rest.removed, rest.restored), (0, 0), "{queues:?}: {rest:?}");
    }
}

/// Another program's qdisc cannot be replaced: the reservation is reported as not enforced, with the reason, until it
/// is again.
pub(crate) fn foreign_qdisc_is_named() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let claim = installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1));
    control.install(&claim).expect("installed");
    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)),
    );
    // RTM_NEWQDISC with create flags: a queue of 9 packets.
    let queue = Message::new(36, 0x500).fixed(&tc_header(line.outward, 0x10000, ROOT));
    request_as_other_program(&line.router, queue.text(1, "pfifo").u32(2, 9));
    let links = [line.outward].into();
    let found =
        line.router.run_in(|| control.reconcile_queues(&links)).expect("inside").expect("compared");
    assert_eq!(found.foreign, [(line.outward, "pfifo".to_owned())]);
    match control.enforcement(claim.claim) {
        Some(Enforcement::Unenforced(reason)) => assert!(reason.contains("pfifo"), "{reason}"),
        other => panic!("{other:?}"),
    }
    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, 0x10000, ROOT)),
    );
    line.router.run_in(|| control.reconcile_queues(&links)).expect("inside").expect("compared");
    assert_eq!(control.enforcement(claim.claim), Some(Enforcement::Enforced));
}

/// Repairs by the audit on one link do not clear the fault of another, which has another program's qdisc.
pub(crate) fn link_beside_a_foreign_qdisc_is_repaired() {
    let line = Line::new();
    // The audit visits the links in the order of their indexes.
    assert!(line.inward < line.outward);
    let plans = [plan(line.inward), plan(line.outward)];
    let open = |plans: &[LinkPlan]| {
        let opened = line.router.run_in(|| TrafficControl::open(plans, ClassifierChoice::Bpf));
        opened.expect("inside").expect("traffic control").0
    };
    let mut control = open(&plans);
    let foreign = installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1));
    let repaired = installation(&line, 2, flow(6_001, 5_000), Rate::from_mbps(1));
    let repaired = earmark_core::Installation { interface: line.inward, ..repaired };
    for claim in [&foreign, &repaired] {
        control.install(claim).expect("installed");
    }
    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)),
    );
    let queue = Message::new(36, 0x500).fixed(&tc_header(line.outward, 0x10000, ROOT));
    request_as_other_program(&line.router, queue.text(1, "pfifo").u32(2, 9));
    let links = [line.inward, line.outward].into();
    let found =
        line.router.run_in(|| control.reconcile_queues(&links)).expect("inside").expect("compared");
    assert_eq!(found.foreign, [(line.outward, "pfifo".to_owned())]);

    // Another daemon, of the other link only, detaches the classifier there.
    let other = open(&plans[..1]);
    line.router.run_in(|| other.teardown()).expect("inside").expect("taken out");
    let found = line.router.run_in(|| control.audit(0)).expect("inside").expect("looked");
    let classifier =
        Deviation { interface: line.inward, reservation: None, fault: Fault::Classifier };
    assert_eq!(found, [classifier], "put right on the one link");
    match control.enforcement(foreign.claim) {
        Some(Enforcement::Unenforced(reason)) => assert!(reason.contains("pfifo"), "{reason}"),
        other => panic!("the fault of the other link is forgotten: {other:?}"),
    }
    assert_eq!(control.enforcement(repaired.claim), Some(Enforcement::Enforced));
}
