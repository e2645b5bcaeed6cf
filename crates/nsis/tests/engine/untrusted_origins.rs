//! Messages about a session from every origin: only that of the session touches it.
//!
//! ```text
//! n0 ---- (1: access) n1 (2: core) ---- n2      a reservation from n0 to n2
//!                     (3: access)               strangers
//! ```

use earmark_nsis::gist::Installation;
use earmark_nsis::nslp::Attributes;
use earmark_wire::qos_nslp::PacketClassifier;

use crate::origins::{
    Kind, NEXT, OTHER_CORE, Origin, PORT_OF_STRANGERS, PREVIOUS, Protection, Scene,
};

/// Reason for which a message is dropped, by the protection of its session; `None` if it is accepted.
fn refusal(protection: Protection, origin: Origin, kind: Kind) -> Option<&'static str> {
    use Origin::*;
    use Protection::*;
    match (protection, origin) {
        (_, Own | OwnExplicit) | (Clear, Spoofed | SpoofedExplicit) => None,
        (_, OtherTcp | OtherTls) => Some("wrong_association"),
        (Tls, OtherTcpExplicit) => Some("not_secured"),
        // RFC 5971 section 4.3.2: explicitly routed messages may arrive over any association with the peer.
        (_, OtherTcpExplicit | OtherTlsExplicit) => None,
        (
            Tls,
            Spoofed | SpoofedExplicit | OtherPort | OtherPortExplicit | Forwarded
            | ForwardedExplicit | StrangerExplicit,
        ) => Some("not_secured"),
        // The next peer is known to be near by its Response; all messages of the previous one came over TCP.
        (Tcp, ForwardedExplicit) if kind.side() == NEXT => Some("from_far"),
        (Tcp, Spoofed | SpoofedExplicit | OtherPort | Forwarded | ForwardedExplicit) => {
            Some("not_over_association")
        }
        (Clear, OtherPort) => Some("wrong_interface"),
        (Clear, Forwarded | ForwardedExplicit) => Some("from_far"),
        (Clear | Tcp, OtherPortExplicit | StrangerExplicit) => Some("wrong_peer"),
    }
}

/// Every message from every origin, in both families: accepted messages have an effect, and refused ones have none, are
/// counted under their own reason, and reported.
#[test]
fn only_the_origin_of_a_session_touches_it() {
    for protection in [Protection::Clear, Protection::Tcp, Protection::Tls] {
        for six in [false, true] {
            for kind in Kind::ALL {
                for origin in Origin::ALL {
                    if origin.needs_tls() && protection != Protection::Tls
                        || origin.is_explicit() && kind.is_error()
                    {
                        continue;
                    }
                    check(protection, six, kind, origin);
                }
            }
        }
    }
}

fn check(protection: Protection, six: bool, kind: Kind, origin: Origin) {
    let what = format!("{kind:?} by {origin:?} for {protection:?}, IPv6: {six}");
    let mut scene = Scene::new(protection, six);
    let message = scene.message(kind);
    scene.prepare(origin);
    let (before, drops) = (scene.state(), scene.drops());
    scene.deliver(kind, origin, &message);
    let is_unchanged = scene.state() == before;
    let new = scene.drops_since(&drops);
    match refusal(protection, origin, kind) {
        None => assert!(!is_unchanged && new.is_empty(), "{what} is accepted: {new:?}"),
        Some(reason) => {
            assert!(is_unchanged, "{what} changes nothing");
            assert_eq!(new, [reason], "{what}");
            assert!(scene.has_event(reason), "{what} is reported");
        }
    }
    let is_misdelivered = refusal(protection, origin, kind) == Some("wrong_association");
    assert_eq!(scene.incorrectly_delivered(), is_misdelivered && !kind.is_error(), "{what}");
}

