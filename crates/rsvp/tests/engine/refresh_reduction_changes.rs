//! Refresh reduction with shared styles, blockade state, and changing routes and interfaces. A summary refresh must
//! never refresh anything else than the messages of RFC 2205 would.

use std::net::IpAddr;

use earmark_core::{HostEvent, InterfaceId, MulticastRoute};
use earmark_rsvp::{Config, DropReason};
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FlowDescriptors, List,
    Message, MessageId, Path, PathErr, PathTear, Resv, ResvErr, ResvTear, RsvpHop, SourceSelector,
};

use crate::common::*;
use crate::message_ids::*;

fn sender(port: u16) -> FilterSpec {
    FilterSpec { selector: SourceSelector::Port(port), ..template() }
}

fn path_of(port: u16) -> Path<'static> {
    let mut path = path();
    path.sender.template = sender(port);
    path
}

/// Resv of the downstream neighbour in the shared-explicit style.
fn shared<'f>(router: &Bench, mbps: u32, filters: &'f [FilterSpec]) -> Resv<'f> {
    let flows = FlowDescriptors::SharedExplicit(Some(flowspec(mbps)), List::Items(filters));
    let hop = RsvpHop { address: ip(DOWNSTREAM), lih: router.engine.lih(ETH2) };
    Resv { hop, flows, ..resv(&[]) }
}

/// A router with two senders that share a reservation, which upstream has acknowledged; and the MESSAGE_ID of the Resv.
fn sharing() -> (Bench, MessageId) {
    let mut router = router();
    receive_path_with_id(&mut router, path_of(1), message_id(1));
    receive_path_with_id(&mut router, path_of(2), message_id(2));
    let filters = [sender(1), sender(2)];
    let resv = shared(&router, 2, &filters);
    let outcomes =
        receive(&mut router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(100))));
    let name = resv_id(&outcomes).expect("upstream takes part");
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Ack, name)]);
    router.pass(20 * MS);
    (router, name)
}

/// MESSAGE_ID of the only sent Resv.
fn resv_id(outcomes: &[Outcome]) -> Option<MessageId> {
    let sent = sent(outcomes);
    let resvs: Vec<_> = sent.iter().filter(|(_, m)| matches!(m.body, Body::Resv(_))).collect();
    assert_eq!(resvs.len(), 1);
    resvs[0].1.message_id
}

fn resvs(outcomes: &[Outcome]) -> usize {
    sent(outcomes).iter().filter(|(_, m)| matches!(m.body, Body::Resv(_))).count()
}

/// A shared reservation has one MESSAGE_ID in each direction, and no refresh messages.
#[test]
fn shared_reservation_is_in_summary_refresh() {
    let (mut router, name) = sharing();
    let mut named_to_upstream = 0;
    for _ in 0..10 {
        summary(&mut router, ETH1, &[1, 2]);
        summary(&mut router, ETH2, &[100]);
        let outcomes = router.pass(30 * SECOND);
        assert_eq!(resvs(&outcomes), 0);
        named_to_upstream += summary_ids(&outcomes).iter().filter(|&&id| id == name.id).count();
    }
    assert_eq!(router.engine.population(), (1, 2, 1));
    assert!((9..=13).contains(&named_to_upstream), "{named_to_upstream}");
    router.pass(158 * SECOND);
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// A NACK from upstream causes the whole request to be sent; a request with more senders has a new MESSAGE_ID.
#[test]
fn changed_shared_request_has_new_message_id() {
    let (mut router, name) = sharing();
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Nack, name)]);
    assert_eq!(resv_id(&router.pass(MS)), Some(name));
    let filters = [sender(1), sender(2)];
    let more = shared(&router, 3, &filters);
    let outcomes =
        receive(&mut router, ETH2, &capable_message(Body::Resv(more), Some(message_id(101))));
    assert!(resv_id(&outcomes).expect("upstream takes part").id > name.id);
    // Overtaken.
    let less = shared(&router, 2, &filters);
    receive(&mut router, ETH2, &capable_message(Body::Resv(less), Some(message_id(100))));
    assert_eq!(router.engine.reservations().next().expect("it stands").flowspec, flowspec(3));
    let hop = RsvpHop { address: ip(DOWNSTREAM), lih: router.engine.lih(ETH2) };
    let tear = ResvTear { hop, flows: less_flows(&filters), ..resv_tear(&[]) };
    receive(&mut router, ETH2, &capable_message(Body::ResvTear(tear), Some(message_id(99))));
    assert_eq!(router.engine.population(), (1, 2, 1));
}

