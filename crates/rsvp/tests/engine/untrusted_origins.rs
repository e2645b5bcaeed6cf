//! Origins of messages: who may create, change, end or ask for which state.
//!
//! A router has three interfaces: the data arrive through eth1 and leave through eth2, and an attacker is behind eth3.
//! Each kind of message is sent from each place with interfaces of each role. Expected outcomes follow from the rules of
//! docs/security.md, not from the engine.

use earmark_core::{InterfaceId, Rate, Role, Secret};
use earmark_rsvp::integrity::{Algorithm, Directions, Key, Settings};
use earmark_rsvp::{Config, DropReason, Event, limits};
use earmark_wire::rsvp::{
    Body, Carried, Diagnosis, Diagnostic, ErrorCode, ErrorSpec, FilterSpec, FlowDescriptors, List,
    Path, ResvConf, RsvpHop, Session, SourceSelector, Style,
};

use crate::common::*;
use crate::origins::*;
use crate::signing::*;

/// Whether interfaces of these roles may act for each other.
fn is_allowed(arrival: Role, at: Role) -> bool {
    (arrival, at) == (Core, Core)
}

/// A Resv, a ResvTear, a PathErr and a ResvErr with the neighbour's own addresses and handles, from the attacker's port.
#[test]
fn message_acts_at_another_interface_only_between_core_interfaces() {
    let flows = [flow(1)];
    let same = [flow(2)];
    for roles in ROLES {
        let [eth1, eth2, eth3] = roles;
        let refused = |outcomes: &[Outcome], allowed: bool, what: &str| {
            let expected = if allowed { vec![] } else { vec![DropReason::OtherInterface] };
            assert_eq!(dropped(outcomes), expected, "{what} {roles:?}");
        };
        let mut bench = reserved(Config::default(), roles);
        let outcomes = bench.receive(ETH3, Body::Resv(resv(&flows)));
        refused(&outcomes, is_allowed(eth3, eth2), "Resv");
        let left = if is_allowed(eth3, eth2) { 1 } else { 2 };
        assert_eq!(bench.held(), Rate::from_mbps(left), "{roles:?}");

        let mut bench = reserved(Config::default(), roles);
        let outcomes = bench.receive(ETH3, Body::ResvTear(resv_tear(&same)));
        refused(&outcomes, is_allowed(eth3, eth2), "ResvTear");
        let left = if is_allowed(eth3, eth2) { 0 } else { 2 };
        assert_eq!(bench.held(), Rate::from_mbps(left), "{roles:?}");

        let outcomes = reserved(Config::default(), roles).receive(ETH3, Body::PathErr(path_err()));
        refused(&outcomes, is_allowed(eth3, eth2), "PathErr");
        assert_eq!(sends(&outcomes), usize::from(is_allowed(eth3, eth2)), "{roles:?}");

        let error = resv_err(UPSTREAM, FlowDescriptors::FixedFilter(List::Items(&same)));
        let outcomes = reserved(Config::default(), roles).receive(ETH3, Body::ResvErr(error));
        refused(&outcomes, is_allowed(eth3, eth1), "ResvErr");
        assert_eq!(sends(&outcomes), usize::from(is_allowed(eth3, eth1)), "{roles:?}");
    }
}

/// A ResvErr through the right interface, from a node that is not the previous hop, in each style.
#[test]
fn resv_err_is_believed_from_previous_hop_only() {
    let (flows, filters) = ([flow(2)], [template()]);
    let all = [
        FlowDescriptors::FixedFilter(List::Items(&flows)),
        FlowDescriptors::SharedExplicit(Some(flowspec(2)), List::Items(&filters)),
        FlowDescriptors::Wildcard(Some(flowspec(2))),
    ];
    for flows in all {
        for (hop, reason) in [("10.0.1.77", Some(DropReason::OtherHop)), (UPSTREAM, None)] {
            let mut bench = with_config(Config::default());
            bench.receive(ETH1, Body::Path(path()));
            let mut request = resv(&[]);
            request.flows = flows;
            bench.receive(ETH2, Body::Resv(request));
            assert_eq!(bench.held(), Rate::from_mbps(2));
            let outcomes = bench.receive(ETH1, Body::ResvErr(resv_err(hop, flows)));
            let style: Style = flows.style();
            assert_eq!(dropped(&outcomes).first().copied(), reason, "{style:?}");
            assert_eq!(sends(&outcomes), usize::from(reason.is_none()), "{style:?}");
            // The request is not in blockade state: a smaller one would not be sent upstream.
            assert_eq!(bench.held(), Rate::from_mbps(2), "{style:?}");
        }
    }
}

