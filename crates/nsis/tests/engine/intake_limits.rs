//! Limits of intake: what one port sends leaves enough for the others, and no claim of a message chooses whose limit is
//! used up. The network is that of `untrusted_origins.rs`.

use std::time::Duration;

use earmark_core::{Interface, InterfaceId, Rate, Time, Trust};
use earmark_nsis::gist::DropReason;
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::Application;
use earmark_wire::gist::{Body, Message, MessageType, SessionId};

use crate::common::forged;
use crate::origins::{NEXT, PORT_OF_STRANGERS, PREVIOUS, Protection, SESSION, Scene, VICTIM};

const HONEST: SessionId = SessionId([77; 16]);

/// Reserves for another session of the first node.
fn reserve_honestly(scene: &mut Scene) {
    scene.reserve(Application(9), HONEST, Attributes::default(), 6_009);
    let session = scene.network.engine(2).qos().session(HONEST);
    assert!(session.is_some(), "the honest reservation reaches the last node");
}

fn sessions(scene: &Scene) -> usize {
    scene.network.engine(VICTIM).qos().session_count()
}

/// Queries through another port, in the name of the previous node, do not use up the Queries of the previous node.
#[test]
fn queries_are_limited_by_port_and_not_by_claimed_sender() {
    let mut scene = Scene::with(Protection::Clear, false, |config| {
        config.gist.limits.queries_per_second = 1_000;
        config.gist.limits.queries_per_second_of_a_peer = 100;
    });
    let command = scene.reservation(Application(9), HONEST, Attributes::default(), 6_009);
    for number in 0..400_u32 {
        (0..5).for_each(|_| scene.query_of_port(number as u8));
        if number == 200 {
            scene.network.command(0, command.clone());
        }
        scene.network.run(Duration::from_millis(1));
    }
    let ignored = &scene.network.engine(VICTIM).gist().counters().ignored;
    assert!(ignored[&DropReason::Throttled] > 1_000, "{ignored:?}");
    assert!(scene.network.engine(2).qos().session(HONEST).is_some(), "within 200 ms");
}

/// Nodes with many addresses behind one port use three quarters of the peers, of the routing states and of the
/// sessions.
#[test]
fn one_port_uses_three_quarters_of_each_table() {
    for table in ["peers", "states", "sessions"] {
        let mut scene = Scene::with(Protection::Clear, false, |config| match table {
            "peers" => config.gist.limits.peers = 12,
            "states" => config.gist.limits.states = 12,
            _ => config.qos.limits.sessions = 12,
        });
        for host in 10..50 {
            scene.reserve_of_host(if table == "peers" { host } else { 10 }, host);
        }
        assert_eq!(sessions(&scene), 1 + 9, "{table}");
        reserve_honestly(&mut scene);
    }
}

/// New reservations in datagrams share one limit for each port, however many addresses are behind it.
#[test]
fn changes_are_limited_by_port() {
    let mut scene =
        Scene::with(Protection::Clear, false, |config| config.qos.limits.changes_per_second = 5);
    (10..30).for_each(|host| scene.reserve_of_host(host, host));
    // The handshakes take one second, and up to five changes may be saved up.
    assert!(sessions(&scene) <= 1 + 10, "{}", sessions(&scene));
    reserve_honestly(&mut scene);
}

/// New reservations, queries for resources, and Queries of other applications through one port take at most half of the
/// signalling class of a link.
#[test]
fn flood_of_one_port_leaves_others_their_share_of_signalling() {
    type Flood = fn(&mut Scene, u8);
    let reserve: Flood = |scene, number| scene.reserve_of_host(10, number);
    let ask: Flood = |scene, number| scene.ask_of_host(10, number);
    let query: Flood = |scene, number| scene.query_of_unserved_application(number);
    for (flood, is_limited) in [(reserve, true), (reserve, false), (ask, true), (query, true)] {
        let mut scene = Scene::new(Protection::Clear, false);
        let victim = &mut scene.network.nodes[VICTIM].interfaces;
        // 10 messages a second.
        let mut link = victim.by_id(InterfaceId(NEXT)).expect("a link").clone();
        link.bandwidth = Rate::from_bps(400_000);
        assert_eq!(link.requests_per_second(), 10);
        victim.set(link);
        if !is_limited {
            let port = InterfaceId(PORT_OF_STRANGERS);
            let trust = Trust::CORE;
            let port = Interface { trust, ..victim.by_id(port).expect("a port").clone() };
            victim.set(port);
        }
        let began = (scene.network.now, scene.network.sent(VICTIM, MessageType::Query).len());
        (10..60).for_each(|number| flood(&mut scene, number));
        let seconds = scene.network.now.since(began.0).as_secs_f64();
        let sent = scene.network.sent(VICTIM, MessageType::Query).len() - began.1;
        match is_limited {
            true => assert!(sent <= 10 + (10.0 * seconds) as usize, "{sent} in {seconds} s"),
            false => assert!(sent >= 50, "{sent} in {seconds} s"),
        }
        reserve_honestly(&mut scene);
    }
}