fn less_flows(filters: &[FilterSpec]) -> FlowDescriptors<'_> {
    FlowDescriptors::SharedExplicit(Some(flowspec(2)), List::Items(filters))
}

/// A request that lists fewer senders than the state has cannot be refreshed by its MESSAGE_ID, which would be ambiguous.
#[test]
fn request_for_some_senders_has_no_message_id() {
    for filters in [&[sender(1)][..], &[sender(1), sender(3)]] {
        let (mut router, _) = sharing();
        let resv = shared(&router, 2, filters);
        receive(&mut router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(101))));
        router.pass(20 * MS);
        summary(&mut router, ETH2, &[101]);
        let nack = acknowledgement(AcknowledgementKind::Nack, message_id(101));
        assert_eq!(acknowledged(&router.pass(10 * MS)), [nack]);
    }
}

/// A sender ends without a message to the next hop. The remaining request differs from the next hop's, so its
/// identifier gets a NACK, and the whole request restores the sender when that returns.
#[test]
fn request_that_lost_sender_has_no_message_id() {
    let (mut router, _) = sharing();
    let tear = PathTear { template: sender(2), ..path_tear() };
    receive(&mut router, ETH1, &capable_message(Body::PathTear(tear), None));
    assert_eq!(router.engine.population(), (1, 1, 1));
    summary(&mut router, ETH2, &[100]);
    let nack = acknowledgement(AcknowledgementKind::Nack, message_id(100));
    assert_eq!(acknowledged(&router.pass(10 * MS)), [nack]);
}

/// A sender with a new previous hop must not be kept alive at the old one by its former MESSAGE_ID.
#[test]
fn sender_with_new_previous_hop_is_not_refreshed_at_old_one() {
    let (mut router, name) = sharing();
    let mut moved = path_of(2);
    moved.hop.address = ip("10.0.1.9");
    receive(&mut router, ETH1, &capable_message(Body::Path(moved), Some(message_id(7))));
    let mut resv_count = 0;
    for _ in 0..4 {
        summary(&mut router, ETH1, &[1]);
        summary(&mut router, ETH2, &[100]);
        let outcomes = router.pass(15 * SECOND);
        assert!(!summary_ids(&outcomes).contains(&name.id));
        resv_count += resvs(&outcomes);
    }
    assert!(resv_count >= 1, "what is left is asked for by whole messages");
}

