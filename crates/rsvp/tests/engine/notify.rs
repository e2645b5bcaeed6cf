//! Notify messages (RFC 3473 sections 4.2 and 4.3): who gets them, who is believed, and how they are delivered.

use std::time::Duration;

use earmark_core::{Datagram, HostEvent, Input, Rate};
use earmark_rsvp::notify::Settings;
use earmark_rsvp::{Application, Command, Config, DropReason, Event};
use earmark_testkit::bench;
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Carried, ErrorCode, ErrorSpec, FixedFilterFlow,
    List, Message, MessageId, Notify, NotifySession, NotifySubject, Object, Resv, SenderTemplate,
    Session,
};

use crate::common::*;
use crate::message_ids::{
    acknowledgement, acks, capable_message, message_id, other_path, receive, receive_path_with_id,
};
use crate::sharing::wildcard;

/// A node that is no party of the flow.
const FAR: &str = "10.7.7.7";

fn settings(nodes: &[&str]) -> Settings {
    let nodes = nodes.iter().map(|range| range.parse().expect("a range")).collect();
    Settings { enabled: true, request: true, nodes, ..Settings::default() }
}

fn with_notify(notify: Settings) -> Bench {
    let mut bench = with_config(Config { notify, ..Config::default() });
    bench.add_route("10.7.0.0/16", ETH1, Some(UPSTREAM));
    bench
}

/// NOTIFY_REQUEST of a node.
fn ask(node: &str) -> Vec<u8> {
    let mut octets = vec![0; 20];
    let length = Object::NotifyRequest(ip(node)).emit(&mut octets).expect("it fits");
    octets.truncate(length);
    octets
}

/// Receives a Path, and a Resv for more than there is, with a NOTIFY_REQUEST.
fn refused(bench: &mut Bench, node: &str) -> Vec<Outcome> {
    bench.receive(ETH1, Body::Path(path()));
    let (flows, asked) = ([flow(9)], ask(node));
    let mut resv = resv(&flows);
    resv.carried = Carried::Objects(&asked);
    bench.receive(ETH2, Body::Resv(resv))
}

/// Sent Notify messages: destination, error and number of sessions.
fn notified(outcomes: &[Outcome]) -> Vec<(String, (ErrorCode, u16), usize)> {
    let messages = sent(outcomes).into_iter().filter_map(|(how, message)| match message.body {
        Body::Notify(Notify { error, sessions }) => {
            assert!(!how.router_alert, "section 4.3.1");
            Some((how.destination.to_string(), (error.code, error.value), sessions.len()))
        }
        _ => None,
    });
    messages.collect()
}

fn sends(outcomes: &[Outcome], name: &str) -> bool {
    sent(outcomes).iter().any(|(_, message)| message.body.message_type().name() == name)
}

const NO_BANDWIDTH: (ErrorCode, u16) = (ErrorCode::AdmissionControlFailure, 2);

/// Section 4.3.2: a Notify beside the ResvErr, with its error and flow.
#[test]
fn refused_resv_notifies_its_node() {
    let mut bench = with_notify(settings(&[]));
    let outcomes = refused(&mut bench, RECEIVER);
    assert_eq!(notified(&outcomes), [(RECEIVER.to_string(), NO_BANDWIDTH, 1)]);
    assert!(sends(&outcomes, "ResvErr"), "it does not replace the error message");
    let sent = sent(&outcomes);
    let notify = sent.iter().find_map(|(how, message)| match message.body {
        Body::Notify(notify) => Some((how.source, notify)),
        _ => None,
    });
    let Some((source, notify)) = notify else { panic!("{sent:?}") };
    assert_eq!((source, notify.error.node), (ip("10.0.2.1"), ip("10.0.2.1")));
    let flows = [flow(9)];
    let subject = NotifySubject::Flows(List::Items(&flows));
    let entry = NotifySession { session: session(), carried: Carried::NONE, subject };
    assert_eq!(notify.sessions.iter().collect::<Vec<_>>(), [entry]);
}

/// Section 4.3.2: a Notify beside the PathErr.
#[test]
fn refused_path_notifies_its_node() {
    for (node, expected) in [(SENDER, 1), (UPSTREAM, 1), (FAR, 0)] {
        let mut bench = with_notify(settings(&[]));
        let asked = ask(node);
        let mut path = path();
        path.sender.tspec.rate = -1.0;
        path.carried = Carried::Objects(&asked);
        let outcomes = bench.receive(ETH1, Body::Path(path));
        assert_eq!(notified(&outcomes).len(), expected, "{node}");
        assert!(sends(&outcomes, "PathErr"));
    }
}

