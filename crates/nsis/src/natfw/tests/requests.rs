//! What applications may ask for, and how long this node waits for the answer.

use super::*;
use crate::natfw::Rejection;

/// Asks for a path, and returns why the request was rejected.
fn rejected(request: OpenRequest) -> Option<Rejection> {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, request);
    net.nodes[0].events.iter().find_map(|event| match event {
        Event::Rejected { reason, .. } => Some(*reason),
        _ => None,
    })
}

#[test]
fn source_is_an_address_of_this_node() {
    let from = |source: &str| OpenRequest { source: Some(address(source)), ..to_server(5_000) };
    assert_eq!(rejected(from(CLIENT)), None);
    assert_eq!(rejected(from("10.0.0.9")), Some(Rejection::NotLocal));
}

#[test]
fn destination_is_another_host() {
    for destination in [CLIENT, "224.0.0.5", "0.0.0.0"] {
        let request = OpenRequest { destination: address(destination), ..to_server(5_000) };
        assert_eq!(rejected(request), Some(Rejection::Destination), "{destination}");
    }
}

#[test]
fn lifetime_is_within_the_limits_of_the_node() {
    let Config { shortest_lifetime, longest_lifetime, .. } = Config::default();
    let shortest = shortest_lifetime.max(Duration::from_secs(1));
    let second = Duration::from_secs(1);
    for (lifetime, reason) in [
        (shortest - second, Some(Rejection::Lifetime)),
        (shortest, None),
        (longest_lifetime, None),
        (longest_lifetime + second, Some(Rejection::Lifetime)),
    ] {
        let request = OpenRequest { lifetime: Some(lifetime), ..to_server(5_000) };
        assert_eq!(rejected(request), reason, "{lifetime:?}");
    }
}

/// An application has one request at a time.
#[test]
fn second_request_of_an_application_is_rejected() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    net.open(0, to_server(5_001));
    let reason = Rejection::InUse;
    assert_eq!(net.nodes[0].events.last(), Some(&Event::Rejected { application: APP, reason }));
    assert_eq!(net.nodes[0].natfw.session_count(), 1);
}

/// While a granted path is refreshed without answer, the pauses grow, so that a lost neighbour is not flooded.
#[test]
fn refreshes_without_answer_have_growing_pauses() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    let lifetime = Some(Duration::from_secs(3_600));
    net.open(0, OpenRequest { lifetime, ..to_server(5_000) });
    net.unreachable = vec![1];
    net.log();
    let mut times = Vec::new();
    for second in 0..3_600 {
        net.advance(Duration::from_secs(1));
        times.extend(net.log().iter().map(|_| second));
    }
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() > 6, "{pauses:?}");
    let usual = Config::default().response_timeout.as_secs();
    assert!(pauses[0] <= usual + 1, "{pauses:?}");
    assert!(pauses.iter().max().is_some_and(|longest| *longest > 3 * usual), "{pauses:?}");
    assert!(pauses[..6].is_sorted(), "{pauses:?}");
}
