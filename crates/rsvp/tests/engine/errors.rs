//! Refusals and errors of RFC 2205: content, receiver, and unchanged state.

use earmark_core::{HostEvent, Rate};
use earmark_rsvp::{Config, DropReason, Event};
use earmark_testkit::messages::rsvp::seal;
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List,
    PathErr, ResvErr, RsvpHop, Session, SourceSelector, Style,
};

use crate::common::*;
use crate::signing::sent_octets;

/// The only sent ResvErr: destination and error.
fn resv_err(outcomes: &[Outcome]) -> (std::net::IpAddr, ErrorSpec) {
    let errors: Vec<_> = sent(outcomes)
        .iter()
        .filter_map(|(how, message)| match &message.body {
            Body::ResvErr(error) => Some((how.destination, error.error)),
            _ => None,
        })
        .collect();
    let [error] = errors[..] else { panic!("one ResvErr, not {errors:?}") };
    error
}

/// The only sent PathErr: destination and error.
fn path_err(outcomes: &[Outcome]) -> (std::net::IpAddr, ErrorSpec) {
    let errors: Vec<_> = sent(outcomes)
        .iter()
        .filter_map(|(how, message)| match &message.body {
            Body::PathErr(error) => Some((how.destination, error.error)),
            _ => None,
        })
        .collect();
    let [error] = errors[..] else { panic!("one PathErr, not {errors:?}") };
    error
}

fn error(node: &str, flags: u8, code: ErrorCode, value: u16) -> ErrorSpec {
    ErrorSpec { node: ip(node), flags, code, value }
}

fn dropped(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |event: &Event| match event {
        Event::Dropped { reason, .. } => Some(*reason),
        _ => None,
    };
    events(outcomes).iter().filter_map(reason).collect()
}

/// RFC 2205 appendix B, code 1, value 2: a request for more than the link has left reserves nothing and is not
/// forwarded.
#[test]
fn request_over_capacity_is_refused() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(8)])));
    let expected = error("10.0.2.1", 0, ErrorCode::AdmissionControlFailure, 2);
    assert_eq!(resv_err(&outcomes), (ip(DOWNSTREAM), expected));
    assert_eq!(sent(&outcomes).len(), 1, "nothing else is sent");
    assert_eq!(router.held(), Rate::ZERO);
    assert_eq!(router.engine.population(), (1, 1, 0));
    let available = events(&outcomes).iter().find_map(|event| match event {
        Event::Refused { available_bps, .. } => Some(*available_bps),
        _ => None,
    });
    assert_eq!(available, Some(7_500_000), "it is said what could have been granted");
}

/// RFC 2205 section 3.1.8: a refused increase leaves the old reservation, and the error has InPlace.
#[test]
fn refused_increase_keeps_old_reservation() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(8)])));
    let expected = error("10.0.2.1", ErrorSpec::IN_PLACE, ErrorCode::AdmissionControlFailure, 2);
    assert_eq!(resv_err(&outcomes).1, expected);
    assert!(!outcomes.iter().any(|o| matches!(o, Outcome::Installed(_) | Outcome::Removed(_))));
    assert_eq!(router.held(), Rate::from_mbps(2));
    assert_eq!(
        router.receive(ETH2, Body::Resv(resv(&[flow(2)]))),
        [],
        "the old one is still known"
    );
}

/// The bandwidth of one session is unavailable to others until it is released.
#[test]
fn released_bandwidth_is_available_to_other_sessions() {
    let mut router = router();
    let mut other = path();
    other.session.port = 6000;
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH1, Body::Path(other));
    router.receive(ETH2, Body::Resv(resv(&[flow(5)])));
    let flows = [flow(5)];
    let mut request = resv(&flows);
    request.session.port = 6000;
    let outcomes = router.receive(ETH2, Body::Resv(request));
    assert_eq!(resv_err(&outcomes).1.code, ErrorCode::AdmissionControlFailure);
    router.receive(ETH2, Body::ResvTear(resv_tear(&[flow(5)])));
    router.receive(ETH2, Body::Resv(request));
    assert_eq!(router.held(), Rate::from_mbps(5));
}