/// The node is stored with the state: a reservation that is lost later is reported, too.
#[test]
fn lost_reservation_notifies_its_node() {
    let mut bench = with_notify(settings(&[]));
    bench.receive(ETH1, Body::Path(path()));
    let (flows, asked) = ([flow(1)], ask(DOWNSTREAM));
    let mut resv = resv(&flows);
    resv.carried = Carried::Objects(&asked);
    let outcomes = bench.receive(ETH2, Body::Resv(resv));
    assert_eq!(notified(&outcomes), []);
    let upstream = sent(&outcomes).into_iter().find_map(|(_, message)| match message.body {
        Body::Resv(resv) => resv.carried.notify_request(),
        _ => None,
    });
    assert_eq!(upstream, Some(ip(DOWNSTREAM)), "section 4.2.2: it is propagated");
    let [installation] = bench::installed(&outcomes)[..] else { panic!("{outcomes:?}") };
    let claim = installation.claim;
    let owner = bench.ledger.owner(claim).expect("it is owned");
    let refused = HostEvent::TrafficControlRefused { claim, owner, errno: 28 };
    let expected = (ErrorCode::TrafficControlSystemError, 28);
    assert_eq!(notified(&bench.host(refused)), [(DOWNSTREAM.to_string(), expected, 1)]);
}

/// Section 4.3.2: no Notify without request. Nor is any address notified that a message may name: only parties of the flow
/// and configured nodes are.
#[test]
fn third_party_is_not_notified() {
    for (node, nodes, expected) in [
        (RECEIVER, &[][..], 1),
        (DOWNSTREAM, &[], 1),
        (SENDER, &[], 1),
        (FAR, &[], 0),
        (FAR, &["10.7.0.0/16"], 1),
        ("10.0.2.1", &["0.0.0.0/0"], 0),
        ("224.0.0.1", &["0.0.0.0/0"], 0),
        ("0.0.0.0", &["0.0.0.0/0"], 0),
        ("255.255.255.255", &["0.0.0.0/0"], 0),
        ("127.0.0.1", &["0.0.0.0/0"], 0),
        ("2001:db8::7", &["::/0"], 0),
    ] {
        let outcomes = refused(&mut with_notify(settings(nodes)), node);
        assert_eq!(notified(&outcomes).len(), expected, "{node} {nodes:?}");
        assert!(sends(&outcomes, "ResvErr"));
    }
    let mut bench = with_notify(Settings::default());
    assert_eq!(notified(&refused(&mut bench, RECEIVER)), [], "disabled by default");
    let mut bench = with_notify(settings(&["0.0.0.0/0"]));
    bench.receive(ETH1, Body::Path(path()));
    let flows = [flow(9)];
    assert_eq!(notified(&bench.receive(ETH2, Body::Resv(resv(&flows)))), [], "not requested");
}

/// A wildcard request names no senders: those of the session are its parties.
#[test]
fn sender_of_wildcard_request_is_notified() {
    for (node, expected) in [(SENDER, 1), (RECEIVER, 1), (FAR, 0)] {
        let mut bench = with_notify(settings(&[]));
        bench.receive(ETH1, Body::Path(path()));
        let asked = ask(node);
        let resv = Resv { carried: Carried::Objects(&asked), ..wildcard(9) };
        let outcomes = bench.receive(ETH2, Body::Resv(resv));
        assert_eq!(notified(&outcomes).len(), expected, "{node}");
        assert!(sends(&outcomes, "ResvErr"));
    }
}

/// Section 4.3.2: notifications for one node with one error leave in one message.
#[test]
fn notifications_of_one_error_are_combined() {
    let mut bench = with_notify(settings(&[]));
    let other = SenderTemplate { source: ip("10.0.0.2"), ..template() };
    let mut flows: Vec<FixedFilterFlow> = Vec::new();
    for filter in [template(), other] {
        let mut path = path();
        path.sender.template = filter;
        bench.receive(ETH1, Body::Path(path));
        flows.push(FixedFilterFlow { filter, ..flow(9) });
    }
    let asked = ask(RECEIVER);
    let mut resv = resv(&flows);
    resv.carried = Carried::Objects(&asked);
    let outcomes = bench.receive(ETH2, Body::Resv(resv));
    assert_eq!(notified(&outcomes), [(RECEIVER.to_string(), NO_BANDWIDTH, 2)]);
}

/// A flood of failures does not become a flood of Notify messages to the node that they name.
#[test]
fn notifications_to_one_node_are_limited() {
    let mut bench = with_notify(Settings { per_second: 3, ..settings(&[]) });
    let count: usize = (0..20).map(|_| notified(&refused(&mut bench, RECEIVER)).len()).sum();
    assert_eq!(count, 3);
    assert_eq!(bench.engine.counters().suppressed_notifications, 17);
}

