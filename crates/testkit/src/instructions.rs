//! Benchmarks that count the instructions of one message among many sessions.

use std::hint::black_box;

/// A population of sessions, and a message about one of them, or about the next.
///
/// The case is boxed, so that handing it over costs the measured function nothing.
pub type Case<P, A> = Box<(P, A)>;

/// Returns `usual`, and `large` too if `EARMARK_BENCH_LARGE` was set at compile time: the runner gives the measured
/// process no environment. The largest population takes a minute for each benchmark, so it must be requested.
pub fn populations(usual: &[u32], large: u32) -> Vec<u32> {
    let large = option_env!("EARMARK_BENCH_LARGE").map(|_| large);
    usual.iter().copied().chain(large).collect()
}

/// Handles the message of a case: what the benchmark of a message measures.
#[inline(always)]
pub fn measured<P, A>(
    mut case: Case<P, A>,
    handle: impl FnOnce(&mut P, &A) -> usize,
) -> Case<P, A> {
    let (population, arrival) = &mut *case;
    black_box(handle(population, black_box(arrival)));
    case
}
