//! Blockade state: which requests it blocks, and when it ends (RFC 2205 section 3.5).

use std::time::Duration;

use earmark_core::Rate;
use earmark_rsvp::{Application, Command, Event, ReserveRequest};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, Path, Resv, ResvErr, RsvpHop,
    SourceSelector,
};

use crate::common::*;
use crate::message_ids::{capable_message, message_id, receive, receive_path_with_id};
use crate::sharing::*;

/// An equal request from another next hop.
fn from_next_hop<'a>(address: &str, resv: Resv<'a>) -> Resv<'a> {
    Resv { hop: RsvpHop { address: ip(address), ..resv.hop }, ..resv }
}

/// A request for 4 Mbit/s and one for 2, of which the larger fails upstream.
fn blocked<'a>(large: Resv<'a>, small: Resv<'a>) -> Bench {
    let mut router = router();
    router.add_interface_with(ETH2, &["10.0.2.1"], Rate::from_mbps(100));
    router.receive(ETH1, Body::Path(path()));
    ask(&mut router, large, small);
    let outcomes = router.receive(ETH1, Body::ResvErr(failure_of(large)));
    assert!(
        sent_texts(&outcomes)[0].starts_with("Resv to 10.0.1.1: "),
        "{:?}",
        sent_texts(&outcomes)
    );
    router
}

fn ask<'a>(router: &mut Bench, large: Resv<'a>, small: Resv<'a>) -> Vec<String> {
    let mut texts = sent_texts(&router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.3", small))));
    texts.extend(crate::sharing::sent_texts(&router.receive(ETH2, Body::Resv(large))));
    texts
}

/// Next request upstream.
fn next_request(router: &mut Bench) -> Option<String> {
    let outcomes = router.pass(Duration::from_secs(46));
    sent_texts(&outcomes).into_iter().find(|text| text.starts_with("Resv to"))
}

/// Blockade state lasts twice the refresh period; then the full request is sent again.
#[test]
fn blockade_ends_after_two_refresh_periods() {
    let (large, small) = ([flow(4)], [flow(2)]);
    let mut router = blocked(resv(&large), resv(&small));
    assert_eq!(next_request(&mut router).as_deref(), Some("Resv to 10.0.1.1: FF 2 of 4000"));
    router.pass(Duration::from_secs(14));
    assert_eq!(next_request(&mut router).as_deref(), Some("Resv to 10.0.1.1: FF 4 of 4000"));
}

/// Blockade state lasts until 2 R have passed, and not longer.
#[test]
fn blockade_lasts_until_its_end_time() {
    let (large, small) = ([flow(4)], [flow(2)]);
    let mut router = blocked(resv(&large), resv(&small));
    let moment = Duration::from_nanos(1);
    router.pass(Duration::from_secs(60) - moment);
    // RESV_CONFIRM is forwarded at once unless its request is blocked.
    let confirmed = Resv { confirm: Some(ip(RECEIVER)), ..resv(&large) };
    let before = sent_texts(&router.receive(ETH2, Body::Resv(confirmed)));
    router.pass(moment);
    let after = sent_texts(&router.receive(ETH2, Body::Resv(confirmed)));
    assert_eq!((before, after), (vec![], vec!["Resv to 10.0.1.1: FF 4 of 4000".to_string()]));
}

/// The blockade is over when another error about the large request arrives. The error does not bring the request back, which would
/// bring the next error; the next refresh does.
#[test]
fn error_after_the_blockade_repeats_no_request() {
    let all = [template()];
    let (large, small) = ([flow(4)], [flow(2)]);
    for [small, large] in [
        [resv(&small), resv(&large)],
        [shared(2, &all), shared(4, &all)],
        [wildcard(2), wildcard(4)],
    ] {
        let mut router = blocked(large, small);
        let passed = sent_texts(&router.pass(Duration::from_millis(60_001)));
        let is_large =
            |text: &String| ["FF 4 ", "SE 4 ", "WF 4"].iter().any(|large| text.contains(large));
        assert!(!passed.iter().any(is_large), "{passed:?}");
        let error = failure_of(large);
        let spec = ErrorSpec { code: ErrorCode::RsvpSystemError, value: 0, ..error.error };
        let outcomes = router.receive(ETH1, Body::ResvErr(ResvErr { error: spec, ..error }));
        let texts = sent_texts(&outcomes);
        assert!(texts.iter().all(|text| text.starts_with("ResvErr to ")), "{texts:?}");
        assert!(next_request(&mut router).as_ref().is_some_and(is_large));
    }
}