/// The refusals do not end the service: after every one of them the origin of the session still tears it down.
#[test]
fn honest_tear_works_after_refused_ones() {
    for protection in [Protection::Clear, Protection::Tcp, Protection::Tls] {
        let mut scene = Scene::new(protection, false);
        let tear = scene.message(Kind::Tear);
        for origin in Origin::ALL {
            if refusal(protection, origin, Kind::Tear).is_some() && !origin.needs_tls() {
                scene.prepare(origin);
                scene.deliver(Kind::Tear, origin, &tear);
            }
        }
        assert_eq!(scene.session_counts(), [1, 1, 1]);
        scene.release();
        assert_eq!(scene.session_counts(), [0, 0, 0], "{protection:?}");
    }
}

/// A handshake in the clear, by a node that can be reached at its address, does not replace the peer of a secured
/// session; nor does it for a session in the clear from a port that does not lead to the source of the flow.
#[test]
fn handshake_of_another_node_replaces_no_peer() {
    use Installation::*;
    for six in [false, true] {
        for installation in [Delayed, Confirmed, Immediate] {
            let mut scene = Scene::with(Protection::Tls, six, |config| {
                config.gist.installation = installation;
            });
            let (before, drops) = (scene.state(), scene.drops());
            scene.handshake_of_stranger(PREVIOUS);
            assert!(scene.state() == before, "nothing changes: {installation:?}");
            assert_eq!(scene.drops_since(&drops), ["not_secured"], "{installation:?}");
        }
        let mut scene = Scene::new(Protection::Clear, six);
        let (before, drops) = (scene.state(), scene.drops());
        scene.handshake_of_stranger(PORT_OF_STRANGERS);
        assert!(scene.state() == before, "nothing changes");
        assert_eq!(scene.drops_since(&drops), ["mri"], "the source of the flow is not behind it");
    }
}

/// A flow of a stranger with the identifier of the session: the reservation stays with its flow and its peer.
#[test]
fn session_identifier_alone_takes_nothing_over() {
    for six in [false, true] {
        for (protection, reason) in
            [(Protection::Clear, "wrong_interface"), (Protection::Tls, "not_secured")]
        {
            let mut scene = Scene::new(protection, six);
            let before = scene.sessions();
            let drops = scene.drops();
            scene.reserve_of_stranger();
            assert!(scene.sessions() == before, "nothing changes");
            assert_eq!(scene.drops_since(&drops), [reason], "{protection:?}");
        }
    }
}

/// Who has seen the Response of the next node cannot give it another place by a replay from elsewhere.
#[test]
fn response_counts_through_the_interface_of_its_query() {
    for six in [false, true] {
        for (through, ttl, reasons) in [
            (NEXT, 255, vec![]),
            (NEXT, 254, vec!["from_far"]),
            (PREVIOUS, 255, vec!["wrong_interface"]),
            (PORT_OF_STRANGERS, 255, vec!["wrong_interface"]),
            (OTHER_CORE, 254, vec!["from_far"]),
        ] {
            let mut scene = Scene::new(Protection::Clear, six);
            let (before, drops) = (scene.state(), scene.drops());
            scene.replay_response(through, ttl);
            assert_eq!(
                scene.drops_since(&drops),
                reasons,
                "interface {through}, {ttl}, IPv6: {six}"
            );
            assert!(reasons.is_empty() || scene.state() == before, "interface {through}, {ttl}");
        }
    }
}

