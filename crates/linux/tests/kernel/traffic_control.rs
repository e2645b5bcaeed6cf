//! Traffic control without a flood.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_core::Rate;
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::netns::Namespace;
use earmark_linux::{
    Access, ClassifierChoice, LinkPlan, TcError, TrafficControl, capabilities as our_capabilities,
};

use crate::support::{
    Line, RECEIVER, TIME_LIMIT, flow, installation, request_as_other_program, tc_header,
};

const ROOT: u32 = u32::MAX;
const OUR_ROOT: u32 = 0xea4d_0000;

/// Sends a packet from the sender's port to the receiver's, and waits for it.
pub(crate) fn pass(line: &Line, from: u16, to: u16) {
    let (source, sink) = (line.source(from), line.sink(to));
    sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    source.send_to(&[0; 100], SocketAddr::from((RECEIVER, to))).expect("sent");
    sink.recv(&mut [0; 200]).expect("received");
}

/// Returns the number of packets through the class of a claim.
pub(crate) fn counted(control: &mut TrafficControl, slot: u32) -> u64 {
    let claim = earmark_core::admission::ClaimId { slot, generation: 0 };
    control.statistics(claim).expect("counted").packets
}

/// Of two adopted flows, one is claimed again, the other is dropped after a while, and its class is free again.
pub(crate) fn unclaimed_flow_is_reaped(choice: ClassifierChoice) {
    let line = Line::new();
    let mut plan = line.plan();
    (plan.pool, plan.pool_limit) = (2, 2);
    let (mut first, _) = line.open(&plan, choice);
    let rate = Rate::from_mbps(1);
    for slot in [1, 2] {
        let flow = flow(6_000 + slot as u16, 5_000);
        first.install(&installation(&line, slot, flow, rate)).expect("installed");
    }
    drop(first);
    let (mut second, mut adopted) = line.open(&plan, choice);
    adopted.sort();
    assert_eq!(adopted, [flow(6_001, 5_000), flow(6_002, 5_000)]);
    // Another flow must wait for a class.
    let third = installation(&line, 3, flow(6_003, 5_000), rate);
    assert!(matches!(second.install(&third), Err(TcError::PoolFull { limit: 2, .. })));
    second.install(&installation(&line, 9, flow(6_002, 5_000), rate)).expect("claimed");
    assert_eq!(second.reap_adopted().expect("reaped"), 1);
    second.install(&third).expect("there is a class now");
    for (slot, from, packets) in [(9, 6_002, 1), (3, 6_003, 1), (3, 6_001, 1)] {
        pass(&line, from, 5_000);
        assert_eq!(counted(&mut second, slot), packets);
    }
}

/// The count of a link has the packets of all reservations with its overhead, and not those of best effort. A packet that the kernel sends
/// while the classes are read, such as a report of its groups, may be counted.
pub(crate) fn octets_of_reserved_classes_are_counted(choice: ClassifierChoice) {
    const PACKETS: u64 = 8;
    let line = Line::new();
    let plan = LinkPlan { overhead: 30, ..line.plan() };
    let (mut control, _) = line.open(&plan, choice);
    let send = |port| (0..PACKETS).for_each(|_| pass(&line, port, 5_000));
    let count = |control: &mut TrafficControl, reservations: u64| {
        let octets = control.reserved_octets(line.outward).expect("read").expect("counted");
        let expected = reservations * PACKETS * (20 + 8 + 100 + 30);
        assert!((expected..expected + 500).contains(&octets), "{octets}, expected {expected}");
    };
    count(&mut control, 0);
    send(6_009);
    count(&mut control, 0);
    for slot in [1, 2] {
        let flow = flow(6_000 + slot as u16, 5_000);
        control.install(&installation(&line, slot, flow, Rate::from_mbps(1))).expect("installed");
        send(flow.source_port);
    }
    count(&mut control, 2);
    send(6_009);
    count(&mut control, 2);
}

