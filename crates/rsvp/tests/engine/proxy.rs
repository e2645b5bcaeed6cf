//! RSVP proxies for hosts without RSVP (RFC 5945, RFC 5946).

use earmark_core::{HostEvent, InterfaceId, Rate};
use earmark_rsvp::proxy::{ReceiverProxy, SenderProxy, Settings};
use earmark_rsvp::{Config, Event};
use earmark_wire::intserv::{Adspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, List, Path, PathErr, Resv, ResvErr,
    ResvTear,
};

use crate::common::*;

fn with_proxies(proxies: Settings) -> Bench {
    with_config(Config { proxies, ..Config::default() })
}

fn behind_eth2() -> ReceiverProxy {
    ReceiverProxy { interfaces: vec!["eth2".to_owned()], ..ReceiverProxy::default() }
}

fn receivers(proxy: ReceiverProxy) -> Bench {
    with_proxies(Settings { receivers: vec![proxy], ..Settings::default() })
}

/// Path of a sender with this rate in Mbit/s.
fn announcement(mbps: u32) -> Body<'static> {
    let mut path = path();
    path.sender.tspec = tspec(mbps);
    Body::Path(path)
}

/// Rates of the requests to the previous hop, Mbit/s; 0 for a ResvTear.
fn asked_upstream(outcomes: &[Outcome]) -> Vec<f32> {
    let rates = sent(outcomes).into_iter().filter_map(|(how, message)| match message.body {
        Body::Resv(Resv { flows: FlowDescriptors::FixedFilter(flows), .. }) => {
            assert_eq!(how.destination, ip(UPSTREAM));
            Some(flows.iter().next()?.flowspec?.token_bucket().rate / 125_000.0)
        }
        Body::ResvTear(_) => Some(0.0),
        _ => None,
    });
    rates.collect()
}

fn path_errs(outcomes: &[Outcome]) -> Vec<(ErrorCode, u16, u8)> {
    let errors = sent(outcomes).into_iter().filter_map(|(how, message)| match message.body {
        Body::PathErr(PathErr { error, .. }) => {
            assert_eq!(how.destination, ip(UPSTREAM));
            Some((error.code, error.value, error.flags))
        }
        _ => None,
    });
    errors.collect()
}

/// RFC 5945 section 3.1, Path-triggered.
#[test]
fn path_is_answered_by_receiver_proxy() {
    let mut bench = receivers(behind_eth2());
    let outcomes = bench.receive(ETH1, announcement(2));
    assert_eq!(asked_upstream(&outcomes), [2.0]);
    assert_eq!(bench.held(), Rate::from_mbps(2));
    assert_eq!(bench.receive(ETH1, announcement(2)), [], "a refresh is one");
    assert_eq!(asked_upstream(&bench.receive(ETH1, announcement(3))), [3.0]);
    assert_eq!(bench.held(), Rate::from_mbps(3));
    // A request from an RSVP node behind it is merged.
    let flows = [flow(4)];
    bench.receive(ETH2, Body::Resv(resv(&flows)));
    assert_eq!(bench.held(), Rate::from_mbps(3), "no more than is announced");
    bench.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!((bench.held(), bench.engine.population()), (Rate::ZERO, (0, 0, 0)));
}

#[test]
fn unmatched_path_is_not_answered() {
    let proxy = ReceiverProxy { largest: Some(Rate::from_mbps(2)), ..behind_eth2() };
    let mut bench = receivers(ReceiverProxy { rate: Some(Rate::from_mbps(1)), ..proxy });
    assert!(asked_upstream(&bench.receive(ETH1, announcement(3))).is_empty());
    assert_eq!(asked_upstream(&bench.receive(ETH1, announcement(2))), [1.0]);
    assert_eq!(asked_upstream(&bench.receive(ETH1, announcement(3))), [0.0], "taken back");
    assert_eq!(bench.held(), Rate::ZERO);
    let elsewhere = ReceiverProxy { interfaces: vec!["eth1".to_owned()], ..behind_eth2() };
    let mut bench = receivers(elsewhere);
    assert!(asked_upstream(&bench.receive(ETH1, announcement(2))).is_empty());
}

/// RFC 5946 section 3.1: the sender gets the error that the receiver would have got, and the reservation is retried
/// with each refresh.
#[test]
fn refused_proxy_reservation_sends_path_err() {
    let mut bench = receivers(behind_eth2());
    let refused = (ErrorCode::AdmissionControlFailure, 2, 0);
    assert_eq!(path_errs(&bench.receive(ETH1, announcement(8))), [refused]);
    let later = bench.pass(std::time::Duration::from_secs(46));
    assert_eq!(path_errs(&later), [refused]);
    bench.receive(ETH1, announcement(2));
    let outcomes = bench.receive(ETH1, announcement(8));
    assert_eq!(
        path_errs(&outcomes),
        [(ErrorCode::AdmissionControlFailure, 2, ErrorSpec::IN_PLACE)]
    );
    assert_eq!(bench.held(), Rate::from_mbps(2));
}

