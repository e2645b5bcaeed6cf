//! Hosts: sending and receiving applications, by the interface of RFC 2205 section 3.11.1.

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message as ReportedBy, Outcome as Reach};
use earmark_rsvp::{Application, Command, Event, Filters, Rejection, ReserveRequest};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Path,
    PathErr, Resv, ResvConf, ResvErr, RsvpHop, Session, SourceSelector, Style,
};

use crate::common::*;

const APPLICATION: Application = Application(1);

fn open() -> Command {
    Command::Session { application: APPLICATION, session: session() }
}

fn send(mbps: u32) -> Command {
    Command::Sender { application: APPLICATION, template: template(), tspec: tspec(mbps), ttl: 63 }
}

fn reserve(mbps: u32, confirm: bool) -> Command {
    let request = ReserveRequest::FixedFilter { filter: template(), flowspec: flowspec(mbps) };
    Command::Reserve { application: APPLICATION, request, confirm }
}

const RELEASE: Command = Command::Release { application: APPLICATION };

fn rejection(outcomes: &[Outcome]) -> Option<Rejection> {
    events(outcomes).iter().find_map(|event| match event {
        Event::Rejected { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// SENDER: the first Path is sent at once, with the application's TTL and an ADSPEC that includes this host's own link.
#[test]
fn sender_command_sends_path_at_once() {
    let mut host = sender();
    assert_eq!(host.command(open()), []);
    let outcomes = host.command(send(2));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert_eq!((how.source, how.destination, how.ttl), (ip(SENDER), ip(RECEIVER), 63));
    let Body::Path(path) = &message.body else { panic!("a Path") };
    assert_eq!(path.sender.tspec, tspec(2));
    let adspec = path.sender.adspec.expect("an ADSPEC goes along");
    let adspec = earmark_wire::intserv::Adspec::parse(adspec).expect("it can be read");
    assert_eq!((adspec.general.hops, adspec.general.mtu), (1, 1500));
    // Refreshed without any input.
    let refreshes = sent_kinds(&host.pass(Duration::from_secs(300)));
    assert!(refreshes.len() >= 6 && refreshes.iter().all(|kind| *kind == "Path"), "{refreshes:?}");
}

fn sent_kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    sent(outcomes).iter().map(|(_, message)| message.body.message_type().name()).collect()
}

/// An unspecified source address is replaced by the host's own.
#[test]
fn sender_without_address_gets_host_address() {
    let mut host = sender();
    host.command(open());
    let template = FilterSpec { source: ip("0.0.0.0"), selector: SourceSelector::Port(4000) };
    let command = Command::Sender { application: APPLICATION, template, tspec: tspec(2), ttl: 63 };
    let outcomes = host.command(command);
    let sent = sent(&outcomes);
    let Body::Path(path) = &sent[0].1.body else { panic!("a Path") };
    assert_eq!(path.sender.template.source, ip("10.0.2.1"));
}

/// The data of a sending host for a group leaves by the route for the group, and so does its Path.
#[test]
fn path_for_group_leaves_by_the_route_for_the_group() {
    let group = Session { destination: ip("239.1.1.1"), ..session() };
    for route in [true, false] {
        let mut host = sender();
        if route {
            host.add_route("239.0.0.0/8", ETH2, None);
        }
        host.command(Command::Session { application: APPLICATION, session: group });
        let outcomes = host.command(send(2));
        let through: Vec<_> = sent(&outcomes).iter().map(|(how, _)| how.interface).collect();
        assert_eq!(through, if route { vec![Some(ETH2)] } else { vec![] });
    }
}

/// RESV_EVENT: the reservation is made on the host's own link, and the application is notified of it and of its
/// changes.
#[test]
fn sender_is_notified_of_reservation() {
    let mut host = sender();
    host.command(open());
    host.command(send(2));
    let outcomes = host.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(host.held(), Rate::from_mbps(2));
    let expected = Event::Resv {
        application: APPLICATION,
        session: session(),
        filter: template(),
        style: Style::FixedFilter,
        flowspec: flowspec(2),
        dscp: Vec::new(),
        reach: Box::new(Reach {
            from: Some(ip(SENDER)),
            ..Reach::reported(Kind::Unverified, Some(ip(DOWNSTREAM)), ReportedBy::new("Resv"))
        }),
    };
    assert!(events(&outcomes).contains(&expected), "{outcomes:?}");
    assert_eq!(sent_kinds(&outcomes), Vec::<&str>::new(), "there is nobody upstream");

    let outcomes = host.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])));
    let gone = Event::ResvGone { application: APPLICATION, session: session(), filter: template() };
    assert!(events(&outcomes).contains(&gone));
    assert_eq!(host.held(), Rate::ZERO);
}

