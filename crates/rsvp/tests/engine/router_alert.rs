//! Router alert (RFC 2205 section 3.3): without it a router passes Path, PathTear and ResvConf messages on unseen, so
//! that the receiving host would take any previous hop in them for its own.

use earmark_core::{Datagram, Input, Rate};
use earmark_rsvp::{Command, Config, DropReason, Event, Renewal};
use earmark_wire::rsvp::{Body, Bundle, ErrorCode, ErrorSpec, Path, Resv, ResvConf, RsvpHop};

use crate::common::*;
use crate::message_ids::*;

/// Previous hop that a forged message names.
const FORGED: RsvpHop =
    RsvpHop { address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 77)), lih: 5 };

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Raw { router_alert: bool },
    InsideUdp,
    Bundle,
}

const CARRIERS: [Carrier; 4] = [
    Carrier::Raw { router_alert: true },
    Carrier::Raw { router_alert: false },
    Carrier::InsideUdp,
    Carrier::Bundle,
];

fn config(without_router_alert: bool) -> Config {
    let names = without_router_alert.then(|| "eth1".to_owned());
    Config { without_router_alert: names.into_iter().collect(), ..Config::default() }
}

/// Returns a router with a reservation of 2 Mbit/s on eth2.
fn reserved(without_router_alert: bool) -> Bench {
    let mut router = with_config(config(without_router_alert));
    receive_path_with_id(&mut router, path(), message_id(1));
    receive_resv_with_id(&mut router, 2, None);
    assert_eq!(router.held(), Rate::from_mbps(2));
    router
}

fn deliver(router: &mut Bench, carrier: Carrier, body: Body<'_>) -> Vec<Outcome> {
    let mut payload = octets(body, 63);
    if carrier == Carrier::Bundle {
        payload.splice(0..0, [0; Bundle::HEADER_LEN]);
        Bundle::seal(&mut payload, 1, 63).expect("it fits");
    }
    let destination = match carrier {
        Carrier::Raw { .. } => ip(RECEIVER),
        Carrier::InsideUdp | Carrier::Bundle => ip("10.0.1.2"),
    };
    router.handle(Input::Datagram(Datagram {
        interface: ETH1,
        source: ip(UPSTREAM),
        destination,
        ttl: 63,
        router_alert: carrier == Carrier::Raw { router_alert: true },
        encapsulated: carrier == Carrier::InsideUdp,
        payload: &payload,
    }))
}

/// A Path of another previous hop moves the reservation request there, a PathTear ends the reservation and a ResvConf is
/// forwarded, unless they lack router alert where it is expected. RSVP inside UDP has none, and a Bundle is for the neighbour.
#[test]
fn message_without_router_alert_is_dropped_unless_network_removes_it() {
    let flows = [flow(2)];
    let Resv { carried, flows, .. } = resv(&flows);
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec { node: ip(SENDER), flags: 0, code: ErrorCode::Confirmation, value: 0 },
        confirm: ip(RECEIVER),
        carried,
        flows,
    };
    for without_router_alert in [false, true] {
        for carrier in CARRIERS {
            let is_refused =
                carrier == Carrier::Raw { router_alert: false } && !without_router_alert;
            let what = format!("{carrier:?}, expected without: {without_router_alert}");
            let reasons = if is_refused { vec![DropReason::NoRouterAlert] } else { vec![] };
            let refused = |router: &Bench, outcomes: &[Outcome], kind: &str| {
                assert_eq!(dropped(outcomes), reasons, "{kind} {what}");
                let count = router.engine.counters().dropped[DropReason::NoRouterAlert as usize];
                assert_eq!(count, u64::from(is_refused), "{kind} {what}");
                assert!(!is_refused || sent(outcomes).is_empty(), "{kind} {what}");
            };

            let mut router = reserved(without_router_alert);
            let forged = Path { hop: FORGED, ..path() };
            let outcomes = deliver(&mut router, carrier, Body::Path(forged));
            refused(&router, &outcomes, "Path");
            let resv =
                sent(&outcomes).into_iter().find(|(how, _)| how.destination == FORGED.address);
            assert_eq!(resv.is_none(), is_refused, "{what}");

            let mut router = reserved(without_router_alert);
            let outcomes = deliver(&mut router, carrier, Body::PathTear(path_tear()));
            refused(&router, &outcomes, "PathTear");
            assert_eq!(router.held(), Rate::from_mbps(if is_refused { 2 } else { 0 }), "{what}");

            let mut router = reserved(without_router_alert);
            let outcomes = deliver(&mut router, carrier, Body::ResvConf(confirmation));
            refused(&router, &outcomes, "ResvConf");
            assert_eq!(sent(&outcomes).is_empty(), is_refused, "{what}");
        }
    }
}

/// A changed configuration applies from the next message on.
#[test]
fn reloaded_setting_applies_at_once() {
    let mut router = reserved(false);
    for without_router_alert in [true, false] {
        let renewal = Renewal::from(config(without_router_alert));
        router.command(Command::Renew(Box::new(renewal)));
        let raw = Carrier::Raw { router_alert: false };
        let outcomes = deliver(&mut router, raw, Body::Path(path()));
        assert_eq!(dropped(&outcomes).is_empty(), without_router_alert);
    }
}

fn dropped(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |event: &Event| match event {
        Event::Dropped { reason, .. } => Some(*reason),
        _ => None,
    };
    events(outcomes).iter().filter_map(reason).collect()
}
