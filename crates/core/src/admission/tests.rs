//! The ledger's guarantees, one by one. Random sequences are in `tests/ledger_model.rs`.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::{Flow, InterfaceId};

const LINK: InterfaceId = InterfaceId(1);
const OTHER: InterfaceId = InterfaceId(2);

fn mbps(rate: u64) -> Rate {
    Rate::from_mbps(rate)
}

fn capacity(reservable: u64) -> LinkCapacity {
    LinkCapacity { bandwidth: mbps(2 * reservable), reservable: mbps(reservable), mtu: 1_500 }
}

/// Creates a link of 10 Mbit/s, of which 5 may be claimed, and another like it.
fn ledger() -> Ledger {
    let mut ledger = Ledger::new();
    ledger.set_link(LINK, capacity(5));
    ledger.set_link(OTHER, capacity(5));
    ledger
}

#[test]
fn protocols_have_numbers_from_one_on() {
    assert_eq!(Protocol::from_number(0), None);
    for number in [1, 2, 255] {
        assert_eq!(Protocol::from_number(number), Some(Protocol::new(number)));
        assert_eq!(Protocol::new(number).number(), number);
    }
}

const FIRST: Protocol = Protocol::new(1);
const SECOND: Protocol = Protocol::new(2);

fn owner(block: u32) -> Owner {
    Owner { protocol: FIRST, block }
}

fn flow(destination_port: u16) -> Flow {
    let destination = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    Flow {
        destination,
        source: None,
        protocol: 17,
        destination_port,
        source_port: 0,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}

fn demand(rate: u64) -> Demand {
    Demand {
        service: Service::ControlledLoad,
        rate: mbps(rate),
        burst: 5_000,
        max_packet: 1_000,
        min_packet: 0,
    }
}

fn held(ledger: &Ledger) -> Rate {
    ledger.link(LINK).expect("known").held
}

fn refused(reason: Reason, available: u64) -> Refusal {
    Refusal { reason, available: mbps(available) }
}

#[test]
fn over_capacity_is_refused_with_available_rate() {
    let mut ledger = ledger();
    let first = ledger.claim(LINK, owner(1), &flow(1), demand(3)).expect("fits");
    let second = ledger.claim(LINK, owner(2), &flow(2), demand(3));
    assert_eq!(second, Err(refused(Reason::Bandwidth, 2)));
    assert!(ledger.claim(LINK, owner(2), &flow(2), demand(2)).is_ok(), "to the last bit");
    assert!(ledger.claim(OTHER, owner(2), &flow(2), demand(5)).is_ok(), "links are apart");
    let status = ledger.link(LINK).expect("known");
    assert_eq!((status.held, status.claims), (mbps(5), 2));
    assert_eq!(
        (ledger.available(LINK), ledger.available(InterfaceId(9))),
        (Rate::ZERO, Rate::ZERO)
    );
    ledger.release(first);
    assert_eq!(ledger.available(LINK), mbps(3));
    let first = ledger.claim(LINK, owner(1), &flow(1), demand(3)).expect("fits");
    assert_eq!((ledger.owner(first), ledger.demand(first)), (Some(owner(1)), Some(demand(3))));
    assert_eq!(ledger.link_of(first), Some(LINK));
}

#[test]
fn unknown_link_and_large_packet_are_refused_with_reason() {
    let mut ledger = ledger();
    let unknown = ledger.claim(InterfaceId(9), owner(1), &flow(1), demand(1));
    assert_eq!(unknown, Err(refused(Reason::NoSuchLink, 0)));
    ledger.set_link(OTHER, capacity(0));
    let closed = ledger.claim(OTHER, owner(1), &flow(1), demand(0));
    assert_eq!(closed, Err(refused(Reason::NoSuchLink, 0)));
    let large = Demand { max_packet: 1_501, ..demand(1) };
    assert_eq!(ledger.claim(LINK, owner(1), &flow(1), large), Err(refused(Reason::MaxPacket, 5)));
    assert_eq!(held(&ledger), Rate::ZERO);
}

#[test]
fn refused_increase_keeps_old_grant() {
    let mut ledger = ledger();
    let claim = ledger.claim(LINK, owner(1), &flow(1), demand(2)).expect("fits");
    assert_eq!(ledger.change(claim, demand(6)), Err(refused(Reason::Bandwidth, 5)));
    let large = Demand { max_packet: 9_000, ..demand(1) };
    assert_eq!(ledger.change(claim, large), Err(refused(Reason::MaxPacket, 5)));
    assert_eq!((held(&ledger), ledger.demand(claim)), (mbps(2), Some(demand(2))));
    assert_eq!(ledger.change(claim, demand(5)), Ok(()));
    assert_eq!(ledger.change(claim, demand(1)), Ok(()));
    assert_eq!((held(&ledger), ledger.demand(claim)), (mbps(1), Some(demand(1))));
}

#[test]
fn bandwidth_set_aside_cannot_be_claimed() {
    let mut ledger = ledger();
    let claim = ledger.claim(LINK, owner(1), &flow(1), demand(2)).expect("fits");
    ledger.set_aside(LINK, mbps(2));
    assert_eq!(
        (held(&ledger), ledger.rate_set_aside(LINK), ledger.available(LINK)),
        (mbps(2), mbps(2), mbps(1))
    );
    let second = ledger.claim(LINK, owner(2), &flow(2), demand(2));
    assert_eq!(second, Err(refused(Reason::Bandwidth, 1)));
    assert_eq!(ledger.change(claim, demand(4)), Err(refused(Reason::Bandwidth, 3)));
    let waiting = QueuedRequest { owner: owner(3), demand: demand(3), refusals: 1 };
    assert_eq!(ledger.enqueue(LINK, waiting), Ok(()));
    assert_eq!(ledger.next_grantable(), None);
    ledger.set_aside(LINK, Rate::ZERO);
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(3))), "it is there again");
    ledger.set_aside(InterfaceId(9), mbps(1));
    assert_eq!(ledger.rate_set_aside(InterfaceId(9)), Rate::ZERO);
    // More set aside than is left shows when claims are released, and is no error.
    ledger.set_aside(LINK, mbps(9));
    ledger.release(claim);
    assert_eq!(ledger.available(LINK), Rate::ZERO);
}

