//! Receivers that wait for a confirmation, after their request or after a failure: the refreshes of the request have RESV_CONFIRM
//! until it is confirmed (RFC 2205 section 2.6).

use std::time::Duration;

use earmark_rsvp::{Application, Command, Event, ReserveRequest};
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, Carried, ErrorCode, ErrorSpec, Resv, ResvConf, ResvErr, Style,
};

use crate::common::*;
use crate::message_ids::{acknowledgement, acks, message_id, receive_path_with_id, summary};
use crate::sharing::{failure_of, shared, wildcard};

const STYLES: [Style; 3] = [Style::FixedFilter, Style::SharedExplicit, Style::Wildcard];

fn request(style: Style, mbps: u32) -> ReserveRequest {
    let flowspec = flowspec(mbps);
    match style {
        Style::FixedFilter => ReserveRequest::FixedFilter { filter: template(), flowspec },
        Style::SharedExplicit => {
            ReserveRequest::SharedExplicit { filters: vec![template()], flowspec }
        }
        Style::Wildcard => ReserveRequest::Wildcard { flowspec },
    }
}

/// Calls a function with the message that such a request becomes.
fn with_resv<T>(style: Style, mbps: u32, body: impl FnOnce(Resv<'_>) -> T) -> T {
    match style {
        Style::FixedFilter => body(resv(&[flow(mbps)])),
        Style::SharedExplicit => body(shared(mbps, &[template()])),
        Style::Wildcard => body(wildcard(mbps)),
    }
}

/// A receiver's host with a request of each of these applications: megabits per second, and whether it wants a confirmation.
fn host(style: Style, requests: &[(u32, bool)]) -> Bench {
    let mut host = receiver();
    host.receive(ETH1, Body::Path(path()));
    for (number, &(mbps, confirm)) in (1..).zip(requests) {
        let application = Application(number);
        host.command(Command::Session { application, session: session() });
        let request = request(style, mbps);
        let outcomes = host.command(Command::Reserve { application, request, confirm });
        assert!(!events(&outcomes).iter().any(|it| matches!(it, Event::Rejected { .. })));
    }
    host
}

/// The previous hop reports that a request of so many megabits per second has failed.
fn fail(host: &mut Bench, style: Style, mbps: u32, flags: u8) {
    let outcomes = with_resv(style, mbps, |resv| {
        let error = failure_of(resv);
        let error = ResvErr { error: ErrorSpec { flags, ..error.error }, ..error };
        host.receive(ETH1, Body::ResvErr(error))
    });
    assert!(events(&outcomes).iter().any(|it| matches!(it, Event::ResvError { .. })), "{style:?}");
}

fn confirm(host: &mut Bench, style: Style, mbps: u32) -> Vec<Event> {
    let outcomes = with_resv(style, mbps, |resv| {
        let node = ip("10.0.0.1");
        let confirmation = ResvConf {
            session: session(),
            error: ErrorSpec { node, flags: 0, code: ErrorCode::Confirmation, value: 0 },
            confirm: ip(RECEIVER),
            carried: Carried::NONE,
            flows: resv.flows,
        };
        host.receive(ETH1, Body::ResvConf(confirmation))
    });
    events(&outcomes)
}

/// Lets some time pass, in which the previous hop refreshes the Path. Returns how many Resv were sent, and how many of them
/// have RESV_CONFIRM, and the applications that were told of a confirmation.
fn pass(host: &mut Bench, seconds: u64) -> (usize, usize, Vec<u64>) {
    let (mut all, mut confirmed, mut told) = (0, 0, Vec::new());
    for _ in 0..seconds / 30 {
        let outcomes = host.pass(Duration::from_secs(30));
        for (_, message) in sent(&outcomes) {
            let Body::Resv(resv) = message.body else { continue };
            assert!(resv.confirm.is_none_or(|receiver| receiver == ip(RECEIVER)));
            all += 1;
            confirmed += usize::from(resv.confirm.is_some());
        }
        told.extend(events(&outcomes).iter().filter_map(|event| match event {
            Event::Confirmed { application, .. } => Some(application.0),
            _ => None,
        }));
        host.receive(ETH1, Body::Path(path()));
    }
    (all, confirmed, told)
}

/// Checks that every refresh asks for a confirmation, that the application hears of it when it comes, and that no refresh
/// asks afterwards.
fn asks_until_confirmed(host: &mut Bench, style: Style) {
    let (refreshes, asked, _) = pass(host, 300);
    assert!(refreshes > 0 && asked == refreshes, "{style:?}: {asked} of {refreshes}");
    let told = confirm(host, style, 5);
    assert!(matches!(told[..], [Event::Confirmed { .. }]), "{style:?}: {told:?}");
    let (refreshes, asked, _) = pass(host, 300);
    assert!(refreshes > 0 && asked == 0, "{style:?}: {asked} of {refreshes}");
}

/// The first ResvConf may be lost.
#[test]
fn refreshes_ask_until_confirmation() {
    for style in STYLES {
        let mut host = host(style, &[(5, true)]);
        asks_until_confirmed(&mut host, style);
    }
}

/// After the blockade every refresh asks for a confirmation, and none once it has come.
#[test]
fn refreshes_of_failed_request_ask_for_confirmation() {
    for style in STYLES {
        let mut host = host(style, &[(5, true)]);
        confirm(&mut host, style, 5);
        fail(&mut host, style, 5, 0);
        pass(&mut host, 300);
        asks_until_confirmed(&mut host, style);
    }
}

/// Nobody asks for an application that has not, nor after a refusal that leaves its confirmed reservation in place.
#[test]
fn refreshes_ask_only_for_whom_it_matters() {
    for style in STYLES {
        for (wants, flags) in [(false, 0), (true, ErrorSpec::IN_PLACE)] {
            let mut host = host(style, &[(5, wants)]);
            confirm(&mut host, style, 5);
            fail(&mut host, style, 5, flags);
            let (refreshes, asked, _) = pass(&mut host, 600);
            assert!(refreshes > 0 && asked == 0, "{style:?}: {asked} of {refreshes}");
        }
    }
}

/// A new request ends the matter: it has a RESV_CONFIRM of its own, or wants none.
#[test]
fn new_request_ends_questions_for_the_failed_one() {
    for style in STYLES {
        let mut host = host(style, &[(5, true)]);
        fail(&mut host, style, 5, 0);
        let request = request(style, 2);
        let application = Application(1);
        host.command(Command::Reserve { application, request, confirm: false });
        let (refreshes, asked, _) = pass(&mut host, 600);
        assert!(refreshes > 0 && asked == 0, "{style:?}: {asked} of {refreshes}");
    }
}

/// The smaller one of two requests of a host that have failed together is confirmed by the host itself, once the larger one
/// is not in its way.
#[test]
fn request_within_a_larger_one_is_confirmed_here() {
    for style in STYLES {
        let mut host = host(style, &[(5, false), (2, true)]);
        fail(&mut host, style, 5, 0);
        let (_, asked, told) = pass(&mut host, 600);
        assert_eq!(told, [2], "{style:?}");
        assert!(asked <= 5, "{style:?}: only while the larger one is blocked, not {asked} times");
    }
}

/// A request of the application that is made again while it is blocked is answered like the first one: its RESV_CONFIRM was
/// dropped with it (RFC 2205 section 3.1.4).
#[test]
fn request_made_again_while_blocked_is_asked_about() {
    for style in STYLES {
        let mut host = host(style, &[(5, true)]);
        fail(&mut host, style, 5, 0);
        let application = Application(1);
        let request = request(style, 5);
        let outcomes = host.command(Command::Reserve { application, request, confirm: true });
        assert!(sent(&outcomes).is_empty(), "{style:?}: blocked");
        pass(&mut host, 300);
        asks_until_confirmed(&mut host, style);
    }
}

/// An application that was told that its sender has ended hears of the next reservation, although one ResvConf is lost.
#[test]
fn request_after_end_of_sender_is_asked_about() {
    for style in STYLES {
        let mut host = host(style, &[(5, true)]);
        confirm(&mut host, style, 5);
        let outcomes = host.receive(ETH1, Body::PathTear(path_tear()));
        assert!(events(&outcomes).iter().any(|it| matches!(it, Event::PathGone { .. })));
        host.receive(ETH1, Body::Path(path()));
        let (application, request) = (Application(1), request(style, 5));
        host.command(Command::Reserve { application, request, confirm: true });
        asks_until_confirmed(&mut host, style);
    }
}

/// Lets ten minutes pass, in which the previous hop refreshes the Path by summaries, and acknowledges each Resv. Returns how
/// many Resv have RESV_CONFIRM, and how many do not.
fn pass_with_summaries(host: &mut Bench) -> (usize, usize) {
    let (mut asked, mut others) = (0, 0);
    for _ in 0..40 {
        let outcomes = host.pass(Duration::from_secs(15));
        for (_, message) in sent(&outcomes) {
            let Body::Resv(resv) = message.body else { continue };
            *if resv.confirm.is_some() { &mut asked } else { &mut others } += 1;
            if let Some(id) = message.message_id {
                acks(host, ETH1, &[acknowledgement(AcknowledgementKind::Ack, id)]);
            }
        }
        summary(host, ETH1, &[1]);
    }
    (asked, others)
}

/// Summary refreshes cannot ask: a Resv that the previous hop has acknowledged is refreshed by messages until it is confirmed.
#[test]
fn acknowledged_request_is_asked_about() {
    for style in STYLES {
        let mut host = receiver();
        receive_path_with_id(&mut host, path(), message_id(1));
        let application = Application(1);
        host.command(Command::Session { application, session: session() });
        let request = request(style, 5);
        host.command(Command::Reserve { application, request, confirm: true });
        fail(&mut host, style, 5, 0);
        // The period is 30 s, and the request is blocked for the first two of twenty.
        let (asked, _) = pass_with_summaries(&mut host);
        assert!(asked >= 15, "{style:?}: {asked}");
        confirm(&mut host, style, 5);
        pass_with_summaries(&mut host);
        assert_eq!(pass_with_summaries(&mut host), (0, 0), "{style:?}: in summaries");
    }
}
