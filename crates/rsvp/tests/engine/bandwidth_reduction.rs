//! Reservations of which preemption leaves a part (RFC 4495), in all styles.

use earmark_core::Rate;
use earmark_core::admission::PreemptionPolicy;
use earmark_rsvp::Config;
use earmark_rsvp::policy::{Identity, Settings};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::iana::PolicyControlError;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, Path, Resv, ResvErr, Session,
};

use crate::common::*;
use crate::sharing::{path_of, sender_on, shared, wildcard};

/// A router with partial preemption and 7.5 reservable Mbit/s.
fn router_with_preemption() -> Bench {
    let preemption = Some(PreemptionPolicy { partial: true });
    let policy = Settings { preemption, ..Settings::default() };
    let mut bench = with_config(Config { policy, ..Config::default() });
    bench.ledger.set_preemption(preemption);
    bench
}

/// Another session, which reserves this rate with priority, in Mbit/s.
fn displace(router: &mut Bench, mbps: u32) -> Vec<Outcome> {
    let session = Session { port: 6_000, ..session() };
    router.receive(ETH1, Body::Path(Path { session, ..path() }));
    let identity = Identity { priority: Some(9), ..Identity::default() };
    let carried = identity.policy_data().expect("a priority");
    let flows = [flow(mbps)];
    let carried = Carried::Objects(&carried);
    router.receive(ETH2, Body::Resv(Resv { session, carried, ..resv(&flows) }))
}

/// Returns error, style and remaining rate, in octets per second, of each ResvErr.
fn reductions(outcomes: &[Outcome]) -> Vec<(ErrorCode, u16, u8, &'static str, f32)> {
    let read = |error: &ResvErr<'_>| {
        let (style, flowspec) = match &error.flows {
            FlowDescriptors::FixedFilter(flows) => {
                ("FF", flows.iter().next().and_then(|flow| flow.flowspec))
            }
            FlowDescriptors::SharedExplicit(flowspec, _) => ("SE", *flowspec),
            FlowDescriptors::Wildcard(flowspec) => ("WF", *flowspec),
        };
        let ErrorSpec { code, value, flags, .. } = error.error;
        let rate = flowspec.map_or(0.0, |flowspec: FlowSpec| flowspec.token_bucket().rate);
        (code, value, flags, style, rate)
    };
    let sent = sent(outcomes);
    let errors = sent.iter().filter_map(|(_, message)| match &message.body {
        Body::ResvErr(error) => Some(read(error)),
        _ => None,
    });
    errors.collect()
}

/// Sections 5.1 to 5.3: the ResvErr has the style and the flowspec that is left, no ResvTear goes upstream, the next
/// refresh has the reduced request, and a repeated request takes nothing more and nothing less.
#[test]
fn reservation_of_any_style_keeps_what_is_left() {
    let senders = [sender_on(4_000), sender_on(4_001)];
    let flows = [flow(5)];
    for (style, request) in [("FF", resv(&flows)), ("SE", shared(5, &senders)), ("WF", wildcard(5))]
    {
        let mut router = router_with_preemption();
        for sender in senders {
            router.receive(ETH1, Body::Path(path_of(sender)));
        }
        router.receive(ETH2, Body::Resv(request));
        assert_eq!(router.held(), Rate::from_mbps(5), "{style}");
        let outcomes = displace(&mut router, 4);
        let [(code, value, flags, of, left)] = reductions(&outcomes)[..] else {
            panic!("one ResvErr: {outcomes:?}")
        };
        let partial = PolicyControlError::PartiallyPreempted.code();
        let expected = (ErrorCode::PolicyControlFailure, partial, ErrorSpec::IN_PLACE, style);
        assert_eq!((code, value, flags, of), expected);
        assert!(left > 437_490.0 && left <= 437_500.0, "3.5 Mbit/s: {left}");
        let is_tear = |outcomes: &[Outcome]| {
            sent(outcomes).iter().any(|(_, message)| matches!(message.body, Body::ResvTear(_)))
        };
        assert!(!is_tear(&outcomes), "{style}");
        let held = router.held();
        assert!(held > Rate::from_bps(7_499_900) && held <= Rate::from_bps(7_500_000), "{held:?}");

        assert_eq!(reductions(&router.receive(ETH2, Body::Resv(request))), [], "{style}");
        assert_eq!(router.held(), held, "{style}");
        let refreshed = router.pass(std::time::Duration::from_secs(46));
        assert!(!is_tear(&refreshed), "{style}");
        let upstream = sent(&refreshed).into_iter().find_map(|(_, message)| match message.body {
            Body::Resv(resv) if resv.session == session() => Some(match resv.flows {
                FlowDescriptors::FixedFilter(flows) => flows.iter().next()?.flowspec?,
                FlowDescriptors::SharedExplicit(flowspec, _)
                | FlowDescriptors::Wildcard(flowspec) => flowspec?,
            }),
            _ => None,
        });
        let upstream = upstream.expect("a refresh").token_bucket().rate;
        assert_eq!(upstream.to_bits(), left.to_bits(), "{style}: {upstream}");
    }
}

/// Section 5.6: of several reservations, one is reduced, and the others stay or end as a whole.
#[test]
fn one_reservation_is_reduced_by_one_request() {
    let mut router = router_with_preemption();
    router.receive(ETH1, Body::Path(path()));
    let later = Session { port: 6_001, ..session() };
    router.receive(ETH1, Body::Path(Path { session: later, ..path() }));
    let (large, small) = ([flow(4)], [flow(3)]);
    router.receive(ETH2, Body::Resv(resv(&large)));
    router.receive(ETH2, Body::Resv(Resv { session: later, ..resv(&small) }));
    let outcomes = displace(&mut router, 2);
    let partial = PolicyControlError::PartiallyPreempted.code();
    let [(code, value, ..)] = reductions(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!((code, value), (ErrorCode::PolicyControlFailure, partial), "the newer one");
}