/// One claim is limited, and all together are not; what is held already stays.
#[test]
fn one_claim_is_limited_on_a_link() {
    let mut ledger = ledger();
    ledger.set_link(LINK, capacity(10));
    let before = ledger.claim(LINK, owner(1), &flow(1), demand(4)).expect("fits");
    ledger.set_largest(LINK, Some(mbps(2)));
    assert_eq!((ledger.largest(LINK), ledger.available(LINK)), (Some(mbps(2)), mbps(2)));
    let too_large = Err(refused(Reason::Bandwidth, 2));
    assert_eq!(ledger.claim(LINK, owner(2), &flow(2), demand(3)), too_large);
    let second = ledger.claim(LINK, owner(2), &flow(2), demand(2)).expect("not too large");
    assert_eq!(ledger.change(second, demand(3)), Err(refused(Reason::Bandwidth, 2)));
    let larger_packets = Demand { max_packet: 1_000, ..demand(4) };
    assert_eq!(ledger.change(before, larger_packets), Ok(()), "no larger than before");
    assert_eq!(ledger.change(before, demand(5)), Err(refused(Reason::Bandwidth, 4)));
    // Less important claims are not displaced for what can never be.
    ledger.set_preemption(Some(PreemptionPolicy::default()));
    let priority = Priority { preemption: 9, defending: 9 };
    let claim = ledger.claim_with_priority(LINK, owner(3), &flow(3), demand(3), priority);
    assert_eq!((claim, held(&ledger)), (Err(refused(Reason::Bandwidth, 2)), mbps(6)));
    assert_eq!(ledger.next_displaced(), None);
    ledger.set_largest(LINK, None);
    assert_eq!((ledger.largest(LINK), ledger.change(second, demand(3))), (None, Ok(())));
}