/// Code 1, value 3: packets larger than the MTU of the link.
#[test]
fn packets_over_mtu_are_refused() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let jumbo = FlowSpec::ControlledLoad(TokenBucket { max_packet_size: 9_000, ..tspec(2) });
    let flow = FixedFilterFlow { flowspec: Some(jumbo), ..flow(2) };
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow])));
    let expected = error("10.0.2.1", 0, ErrorCode::AdmissionControlFailure, 3);
    assert_eq!(resv_err(&outcomes).1, expected);
}

/// Code 3: no path state for the session. Code 4: path state, but not of this sender. No state is created either way.
#[test]
fn resv_without_path_state_is_refused() {
    let mut router = router();
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let expected = error("10.0.2.1", 0, ErrorCode::NoPathInformation, 0);
    assert_eq!(resv_err(&outcomes), (ip(DOWNSTREAM), expected));

    router.receive(ETH1, Body::Path(path()));
    let unknown_sender = FilterSpec { source: ip("10.0.0.77"), selector: SourceSelector::Port(1) };
    let flow = FixedFilterFlow { filter: unknown_sender, ..flow(2) };
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow])));
    assert_eq!(resv_err(&outcomes).1.code, ErrorCode::NoSenderInformation);
    assert_eq!(router.held(), Rate::ZERO);
}

/// RFC 2205 section 3.1.8: flow descriptors of one message are handled independently.
#[test]
fn flow_descriptors_of_one_resv_are_admitted_independently() {
    let mut router = router();
    let mut second = path();
    second.sender.template.selector = SourceSelector::Port(4001);
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH1, Body::Path(second));
    let flows = [
        flow(2),
        FixedFilterFlow { filter: second.sender.template, ..flow(7) },
        FixedFilterFlow { filter: FilterSpec { source: ip("10.0.0.77"), ..template() }, ..flow(1) },
    ];
    let outcomes = router.receive(ETH2, Body::Resv(resv(&flows)));
    let codes: Vec<_> = sent(&outcomes)
        .iter()
        .filter_map(|(_, message)| match &message.body {
            Body::ResvErr(error) => Some(error.error.code),
            _ => None,
        })
        .collect();
    assert_eq!(codes, [ErrorCode::AdmissionControlFailure, ErrorCode::NoSenderInformation]);
    assert_eq!(router.held(), Rate::from_mbps(2));
}

/// Invalid values: code 21, by PathErr for the Tspec, by ResvErr for the flowspec.
#[test]
fn invalid_tspec_or_flowspec_is_traffic_control_error() {
    let mut router = router();
    for rate in [f32::NAN, -1.0, f32::INFINITY] {
        let mut bad = path();
        bad.sender.tspec.rate = rate;
        let outcomes = router.receive(ETH1, Body::Path(bad));
        let expected = error("10.0.1.2", 0, ErrorCode::TrafficControlError, 4);
        assert_eq!(path_err(&outcomes), (ip(UPSTREAM), expected), "{rate}");
        assert_eq!(router.engine.population(), (0, 0, 0));
    }
    router.receive(ETH1, Body::Path(path()));
    let rspec = Rspec { rate: f32::NAN, slack_us: 0 };
    for flowspec in [
        FlowSpec::ControlledLoad(TokenBucket { rate: -4.0, ..tspec(2) }),
        FlowSpec::ControlledLoad(TokenBucket { depth: f32::NAN, ..tspec(2) }),
        FlowSpec::Guaranteed(tspec(2), rspec),
    ] {
        let flow = FixedFilterFlow { flowspec: Some(flowspec), ..flow(2) };
        let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow])));
        let expected = error("10.0.2.1", 0, ErrorCode::TrafficControlError, 3);
        assert_eq!(resv_err(&outcomes).1, expected, "{flowspec:?}");
    }
    assert_eq!(router.held(), Rate::ZERO);
}

/// A refresh with invalid values leaves the state unchanged.
#[test]
fn refresh_with_invalid_values_changes_nothing() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let mut bad = path();
    bad.sender.tspec.depth = f32::NAN;
    let outcomes = router.receive(ETH1, Body::Path(bad));
    assert_eq!(path_err(&outcomes).1.code, ErrorCode::TrafficControlError);
    assert_eq!(router.receive(ETH1, Body::Path(path())), []);
}

