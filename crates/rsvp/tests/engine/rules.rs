//! Small rules, each separately: state changes caused by a message, and their consequences.

use std::time::Duration;

use earmark_core::Rate;
use earmark_rsvp::{Application, Command, Config, DropReason, Event, Timing};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FlowDescriptors, List, Path, PathTear, Resv,
    ResvConf, Session, SourceSelector,
};

use crate::common::*;
use crate::sharing::{branch, to_group};

fn kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    sent(outcomes).iter().map(|(_, message)| message.body.message_type().name()).collect()
}

/// A neighbour is kept exactly as long as it has state.
#[test]
fn neighbor_without_state_is_removed() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let mut moved = path();
    moved.hop.address = ip("10.0.1.3");
    router.receive(ETH1, Body::Path(moved));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let neighbors = router.engine.neighbors().map(|n| (n.address, n.senders, n.reservations));
    let mut neighbors: Vec<_> = neighbors.collect();
    neighbors.sort_unstable();
    assert_eq!(neighbors, [(ip("10.0.1.3"), 1, 0), (ip(DOWNSTREAM), 0, 1)]);
}

/// R is a setting of each interface, and the branches of a group have several: none is refreshed later than its next hop was
/// told, whichever comes first.
#[test]
fn each_branch_is_refreshed_in_time() {
    for slow in [ETH2, ETH3] {
        let of = |id, seconds| {
            (id, Timing { refresh: Duration::from_secs(seconds), ..Timing::default() })
        };
        let quick = if slow == ETH2 { ETH3 } else { ETH2 };
        let interfaces = [of(slow, 300), of(quick, 2)].into();
        let mut bench = with_config(Config { interfaces, ..Config::default() });
        bench.add_interface(ETH3, "10.0.3.1");
        branch(&mut bench, SENDER, ETH1, &[ETH2, ETH3]);
        let long = Path { refresh_ms: 1_000_000, ..path() };
        bench.receive(ETH1, to_group(Body::Path(long)));
        let mut last = 0;
        for second in 1..600 {
            let outcomes = bench.pass(Duration::from_secs(1));
            for (how, message) in sent(&outcomes) {
                let Body::Path(path) = message.body else { continue };
                if how.interface == Some(quick) {
                    assert_eq!(path.refresh_ms, 2_000);
                    assert!(second - last <= 4, "{slow:?}: {last} and {second}");
                    last = second;
                }
            }
        }
        assert!(last > 590, "{slow:?}: {last}");
    }
}

/// RFC 2205 section 3.7: R belongs to the message. State that is refreshed with a shorter one expires earlier.
#[test]
fn shorter_refresh_period_shortens_lifetime() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let flows = [flow(2)];
    router.receive(ETH2, Body::Resv(Resv { refresh_ms: 1_000, ..resv(&flows) }));
    router.pass(Duration::from_millis(5_249));
    assert_eq!(router.held(), Rate::from_mbps(2));
    router.pass(Duration::from_millis(2));
    assert_eq!(router.held(), Rate::ZERO, "5.25 s are over");

    router.receive(ETH1, Body::Path(Path { refresh_ms: 1_000, ..path() }));
    router.pass(Duration::from_millis(5_249));
    assert_eq!(router.engine.population(), (1, 1, 0));
    router.pass(Duration::from_millis(2));
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// The lifetime of a changed request starts anew, with its own period.
#[test]
fn changed_request_restarts_lifetime() {
    for (refresh_ms, lives_ms) in [(30_000, 157_500), (1_000, 5_250)] {
        let mut router = router();
        router.receive(ETH1, Body::Path(path()));
        router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
        router.pass(Duration::from_secs(100));
        router.receive(ETH1, Body::Path(Path { refresh_ms: 300_000, ..path() }));
        let flows = [flow(3)];
        router.receive(ETH2, Body::Resv(Resv { refresh_ms, ..resv(&flows) }));
        router.pass(Duration::from_millis(lives_ms - 1));
        assert_eq!(router.held(), Rate::from_mbps(3));
        router.pass(Duration::from_millis(2));
        assert_eq!(router.held(), Rate::ZERO);
    }
}