#[test]
fn shrunk_link_keeps_grants_and_refuses_new_claims() {
    let mut ledger = ledger();
    let claim = ledger.claim(LINK, owner(1), &flow(1), demand(4)).expect("fits");
    ledger.set_link(LINK, LinkCapacity { mtu: 500, ..capacity(2) });
    assert_eq!(held(&ledger), mbps(4));
    let small = Demand { max_packet: 0, ..demand(1) };
    let new = ledger.claim(LINK, owner(2), &flow(2), small);
    assert_eq!(new, Err(refused(Reason::Bandwidth, 0)));
    assert_eq!(ledger.change(claim, demand(3)), Ok(()), "less, if not little enough");
    assert_eq!(ledger.change(claim, demand(1)), Ok(()), "its packets were never smaller");
    assert!(ledger.claim(LINK, owner(2), &flow(2), small).is_ok());
    ledger.set_link(LINK, capacity(0));
    assert_eq!(ledger.change(claim, demand(1)), Ok(()), "not even a closed link takes it away");
}

#[test]
fn stale_claim_id_has_no_effect() {
    let mut ledger = ledger();
    let first = ledger.claim(LINK, owner(1), &flow(1), demand(1)).expect("fits");
    ledger.release(first);
    let second = ledger.claim(LINK, owner(2), &flow(2), demand(2)).expect("fits");
    assert_eq!(first.slot, second.slot, "the slot is used again");
    ledger.release(first);
    assert_eq!(ledger.change(first, demand(5)), Err(refused(Reason::NoSuchLink, 0)));
    assert_eq!((ledger.owner(first), ledger.demand(first)), (None, None));
    assert_eq!((held(&ledger), ledger.owner(second)), (mbps(2), Some(owner(2))));
}

#[test]
fn removed_link_returns_its_claims_requests_and_flows() {
    let mut ledger = ledger();
    let claim = ledger.claim(LINK, owner(1), &flow(1), demand(4)).expect("fits");
    let stays = ledger.claim(OTHER, owner(2), &flow(2), demand(4)).expect("fits");
    let waiting = QueuedRequest { owner: owner(3), demand: demand(2), refusals: 1 };
    assert_eq!(ledger.enqueue(LINK, waiting), Ok(()));
    assert_eq!(ledger.adopt(LINK, flow(4), mbps(1), None), Ok(()));
    let lost = ledger.remove_link(LINK);
    let expected = RemovedLink {
        claims: vec![(claim, owner(1))],
        waiting: vec![waiting],
        adopted: vec![flow(4)],
    };
    assert_eq!(lost, expected);
    assert_eq!((ledger.owner(claim), ledger.owner(stays)), (None, Some(owner(2))));
    assert_eq!(ledger.remove_link(LINK), RemovedLink::default());
    assert_eq!(ledger.next_grantable(), None);
}

/// A restart: traffic control still serves three flows of the previous daemon. One is claimed as before, one with a
/// higher rate, one never.
#[test]
fn adopted_flows_keep_their_bandwidth_until_their_owners_return() {
    let mut ledger = ledger();
    for port in 1..=3 {
        assert_eq!(ledger.adopt(LINK, flow(port), mbps(1), None), Ok(()));
    }
    let stranger = ledger.claim(LINK, owner(9), &flow(9), demand(3));
    assert_eq!(stranger, Err(refused(Reason::Bandwidth, 2)));
    assert!(ledger.claim(LINK, owner(1), &flow(1), demand(1)).is_ok());
    assert_eq!(held(&ledger), mbps(3), "counted once");
    let greedy = ledger.claim(LINK, owner(2), &flow(2), demand(4));
    assert_eq!(greedy, Err(refused(Reason::Bandwidth, 3)));
    assert_eq!(ledger.link(LINK).expect("known").adopted, 2, "a refusal leaves it adopted");
    assert!(ledger.claim(LINK, owner(2), &flow(2), demand(3)).is_ok());
    assert_eq!(ledger.drop_adopted(LINK, &flow(2)), None, "it has an owner");
    assert_eq!(ledger.drop_all_adopted(), vec![(LINK, flow(3))]);
    assert_eq!(held(&ledger), mbps(4));
}

/// Traffic control still serves a flow that RSVP reserved, and another protocol claims the same flow first.
#[test]
fn adopted_flow_yields_to_its_own_protocol_only() {
    let mut ledger = ledger();
    assert_eq!(ledger.adopt(LINK, flow(1), mbps(4), Some(FIRST)), Ok(()));
    let of = |protocol, block| Owner { protocol, block };
    let stranger = of(SECOND, 1);
    for rate in [4, 5] {
        let refused = ledger.claim(LINK, stranger, &flow(1), demand(rate)).expect_err("full");
        assert_eq!(refused.available, mbps(1), "what is held for RSVP is not his");
    }
    let claim = ledger.claim(LINK, stranger, &flow(1), demand(1)).expect("fits beside");
    assert_eq!(held(&ledger), mbps(5));
    ledger.claim(LINK, of(FIRST, 2), &flow(1), demand(4)).expect("held for it");
    assert_eq!(held(&ledger), mbps(5));
    ledger.release(claim);
    assert_eq!(held(&ledger), mbps(4));
}

