//! Extent of a reservation as reported to its sender and receiver; and address translation, which a node behind it
//! detects.

use earmark_core::outcome::{
    Kind, Message as ReportedBy, NodeName, Outcome, OutcomeSource, Translation,
};
use earmark_core::{Datagram, Input};
use earmark_rsvp::{Application, Command, Event, ReserveRequest};
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, List, Path, ResvConf, RsvpHop,
    SenderDescriptor,
};

use crate::common::{
    Bench, DOWNSTREAM, ETH1, ETH2, RECEIVER, SENDER, UPSTREAM, events, flow, ip, octets, path,
    receiver, resv, sender, session, template, tspec,
};

const APPLICATION: Application = Application(1);

fn open() -> Command {
    Command::Session { application: APPLICATION, session: session() }
}

fn send() -> Command {
    Command::Sender { application: APPLICATION, template: template(), tspec: tspec(2), ttl: 64 }
}

/// Extent in the last upcall about the reservation.
fn reach(outcomes: &[crate::common::Outcome]) -> Outcome {
    let outcome = events(outcomes).into_iter().rev().find_map(|event| match event {
        Event::Resv { reach, .. } | Event::Confirmed { reach, .. } => Some(*reach),
        _ => None,
    });
    outcome.unwrap_or_else(|| panic!("{outcomes:?}"))
}

/// A sender whose reservation comes from this next hop.
fn requested_by(host: &mut Bench, next_hop: &str) -> Outcome {
    host.command(open());
    host.command(send());
    let flows = [flow(2)];
    let hop = RsvpHop { address: ip(next_hop), lih: ETH2.0 };
    reach(&host.receive(ETH2, Body::Resv(earmark_wire::rsvp::Resv { hop, ..resv(&flows) })))
}

#[test]
fn sender_knows_of_its_next_hop_and_no_more() {
    let outcome = requested_by(&mut sender(), DOWNSTREAM);
    let by = OutcomeSource {
        node: Some(NodeName::Address(ip(DOWNSTREAM))),
        message: ReportedBy::new("Resv"),
    };
    assert_eq!(
        (outcome.kind, outcome.by, outcome.from),
        (Kind::Unverified, Some(by), Some(ip(SENDER)))
    );
}

#[test]
fn receiver_that_is_the_next_hop_on_the_link_is_the_whole_path() {
    let mut host = sender();
    host.add_route("10.0.9.9/32", ETH2, None);
    let outcome = requested_by(&mut host, RECEIVER);
    assert_eq!((outcome.kind, outcome.to), (Kind::Whole, Some(ip(RECEIVER))));
}

/// The receiver answers, but routers without RSVP are on the route to it.
#[test]
fn next_hop_behind_routers_is_part_of_the_path() {
    let outcome = requested_by(&mut sender(), RECEIVER);
    assert_eq!((outcome.kind, outcome.hops_without), (Kind::OnlyHere, None), "all of them are");
    assert_eq!(requested_by(&mut sender(), "10.0.9.1").kind, Kind::Part);
}

/// A receiver whose Path has passed this number of nodes, and a confirmation from `node`.
fn confirmed_by(node: &str, hops: Option<u32>, broken: bool, ttls: (u8, u8)) -> Outcome {
    let adspec = hops.map(|hops| {
        let mut adspec = Adspec::for_sender();
        (adspec.general.hops, adspec.general.break_bit) = (hops, broken);
        let mut body = vec![0; adspec.buffer_len()];
        adspec.emit(&mut body).expect("it fits");
        body
    });
    let mut host = receiver();
    host.command(open());
    let sender = SenderDescriptor { adspec: adspec.as_deref(), ..path().sender };
    let (send_ttl, ttl) = ttls;
    let message = octets(Body::Path(Path { sender, ..path() }), send_ttl);
    host.receive_octets(ETH1, ip(RECEIVER), ttl, &message);
    let flow = flow(2);
    let request = ReserveRequest::FixedFilter {
        filter: template(),
        flowspec: flow.flowspec.expect("there is one"),
    };
    host.command(Command::Reserve { application: APPLICATION, request, confirm: true });
    let flows = [flow];
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec { node: ip(node), flags: 0, code: ErrorCode::Confirmation, value: 0 },
        confirm: ip(RECEIVER),
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    reach(&host.receive(ETH1, Body::ResvConf(confirmation)))
}

#[test]
fn confirmation_of_the_sender_over_counted_hops_is_the_whole_path() {
    let outcome = confirmed_by(SENDER, Some(3), false, (63, 63));
    let by = OutcomeSource {
        node: Some(NodeName::Address(ip(SENDER))),
        message: ReportedBy::new("ResvConf"),
    };
    assert_eq!((outcome.kind, outcome.by, outcome.nodes), (Kind::Whole, Some(by), Some(3)));
    assert_eq!((outcome.from, outcome.to), (Some(ip(SENDER)), Some(ip(RECEIVER))));
}

#[test]
fn receiver_sees_hops_without_rsvp() {
    let by_adspec = confirmed_by(SENDER, Some(1), true, (63, 63));
    assert_eq!((by_adspec.kind, by_adspec.nodes), (Kind::Part, Some(1)));
    let by_ttl = confirmed_by(SENDER, Some(1), false, (63, 61));
    assert_eq!(by_ttl.kind, Kind::Part, "the last hop");
}

#[test]
fn confirmation_of_merge_point_covers_part_of_path() {
    assert_eq!(confirmed_by(UPSTREAM, Some(3), false, (63, 63)).kind, Kind::Unverified);
    assert_eq!(confirmed_by(SENDER, None, false, (63, 63)).kind, Kind::Unverified, "no ADSPEC");
}

/// A Path with this IP source address.
fn path_from(host: &mut Bench, source: &str) -> Vec<Event> {
    let message = octets(Body::Path(path()), 63);
    let datagram = Datagram {
        interface: ETH1,
        source: ip(source),
        destination: ip(RECEIVER),
        ttl: 63,
        router_alert: true,
        encapsulated: false,
        payload: &message,
    };
    events(&host.handle(Input::Datagram(datagram)))
}

#[test]
fn address_translation_is_reported_once_for_each_sender() {
    let (named, seen) = (ip(SENDER), Some(ip("192.0.2.1")));
    let expected = |application| Event::Translated {
        application,
        session: session(),
        template: template(),
        translation: Translation { named, seen },
    };
    let mut host = receiver();
    host.command(open());
    let outcome = path_from(&mut host, "192.0.2.1");
    assert_eq!(outcome[0], expected(Some(APPLICATION)), "{outcome:?}");
    assert_eq!(path_from(&mut host, "192.0.2.1"), [], "a refresh is no news");
    assert_eq!(host.engine.counters().translated, 1);
    let nobody = path_from(&mut receiver(), "192.0.2.1");
    assert_eq!(nobody[0], expected(None), "{nobody:?}");
    // The sender itself, and a router that uses its own address.
    for source in [SENDER, UPSTREAM] {
        let outcome = path_from(&mut receiver(), source);
        assert!(
            !outcome.iter().any(|event| matches!(event, Event::Translated { .. })),
            "{outcome:?}"
        );
    }
}
