//! Receiver proxies that tell the sender of failures by Notify (RFC 5946 section 3.2).

use earmark_core::{Datagram, Input};
use earmark_rsvp::proxy::{self, ReceiverProxy, SenderNotification};
use earmark_rsvp::{Config, notify};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, List, Message, Notify, NotifySession,
    NotifySubject, Object, PathErr, Resv, ResvErr,
};

const FAR: &str = "10.7.7.7";

fn proxy(notify: Option<SenderNotification>, notify_only: bool) -> Bench {
    let interfaces = vec!["eth2".to_owned()];
    let receiver = ReceiverProxy { interfaces, notify, notify_only, ..ReceiverProxy::default() };
    let nodes = vec!["10.7.0.0/16".parse().expect("a range")];
    with_config(Config {
        proxies: proxy::Settings { receivers: vec![receiver], ..proxy::Settings::default() },
        notify: notify::Settings { enabled: true, nodes, ..notify::Settings::default() },
        ..Config::default()
    })
}

/// A Path of a sender with this rate, which asks for notifications or not.
fn announce(bench: &mut Bench, mbps: u32, asks: bool) -> Vec<Outcome> {
    let mut octets = [0; 8];
    Object::NotifyRequest(ip(SENDER)).emit(&mut octets).expect("it fits");
    let mut path = path();
    path.sender.tspec = tspec(mbps);
    path.carried = Carried::Objects(if asks { &octets } else { &[] });
    bench.receive(ETH1, Body::Path(path))
}

/// The NOTIFY_REQUEST in the Resv of the proxy.
fn request(outcomes: &[Outcome]) -> Vec<Option<String>> {
    let requests = sent(outcomes).into_iter().filter_map(|(_, message)| match message.body {
        Body::Resv(Resv { carried, .. }) => Some(carried.notify_request()),
        _ => None,
    });
    requests.map(|node| node.map(|node| node.to_string())).collect()
}

/// Sent Notify and PathErr messages to or towards the sender, with error code and node of the error.
fn reports(outcomes: &[Outcome]) -> Vec<(&'static str, ErrorCode, u16)> {
    let own = ip("10.0.1.2");
    let reports = sent(outcomes).into_iter().filter_map(|(how, message)| match message.body {
        Body::Notify(Notify { error, sessions }) => {
            assert_eq!((how.destination, how.source, error.node), (ip(SENDER), own, own));
            let is_upstream =
                |entry: NotifySession<'_>| matches!(entry.subject, NotifySubject::Sender(..));
            assert!(sessions.iter().all(is_upstream));
            Some(("Notify", error.code, error.value))
        }
        Body::PathErr(PathErr { error, .. }) => {
            assert_eq!((how.destination, error.node), (ip(UPSTREAM), own));
            Some(("PathErr", error.code, error.value))
        }
        _ => None,
    });
    let mut reports: Vec<_> = reports.collect();
    reports.sort_by_key(|(name, ..)| *name);
    reports
}

const REFUSED: ErrorCode = ErrorCode::AdmissionControlFailure;
const NOTIFY: (&str, ErrorCode, u16) = ("Notify", REFUSED, 2);
const PATH_ERR: (&str, ErrorCode, u16) = ("PathErr", REFUSED, 2);

fn error(code: ErrorCode, value: u16) -> ErrorSpec {
    ErrorSpec { node: ip(FAR), flags: 0, code, value }
}

/// A ResvErr about the reservation of the proxy.
fn resv_err(bench: &mut Bench, error: ErrorSpec) -> Vec<Outcome> {
    let flows = [flow(2)];
    let flows = FlowDescriptors::FixedFilter(List::Items(&flows));
    let (session, hop, carried) = (session(), path().hop, Carried::NONE);
    bench.receive(ETH1, Body::ResvErr(ResvErr { session, hop, error, scope: None, carried, flows }))
}

/// A downstream notification to the proxy.
fn notification(bench: &mut Bench, source: &str, error: ErrorSpec) -> Vec<Outcome> {
    let flows = [flow(2)];
    let subject = NotifySubject::Flows(List::Items(&flows));
    let sessions = [NotifySession { session: session(), carried: Carried::NONE, subject }];
    let message =
        Message::new(64, Body::Notify(Notify { error, sessions: List::Items(&sessions) }));
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload).expect("it fits");
    bench.handle(Input::Datagram(Datagram {
        interface: ETH1,
        source: ip(source),
        destination: ip("10.0.1.2"),
        ttl: 60,
        router_alert: false,
        encapsulated: false,
        payload: &payload,
    }))
}

