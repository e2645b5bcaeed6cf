//! Nodes that the path of a receiver-initiated session has left: they are not taken for the next node towards the sender
//! again, although GIST keeps track of the latest peer that it has seen (RFC 5974 section 5.2.5.4).

use std::time::Duration;

use earmark_core::Rate;
use earmark_nsis::Config;
use earmark_nsis::gist::UpstreamQueries;
use earmark_nsis::qos::Command;
use earmark_wire::gist::{Body, MessageType};
use earmark_wire::qos_nslp::Message;

use crate::common::diamond::{Family, diamond_of, report_route, route_to};
use crate::common::qos::{
    APP, ENDS, LISTENER, all_held, command, events_of, listener, make_reservable, request,
    reservable_line_of, session_counts,
};
use crate::common::{Network, Seen, address};

const SECOND: Duration = Duration::from_secs(1);

fn short_lived() -> Config {
    let mut config = Config::default();
    config.qos.refresh = SECOND;
    config
}

/// Reserves from the last node, at the request of the first one.
fn reserve(network: &mut Network, end: &str) {
    let last = network.nodes.len() - 1;
    command(network, last, Command::Listen { application: LISTENER, listen: listener() });
    let request = request(address(end), Rate::from_mbps(2));
    command(network, 0, Command::Invite { application: APP, request });
    network.run(2 * SECOND);
}

fn is_tear(seen: &Seen) -> bool {
    let Some(message) = seen.packet.message() else { return false };
    let Body::Data(data) = message.body else { return false };
    matches!(Message::parse(data.nslp_data), Ok(Message::Reserve(reserve)) if reserve.tear)
}

/// The tear of the old branch is lost: its node lets the session expire, and nobody answers its own tear, because the node
/// before it has another peer.
#[test]
fn node_of_expired_old_branch_stays_off_the_path() {
    for family in Family::ALL {
        let (mut network, _) = diamond_of(&short_lived());
        make_reservable(&mut network);
        reserve(&mut network, &family.host(2, 2));
        assert_eq!(all_held(&network), [2, 2, 0, 0], "{family:?}");
        network.loss = Some(Box::new(|seen, _| seen.node == 3 && is_tear(seen)));
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(SECOND);
        assert_eq!(all_held(&network), [2, 2, 2, 0], "{family:?}");
        network.run(6 * SECOND);
        let told = events_of(&network, 0).len();
        for second in 0..120 {
            assert_eq!(all_held(&network), [2, 0, 2, 0], "{family:?}, second {second}");
            network.run(SECOND);
        }
        assert_eq!(events_of(&network, 0).len(), told, "{:?}", events_of(&network, 0));
        assert_eq!(session_counts(&network), [1, 0, 1, 1]);
    }
}

/// The path leaves a node and returns to it, twice. The node where both paths meet tells the peer that was left, and that peer
/// must not become its peer again: the last release is answered at once, not after a repetition.
#[test]
fn release_after_route_changes_is_answered_at_once() {
    for family in Family::ALL {
        let (mut network, _) = diamond_of(&Config::default());
        make_reservable(&mut network);
        let request = request(address(&family.host(2, 2)), Rate::from_mbps(2));
        command(&mut network, 0, Command::Reserve { application: APP, request });
        network.run(2 * SECOND);
        for (next, held) in [(2, [2, 0, 2, 0]), (1, [2, 2, 0, 0])].repeat(2) {
            route_to(&mut network, family, next);
            report_route(&mut network, family);
            network.run(SECOND / 2);
            assert_eq!(all_held(&network), held, "{family:?}, by {next}");
        }
        command(&mut network, 0, Command::Release { application: APP });
        network.run(SECOND / 2);
        assert_eq!(session_counts(&network), [0, 0, 0, 0], "{family:?}");
    }
}

/// Nothing shows the way to the sender any more: a tear of the receiver ends the session of the last node that it reaches, as
/// at the end of the path.
#[test]
fn tear_without_way_to_the_sender_is_answered() {
    for end in ENDS {
        let mut config = Config::default();
        config.gist.upstream_queries = UpstreamQueries::Never;
        let mut network = reservable_line_of(4, &config);
        reserve(&mut network, end);
        assert_eq!(all_held(&network), [2, 2, 2, 0]);
        network.loss = Some(Box::new(|seen, _| {
            seen.node == 0 && seen.message_type() == Some(MessageType::Query)
        }));
        network.run(32 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 2, 0]);
        command(&mut network, 3, Command::Release { application: LISTENER });
        network.run(SECOND);
        assert_eq!(all_held(&network)[1..], [0, 0, 0], "{end}");
        assert_eq!(session_counts(&network)[1..], [0, 0, 0], "{end}");
    }
}