/// Another program deletes a class, the classifier's entry, the whole qdisc, and adds a class.
pub(crate) fn altered_state_is_reconciled(choice: ClassifierChoice) {
    let line = Line::new();
    let mut plan = line.plan();
    plan.pool = 8;
    let (mut control, _) = line.open(&plan, choice);
    control
        .install(&installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1)))
        .expect("installed");
    let reconcile = |control: &mut TrafficControl| {
        let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
        (found.removed, found.restored)
    };
    assert_eq!(reconcile(&mut control), (0, 0));

    // An unused class of the pool (RTM_DELTCLASS).
    request_as_other_program(
        &line.router,
        Message::new(41, 0).fixed(&tc_header(line.outward, OUR_ROOT | 0x17, 0)),
    );
    assert_eq!(reconcile(&mut control), (0, 2), "the class and its queue");

    // An unknown class (RTM_NEWTCLASS with create flags): 1 Mbit/s in `struct tc_htb_opt`.
    let mut options = [0; 44];
    for at in [0, 12] {
        options[at + 1] = 1;
        options[at + 8..at + 12].copy_from_slice(&125_000_u32.to_ne_bytes());
    }
    options[32..36].copy_from_slice(&2_000_u32.to_ne_bytes());
    let header = tc_header(line.outward, OUR_ROOT | 0x7777, OUR_ROOT | 1);
    let class = Message::new(40, 0x400).fixed(&header).text(1, "htb");
    request_as_other_program(&line.router, class.nested(2, |m| m.attribute(1, &options)));
    assert_eq!(reconcile(&mut control), (1, 0));

    // Everything (RTM_DELQDISC).
    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)),
    );
    let (removed, restored) = reconcile(&mut control);
    assert!(removed == 0 && restored >= 12, "root, three classes and eight, queues: {restored}");
    assert_eq!(reconcile(&mut control), (0, 0));
    pass(&line, 6_000, 5_000);
    assert_eq!(counted(&mut control, 1), 1, "the flow finds its class again");

    // Everything again, and an installation comes before the reconciliation.
    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)),
    );
    let second = installation(&line, 2, flow(6_001, 5_000), Rate::from_mbps(1));
    line.router.run_in(|| control.install(&second)).expect("inside").expect("built again");
    pass(&line, 6_001, 5_000);
    assert_eq!(counted(&mut control, 2), 1);

    earmark_linux::link::delete(&line.router, "right").expect("deleted");
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!(found.gone, [line.outward]);
    assert!(matches!(control.install(&second), Err(TcError::UnknownLink { .. })));
}

/// Three flows share a class. The next daemon adopts all three, with the rate counted once; the first one that is
/// claimed takes over the class, and the others stay in it when they are added again.
pub(crate) fn flows_that_share_a_class_share_its_rate(choice: ClassifierChoice) {
    let line = Line::new();
    let mut plan = line.plan();
    (plan.pool, plan.pool_limit) = (1, 1);
    let (mut first, _) = line.open(&plan, choice);
    let rate = Rate::from_mbps(1);
    let shared = installation(&line, 1, flow(6_002, 5_000), rate);
    first.install(&shared).expect("installed");
    for port in [6_001, 6_003] {
        first.add_flow(shared.claim, flow(port, 5_000)).expect("added");
    }
    drop(first);
    let open = || TrafficControl::open(std::slice::from_ref(&plan), choice);
    let (mut second, mut adopted) =
        line.router.run_in(open).expect("inside").expect("traffic control");
    adopted.sort_by_key(|adopted| adopted.flow);
    let rates: Vec<_> = adopted.iter().map(|a| (a.flow.source_port, a.rate)).collect();
    assert_eq!(rates, [(6_001, rate), (6_002, Rate::ZERO), (6_003, Rate::ZERO)]);
    let again = installation(&line, 7, flow(6_003, 5_000), rate);
    second.install(&again).expect("claimed, by the last of them");
    second.add_flow(again.claim, flow(6_001, 5_000)).expect("added");
    assert_eq!(second.reap_adopted().expect("reaped"), 1, "only that which was not added");
    for (port, packets) in [(6_001, 1), (6_003, 2), (6_002, 2)] {
        pass(&line, port, 5_000);
        assert_eq!(counted(&mut second, 7), packets);
    }
}

/// A daemon with the other classifier finds nothing to adopt and no leftovers of the first.
pub(crate) fn changed_classifier_replaces_the_other() {
    let line = Line::new();
    for choice in [ClassifierChoice::Bpf, ClassifierChoice::U32, ClassifierChoice::Bpf] {
        let (mut control, adopted) = line.open(&line.plan(), choice);
        assert!(adopted.is_empty(), "{choice:?}: {adopted:?}");
        let port = if choice == ClassifierChoice::Bpf { 6_000 } else { 6_001 };
        let mine = installation(&line, 1, flow(port, 5_000), Rate::from_mbps(1));
        control.install(&mine).expect("installed");
        pass(&line, 6_000, 5_000);
        pass(&line, 6_001, 5_000);
        assert_eq!(counted(&mut control, 1), 1);
    }
}