/// Datagrams to other nodes keep to the same share, whatever is in them.
#[test]
fn datagrams_for_other_nodes_keep_to_their_share_of_signalling() {
    for (trust, is_limited) in [(Trust::ACCESS, true), (Trust::CORE, false)] {
        let mut scene = Scene::new(Protection::Clear, false);
        let victim = &mut scene.network.nodes[VICTIM].interfaces;
        let port = victim.by_id(InterfaceId(PORT_OF_STRANGERS)).expect("a port").clone();
        victim.set(Interface { trust, ..port });
        let share = victim.by_id(InterfaceId(NEXT)).expect("a link").requests_per_second();
        let forwarded = |scene: &Scene| scene.network.engine(VICTIM).gist().counters().forwarded;
        let before = forwarded(&scene);
        (0..2_000_u32).for_each(|number| scene.datagram_for_another_node(number as u8));
        let count = forwarded(&scene) - before;
        assert!(share < 2_000);
        assert_eq!(count, if is_limited { share.into() } else { 2_000 });
        reserve_honestly(&mut scene);
    }
}

/// Errors to a claimed sender, caused through another port, do not use up the Errors of the true one.
#[test]
fn errors_are_limited_by_port_and_not_by_claimed_sender_alone() {
    let mut scene = Scene::new(Protection::Clear, false);
    let errors = |scene: &Scene| scene.network.sent(VICTIM, MessageType::Error).len();
    (0..50).for_each(|_| scene.data_of_unknown_session(PORT_OF_STRANGERS));
    let before = errors(&scene);
    assert!(before <= 10, "{before}");
    scene.data_of_unknown_session(PREVIOUS);
    assert_eq!(errors(&scene), before + 1);
}

/// A refresh period of 49 days keeps a session for ten minutes.
#[test]
fn announced_refresh_period_is_bounded() {
    let mut scene = Scene::new(Protection::Clear, false);
    scene.refresh_with_period(u32::MAX);
    let session = scene.network.engine(VICTIM).qos().session(SESSION).expect("a session");
    let expires_at = session.expires_at.expect("a lifetime");
    let lifetime = expires_at.since(scene.network.now);
    assert!(lifetime <= Duration::from_secs(630), "{lifetime:?}");
    assert!(lifetime > Duration::from_secs(600), "a longer period than usual counts");
}

/// A Response announces how long its node keeps routing state. A long time does not keep this node from looking again,
/// and a short one does not make it ask all the time.
#[test]
fn announced_routing_state_validity_is_bounded() {
    for validity in [1, u32::MAX] {
        let mut scene = Scene::new(Protection::Clear, false);
        scene.network.tamper = Some(Box::new(move |seen| {
            let how = seen.packet.how;
            let Some(message) = seen.packet.message() else { return };
            let Body::Response(mut response) = message.body else { return };
            response.nli.routing_state_validity = validity;
            let changed = Message { body: Body::Response(response), ..message };
            let octets = forged::packet(how.source, how.destination, how.ttl, &changed).octets;
            seen.packet.octets = octets;
        }));
        let queries = |scene: &Scene| scene.network.sent(VICTIM, MessageType::Query).len();
        scene.network.run(Duration::from_secs(30));
        let before = queries(&scene);
        scene.network.run(Duration::from_secs(60));
        let asked = queries(&scene) - before;
        assert!((2..=130).contains(&asked), "{asked} Queries for {validity} ms");
        assert!(scene.network.now > Time::from_secs(90));
    }
}