/// eth2 accepts only signed messages. An unsigned one from another core interface has no effect there, in a Bundle or alone;
/// a signed one has.
#[test]
fn protection_of_interface_holds_for_messages_through_others() {
    let integrity = Settings {
        interfaces: [("eth2".to_owned(), Directions::Both)].into(),
        ..settings(vec![key(KEY, Algorithm::HmacSha256)])
    };
    let both = Settings {
        interfaces: ["eth2", "eth3"].map(|name| (name.to_owned(), Directions::Both)).into(),
        ..integrity.clone()
    };
    let flows = [flow(2)];
    for (integrity, is_signed) in [(integrity, false), (both, true)] {
        let mut bench = with_config(Config { integrity, ..Config::default() });
        bench.add_interface(ETH3, "10.0.3.1");
        bench.receive(ETH1, Body::Path(path()));
        let signed = |bench: &mut Bench, interface, body, sequence| {
            let octets = Signer { sequence, ..SIGNER }.sign(&octets(body, 64));
            let address = bench.interfaces.by_id(interface).expect("known").addresses[0];
            bench.receive_octets(interface, address, 64, &octets)
        };
        let lih = bench.engine.lih(ETH2);
        let hop = RsvpHop { address: ip(DOWNSTREAM), lih };
        let mut request = resv(&flows);
        request.hop = hop;
        signed(&mut bench, ETH2, Body::Resv(request), 1);
        assert_eq!(bench.held(), Rate::from_mbps(2));
        let mut tear = resv_tear(&flows);
        tear.hop = hop;
        let outcomes = match is_signed {
            true => signed(&mut bench, ETH3, Body::ResvTear(tear), 2),
            false => bench.receive(ETH3, Body::ResvTear(tear)),
        };
        let (reasons, left) = if is_signed { (vec![], 0) } else { (vec![DropReason::Unsigned], 2) };
        assert_eq!(dropped(&outcomes), reasons);
        assert_eq!(bench.held(), Rate::from_mbps(left));
    }
}

/// eth2 accepts one neighbour only. The hop of a Resv through another core interface must be that neighbour.
#[test]
fn neighbors_of_interface_hold_for_messages_through_others() {
    let only = |range: &str| limits::Interface {
        neighbors: vec![range.parse().expect("a range")],
        ..limits::Interface::default()
    };
    let interfaces = [("eth2".to_owned(), only("10.0.2.2/32"))].into();
    let limits = limits::Settings { interfaces, ..limits::Settings::default() };
    let mut bench = reserved(Config { limits, ..Config::default() }, [Core; 3]);
    let flows = [flow(1)];
    let mut foreign = resv(&flows);
    foreign.hop.address = ip(ATTACKER);
    let outcomes = bench.receive(ETH3, Body::Resv(foreign));
    assert_eq!(dropped(&outcomes), [DropReason::UnknownNeighbor]);
    assert_eq!(bench.held(), Rate::from_mbps(2));
}

/// A Path with another host's address, from the attacker's port: a new sender, and one that takes over the sender of
/// somebody else.
#[test]
fn source_must_be_behind_access_interface() {
    for roles in ROLES {
        let hop = RsvpHop { address: ip(ATTACKER), lih: 1 };
        let mut bench = reserved(Config::default(), roles);
        let is_trusted = roles[2] == Core;
        let reasons = if is_trusted { vec![] } else { vec![DropReason::SourceElsewhere] };
        for session in [session(), Session { port: 5_006, ..session() }] {
            let outcomes = bench.receive(ETH3, Body::Path(Path { hop, session, ..path() }));
            assert_eq!(dropped(&outcomes), reasons, "{roles:?}");
        }
        let senders = if is_trusted { 2 } else { 1 };
        assert_eq!(bench.engine.population().1, senders, "{roles:?}");
        // The state still hangs on its previous hop: its PathTear is honoured, unless the sender was taken over.
        let outcomes = bench.receive(ETH1, Body::PathTear(path_tear()));
        let expected = if is_trusted { vec![DropReason::OtherHop] } else { vec![] };
        assert_eq!(dropped(&outcomes), expected, "{roles:?}");
    }
}

