//! Graceful restart (RFC 3473 section 9) with shared reservations, and with groups.

use earmark_wire::rsvp::{Body, FilterSpec, Message, Path, Resv, SenderDescriptor};

use crate::common::*;
use crate::message_ids::*;
use crate::restarts::*;
use crate::sharing::*;

/// Two senders behind the upstream neighbour.
fn senders() -> [FilterSpec; 2] {
    [template(), FilterSpec { source: ip("10.0.0.2"), ..template() }]
}

fn refresh_sender(router: &mut Bench, template: FilterSpec) -> Vec<Outcome> {
    let sender = SenderDescriptor { template, ..path().sender };
    let path = Path { sender, refresh_ms: 1_000, ..path() };
    receive(router, ETH1, &Message::new(64, Body::Path(path)))
}

fn refresh_shared(router: &mut Bench, resv: Resv<'_>) -> Vec<Outcome> {
    router.receive(ETH2, Body::Resv(Resv { refresh_ms: 1_000, ..resv }))
}

/// A router with a request of 2 Mbit/s for both senders, in either shared style.
fn shared_router(resv: Resv<'_>) -> (Bench, Neighbor, Neighbor) {
    let mut router = with_config(restart_config());
    let (up, down) = (Neighbor::new(ETH1), Neighbor::new(ETH2));
    up.hello(&mut router, 0);
    down.hello(&mut router, 0);
    for template in senders() {
        refresh_sender(&mut router, template);
    }
    refresh_shared(&mut router, resv);
    assert_eq!(router.held(), mbps(2));
    (router, up, down)
}

/// RFC 3473 section 9.5.3: the shared request is not refreshed before one of its senders is known at the previous hop again. Each
/// sender has a RecoveryPath.
#[test]
fn shared_request_waits_for_path_of_restarted_hop() {
    let filters = senders();
    for resv in [shared(2, &filters), wildcard(2)] {
        let (mut router, up, down) = shared_router(resv);
        let keep = |router: &mut Bench| {
            down.hello(router, 0);
            refresh_shared(router, resv)
        };
        let outcomes = pass_in_steps(&mut router, 8, keep);
        assert_eq!(restarts(&outcomes).len(), 1);
        let up = up.restarted(RECOVERY);
        up.hello(&mut router, 0);
        let outcomes = router.pass(MS);
        assert_eq!(count(&outcomes, is_recovery_path), 2);
        let outcomes = pass_in_steps(&mut router, 5, |router| {
            up.hello(router, 0);
            keep(router)
        });
        assert_eq!((count(&outcomes, is_resv), router.held()), (0, mbps(2)));
        assert_eq!(count(&refresh_sender(&mut router, filters[0]), is_resv), 1);
        let outcomes = pass_in_steps(&mut router, 5, |router| {
            up.hello(router, 0);
            for template in filters {
                refresh_sender(router, template);
            }
            keep(router)
        });
        assert!(count(&outcomes, is_resv) >= 2, "refreshes continue");
        assert_eq!(router.held(), mbps(2));
    }
}

/// A request for several senders is kept with all of them over the restart of its next hop. A sender that the next hop does not
/// name any more leaves the request at the end of the Recovery Time.
#[test]
fn filters_are_kept_until_end_of_recovery() {
    let filters = senders();
    let (mut router, up, down) = shared_router(shared(2, &filters));
    let keep = |router: &mut Bench| {
        up.hello(router, 0);
        for template in senders() {
            refresh_sender(router, template);
        }
        Vec::new()
    };
    pass_in_steps(&mut router, 15, keep);
    assert_eq!(router.held(), mbps(2), "it has expired");
    let down = down.restarted(RECOVERY);
    let named = &filters[..1];
    let recover = |router: &mut Bench| {
        down.hello(router, 0);
        refresh_shared(router, shared(2, named));
        keep(router)
    };
    pass_in_steps(&mut router, 38, recover);
    let of = |router: &Bench| {
        let mut reservations = router.engine.reservations();
        reservations.next().map(|reservation| reservation.filters.as_slice().len())
    };
    assert_eq!(of(&router), Some(2));
    pass_in_steps(&mut router, 4, recover);
    assert_eq!((of(&router), router.held()), (Some(1), mbps(2)));
}
