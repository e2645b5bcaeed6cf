//! Origins of messages: who may create, change, end or ask for which state.
//!
//! A router has three interfaces: the data arrive through eth1 and leave through eth2, and an attacker is behind eth3.
//! Each kind of message is sent from each place with interfaces of each role. Expected outcomes follow from the rules of
//! docs/security.md, not from the engine.

mod common;
#[path = "common/signing.rs"]
mod signing;

use std::time::Duration;

use common::*;
use earmark_core::{Datagram, Input, InterfaceId, Rate, Role, Secret, Trust};
use earmark_rsvp::integrity::{Algorithm, Directions, Key, Settings};
use earmark_rsvp::{Config, DropReason, Event, limits};
use earmark_wire::rsvp::{
    Body, Carried, Diagnosis, Diagnostic, ErrorCode, ErrorSpec, FilterSpec, FlowDescriptors, List,
    Path, PathErr, ResvConf, ResvErr, RsvpHop, Session, SourceSelector, Style,
};
use signing::*;

const ATTACKER: &str = "10.0.3.2";

/// Roles of eth1, eth2 and eth3.
type Roles = [Role; 3];
use Role::{Access, Core};

const ROLES: [Roles; 5] = [
    [Access, Access, Access],
    [Core, Core, Access],
    [Access, Core, Core],
    [Core, Access, Core],
    [Core, Core, Core],
];

fn set_roles(bench: &mut Bench, roles: Roles) {
    for (id, role) in [ETH1, ETH2, ETH3].into_iter().zip(roles) {
        let mut interface = bench.interfaces.by_id(id).expect("an interface").clone();
        interface.trust = Trust { role, sources: vec![] };
        bench.interfaces.set(interface);
    }
}

/// Returns a router with a reservation of 2 Mbit/s on eth2.
fn reserved(config: Config, roles: Roles) -> Bench {
    let mut bench = with_config(config);
    bench.add_interface(ETH3, "10.0.3.1");
    bench.add_route("10.0.3.0/24", ETH3, None);
    set_roles(&mut bench, roles);
    bench.receive(ETH1, Body::Path(path()));
    bench.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(bench.held(), Rate::from_mbps(2));
    bench
}

fn error_spec(node: &str) -> ErrorSpec {
    let code = ErrorCode::AdmissionControlFailure;
    ErrorSpec { node: ip(node), flags: 0, code, value: 2 }
}

fn path_err() -> PathErr<'static> {
    PathErr {
        session: session(),
        error: error_spec("10.0.9.1"),
        carried: Carried::Objects(&[]),
        sender: Some((template(), Some(tspec(2)))),
    }
}

fn resv_err<'a>(hop: &str, flows: FlowDescriptors<'a>) -> ResvErr<'a> {
    ResvErr {
        session: session(),
        hop: RsvpHop { address: ip(hop), lih: 77 },
        error: error_spec("10.0.0.254"),
        scope: None,
        carried: Carried::Objects(&[]),
        flows,
    }
}

fn sends(outcomes: &[Outcome]) -> usize {
    sent(outcomes).len()
}

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

/// State from an access interface lives for a bounded time whatever period is announced; from a core interface it lives
/// as announced. Summary refreshes do not extend the bound.
#[test]
fn lifetime_of_access_state_is_bounded() {
    for (role, survives) in [(Access, false), (Core, true)] {
        let mut bench = reserved(Config::default(), [role; 3]);
        bench.receive(ETH1, Body::Path(Path { refresh_ms: u32::MAX, ..path() }));
        bench.pass(Duration::from_secs(700));
        assert_eq!(bench.engine.population().1 == 1, survives, "{role:?}");
    }
}

fn announce(bench: &mut Bench, interface: InterfaceId, port: u16) -> Vec<Outcome> {
    // The source is behind eth3, and the hop a new neighbour each time.
    let source = if interface == ETH3 { ip(ATTACKER) } else { template().source };
    let mut path = Path { session: Session { port, ..session() }, ..path() };
    path.sender.template.source = source;
    path.hop.address = match interface {
        ETH3 => std::net::Ipv4Addr::from_bits(0x0a00_0300 + u32::from(port) % 250 + 2).into(),
        _ => path.hop.address,
    };
    bench.receive(interface, Body::Path(path))
}

