//! Nanoseconds per message at 10^3, 10^5 and 10^6 resident streams: `cargo bench -p earmark-yessir --bench messages`.
//!
//! A plain program, since the result is a table of a dozen numbers.

#[path = "../tests/common/population.rs"]
mod population;

use std::time::{Duration, Instant};

use population::{Arrival, Population, release, request};

/// Maximum number of messages of a kind that are measured; each is about another stream, all over the table.
const MESSAGES: u32 = 100_000;

fn main() {
    for sessions in [1_000, 100_000, 1_000_000] {
        let mut population = Population::empty();
        let start = Instant::now();
        for number in 0..sessions {
            population.handle(&request(number));
            population.forget_effects();
        }
        let all = start.elapsed();
        println!("{sessions} streams, made in {all:.2?} (making the messages included)");
        let count = sessions.min(MESSAGES);
        let stride = 7_919; // a prime: consecutive messages are far apart in the table
        let spread = |n: u32| ((u64::from(n) * stride) % u64::from(sessions)) as u32;
        run(
            &mut population,
            "refresh",
            &(0..count).map(|n| request(spread(n))).collect::<Vec<_>>(),
        );
        run(
            &mut population,
            "set-up",
            &(0..count).map(|n| request(sessions + n)).collect::<Vec<_>>(),
        );
        run(
            &mut population,
            "release",
            &(0..count).map(|n| release(sessions + n)).collect::<Vec<_>>(),
        );
        let start = Instant::now();
        population.expire(Duration::from_secs(200));
        let each = start.elapsed().as_nanos() as f64 / f64::from(sessions);
        assert_eq!(population.sessions(), 0);
        println!("  {:<10} {each:8.0} ns", "expiry");
    }
}

fn run(population: &mut Population, what: &str, arrivals: &[Arrival]) {
    let start = Instant::now();
    for arrival in arrivals {
        population.handle(arrival);
        population.forget_effects();
    }
    let each = start.elapsed().as_nanos() as f64 / arrivals.len() as f64;
    println!("  {what:<10} {each:8.0} ns");
}
