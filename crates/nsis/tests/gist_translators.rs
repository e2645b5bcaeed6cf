//! Queries of applications that a translator does not serve (RFC 5971 section 7.2.2).

mod common;

use std::time::Duration;

use common::application::{Call, Handle};
use common::{Network, Place, flow, session};
use earmark_nsis::Config;
use earmark_nsis::gist::DropReason;
use earmark_nsis::natfw::{self, Translator};
use earmark_wire::gist::iana::subcode::object_type;
use earmark_wire::gist::{Body, ErrorCode, MessageType, Mri};

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
