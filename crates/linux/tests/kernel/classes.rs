//! The kernel's classes of reservations.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use earmark_core::admission::Demand;
use earmark_core::{Installation, Rate};
use earmark_linux::netlink::{Attribute, Attributes, Connection, Message};
use earmark_linux::{ClassifierChoice, LinkPlan, TrafficControl, link};

use crate::support::{Line, RECEIVER, TIME_LIMIT, demand, flow, installation, tc_header};

/// Returns how many objects were restored since the last call.
fn restored(line: &Line, control: &mut TrafficControl) -> u32 {
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!(found.removed, 0);
    found.restored
}

/// Returns the rate of one of our classes in the kernel, octets per second: less than 2^32.
fn rate_of(line: &Line, minor: u32) -> u32 {
    ratespec_of(line, minor).0
}

/// Returns the rate of one of our classes in the kernel, and the octets that it adds to each packet.
fn ratespec_of(line: &Line, minor: u32) -> (u32, u16) {
    let class = tc_header(line.outward, 0xea4d_0000 | minor, 0);
    let request = Message::new(42, 8).fixed(&class); // RTM_GETTCLASS with NLM_F_ECHO
    let ask = || Connection::open()?.ask("read a class", request);
    let answers = line.router.run_in(ask).expect("inside").expect("is there");
    let message = answers.iter().next().expect("one").expect("well-formed");
    let options = named(message.attributes(20), 2);
    let parameters = named(options.nested(), 1);
    let ratespec = parameters.array::<12>("rate").expect("`struct tc_ratespec`");
    let [_, _, overhead @ .., _, _, _, _, _, _, _, _] = ratespec;
    let [.., a, b, c, d] = ratespec;
    (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes(overhead))
}

fn named(attributes: Attributes<'_>, kind: u16) -> Attribute<'_> {
    let mut well_formed = attributes.map(|attribute| attribute.expect("well-formed"));
    well_formed.find(|attribute| attribute.kind == kind).expect("is there")
}

/// Returns the number of packets that one of our classes has sent.
fn packets_of(line: &Line, minor: u32) -> u32 {
    let class = tc_header(line.outward, 0xea4d_0000 | minor, 0);
    let request = Message::new(42, 8).fixed(&class); // RTM_GETTCLASS with NLM_F_ECHO
    let ask = || Connection::open()?.ask("read a class", request);
    let answers = line.router.run_in(ask).expect("inside").expect("is there");
    let message = answers.iter().next().expect("one").expect("well-formed");
    let statistics = named(message.attributes(20), 7); // TCA_STATS2
    let basic = named(statistics.nested(), 1); // TCA_STATS_BASIC
    let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = basic.array::<12>("counters").expect("there");
    u32::from_ne_bytes([a, b, c, d])
}

/// Address resolution does not wait behind best effort: without an answer nothing could be sent any more.
pub(crate) fn neighbour_solicitation_passes_a_full_link(choice: ClassifierChoice) {
    const SIGNALLING: u32 = 3;
    let line = Line::new();
    line.add_ipv6();
    let _control = line.open(&line.plan(), choice);
    let before = packets_of(&line, SIGNALLING);
    let (source, sink) = (line.source(6_000), line.sink(5_000));
    sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    source.send_to(&[0; 100], SocketAddr::from((RECEIVER, 5_000))).expect("sent");
    sink.recv(&mut [0; 200]).expect("received");
    let by_arp = packets_of(&line, SIGNALLING);
    assert!(by_arp > before, "ARP asked with best effort");
    line.meet_in_ipv6();
    assert!(packets_of(&line, SIGNALLING) > by_arp, "neighbour discovery asked with best effort");
}

/// The kernel reports every rate as it was set, from one bit per second to more than any link has, also past 32 bits,
/// so that nothing is repaired again and again.
pub(crate) fn class_of_any_rate_has_that_rate() {
    let line = Line::new();
    let all = Rate::from_mbps(400_000);
    let plan = LinkPlan { pool: 8, ..LinkPlan::new(line.outward, all, all) };
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    let rates = [1, 8, 64_000, 34_359_738_360, 34_359_738_368, 100_000_000_000, u64::MAX];
    for (bps, slot) in rates.into_iter().zip(0..) {
        for burst in [0, 3_000, u32::MAX] {
            let rate = Rate::from_bps(bps);
            let flow = flow(6_000, 5_000 + slot as u16);
            let demand = Demand { burst, ..demand(rate) };
            let install = Installation { demand, ..installation(&line, slot, flow, rate) };
            control.install(&install).expect("installed");
            assert_eq!(restored(&line, &mut control), 0, "{bps} bit/s, {burst} octets");
        }
    }
}

/// After changes of the MTU and of the plan, the classes are adapted once, and installations stay.
pub(crate) fn changed_mtu_or_bandwidth_changes_the_classes() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let mine = installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1));
    control.install(&mine).expect("installed");
    for mtu in [9_000, 1_400] {
        link::set_mtu(&line.router, "right", mtu).expect("set");
        assert!(restored(&line, &mut control) > 0);
        assert_eq!(restored(&line, &mut control), 0, "MTU {mtu}");
    }
    assert_eq!(rate_of(&line, 1), 1_250_000);
    let doubled = LinkPlan { bandwidth: Rate::from_mbps(20), ..line.plan() };
    control.add_link(&doubled).expect("changed");
    assert_eq!(rate_of(&line, 1), 2_500_000);
    drop(control);
    // The next daemon has another configuration.
    let halved = LinkPlan { bandwidth: Rate::from_mbps(5), ..line.plan() };
    let (mut control, adopted) = line.open(&halved, ClassifierChoice::Bpf);
    assert_eq!(adopted, [mine.flow]);
    assert_eq!((rate_of(&line, 1), rate_of(&line, 0x10)), (625_000, 125_000));
    assert_eq!(restored(&line, &mut control), 0);
}

