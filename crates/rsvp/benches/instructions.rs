//! Instructions per message at 10^3 and 10^5 resident sessions, and with `EARMARK_BENCH_LARGE=1` at 10^6 too, which
//! takes minutes because valgrind also runs the set-up. Run with `cargo bench -p earmark-rsvp`; it needs valgrind and
//! gungraun-runner.

#![allow(missing_docs)] // the harness generates undocumented modules

#[path = "../tests/common/population.rs"]
mod population;

use std::hint::black_box;

use earmark_testkit::instructions::{self, measured};
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, GROUP, Population, sign};

/// A router, and a message about one of its sessions, or about the next.
type Case = instructions::Case<Population, Arrival>;

/// Drops the effects of the set-up, so that no message pays for another one's effects.
fn case(mut population: Population, arrival: Arrival) -> Case {
    population.forget_effects();
    Box::new((population, arrival))
}

fn new_path(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.path(sessions);
    case(population, arrival)
}

fn known_path(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.path(sessions / 2);
    case(population, arrival)
}

/// A refresh with INTEGRITY, which is verified.
fn signed_path(sessions: u32) -> Case {
    let population = Population::signed(sessions);
    let arrival = sign(&population.path(sessions / 2), 1 + u64::from(sessions));
    case(population, arrival)
}

fn new_resv(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    let path = population.path(sessions);
    population.handle(&path);
    let arrival = population.resv(sessions);
    case(population, arrival)
}

fn known_resv(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.resv(sessions / 2);
    case(population, arrival)
}

fn known_path_tear(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.path_tear(sessions / 2);
    case(population, arrival)
}

fn known_resv_tear(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.resv_tear(sessions / 2);
    case(population, arrival)
}

/// Next hops of a group, behind one interface or behind one each.
const RECEIVERS: u32 = 64;

/// A router with the sender of a group on this number of links, and the shared reservations of all but the last
/// `missing` of its receivers.
fn group(links: u32, missing: u32) -> Population {
    let mut population = Population::forked(links);
    population.handle(&population.path(GROUP));
    for receiver in 0..RECEIVERS - missing {
        population.handle(&receiver_of(&population, links, receiver));
    }
    population
}

fn receiver_of(population: &Population, links: u32, receiver: u32) -> Arrival {
    population.group_resv(receiver % links, (receiver / links) as u8)
}

fn group_path(links: u32) -> Case {
    let population = Population::forked(links);
    let arrival = population.path(GROUP);
    case(population, arrival)
}

fn group_resv(links: u32) -> Case {
    let population = group(links, 1);
    let arrival = receiver_of(&population, links, RECEIVERS - 1);
    case(population, arrival)
}

fn group_path_tear(links: u32) -> Case {
    let population = group(links, 0);
    let arrival = population.path_tear(GROUP);
    case(population, arrival)
}

/// Identifiers in one summary refresh; more do not fit into a packet.
const NUMBERS: u32 = 300;

/// A summary refresh for the Paths of sessions in the order of their set-up.
fn summary(sessions: u32) -> Case {
    let population = Population::reduced(sessions);
    let first = sessions / 2;
    let arrival = population.summary(first..first + NUMBERS);
    case(population, arrival)
}

/// A summary refresh for the Paths of sessions in random order.
fn shuffled_summary(sessions: u32) -> Case {
    let population = Population::reduced(sessions);
    // 7 919 is a prime, so no session comes twice.
    let order = (0..NUMBERS).map(|number| number * 7_919 % sessions);
    let arrival = population.summary(order);
    case(population, arrival)
}

/// A router with a summary refresh that is due.
fn due_summary(sessions: u32) -> Box<Population> {
    let mut population = Population::reduced(sessions);
    population.wait();
    population.forget_effects();
    Box::new(population)
}

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000, 100_000], 1_000_000)
}

#[library_benchmark(setup = new_path)]
#[benches::sessions(iter = populations())]
fn path_new(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_path)]
#[benches::sessions(iter = populations())]
fn path_refreshed(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = signed_path)]
#[benches::sessions(iter = populations())]
fn path_refreshed_with_integrity(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = new_resv)]
#[benches::sessions(iter = populations())]
fn resv_new(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_resv)]
#[benches::sessions(iter = populations())]
fn resv_refreshed(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_path_tear)]
#[benches::sessions(iter = populations())]
fn path_tear(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_resv_tear)]
#[benches::sessions(iter = populations())]
fn resv_tear(case: Case) -> Case {
    measured(case, Population::handle)
}

// Messages about a group with 64 receivers, behind one interface or behind one each; the reservations are
// shared-explicit.
#[library_benchmark]
#[bench::one_link(setup = group_path, args = (1))]
#[bench::many_links(setup = group_path, args = (64))]
fn path_to_group(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark]
#[bench::one_link(setup = group_resv, args = (1))]
#[bench::many_links(setup = group_resv, args = (64))]
fn resv_of_group(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark]
#[bench::one_link(setup = group_path_tear, args = (1))]
#[bench::many_links(setup = group_path_tear, args = (64))]
fn path_tear_to_group(case: Case) -> Case {
    measured(case, Population::handle)
}

// 300 sessions at once, so divide the count by that. The cost does not depend on the number of sessions, but
// populations with refresh reduction take long to set up.
#[library_benchmark(setup = summary)]
#[bench::sessions(1_000)]
fn summary_of_300(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = shuffled_summary)]
#[bench::sessions(1_000)]
fn summary_of_300_shuffled(case: Case) -> Case {
    measured(case, Population::handle)
}

// As many as fit into a packet of 1 500 octets, which are 311.
#[library_benchmark(setup = due_summary)]
#[bench::sessions(1_000)]
fn summary_sent(mut population: Box<Population>) -> Box<Population> {
    black_box(population.expire());
    population
}

library_benchmark_group!(
    name = messages,
    benchmarks = [
        path_new,
        path_refreshed,
        path_refreshed_with_integrity,
        resv_new,
        resv_refreshed,
        path_tear,
        resv_tear,
        path_to_group,
        resv_of_group,
        path_tear_to_group,
        summary_of_300,
        summary_of_300_shuffled,
        summary_sent
    ]
);
main!(library_benchmark_groups = messages);