/// Blockade state ends with its sender; the same sender starts without it.
#[test]
fn blockade_of_torn_sender_is_removed() {
    let (large, small) = ([flow(4)], [flow(2)]);
    let mut router = blocked(resv(&large), resv(&small));
    router.receive(ETH1, Body::PathTear(path_tear()));
    router.receive(ETH1, Body::Path(path()));
    let texts = ask(&mut router, resv(&large), resv(&small));
    assert_eq!(texts, ["Resv to 10.0.1.1: FF 2 of 4000", "Resv to 10.0.1.1: FF 4 of 4000"]);
}

/// What failed behind one previous hop may succeed behind another.
#[test]
fn blockade_is_removed_when_previous_hop_changes() {
    let (large, small) = ([flow(4)], [flow(2)]);
    let elsewhere = || {
        let mut path = path();
        path.hop.address = ip("10.0.1.3");
        path
    };
    let mut router = blocked(resv(&large), resv(&small));
    let moved = router.receive(ETH1, Body::Path(elsewhere()));
    assert!(sent_texts(&moved).contains(&"Resv to 10.0.1.3: FF 4 of 4000".into()), "{moved:?}");

    let mut router = blocked(wildcard(4), wildcard(2));
    let moved = router.receive(ETH1, Body::Path(elsewhere()));
    assert!(sent_texts(&moved).contains(&"Resv to 10.0.1.3: WF 4".into()), "{moved:?}");
    let back = router.receive(ETH1, Body::Path(path()));
    assert!(sent_texts(&back).contains(&"Resv to 10.0.1.1: WF 4".into()), "{back:?}");
}

/// Blockade state of a wildcard request concerns a previous hop, with all of its senders, as long as there is one.
#[test]
fn wildcard_request_to_failed_hop_is_blocked() {
    let second = sender_on(4001);
    let mut router = blocked(wildcard(4), wildcard(2));
    let outcomes = router.receive(ETH1, Body::Path(path_of(second)));
    assert_eq!(sent_texts(&outcomes), ["Path through eth2", "Resv to 10.0.1.1: WF 2"]);
    router.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!(next_request(&mut router).as_deref(), Some("Resv to 10.0.1.1: WF 2"));
    let mut moved = path_of(second);
    moved.hop.address = ip("10.0.1.3");
    router.receive(ETH1, Body::Path(moved));
    let back = sent_texts(&router.receive(ETH1, Body::Path(path_of(second))));
    assert!(back.contains(&"Resv to 10.0.1.1: WF 4".into()), "{back:?}");
}

/// Blockade state ends with the last request, too.
#[test]
fn blockade_of_torn_reservation_is_removed() {
    let mut router = blocked(wildcard(4), wildcard(2));
    router.receive(ETH2, Body::ResvTear(tear_of(wildcard(4))));
    router.receive(ETH2, Body::ResvTear(tear_of(from_next_hop("10.0.2.3", wildcard(2)))));
    let texts = ask(&mut router, wildcard(4), wildcard(2));
    assert_eq!(texts, ["Resv to 10.0.1.1: WF 2", "Resv to 10.0.1.1: WF 4"]);
}

/// Blocked requests of a shared style do not count for the senders in their filters.
#[test]
fn shared_request_is_blocked_for_failed_senders_only() {
    let (first, second) = (sender_on(4000), sender_on(4001));
    let mut router = router();
    router.receive(ETH1, Body::Path(path_of(first)));
    let mut elsewhere = path_of(second);
    elsewhere.hop.address = ip("10.0.1.3");
    router.receive(ETH1, Body::Path(elsewhere));
    let both = [first, second];
    router.receive(ETH2, Body::Resv(shared(4, &both[..1])));
    router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.3", shared(3, &both[1..]))));
    router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.4", shared(1, &both))));
    let outcomes = router.receive(ETH1, Body::ResvErr(failure_of(shared(4, &both[..1]))));
    let mut texts = sent_texts(&outcomes);
    texts.sort();
    assert_eq!(
        texts,
        [
            "Resv to 10.0.1.1: SE 1 of 4000",
            "ResvErr to 10.0.2.2: SE 4 of 4000",
            "ResvErr to 10.0.2.4: SE 4 of 4000",
        ]
    );
}

/// An error about one sender does not block requests for another one of the session.
#[test]
fn request_for_other_sender_is_not_blocked() {
    let other = FilterSpec { selector: SourceSelector::Port(4001), ..template() };
    let (large, small) = ([flow(4)], [flow(2)]);
    let mut router = blocked(resv(&large), resv(&small));
    router.receive(ETH1, Body::Path(path_of(other)));
    let flows = [FixedFilterFlow { filter: other, ..flow(4) }];
    let outcomes = router.receive(ETH2, Body::Resv(resv(&flows)));
    assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: FF 4 of 4001"]);
}

