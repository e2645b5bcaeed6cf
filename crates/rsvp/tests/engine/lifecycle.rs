//! Life cycle of a reservation on a router: Path, Resv, refreshes, teardown and timeout.

use std::time::Duration;

use earmark_core::admission::Service;
use earmark_core::{HostEvent, Rate};
use earmark_rsvp::{Change, Event};
use earmark_wire::intserv::{Adspec, FlowSpec, Rspec};
use earmark_wire::rsvp::{
    Body, FixedFilterFlow, FlowDescriptors, Path, RsvpHop, SenderDescriptor, Session,
    SourceSelector,
};

use crate::common::*;

/// RFC 2205 section 3.1.3: the Path is forwarded to the destination with the sender's address as its source, a router
/// alert, a smaller TTL, and this node as its previous hop.
#[test]
fn path_is_forwarded() {
    let mut router = router();
    let outcomes = router.receive(ETH1, Body::Path(path()));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert_eq!(how.protocol, 46);
    assert_eq!(how.interface, Some(ETH2));
    assert_eq!((how.source, how.destination), (ip(SENDER), ip(RECEIVER)));
    assert_eq!((how.ttl, message.send_ttl), (62, 62));
    assert!(how.router_alert);
    let hop = RsvpHop { address: ip("10.0.2.1"), lih: router.engine.lih(ETH2) };
    let expected = Path { hop, ..path() };
    assert_eq!(message.body, Body::Path(expected));
    let created =
        Event::PathState { change: Change::Created, session: session(), template: template() };
    assert_eq!(events(&outcomes), [created]);
}

/// RFC 2205 section 3.1.4 and RFC 2209: the reservation is made on the outgoing interface of the Path, and requested
/// from the previous hop with that hop's own LIH.
#[test]
fn resv_reserves_and_is_forwarded() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));

    let installed = outcomes.iter().find_map(|o| match o {
        Outcome::Installed(installation) => Some(*installation),
        _ => None,
    });
    let installed = installed.expect("traffic control gets it");
    assert_eq!(installed.interface, ETH2);
    assert_eq!(installed.flow.destination, ip(RECEIVER));
    assert_eq!(installed.flow.source, Some(ip(SENDER)));
    assert_eq!((installed.flow.source_port, installed.flow.destination_port), (4000, 5004));
    assert_eq!(installed.demand.rate, Rate::from_mbps(2));
    assert_eq!(installed.demand.service, Service::ControlledLoad);
    assert_eq!(router.held(), Rate::from_mbps(2));

    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert_eq!((how.source, how.destination), (ip("10.0.1.2"), ip(UPSTREAM)));
    assert!(!how.router_alert);
    let Body::Resv(upstream) = &message.body else { panic!("a Resv, not {message:?}") };
    assert_eq!(upstream.hop, RsvpHop { address: ip("10.0.1.2"), lih: 77 });
    assert_eq!(upstream.refresh_ms, 30_000);
    let FlowDescriptors::FixedFilter(flows) = upstream.flows else { panic!("fixed filter") };
    assert_eq!(flows.iter().collect::<Vec<_>>(), [flow(2)]);
}

/// A refresh without changes has no effect, neither on the network nor on traffic control.
#[test]
fn refresh_without_changes_has_no_effect() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(router.receive(ETH1, Body::Path(path())), []);
    assert_eq!(router.receive(ETH2, Body::Resv(resv(&[flow(2)]))), []);
    assert_eq!(router.engine.counters().received[..2], [2, 2]);
}

/// RFC 2205 section 3.7: refreshes are sent at intervals in [0.5 R, 1.5 R], independently for Path and Resv, as long as
/// the neighbours refresh too.
#[test]
fn refresh_intervals_are_random_within_bounds() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let (mut paths, mut resvs) = (vec![router.now], vec![router.now]);
    for second in 0..3_000 {
        if second % 30 == 0 {
            router.receive(ETH1, Body::Path(path()));
            router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
        }
        let outcomes = router.pass(Duration::from_secs(1));
        for (_, message) in sent(&outcomes) {
            match message.body {
                Body::Path(_) => paths.push(router.now),
                Body::Resv(_) => resvs.push(router.now),
                other => panic!("nothing but refreshes, not {other:?}"),
            }
        }
    }
    for times in [&paths, &resvs] {
        let gaps: Vec<f64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        assert!((80..125).contains(&gaps.len()), "about 100 refreshes in 3000 s: {}", gaps.len());
        assert!(gaps.iter().all(|gap| (14.0..=46.0).contains(gap)), "{gaps:?}");
        let (min, max) = gaps.iter().fold((99.0f64, 0.0f64), |(a, b), &g| (a.min(g), b.max(g)));
        assert!(min < 20.0 && max > 40.0, "spread over the range: {min} to {max}");
    }
    assert_ne!(paths, resvs);
}