/// RFC 2205 section 2.6: if a larger request of another receiver exists, this node confirms; otherwise RESV_CONFIRM is
/// forwarded upstream.
#[test]
fn smaller_request_is_confirmed_by_merging_node() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let flows = [flow(3)];
    let mut request = Resv { confirm: Some(ip(RECEIVER)), ..resv(&flows) };
    let outcomes = router.receive(ETH2, Body::Resv(request));
    let (_, first) = sent(&outcomes)[0];
    let Body::Resv(upstream) = first.body else { panic!("a Resv: {first:?}") };
    assert_eq!((kinds(&outcomes).len(), upstream.confirm), (1, Some(ip(RECEIVER))));

    let flows = [flow(2)];
    request.flows = FlowDescriptors::FixedFilter(List::Items(&flows));
    request.hop.address = ip("10.0.2.3");
    let outcomes = router.receive(ETH2, Body::Resv(request));
    let sent = sent(&outcomes);
    let [(how, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    let Body::ResvConf(confirmation) = message.body else { panic!("a ResvConf: {message:?}") };
    assert_eq!((how.destination, confirmation.error.node), (ip(RECEIVER), ip("10.0.2.1")));
}

/// RFC 2205 appendix A.1, E_Police: the first node with policing performs it, and nodes behind it need not.
#[test]
fn e_police_ends_at_policing_node() {
    let mut from_host = path();
    from_host.session.flags = Session::E_POLICE;
    let passed = |router: &mut Bench, path: Path<'_>| {
        let outcomes = router.receive(ETH1, Body::Path(path));
        match sent(&outcomes)[0].1.body {
            Body::Path(path) => path.session.flags,
            other => panic!("a Path, not {other:?}"),
        }
    };
    assert_eq!(passed(&mut router(), from_host), 0);
    let mut powerless = router();
    let mut interface = powerless.interfaces.by_id(ETH2).expect("it is there").clone();
    interface.reservable = Rate::ZERO;
    powerless.interfaces.set(interface);
    assert_eq!(passed(&mut powerless, from_host), Session::E_POLICE);
    assert_eq!(passed(&mut router(), path()), 0);
}

/// After the end of the reservation nothing is requested upstream.
#[test]
fn resv_refresh_ends_with_reservation() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    router.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])));
    let outcomes = router.pass(Duration::from_secs(150));
    assert!(kinds(&outcomes).iter().all(|kind| *kind == "Path"), "{:?}", kinds(&outcomes));
}

/// The TTL of messages that follow the data decreases at each hop, and ends them.
#[test]
fn ttl_limits_path_and_path_tear() {
    for received in [63, 2, 1] {
        let mut router = router();
        let path = octets(Body::Path(path()), received);
        let tear = octets(Body::PathTear(path_tear()), received);
        for message in [&path, &tear] {
            let outcomes = router.receive_octets(ETH1, ip(RECEIVER), received, message);
            let ttls: Vec<_> = sent(&outcomes).iter().map(|(how, _)| how.ttl).collect();
            assert_eq!(ttls, if received > 1 { vec![received - 1] } else { vec![] });
        }
        assert_eq!(router.engine.population(), (0, 0, 0));
    }
}

/// RFC 2205 section 3.2, rule 1: zero and non-zero ports of one destination must not be mixed, whichever of its
/// sessions exist.
#[test]
fn zero_and_nonzero_ports_of_destination_conflict() {
    let with_port = |port: u16| {
        let mut path = path();
        path.session.port = port;
        if port == 0 {
            path.sender.template.selector = SourceSelector::Port(0);
        }
        path
    };
    let tear = |router: &mut Bench, port: u16| {
        let Path { session, hop, carried, sender, .. } = with_port(port);
        let template = sender.template;
        let tear = PathTear { session, hop, carried, template, tspec: None };
        router.receive(ETH1, Body::PathTear(tear));
    };
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let mut router = router();
        for port in 1..=3 {
            router.receive(ETH1, Body::Path(with_port(port)));
        }
        for port in order {
            let outcomes = router.receive(ETH1, Body::Path(with_port(0)));
            assert_eq!(kinds(&outcomes), ["PathErr"], "{order:?}: {port} is still there");
            tear(&mut router, port);
        }
        assert_eq!(kinds(&router.receive(ETH1, Body::Path(with_port(0)))), ["Path"], "{order:?}");
        assert_eq!(kinds(&router.receive(ETH1, Body::Path(with_port(1)))), ["PathErr"]);
        tear(&mut router, 0);
        assert_eq!(kinds(&router.receive(ETH1, Body::Path(with_port(1)))), ["Path"]);
    }
}