/// A next hop that asks for what has failed for another one keeps what it has: upstream its old request stays in the merged
/// one, and smaller ones of others do not replace it. Its larger request is sent when the blockade has ended.
#[test]
fn request_for_what_has_failed_displaces_no_reservation() {
    let (one, two, three, four) = ([flow(1)], [flow(2)], [flow(3)], [flow(4)]);
    let all = [template()];
    let distinct = [&one, &two, &three, &four].map(|flows| resv(flows));
    let shared = [1, 2, 3, 4].map(|mbps| shared(mbps, &all));
    for [one, two, three, four] in [distinct, shared, [1, 2, 3, 4].map(wildcard)] {
        let upstream = |outcomes: &[Outcome]| -> Vec<String> {
            let texts = sent_texts(outcomes).into_iter();
            texts.filter(|text| text.starts_with("Resv to")).collect()
        };
        let mut router = blocked(four, two);
        let asked = router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.4", three)));
        let [text] = &upstream(&asked)[..] else { panic!("{asked:?}") };
        assert!(text.contains(" 3"), "{text}");

        let more = || Body::Resv(from_next_hop("10.0.2.4", four));
        let refused = router.receive(ETH2, more());
        assert_eq!(upstream(&refused), [""; 0], "the old request stays");
        let texts = sent_texts(&refused);
        assert!(texts[0].starts_with("ResvErr to 10.0.2.4: "), "{texts:?}");
        let [(_, message)] = &sent(&refused)[..] else { panic!("{texts:?}") };
        let Body::ResvErr(error) = message.body else { panic!("{texts:?}") };
        assert_eq!(error.error.flags, ErrorSpec::IN_PLACE);
        assert_eq!(
            (error.error.code, error.error.value),
            (ErrorCode::AdmissionControlFailure, BANDWIDTH)
        );

        // Other changes are as before: a smaller request, and one that is larger but not as large as what has failed.
        let less = router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.4", one)));
        assert_eq!(upstream(&less).len(), 1, "{less:?}");
        let again = router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.4", three)));
        assert_eq!(upstream(&again).len(), 1, "{again:?}");

        router.pass(Duration::from_secs(60));
        router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.4", three)));
        let taken = router.receive(ETH2, more());
        assert!(!sent_texts(&taken).iter().any(|text| text.starts_with("ResvErr")), "{taken:?}");
    }
}

