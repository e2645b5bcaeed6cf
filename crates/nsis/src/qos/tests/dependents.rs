//! Sessions that end because another one has ended (RFC 5974 section 5.4.1), in chains, circles and crowds.

use std::time::Duration;
use std::vec;

use earmark_wire::qos_nslp::iana::BindingCode;
use earmark_wire::qos_nslp::{BoundSessionId, Reserve, Rsn, RsnList, Summary};

use super::*;

/// Rate of each session.
const RATE: Rate = Rate::from_bps(1_000);

fn session(number: u64) -> SessionId {
    SessionId(u128::from(number + 1).to_be_bytes())
}

/// Returns a request of node 0 for a session that depends on another.
fn dependent(to: usize, number: u64, other: u64) -> Request {
    let bound = BoundSessionId { binding: BindingCode::Dependent, session: session(other) };
    let session = Some(session(number));
    Request { session, bound: [bound].into(), ..request(0, of_node(to), RATE) }
}

/// Reserves sessions of node 0, each of which depends on the one that `other` returns.
fn reserve(net: &mut Net, to: usize, count: u64, other: impl Fn(u64) -> u64) {
    for number in 0..count {
        let request = dependent(to, number, other(number));
        net.command(0, Command::Reserve { application: Application(number), request });
    }
    assert_eq!(net.held(0, RIGHT), Rate::from_bps(count * 1_000));
}

fn release(net: &mut Net, number: u64) {
    net.command(0, Command::Release { application: Application(number) });
    net.advance(Duration::ZERO);
}

/// Sessions that depend on each other end together, whichever ends first.
#[test]
fn circle_of_sessions_ends_together() {
    for (count, first) in [(2, 0), (2, 1), (5, 0), (5, 3)] {
        let mut net = Net::of(3);
        reserve(&mut net, 2, count, |number| (number + 1) % count);
        release(&mut net, first);
        net.assert_nothing_left();
    }
}

/// A session may name itself.
#[test]
fn session_that_depends_on_itself_ends_once() {
    let mut net = Net::of(3);
    reserve(&mut net, 2, 1, |number| number);
    release(&mut net, 0);
    net.assert_nothing_left();
    assert_eq!(net.nodes[0].qos.counters().released, 1);
}

/// The stack does not grow with the length of a chain.
#[test]
fn long_chain_of_sessions_ends() {
    let mut net = Net::of(3);
    reserve(&mut net, 2, 3_000, |number| number.saturating_sub(1));
    release(&mut net, 0);
    net.assert_nothing_left();
}

/// However many sessions depend on one, each call ends a bounded number of them.
#[test]
fn many_dependents_end_in_bounded_calls() {
    let mut net = Net::of(2);
    reserve(&mut net, 1, 200, |_| 0);
    net.command(0, Command::Release { application: Application(0) });
    let mut left = vec![net.nodes[0].qos.session_count()];
    while net.nodes[0].qos.next_deadline() == Some(net.now) {
        net.call(0, Nslp::expire);
        net.run();
        left.push(net.nodes[0].qos.session_count());
    }
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 64), "{left:?}");
    net.assert_nothing_left();
}

/// A tear of several sessions may name one that the session of its own header depends on.
#[test]
fn summary_tear_of_dependent_sessions_ends_all() {
    for own in [0, 1] {
        let mut net = Net::of(3);
        reserve(&mut net, 2, 2, |number| (number + 1) % 2);
        let Rsn { number, epoch } = net.nodes[1].qos.store.sessions[0].rsn;
        let (sessions, numbers) = ([session(1 - own).0], [number.to_be_bytes()]);
        let rsns = Some(RsnList { epoch, wire: &numbers });
        let tear = Reserve {
            tear: true,
            rsn: Rsn { number: number + 1, epoch },
            summary: Some(Summary { sessions: &sessions, rsns }),
            ..earmark_testkit::messages::qos_nslp::RESERVE
        };
        let id = net.nodes[1].qos.id();
        let mri = mri(0, of_node(2), Direction::Downstream);
        net.deliver((0, 1, id), session(own), mri, &octets(tear), false);
        net.advance(Duration::ZERO);
        assert_eq!(net.nodes[1].qos.session_count(), 0);
        assert_eq!(net.held(1, RIGHT), Rate::ZERO);
    }
}

/// A session of another application, asked for from elsewhere, may have the SESSION-ID that a reservation is bound to. Its end
/// changes nothing; the end of one that a neighbour may have asked for, or that this node asked for, ends the reservation.
#[test]
fn session_asked_for_from_elsewhere_ends_no_reservation() {
    let arrivals = [(LEFT, Role::Access), (RIGHT, Role::Access), (RIGHT, Role::Core)];
    let arrivals = arrivals.map(|(interface, role)| (Some(interface), role));
    for (arrival, role) in arrivals.into_iter().chain([(None, Role::Access)]) {
        let mut net = Net::of(3);
        set_role(&mut net, role);
        let other = SessionId([5; 16]);
        let bound = BoundSessionId { binding: BindingCode::Dependent, session: other };
        net.reserve(0, Request { bound: [bound].into(), ..request(0, of_node(2), mbps(2)) });
        assert_eq!(net.all_held(), [2, 2, 0]);
        net.call(1, |qos, cx| qos.other_session_ended(cx, other, arrival));
        net.advance(Duration::ZERO);
        let stays = arrival == Some(RIGHT) && role == Role::Access;
        assert_eq!(net.held(1, RIGHT) == mbps(2), stays, "{arrival:?} {role:?}");
    }
}
