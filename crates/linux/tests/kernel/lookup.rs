//! The reported treatment of a flow's packets equals that of the classifier.

use earmark_core::{Flow, Rate};
use earmark_linux::netlink::Message;
use earmark_linux::{
    ClassOrPriority, ClassifierChoice, FlowOnLink, Precedence, TcError, TrafficControl,
};

use crate::support::{
    Line, RECEIVER, eventually, flow, installation, request_as_other_program, tc_header,
};

fn of(control: &mut TrafficControl, line: &Line, packets: &Flow, limit: usize) -> FlowOnLink {
    let ask = || control.flow_on_link(line.outward, packets, limit);
    line.router.run_in(ask).expect("inside").expect("an answer")
}

/// Returns the slots of the claims in order, each with its precedence.
fn precedences(on_link: &FlowOnLink) -> Vec<(u32, Precedence)> {
    let precedence =
        |claim: &earmark_linux::FlowClaim| (claim.claim.expect("ours").slot, claim.precedence);
    on_link.claims.iter().map(precedence).collect()
}

/// Packets take the class of the lookup, among claims of every width; removed objects are reported as missing.
pub(crate) fn flow_with_claims_of_every_width_has_all_listed(choice: ClassifierChoice) {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), choice);
    let exact = flow(6_000, 5_000);
    let any_source = Flow { source: None, source_port: 0, ..exact };
    let range = Flow::to_range("10.77.2.0/24".parse().expect("a prefix"));
    for (slot, flow, kbps) in
        [(1, exact, 1_000), (2, exact, 500), (3, any_source, 2_000), (4, range, 3_000)]
    {
        let rate = Rate::from_bps(kbps * 1_000);
        control.install(&installation(&line, slot, flow, rate)).expect("installed");
    }
    let (governs, next, standby) = (Precedence::Governs, Precedence::Next, Precedence::Standby);
    let is_bpf = choice == ClassifierChoice::Bpf;
    let found = of(&mut control, &line, &exact, 10);
    assert_eq!((found.count, found.fault.as_deref(), found.classifier), (4, None, choice));
    assert_eq!(
        precedences(&found),
        match is_bpf {
            true => vec![(1, governs), (3, next), (4, next), (2, standby)],
            false => vec![(4, governs), (1, standby), (2, standby), (3, standby)],
        }
    );
    // Packets are counted for the reported claim.
    let (source, sink) = (line.source(6_000), line.sink(5_000));
    let claim = found.claims[0].claim.expect("ours");
    let before = control.statistics(claim).expect("counted").packets;
    source.send_to(&[0; 100], (RECEIVER, 5_000)).expect("sent");
    sink.recv(&mut [0; 200]).expect("arrives");
    eventually("the packet is counted", || {
        control.statistics(claim).expect("counted").packets == before + 1
    });
    let ClassOrPriority::Class { handle, is_there: true } = found.kernel.expect("an entry").class
    else {
        panic!("{found:?}")
    };
    assert_ne!(found.best_effort, ClassOrPriority::Class { handle, is_there: true });

    let limited = of(&mut control, &line, &exact, 1);
    assert_eq!((limited.claims.len(), limited.count), (1, 4));
    let other = of(&mut control, &line, &flow(6_001, 5_000), 10);
    let expected = if is_bpf { [(3, governs), (4, next)] } else { [(4, governs), (3, standby)] };
    assert_eq!(precedences(&other), expected);
    assert_eq!(precedences(&of(&mut control, &line, &flow(6_001, 5_001), 10)), [(4, governs)]);
    let outside = Flow { destination: [10, 77, 9, 1].into(), ..exact };
    let outside = of(&mut control, &line, &outside, 10);
    assert_eq!((outside.count, outside.kernel, outside.fault), (0, None, None));

    // On other links only the claims for this flow; ranges may be for the flows of any link.
    let elsewhere = control.claims_elsewhere(Some(line.inward), &exact, 10);
    let elsewhere: Vec<u32> =
        elsewhere.iter().map(|(_, claim)| claim.claim.expect("ours").slot).collect();
    assert_eq!(elsewhere.len(), 3, "{elsewhere:?}");
    assert!(!elsewhere.contains(&4), "{elsewhere:?}");
    assert_eq!(control.claims_elsewhere(Some(line.outward), &exact, 10), []);
    let unknown = control.flow_on_link(line.inward, &exact, 10);
    assert!(matches!(unknown, Err(TcError::UnknownLink { .. })), "{unknown:?}");

    // RTM_DELTCLASS; classes with u32 filters cannot be deleted.
    if is_bpf {
        request_as_other_program(
            &line.router,
            Message::new(41, 0).fixed(&tc_header(line.outward, handle, 0)),
        );
        let found = of(&mut control, &line, &exact, 10);
        assert_eq!(found.fault.as_deref(), Some("the class is missing"));
        let (other, _) = line.open(&line.plan(), choice);
        line.router.run_in(|| other.teardown()).expect("inside").expect("taken out");
        let found = of(&mut control, &line, &exact, 10);
        assert_eq!(found.fault.as_deref(), Some("the classifier is not attached"));
        assert_eq!((found.kernel, found.count), (None, 4));
    }
}

/// One claim for several flows, many claims on one flow, and the end of the best.
pub(crate) fn shared_and_many_claims_are_listed_up_to_the_limit() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let shared = installation(&line, 1, flow(6_001, 5_000), Rate::from_mbps(1));
    control.install(&shared).expect("installed");
    control.add_flow(shared.claim, flow(6_002, 5_000)).expect("added");
    let found = of(&mut control, &line, &flow(6_002, 5_000), 10);
    assert_eq!(precedences(&found), [(1, Precedence::Governs)]);
    assert!(found.claims[0].is_shared, "{found:?}");
    assert!(found.kernel.expect("an entry").bucket.is_some(), "{found:?}");

    let exact = flow(6_000, 5_000);
    for slot in 2..302 {
        let rate = Rate::from_bps(u64::from(slot) * 1_000);
        control.install(&installation(&line, slot, exact, rate)).expect("installed");
    }
    let found = of(&mut control, &line, &exact, 3);
    assert_eq!(found.count, 300);
    let first =
        [(301, Precedence::Governs), (300, Precedence::Standby), (299, Precedence::Standby)];
    assert_eq!(precedences(&found), first);
    control.remove(installation(&line, 301, exact, Rate::ZERO).claim).expect("removed");
    let found = of(&mut control, &line, &exact, 1);
    assert_eq!((precedences(&found), found.count), (vec![(300, Precedence::Governs)], 299));
    assert_eq!(found.fault, None);
}

/// Links without classes per claim: buckets before one class for all, or before a band of the device.
pub(crate) fn link_without_classes_reports_priorities() {
    use earmark_linux::{LinkPlan, Queues};
    for queues in [Queues::Aggregate, Queues::Priority] {
        let line = Line::new();
        let plan = LinkPlan { queues, ..line.plan() };
        let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
        let exact = flow(6_000, 5_000);
        control.install(&installation(&line, 1, exact, Rate::from_mbps(1))).expect("installed");
        let found = of(&mut control, &line, &exact, 10);
        assert_eq!((found.queues, found.fault.as_deref()), (queues, None));
        let entry = found.kernel.expect("an entry");
        let is_priority = matches!(entry.class, ClassOrPriority::Priority(_));
        assert_eq!(is_priority, queues == Queues::Priority, "{found:?}");
        assert_ne!(entry.class, found.best_effort);
        let rate = entry.bucket.expect("a bucket").as_bps();
        assert!((990_000..1_010_000).contains(&rate), "{rate}");
    }
}