/// A sender expires L = (K + 0.5) * 1.5 * R = 157.5 s after its last refresh, and next hops get a PathTear.
#[test]
fn unrefreshed_sender_expires() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.pass(Duration::from_millis(157_499));
    assert!(sent(&outcomes).iter().all(|(_, m)| matches!(m.body, Body::Path(_))));
    assert_eq!(router.engine.population(), (1, 1, 0));
    let outcomes = router.pass(Duration::from_millis(2));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert!(matches!(message.body, Body::PathTear(_)));
    assert_eq!((how.source, how.destination), (ip(SENDER), ip(RECEIVER)));
    assert!(how.router_alert);
    let expired =
        Event::PathState { change: Change::Expired, session: session(), template: template() };
    assert_eq!(events(&outcomes), [expired]);
    assert_eq!(router.engine.population(), (0, 0, 0));
    assert_eq!(router.pass(Duration::from_secs(1_000)), [], "nothing is left to do");
}

/// A reservation without refreshes is released and torn upstream; the sender stays.
#[test]
fn unrefreshed_reservation_expires() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let mut outcomes = Vec::new();
    for _ in 0..6 {
        router.receive(ETH1, Body::Path(path()));
        outcomes = router.pass(Duration::from_secs(30));
    }
    let torn =
        sent(&outcomes).into_iter().find(|(_, message)| matches!(message.body, Body::ResvTear(_)));
    let (how, _) = torn.expect("a ResvTear goes upstream");
    assert_eq!(how.destination, ip(UPSTREAM));
    assert!(outcomes.iter().any(|o| matches!(o, Outcome::Removed(_))));
    assert_eq!(router.held(), Rate::ZERO);
    assert_eq!(router.engine.population(), (1, 1, 0));
}

/// RFC 2205 section 3.1.5: a PathTear follows the Path and removes reservations, without a message upstream.
#[test]
fn path_tear_removes_sender_and_reservation() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let outcomes = router.receive(ETH1, Body::PathTear(path_tear()));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert!(matches!(message.body, Body::PathTear(_)));
    assert_eq!((how.interface, how.destination), (Some(ETH2), ip(RECEIVER)));
    assert_eq!(router.held(), Rate::ZERO);
    assert_eq!(router.engine.population(), (0, 0, 0));
    assert_eq!(router.pass(Duration::from_secs(1_000)), []);
}

/// RFC 2205 section 3.1.5: a former previous hop cannot tear the sender.
#[test]
fn path_tear_of_old_hop_is_ignored() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let mut tear = path_tear();
    tear.hop.address = ip("10.0.1.99");
    let outcomes = router.receive(ETH1, Body::PathTear(tear));
    assert_eq!(sent(&outcomes), []);
    assert_eq!(router.engine.population(), (1, 1, 0));
}

/// RFC 2205 section 3.1.6: a ResvTear releases the reservation and is forwarded upstream; the sender stays.
#[test]
fn resv_tear_removes_reservation() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let outcomes = router.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    let Body::ResvTear(tear) = &message.body else { panic!("a ResvTear") };
    assert_eq!(how.destination, ip(UPSTREAM));
    assert_eq!(tear.hop, RsvpHop { address: ip("10.0.1.2"), lih: 77 });
    assert!(outcomes.iter().any(|o| matches!(o, Outcome::Removed(_))));
    assert_eq!(router.held(), Rate::ZERO);
    assert_eq!(router.engine.population(), (1, 1, 0));
}

