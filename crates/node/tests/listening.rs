//! Receivers that answer by a policy.

mod common;

use std::time::Duration;

use common::*;
use earmark_core::Rate;
use earmark_core::admission::guaranteed_delay_us;
use earmark_node::{Ask, Command, Event, Input, Listen, QueueView, SenderName, Unanswerable};
use earmark_rsvp::{Application, Rejection};
use earmark_wire::intserv::{
    Adspec, FlowSpec, GuaranteedHop, HopCharacteristics, LocalOverrides, TokenBucket,
};
use earmark_wire::rsvp::iana::PolicyControlError;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Path,
    ResvErr, RsvpHop, Session, SourceSelector, Style,
};
use proptest::prelude::*;

const APPLICATION: Application = Application(1);

fn listen(ask: Ask) -> Input<'static> {
    let listen = Listen { ask, confirm: true, ..Listen::new(APPLICATION, session()) };
    Input::Command(Command::Listen(listen))
}

/// Returns the flowspec of the single sent Resv.
fn asked(outcomes: &[Outcome]) -> Option<FlowSpec> {
    sent(outcomes).iter().find_map(|(_, body)| match body {
        Body::Resv(resv) => match resv.flows {
            FlowDescriptors::FixedFilter(flows) => flows.iter().next().and_then(|f| f.flowspec),
            _ => None,
        },
        _ => None,
    })
}