/// RFC 2205 section 3.2, rule 1, code 7; rule 3, code 8. Rule 2 ("bad source port") is only logged.
#[test]
fn conflicting_ports_are_refused() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let mut portless = path();
    portless.session.port = 0;
    portless.sender.template.selector = SourceSelector::Port(0);
    let outcomes = router.receive(ETH1, Body::Path(portless));
    assert_eq!(path_err(&outcomes).1.code, ErrorCode::ConflictingDestPorts);

    let mut sender_without = path();
    sender_without.sender.template.selector = SourceSelector::Port(0);
    let outcomes = router.receive(ETH1, Body::Path(sender_without));
    assert_eq!(path_err(&outcomes).1.code, ErrorCode::ConflictingSenderPorts);

    let mut other_way = path();
    other_way.session.port = 7000;
    other_way.sender.template.selector = SourceSelector::Port(0);
    router.receive(ETH1, Body::Path(other_way));
    other_way.sender.template.selector = SourceSelector::Port(9);
    let outcomes = router.receive(ETH1, Body::Path(other_way));
    assert_eq!(path_err(&outcomes).1.code, ErrorCode::ConflictingSenderPorts);

    let mut bad_source = path();
    bad_source.session = Session { destination: ip("10.0.9.10"), port: 0, ..session() };
    let outcomes = router.receive(ETH1, Body::Path(bad_source));
    assert_eq!(sent(&outcomes), []);
    assert_eq!(dropped(&outcomes), [DropReason::Malformed]);
}

/// A PathErr is forwarded hop by hop to its sender.
#[test]
fn path_err_is_forwarded_upstream() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let message = PathErr {
        session: session(),
        error: error("10.0.9.1", 0, ErrorCode::TrafficControlError, 4),
        carried: Carried::Objects(&[]),
        sender: Some((template(), Some(tspec(2)))),
    };
    let outcomes = router.receive(ETH2, Body::PathErr(message));
    assert_eq!(path_err(&outcomes), (ip(UPSTREAM), message.error));
    assert_eq!(router.engine.population(), (1, 1, 0), "it changes no state");
}

/// A ResvErr is forwarded hop by hop to the receivers of the reservation, with this node's hop object.
#[test]
fn resv_err_is_forwarded_downstream() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let flows = [flow(2)];
    let message = ResvErr {
        session: session(),
        hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
        error: error("10.0.0.254", 0, ErrorCode::AdmissionControlFailure, 2),
        scope: None,
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    let outcomes = router.receive(ETH1, Body::ResvErr(message));
    assert_eq!(resv_err(&outcomes), (ip(DOWNSTREAM), message.error));
    let sent = sent(&outcomes);
    let Body::ResvErr(passed) = &sent[0].1.body else { panic!("a ResvErr") };
    let hop = RsvpHop { address: ip("10.0.2.1"), lih: router.engine.lih(ETH2) };
    assert_eq!(passed.hop, hop);
    assert_eq!(router.held(), Rate::from_mbps(2), "it changes no state");

    // From the next hop it is invalid.
    let message = ResvErr { hop: RsvpHop { address: ip(DOWNSTREAM), lih: 77 }, ..message };
    let outcomes = router.receive(ETH2, Body::ResvErr(message));
    assert_eq!(dropped(&outcomes), [DropReason::OtherHop]);
}

/// The kernel refuses what the ledger granted: the receiver gets a ResvErr (code 22, the errno as value), the previous
/// hop a ResvTear, and no state remains.
#[test]
fn reservation_refused_by_traffic_control_is_removed() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let claim = outcomes.iter().find_map(|o| match o {
        Outcome::Installed(installation) => Some(installation.claim),
        _ => None,
    });
    let claim = claim.expect("it was installed");
    let owner = router.ledger.owner(claim).expect("it is owned");
    let outcomes = router.host(HostEvent::TrafficControlRefused { claim, owner, errno: 28 });
    let expected = error("10.0.2.1", 0, ErrorCode::TrafficControlSystemError, 28);
    assert_eq!(resv_err(&outcomes), (ip(DOWNSTREAM), expected));
    assert!(sent(&outcomes).iter().any(|(_, m)| matches!(m.body, Body::ResvTear(_))));
    assert_eq!(router.held(), Rate::ZERO);
    assert_eq!(router.engine.population(), (1, 1, 0));
    // A second refusal of the same claim is stale.
    assert_eq!(router.host(HostEvent::TrafficControlRefused { claim, owner, errno: 28 }), []);
}