/// FLOWSPECs may be omitted from a ResvTear.
#[test]
fn resv_tear_without_flowspec_is_accepted() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let bare = FixedFilterFlow { flowspec: None, ..flow(2) };
    router.receive(ETH2, Body::ResvTear(resv_tear(&[bare])));
    assert_eq!(router.held(), Rate::ZERO);
}

/// A changed request changes the ledger, traffic control and the request upstream.
#[test]
fn changed_request_changes_reservation() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    for mbps in [5, 1] {
        let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(mbps)])));
        assert_eq!(router.held(), Rate::from_mbps(u64::from(mbps)));
        let changed = outcomes.iter().any(|o| {
            matches!(o, Outcome::Installed(i) if i.demand.rate == Rate::from_mbps(u64::from(mbps)))
        });
        assert!(changed, "traffic control changes to {mbps}: {outcomes:?}");
        assert_eq!(sent(&outcomes).len(), 1);
    }
    assert_eq!(router.engine.population(), (1, 1, 1));
}

/// Guaranteed service holds the reserved rate R, not the token rate.
#[test]
fn guaranteed_service_holds_the_reserved_rate() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let rspec = Rspec { rate: 375_000.0, slack_us: 0 };
    let flow = FixedFilterFlow { flowspec: Some(FlowSpec::Guaranteed(tspec(2), rspec)), ..flow(2) };
    router.receive(ETH2, Body::Resv(resv(&[flow])));
    assert_eq!(router.held(), Rate::from_mbps(3));
}

/// Two next hops behind one link (after a route change downstream): the larger request counts, and the remaining one
/// after one of them ends.
#[test]
fn requests_of_two_next_hops_are_merged() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let flows = [flow(3)];
    let mut other = resv(&flows);
    other.hop.address = ip("10.0.2.3");
    router.receive(ETH2, Body::Resv(other));
    assert_eq!(router.held(), Rate::from_mbps(3));
    assert_eq!(router.engine.population(), (1, 1, 2));

    let mut tear = resv_tear(&flows);
    tear.hop.address = ip("10.0.2.3");
    let outcomes = router.receive(ETH2, Body::ResvTear(tear));
    assert_eq!(router.held(), Rate::from_mbps(2));
    let sent = sent(&outcomes);
    let [(_, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert!(matches!(message.body, Body::Resv(_)), "a smaller Resv, not a tear: {message:?}");
}

/// RFC 2205 section 3.1.3 and RFC 2209: a changed Tspec or previous hop is forwarded downstream at once; a changed hop
/// also causes a Resv to the new hop.
#[test]
fn changed_path_is_forwarded_at_once() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let mut changed = path();
    changed.sender.tspec = tspec(3);
    let outcomes = router.receive(ETH1, Body::Path(changed));
    let kinds: Vec<_> = sent(&outcomes).iter().map(|(_, m)| m.body.message_type().name()).collect();
    assert_eq!(kinds, ["Path"]);

    let mut moved = changed;
    moved.hop.address = ip("10.0.1.3");
    let outcomes = router.receive(ETH1, Body::Path(moved));
    let sent = sent(&outcomes);
    let to: Vec<_> =
        sent.iter().map(|(how, m)| (m.body.message_type().name(), how.destination)).collect();
    assert_eq!(to, [("Path", ip(RECEIVER)), ("Resv", ip("10.0.1.3"))]);
}

/// When the route changes, the next Path is sent on the new path, and the reservation on the old one is no longer
/// requested upstream.
#[test]
fn path_after_route_change_uses_new_path() {
    let mut router = router();
    router.add_interface(earmark_core::InterfaceId(3), "10.0.3.1");
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    router.add_route("10.0.9.9/32", earmark_core::InterfaceId(3), Some("10.0.3.2"));
    router.host(HostEvent::RouteChanged("10.0.9.9/32".parse().expect("a prefix")));
    let outcomes = router.receive(ETH1, Body::Path(path()));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    assert_eq!(how.interface, Some(earmark_core::InterfaceId(3)));
    let Body::Path(path) = &message.body else { panic!("a Path") };
    assert_eq!(path.hop.address, ip("10.0.3.1"));
}