/// If traffic control does not tell which protocol reserved, the smaller of two claims does not replace the adopted
/// flow while there is room for both.
#[test]
fn adopted_flow_of_unknown_protocol_yields_to_claim_no_smaller() {
    let mut ledger = ledger();
    assert_eq!(ledger.adopt(LINK, flow(1), mbps(2), None), Ok(()));
    ledger.claim(LINK, owner(1), &flow(1), demand(1)).expect("fits beside");
    assert_eq!(held(&ledger), mbps(3));
    ledger.claim(LINK, owner(2), &flow(1), demand(2)).expect("takes its place");
    assert_eq!(held(&ledger), mbps(3));
    assert_eq!(ledger.adopt(LINK, flow(2), mbps(2), None), Ok(()));
    ledger.claim(LINK, owner(3), &flow(2), demand(1)).expect("there is no room beside");
    assert_eq!(held(&ledger), mbps(4));
}

#[test]
fn adoption_over_limits_is_refused() {
    let mut ledger = ledger();
    assert_eq!(ledger.adopt(InterfaceId(9), flow(1), mbps(1), None), Err(AdoptError::NoSuchLink));
    assert_eq!(ledger.adopt(LINK, flow(1), mbps(6), None), Err(AdoptError::Bandwidth));
    assert_eq!(ledger.adopt(LINK, flow(1), mbps(4), None), Ok(()));
    assert_eq!(ledger.adopt(LINK, flow(1), mbps(5), None), Ok(()), "seen again, with another rate");
    assert_eq!(held(&ledger), mbps(5));
    assert_eq!(ledger.drop_adopted(LINK, &flow(1)), Some(mbps(5)));
    for number in 0..Ledger::MAX_ADOPTED {
        assert_eq!(ledger.adopt(LINK, flow(number as u16), Rate::ZERO, None), Ok(()));
    }
    let one_more = Flow { protocol: 6, ..flow(0) };
    assert_eq!(ledger.adopt(LINK, one_more, Rate::ZERO, None), Err(AdoptError::TooMany));
}

/// Attempts are recorded from the start of the journal, refused ones too; changes of existing claims are not
/// attempts.
#[test]
fn journal_has_every_attempt() {
    let mut ledger = ledger();
    let first = ledger.claim(LINK, owner(1), &flow(1), demand(1)).expect("fits");
    assert_eq!(ledger.take_attempts(), []);
    ledger.keep_journal(true);
    assert!(ledger.claim(LINK, owner(2), &flow(2), demand(4)).is_ok());
    assert!(ledger.claim(LINK, owner(3), &flow(3), demand(1)).is_err());
    assert!(ledger.change(first, demand(2)).is_err());
    let attempt = |number: u16, rate, available: Option<Rate>| {
        let (owner, flow) = (owner(number.into()), Some(flow(number)));
        let granted = available.is_none();
        Attempt { link: LINK, owner, flow, rate: mbps(rate), granted, available }
    };
    assert_eq!(ledger.take_attempts(), [attempt(2, 4, None), attempt(3, 1, Some(Rate::ZERO))]);
    assert_eq!(ledger.take_attempts(), [], "they are told once");
    ledger.keep_journal(false);
    assert!(ledger.claim(LINK, owner(3), &flow(3), demand(1)).is_err());
    assert_eq!(ledger.take_attempts(), []);
}

fn waiting(block: u32, rate: u64) -> QueuedRequest {
    QueuedRequest { owner: owner(block), demand: demand(rate), refusals: 1 }
}

