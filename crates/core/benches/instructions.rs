//! Instructions of the ledger's operations on a link with many claims. Run with
//! `cargo bench -p earmark-core --bench instructions`; it needs valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

use std::hint::black_box;
use std::net::Ipv4Addr;

use earmark_core::admission::{ClaimId, Demand, Ledger, LinkCapacity, Owner, Protocol, Service};
use earmark_core::{Flow, InterfaceId, Prefix, Rate};
use gungraun::{library_benchmark, library_benchmark_group, main};

/// A ledger with claims on each of its links, the last claim, and their flow.
///
/// The case is boxed, so that handing it over costs the measured function nothing.
type Case = Box<(Ledger, ClaimId, Flow)>;

fn demand(mbps: u64) -> Demand {
    let rate = Rate::from_mbps(mbps);
    Demand {
        service: Service::ControlledLoad,
        rate,
        burst: 5_000,
        max_packet: 1_000,
        min_packet: 0,
    }
}

fn owner(block: u32) -> Owner {
    Owner { protocol: Protocol::new(1), block }
}

fn ledger() -> Case {
    let mut ledger = Ledger::new();
    for link in 1..=16 {
        let capacity = LinkCapacity { bandwidth: Rate::MAX, reservable: Rate::MAX, mtu: 1_500 };
        ledger.set_link(InterfaceId(link), capacity);
    }
    let flow = Flow::to_range(Prefix::host(Ipv4Addr::LOCALHOST.into()));
    let claim = |block| ledger.claim(InterfaceId(1 + block % 16), owner(block), &flow, demand(2));
    let claims: Vec<ClaimId> = (0..1_000).map(claim).map(|claim| claim.expect("fits")).collect();
    // A claim in a used slot, and without growth of the list.
    ledger.release(claims[500]);
    Box::new((ledger, claims[999], flow))
}

#[library_benchmark]
#[bench::in_used_slot(ledger())]
fn claim(mut case: Case) -> Case {
    let (ledger, _, flow) = &mut *case;
    let _ = black_box(ledger.claim(InterfaceId(3), owner(1_000), flow, black_box(demand(1))));
    case
}

#[library_benchmark]
#[bench::to_more(ledger(), 3)]
#[bench::to_less(ledger(), 1)]
fn change(mut case: Case, mbps: u64) -> Case {
    let (ledger, claim, _) = &mut *case;
    let _ = black_box(ledger.change(*claim, black_box(demand(mbps))));
    case
}

#[library_benchmark]
#[bench::of_many(ledger())]
fn release(mut case: Case) -> Case {
    let (ledger, claim, _) = &mut *case;
    black_box(ledger.release(*claim));
    case
}

library_benchmark_group!(name = operations, benchmarks = [claim, change, release]);
main!(library_benchmark_groups = operations);