/// Delivers a message as from another node many hops away.
fn from_far(bench: &mut Bench, source: &str, to: &str, message: &Message<'_>) -> Vec<Outcome> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload).expect("it fits");
    bench.handle(Input::Datagram(Datagram {
        interface: ETH2,
        source: ip(source),
        destination: ip(to),
        ttl: 60,
        router_alert: false,
        encapsulated: false,
        payload: &payload,
    }))
}

/// Section 4.3: a Notify is retransmitted until its node acknowledges it, and in the end given up.
#[test]
fn notify_is_retransmitted_until_acknowledged() {
    let repeated = |acknowledged_by: Option<&str>| {
        let mut bench = with_notify(settings(&[]));
        let outcomes = refused(&mut bench, RECEIVER);
        let sent = sent(&outcomes);
        let is_notify = |message: &&Message<'_>| matches!(message.body, Body::Notify(_));
        let notify = sent.iter().map(|(_, message)| message).find(is_notify).expect("a Notify");
        let MessageId { flags, epoch, id } = notify.message_id.expect("it is reliable");
        assert_eq!(flags, MessageId::ACK_DESIRED);
        if let Some(node) = acknowledged_by {
            let acks = [Acknowledgement { kind: AcknowledgementKind::Ack, epoch, id }];
            let acknowledgements = List::Items(&acks);
            let ack = Message { acknowledgements, ..Message::new(60, Body::Ack) };
            from_far(&mut bench, node, "10.0.2.1", &ack);
            let counted = bench.engine.counters().reduction.acknowledged;
            assert_eq!(counted, u64::from(node == RECEIVER));
        }
        notified(&bench.pass(Duration::from_secs(25))).len()
    };
    assert_eq!(repeated(Some(RECEIVER)), 0);
    assert_eq!(repeated(Some(FAR)), 4, "another node does not acknowledge it");
    assert_eq!(repeated(None), 4, "five transmissions in all");
}

/// A next hop that is notified may acknowledge the Notify together with other messages, of which none is sent again.
#[test]
fn acknowledgement_of_notify_beside_others_counts_for_all() {
    let mut bench = with_notify(settings(&[]));
    receive_path_with_id(&mut bench, path(), message_id(1));
    let (flows, asked) = ([flow(9)], ask(DOWNSTREAM));
    let mut resv = Resv { carried: Carried::Objects(&asked), ..resv(&flows) };
    resv.hop.lih = bench.engine.lih(ETH2);
    let resv = capable_message(Body::Resv(resv), Some(message_id(100)));
    let outcomes = receive(&mut bench, ETH2, &resv);
    assert_eq!(notified(&outcomes), [(DOWNSTREAM.to_string(), NO_BANDWIDTH, 1)]);
    let ids = |outcomes: &[Outcome]| -> Vec<MessageId> {
        sent(outcomes).iter().filter_map(|(_, message)| message.message_id).collect()
    };
    let mut names = ids(&outcomes);
    names.extend(ids(&receive_path_with_id(&mut bench, other_path(), message_id(2))));
    assert_eq!(names.len(), 3, "ResvErr, Notify and Path");
    let all = names.iter().map(|id| acknowledgement(AcknowledgementKind::Ack, *id));
    acks(&mut bench, ETH2, &all.collect::<Vec<_>>());
    assert_eq!(ids(&bench.pass(Duration::from_secs(10))), []);
}

/// A sending host with an application whose Path requests notifications, and that Path's NOTIFY_REQUEST.
fn sending_host(notify: Settings) -> Bench {
    let requests = notify.enabled && notify.request;
    let mut bench = with_config(Config { notify, ..Config::default() });
    bench.interfaces.remove(ETH1);
    bench.add_interface_with(ETH2, &["10.0.2.1", SENDER], Rate::from_mbps(10));
    let application = Application(1);
    bench.command(Command::Session { application, session: session() });
    let sender = Command::Sender { application, template: template(), tspec: tspec(2), ttl: 64 };
    let outcomes = bench.command(sender);
    let asked = sent(&outcomes).into_iter().find_map(|(_, message)| match message.body {
        Body::Path(path) => path.carried.notify_request(),
        _ => None,
    });
    assert_eq!(asked, requests.then(|| ip(SENDER)));
    bench
}

