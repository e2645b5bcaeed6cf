//! Nanoseconds per message at 10^3, 10^5 and 10^6 resident sessions, caches as cold as so many sessions make them: the
//! messages come in an order in which no session is near the one before. Run with
//! `cargo bench -p earmark-boomerang --bench nanoseconds`; arguments are other numbers of sessions.

#![allow(missing_docs)]

#[path = "../tests/common/population.rs"]
mod population;

use std::time::Instant;

use earmark_core::Time;
use earmark_wire::boomerang::Rates;
use earmark_wire::icmp::Kind;
use population::{Arrival, Population};

/// Maximum number of messages measured at once.
const MESSAGES: u32 = 200_000;

fn main() {
    let numbers = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let mut populations: Vec<u32> = numbers.collect();
    if populations.is_empty() {
        populations = vec![1_000, 100_000, 1_000_000];
    }
    println!("{:>9} {:>8} {:>8} {:>8} {:>8}", "sessions", "set-up", "refresh", "return", "release");
    for sessions in populations {
        let mut population = Population::empty();
        let set_up = measure(&mut population, sessions, Kind::Request, None);
        for number in 0..sessions {
            population.handle(&population.refresh(number, Kind::Reply));
        }
        let refresh = measure(&mut population, sessions, Kind::Request, None);
        let back = measure(&mut population, sessions, Kind::Reply, None);
        let release = measure(&mut population, sessions, Kind::Request, Some(Rates::ZERO));
        println!("{sessions:>9} {set_up:>8.0} {refresh:>8.0} {back:>8.0} {release:>8.0}");
    }
    let sessions = 1_000_000;
    let mut population = Population::new(sessions);
    let start = Instant::now();
    let left = population.expire(Time::from_secs(1_000));
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(sessions);
    println!("expiry of {sessions} sessions: {each:.0} ns each, {left} left");
}

/// Returns the nanoseconds for one message about each session.
fn measure(population: &mut Population, sessions: u32, pass: Kind, rates: Option<Rates>) -> f64 {
    let again = rates.is_none() && population.sessions() == sessions as usize;
    let mut spent = 0.0;
    let (mut done, mut next) = (0, 0_u64);
    // A message that changes nothing can be repeated.
    let total = if again { sessions.max(MESSAGES) } else { sessions };
    while done < total {
        let batch = MESSAGES.min(total - done);
        let messages: Vec<Arrival> = (0..batch)
            .map(|_| {
                // A step that has no divisor in common with the powers of ten visits every session once.
                next = (next + 611_953) % u64::from(sessions);
                match rates {
                    Some(rates) => population.message(next as u32, pass, rates),
                    None => population.refresh(next as u32, pass),
                }
            })
            .collect();
        let start = Instant::now();
        for message in &messages {
            std::hint::black_box(population.handle(message));
        }
        spent += start.elapsed().as_secs_f64();
        done += batch;
    }
    spent * 1e9 / f64::from(total)
}