/// The link and best effort count the overhead of the plan for each packet, also after a change. A reservation counts IP
/// octets alone.
pub(crate) fn overhead_of_the_plan_counts_for_the_link_and_best_effort() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let mine = installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1));
    control.install(&mine).expect("installed");
    let overheads = || [1, 2, 0x10].map(|minor| ratespec_of(&line, minor).1);
    assert_eq!(overheads(), [14, 14, 0], "Ethernet");
    control.add_link(&LinkPlan { overhead: 74, ..line.plan() }).expect("changed");
    assert_eq!(overheads(), [74, 74, 0]);
    assert_eq!(rate_of(&line, 0x10), 125_000);
    assert_eq!(restored(&line, &mut control), 0);
}

/// Released reservations keep their classes until these are parked, all at once: more than fit in one request. The next
/// daemon repairs what an earlier one did not park.
pub(crate) fn released_classes_are_parked_together() {
    const COUNT: u32 = 100;
    let line = Line::new();
    let plan = LinkPlan { pool: COUNT, pool_limit: COUNT, ..line.plan() };
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    let unused = rate_of(&line, 0x10);
    let all: Vec<_> = (0..COUNT)
        .map(|n| installation(&line, n, flow(6_000 + n as u16, 5_000), Rate::from_mbps(1)))
        .collect();
    for reservation in &all {
        control.install(reservation).expect("installed");
    }
    let rates =
        || -> BTreeSet<u32> { (0x10..0x10 + COUNT).map(|minor| rate_of(&line, minor)).collect() };
    assert_eq!(rates(), BTreeSet::from([125_000]));
    for reservation in &all {
        control.remove(reservation.claim).expect("removed");
    }
    control.park_released().expect("parked");
    assert_eq!(rates(), BTreeSet::from([unused]));
    assert_eq!(restored(&line, &mut control), 0);
    control.install(&all[0]).expect("there are classes again");
    control.remove(all[0].claim).expect("removed");
    drop(control);
    let (mut next, adopted) = line.open(&plan, ClassifierChoice::Bpf);
    assert_eq!((adopted.len(), rates()), (0, BTreeSet::from([unused])));
    assert_eq!(restored(&line, &mut next), 0);
}

/// A reservation is removed whose rate is so small that its class has a debt of a minute, with waiting packets. The
/// class is the only one, and the next owner gets its rate at once.
pub(crate) fn reused_class_counts_from_zero() {
    let line = Line::new();
    let plan = LinkPlan { pool: 1, pool_limit: 1, ..line.plan() };
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    let tiny = installation(&line, 1, flow(6_000, 5_000), Rate::from_bps(1));
    control.install(&tiny).expect("installed");
    let (source, sink) = (line.source(6_000), line.sink(5_000));
    for _ in 0..10 {
        source.send_to(&[0; 1_400], SocketAddr::from((RECEIVER, 5_000))).expect("sent");
    }
    let mut received = 0;
    while sink.recv(&mut [0; 2_000]).is_ok() {
        received += 1;
    }
    assert!((1..5).contains(&received), "a bucket of two packets, and one on debt: {received}");
    let waiting = control.statistics(tiny.claim).expect("counted").backlog_packets;
    assert_eq!(waiting, 10 - received);

    control.remove(tiny.claim).expect("removed");
    let next = installation(&line, 2, flow(6_001, 5_001), Rate::from_mbps(1));
    control.install(&next).expect("installed");
    let (source, next_sink) = (line.source(6_001), line.sink(5_001));
    source.send_to(&[0; 1_400], SocketAddr::from((RECEIVER, 5_001))).expect("sent");
    next_sink.recv(&mut [0; 2_000]).expect("at once");
    assert!(sink.recv(&mut [0; 2_000]).is_err(), "what waited is gone with its reservation");
    assert_eq!(control.statistics(next.claim).expect("counted").packets, 1);
    assert_eq!(restored(&line, &mut control), 0);
}