/// A blocked request is sent again when its blockade ends, so it cannot be in summary refreshes.
#[test]
fn blocked_request_is_sent_again_after_blockade() {
    let (mut router, _, resv) = acknowledged_router();
    let mut failed = None;
    let flows = [flow(2)];
    let error = ResvErr {
        session: session(),
        hop: RsvpHop { address: ip(UPSTREAM), lih: 0 },
        error: ErrorSpec {
            node: ip(UPSTREAM),
            flags: 0,
            code: ErrorCode::AdmissionControlFailure,
            value: 2,
        },
        scope: None,
        carried: Carried::NONE,
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    receive(&mut router, ETH1, &capable_message(Body::ResvErr(error), None));
    for _ in 0..12 {
        summary(&mut router, ETH1, &[2]);
        summary(&mut router, ETH2, &[100]);
        let outcomes = router.pass(15 * SECOND);
        assert!(!summary_ids(&outcomes).contains(&resv.id));
        if resvs(&outcomes) > 0 {
            failed = sent(&outcomes).iter().find_map(|(_, m)| match m.body {
                Body::Resv(_) => Some(m.message_id),
                _ => None,
            });
        }
    }
    let last = failed.expect("plain refreshes go on").expect("the blockade is over");
    assert!(last.id > resv.id);
}

/// A reservation on an old path may end before that path does, by ResvTear or timeout. Its MESSAGE_ID ends with it, or
/// summary refreshes would keep it alive upstream forever.
#[test]
fn ended_reservation_on_old_path_has_no_message_id() {
    for torn in [true, false] {
        let (mut router, _, name) = acknowledged_router();
        let mut alive = |seconds| {
            summary(&mut router, ETH1, &[2]);
            router.pass(seconds * SECOND)
        };
        if !torn {
            // The request expires after 157.5 s.
            (0..5).for_each(|_| assert!(summary_ids(&alive(30)).contains(&name.id)));
            alive(4);
        }
        router.add_interface(ETH3, "10.0.3.1");
        router.add_route("10.0.9.9/32", ETH3, Some("10.0.3.2"));
        router.host(HostEvent::RouteChanged("10.0.9.9/32".parse().expect("a prefix")));
        router.pass(2 * SECOND);
        let flows = [flow(2)];
        let hop = RsvpHop { address: ip(DOWNSTREAM), lih: router.engine.lih(ETH2) };
        let tear = Body::ResvTear(ResvTear { hop, ..resv_tear(&flows) });
        if torn {
            receive(&mut router, ETH2, &capable_message(tear, Some(message_id(101))));
            assert_eq!(router.engine.population(), (1, 1, 0));
        }
        let end = router.pass(3 * SECOND);
        let is_tear = |(_, message): &(_, Message<'_>)| matches!(message.body, Body::ResvTear(_));
        assert!(sent(&end).iter().any(is_tear), "torn: {torn}");
        assert_eq!(router.engine.population(), (1, 1, 0));
        assert!(summary_ids(&router.pass(60 * SECOND)).is_empty());
    }
}

/// A new next hop on the same link gets the Path, and the old one nothing.
#[test]
fn new_next_hop_on_same_interface_gets_path() {
    let (mut router, path, _) = acknowledged_router();
    router.add_route("10.0.9.9/32", ETH2, Some("10.0.2.3"));
    router.host(HostEvent::RouteChanged("10.0.9.9/32".parse().expect("a prefix")));
    let outcomes = router.pass(5 * SECOND);
    assert_eq!(path_id(&outcomes), None, "the new one has not shown that it takes part");
    let mut refreshes = 0;
    for _ in 0..4 {
        summary(&mut router, ETH1, &[2]);
        let outcomes = router.pass(30 * SECOND);
        assert!(!summary_ids(&outcomes).contains(&path.id));
        let sent = sent(&outcomes);
        refreshes += sent.iter().filter(|(_, m)| matches!(m.body, Body::Path(_))).count();
    }
    assert!((2..=8).contains(&refreshes), "{refreshes} plain refreshes");
}

/// An interface that loses its address again before all state has been sent after its return. What could not be sent is
/// neither in summary refreshes nor lost: refresh messages follow.
#[test]
fn state_is_refreshed_after_interrupted_resend() {
    for (interface, is_shared) in [(ETH1, false), (ETH1, true), (ETH2, false)] {
        let mut router = if is_shared { sharing().0 } else { acknowledged_router().0 };
        let mut set = |addresses: &[IpAddr]| {
            change(&mut router, interface, |interface| interface.addresses = addresses.to_vec());
        };
        let address = ip(if interface == ETH1 { "10.0.1.1" } else { "10.0.2.1" });
        [&[][..], &[address], &[]].into_iter().for_each(&mut set);
        router.pass(20 * MS);
        change(&mut router, interface, |interface| interface.addresses = vec![address]);
        summary(&mut router, ETH1, if is_shared { &[1, 2] } else { &[2] });
        summary(&mut router, ETH2, &[100]);
        let outcomes = router.pass(45 * SECOND);
        let sent = sent(&outcomes);
        let is_refresh = |message: &Message<'_>| match message.body {
            Body::Path(_) => interface == ETH2,
            Body::Resv(_) => interface == ETH1,
            _ => false,
        };
        assert!(sent.iter().any(|(_, message)| is_refresh(message)), "{interface:?} {is_shared}");
    }
}

/// The upstream neighbour restarts while the data leaves its interface, and returns to it. The request that stayed
/// upstream meanwhile is sent when the change is over.
#[test]
fn request_kept_over_a_route_change_is_sent_after_it() {
    let (mut router, _, resv) = acknowledged_router();
    let route = |router: &mut Bench, interface, next_hop| {
        router.add_route("10.0.9.9/32", interface, Some(next_hop));
        router.host(HostEvent::RouteChanged("10.0.9.9/32".parse().expect("a prefix")));
        router.pass(2_100 * MS)
    };
    router.add_interface(ETH3, "10.0.3.1");
    route(&mut router, ETH3, "10.0.3.2");
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Nack, resv)]);
    assert_eq!(resvs(&router.pass(20 * MS)), 0, "nothing is requested behind the new interface");
    let mut outcomes = route(&mut router, ETH2, DOWNSTREAM);
    outcomes.extend(router.pass(3 * SECOND));
    assert_eq!(resvs(&outcomes), 1);
    assert_eq!(router.engine.population(), (1, 1, 1));
}

