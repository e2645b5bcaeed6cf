//! Instructions per message at 10^3 and 10^5 resident sessions, and with `EARMARK_BENCH_LARGE=1` at 10^6 too, which
//! takes minutes because valgrind also runs the set-up. Run with `cargo bench -p earmark-boomerang --bench instructions`;
//! it needs valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/population.rs"]
mod population;

use std::hint::black_box;

use earmark_wire::boomerang::Rates;
use earmark_wire::icmp::Kind;
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A router with `sessions` sessions, and a message about one of them, or about the next.
///
/// The case is boxed, so that handing it over costs the measured function nothing.
type Case = Box<(Population, Arrival)>;

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

/// Numbers of resident sessions. The largest population takes a minute per benchmark, so it is optional.
fn populations() -> Vec<u32> {
    // Read when this is compiled: the runner gives the measured process no environment.
    match option_env!("EARMARK_BENCH_LARGE") {
        Some(_) => vec![1_000, 100_000, 1_000_000],
        None => vec![1_000, 100_000],
    }
}

#[library_benchmark(setup = new_session)]
#[benches::sessions(iter = populations())]
fn set_up_outward(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = new_reverse)]
#[benches::sessions(iter = populations())]
fn set_up_return(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = outward_refresh)]
#[benches::sessions(iter = populations())]
fn refresh_outward(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = return_refresh)]
#[benches::sessions(iter = populations())]
fn refresh_return(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = renegotiation)]
#[benches::sessions(iter = populations())]
fn change(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = known_release)]
#[benches::sessions(iter = populations())]
fn release(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

library_benchmark_group!(
    name = messages,
    benchmarks = [set_up_outward, set_up_return, refresh_outward, refresh_return, change, release]
);
main!(library_benchmark_groups = messages);