/// RFC 2205 section 2.6: the last node towards the sender confirms, to the receiver that requested it.
#[test]
fn sender_host_sends_confirmation() {
    let mut host = sender();
    host.command(open());
    host.command(send(2));
    let flows = [flow(2)];
    let mut request = resv(&flows);
    request.confirm = Some(ip(RECEIVER));
    let outcomes = host.receive(ETH2, Body::Resv(request));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message") };
    assert_eq!((how.destination, how.router_alert), (ip(RECEIVER), true));
    let Body::ResvConf(confirmation) = &message.body else { panic!("a ResvConf") };
    assert_eq!(confirmation.confirm, ip(RECEIVER));
    assert_eq!(confirmation.error.code, ErrorCode::Confirmation);
    assert_eq!(confirmation.error.node, ip("10.0.2.1"));
}

/// RESERVE: nothing can be reserved before a Path has arrived; then a Resv goes to the previous hop, with RESV_CONFIRM
/// if requested.
#[test]
fn reserve_command_after_path_sends_resv() {
    let mut host = receiver();
    host.command(open());
    assert_eq!(rejection(&host.command(reserve(2, true))), Some(Rejection::NoSuchSender));

    let outcomes = host.receive(ETH1, Body::Path(path()));
    assert_eq!(sent(&outcomes), [], "the Path has arrived");
    let announced = Event::Path {
        application: APPLICATION,
        session: session(),
        template: template(),
        tspec: path().sender.tspec,
        offer: None,
    };
    assert!(events(&outcomes).contains(&announced));

    let outcomes = host.command(reserve(2, true));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert_eq!(how.destination, ip(UPSTREAM));
    let Body::Resv(resv) = &message.body else { panic!("a Resv") };
    assert_eq!(resv.confirm, Some(ip(RECEIVER)));
    assert_eq!(resv.hop, RsvpHop { address: ip("10.0.1.2"), lih: 77 });
    assert!(!outcomes.iter().any(|o| matches!(o, Outcome::Installed(_))), "nothing to queue here");
}

/// RFC 2205 section 3.11.1: an application that opens a session gets PATH_EVENT for known senders.
#[test]
fn new_session_is_notified_of_known_senders() {
    let mut host = receiver();
    host.receive(ETH1, Body::Path(path()));
    let reported = events(&host.command(open()));
    assert!(matches!(reported[..], [Event::Path { application: APPLICATION, .. }]), "{reported:?}");
}