/// Resource grabbing: refused requests wait, and are granted in order of arrival; the head blocks the rest.
#[test]
fn released_bandwidth_is_granted_in_queue_order() {
    let mut ledger = ledger();
    let three = ledger.claim(LINK, owner(1), &flow(1), demand(3)).expect("fits");
    let two = ledger.claim(LINK, owner(2), &flow(2), demand(2)).expect("fits");
    for (block, rate) in [(3, 4), (4, 1), (5, 1)] {
        assert_eq!(ledger.enqueue(LINK, waiting(block, rate)), Ok(()));
    }
    assert_eq!(ledger.next_grantable(), None);
    ledger.release(two);
    assert_eq!(ledger.next_grantable(), None, "the head needs 4, and nobody passes it");
    ledger.release(three);
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(3))));
    ledger.claim(LINK, owner(3), &flow(3), demand(4)).expect("it was said to fit");
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(4))));
    ledger.claim(LINK, owner(4), &flow(4), demand(1)).expect("it was said to fit");
    assert_eq!(ledger.grantable(LINK), None);
    assert_eq!(ledger.link(LINK).expect("known").queued, 1);
    assert!(ledger.withdraw(LINK, owner(5)));
    assert!(!ledger.withdraw(LINK, owner(5)));
}

/// By first fit, requests that fit overtake those that do not, but the lookahead is limited.
#[test]
fn first_fit_overtakes_blocked_head() {
    let mut ledger = ledger();
    let discipline = Discipline::FirstFit;
    ledger.set_retry_policy(RetryPolicy { discipline, ..RetryPolicy::default() });
    ledger.claim(LINK, owner(1), &flow(1), demand(3)).expect("fits");
    for (block, rate) in [(2, 4), (3, 1), (4, 2), (5, 1)] {
        assert_eq!(ledger.enqueue(LINK, waiting(block, rate)), Ok(()));
    }
    for (block, rate) in [(3, 1), (5, 1)] {
        assert_eq!(ledger.next_grantable(), Some((LINK, owner(block))));
        ledger.claim(LINK, owner(block), &flow(3), demand(rate)).expect("it was said to fit");
    }
    assert_eq!(ledger.next_grantable(), None);
    let mut long = ledger;
    for block in 10..10 + LOOKAHEAD as u32 {
        assert_eq!(long.enqueue(LINK, waiting(block, 5)), Ok(()));
    }
    assert_eq!(
        long.enqueue(
            LINK,
            QueuedRequest { demand: Demand { rate: Rate::ZERO, ..demand(0) }, ..waiting(9, 0) }
        ),
        Ok(())
    );
    assert_eq!(long.next_grantable(), None);
}

/// Other disciplines for comparison: the smallest, the newest.
#[test]
fn discipline_selects_smallest_or_newest() {
    for (discipline, order) in
        [(Discipline::SmallestFirst, [4, 6, 3, 5]), (Discipline::NewestFirst, [6, 5, 4, 3])]
    {
        let mut ledger = ledger();
        ledger.set_retry_policy(RetryPolicy { discipline, ..RetryPolicy::default() });
        let all = ledger.claim(LINK, owner(1), &flow(1), demand(5)).expect("fits");
        for (block, rate) in [(3, 2), (4, 1), (5, 3), (6, 1)] {
            assert_eq!(ledger.enqueue(LINK, waiting(block, rate)), Ok(()));
        }
        assert_eq!(ledger.next_grantable(), None);
        ledger.release(all);
        for block in order {
            assert_eq!(ledger.next_grantable(), Some((LINK, owner(block))), "{discipline:?}");
        }
    }
}