/// RFC 2205 section 3.10: forwarded objects follow the latest message, and changed ones are a change.
#[test]
fn forwarded_objects_follow_latest_message() {
    let (old, new) = ([0, 8, 0xfe, 9, 1, 2, 3, 4], [0, 8, 0xfe, 9, 5, 6, 7, 8]);
    let carried = |outcomes: &[Outcome], kind: &str| {
        sent(outcomes)
            .iter()
            .find_map(|(_, message)| match message.body {
                Body::Path(path) if kind == "Path" => Some(path.carried),
                Body::Resv(resv) if kind == "Resv" => Some(resv.carried),
                _ => None,
            })
            .map(|carried| carried.iter().flat_map(|object| object.bytes.to_vec()).collect())
    };
    let mut router = router();
    router.receive(ETH1, Body::Path(Path { carried: Carried::Objects(&old), ..path() }));
    let later = Path { carried: Carried::Objects(&new), ..path() };
    let outcomes = router.receive(ETH1, Body::Path(later));
    assert_eq!(carried(&outcomes, "Path"), Some(new.to_vec()));

    let flows = [flow(2)];
    let first = Resv { carried: Carried::Objects(&old), ..resv(&flows) };
    assert_eq!(carried(&router.receive(ETH2, Body::Resv(first)), "Resv"), Some(old.to_vec()));
    let later = Resv { carried: Carried::Objects(&new), ..resv(&flows) };
    router.receive(ETH2, Body::Resv(later));
    let refresh = router.pass(Duration::from_secs(46));
    assert_eq!(carried(&refresh, "Resv"), Some(new.to_vec()));
}

/// A changed ADSPEC is reported to receivers here; next hops get it with the refresh.
#[test]
fn changed_adspec_notifies_receivers() {
    let application = Application(1);
    let mut host = receiver();
    host.command(Command::Session { application, session: session() });
    host.receive(ETH1, Body::Path(path()));
    let body = adspec();
    let mut advertised = path();
    advertised.sender.adspec = Some(&body);
    let reported = events(&host.receive(ETH1, Body::Path(advertised)));
    assert!(matches!(reported[..], [Event::Path { offer: Some(_), .. }]), "{reported:?}");
}

/// A sender whose data only passes through is not reported to applications of this host, even if they have its session
/// open.
#[test]
fn transit_sender_notifies_no_application() {
    let mut router = router();
    router.command(Command::Session { application: Application(1), session: session() });
    let reported = events(&router.receive(ETH1, Body::Path(path())));
    assert!(matches!(reported[..], [Event::PathState { .. }]), "{reported:?}");
}

/// A ResvConf is forwarded to the receiver in it, and nowhere else.
#[test]
fn confirmation_is_forwarded_to_its_receiver_only() {
    let flows = [flow(2)];
    let (node, code) = (ip("10.0.0.1"), ErrorCode::Confirmation);
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec { node, flags: 0, code, value: 0 },
        confirm: ip(RECEIVER),
        carried: Carried::NONE,
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    let mut router = router();
    let octets = octets(Body::ResvConf(confirmation), 63);
    for (destination, received, reason) in
        [("10.0.9.10", 63, DropReason::BadHop), (RECEIVER, 1, DropReason::TtlExpired)]
    {
        let outcomes = router.receive_octets(ETH1, ip(destination), received, &octets);
        let events = events(&outcomes);
        assert!(
            matches!(events[..], [Event::Dropped { reason: r, .. }] if r == reason),
            "{events:?}"
        );
        assert_eq!(sent(&outcomes), []);
    }
}

/// SENDER again: a new TTL or Tspec is announced at once, and with another template the old sender ends.
#[test]
fn second_sender_command_changes_sender() {
    let application = Application(1);
    let mut host = sender();
    host.command(Command::Session { application, session: session() });
    let send = |template: FilterSpec, mbps: u32, ttl: u8| Command::Sender {
        application,
        template,
        tspec: tspec(mbps),
        ttl,
    };
    host.command(send(template(), 2, 63));
    assert_eq!(host.command(send(template(), 2, 63)), [], "nothing new");
    let outcomes = host.command(send(template(), 2, 9));
    assert_eq!(sent(&outcomes).iter().map(|(how, _)| how.ttl).collect::<Vec<_>>(), [9]);
    assert_eq!(kinds(&host.command(send(template(), 3, 9))), ["Path"]);
    let other = FilterSpec { selector: SourceSelector::Port(4_001), ..template() };
    assert_eq!(kinds(&host.command(send(other, 3, 9))), ["PathTear", "Path"]);
    assert_eq!(host.engine.population(), (1, 1, 0));
}