/// The ResvConf travels hop by hop: a router forwards it, the receiver's host notifies the application.
#[test]
fn confirmation_is_forwarded_to_application() {
    let flows = [flow(2)];
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec {
            node: ip("10.0.0.1"),
            flags: 0,
            code: ErrorCode::Confirmation,
            value: 0,
        },
        confirm: ip(RECEIVER),
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    let mut between = router();
    let outcomes = between.receive(ETH1, Body::ResvConf(confirmation));
    let passed = sent(&outcomes);
    let [(how, message)] = &passed[..] else { panic!("one message") };
    assert_eq!((how.interface, how.destination, how.ttl), (Some(ETH2), ip(RECEIVER), 62));
    assert_eq!(message.body, Body::ResvConf(confirmation));

    let mut host = receiver();
    host.command(open());
    host.receive(ETH1, Body::Path(path()));
    host.command(reserve(2, true));
    let outcomes = host.receive(ETH1, Body::ResvConf(confirmation));
    let expected = Event::Confirmed {
        application: APPLICATION,
        session: session(),
        node: ip("10.0.0.1"),
        style: Style::FixedFilter,
        filters: Filters::One(template()),
        // Without an ADSPEC the number of nodes is unknown.
        reach: Box::new(Reach {
            from: Some(ip(SENDER)),
            to: Some(ip(RECEIVER)),
            ..Reach::reported(Kind::Unverified, Some(ip("10.0.0.1")), ReportedBy::new("ResvConf"))
        }),
    };
    assert_eq!(events(&outcomes), [expected]);
}

/// RESV_ERR: with NotGuilty if this receiver requested less than what failed; no upcall if its reservation remains.
#[test]
fn receiver_is_notified_of_resv_err() {
    let (in_place, not_guilty) = (ErrorSpec::IN_PLACE, ErrorSpec::NOT_GUILTY);
    for (requested, flags, expected) in [
        (2, 0, Some(not_guilty)),
        (2, in_place, None),
        (5, 0, Some(0)),
        (5, in_place, Some(in_place)),
    ] {
        let mut host = receiver();
        host.command(open());
        host.receive(ETH1, Body::Path(path()));
        host.command(reserve(requested, false));
        let flows = [flow(5)];
        let failed = ErrorSpec {
            node: ip("10.0.0.254"),
            flags,
            code: ErrorCode::AdmissionControlFailure,
            value: 2,
        };
        let message = ResvErr {
            session: session(),
            hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
            error: failed,
            scope: None,
            carried: Carried::Objects(&[]),
            flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
        };
        let outcomes = host.receive(ETH1, Body::ResvErr(message));
        let error = events(&outcomes).iter().find_map(|event| match event {
            Event::ResvError { error, .. } => Some(*error),
            _ => None,
        });
        let expected = expected.map(|flags| ErrorSpec { flags, ..failed });
        assert_eq!(error, expected, "asked for {requested}, flags {flags}");
        // A receiver that is no proxy tells the sender nothing (RFC 5946 section 3.1.4).
        assert!(
            sent(&outcomes).iter().all(|(_, message)| !matches!(message.body, Body::PathErr(_)))
        );
    }
}

/// PATH_ERROR reaches the application whose Path it is about.
#[test]
fn sender_is_notified_of_path_err() {
    let mut host = sender();
    host.command(open());
    host.command(send(2));
    let error = ErrorSpec {
        node: ip("10.0.5.5"),
        flags: 0,
        code: ErrorCode::ConflictingDestPorts,
        value: 0,
    };
    let message = PathErr {
        session: session(),
        error,
        carried: Carried::Objects(&[]),
        sender: Some((template(), Some(tspec(2)))),
    };
    let reported = events(&host.receive(ETH2, Body::PathErr(message)));
    let expected = Event::PathError {
        application: APPLICATION,
        session: session(),
        error,
        template: template(),
        explanation: None,
    };
    assert_eq!(reported, [expected]);
}

/// RELEASE: the sender is torn downstream, the reservation upstream, and refreshes end.
#[test]
fn release_command_tears_everything() {
    let mut host = sender();
    host.command(open());
    host.command(send(2));
    host.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(sent_kinds(&host.command(RELEASE)), ["PathTear"]);
    assert_eq!(host.held(), Rate::ZERO);
    assert_eq!(host.pass(Duration::from_secs(500)), []);

    let mut host = receiver();
    host.command(open());
    host.receive(ETH1, Body::Path(path()));
    host.command(reserve(2, false));
    assert_eq!(sent_kinds(&host.command(RELEASE)), ["ResvTear"]);
    assert_eq!(rejection(&host.command(RELEASE)), Some(Rejection::NoSession));
    assert_eq!(host.engine.population(), (1, 1, 0));
}