/// RFC 2210 section 2.3.2: a receiver requests no larger packets than the path of the sender carries.
#[test]
fn proxy_requests_packets_that_the_path_carries() {
    for (mtu, expected) in [(9_000, 1_500), (1_000, 1_000), (60, 60), (0, 1)] {
        let own = adspec();
        let mut adspec = Adspec::parse(&own).expect("it can be read");
        adspec.general.mtu = mtu;
        let mut body = vec![0; adspec.buffer_len()];
        adspec.emit(&mut body).expect("it fits");
        let mut bench = receivers(behind_eth2());
        let mut announced = path();
        announced.sender.tspec = tspec(2);
        announced.sender.adspec = Some(&body);
        let outcomes = bench.receive(ETH1, Body::Path(announced));
        let buckets: Vec<TokenBucket> = sent(&outcomes)
            .iter()
            .filter_map(|(_, message)| match message.body {
                Body::Resv(Resv { flows: FlowDescriptors::FixedFilter(flows), .. }) => {
                    Some(*flows.iter().next()?.flowspec?.token_bucket())
                }
                _ => None,
            })
            .collect();
        let [bucket] = buckets[..] else { panic!("one request: {buckets:?}") };
        assert_eq!((bucket.max_packet_size, bucket.validate()), (expected, Ok(())));
    }
}

/// RFC 5946 section 3.1.2: codes 1 and 2 are copied, others become code 36 with the code in the value; the error node is
/// the proxy, and the flag InPlace stays.
#[test]
fn resv_err_for_proxy_sends_path_err() {
    let mut bench = receivers(behind_eth2());
    bench.receive(ETH1, announcement(2));
    for (code, value, expected) in [
        (ErrorCode::AdmissionControlFailure, 2, (ErrorCode::AdmissionControlFailure, 2)),
        (ErrorCode::PolicyControlFailure, 3, (ErrorCode::PolicyControlFailure, 3)),
        (ErrorCode::NoPathInformation, 0, (ErrorCode::ReceiverProxyError, 0x0103)),
        (ErrorCode::ServicePreempted, 0, (ErrorCode::ReceiverProxyError, 0x010c)),
    ] {
        let in_place = ErrorSpec::IN_PLACE;
        for (flags, of_sender) in [(0, 0), (in_place, in_place), (ErrorSpec::NOT_GUILTY, 0)] {
            let flows = [flow(2)];
            let error = ErrorSpec { node: ip(UPSTREAM), flags, code, value };
            let body = Body::ResvErr(ResvErr {
                session: session(),
                hop: path().hop,
                error,
                scope: None,
                carried: Carried::NONE,
                flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
            });
            let outcomes = bench.receive(ETH1, body);
            assert_eq!(path_errs(&outcomes), [(expected.0, expected.1, of_sender)], "{flags}");
            let sent = sent(&outcomes);
            let (how, Body::PathErr(error)) = (&sent[0].0, &sent[0].1.body) else {
                panic!("{sent:?}")
            };
            assert_eq!((how.destination, error.error.node), (ip(UPSTREAM), ip("10.0.1.2")));
            assert_eq!(error.sender.map(|(template, _)| template), Some(template()));
            let told = events(&outcomes);
            assert!(!told.iter().any(|event| matches!(event, Event::ResvError { .. })));
        }
    }
}

fn sender_proxy() -> SenderProxy {
    SenderProxy { session: session(), template: template(), tspec: tspec(2), ttl: 64 }
}

/// Sent Paths: outgoing interface and TTL.
fn paths(outcomes: &[Outcome]) -> Vec<(Option<InterfaceId>, u8)> {
    let paths = sent(outcomes).into_iter().filter_map(|(how, message)| match message.body {
        Body::Path(Path { sender, .. }) => {
            assert_eq!((how.source, sender.template), (ip(SENDER), template()));
            Some((how.interface, how.ttl))
        }
        _ => None,
    });
    paths.collect()
}

/// RFC 5945 section 4.3: a configured sender.
#[test]
fn sender_proxy_sends_path() {
    let mut bench = with_proxies(Settings { senders: vec![sender_proxy()], ..Settings::default() });
    let outcomes = bench.host(HostEvent::InterfaceChanged(ETH2));
    assert_eq!(paths(&outcomes), [(Some(ETH2), 64)]);
    assert_eq!(paths(&bench.host(HostEvent::InterfaceChanged(ETH2))), [], "it is there already");
    let flows = [flow(1)];
    let outcomes = bench.receive(ETH2, Body::Resv(resv(&flows)));
    assert_eq!(bench.held(), Rate::from_mbps(1));
    assert!(events(&outcomes).iter().any(|event| matches!(event, Event::Resv { .. })));
    // A Path from the host itself does not replace the configured sender.
    assert_eq!(paths(&bench.receive(ETH1, announcement(3))), []);
    bench.receive(
        ETH2,
        Body::ResvTear(ResvTear {
            session: session(),
            hop: resv(&[]).hop,
            scope: None,
            carried: Carried::NONE,
            flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
        }),
    );
    assert_eq!(bench.held(), Rate::ZERO);
}

#[test]
fn sender_proxy_without_route_waits() {
    let mut proxy = sender_proxy();
    proxy.session.destination = ip("10.0.77.1");
    let mut bench = with_proxies(Settings { senders: vec![proxy], ..Settings::default() });
    assert_eq!(bench.host(HostEvent::InterfaceChanged(ETH2)), []);
    bench.add_route("10.0.77.0/24", ETH2, Some(DOWNSTREAM));
    let prefix = "10.0.77.0/24".parse().expect("a range");
    assert_eq!(paths(&bench.host(HostEvent::RouteChanged(prefix))).len(), 1);
}

/// Both proxies on one router: reserved at once, with messages only to the next hop.
#[test]
fn both_proxies_on_one_router_reserve() {
    let settings = Settings { senders: vec![sender_proxy()], receivers: vec![behind_eth2()] };
    let mut bench = with_proxies(settings);
    let outcomes = bench.host(HostEvent::InterfaceChanged(ETH2));
    assert_eq!((paths(&outcomes).len(), bench.held()), (1, Rate::from_mbps(2)));
    assert!(events(&outcomes).iter().any(|event| matches!(event, Event::Resv { .. })));
}