/// RFC 2210 and 2215: each hop counts itself and writes the worst of path and link into the ADSPEC.
#[test]
fn adspec_is_updated_at_each_hop() {
    let mut router = router();
    let body = adspec();
    let mut advertised = path();
    advertised.sender.adspec = Some(&body);
    let outcomes = router.receive(ETH1, Body::Path(advertised));
    let sent = sent(&outcomes);
    let Body::Path(Path { sender: SenderDescriptor { adspec: Some(body), .. }, .. }) =
        sent[0].1.body
    else {
        panic!("a Path with an ADSPEC")
    };
    let adspec = Adspec::parse(body).expect("it can be read");
    assert_eq!(adspec.general.hops, 1);
    assert_eq!(adspec.general.bandwidth, 937_500.0);
    assert_eq!(adspec.general.latency_us, 100);
    assert_eq!(adspec.general.mtu, 1500);
    assert!(!adspec.general.break_bit);
    let guaranteed = adspec.guaranteed.expect("offered").terms.expect("with its terms");
    // One packet at the reserved rate, and one at the link's: 1500 * 8 / 10 Mbit/s.
    assert_eq!((guaranteed.c_total, guaranteed.d_total), (1500, 1200));
    assert!(!adspec.controlled_load.expect("offered").break_bit);
}

/// RFC 2205 section 3.8: different TTLs show a hop without RSVP, and the ADSPEC has the break bit from there on.
#[test]
fn hop_without_rsvp_sets_break_bit() {
    let mut router = router();
    let body = adspec();
    let mut advertised = path();
    advertised.sender.adspec = Some(&body);
    let octets = octets(Body::Path(advertised), 63);
    let outcomes = router.receive_octets(ETH1, ip(RECEIVER), 61, &octets);
    let sent = sent(&outcomes);
    let Body::Path(path) = &sent[0].1.body else { panic!("a Path") };
    let adspec = Adspec::parse(path.sender.adspec.expect("it is there")).expect("readable");
    assert!(adspec.general.break_bit);
}

/// A router can have IPv6 sessions as well: formats and state are the same.
#[test]
fn ipv6_session_is_reserved() {
    let mut router = router();
    router.add_interface_with(ETH1, &["10.0.1.2", "2001:db8:1::2"], Rate::from_mbps(10));
    router.add_interface_with(ETH2, &["10.0.2.1", "2001:db8:2::1"], Rate::from_mbps(10));
    router.add_route("2001:db8:9::/48", ETH2, Some("2001:db8:2::2"));
    let session = Session { destination: ip("2001:db8:9::9"), ..session() };
    let mut v6 = path();
    v6.session = session;
    v6.hop.address = ip("2001:db8:1::1");
    v6.sender.template.source = ip("2001:db8::1");
    v6.sender.template.selector = SourceSelector::Port(4000);
    let outcomes = router.receive(ETH1, Body::Path(v6));
    let sent_path = sent(&outcomes);
    assert_eq!(sent_path[0].0.destination, ip("2001:db8:9::9"));

    let flows = [FixedFilterFlow { flowspec: Some(flowspec(2)), filter: v6.sender.template }];
    let mut resv = resv(&flows);
    resv.session = session;
    resv.hop.address = ip("2001:db8:2::2");
    let outcomes = router.receive(ETH2, Body::Resv(resv));
    assert_eq!(sent(&outcomes)[0].0.destination, ip("2001:db8:1::1"));
    assert_eq!(router.held(), Rate::from_mbps(2));
}

/// After a restart the first Path has another LIH than before, which is a change for the next hop: a router downstream
/// answers at once with its Resv instead of at the next refresh.
#[test]
fn restarted_neighbor_gets_resv_at_once() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let mut restarted = path();
    restarted.hop.lih += 1;
    let outcomes = router.receive(ETH1, Body::Path(restarted));
    let kinds: Vec<_> = sent(&outcomes).iter().map(|(_, m)| m.body.message_type().name()).collect();
    assert_eq!(kinds, ["Path", "Resv"]);
    // Two runs of the same router assign different handles.
    let handle = |seed| {
        let random = earmark_core::random::RandomStreams::new(seed);
        earmark_rsvp::Rsvp::new(earmark_rsvp::Config::default(), &random).lih(ETH2)
    };
    assert_ne!(handle(1), handle(2));
}