/// Appendix B, code 5: a session has one style at a time, and the error contains it.
#[test]
fn second_style_is_refused() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let mut wildcard = resv(&[]);
    wildcard.flows = FlowDescriptors::Wildcard(Some(flowspec(1)));
    let outcomes = router.receive(ETH2, Body::Resv(wildcard));
    let error = resv_err(&outcomes).1;
    let fixed_filter = Style::FixedFilter.option_vector();
    assert_eq!((error.code, error.value), (ErrorCode::ConflictingStyle, fixed_filter));
    router.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])));
    router.receive(ETH2, Body::Resv(wildcard));
    let error = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let error = resv_err(&error).1;
    assert_eq!(error.value, Style::Wildcard.option_vector());
    assert_eq!(router.held(), Rate::from_mbps(1));
}

/// Appendix B, code 6: the flow descriptors of an unknown style are quoted unchanged.
#[test]
fn unknown_style_is_quoted_in_error() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let flows = [flow(2)];
    let mut request = resv(&flows);
    request.hop.lih = router.engine.lih(ETH2);
    let mut octets = octets(Body::Resv(request), 64);
    let style = octets.windows(4).position(|w| w == [0, 8, 8, 1]).expect("a STYLE object");
    octets[style + 5..style + 8].copy_from_slice(&[0, 0, 0x1f]);
    octets[2..4].copy_from_slice(&[0, 0]); // no checksum
    let outcomes = router.receive_octets(ETH2, ip("10.0.2.1"), 255, &octets);
    let answer = outcomes.iter().find_map(|o| match o {
        Outcome::Sent(how, octets) => Some((how.destination, octets.clone())),
        _ => None,
    });
    let (destination, answer) = answer.expect("there is an answer");
    assert_eq!(destination, ip(DOWNSTREAM));
    assert_eq!(answer[1], 4, "a ResvErr");
    assert!(answer.windows(8).any(|w| w == [0, 8, 8, 1, 0, 0, 0, 0x1f]), "{answer:?}");
    // ERROR_SPEC: node, flags, code 6, value 0.
    assert!(answer.windows(8).any(|w| w == [10, 0, 2, 1, 0, 6, 0, 0]), "{answer:?}");
}

/// RFC 2205 section 3.10: an unknown C-Type of a known class causes an error, which quotes what the message is about as it was
/// received. Such are the objects of traffic engineering (RFC 3209 section 4.6): SESSION, SENDER_TEMPLATE and FILTER_SPEC.
#[test]
fn unknown_c_type_is_answered_with_object_as_received() {
    // LSP_TUNNEL_IPv4: C-Type 7.
    let session = [0, 16, 1, 7, 10, 0, 9, 9, 0, 0, 0, 5, 10, 0, 0, 1];
    let sender = |class| [0, 12, class, 7, 10, 0, 0, 1, 0, 0, 0, 3];
    let replace = |octets: &[u8], class: u8, by: &[u8]| {
        let mut all: Vec<u8> = octets[..8].to_vec();
        let mut rest = &octets[8..];
        while let [high, low, number, ..] = *rest {
            let length = usize::from(u16::from_be_bytes([high, low]));
            all.extend(if number == class { by } else { &rest[..length] });
            rest = &rest[length..];
        }
        seal(&mut all);
        all
    };
    let quotes = |octets: &[u8], object: &[u8]| octets.windows(object.len()).any(|at| at == object);
    let path = octets(Body::Path(crate::common::path()), 63);
    for (class, object) in [(1, &session[..]), (11, &sender(11)[..])] {
        let mut router = router();
        let outcomes =
            router.receive_octets(ETH1, ip(RECEIVER), 63, &replace(&path, class, object));
        let sent = sent_octets(&outcomes);
        assert_eq!(sent.len(), 1, "class {class}");
        assert_eq!((sent[0][0], sent[0][1]), (0x10, 3), "a PathErr");
        let error = [0, 12, 6, 1, 10, 0, 1, 2, 0, 14, class, 7];
        assert!(quotes(sent[0], object) && quotes(sent[0], &error), "{:x?}", sent[0]);
        assert_eq!(router.engine.population(), (0, 0, 0));
    }
    let flows = [flow(2)];
    for (class, object) in [(1, &session[..]), (10, &sender(10)[..])] {
        let mut router = router();
        router.receive(ETH1, Body::Path(crate::common::path()));
        let mut resv = resv(&flows);
        resv.hop.lih = router.engine.lih(ETH2);
        let octets = replace(&octets(Body::Resv(resv), 255), class, object);
        let here = router.interfaces.by_id(ETH2).expect("known").addresses[0];
        let outcomes = router.receive_octets(ETH2, here, 255, &octets);
        let sent = sent_octets(&outcomes);
        assert_eq!(sent.len(), 1, "class {class}");
        assert_eq!((sent[0][0], sent[0][1]), (0x10, 4), "a ResvErr");
        let error = [0, 14, class, 7];
        assert!(quotes(sent[0], object) && quotes(sent[0], &error), "{:x?}", sent[0]);
        assert_eq!(router.held(), Rate::ZERO);
    }
}