/// The end of a sender ends the local reservation, and its receivers are notified.
#[test]
fn receiver_is_notified_of_sender_end() {
    let mut host = receiver();
    host.command(open());
    host.receive(ETH1, Body::Path(path()));
    host.command(reserve(2, false));
    let reported = events(&host.receive(ETH1, Body::PathTear(path_tear())));
    let gone =
        Event::PathGone { application: APPLICATION, session: session(), template: template() };
    assert!(reported.contains(&gone), "{reported:?}");
    assert_eq!(host.engine.population(), (0, 0, 0));
    // The sender may return.
    assert!(matches!(events(&host.receive(ETH1, Body::Path(path())))[..], [_, Event::Path { .. }]));
}

/// Two applications of one host: the request upstream is the larger of both, and the smaller one after the larger ends.
#[test]
fn receivers_on_one_host_are_merged() {
    let other = Application(2);
    let mut host = receiver();
    host.command(open());
    host.command(Command::Session { application: other, session: session() });
    host.receive(ETH1, Body::Path(path()));
    host.command(reserve(2, false));
    let request = ReserveRequest::FixedFilter { filter: template(), flowspec: flowspec(4) };
    let requested = |outcomes: &[Outcome]| match sent(outcomes).last().map(|(_, m)| m.body) {
        Some(Body::Resv(resv)) => match resv.flows {
            FlowDescriptors::FixedFilter(flows) => flows.iter().next().and_then(|f| f.flowspec),
            _ => None,
        },
        _ => None,
    };
    let outcomes = host.command(Command::Reserve { application: other, request, confirm: false });
    assert_eq!(requested(&outcomes), Some(flowspec(4)));
    let outcomes = host.command(Command::Release { application: other });
    assert_eq!(requested(&outcomes), Some(flowspec(2)));
}

/// Invalid commands are rejected with the reason, and leave no state.
#[test]
fn invalid_commands_are_rejected() {
    let command = |template: FilterSpec, tspec: TokenBucket| Command::Sender {
        application: APPLICATION,
        template,
        tspec,
        ttl: 63,
    };
    let nan = TokenBucket { rate: f32::NAN, ..tspec(2) };
    let foreign = FilterSpec { source: ip("198.51.100.1"), ..template() };
    let mut host = sender();
    assert_eq!(rejection(&host.command(send(2))), Some(Rejection::NoSession));
    let nowhere = Session { destination: ip("0.0.0.0"), ..session() };
    let bad = Command::Session { application: APPLICATION, session: nowhere };
    assert_eq!(rejection(&host.command(bad)), Some(Rejection::BadSession));
    host.command(open());
    let other = Session { port: 9, ..session() };
    let second = Command::Session { application: APPLICATION, session: other };
    assert_eq!(rejection(&host.command(second)), Some(Rejection::SessionOpen));
    assert!(matches!(
        rejection(&host.command(command(template(), nan))),
        Some(Rejection::Specification(_))
    ));
    assert_eq!(
        rejection(&host.command(command(foreign, tspec(2)))),
        Some(Rejection::NotOurAddress)
    );
    host.add_interface_with(ETH1, &["10.0.1.2", "fd00::1"], Rate::from_mbps(10));
    let other_family = FilterSpec { source: ip("fd00::1"), ..template() };
    assert_eq!(
        rejection(&host.command(command(other_family, tspec(2)))),
        Some(Rejection::Families)
    );
    assert_eq!(host.engine.population(), (0, 0, 0));

    let mut stranded = sender();
    let unreachable = Session { destination: ip("192.0.2.7"), ..session() };
    stranded.command(Command::Session { application: APPLICATION, session: unreachable });
    assert_eq!(rejection(&stranded.command(send(2))), Some(Rejection::NoRoute));

    let mut host = receiver();
    host.command(open());
    host.receive(ETH1, Body::Path(path()));
    let flowspec = FlowSpec::ControlledLoad(nan);
    let request = ReserveRequest::FixedFilter { filter: template(), flowspec };
    let bad = Command::Reserve { application: APPLICATION, request, confirm: false };
    assert!(matches!(rejection(&host.command(bad)), Some(Rejection::Specification(_))));
}