/// Answers and errors go to the hop that a message names: on an access interface it is behind that interface, so that
/// nobody lets them go round between routers.
#[test]
fn hop_must_be_behind_access_interface() {
    let flows = [flow(1)];
    for (role, hop, is_possible) in [
        (Access, ATTACKER, true),
        (Access, UPSTREAM, false),
        (Access, DOWNSTREAM, false),
        (Access, "192.0.2.7", false),
        (Core, ATTACKER, true),
        (Core, UPSTREAM, true),
    ] {
        let reasons = if is_possible { vec![] } else { vec![DropReason::BadHop] };
        let hop = RsvpHop { address: ip(hop), lih: 1 };
        let mut bench = reserved(Config::default(), [Core, Core, role]);
        let mut path = Path { hop, ..path() };
        path.sender.template.source = ip(ATTACKER);
        let outcomes = bench.receive(ETH3, Body::Path(path));
        assert_eq!(dropped(&outcomes), reasons, "Path, {role:?} {hop:?}");
        // A known sender gets no other previous hop.
        let mut bench = reserved(Config::default(), [Core, Core, role]);
        bench.receive(ETH3, Body::Path(Path { hop: own_hop(), ..path }));
        let outcomes = bench.receive(ETH3, Body::Path(path));
        assert_eq!(dropped(&outcomes), reasons, "known sender, {role:?} {hop:?}");
    }
    for (role, hop, is_possible) in [
        (Access, DOWNSTREAM, true),
        (Access, UPSTREAM, false),
        (Access, ATTACKER, false),
        (Core, DOWNSTREAM, true),
        (Core, UPSTREAM, true),
    ] {
        let reasons = if is_possible { vec![] } else { vec![DropReason::BadHop] };
        let mut bench = reserved(Config::default(), [Access, role, Access]);
        let mut resv = resv(&flows);
        resv.hop.address = ip(hop);
        let outcomes = bench.receive(ETH2, Body::Resv(resv));
        assert_eq!(dropped(&outcomes), reasons, "Resv, {role:?} {hop}");
    }
}

fn own_hop() -> RsvpHop {
    RsvpHop { address: ip(ATTACKER), lih: 1 }
}

/// The sources behind an access interface can be configured.
#[test]
fn configured_sources_replace_routes() {
    let mut bench = reserved(Config::default(), [Access; 3]);
    let mut eth3 = bench.interfaces.by_id(ETH3).expect("an interface").clone();
    eth3.trust.sources = vec!["10.0.0.0/24".parse().expect("a prefix")];
    bench.interfaces.set(eth3);
    let hop = RsvpHop { address: ip(ATTACKER), lih: 1 };
    let outcomes = bench.receive(ETH3, Body::Path(Path { hop, ..path() }));
    assert_eq!(dropped(&outcomes), []);
}

/// A ResvConf for a receiver on this host counts only from where the data come from.
#[test]
fn confirmation_comes_from_senders() {
    let flows = [flow(2)];
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec { code: ErrorCode::Confirmation, value: 0, ..error_spec(UPSTREAM) },
        confirm: ip("10.0.1.2"),
        carried: Carried::Objects(&[]),
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    let mut bench = reserved(Config::default(), [Access; 3]);
    let outcomes = bench.receive(ETH3, Body::ResvConf(confirmation));
    assert_eq!(dropped(&outcomes), [DropReason::OtherInterface]);
    let outcomes = bench.receive(ETH1, Body::ResvConf(confirmation));
    assert_eq!(dropped(&outcomes), [DropReason::NotForUs], "nobody here has asked");
}

/// Returns the events of a kind, so that a test fails if none was expected.
fn refusals(outcomes: &[Outcome]) -> usize {
    events(outcomes).iter().filter(|event| matches!(event, Event::Dropped { .. })).count()
}