use SenderNotification::{Direct, DirectOnly, Indirect};

use crate::common::*;

/// The Resv has a Notify Request object if the Path has one: with the address of the sender, or with one of the proxy.
#[test]
fn resv_of_proxy_has_notify_request() {
    for (mode, expected) in
        [(None, None), (Some(Direct), Some(SENDER)), (Some(Indirect), Some("10.0.1.2"))]
    {
        let mut bench = proxy(mode, false);
        let expected = expected.map(str::to_owned);
        assert_eq!(request(&announce(&mut bench, 2, true)), std::slice::from_ref(&expected));
        // It follows the Path.
        let changed: &[_] = if expected.is_some() { &[None] } else { &[] };
        assert_eq!(request(&announce(&mut bench, 2, false)), changed);
    }
}

/// Local failures, and errors from upstream: by Notify beside the PathErr, or instead of it.
#[test]
fn failure_of_proxy_is_notified() {
    for (mode, notify_only, asks, local, from_upstream) in [
        (None, false, true, vec![PATH_ERR], vec![PATH_ERR]),
        (Some(Direct), false, false, vec![PATH_ERR], vec![PATH_ERR]),
        (Some(Direct), false, true, vec![NOTIFY, PATH_ERR], vec![NOTIFY, PATH_ERR]),
        (Some(Indirect), false, true, vec![NOTIFY, PATH_ERR], vec![NOTIFY, PATH_ERR]),
        (Some(DirectOnly), false, true, vec![NOTIFY, PATH_ERR], vec![PATH_ERR]),
        (Some(Direct), true, true, vec![NOTIFY], vec![NOTIFY]),
        (Some(DirectOnly), true, true, vec![NOTIFY], vec![]),
        (Some(Direct), true, false, vec![PATH_ERR], vec![PATH_ERR]),
    ] {
        let case = (mode, notify_only, asks);
        let mut bench = proxy(mode, notify_only);
        assert_eq!(reports(&announce(&mut bench, 8, asks)), local, "{case:?}");
        announce(&mut bench, 2, asks);
        let outcomes = resv_err(&mut bench, error(REFUSED, 2));
        assert_eq!(reports(&outcomes), from_upstream, "{case:?}");
    }
}

/// The error is composed as that of the PathErr (section 3.1.2).
#[test]
fn notified_error_is_that_of_path_err() {
    let mut bench = proxy(Some(Direct), false);
    announce(&mut bench, 2, true);
    let outcomes = resv_err(&mut bench, error(ErrorCode::ServicePreempted, 0));
    let code = ErrorCode::ReceiverProxyError;
    assert_eq!(reports(&outcomes), [("Notify", code, 0x010c), ("PathErr", code, 0x010c)]);
}

/// Figure 5: a Notify to the proxy becomes one to the sender; the ResvErr that follows causes no second one.
#[test]
fn indirect_notification_is_passed_on_once() {
    let mut bench = proxy(Some(Indirect), false);
    announce(&mut bench, 2, true);
    assert_eq!(reports(&notification(&mut bench, FAR, error(REFUSED, 2))), [NOTIFY]);
    assert_eq!(reports(&notification(&mut bench, FAR, error(REFUSED, 2))), []);
    assert_eq!(reports(&resv_err(&mut bench, error(REFUSED, 2))), [PATH_ERR]);
    // Another failure is told.
    assert_eq!(reports(&resv_err(&mut bench, error(REFUSED, 1))).len(), 2);
    bench.pass(std::time::Duration::from_secs(31));
    announce(&mut bench, 2, true);
    assert_eq!(reports(&resv_err(&mut bench, error(REFUSED, 2))), [NOTIFY, PATH_ERR]);
}

/// A proxy that has not asked for it, or a node that is not believed, tells the sender nothing.
#[test]
fn unrequested_notification_is_not_passed_on() {
    for (mode, asks, source) in [
        (Some(Indirect), true, "10.8.0.1"),
        (Some(Indirect), false, FAR),
        (Some(Direct), true, FAR),
        (None, true, FAR),
    ] {
        let mut bench = proxy(mode, false);
        announce(&mut bench, 2, asks);
        let before = bench.engine.population();
        let outcomes = notification(&mut bench, source, error(REFUSED, 2));
        assert!(sent(&outcomes).is_empty(), "{mode:?} {source}");
        assert_eq!(bench.engine.population(), before);
    }
}