/// One sender of two applications would be one flow with two owners.
#[test]
fn sender_of_other_application_is_rejected() {
    let mut host = sender();
    host.command(open());
    host.command(send(2));
    let other = Application(2);
    host.command(Command::Session { application: other, session: session() });
    let again =
        Command::Sender { application: other, template: template(), tspec: tspec(1), ttl: 63 };
    assert_eq!(rejection(&host.command(again)), Some(Rejection::SenderTaken));
    let flow = FixedFilterFlow { flowspec: Some(flowspec(1)), filter: template() };
    host.receive(ETH2, Body::Resv(resv(&[flow])));
    assert_eq!(host.held(), Rate::from_mbps(1));
}

/// Local senders' traffic limits their reservations, from the beginning and when it changes.
#[test]
fn local_sender_tspec_limits_reservation() {
    const SECOND: Application = Application(2);
    let mut host = sender();
    host.command(open());
    host.command(send(1));
    let flows = FlowDescriptors::Wildcard(Some(flowspec(6)));
    host.receive(ETH2, Body::Resv(Resv { flows, ..resv(&[]) }));
    assert_eq!(host.held(), Rate::from_mbps(1));
    host.command(Command::Session { application: SECOND, session: session() });
    let template = FilterSpec { selector: SourceSelector::Port(4001), ..template() };
    host.command(Command::Sender { application: SECOND, template, tspec: tspec(1), ttl: 63 });
    assert_eq!(host.held(), Rate::from_mbps(2));
    host.command(send(3));
    assert_eq!(host.held(), Rate::from_mbps(4));

    let mut host = sender();
    host.command(open());
    host.command(send(1));
    host.receive(ETH2, Body::Resv(resv(&[flow(6)])));
    host.command(send(3));
    assert_eq!(host.held(), Rate::from_mbps(3));
}

/// A group whose sender and receiver are on one host: the receiver is notified of the sender, and gets a confirmation
/// at once.
#[test]
fn multicast_sender_and_receiver_on_one_host_are_confirmed() {
    const SECOND: Application = Application(2);
    let session = Session { destination: ip("239.1.1.1"), ..session() };
    let mut host = sender();
    for application in [APPLICATION, SECOND] {
        host.command(Command::Session { application, session });
    }
    for mbps in [1, 2] {
        let reported = events(&host.command(send(mbps)));
        let announced = reported.iter().find_map(|event| match event {
            Event::Path { application: SECOND, tspec, .. } => Some(*tspec),
            _ => None,
        });
        assert_eq!(announced, Some(tspec(mbps)), "{reported:?}");
    }
    let request = ReserveRequest::Wildcard { flowspec: flowspec(2) };
    let reported =
        events(&host.command(Command::Reserve { application: SECOND, request, confirm: true }));
    let confirmed = |event: &Event| matches!(event, Event::Confirmed { application: SECOND, node, .. } if *node == ip(SENDER));
    assert!(reported.iter().any(confirmed), "{reported:?}");
    assert!(reported.iter().any(|event| matches!(event, Event::Resv { .. })), "{reported:?}");
}

/// RESV_CONFIRM for a group has the address of the interface that the data arrives through.
#[test]
fn multicast_receiver_requests_confirmation_at_own_address() {
    let session = Session { destination: ip("239.1.1.1"), ..session() };
    let mut host = receiver();
    host.command(Command::Session { application: APPLICATION, session });
    host.receive(ETH1, Body::Path(Path { session, ..path() }));
    let outcomes = host.command(reserve(2, true));
    let requested = sent(&outcomes).iter().find_map(|(_, message)| match message.body {
        Body::Resv(resv) => Some(resv.confirm),
        _ => None,
    });
    assert_eq!(requested, Some(Some(ip("10.0.1.2"))));
}