fn failure(subject: NotifySubject<'_>) -> NotifySession<'_> {
    NotifySession { session: session(), carried: Carried::NONE, subject }
}

fn notify<'a>(sessions: &'a [NotifySession<'a>], id: Option<u32>) -> Message<'a> {
    let code = ErrorCode::AdmissionControlFailure;
    let error = ErrorSpec { node: ip(FAR), flags: 0, code, value: 2 };
    let id = id.map(|id| MessageId { flags: MessageId::ACK_DESIRED, epoch: 5, id });
    let body = Body::Notify(Notify { error, sessions: List::Items(sessions) });
    Message { message_id: id, ..Message::new(60, body) }
}

/// The events of a Notify for applications, and whether it was acknowledged to its sender.
fn told(outcomes: &[Outcome]) -> (usize, bool) {
    let told = events(outcomes);
    let told = told.iter().filter(|event| matches!(event, Event::Notified { .. })).count();
    let acks = sent(outcomes)
        .into_iter()
        .filter(|(how, message)| how.destination == ip(FAR) && matches!(message.body, Body::Ack));
    (told, acks.count() > 0)
}

/// RFC 5946 section 3.2: a sender that asks for it is notified, upstream and downstream; section 4.3.2 of RFC 3473: the
/// Notify is acknowledged, and a copy is not reported again.
#[test]
fn sender_is_told_of_notify() {
    let flows = [flow(2)];
    for subject in [
        NotifySubject::Sender(template(), Some(tspec(2))),
        NotifySubject::Flows(List::Items(&flows)),
        NotifySubject::Wildcard(flow(2).flowspec.expect("it has one")),
    ] {
        let mut bench = sending_host(settings(&["10.7.0.0/16"]));
        let before = bench.engine.population();
        let sessions = [failure(subject)];
        let first = from_far(&mut bench, FAR, SENDER, &notify(&sessions, Some(1)));
        assert_eq!(told(&first), (1, true));
        let again = from_far(&mut bench, FAR, SENDER, &notify(&sessions, Some(1)));
        assert_eq!(told(&again), (0, true));
        let unnumbered = from_far(&mut bench, FAR, SENDER, &notify(&sessions, None));
        assert_eq!(told(&unnumbered), (1, false));
        assert_eq!(bench.engine.population(), before, "a Notify changes no state");
    }
}

/// RFC 3473 section 12: nobody else is believed, and what was not requested is dropped; neither is answered.
#[test]
fn notify_of_others_is_ignored() {
    let other = SenderTemplate { source: ip("10.0.0.2"), ..template() };
    let elsewhere = Session { port: 9, ..session() };
    let mine = failure(NotifySubject::Sender(template(), None));
    let unknown = failure(NotifySubject::Sender(other, None));
    let stranger = NotifySession { session: elsewhere, ..mine };
    let trusted = settings(&["10.7.0.0/16"]);
    let unasked = Settings { request: false, ..trusted.clone() };
    for (notify_settings, entry, source, reason) in [
        (settings(&[]), mine, FAR, DropReason::UnknownNeighbor),
        (trusted.clone(), mine, "10.8.0.1", DropReason::UnknownNeighbor),
        (trusted.clone(), unknown, FAR, DropReason::NotForUs),
        (trusted, stranger, FAR, DropReason::NotForUs),
        (unasked, mine, FAR, DropReason::NotForUs),
        (Settings { request: true, ..Settings::default() }, mine, FAR, DropReason::Malformed),
    ] {
        let mut bench = sending_host(notify_settings);
        let sessions = [entry];
        let outcomes = from_far(&mut bench, source, SENDER, &notify(&sessions, Some(1)));
        assert_eq!(told(&outcomes), (0, false));
        assert!(sent(&outcomes).is_empty(), "no answer");
        let dropped = |event: Event| match event {
            Event::Dropped { reason, .. } => Some(reason),
            _ => None,
        };
        assert_eq!(events(&outcomes).into_iter().find_map(dropped), Some(reason));
    }
}

/// Section 4.3: a Notify to another node is forwarded unmodified.
#[test]
fn notify_to_another_node_is_relayed() {
    for notify_settings in [Settings::default(), settings(&["0.0.0.0/0"])] {
        let mut bench = with_notify(notify_settings);
        bench.receive(ETH1, Body::Path(path()));
        let sessions = [failure(NotifySubject::Sender(template(), None))];
        let message = notify(&sessions, Some(1));
        let outcomes = from_far(&mut bench, FAR, SENDER, &message);
        let sent = sent(&outcomes);
        let [(how, relayed)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((how.source, how.destination, how.ttl), (ip(FAR), ip(SENDER), 59));
        assert_eq!((relayed, bench.engine.counters().relayed), (&message, 1));
    }
}

/// What this node cannot read is not for it, either.
#[test]
fn malformed_notify_to_another_node_is_relayed() {
    let mut bench = with_notify(settings(&["0.0.0.0/0"]));
    let payload = [0x10, 21, 0, 0, 64, 0, 0, 12, 0, 4, 99, 1];
    for (destination, relayed) in [(SENDER, 1), ("10.0.2.1", 0)] {
        let outcomes = bench.handle(Input::Datagram(Datagram {
            interface: ETH2,
            source: ip(FAR),
            destination: ip(destination),
            ttl: 60,
            router_alert: false,
            encapsulated: false,
            payload: &payload,
        }));
        assert_eq!(
            bench::sent(&outcomes).filter(|(_, octets)| *octets == payload).count(),
            relayed
        );
    }
}
