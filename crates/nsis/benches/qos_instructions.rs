//! Instructions per message of QoS NSLP, without GIST, at 10^3 resident sessions, and with `EARMARK_BENCH_LARGE=1` at
//! 6 x 10^4 too. Run with `cargo bench -p earmark-nsis --bench qos_instructions`; it needs valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/qos_population.rs"]
mod population;

use std::hint::black_box;

use earmark_testkit::instructions::{self, measured};
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A router, and a message about one of its sessions, or about the next.
type Case = instructions::Case<Population, Arrival>;

fn case(sessions: u32, arrival: Arrival) -> Case {
    let mut population = Population::new(sessions);
    population.forget_effects();
    Box::new((population, arrival))
}

fn new_session(sessions: u32) -> Case {
    case(sessions, population::request(sessions))
}

fn known_session(sessions: u32) -> Case {
    case(sessions, population::refresh(sessions / 2))
}

fn torn_session(sessions: u32) -> Case {
    case(sessions, population::tear(sessions / 2))
}

fn answered_session(sessions: u32) -> Case {
    let mut case = case(sessions, population::confirmation(sessions));
    case.0.handle(&population::request(sessions));
    case.0.forget_effects();
    case
}

/// Returns the state just before one session refreshes its next node.
fn due_session(sessions: u32) -> Case {
    let steps = steps_to_one(sessions);
    let mut case = known_session(sessions);
    for _ in 0..steps {
        case.0.until_refresh();
        case.0.expire();
    }
    case.0.forget_effects();
    case.0.until_refresh();
    case
}

/// Returns the number of deadlines after which exactly one session is due. With many sessions, several are due in the
/// same millisecond; and when the wheel reaches another 64 of them, it processes all their timers.
fn steps_to_one(sessions: u32) -> usize {
    let mut population = Population::new(sessions);
    let mut before = None;
    for steps in 0.. {
        population.until_refresh();
        population.forget_effects();
        let slot = population.now.as_nanos() / 64_000_000;
        if population.expire() == 1 && before == Some(slot) {
            return steps;
        }
        before = Some(slot);
    }
    unreachable!("sessions are refreshed one by one")
}

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000], 60_000)
}

#[library_benchmark(setup = new_session)]
#[benches::sessions(iter = populations())]
fn reserve_new(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_session)]
#[benches::sessions(iter = populations())]
fn reserve_refresh(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = answered_session)]
#[benches::sessions(iter = populations())]
fn response(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = torn_session)]
#[benches::sessions(iter = populations())]
fn reserve_tear(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = due_session)]
#[benches::sessions(iter = populations())]
fn refresh_sent(mut case: Case) -> Case {
    let (population, _) = &mut *case;
    black_box(population.expire());
    case
}

library_benchmark_group!(
    name = messages,
    benchmarks = [reserve_new, reserve_refresh, response, reserve_tear, refresh_sent]
);
main!(library_benchmark_groups = messages);
