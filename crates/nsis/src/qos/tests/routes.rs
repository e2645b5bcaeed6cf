//! Changes of route (RFC 5974 sections 3.2.12 and 5.2.5): nodes 0, 1, 2 and 3 in a row, and 4 beside 1 or behind 3.

use std::time::Duration;

use super::*;

/// A reservation from 0 over 1 and 2 to 3; node 4 is not part of it yet.
fn before() -> Net {
    let mut net = Net::of(5);
    net.right[3] = None;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    net.lines();
    net.events(0);
    net
}

fn path() -> Mri {
    mri(0, of_node(3), Direction::Downstream)
}

/// 0 now sees 4 in the place of 1; behind both comes 2. Packets of 4 leave to the left, since that is where it has 2.
#[test]
fn the_new_way_is_reserved_and_then_the_old_one_given_up() {
    let mut net = before();
    (net.right[0], net.right[4], net.left[4], net.left[2]) = (Some(4), Some(2), Some(0), Some(4));
    net.notify(0, path(), Net::good(4));
    let expected = [
        "0>4 RESERVE 2 qspec rii",
        "4>2 RESERVE 0 qspec rii",
        // The one that asked before hears of it, and the message goes to the end because it wants an answer from there.
        "2>1! NOTIFY route change",
        "2>3 RESERVE 0 qspec rii",
        "1>0 NOTIFY route change",
        "3>2 RESPONSE refresh successful",
        "2>4 RESPONSE refresh successful",
        "4>0 RESPONSE refresh successful",
        "0>1! RESERVE 1 tear",
        "1>2 RESERVE 1 tear",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.nodes[1].qos.session_count(), 0);
    assert_eq!(net.held(4, LEFT), mbps(2));
    assert_eq!(
        (net.held(0, RIGHT), net.held(1, RIGHT), net.held(2, RIGHT)),
        (mbps(2), Rate::ZERO, mbps(2))
    );
    net.pass(Duration::from_secs(600));
    assert_eq!(net.nodes[2].qos.session_count(), 1);
}

/// Figure 6 of RFC 5974: the handle is another one, the node is the same.
#[test]
fn a_change_that_is_none_tears_nothing_down() {
    let mut net = before();
    // The same node by another name: the tear goes to the old name, and is older than what came by the new one.
    net.notify(0, path(), Net::good(4));
    let lines = net.lines();
    assert_eq!(lines[0], "0>1 RESERVE 2 qspec rii");
    net.pass(Duration::from_secs(600));
    assert_eq!(net.all_held()[..4], [2, 2, 2, 0]);
}