/// Each refused message is reported once.
#[test]
fn refusal_is_counted_and_reported() {
    let mut bench = reserved(Config::default(), [Access; 3]);
    let same = [flow(2)];
    let outcomes = bench.receive(ETH3, Body::ResvTear(resv_tear(&same)));
    assert_eq!(refusals(&outcomes), 1);
    let counted = bench.engine.counters().iter();
    let other =
        counted.filter(|(group, name, _)| (*group, *name) == ("dropped", "other_interface"));
    assert_eq!(other.map(|(_, _, count)| count).sum::<u64>(), 1);
}

/// A DREQ that begins at this node, through one of its interfaces and with an answer to `requester`.
fn ask(bench: &mut Bench, interface: InterfaceId, requester: &str) -> Vec<DropReason> {
    let own = bench.interfaces.by_id(interface).expect("known").addresses[0];
    let requester = FilterSpec { source: ip(requester), selector: SourceSelector::Port(4_444) };
    let diagnostic = Diagnostic {
        max_hops: 0,
        hop_count: 0,
        more_fragments: false,
        request_id: 1,
        path_mtu: 1_400,
        fragment_offset: 0,
        last_hop: own,
        sender: template(),
        requester,
    };
    let question = Diagnosis {
        session: session(),
        hop: RsvpHop { address: ip(ATTACKER), lih: 0 },
        diagnostic,
        select: None,
        route: None,
        responses: List::Items(&[]),
        carried: Carried::Objects(&[]),
    };
    dropped(&bench.receive(interface, Body::Dreq(question)))
}

/// Behind an access interface the ends of a flow may ask about it, through the interfaces of its path; behind a core
/// interface everybody may.
#[test]
fn state_is_shown_to_those_whose_data_it_concerns() {
    let (sender, stranger) = ("10.0.0.1", ATTACKER);
    assert_eq!(template().source, ip(sender));
    for (roles, interface, requester, expected) in [
        ([Access; 3], ETH2, RECEIVER, vec![]),
        ([Access; 3], ETH1, sender, vec![]),
        ([Access; 3], ETH3, stranger, vec![DropReason::DiagnosticsOff]),
        ([Access; 3], ETH2, stranger, vec![DropReason::DiagnosticsOff]),
        ([Access; 3], ETH3, RECEIVER, vec![DropReason::DiagnosticsOff]),
        ([Access, Access, Core], ETH3, stranger, vec![]),
    ] {
        let mut bench = reserved(Config::default(), roles);
        assert_eq!(ask(&mut bench, interface, requester), expected, "{interface:?} {requester}");
    }
}

/// Two interfaces have keys of their own with the same identifier. A key of one does not sign for the other.
#[test]
fn key_of_another_interface_with_same_identifier_does_not_sign_for_this_one() {
    let on = |name: &str, secret: &[u8]| Key {
        secret: Secret::new(secret),
        interfaces: vec![name.to_owned()],
        ..key(KEY, Algorithm::HmacSha256)
    };
    let integrity = Settings {
        interfaces: ["eth2", "eth3"].map(|name| (name.to_owned(), Directions::Both)).into(),
        ..settings(vec![on("eth2", b"of eth2"), on("eth3", b"of eth3")])
    };
    let mut bench = with_config(Config { integrity, ..Config::default() });
    bench.add_interface(ETH3, "10.0.3.1");
    bench.receive(ETH1, Body::Path(path()));
    let flows = [flow(2)];
    let hop = RsvpHop { address: ip(DOWNSTREAM), lih: bench.engine.lih(ETH2) };
    let signed = |bench: &mut Bench, interface, signer: Signer, body| {
        let octets = signer.sign(&octets(body, 64));
        let address = bench.interfaces.by_id(interface).expect("known").addresses[0];
        bench.receive_octets(interface, address, 64, &octets)
    };
    let mut request = resv(&flows);
    request.hop = hop;
    signed(&mut bench, ETH2, Signer { secret: b"of eth2", ..SIGNER }, Body::Resv(request));
    assert_eq!(bench.held(), Rate::from_mbps(2));
    let mut tear = resv_tear(&flows);
    tear.hop = hop;
    let attacker = Signer { secret: b"of eth3", sequence: 2, ..SIGNER };
    let outcomes = signed(&mut bench, ETH3, attacker, Body::ResvTear(tear));
    assert_eq!(dropped(&outcomes), [DropReason::Unsigned]);
    assert_eq!(bench.held(), Rate::from_mbps(2));
}