/// A changed TTL or ADSPEC would be sent with the next refresh; state without refresh messages is sent at once.
#[test]
fn small_change_of_listed_state_is_sent_at_once() {
    let (mut router, path, _) = acknowledged_router();
    let octets = bytes(&capable_message(Body::Path(other_path()), Some(message_id(3))));
    let outcomes = router.receive_octets(ETH1, session().destination, 63, &octets);
    assert!(path_id(&outcomes).expect("it takes part").id > path.id);
}

/// State in summary refreshes has no refresh message that changed objects could wait for. The previous hop that they
/// concern gets them at once, even if the objects of all requests together are the same; the other one gets nothing.
#[test]
fn changed_objects_are_sent_to_concerned_hop_at_once() {
    const SECOND_HOP: &str = "10.0.1.9";
    let mut router = router();
    receive_path_with_id(&mut router, path_of(1), message_id(1));
    let mut second = path_of(2);
    second.hop.address = ip(SECOND_HOP);
    receive_path_with_id(&mut router, second, message_id(2));
    let object = [0, 8, 0xfe, 9, 1, 2, 3, 4];
    let mut asks = |next_hop, port, objects: &[u8], id| {
        let filters = [sender(port)];
        let resv = shared(&router, 2, &filters);
        let hop = RsvpHop { address: ip(next_hop), ..resv.hop };
        let resv = Resv { hop, carried: Carried::Objects(objects), ..resv };
        let outcomes =
            receive(&mut router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(id))));
        sent(&outcomes).iter().map(|(how, _)| how.destination.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(asks(DOWNSTREAM, 1, &object, 100), [UPSTREAM]);
    assert_eq!(asks("10.0.2.3", 2, &object, 101), [SECOND_HOP]);
    assert_eq!(asks("10.0.2.3", 2, &[], 102), [SECOND_HOP]);
}

