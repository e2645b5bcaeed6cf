//! Requests for the services of RFC 2211 and 2212: values that are refused, and values that pass unchanged.

use earmark_core::Rate;
use earmark_wire::intserv::{Adspec, FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::{Body, ErrorCode, FixedFilterFlow, FlowDescriptors};

use crate::common::*;

/// A router that knows a sender with this bucket depth, octets.
fn with_sender(depth: f32) -> Bench {
    let mut router = router();
    let mut announced = path();
    announced.sender.tspec = TokenBucket { depth, ..tspec(2) };
    router.receive(ETH1, Body::Path(announced));
    router
}

/// Requests a flowspec from downstream.
fn ask(router: &mut Bench, flowspec: FlowSpec) -> Vec<Outcome> {
    let flow = FixedFilterFlow { flowspec: Some(flowspec), ..flow(2) };
    router.receive(ETH2, Body::Resv(resv(&[flow])))
}

/// Returns the error and value of the only ResvErr; `None` if none was sent.
fn refusal(outcomes: &[Outcome]) -> Option<(ErrorCode, u16)> {
    let sent = sent(outcomes);
    let mut errors = sent.iter().filter_map(|(_, message)| match &message.body {
        Body::ResvErr(error) => Some((error.error.code, error.error.value)),
        _ => None,
    });
    let first = errors.next();
    assert_eq!(errors.next(), None);
    first
}

/// Returns the flowspec that is requested upstream.
fn requested(outcomes: &[Outcome]) -> Option<FlowSpec> {
    sent(outcomes).iter().find_map(|(_, message)| match &message.body {
        Body::Resv(resv) => match &resv.flows {
            FlowDescriptors::FixedFilter(flows) => flows.iter().next().and_then(|f| f.flowspec),
            _ => None,
        },
        _ => None,
    })
}

/// RFC 2211 section 5, RFC 2212 "Invocation Information": a request outside the range gets an error, code 21, value 3.
#[test]
fn request_outside_the_range_is_refused() {
    for (rate, depth, reserved) in
        [(0.5, 3_000.0, 0.5), (250_000.0, 0.5, 250_000.0), (250_000.0, 3_000.0, 41e12)]
    {
        let mut router = with_sender(3_000.0);
        let bucket = TokenBucket { rate, depth, ..tspec(2) };
        let guaranteed = FlowSpec::Guaranteed(bucket, Rspec { rate: reserved, slack_us: 0 });
        let expected = Some((ErrorCode::TrafficControlError, 3));
        assert_eq!(refusal(&ask(&mut router, guaranteed)), expected, "{guaranteed:?}");
        if reserved == rate {
            let load = FlowSpec::ControlledLoad(bucket);
            assert_eq!(refusal(&ask(&mut router, load)), expected, "{load:?}");
        }
        assert_eq!(router.held(), Rate::ZERO);
    }
}

/// RFC 2211 section 5: a bucket in the range that the element cannot support is refused, and not reserved in part. What
/// the sender announces limits the bucket first.
#[test]
fn bucket_beyond_the_ledger_is_refused() {
    let deep = |depth| FlowSpec::ControlledLoad(TokenBucket { depth, ..tspec(2) });
    let mut router = with_sender(10e9);
    assert_eq!(refusal(&ask(&mut router, deep(5e9))), Some((ErrorCode::TrafficControlError, 3)));
    assert_eq!(router.held(), Rate::ZERO);
    assert_eq!(refusal(&ask(&mut router, deep(4e9))), None);
    assert_eq!(router.held(), Rate::from_mbps(2));
    let mut router = with_sender(3_000.0);
    assert_eq!(refusal(&ask(&mut router, deep(5e9))), None);
    assert_eq!(router.held(), Rate::from_mbps(2));
}

/// RFC 2212 "Ordering and Merging": an element that uses no slack passes R and S on unchanged, and a slack term of any
/// size is valid.
#[test]
fn unused_slack_goes_upstream_unchanged() {
    for slack_us in [1, 250_000, u32::MAX] {
        let mut router = with_sender(3_000.0);
        let guaranteed = FlowSpec::Guaranteed(tspec(2), Rspec { rate: 300_000.0, slack_us });
        assert_eq!(requested(&ask(&mut router, guaranteed)), Some(guaranteed));
        assert_eq!(router.held(), Rate::from_bps(2_400_000));
    }
}

/// Returns the ADSPEC of the sent Path.
fn advertised(outcomes: &[Outcome]) -> Option<Adspec<'_>> {
    let body = sent(outcomes).into_iter().find_map(|(_, message)| match message.body {
        Body::Path(path) => path.sender.adspec,
        _ => None,
    })?;
    Adspec::parse(body).ok()
}

/// RFC 2210 sections 3.3.3 and 3.3.4: an element that speaks RSVP and does not offer a service sets its break bit, and
/// leaves the terms of the service. The general parameters are composed as ever.
#[test]
fn link_without_reservations_sets_the_break_bits_of_services() {
    for (reservable, broken) in [(Rate::ZERO, true), (Rate::from_bps(8), false)] {
        let mut router = router();
        router.set_link(ETH2, &["10.0.2.1"], Rate::from_mbps(10), reservable);
        let body = adspec();
        let mut announced = path();
        announced.sender.adspec = Some(&body);
        let outcomes = router.receive(ETH1, Body::Path(announced));
        let adspec = advertised(&outcomes).expect("a Path with an ADSPEC");
        assert!(!adspec.general.break_bit);
        assert_eq!((adspec.general.hops, adspec.general.mtu), (1, 1_500));
        let guaranteed = adspec.guaranteed.expect("mentioned");
        assert_eq!(guaranteed.break_bit, broken);
        let terms = guaranteed.terms.expect("the sender's terms");
        assert_eq!(terms.c_total, if broken { 0 } else { 1_500 });
        assert_eq!(adspec.controlled_load.map(|load| load.break_bit), Some(broken));
        // What the break bits say is so: every request is refused for the service, and not for its rate.
        let refused = refusal(&ask(&mut router, FlowSpec::ControlledLoad(tspec(2))));
        let service_unsupported = (ErrorCode::TrafficControlError, 2);
        assert_eq!(refused == Some(service_unsupported), broken, "{refused:?}");
    }
}
