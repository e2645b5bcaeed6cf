//! Limits: over them new requests are refused in the protocol's terms, and existing state stays.

use earmark_core::Rate;
use earmark_wire::yessir::{FailureReason, OctetRate};
use earmark_yessir::{Config, DropReason, Limits};

use crate::common::{Ask, DOWN, Node, mbps};

#[test]
fn over_limit_new_requests_are_refused_and_old_stay() {
    let limits = Limits { sessions: 3, sessions_per_source: 2, ..Limits::default() };
    let mut node = Node::with(Config { limits, ..Config::default() });
    let of_one = |port| Ask { ports: (port, 5_000), ..Ask::rate(1, 0.1) };
    assert_eq!(node.pass(&of_one(4_000).arrival()).notes(), []);
    assert_eq!(node.pass(&of_one(4_002).arrival()).notes(), []);
    let refused = node.pass(&of_one(4_004).arrival()).notes();
    assert_eq!((refused[0].reason, refused[0].available), (FailureReason::Limit, OctetRate(0.0)));
    assert_eq!(node.pass(&Ask::rate(2, 0.1).arrival()).notes(), [], "others go on");
    assert_eq!(node.pass(&Ask::rate(3, 0.1).arrival()).notes()[0].reason, FailureReason::Limit);
    assert_eq!(node.pass(&of_one(4_000).arrival()).notes(), []);
    assert_eq!(node.held(DOWN), 300_000);
    node.pass(&of_one(4_000).release().arrival());
    assert_eq!(node.pass(&of_one(4_004).arrival()).notes(), []);
    assert_eq!(node.engine.counters().ignored[&DropReason::Limit], 2);
}

/// A source that floods set-ups is limited per second; refreshes of its old streams, and other sources, are not
/// affected.
#[test]
fn set_up_flood_throttles_only_its_source() {
    let limits = Limits { changes_per_second: 10, ..Limits::default() };
    let mut node = Node::with(Config { limits, ..Config::default() });
    let of_one = |number: u16| Ask { ports: (4_000 + 2 * number, 5_000), ..Ask::rate(1, 0.03125) };
    let refused =
        (0..100).filter(|&number| !node.pass(&of_one(number).arrival()).notes().is_empty()).count();
    assert_eq!(refused, 90);
    assert_eq!(node.pass(&of_one(3).arrival()).notes(), []);
    let larger = Ask { flowspec: Some(mbps(0.0625)), ..of_one(3) };
    assert_eq!(node.pass(&larger.arrival()).notes()[0].reason, FailureReason::Limit);
    assert_eq!(node.rate_of(&larger.stream().flow()), Some(31_250), "it keeps what it had");
    let smaller = Ask { flowspec: Some(mbps(0.015625)), ..of_one(3) };
    assert_eq!(node.pass(&smaller.arrival()).notes(), [], "less is no matter of limits");
    assert_eq!(node.pass(&Ask::rate(2, 0.001).arrival()).notes(), []);
    node.advance(1.0);
    assert_eq!(node.pass(&of_one(50).arrival()).notes(), []);
}

#[test]
fn reservation_over_size_limit_is_refused() {
    let limits = Limits { largest: Some(Rate::from_mbps(2)), ..Limits::default() };
    let mut node = Node::with(Config { limits, ..Config::default() });
    let notes = node.pass(&Ask::rate(1, 3.0).arrival()).notes();
    let expected = (FailureReason::Bandwidth, OctetRate(250_000.0));
    assert_eq!((notes[0].reason, notes[0].available), expected);
    assert_eq!(node.ledger.link(DOWN).expect("known").queued, 0, "it would wait in vain");
    assert_eq!(node.pass(&Ask::rate(1, 2.0).arrival()).notes(), []);
}
