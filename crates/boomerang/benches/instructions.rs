//! Instructions per message at 10^3 and 10^5 resident sessions, and with `EARMARK_BENCH_LARGE=1` at 10^6 too, which
//! takes minutes because valgrind also runs the set-up. Run with `cargo bench -p earmark-boomerang --bench instructions`;
//! it needs valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/population.rs"]
mod population;

use earmark_testkit::instructions::{self, measured};
use earmark_wire::boomerang::Rates;
use earmark_wire::icmp::Kind;
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A router, and a message about one of its sessions, or about the next.
type Case = instructions::Case<Population, Arrival>;

/// Builds a case. The effects of the set-up are removed first: no message pays for another one's effects.
fn case(mut population: Population, arrival: Arrival) -> Case {
    population.forget_effects();
    Box::new((population, arrival))
}

/// The outward pass of a new session.
fn new_session(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.refresh(sessions, Kind::Request);
    case(population, arrival)
}

/// The return pass of a new session.
fn new_reverse(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    population.handle(&population.refresh(sessions, Kind::Request));
    let arrival = population.refresh(sessions, Kind::Reply);
    case(population, arrival)
}

fn outward_refresh(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.refresh(sessions / 2, Kind::Request);
    case(population, arrival)
}

fn return_refresh(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.refresh(sessions / 2, Kind::Reply);
    case(population, arrival)
}

/// The outward pass of a new session whose credential is verified.
fn new_signed_session(sessions: u32) -> Case {
    let population = Population::with_credentials(sessions);
    let arrival = population.signed(sessions, Kind::Request, 1);
    case(population, arrival)
}

/// A refresh that has a credential. Refreshes that change nothing need none, so it is not verified.
fn signed_refresh(sessions: u32) -> Case {
    let population = Population::with_credentials(sessions);
    let arrival = population.signed(sessions / 2, Kind::Request, 2);
    case(population, arrival)
}

fn renegotiation(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let more = Rates { forward: 96_000, reverse: 64_000 };
    let arrival = population.message(sessions / 2, Kind::Request, more);
    case(population, arrival)
}

/// The release of a known session. A release has more effects than any message before, so another one has made room
/// for them, as in a running node.
fn known_release(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    population.handle(&population.message(sessions / 3, Kind::Request, Rates::ZERO));
    let arrival = population.message(sessions / 2, Kind::Request, Rates::ZERO);
    case(population, arrival)
}

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000, 100_000], 1_000_000)
}

#[library_benchmark(setup = new_session)]
#[benches::sessions(iter = populations())]
fn set_up_outward(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = new_reverse)]
#[benches::sessions(iter = populations())]
fn set_up_return(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = outward_refresh)]
#[benches::sessions(iter = populations())]
fn refresh_outward(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = return_refresh)]
#[benches::sessions(iter = populations())]
fn refresh_return(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = new_signed_session)]
#[benches::sessions(iter = populations())]
fn set_up_outward_with_credential(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = signed_refresh)]
#[benches::sessions(iter = populations())]
fn refresh_outward_with_credential(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = renegotiation)]
#[benches::sessions(iter = populations())]
fn change(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_release)]
#[benches::sessions(iter = populations())]
fn release(case: Case) -> Case {
    measured(case, Population::handle)
}

library_benchmark_group!(
    name = messages,
    benchmarks = [
        set_up_outward,
        set_up_return,
        set_up_outward_with_credential,
        refresh_outward,
        refresh_return,
        refresh_outward_with_credential,
        change,
        release,
    ]
);
main!(library_benchmark_groups = messages);