/// An application of this host that asks for what has failed for a next hop keeps what it has, too, and is told so. Its request was
/// left out of the merged one, in which a smaller one of a next hop took its place.
#[test]
fn application_that_asks_for_what_has_failed_keeps_what_it_has() {
    let filters = || vec![template()];
    let requests: [fn(FlowSpec, Vec<FilterSpec>) -> ReserveRequest; 3] = [
        |flowspec, filters| ReserveRequest::FixedFilter { filter: filters[0], flowspec },
        |flowspec, filters| ReserveRequest::SharedExplicit { filters, flowspec },
        |flowspec, _| ReserveRequest::Wildcard { flowspec },
    ];
    let all = [template()];
    let distinct = [[flow(1)], [flow(4)]];
    let resvs = [
        [resv(&distinct[0]), resv(&distinct[1])],
        [shared(1, &all), shared(4, &all)],
        [wildcard(1), wildcard(4)],
    ];
    for (request, [small, large]) in requests.into_iter().zip(resvs) {
        let mut router = fork();
        branch(&mut router, SENDER, ETH1, &[ETH2]);
        router.receive(ETH1, to_group(Body::Path(path())));
        let application = Application(1);
        router.command(Command::Session { application, session: group() });
        let reserve = |mbps| Command::Reserve {
            application,
            request: request(flowspec(mbps), filters()),
            confirm: false,
        };
        router.command(reserve(2));
        router.receive(ETH2, to_group(Body::Resv(from_next_hop("10.0.2.3", small))));
        router.receive(ETH2, to_group(Body::Resv(large)));
        router.receive(ETH1, Body::ResvErr(ResvErr { session: group(), ..failure_of(large) }));
        assert!(next_request(&mut router).is_some_and(|text| text.contains(" 2")));

        let outcomes = router.command(reserve(4));
        assert_eq!(sent_texts(&outcomes), [""; 0], "the old request stays");
        let events = events(&outcomes);
        let [Event::ResvError { error, flowspec: failed, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((error.flags, error.node), (ErrorSpec::IN_PLACE, ip("10.0.1.2")));
        assert_eq!((error.code, error.value), (ErrorCode::AdmissionControlFailure, BANDWIDTH));
        assert_eq!(*failed, Some(flowspec(4)));
        assert_eq!(sent_texts(&router.command(reserve(3))).len(), 1, "less than has failed");
    }
}

/// A request for all senders is larger than what has failed towards one of them. Towards the other it might succeed, but the next
/// hop would lose what it has from the first: upstream there a smaller request of another next hop would take its place.
#[test]
fn request_that_fails_for_some_senders_displaces_no_reservation() {
    let both = [sender_on(4000), sender_on(4001)];
    let requests: [&dyn Fn(u32) -> Resv<'static>; 2] =
        [&wildcard, &|mbps| shared(mbps, Vec::leak(both.to_vec()))];
    for request in requests {
        let mut router = router();
        router.add_interface_with(ETH2, &["10.0.2.1"], Rate::from_mbps(100));
        for (sender, hop) in both.into_iter().zip([UPSTREAM, "10.0.1.3"]) {
            let path = path_of(sender);
            let hop = RsvpHop { address: ip(hop), ..path.hop };
            router.receive(ETH1, Body::Path(Path { hop, ..path }));
        }
        for (mbps, hop) in [(4, DOWNSTREAM), (2, "10.0.2.3"), (1, "10.0.2.4")] {
            router.receive(ETH2, Body::Resv(from_next_hop(hop, request(mbps))));
        }
        let failed = router.receive(ETH1, Body::ResvErr(failure_of(request(4))));
        let [to_failed, ..] = &sent_texts(&failed)[..] else { panic!("{failed:?}") };
        assert!(to_failed.starts_with("Resv to 10.0.1.1: ") && to_failed.contains(" 2"));

        let outcomes = router.receive(ETH2, Body::Resv(from_next_hop("10.0.2.3", request(4))));
        let [error] = &sent_texts(&outcomes)[..] else { panic!("{:?}", sent_texts(&outcomes)) };
        assert!(error.starts_with("ResvErr to 10.0.2.3: "), "{error}");
        let texts = sent_texts(&router.pass(Duration::from_secs(46)));
        let refreshed = texts.iter().filter(|text| text.starts_with("Resv to 10.0.1.1"));
        assert!(refreshed.clone().all(|text| text.contains(" 2")), "{texts:?}");
        assert!(refreshed.count() > 0, "{texts:?}");
    }
}

/// A router with senders on ports 4000 and 4001 behind one previous hop, and these shared requests: Mbit/s and senders, of
/// next hops 10.0.2.2 and 10.0.2.3.
fn router_with(senders: &[FilterSpec], requests: [(u32, &[FilterSpec]); 2]) -> Bench {
    let mut router = router();
    for &sender in senders {
        router.receive(ETH1, Body::Path(path_of(sender)));
    }
    for ((mbps, filters), hop) in requests.into_iter().zip([DOWNSTREAM, "10.0.2.3"]) {
        router.receive(ETH2, Body::Resv(from_next_hop(hop, shared(mbps, filters))));
    }
    router
}

/// A request to one previous hop has one flowspec for all of its senders (RFC 2205 section 3.1.4). If it has failed for one of
/// them, a request as large for the others would fail for that one again.
#[test]
fn shared_request_that_failed_for_one_sender_is_blocked_for_its_previous_hop() {
    let both = [sender_on(4000), sender_on(4001)];
    for failed in [&both[..1], &both[1..], &both[..]] {
        let mut router = router_with(&both, [(4, &both), (2, &both)]);
        let outcomes = router.receive(ETH1, Body::ResvErr(failure_of(shared(4, failed))));
        let texts = sent_texts(&outcomes);
        assert_eq!(texts[0], "Resv to 10.0.1.1: SE 2 of 4000 4001", "{failed:?}");
        assert_eq!(
            next_request(&mut router).as_deref(),
            Some("Resv to 10.0.1.1: SE 2 of 4000 4001")
        );
        router.pass(Duration::from_secs(14));
        assert_eq!(
            next_request(&mut router).as_deref(),
            Some("Resv to 10.0.1.1: SE 4 of 4000 4001"),
            "the blockade has ended"
        );
    }
}

/// A request that is blocked because of a sender that it does not name is told so, about its own senders.
#[test]
fn next_hop_is_told_of_block_by_another_sender() {
    let (first, second) = ([sender_on(4000)], [sender_on(4001)]);
    let both = [first[0], second[0]];
    let mut router = router_with(&both, [(3, &first), (4, &second)]);
    let outcomes = router.receive(ETH1, Body::ResvErr(failure_of(shared(4, &first))));
    let mut texts = sent_texts(&outcomes);
    texts.sort();
    assert_eq!(
        texts,
        [
            "Resv to 10.0.1.1: SE 3 of 4000 4001",
            "ResvErr to 10.0.2.2: SE 4 of 4000",
            "ResvErr to 10.0.2.3: SE 4 of 4001",
        ]
    );
    // A smaller request of it is not blocked.
    let resv = from_next_hop("10.0.2.3", shared(2, &second));
    let outcomes = router.receive(ETH2, Body::Resv(resv));
    assert!(sent_texts(&outcomes).is_empty(), "the merged request is the same");
}

/// A sender that joins behind the same previous hop does not bring back the request that has failed.
#[test]
fn sender_that_joins_during_blockade_does_not_end_it() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = router_with(&both[..1], [(4, &both[..1]), (2, &both[..1])]);
    let failure = failure_of(shared(4, &both[..1]));
    router.receive(ETH1, Body::ResvErr(failure));
    router.receive(ETH1, Body::Path(path_of(both[1])));
    let mut texts = Vec::new();
    for (mbps, hop) in [(4, DOWNSTREAM), (2, "10.0.2.3")] {
        let resv = from_next_hop(hop, shared(mbps, &both));
        texts.extend(sent_texts(&router.receive(ETH2, Body::Resv(resv))));
    }
    texts.retain(|text| text.starts_with("Resv to"));
    assert_eq!(texts, ["Resv to 10.0.1.1: SE 2 of 4000 4001"]);
}

/// What failed behind one previous hop is not blocked behind another (RFC 2205 section 3.5, figure 12).
#[test]
fn shared_request_is_not_blocked_for_other_previous_hops() {
    let both = [sender_on(4000), sender_on(4001)];
    let mut router = router_with(&both[..1], [(4, &both), (2, &both)]);
    let mut elsewhere = path_of(both[1]);
    elsewhere.hop.address = ip("10.0.1.3");
    router.receive(ETH1, Body::Path(elsewhere));
    for (mbps, hop) in [(4, DOWNSTREAM), (2, "10.0.2.3")] {
        router.receive(ETH2, Body::Resv(from_next_hop(hop, shared(mbps, &both))));
    }
    let outcomes = router.receive(ETH1, Body::ResvErr(failure_of(shared(4, &both[..1]))));
    assert_eq!(sent_texts(&outcomes)[0], "Resv to 10.0.1.1: SE 2 of 4000");
    let mut texts = Vec::new();
    for _ in 0..4 {
        texts.extend(sent_texts(&router.pass(Duration::from_secs(14))));
    }
    let to_other = texts.iter().filter(|text| text.starts_with("Resv to 10.0.1.3"));
    assert!(to_other.clone().count() > 0);
    assert!(to_other.clone().all(|text| text == "Resv to 10.0.1.3: SE 4 of 4001"), "{texts:?}");
}

/// RFC 2961 section 4.5: an error that installs state and was overtaken by a later one does not replace it. Its receivers still
/// get it.
#[test]
fn overtaken_error_does_not_replace_blockade_state() {
    for (ids, upstream) in [([6, 7], 2), ([7, 6], 1)] {
        let mut router = router();
        receive_path_with_id(&mut router, path(), message_id(1));
        for (mbps, hop) in [(4, DOWNSTREAM), (2, "10.0.2.3"), (1, "10.0.2.4")] {
            let flows = [flow(mbps)];
            router.receive(ETH2, Body::Resv(from_next_hop(hop, resv(&flows))));
        }
        let mut forwarded = Vec::new();
        for (id, failed) in ids.into_iter().zip([2, 4]) {
            let flows = [flow(failed)];
            let error = Body::ResvErr(failure_of(resv(&flows)));
            let error = capable_message(error, Some(message_id(id)));
            let outcomes = receive(&mut router, ETH1, &error);
            let errors =
                sent(&outcomes).iter().filter(|(_, m)| matches!(m.body, Body::ResvErr(_))).count();
            forwarded.push(errors);
        }
        assert_eq!(forwarded, [3, 3]);
        let wanted = format!("Resv to 10.0.1.1: FF {upstream} of 4000");
        assert_eq!(next_request(&mut router), Some(wanted), "{ids:?}");
    }
}