/// A root qdisc of the operator stays, before and after.
pub(crate) fn foreign_qdisc_is_left_alone() {
    let line = Line::new();
    let pfifo = |flags| {
        let header = tc_header(line.outward, 0x0001_0000, ROOT);
        Message::new(36, flags).fixed(&header).text(1, "pfifo").u32(2, 10) // RTM_NEWQDISC
    };
    request_as_other_program(&line.router, pfifo(0x600));
    let refused = || TrafficControl::open(&[line.plan()], ClassifierChoice::Auto);
    match line.router.run_in(refused).expect("inside") {
        Err(error @ TcError::ForeignQdisc { .. }) => {
            assert_eq!(error.errno(), 16, "EBUSY");
            assert!(error.to_string().contains("pfifo"), "{error}");
        }
        other => panic!("not refused: {other:?}"),
    }
    request_as_other_program(
        &line.router,
        Message::new(37, 0).fixed(&tc_header(line.outward, 0x0001_0000, ROOT)),
    );
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    request_as_other_program(&line.router, pfifo(0x500)); // replaces ours
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!(found.foreign, [(line.outward, "pfifo".to_owned())]);
    line.router.run_in(|| control.teardown()).expect("inside").expect("nothing of ours");
    let refused = line.router.run_in(refused).expect("inside");
    assert!(matches!(refused, Err(TcError::ForeignQdisc { .. })), "still there");
}

/// More installations than classes in advance, up to the limit; and classes are reused.
pub(crate) fn pool_grows_to_its_limit() {
    let line = Line::new();
    let mut plan = line.plan();
    (plan.pool, plan.pool_limit) = (10, 100);
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    let rate = Rate::from_bps(64_000);
    let numbered = |n: u32| installation(&line, n, flow(6_000 + n as u16, 5_000), rate);
    for n in 0..100 {
        control.install(&numbered(n)).expect("installed");
    }
    assert!(matches!(control.install(&numbered(100)), Err(TcError::PoolFull { limit: 100, .. })));
    control.install(&numbered(50)).expect("what is there can be changed");
    control.remove(numbered(3).claim).expect("removed");
    control.remove(numbered(3).claim).expect("gone already");
    control.install(&numbered(100)).expect("there is a class now");
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0));
    // A daemon with smaller plans keeps the classes in use.
    drop(control);
    let (_second, adopted) = line.open(&line.plan(), ClassifierChoice::Bpf);
    assert_eq!(adopted.len(), 100);
}

/// After the teardown nothing of ours is left on the link: another program's qdisc can be installed.
pub(crate) fn removed_link_leaves_nothing() {
    for choice in [ClassifierChoice::Bpf, ClassifierChoice::U32] {
        let line = Line::new();
        let (mut control, _) = line.open(&line.plan(), choice);
        control
            .install(&installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1)))
            .expect("installed");
        line.router.run_in(|| control.teardown()).expect("inside").expect("removed");
        let header = tc_header(line.outward, 0x0001_0000, ROOT);
        request_as_other_program(
            &line.router,
            Message::new(36, 0x600).fixed(&header).text(1, "pfifo").u32(2, 10),
        );
        request_as_other_program(&line.router, Message::new(37, 0).fixed(&header));
        let (_, adopted) = line.open(&line.plan(), choice);
        assert!(adopted.is_empty());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// With only CAP_NET_ADMIN and CAP_NET_RAW, everything but opening works: installing, repairing a deleted qdisc and a
/// detached classifier, taking over another link, teardown.
pub(crate) fn calls_after_open_need_only_network_capabilities() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let without = || {
        our_capabilities::drop_to_network_capabilities().expect("dropped");
        assert!(our_capabilities::missing(Access::Raw, true).expect("readable").is_empty());
        let refused = Namespace::create("earmark-never").expect_err("that takes CAP_SYS_ADMIN");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        control
            .install(&installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1)))
            .expect("installed");
        control
            .add_link(&earmark_linux::LinkPlan { interface: line.inward, ..line.plan() })
            .expect("added");
        let everything = tc_header(line.outward, OUR_ROOT, ROOT);
        Connection::open()
            .and_then(|mut kernel| {
                kernel.request("change traffic control", Message::new(37, 0).fixed(&everything))
            })
            .expect("deleted");
        assert!(control.reconcile().expect("built again").restored > 0);
        control
    };
    let mut control = line.router.run_in(without).expect("inside");
    pass(&line, 6_000, 5_000);
    assert_eq!(counted(&mut control, 1), 1);
    let leave = || {
        our_capabilities::drop_to_network_capabilities().expect("dropped");
        control.teardown().expect("removed");
    };
    line.router.run_in(leave).expect("inside");
}
