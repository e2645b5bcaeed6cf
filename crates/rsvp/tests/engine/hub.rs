//! A hub: data come in and leave by one interface, to which all neighbours are attached (NBMA networks, or one Ethernet). All
//! messages and all errors reach whom they concern.

use earmark_core::Rate;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, List, Message, PathErr, Resv, ResvConf,
    RsvpHop,
};

use crate::common::*;
use crate::sharing::*;

/// Next hop of the data, on the same link as [`UPSTREAM`].
const NEXT: &str = "10.0.1.9";

/// A router whose route to the receiver leads back through eth1.
fn hub() -> Bench {
    let mut bench = router();
    bench.interfaces.remove(ETH2);
    bench.add_route("10.0.9.0/24", ETH1, Some(NEXT));
    bench
}

fn to(outcomes: &[Outcome], kind: fn(&Body<'_>) -> bool) -> Vec<String> {
    let sent = sent(outcomes);
    let of_kind = sent.iter().filter(|(_, Message { body, .. })| kind(body));
    of_kind.map(|(how, _)| how.destination.to_string()).collect()
}

#[test]
fn all_messages_pass_a_hub_both_ways() {
    let (flows, filters) = ([flow(2)], [template()]);
    let styles = [
        FlowDescriptors::FixedFilter(List::Items(&flows)),
        FlowDescriptors::SharedExplicit(Some(flowspec(2)), List::Items(&filters)),
        FlowDescriptors::Wildcard(Some(flowspec(2))),
    ];
    for flows in styles {
        let style = flows.style();
        let mut bench = hub();
        let outcomes = bench.receive(ETH1, Body::Path(path()));
        let sent_paths = sent(&outcomes);
        let [(how, _)] = &sent_paths[..] else { panic!("{style:?}: {outcomes:?}") };
        assert_eq!((how.interface, how.destination), (Some(ETH1), ip(RECEIVER)), "{style:?}");

        let mut resv = Resv { flows, confirm: Some(ip(RECEIVER)), ..resv(&[]) };
        resv.hop = RsvpHop { address: ip(NEXT), lih: bench.engine.lih(ETH1) };
        let outcomes = bench.receive(ETH1, Body::Resv(resv));
        assert_eq!(to(&outcomes, |body| matches!(body, Body::Resv(_))), [UPSTREAM], "{style:?}");
        assert_eq!(bench.held_on(ETH1), Rate::from_mbps(2), "{style:?}");

        let (node, code) = (ip("10.0.0.254"), ErrorCode::AdmissionControlFailure);
        let error = ErrorSpec { node, flags: 0, code, value: 2 };
        let sender = Some((template(), Some(tspec(2))));
        let path_err = PathErr { session: session(), error, carried: Carried::NONE, sender };
        let outcomes = bench.receive(ETH1, Body::PathErr(path_err));
        assert_eq!(to(&outcomes, |body| matches!(body, Body::PathErr(_))), [UPSTREAM], "{style:?}");

        let confirmed = ErrorSpec { code: ErrorCode::Confirmation, value: 0, ..error };
        let conf = ResvConf {
            session: session(),
            error: confirmed,
            confirm: ip(RECEIVER),
            carried: Carried::NONE,
            flows,
        };
        let outcomes = bench.receive(ETH1, Body::ResvConf(conf));
        assert_eq!(
            to(&outcomes, |body| matches!(body, Body::ResvConf(_))),
            [RECEIVER],
            "{style:?}"
        );

        let mut refused = failure_of(resv);
        refused.hop.address = ip(UPSTREAM);
        let outcomes = bench.receive(ETH1, Body::ResvErr(refused));
        assert_eq!(to(&outcomes, |body| matches!(body, Body::ResvErr(_))), [NEXT], "{style:?}");

        let outcomes = bench.receive(ETH1, Body::ResvTear(tear_of(resv)));
        assert_eq!(
            to(&outcomes, |body| matches!(body, Body::ResvTear(_))),
            [UPSTREAM],
            "{style:?}"
        );
        assert_eq!(bench.held_on(ETH1), Rate::ZERO, "{style:?}");
        let outcomes = bench.receive(ETH1, Body::PathTear(path_tear()));
        assert_eq!(
            to(&outcomes, |body| matches!(body, Body::PathTear(_))),
            [RECEIVER],
            "{style:?}"
        );
    }
}