/// RFC 2205 section 3.10: an unknown class 0bbbbbbb causes an error to the sender of the message, 10bbbbbb is ignored,
/// and 11bbbbbb is stored, forwarded, and sent again with each refresh.
#[test]
fn unknown_objects_are_handled_by_class_bits() {
    let unknown = |class: u8| {
        let mut octets = octets(Body::Path(path()), 63);
        octets.extend_from_slice(&[0, 8, class, 9, 1, 2, 3, 4]);
        let length = octets.len() as u16;
        octets[6..8].copy_from_slice(&length.to_be_bytes());
        octets[2..4].copy_from_slice(&[0, 0]); // no checksum
        octets
    };
    let mut rejecting = router();
    let outcomes = rejecting.receive_octets(ETH1, ip(RECEIVER), 63, &unknown(0x7e));
    let expected = error("10.0.1.2", 0, ErrorCode::UnknownObjectClass, 0x7e09);
    assert_eq!(path_err(&outcomes), (ip(UPSTREAM), expected));
    assert_eq!(rejecting.engine.population(), (0, 0, 0));

    let mut ignoring = router();
    let outcomes = ignoring.receive_octets(ETH1, ip(RECEIVER), 63, &unknown(0xbe));
    let (_, message) = sent(&outcomes)[0];
    let Body::Path(passed) = message.body else { panic!("a Path") };
    assert_eq!(passed.carried.iter().count(), 0);

    let mut carrying = router();
    let outcomes = carrying.receive_octets(ETH1, ip(RECEIVER), 63, &unknown(0xfe));
    let again = carrying.pass(std::time::Duration::from_secs(46));
    for outcomes in [&outcomes, &again] {
        let (_, message) = sent(outcomes)[0];
        let Body::Path(passed) = message.body else { panic!("a Path") };
        let carried: Vec<_> = passed.carried.iter().map(|object| object.bytes.to_vec()).collect();
        assert_eq!(carried, [[0, 8, 0xfe, 9, 1, 2, 3, 4]]);
    }
    let refreshed = carrying.receive_octets(ETH1, ip(RECEIVER), 63, &unknown(0xfe));
    assert_eq!(refreshed, [], "the same object again is no news");
}

/// At a limit new work is refused, and existing state stays.
#[test]
fn limits_refuse_new_state_only() {
    let mut router = with_config(Config { max_sessions: 1, max_senders: 1, ..Config::default() });
    router.receive(ETH1, Body::Path(path()));
    let mut second_session = path();
    second_session.session.port = 9;
    let outcomes = router.receive(ETH1, Body::Path(second_session));
    assert_eq!(dropped(&outcomes), [DropReason::Limit]);
    let mut second_sender = path();
    second_sender.sender.template.selector = SourceSelector::Port(9);
    let outcomes = router.receive(ETH1, Body::Path(second_sender));
    assert_eq!(dropped(&outcomes), [DropReason::Limit]);
    assert_eq!(router.receive(ETH1, Body::Path(path())), []);
    assert_eq!(router.engine.population(), (1, 1, 0));
}