/// Who floods uses up the limits of its own port only, whatever addresses it writes; errors are limited, too.
#[test]
fn flood_of_one_port_leaves_other_ports_their_limits() {
    let access = limits::Access {
        max_blocks: 50,
        changes_per_second: 100,
        errors_per_second: 10,
        ..limits::Access::default()
    };
    let limits = limits::Settings { access, ..limits::Settings::default() };
    let mut bench = reserved(Config { limits, ..Config::default() }, [Access; 3]);
    let errors: usize = (1..=1_000)
        .map(|port| announce(&mut bench, ETH3, port))
        .map(|outcomes| {
            let is_error = |body: &Body<'_>| matches!(body, Body::PathErr(_));
            sent(&outcomes).iter().filter(|(_, message)| is_error(&message.body)).count()
        })
        .sum();
    assert_eq!((bench.engine.population().1, errors), (1 + 50, 10));
    assert_eq!(bench.engine.counters().suppressed_errors, 1_000 - 50 - 10);
    for port in 2_001..=2_040 {
        assert_eq!(dropped(&announce(&mut bench, ETH1, port)), [], "an honest sender");
    }
    assert_eq!(bench.engine.population().1, 1 + 50 + 40);
    // Existing state of the flooding port is refreshed as before.
    assert_eq!(dropped(&announce(&mut bench, ETH3, 1)), []);
}

/// A port that takes whatever it gets leaves another one its part of the table.
#[test]
fn port_that_floods_leaves_another_its_part() {
    let mut bench = reserved(Config { max_sessions: 100, ..Config::default() }, [Access; 3]);
    (1..=1_000).for_each(|port| drop(announce(&mut bench, ETH3, port)));
    // A quarter of the table in equal parts for three interfaces and the node itself; one sender of this one is there.
    for port in 2_001..=2_005 {
        assert_eq!(dropped(&announce(&mut bench, ETH1, port)), [], "{port}");
    }
    assert!(!dropped(&announce(&mut bench, ETH1, 2_006)).is_empty(), "its part is used");
    assert_eq!(bench.engine.population().1, 100 - 2 * 6, "the other parts are left");
}

/// New and changed senders of one port take at most half of the signalling share of a link, and leave the other half to
/// the senders of others. Links between routers of one administration have no such limit.
#[test]
fn flood_of_one_port_leaves_others_their_share_of_signalling() {
    let count_sent = |bench: &mut Bench, from: InterfaceId, port: u16| {
        let outcomes = announce(bench, from, port);
        sent(&outcomes).iter().filter(|(_, message)| matches!(message.body, Body::Path(_))).count()
    };
    for (flooding, most) in [([Access; 3], true), ([Access, Access, Core], false)] {
        let mut bench = reserved(Config::default(), flooding);
        let share = bench.interfaces.by_id(ETH2).expect("the link").requests_per_second() as usize;
        let forwarded: usize = (1..=1_000).map(|port| count_sent(&mut bench, ETH3, port)).sum();
        assert_eq!(forwarded, if most { share } else { 1_000 });
        let others: usize = (2_001..=2_100).map(|port| count_sent(&mut bench, ETH1, port)).sum();
        assert_eq!(others, 100, "honest senders");
    }
    // One sender that changes all the time counts as well.
    let mut bench = reserved(Config::default(), [Access; 3]);
    let share = bench.interfaces.by_id(ETH2).expect("the link").requests_per_second() as usize;
    let forwarded = (1..=1_000).filter(|number| {
        let mut changed = path();
        changed.sender.tspec.rate += *number as f32;
        let outcomes = bench.receive(ETH1, Body::Path(changed));
        sent(&outcomes).iter().any(|(_, message)| matches!(message.body, Body::Path(_)))
    });
    assert_eq!(forwarded.count(), share - 1, "and the sender itself");
}

