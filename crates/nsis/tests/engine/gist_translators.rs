//! Queries of applications that a translator does not serve (RFC 5971 section 7.2.2).

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{ApplicationId, Transport};
use earmark_nsis::gist::DropReason;
use earmark_nsis::natfw::{self, OpenRequest, Responder, Rule, Translator};
use earmark_nsis::nslp::{Attributes, Validity};
use earmark_nsis::{Command, Config};
use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::iana::subcode::object_type;
use earmark_wire::gist::{Body, Direction, ErrorCode, MessageType, Mri, PathCoupled};
use earmark_wire::natfw_nslp::iana::NSLPID as NATFW;

use crate::common::application::{Call, Handle};
use crate::common::{Network, Place, flow, session};

/// Port of GIST.
const PORT: u16 = 270;
const SECOND: Duration = Duration::from_secs(1);

/// A line of three nodes. The one between is a translator, whose second interface leads out of its network; only the ends have
/// the application.
fn through_translator(enabled: bool) -> (Network, [Handle; 2]) {
    let translator = natfw::Config {
        enabled,
        external: vec!["eth2".to_owned()],
        translator: Some(Translator::default()),
        ..natfw::Config::default()
    };
    let config = Config { natfw: translator, ..Config::default() };
    let usual = || Place::Aware(Config::default());
    let mut network = Network::line(&[usual(), Place::Aware(config), usual()]);
    let ends = [Handle::default(), Handle::default()];
    for (node, end) in [0, 2].into_iter().zip(&ends) {
        network.engine_mut(node).add(end.application());
    }
    (network, ends)
}

#[test]
fn query_that_leaves_a_translator_untranslated_is_refused() {
    let (mut network, ends) = through_translator(true);
    ends[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    assert_eq!(network.log(0), ["n0 Query", "n1 Error"]);
    let error = network.sent(1, MessageType::Error)[0].packet.message().expect("an Error");
    let Body::Error(error) = error.body else { panic!("{error:?}") };
    let (code, subcode) = (error.error.code, error.error.subcode);
    assert_eq!((code, subcode), (ErrorCode::ObjectType, object_type::UNTRANSLATED));
    assert_eq!(network.engine(1).gist().counters().ignored[&DropReason::Untranslated], 1);
    let calls = ends[0].calls();
    assert!(calls.iter().any(|call| matches!(call, Call::Failed { .. })), "{calls:?}");
    assert!(ends[1].received().is_empty());
}

#[test]
fn query_into_the_network_passes() {
    let (mut network, ends) = through_translator(true);
    let (source, destination) = network.flow().addresses();
    let inward: Mri = flow(destination, source);
    ends[1].send(inward, session(1), b"one.");
    network.run(SECOND);
    assert_eq!(ends[0].received(), [b"one."]);
}

#[test]
fn query_passes_a_translator_that_is_switched_off() {
    let (mut network, ends) = through_translator(false);
    ends[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    assert_eq!(ends[1].received(), [b"one."]);
}

/// Private IPv6 addresses are not translated.
#[test]
fn query_of_ipv6_passes() {
    let (mut network, ends) = through_translator(true);
    ends[0].send(network.flow_six(), session(1), b"one.");
    network.run(SECOND);
    assert_eq!(ends[1].received(), [b"one."]);
}

fn udp(source: (IpAddr, u16), destination: (IpAddr, u16), direction: Direction) -> Mri {
    Mri::PathCoupled(PathCoupled { direction, ..udp_flow(source, destination) })
}

/// Returns the MRIs of the messages that an application has received.
fn mris(end: &Handle) -> Vec<Mri> {
    let calls = end.calls();
    calls
        .iter()
        .filter_map(|call| match call {
            Call::Received { mri, .. } => Some(*mri),
            _ => None,
        })
        .collect()
}

/// The flow of an opened path: each node names it as its side does, in both directions, and the translator as it leaves.
#[test]
fn routing_state_of_a_translated_flow_has_one_mri_on_each_side() {
    for attributes in [Attributes::default(), Attributes { reliable: true, secure: false }] {
        let end = natfw::Config {
            enabled: true,
            responder: Responder::Any,
            attributes: Attributes::default(),
            ..natfw::Config::default()
        };
        let translator = natfw::Config {
            firewall: true,
            external: vec!["eth2".to_owned()],
            translator: Some(Translator::default()),
            rules: vec![Rule::default()],
            ..end.clone()
        };
        let place = |natfw| Place::Aware(Config { natfw, ..Config::default() });
        let mut network = Network::line(&[place(end.clone()), place(translator), place(end)]);
        let apps = [Handle::default(), Handle::default(), Handle::default()];
        for (node, app) in apps.iter().enumerate() {
            network.nodes[node].listens = vec![(PORT, Transport::Tcp)];
            network.engine_mut(node).add(app.application());
        }
        let (inside, server) = network.flow().addresses();
        let request = OpenRequest {
            source_port: Some(700),
            destination_port: Some(5_000),
            protocol: Some(17),
            ..OpenRequest::new(server)
        };
        let open = natfw::Command::Open { application: ApplicationId(1), request };
        network.command(0, Command::Natfw(open));
        network.run(SECOND);
        let rules = network.engine(1).natfw().pinholes();
        let outside = rules.filter_map(|row| row.rule.source).next().expect("a translation");
        let outside = (outside.address, outside.port);
        let near = |direction| udp((inside, 700), (server, 5_000), direction);
        let far = |direction| udp(outside, (server, 5_000), direction);
        let (down, up) = (Direction::Downstream, Direction::Upstream);

        apps[0].send_with(near(down), session(1), b"one.", attributes);
        network.run(SECOND);
        assert_eq!(mris(&apps[1]), [far(down)], "the translator names it as it leaves");
        apps[1].send_with(far(down), session(1), b"two.", attributes);
        network.run(SECOND);
        assert_eq!(mris(&apps[2]), [far(down)]);
        apps[2].send_with(far(up), session(1), b"back", attributes);
        network.run(SECOND);
        assert_eq!(mris(&apps[1]), [far(up)]);
        apps[1].send_with(far(up), session(1), b"home", attributes);
        network.run(SECOND);
        assert_eq!(mris(&apps[0]), [near(up)]);
        // It is refreshed on both sides while it is used, as one flow.
        for _ in 0..10 {
            apps[0].send_with(near(down), session(1), b"more", attributes);
            apps[1].send_with(far(down), session(1), b"more", attributes);
            network.run(20 * SECOND);
        }
        let of_application = |node: usize| {
            let views = network.engine(node).gist().routing_states(0);
            let all = views.map(|(_, view)| view).filter(|view| view.nslpid != NATFW);
            all.map(|view| (view.mri, view.validity)).collect::<Vec<_>>()
        };
        assert_eq!(of_application(0), [(near(down), Validity::Good)]);
        assert_eq!(of_application(1), [(far(down), Validity::Good), (far(up), Validity::Good)]);
        assert_eq!(of_application(2), [(far(up), Validity::Good)]);
    }
}