/// Invalid content in well-formed messages.
#[test]
fn invalid_messages_are_dropped_with_reason() {
    type Act<'a> = &'a dyn Fn(&mut Bench) -> Vec<Outcome>;
    let cases: [(&str, DropReason, Act<'_>); 8] = [
        ("R is zero", DropReason::ZeroRefreshPeriod, &|router| {
            router.receive(ETH1, Body::Path(earmark_wire::rsvp::Path { refresh_ms: 0, ..path() }))
        }),
        ("a hop that is this node", DropReason::BadHop, &|router| {
            let mut own = path();
            own.hop.address = ip("10.0.2.1");
            router.receive(ETH1, Body::Path(own))
        }),
        ("a hop that nobody can reach", DropReason::BadHop, &|router| {
            let mut nobody = path();
            nobody.hop.address = ip("127.0.0.1");
            router.receive(ETH1, Body::Path(nobody))
        }),
        ("no route", DropReason::NoRoute, &|router| {
            let mut lost = path();
            lost.session.destination = ip("192.0.2.1");
            router.receive(ETH1, Body::Path(lost))
        }),
        ("a handle never given out", DropReason::BadLih, &|router| {
            router.receive(ETH1, Body::Path(path()));
            let flows = [flow(2)];
            let mut request = resv(&flows);
            request.hop.lih = 4_711;
            router.receive(ETH2, Body::Resv(request))
        }),
        ("a tear of nothing", DropReason::NoState, &|router| {
            router.receive(ETH1, Body::PathTear(path_tear()))
        }),
        ("a tear of no reservation", DropReason::NoState, &|router| {
            router.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])))
        }),
        ("an error about nothing", DropReason::NoState, &|router| {
            router.receive(
                ETH2,
                Body::PathErr(PathErr {
                    session: session(),
                    error: error("10.0.9.1", 0, ErrorCode::TrafficControlError, 4),
                    carried: Carried::Objects(&[]),
                    sender: Some((template(), None)),
                }),
            )
        }),
    ];
    for (what, reason, act) in cases {
        let mut router = router();
        let outcomes = act(&mut router);
        assert_eq!(dropped(&outcomes), [reason], "{what}");
        assert_eq!(router.held(), Rate::ZERO, "{what}");
    }
}

/// A message to another node is forwarded unchanged (RFC 2209, MESSAGE ARRIVES).
#[test]
fn message_to_other_node_is_forwarded() {
    let mut router = router();
    let octets = octets(Body::Resv(resv(&[flow(2)])), 64);
    let outcomes = router.receive_octets(ETH2, ip("10.0.0.50"), 64, &octets);
    let [Outcome::Sent(how, passed)] = &outcomes[..] else { panic!("one message") };
    assert_eq!((how.destination, how.source, how.ttl), (ip("10.0.0.50"), ip(DOWNSTREAM), 63));
    assert_eq!(*passed, octets);
    let outcomes = router.receive_octets(ETH2, ip("10.0.0.50"), 1, &octets);
    assert_eq!(dropped(&outcomes), [DropReason::TtlExpired]);
}

/// An interface without RSVP is handled as by a router without RSVP.
#[test]
fn interface_without_rsvp_relays_messages() {
    let mut router = router();
    router.add_interface_with(ETH2, &["10.0.2.1"], Rate::ZERO);
    let sent_octets = octets(Body::Path(path()), 63);
    let outcomes = router.receive_octets(ETH1, ip(RECEIVER), 63, &sent_octets);
    let [Outcome::Sent(how, passed)] = &outcomes[..] else { panic!("one message: {outcomes:?}") };
    assert_eq!((how.source, how.destination), (ip(UPSTREAM), ip(RECEIVER)));
    assert!(how.router_alert);
    assert_eq!(*passed, sent_octets);
    assert_eq!(router.engine.population(), (0, 0, 0));
}