/// Challenges of strangers do not use up the answers that a neighbour gets.
#[test]
fn challenges_of_others_leave_neighbor_its_answers() {
    let mut integrity = settings(vec![key(KEY, Algorithm::HmacSha256)]);
    integrity.answers_per_second = 5;
    let mut bench = with_config(Config { integrity, ..Config::default() });
    let challenge = |cookie| {
        let challenge = earmark_wire::rsvp::Challenge { key_id: KEY, cookie };
        octets(Body::IntegrityChallenge(challenge), 64)
    };
    let answers = |bench: &mut Bench, interface, source: &str, number: u64| {
        let payload = challenge(number);
        let datagram = Datagram {
            interface,
            source: ip(source),
            destination: ip("10.0.1.2"),
            ttl: 64,
            router_alert: false,
            encapsulated: false,
            payload: &payload,
        };
        let outcomes = bench.handle(Input::Datagram(datagram));
        sent(&outcomes)
            .iter()
            .filter(|(_, message)| matches!(message.body, Body::IntegrityResponse(_)))
            .count()
    };
    // With an address of its own on the neighbour's port, and with the neighbour's address on another port.
    for (interface, source) in [(ETH1, "10.0.1.77"), (ETH2, UPSTREAM)] {
        let flood = (0..3_400).map(|number| answers(&mut bench, interface, source, number));
        assert_eq!(flood.sum::<usize>(), 5, "{source}");
    }
    assert_eq!(answers(&mut bench, ETH1, UPSTREAM, 1), 1);
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

/// Delivers a message of the neighbour at an interface with this TTL, encapsulated in UDP or not.
fn deliver(
    bench: &mut Bench,
    interface: InterfaceId,
    ttl: u8,
    encapsulated: bool,
    body: Body<'_>,
) -> Vec<Outcome> {
    let source = if interface == ETH1 { UPSTREAM } else { DOWNSTREAM };
    deliver_from(bench, source, interface, ttl, encapsulated, body)
}

/// Delivers a message in the name of a neighbour to the router's own address.
fn deliver_from(
    bench: &mut Bench,
    source: &str,
    interface: InterfaceId,
    ttl: u8,
    encapsulated: bool,
    body: Body<'_>,
) -> Vec<Outcome> {
    let payload = octets(body, ttl);
    let destination = bench.interfaces.by_id(interface).expect("known").addresses[0];
    let datagram = Datagram {
        interface,
        source: ip(source),
        destination,
        ttl,
        router_alert: false,
        encapsulated,
        payload: &payload,
    };
    bench.handle(Input::Datagram(datagram))
}

/// Where the neighbours of a router are, and what it knows of them.
#[derive(Clone, Copy, Debug)]
struct Neighborhood {
    /// Role of all interfaces.
    role: Role,
    /// Whether the configuration of the interfaces names the neighbours.
    is_named: bool,
    /// Whether the neighbours have sent a message with TTL 255.
    is_near: bool,
}

impl Neighborhood {
    /// Returns all that there are.
    fn all() -> impl Iterator<Item = Neighborhood> {
        let of = |[is_named, is_near]: [bool; 2]| {
            [Core, Access].map(|role| Neighborhood { role, is_named, is_near })
        };
        [[false, false], [false, true], [true, false], [true, true]].into_iter().flat_map(of)
    }

    /// Returns whether messages that a router has forwarded may be those of the neighbours.
    fn may_be_elsewhere(self) -> bool {
        !self.is_near && (self.role == Access || self.is_named)
    }

    /// Returns a router with a reservation between such neighbours.
    fn reserved(self) -> Bench {
        let named = limits::Interface {
            neighbors: vec!["10.0.0.0/14".parse().expect("a range")],
            ..limits::Interface::default()
        };
        let names = ["eth1", "eth2", "eth3"].into_iter().filter(|_| self.is_named);
        let interfaces = names.map(|name| (name.to_owned(), named.clone())).collect();
        let limits = limits::Settings { interfaces, ..limits::Settings::default() };
        let mut bench = with_config(Config { limits, ..Config::default() });
        bench.add_interface(ETH3, "10.0.3.1");
        bench.add_route("10.0.2.0/24", ETH2, None);
        bench.add_route("10.0.1.0/24", ETH1, None);
        set_roles(&mut bench, [self.role; 3]);
        bench.receive(ETH1, Body::Path(path()));
        let flows = [flow(2)];
        let mut request = resv(&flows);
        request.hop.lih = bench.engine.lih(ETH2);
        let ttl = if self.may_be_elsewhere() { 64 } else { 255 };
        deliver(&mut bench, ETH2, ttl, false, Body::Resv(request));
        assert_eq!(bench.held(), Rate::from_mbps(2));
        if self.is_near {
            let error = resv_err(UPSTREAM, FlowDescriptors::FixedFilter(List::Items(&flows)));
            deliver(&mut bench, ETH1, 255, false, Body::ResvErr(error));
        }
        bench
    }
}

/// RFC 5082: a message with a TTL below 255 comes from another link, because a router has forwarded it. In the name of a
/// neighbour behind a core interface it has no effect, unless the interface names the neighbour. In the name of any
/// neighbour that has sent a message with TTL 255, it has none. The previous hop is behind eth1, the next hop behind eth2;
/// the message arrives there or through eth3.
#[test]
fn message_from_another_link_is_dropped_if_neighbor_is_on_this_one() {
    let (less, same) = ([flow(1)], [flow(2)]);
    let headers = [(255, false), (254, false), (64, false), (255, true)];
    let cases = Neighborhood::all().flat_map(|neighborhood| {
        let elsewhere = if neighborhood.role == Core { vec![false, true] } else { vec![false] };
        let with_header = move |elsewhere| headers.map(|header| (neighborhood, header, elsewhere));
        elsewhere.into_iter().flat_map(with_header)
    });
    for (neighborhood, (ttl, encapsulated), elsewhere) in cases {
        let [eth1, eth2] = if elsewhere { [ETH3; 2] } else { [ETH1, ETH2] };
        let is_believed = (ttl == 255 && !encapsulated) || neighborhood.may_be_elsewhere();
        let reasons = if is_believed { vec![] } else { vec![DropReason::FromFar] };
        let what = format!(
            "{neighborhood:?}, TTL {ttl}, encapsulated: {encapsulated}, elsewhere: {elsewhere}"
        );

        let mut bench = neighborhood.reserved();
        let mut request = resv(&less);
        request.hop.lih = bench.engine.lih(ETH2);
        let outcomes = deliver(&mut bench, eth2, ttl, encapsulated, Body::Resv(request));
        assert_eq!(dropped(&outcomes), reasons, "Resv, {what}");
        assert_eq!(bench.held(), Rate::from_mbps(if is_believed { 1 } else { 2 }), "{what}");

        let mut bench = neighborhood.reserved();
        let mut tear = resv_tear(&same);
        tear.hop.lih = bench.engine.lih(ETH2);
        let outcomes = deliver(&mut bench, eth2, ttl, encapsulated, Body::ResvTear(tear));
        assert_eq!(dropped(&outcomes), reasons, "ResvTear, {what}");

        let mut bench = neighborhood.reserved();
        let error = Body::PathErr(path_err());
        let outcomes = deliver_from(&mut bench, DOWNSTREAM, eth2, ttl, encapsulated, error);
        assert_eq!(dropped(&outcomes), reasons, "PathErr, {what}");

        let mut bench = neighborhood.reserved();
        let error = resv_err(UPSTREAM, FlowDescriptors::FixedFilter(List::Items(&same)));
        let error = Body::ResvErr(error);
        let outcomes = deliver_from(&mut bench, UPSTREAM, eth1, ttl, encapsulated, error);
        assert_eq!(dropped(&outcomes), reasons, "ResvErr, {what}");
    }
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