fn no_answer(outcomes: &[Outcome]) -> Option<Unanswerable> {
    events(outcomes).iter().find_map(|event| match event {
        Event::NoAnswer { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// Returns an ADSPEC after one hop of 10 Mbit/s with this MTU.
fn after_one_hop(mtu: u32) -> Vec<u8> {
    after_hop_with_overrides(mtu, LocalOverrides::default(), LocalOverrides::default())
}

/// Returns an ADSPEC after one hop of 10 Mbit/s with this MTU, and with other values for each service.
fn after_hop_with_overrides(
    mtu: u32,
    overrides: LocalOverrides,
    controlled_load: LocalOverrides,
) -> Vec<u8> {
    let own = adspec();
    let advertised = Adspec::parse(&own).expect("our own").advertise(&HopCharacteristics {
        non_is_hop: false,
        bandwidth: 1_250_000.0,
        latency_us: 100,
        mtu,
        guaranteed: Some(GuaranteedHop { c: 1_500, d: 1_200, reshapes: false, overrides }),
        controlled_load: Some(controlled_load),
    });
    let mut body = vec![0; advertised.buffer_len()];
    let length = advertised.emit(&mut body).expect("it fits");
    body.truncate(length);
    body
}

/// Controlled load for the announced traffic, with packets that fit the path, and a confirmation.
#[test]
fn listener_requests_the_announced_traffic() {
    let mut host = receiver();
    assert_eq!(host.handle(listen(Ask::ControlledLoad)), []);
    let adspec = after_one_hop(1_400);
    let outcomes = host.path(path(Some(&adspec)));
    let expected = TokenBucket { max_packet_size: 1_400, ..tspec(2) };
    assert_eq!(asked(&outcomes), Some(FlowSpec::ControlledLoad(expected)));
    let sent = sent(&outcomes);
    let (how, Body::Resv(resv)) = sent[0] else { panic!("a Resv: {sent:?}") };
    assert_eq!((how.destination, resv.confirm), (ip(UPSTREAM), Some(ip(RECEIVER))));
    assert_eq!(host.path(path(Some(&adspec))), [], "a refresh is no news");
}

/// RFC 2215 section 3.1: behind a break, of the path or of the service, the terms of guaranteed service do not count.
/// Controlled load is requested all the same.
#[test]
fn broken_path_gets_no_delay_bound() {
    let patient = Ask::Delay(Duration::from_millis(100));
    let whole = after_one_hop(1_500);
    for (general, guaranteed, reason) in [
        (false, false, None),
        (true, false, Some(Unanswerable::NoGuaranteedService)),
        (false, true, Some(Unanswerable::NoGuaranteedService)),
    ] {
        let mut adspec = Adspec::parse(&whole).expect("our own");
        adspec.general.break_bit = general;
        let fragment = adspec.guaranteed.as_mut().expect("our own");
        fragment.break_bit = guaranteed;
        let mut body = vec![0; adspec.buffer_len()];
        adspec.emit(&mut body).expect("it fits");
        for (ask, reason) in [(patient, reason), (Ask::ControlledLoad, None)] {
            let mut host = receiver();
            host.handle(listen(ask));
            let outcomes = host.path(path(Some(&body)));
            assert_eq!(no_answer(&outcomes), reason, "{ask:?}");
            assert_eq!(asked(&outcomes).is_some(), reason.is_none(), "{ask:?}");
        }
    }
}

/// RFC 4495 section 4: a partly preempted reservation is requested with what is left. Neither a repeated error nor one
/// that leaves more than was requested changes the request, and no error raises it.
#[test]
fn listener_accepts_a_reduction_once_and_no_increase() {
    let mut host = receiver();
    host.handle(listen(Ask::ControlledLoad));
    host.path(path(None));
    let left = |rate| TokenBucket { rate, ..tspec(2) };
    let mut reduced_to = |rate| {
        let flow = FixedFilterFlow {
            filter: template(),
            flowspec: Some(FlowSpec::ControlledLoad(left(rate))),
        };
        let error = ResvErr {
            session: session(),
            hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
            error: ErrorSpec {
                node: ip(UPSTREAM),
                flags: ErrorSpec::IN_PLACE,
                code: ErrorCode::PolicyControlFailure,
                value: PolicyControlError::PartiallyPreempted.code(),
            },
            scope: None,
            carried: Carried::NONE,
            flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
        };
        let outcomes = host.receive(ETH1, ip(RECEIVER), Body::ResvErr(error));
        asked(&outcomes).map(|flowspec| flowspec.token_bucket().rate)
    };
    assert_eq!(reduced_to(300_000.0), None, "more than the 250 000 octets/s that are requested");
    assert_eq!(reduced_to(125_000.0), Some(125_000.0));
    assert_eq!(reduced_to(125_000.0), None);
    assert_eq!(reduced_to(200_000.0), None, "an older error");
    assert_eq!(reduced_to(100_000.0), Some(100_000.0));
}

/// The PATH_MTU of a service overrides that of the path in requests for this service (RFC 2210 section 2.3.2), but
/// cannot exceed it (RFC 2215 section 3.5).
#[test]
fn listener_uses_the_path_mtu_of_its_service() {
    let of = |mtu| LocalOverrides { mtu: Some(mtu), ..LocalOverrides::default() };
    let patient = Ask::Delay(Duration::from_millis(100));
    let narrow = after_hop_with_overrides(1_400, of(576), of(1_000));
    let wide = after_hop_with_overrides(1_400, of(9_000), of(9_000));
    for (ask, adspec, expected) in [
        (patient, &narrow, 576),
        (Ask::ControlledLoad, &narrow, 1_000),
        (Ask::Rate(Rate::from_mbps(1)), &narrow, 1_000),
        (patient, &wide, 1_400),
        (Ask::ControlledLoad, &wide, 1_400),
    ] {
        let mut host = receiver();
        host.handle(listen(ask));
        let answer = asked(&host.path(path(Some(adspec)))).expect("a request");
        assert_eq!(answer.token_bucket().max_packet_size, expected, "{ask:?}");
    }
}

/// A changed sender is answered again, and an earlier sender immediately.
#[test]
fn listener_answers_changed_and_earlier_senders() {
    let mut host = receiver();
    host.path(path(None));
    let outcomes = host.handle(listen(Ask::ControlledLoad));
    assert_eq!(asked(&outcomes), Some(FlowSpec::ControlledLoad(tspec(2))));
    let mut more = path(None);
    more.sender.tspec = tspec(3);
    assert_eq!(asked(&host.path(more)), Some(FlowSpec::ControlledLoad(tspec(3))));
}

/// A fixed rate for any announced traffic. A lower peak rate is raised to it, because it would be invalid.
#[test]
fn listener_with_rate_requests_that_rate() {
    let mut host = receiver();
    host.handle(listen(Ask::Rate(Rate::from_mbps(4))));
    let mut path = path(None);
    path.sender.tspec.peak = 300_000.0;
    let expected = TokenBucket { rate: 500_000.0, peak: 500_000.0, ..tspec(2) };
    assert_eq!(asked(&host.path(path)), Some(FlowSpec::ControlledLoad(expected)));
}

/// RFC 2212: the rate for the delay bound, from the path's error terms.
#[test]
fn listener_with_delay_bound_requests_sufficient_rate() {
    let mut host = receiver();
    host.handle(listen(Ask::Delay(Duration::from_millis(10))));
    let adspec = after_one_hop(1_500);
    let Some(FlowSpec::Guaranteed(bucket, rspec)) = asked(&host.path(path(Some(&adspec)))) else {
        panic!("guaranteed service");
    };
    assert_eq!((bucket, rspec.slack_us), (tspec(2), 0));
    // A burst of 3 000 octets and C of 1 500 in 10 ms less D of 1.2 ms.
    assert!((rspec.rate - 4_500.0 / 0.008_8).abs() < 1.0, "{}", rspec.rate);
}

/// Without an answer no reservation is requested, and the reason is reported.
#[test]
fn listener_without_answer_reports_the_reason() {
    let (usual, narrow) = (after_one_hop(1_500), after_one_hop(99));
    let hopeless = Ask::Delay(Duration::from_millis(1));
    let patient = Ask::Delay(Duration::from_millis(10));
    for (ask, adspec, reason) in [
        (hopeless, Some(&usual[..]), Unanswerable::DelayBound),
        (patient, None, Unanswerable::NoGuaranteedService),
        (Ask::ControlledLoad, Some(&narrow[..]), Unanswerable::PathMtu),
    ] {
        let mut host = receiver();
        host.handle(listen(ask));
        let outcomes = host.path(path(adspec));
        assert_eq!(no_answer(&outcomes), Some(reason));
        assert_eq!(asked(&outcomes), None);
        assert_eq!(host.node.reservation_rows(host.now, |_| QueueView::default()).count(), 0);
    }
}

/// A listener that is given again answers the known senders anew, and does not leave out any in between.
#[test]
fn changed_listener_answers_known_senders_anew() {
    let mut host = receiver();
    host.handle(listen(Ask::Rate(Rate::from_mbps(1))));
    host.path(path(None));
    let outcomes = host.handle(listen(Ask::Rate(Rate::from_mbps(3))));
    let rate = Rate::from_mbps(3).as_octets_per_second();
    assert_eq!(asked(&outcomes).map(|flowspec| flowspec.token_bucket().rate), Some(rate));
    let outcomes = host.handle(listen(Ask::ControlledLoad));
    assert_eq!(asked(&outcomes), Some(FlowSpec::ControlledLoad(tspec(2))));

    for (style, names) in
        [(Style::SharedExplicit, vec![4_000, 4_001]), (Style::Wildcard, Vec::new())]
    {
        let mut host = receiver();
        let listen = |ask| {
            let all = Listen::new(APPLICATION, session());
            Input::Command(Command::Listen(Listen { ask, style, ..all }))
        };
        host.handle(listen(Ask::ControlledLoad));
        host.path(stream(4_000, 2));
        host.path(stream(4_001, 3));
        let outcomes = host.handle(listen(Ask::Rate(Rate::from_mbps(5))));
        for (named, flowspec) in shared_requests(&outcomes) {
            assert_eq!(named, names, "{style:?}");
            assert!(flowspec.token_bucket().rate >= tspec(3).rate, "{flowspec:?}");
        }
        let last = shared(&outcomes).expect("a request");
        assert_eq!(last.1.token_bucket().rate, Rate::from_mbps(5).as_octets_per_second());
    }
}

/// An application has one session; a rejected second one does not affect the answers of the first.
#[test]
fn rejected_listener_answers_no_sender() {
    let mut host = receiver();
    host.handle(listen(Ask::ControlledLoad));
    let other = Listen {
        ask: Ask::Rate(Rate::from_mbps(4)),
        ..Listen::new(APPLICATION, Session { port: 9, ..session() })
    };
    let rejected = |outcomes: &[Outcome]| {
        events(outcomes).iter().find_map(|event| match event {
            Event::Rsvp(earmark_rsvp::Event::Rejected { reason, .. }) => Some(*reason),
            _ => None,
        })
    };
    let outcomes = host.handle(Input::Command(Command::Listen(other.clone())));
    assert_eq!(rejected(&outcomes), Some(Rejection::SessionOpen));
    assert_eq!(asked(&host.path(path(None))), Some(FlowSpec::ControlledLoad(tspec(2))));

    let mut host = receiver();
    let application = APPLICATION;
    let open = earmark_rsvp::Command::Session { application, session: session() };
    host.handle(Input::Command(Command::Rsvp(open)));
    let outcomes = host.handle(Input::Command(Command::Listen(other)));
    assert_eq!(rejected(&outcomes), Some(Rejection::SessionOpen));
    assert_eq!(asked(&host.path(path(None))), None);
}

/// Release ends the reservation and the answers.
#[test]
fn released_listener_answers_no_sender() {
    let mut host = receiver();
    host.handle(listen(Ask::ControlledLoad));
    host.path(path(None));
    let release = earmark_rsvp::Command::Release { application: APPLICATION };
    let outcomes = host.handle(Input::Command(Command::Rsvp(release)));
    assert!(matches!(sent(&outcomes)[..], [(_, Body::ResvTear(_))]), "{outcomes:?}");
    let mut more = path(None);
    more.sender.tspec = tspec(3);
    let quiet: Path<'_> = more;
    assert_eq!(asked(&host.path(quiet)), None);
}

/// Returns the Path of the stream with this source port.
fn stream(port: u16, mbps: u32) -> Path<'static> {
    let mut stream = path(None);
    stream.sender.template.selector = SourceSelector::Port(port);
    stream.sender.tspec = tspec(mbps);
    stream
}

/// Returns the ports of the senders in the last sent Resv, and its flowspec. (An existing Resv that covers a new sender
/// is sent first, unchanged.)
fn shared(outcomes: &[Outcome]) -> Option<(Vec<u16>, FlowSpec)> {
    shared_requests(outcomes).pop()
}

/// Returns the ports of the senders in each sent Resv, and its flowspec.
fn shared_requests(outcomes: &[Outcome]) -> Vec<(Vec<u16>, FlowSpec)> {
    let port = |filter: FilterSpec| filter.port();
    let request = |body: &Body<'_>| match body {
        Body::Resv(resv) => match &resv.flows {
            FlowDescriptors::SharedExplicit(flowspec, filters) => {
                flowspec.map(|flowspec| (filters.iter().map(port).collect(), flowspec))
            }
            FlowDescriptors::Wildcard(flowspec) => flowspec.map(|flowspec| (Vec::new(), flowspec)),
            FlowDescriptors::FixedFilter(_) => None,
        },
        _ => None,
    };
    sent(outcomes).iter().filter_map(|(_, body)| request(body)).collect()
}

/// SE: each sender joins the single reservation, which is as large as the largest demand; a removed sender makes it
/// smaller. WF: the same without senders' names.
#[test]
fn senders_share_the_reservation_of_a_listener() {
    for (style, names) in [(Style::SharedExplicit, true), (Style::Wildcard, false)] {
        let mut host = receiver();
        let listen = Listen { style, ..Listen::new(APPLICATION, session()) };
        host.handle(Input::Command(Command::Listen(listen)));
        let named = |ports: &[u16]| if names { ports.to_vec() } else { Vec::new() };
        let large = FlowSpec::ControlledLoad(tspec(3));
        let small = FlowSpec::ControlledLoad(tspec(2));
        assert_eq!(shared(&host.path(stream(4_000, 2))), Some((named(&[4_000]), small)));
        assert_eq!(shared(&host.path(stream(4_001, 3))), Some((named(&[4_000, 4_001]), large)));
        assert_eq!(shared(&host.path_tear(stream(4_001, 3))), Some((named(&[4_000]), small)));
    }
}

/// RFC 2210 section 2.3.2: a shared request covers the largest packets that any sender announces, up to the smallest
/// path MTU, and counts packets as no larger than the smallest minimum.
#[test]
fn shared_request_covers_the_largest_packets_of_all_senders() {
    for style in [Style::SharedExplicit, Style::Wildcard] {
        let mut host = receiver();
        let listen = Listen { style, ..Listen::new(APPLICATION, session()) };
        host.handle(Input::Command(Command::Listen(listen)));
        let (wide, narrow) = (after_one_hop(1_500), after_one_hop(1_300));
        let mut packets = |port, min_policed_unit, max_packet_size, adspec| {
            let mut stream: Path<'_> = stream(port, 2);
            stream.sender.tspec =
                TokenBucket { min_policed_unit, max_packet_size, ..stream.sender.tspec };
            stream.sender.adspec = Some(adspec);
            let (_, flowspec) = shared(&host.path(stream)).expect("a request");
            let bucket = flowspec.token_bucket();
            (bucket.min_policed_unit, bucket.max_packet_size)
        };
        assert_eq!(packets(4_000, 64, 576, &wide[..]), (64, 576));
        assert_eq!(packets(4_001, 100, 1_400, &wide[..]), (64, 1_400), "{style:?}");
        assert_eq!(packets(4_002, 40, 200, &narrow[..]), (40, 1_300), "{style:?}");
    }
}

/// Senders that are not named get no answer, in either style; an address alone names all its streams.
#[test]
fn listener_with_named_senders_answers_only_these() {
    let name = |address: &str, port| SenderName {
        address: ip(address),
        port,
        flow_label: None,
        spi: None,
    };
    for style in [Style::FixedFilter, Style::SharedExplicit] {
        for (senders, answered) in [
            (vec![name("10.0.0.1", 4_001)], [false, true]),
            (vec![name("10.0.0.1", 4_001), name("10.0.0.1", 4_000)], [true, true]),
            (vec![name("10.0.0.1", 0)], [true, true]),
            (vec![name("10.0.0.7", 0)], [false, false]),
        ] {
            let mut host = receiver();
            let listen = Listen { style, senders, ..Listen::new(APPLICATION, session()) };
            host.handle(Input::Command(Command::Listen(listen.clone())));
            for (port, expected) in [4_000, 4_001].into_iter().zip(answered) {
                let outcomes = host.path(stream(port, 1));
                let resv = sent(&outcomes).iter().any(|(_, body)| matches!(body, Body::Resv(_)));
                assert_eq!(resv, expected, "{port} of {listen:?}");
            }
        }
    }
}

proptest! {
    /// For any announced traffic and path, an answer is valid and keeps its delay bound.
    #[test]
    fn answers_make_sense(
        rate in 1.0..1e9_f32,
        depth in 1.0..1e7_f32,
        peak_factor in prop_oneof![1.0..8.0_f32, Just(f32::INFINITY)],
        max_packet_size in 64..9_000_u32,
        c in 0..100_000_u32,
        d in 0..100_000_u32,
        bound_us in 1..1_000_000_u32,
    ) {
        let peak = rate * peak_factor;
        let bucket = TokenBucket { rate, depth, peak, min_policed_unit: 64, max_packet_size };
        prop_assert!(bucket.validate().is_ok());
        let offer = earmark_rsvp::Offer {
            hops: 3,
            path_bandwidth: 1e9,
            min_latency_us: 0,
            path_mtu: 1_500,
            guaranteed_mtu: 1_500,
            controlled_load_mtu: 1_500,
            broken: false,
            guaranteed: Some((c, d)),
            controlled_load: true,
        };
        let bound = Duration::from_micros(u64::from(bound_us));
        for ask in [Ask::ControlledLoad, Ask::Rate(Rate::from_mbps(5)), Ask::Delay(bound)] {
            let Ok(flowspec) = ask.flowspec(&bucket, Some(&offer)) else { continue };
            prop_assert!(flowspec.validate().is_ok(), "{:?}", flowspec);
            if let FlowSpec::Guaranteed(tspec, rspec) = flowspec {
                let rate = Rate::from_octets_per_second(rspec.rate);
                let delay = guaranteed_delay_us(&tspec, c, d, rate);
                prop_assert!(delay.is_some_and(|us| us <= f64::from(bound_us)), "{delay:?}");
            }
        }
    }
}