/// If tries count, a request with more than T of them is not granted any more and blocks nobody; the journal has each
/// try.
#[test]
fn counting_tries_excludes_requests_over_threshold() {
    let mut ledger = ledger();
    let counting = Counting::Tries;
    ledger.set_retry_policy(RetryPolicy { threshold: 2, counting, ..RetryPolicy::default() });
    let claims = [1, 2, 3, 4, 5].map(|block| {
        ledger.claim(LINK, owner(block), &flow(block as u16), demand(1)).expect("fits")
    });
    for block in [6, 7, 8] {
        assert_eq!(ledger.enqueue(LINK, waiting(block, if block == 6 { 3 } else { 1 })), Ok(()));
    }
    ledger.keep_journal(true);
    let give_back = |ledger: &mut Ledger, place: usize| {
        ledger.release(claims[place]);
        let turns: Vec<_> = core::iter::from_fn(|| ledger.grantable(LINK)).collect();
        let tried: Vec<_> = ledger.take_attempts().into_iter().map(|tried| tried.owner).collect();
        (turns, tried)
    };
    // The head wants three. Being refused was counted when it was queued; this is the second time, the next the
    // third.
    let all = [owner(6), owner(7), owner(8)].to_vec();
    assert_eq!(give_back(&mut ledger, 0), (Vec::new(), all.clone()));
    assert_eq!(ledger.enqueue(LINK, waiting(7, 1)), Ok(()), "a refresh changes nothing");
    assert_eq!(give_back(&mut ledger, 1), (Vec::new(), all));
    assert_eq!(ledger.enqueue(LINK, waiting(9, 1)), Ok(()), "who comes now has tries left");
    assert_eq!(
        ledger.grantable(LINK),
        Some(owner(9)),
        "the others are behind, but in nobody's way"
    );
    assert_eq!(give_back(&mut ledger, 2), (Vec::new(), Vec::new()));
    assert_eq!(ledger.enqueue(LINK, waiting(8, 1)), Ok(()), "it is not forgotten what was counted");
    assert_eq!(ledger.grantable(LINK), None);
    assert_eq!(ledger.link(LINK).expect("known").queued, 3);
    assert!(ledger.withdraw(LINK, owner(8)) && !ledger.withdraw(LINK, owner(8)));
    assert_eq!(ledger.enqueue(LINK, waiting(8, 1)), Ok(()), "another request under that name");
    assert_eq!(ledger.grantable(LINK), Some(owner(8)));
}

#[test]
fn queue_continues_when_head_is_withdrawn() {
    let mut ledger = ledger();
    ledger.claim(LINK, owner(1), &flow(1), demand(3)).expect("fits");
    assert_eq!(ledger.enqueue(LINK, waiting(2, 4)), Ok(()));
    assert_eq!(ledger.enqueue(LINK, waiting(3, 2)), Ok(()));
    assert_eq!(ledger.next_grantable(), None);
    assert!(ledger.withdraw(LINK, owner(2)));
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(3))));
}

#[test]
fn repeated_request_keeps_position_until_threshold() {
    let mut ledger = ledger();
    ledger.set_retry_policy(RetryPolicy { threshold: 2, capacity: 2, ..RetryPolicy::default() });
    let all = ledger.claim(LINK, owner(1), &flow(1), demand(5)).expect("fits");
    assert_eq!(ledger.enqueue(LINK, waiting(2, 2)), Ok(()));
    assert_eq!(ledger.enqueue(LINK, waiting(3, 2)), Ok(()));
    assert_eq!(ledger.enqueue(LINK, waiting(4, 2)), Err(EnqueueError::Full));
    let again = QueuedRequest { refusals: 2, ..waiting(2, 5) };
    assert_eq!(ledger.enqueue(LINK, again), Ok(()), "no second place is needed");
    assert_eq!(
        ledger.enqueue(LINK, QueuedRequest { refusals: 3, ..again }),
        Err(EnqueueError::Threshold)
    );
    ledger.release(all);
    assert_eq!(ledger.grantable(LINK), Some(owner(3)), "owner 2 is out");
    assert_eq!(ledger.grantable(LINK), None);
}

/// A request that no release can satisfy must not block the queue.
#[test]
fn request_over_capacity_is_not_queued() {
    let mut ledger = ledger();
    assert_eq!(ledger.enqueue(LINK, waiting(1, 6)), Err(EnqueueError::NeverFits));
    let large =
        QueuedRequest { demand: Demand { max_packet: 1_501, ..demand(1) }, ..waiting(1, 1) };
    assert_eq!(ledger.enqueue(LINK, large), Err(EnqueueError::NeverFits));
    assert_eq!(ledger.enqueue(InterfaceId(9), waiting(1, 1)), Err(EnqueueError::NoSuchLink));
    assert_eq!(ledger.enqueue(LINK, waiting(1, 5)), Ok(()));
    assert_eq!(ledger.enqueue(LINK, waiting(2, 1)), Ok(()));
    ledger.set_link(LINK, capacity(4));
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(2))));
}

