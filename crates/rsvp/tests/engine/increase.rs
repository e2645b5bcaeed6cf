//! An increase that is refused because there is no room: of a sender's Tspec, or by another sender of a shared reservation. It is
//! made up for when there is room.

use std::time::Duration;

use earmark_core::Rate;
use earmark_wire::rsvp::{
    Body, FixedFilterFlow, FlowDescriptors, List, MessageType, Path, Resv, ResvTear, Session,
};

use crate::common::*;
use crate::sharing::*;

fn other_session() -> Session {
    Session { port: 7_777, ..session() }
}

/// Path of a sender of this many Mbit/s, by its port.
fn path_at(mbps: u32, port: u16) -> Path<'static> {
    let mut path = path_of(sender_on(port));
    path.sender.tspec = tspec(mbps);
    path
}

/// A router whose link has 7.5 Mbit/s, of which another session has 5.
fn crowded() -> Bench {
    let mut bench = router();
    bench.receive(ETH1, Body::Path(Path { session: other_session(), ..path_at(5, 1) }));
    let flows = [FixedFilterFlow { filter: sender_on(1), ..flow(5) }];
    bench.receive(ETH2, Body::Resv(Resv { session: other_session(), ..resv(&flows) }));
    assert_eq!(bench.held(), Rate::from_mbps(5));
    bench
}

fn errors(outcomes: &[Outcome]) -> usize {
    let sent = sent(outcomes);
    let kinds = sent.iter().map(|(_, message)| message.body.message_type());
    kinds.filter(|kind| *kind == MessageType::ResvErr).count()
}

/// Refreshes a session for a minute, and returns the number of errors.
fn refresh(bench: &mut Bench, resv: Resv<'_>, paths: &[Path<'static>]) -> usize {
    let mut outcomes = Vec::new();
    for _ in 0..6 {
        outcomes.extend(paths.iter().flat_map(|path| bench.receive(ETH1, Body::Path(*path))));
        outcomes.extend(bench.receive(ETH2, Body::Resv(resv)));
        outcomes.extend(bench.pass(Duration::from_secs(10)));
    }
    errors(&outcomes)
}

#[test]
fn refused_increase_is_made_up_for_when_there_is_room() {
    let flows = [FixedFilterFlow { filter: sender_on(1), ..flow(6) }];
    let filters = [sender_on(1), sender_on(2)];
    let distinct = FlowDescriptors::FixedFilter(List::Items(&flows));
    let explicit = FlowDescriptors::SharedExplicit(Some(flowspec(6)), List::Items(&filters));
    let wildcard = FlowDescriptors::Wildcard(Some(flowspec(6)));
    // One sender says more, or another one is new.
    let more = [path_at(6, 1)];
    let another = [path_at(2, 1), path_at(4, 2)];
    for (flows, paths) in
        [(distinct, &more[..]), (explicit, &more), (wildcard, &more), (wildcard, &another)]
    {
        let what = format!("{:?}, {} senders", flows.style(), paths.len());
        let mut bench = crowded();
        let resv = Resv { flows, ..resv(&[]) };
        bench.receive(ETH1, Body::Path(path_at(2, 1)));
        bench.receive(ETH2, Body::Resv(resv));
        assert_eq!(bench.held(), Rate::from_mbps(7), "{what}");
        let refused: usize =
            paths.iter().map(|path| errors(&bench.receive(ETH1, Body::Path(*path)))).sum();
        assert_eq!(refused, 1, "{what}");
        assert_eq!(refresh(&mut bench, resv, paths), 0, "{what}: once is enough");
        let other = [FixedFilterFlow { filter: sender_on(1), ..flow(5) }];
        let tear = ResvTear { session: other_session(), ..resv_tear(&other) };
        bench.receive(ETH2, Body::ResvTear(tear));
        assert_eq!(bench.held(), Rate::from_mbps(2), "{what}");
        refresh(&mut bench, resv, paths);
        assert_eq!(bench.held(), Rate::from_mbps(6), "{what}");
    }
}