/// On an access interface, a reservation is for packets from behind it, or to behind it if it is requested by their
/// receiver: neither a short prefix nor a classifier without the address makes it one for those of others.
#[test]
fn packets_of_others_are_not_reserved_for() {
    let (source, destination) =
        (PacketClassifier::SOURCE_ADDRESS, PacketClassifier::DESTINATION_ADDRESS);
    let all = source | destination | PacketClassifier::PROTOCOL;
    let without = |field: u8| Some(PacketClassifier(all & !field));
    for (six, bits, network, wider) in [(false, 32, 24, 16), (true, 128, 64, 48)] {
        for (upstream, ranges, classifier, is_reserved) in [
            (false, (bits, bits), None, true),
            (false, (network, bits), None, true),
            (false, (wider, bits), None, false),
            (false, (0, bits), None, false),
            (false, (bits, bits), without(source), false),
            (false, (bits, bits), without(destination), true),
            (true, (bits, bits), None, true),
            (true, (network, bits), None, true),
            (true, (wider, bits), None, false),
            (true, (bits, bits), without(destination), false),
            (true, (bits, bits), without(source), true),
        ] {
            let mut scene = Scene::new(Protection::Clear, six);
            let refused = scene.refused();
            scene.reserve_for_range(upstream, ranges, classifier);
            let what = format!("{upstream} {ranges:?} {classifier:?}, IPv6: {six}");
            assert_eq!(scene.session_counts()[1], 1 + usize::from(is_reserved), "{what}");
            assert_eq!(scene.refused() - refused, u64::from(!is_reserved), "{what}");
        }
    }
}

/// A stranger that has become the next node of a flow of its own, by an upstream Query, speaks for no other flow with
/// the identifier of the session.
#[test]
fn next_node_of_another_flow_reports_no_loss() {
    for protection in [Protection::Clear, Protection::Tls] {
        let mut scene = Scene::new(protection, false);
        let before = scene.sessions();
        let drops = scene.drops();
        scene.notify_of_stranger();
        assert!(scene.sessions() == before, "nothing changes");
        let expected = match protection {
            Protection::Tls => "not_secured",
            _ => "other_peer",
        };
        assert_eq!(scene.drops_since(&drops), [expected], "{protection:?}");
    }
}

/// With `require`, nothing in the clear is accepted for other sessions, either.
#[test]
fn required_transport_holds_for_received_messages() {
    let secure = Attributes { reliable: true, secure: true };
    for required in [false, true] {
        let mut scene = Scene::with(Protection::Tls, false, |config| {
            config.gist.associations.require =
                if required { secure } else { Attributes::default() };
        });
        let drops = scene.drops();
        scene.reserve_of_host(10, 10);
        assert_eq!(scene.session_counts()[1], if required { 1 } else { 2 });
        let expected: &[&str] = if required { &["not_secured"] } else { &[] };
        assert_eq!(scene.drops_since(&drops), expected);
    }
}

/// A summary in the clear, about a session in the clear, lists a secured session of the same peer.
#[test]
fn summary_in_the_clear_leaves_secured_sessions_out() {
    for tear in [false, true] {
        let mut scene = Scene::new(Protection::Tls, false);
        scene.reserve_in_the_clear();
        let secured = scene.session();
        let drops = scene.drops();
        scene.summary(tear);
        assert_eq!(scene.session(), secured);
        assert_eq!(scene.drops_since(&drops), ["not_secured"], "tear: {tear}");
    }
}

/// The Query of a refresh proves nothing, so it does not shorten the life of the routing state.
#[test]
fn query_in_the_name_of_the_peer_shortens_no_lifetime() {
    for protection in [Protection::Clear, Protection::Tcp, Protection::Tls] {
        let mut scene = Scene::new(protection, false);
        let before = scene.expiry();
        scene.query_with_validity(1_000);
        assert!(scene.expiry() >= before, "{protection:?}");
    }
}

/// An Error about a Query of the node arrives through a port that its Query has not left through.
#[test]
fn error_about_a_query_comes_from_its_path() {
    let mut scene = Scene::new(Protection::Clear, false);
    scene.lose_responses();
    let drops = scene.drops();
    scene.endpoint_found(PORT_OF_STRANGERS);
    assert_eq!(scene.drops_since(&drops), ["wrong_interface"]);
    assert_eq!(scene.session_counts(), [1, 1, 1]);
    assert!(!scene.is_last());
    scene.endpoint_found(NEXT);
    assert!(scene.is_last(), "a node on the path may say so");
}