/// An error is sent again until its acknowledgement arrives (RFC 2961 section 6). A node forwards it once: otherwise each
/// lost acknowledgement would multiply the copies at each further node. Each copy is acknowledged.
#[test]
fn repeated_errors_are_forwarded_once() {
    let mut router = router();
    introduce(&mut router);
    receive_path_with_id(&mut router, path(), message_id(1));
    receive_resv_with_id(&mut router, 2, Some(message_id(1)));
    let error = ErrorSpec {
        node: ip("10.0.0.254"),
        flags: 0,
        code: ErrorCode::AdmissionControlFailure,
        value: 2,
    };
    let sender = Some((template(), Some(tspec(2))));
    let path_err = PathErr { session: session(), error, carried: Carried::NONE, sender };
    let flows = [flow(2)];
    let resv_err = ResvErr {
        session: session(),
        hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
        error,
        scope: None,
        carried: Carried::NONE,
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    let cases = [(ETH2, Body::PathErr(path_err)), (ETH1, Body::ResvErr(resv_err))];
    for (interface, body) in cases {
        let kind = body.message_type();
        let mut forwarded = |epoch, id| {
            let id = MessageId { epoch, ..message_id(id) };
            let outcomes = receive(&mut router, interface, &capable_message(body, Some(id)));
            let errors =
                sent(&outcomes).into_iter().map(|(_, message)| message.body.message_type());
            errors.filter(|sent| *sent == kind).count()
        };
        assert_eq!(forwarded(EPOCH, 5), 1, "{kind:?}");
        assert_eq!(forwarded(EPOCH, 5), 0, "{kind:?} again");
        assert_eq!(forwarded(EPOCH, 7), 1, "{kind:?}");
        assert_eq!(forwarded(EPOCH, 6), 1, "overtaken, but new");
        assert_eq!(forwarded(EPOCH, 6), 0, "{kind:?} again");
        assert_eq!(forwarded(EPOCH + 1, 6), 1, "of the next epoch");
        let last = MessageId { epoch: EPOCH + 1, ..message_id(6) };
        let acknowledged = acknowledged(&router.pass(10 * MS));
        assert!(acknowledged.contains(&acknowledgement(AcknowledgementKind::Ack, last)));
        let again = acknowledgement(AcknowledgementKind::Ack, message_id(5));
        assert_eq!(acknowledged.iter().filter(|ack| **ack == again).count(), 2, "each copy");
    }
    assert_eq!(router.engine.counters().dropped[DropReason::Repeated as usize], 4);
}

/// A Resv that names senders of which some are unknown here can be refreshed by its MESSAGE_ID like any other. When one of them
/// is announced, the next summary refresh makes the next hop send the Resv whole.
#[test]
fn request_with_unknown_senders_is_refreshed_by_summaries() {
    let mut router = router();
    introduce(&mut router);
    receive_path_with_id(&mut router, path_of(1), message_id(1));
    let filters = [sender(1), sender(2)];
    let whole = shared(&router, 2, &filters);
    let whole = capable_message(Body::Resv(whole), Some(message_id(100)));
    receive(&mut router, ETH2, &whole);
    let nack = [acknowledgement(AcknowledgementKind::Nack, message_id(100))];
    for _ in 0..20 {
        router.pass(20 * SECOND);
        summary(&mut router, ETH1, &[1]);
        summary(&mut router, ETH2, &[100]);
        assert_eq!(acknowledged(&router.pass(20 * MS)), []);
        assert_eq!(router.engine.population(), (1, 1, 1));
    }
    // A sender that the Resv does not name changes nothing but the next round.
    receive_path_with_id(&mut router, path_of(2), message_id(2));
    router.pass(SECOND);
    summary(&mut router, ETH2, &[100]);
    assert_eq!(acknowledged(&router.pass(20 * MS)), nack, "the new sender is named");
    receive(&mut router, ETH2, &whole);
    router.pass(SECOND);
    summary(&mut router, ETH2, &[100]);
    assert_eq!(acknowledged(&router.pass(20 * MS)), []);
    let named =
        router.engine.reservations().map(|reservation| reservation.filters.as_slice().len());
    assert_eq!(named.collect::<Vec<_>>(), [2]);
}

/// The data of a named sender may not pass the interface yet. When they do, the next summary refresh makes the next hop send
/// the Resv whole, as for a new sender.
#[test]
fn request_is_sent_whole_when_data_of_named_sender_pass_its_interface() {
    let group = ip("239.1.2.3");
    let mut router = router();
    introduce(&mut router);
    let sources = [ip("10.0.0.1"), ip("10.0.0.2")];
    let filters = sources.map(|source| FilterSpec { source, ..template() });
    let route = |router: &mut Bench, source: usize, outgoing: Vec<InterfaceId>| {
        let (source, incoming) = (Some(sources[source]), Some(ETH1));
        router.routes.insert_multicast(MulticastRoute { source, group, incoming, outgoing });
    };
    route(&mut router, 0, vec![ETH2]);
    route(&mut router, 1, vec![]);
    for (id, filter) in (1..).zip(filters) {
        let mut path = path();
        (path.session.destination, path.sender.template) = (group, filter);
        receive_path_with_id(&mut router, path, message_id(id));
    }
    let mut whole = shared(&router, 2, &filters);
    whole.session.destination = group;
    let whole = capable_message(Body::Resv(whole), Some(message_id(100)));
    receive(&mut router, ETH2, &whole);
    router.pass(SECOND);
    summary(&mut router, ETH2, &[100]);
    assert_eq!(acknowledged(&router.pass(20 * MS)), [], "one sender is reserved for");
    route(&mut router, 1, vec![ETH2]);
    router.host(HostEvent::MulticastRouteChanged { source: Some(sources[1]), group });
    router.pass(3 * SECOND);
    summary(&mut router, ETH2, &[100]);
    let nack = [acknowledgement(AcknowledgementKind::Nack, message_id(100))];
    assert_eq!(acknowledged(&router.pass(20 * MS)), nack);
    receive(&mut router, ETH2, &whole);
    let named = router.engine.reservations().map(|row| row.filters.as_slice().len());
    assert_eq!(named.collect::<Vec<_>>(), [2]);
}

/// The limit of lifetimes binds state that summaries refresh, whatever refresh period its messages have announced.
#[test]
fn limit_of_lifetimes_binds_summaries() {
    let max_lifetime = 100 * SECOND;
    let mut router = with_config(Config { max_lifetime, ..Config::default() });
    let announced = Path { refresh_ms: u32::MAX, ..path() };
    receive_path_with_id(&mut router, announced, message_id(1));
    let flows = [flow(2)];
    let mut resv = Resv { refresh_ms: u32::MAX, ..resv(&flows) };
    resv.hop.lih = router.engine.lih(ETH2);
    receive(&mut router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(100))));
    for _ in 0..5 {
        router.pass(90 * SECOND);
        summary(&mut router, ETH1, &[1]);
        summary(&mut router, ETH2, &[100]);
        assert_eq!(router.engine.population(), (1, 1, 1));
    }
    router.pass(90 * SECOND);
    summary(&mut router, ETH1, &[1]);
    router.pass(11 * SECOND);
    assert_eq!(router.engine.population(), (1, 1, 0), "the reservation was not refreshed");
    router.pass(90 * SECOND);
    assert_eq!(router.engine.population(), (0, 0, 0));
}