#[test]
fn lower_threshold_drops_requests_at_once() {
    let mut ledger = ledger();
    ledger.set_retry_policy(RetryPolicy { threshold: 10, ..RetryPolicy::default() });
    assert_eq!(ledger.enqueue(LINK, QueuedRequest { refusals: 9, ..waiting(1, 1) }), Ok(()));
    assert_eq!(ledger.enqueue(LINK, QueuedRequest { refusals: 8, ..waiting(2, 1) }), Ok(()));
    ledger.set_retry_policy(RetryPolicy { threshold: 8, ..RetryPolicy::default() });
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(2))));
    assert_eq!(ledger.next_grantable(), None);
}

/// Flows of a lane claim there and not on the link; the owner of the lane sets its rate.
#[test]
fn flows_in_lane_claim_on_lane() {
    const LANE: InterfaceId = InterfaceId(u32::MAX);
    const NARROW: InterfaceId = InterfaceId(u32::MAX - 1);
    let mut ledger = ledger();
    let prefix = |text: &str| text.parse().expect("a prefix");
    ledger.open_lane(LINK, prefix("10.0.0.0/16"), FIRST, LANE, mbps(100));
    ledger.open_lane(LINK, prefix("10.0.9.0/24"), FIRST, NARROW, mbps(100));
    let inside = flow(1);
    let outside = Flow { destination: IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), ..inside };
    let narrow = Flow { destination: IpAddr::V4(Ipv4Addr::new(10, 0, 9, 1)), ..inside };
    assert_eq!(
        ledger.claim(LINK, owner(1), &inside, demand(1)),
        Err(refused(Reason::Bandwidth, 0))
    );
    ledger.set_lane_rate(LANE, mbps(3));
    ledger.set_lane_rate(NARROW, mbps(1));
    let claim = ledger.claim(LINK, owner(1), &inside, demand(2)).expect("fits");
    assert_eq!((ledger.link_of(claim), held(&ledger)), (Some(LANE), Rate::ZERO));
    assert_eq!(ledger.change(claim, demand(4)), Err(refused(Reason::Bandwidth, 3)));
    let claim_of_narrow = ledger.claim(LINK, owner(2), &narrow, demand(1)).expect("fits");
    assert_eq!(ledger.link_of(claim_of_narrow), Some(NARROW), "the longer prefix");
    let plain = ledger.claim(LINK, owner(3), &outside, demand(2)).expect("fits");
    assert_eq!((ledger.link_of(plain), held(&ledger)), (Some(LINK), mbps(2)));
    // The aggregate itself, and flows of other protocols, claim on the link.
    let boomerang = Owner { protocol: SECOND, block: 1 };
    let aggregate = Flow::to_range(prefix("10.0.0.0/16"));
    let own = ledger.claim(LINK, boomerang, &aggregate, demand(3)).expect("fits");
    assert_eq!((ledger.link_of(own), held(&ledger)), (Some(LINK), mbps(5)));
    let also = Flow { destination_port: 9, ..inside };
    assert_eq!(
        ledger
            .claim_with_priority(LINK, owner(4), &also, demand(1), Priority::default())
            .map(|c| ledger.link_of(c)),
        Ok(Some(LANE))
    );
    // Removing a lane removes its claims.
    let lost: Vec<Owner> = ledger.remove_link(LANE).claims.into_iter().map(|(_, o)| o).collect();
    assert_eq!(lost, [owner(1), owner(4)]);
}

/// Flows in a lane are limited as on its link, whichever is set first.
#[test]
fn one_claim_is_limited_in_lanes() {
    let range = "10.0.0.0/8".parse().expect("a prefix");
    for is_limited_first in [true, false] {
        let mut ledger = ledger();
        let lane = InterfaceId(900);
        if is_limited_first {
            ledger.set_largest(LINK, Some(mbps(2)));
        }
        ledger.open_lane(LINK, range, owner(1).protocol, lane, mbps(5));
        ledger.set_lane_rate(lane, mbps(5));
        if !is_limited_first {
            ledger.set_largest(LINK, Some(mbps(2)));
        }
        let claimed = ledger.claim(LINK, owner(1), &flow(1), demand(3));
        assert_eq!(claimed, Err(refused(Reason::Bandwidth, 2)), "{is_limited_first}");
        let claim = ledger.claim(LINK, owner(1), &flow(1), demand(2)).expect("not too large");
        assert_eq!(ledger.link_of(claim), Some(lane));
    }
}
