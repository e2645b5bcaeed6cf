//! Tears that are lost in D-mode (RFC 5974 sections 5.2.4 and 5.4.1): the node that has begun the tear repeats it until the
//! end of the path has answered, so that no node keeps a reservation until its soft state ends.

use std::time::Duration;

use earmark_core::Rate;
use earmark_nsis::Config;
use earmark_nsis::qos::{Command, Event};
use earmark_wire::gist::Body;
use earmark_wire::qos_nslp::Message;

use crate::common::qos::{
    APP, ENDS, LISTENER, all_held, command, listener, request, reservable_line_of, session_counts,
};
use crate::common::{Network, Seen, address};

const SECOND: Duration = Duration::from_secs(1);

fn is_released(network: &Network, node: usize) -> bool {
    network.nodes[node]
        .events
        .iter()
        .any(|(_, event)| matches!(event, earmark_nsis::Event::Qos(Event::Released { .. })))
}

/// Which messages of a tear are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Tear,
    Response,
}

fn is_lost_kind(seen: &Seen, lost: Lost) -> bool {
    let Some(message) = seen.packet.message() else { return false };
    let Body::Data(data) = message.body else { return false };
    match Message::parse(data.nslp_data) {
        Ok(Message::Reserve(reserve)) => lost == Lost::Tear && reserve.tear,
        Ok(Message::Response(_)) => lost == Lost::Response,
        _ => false,
    }
}

/// Loses the first `count` messages of a kind that a node sends.
fn lose(network: &mut Network, node: usize, lost: Lost, count: usize) {
    let mut left = count;
    network.loss = Some(Box::new(move |seen, _| {
        let is_lost = left > 0 && seen.node == node && is_lost_kind(seen, lost);
        left -= usize::from(is_lost);
        is_lost
    }));
}

fn reserved(end: &str, by_receiver: bool, config: &Config) -> Network {
    let mut network = reservable_line_of(4, config);
    command(&mut network, 3, Command::Listen { application: LISTENER, listen: listener() });
    let request = request(address(end), Rate::from_mbps(2));
    let command_of = match by_receiver {
        true => Command::Invite { application: APP, request },
        false => Command::Reserve { application: APP, request },
    };
    command(&mut network, 0, command_of);
    network.run(2 * SECOND);
    assert_eq!(all_held(&network), [2, 2, 2, 0]);
    network
}

/// Releases the reservation at its QNI, the sender or the receiver.
fn release(network: &mut Network, by_receiver: bool) {
    let (node, application) = if by_receiver { (3, LISTENER) } else { (0, APP) };
    command(network, node, Command::Release { application });
}

/// Refresh periods: the default one, and one shorter than the first retransmission.
fn configs() -> [Config; 2] {
    let mut short = Config::default();
    short.qos.refresh = SECOND;
    [Config::default(), short]
}

/// The tear, or its RESPONSE, is lost on each hop, once or twice.
#[test]
fn lost_tear_is_repeated_until_the_end_has_answered() {
    for config in configs() {
        for (end, by_receiver) in ENDS.into_iter().flat_map(|end| [(end, false), (end, true)]) {
            for (lost, count) in
                [(Lost::Tear, 1), (Lost::Tear, 2), (Lost::Response, 1), (Lost::Response, 2)]
            {
                for node in 0..4 {
                    let what = format!("{end} {by_receiver} {lost:?} {count} of {node}");
                    let mut network = reserved(end, by_receiver, &config);
                    lose(&mut network, node, lost, count);
                    release(&mut network, by_receiver);
                    network.run(20 * SECOND);
                    assert_eq!(all_held(&network), [0; 4], "{what}");
                    network.run(41 * SECOND);
                    assert_eq!(session_counts(&network), [0; 4], "{what}");
                }
            }
        }
    }
}

/// The sender says that the reservation is released when the end of the path has confirmed it.
#[test]
fn release_is_reported_when_it_is_confirmed() {
    let config = Config::default();
    for end in ENDS {
        let mut network = reserved(end, false, &config);
        lose(&mut network, 1, Lost::Tear, 2);
        release(&mut network, false);
        network.run(5 * SECOND);
        assert_eq!(all_held(&network), [0, 0, 2, 0]);
        assert!(!is_released(&network, 0));
        network.run(3 * SECOND);
        assert_eq!(all_held(&network), [0; 4]);
        assert!(is_released(&network, 0));
    }
}

/// Without loss nothing is repeated.
#[test]
fn confirmed_tear_is_sent_once() {
    for (end, by_receiver) in ENDS.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let mut network = reserved(end, by_receiver, &Config::default());
        let before = network.seen.len();
        release(&mut network, by_receiver);
        network.run(60 * SECOND);
        let tears = network.seen[before..].iter().filter(|seen| is_lost_kind(seen, Lost::Tear));
        assert_eq!(tears.count(), 3, "{end} {by_receiver}");
        assert_eq!(session_counts(&network), [0; 4]);
    }
}

/// The QNI is gone: the tear of the node after it is lost, and repeated.
#[test]
fn lost_tear_of_a_node_on_the_path_is_repeated() {
    for (end, by_receiver) in ENDS.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let mut network = reserved(end, by_receiver, &Config::default());
        let (initiator, next) = if by_receiver { (3, 2) } else { (0, 1) };
        let last = if by_receiver { 1 } else { 2 };
        let mut left = 2;
        network.loss = Some(Box::new(move |seen, _| {
            let is_lost = left > 0 && seen.node == next && is_lost_kind(seen, Lost::Tear);
            left -= usize::from(is_lost);
            is_lost || seen.node == initiator
        }));
        let mut ends = None;
        for second in 0..400 {
            network.run(SECOND);
            let held = all_held(&network);
            if ends.is_none() && held[next] == 0 {
                ends = Some(second);
            }
            if ends.is_some_and(|at| second == at + 8) {
                assert_eq!(held[last], 0, "{end} {by_receiver}");
            }
        }
        assert!(ends.is_some());
    }
}

/// A tear that nobody answers is repeated for 30 s; the session ends then, or after a refresh period.
#[test]
fn unanswered_tear_is_abandoned() {
    for refresh in [1, 30, 60] {
        let mut config = Config::default();
        config.qos.refresh = refresh * SECOND;
        let mut network = reserved(ENDS[0], false, &config);
        lose(&mut network, 0, Lost::Tear, usize::MAX);
        let before = network.seen.len();
        release(&mut network, false);
        network.run(29 * SECOND);
        assert!(!is_released(&network, 0));
        network.run(71 * SECOND);
        let is_tear = |seen: &&Seen| seen.node == 0 && is_lost_kind(seen, Lost::Tear);
        let tears = network.seen[before..].iter().filter(is_tear);
        assert_eq!(tears.count(), 4, "at 0, 2, 6 and 14 s");
        assert!(is_released(&network, 0));
        assert_eq!(network.engine(0).qos().session_count(), 0);
        assert_eq!(network.engine(0).qos().counters().unanswered, 1);
    }
}
