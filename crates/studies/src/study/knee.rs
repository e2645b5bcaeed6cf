//! Knees of simulated routers: with the times of a cost profile, the largest rate of set-ups and releases that goes
//! through a router without a loss, for each protocol.
//!
//! A session lives for half of the window at most, as in the measurement of real daemons
//! ([`rates`](crate::bench::rates)), and no message is acknowledged by a neighbor there either; but its set-up comes at a random time, by a
//! Poisson process.

use anyhow::{Context, Result};
use earmark_lab::runs;
use earmark_lab::statistics::Median;
use earmark_scenario::processing::Processing;
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, ProcessorOutcome, Scenario, play};
use serde::Serialize;

use crate::bench::search::Search;

/// Number of sources: a host has a limited number of applications.
const SOURCES: usize = 32;
/// Duration of an attempt, and the part at its beginning that does not count.
const WINDOW: [&str; 2] = ["1s", "400ms"];
/// Lifetime of a session, seconds.
const LIFE_S: f64 = 0.25;
/// Share of the requests that have to be granted; those of the last instants have no time for an answer.
const GRANTED: f64 = 0.99;
/// Largest share of a processor that goes on without an end.
const FULL: f64 = 0.995;

/// The knee of a simulated router: medians over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// Name of the protocol.
    pub protocol: String,
    /// Number of seeds.
    pub seeds: u64,
    /// Largest pairs of a set-up and a release a second, without a loss.
    pub rate: Median,
    /// Whether a loss was found above, with every seed.
    pub is_found: bool,
    /// Use of the processor at that rate, 0 to 1.
    pub busy: Median,
    /// Messages that the router receives for a pair: those of both ends, with the reports and confirmations of receivers.
    pub messages: Median,
}

/// The knee with one seed.
struct OneKnee {
    rate: u32,
    is_found: bool,
    busy: f64,
    messages: f64,
}

/// Searches for the knee of a protocol with the seeds from 1 on, on all processors; `None` if its messages take no time.
/// `profile` is the name of a built-in profile, or of a file.
///
/// # Errors
/// The profile cannot be used.
pub fn knee(protocol: &str, profile: &str, seeds: u64) -> Result<Option<Knee>> {
    let processing = load(profile)?;
    if !processing.loaded.as_ref().is_some_and(|profile| profile.has_times(protocol)) {
        return Ok(None);
    }
    let jobs: Vec<u64> = (1..=seeds).collect();
    let bar = runs::bar("seeds", jobs.len());
    let knees = runs::over_all_cores(&jobs, &bar, |seed| one_knee(protocol, &processing, *seed));
    let knees: Vec<OneKnee> = knees.into_iter().collect::<Result<_>>()?;
    let median = |of: fn(&OneKnee) -> f64| {
        Median::of(knees.iter().map(of)).context("at least one seed is needed")
    };
    Ok(Some(Knee {
        protocol: protocol.to_owned(),
        seeds,
        rate: median(|knee| f64::from(knee.rate))?,
        is_found: knees.iter().all(|knee| knee.is_found),
        busy: median(|knee| knee.busy)?,
        messages: median(|knee| knee.messages)?,
    }))
}

fn one_knee(protocol: &str, processing: &Processing, seed: u64) -> Result<OneKnee> {
    let search = Search { first: 100, last: 204_800, step: 10, halvings: 5 };
    let messages = messages_of_a_pair(protocol, processing, seed)?;
    let (mut busy, mut is_found) = (0.0, false);
    let rate = search.largest(|rate| {
        let router = offer(protocol, processing, rate, seed)?;
        match router {
            Some(router) => busy = router.busy,
            None => is_found = true,
        }
        Ok(router.is_some())
    })?;
    Ok(OneKnee { rate, is_found, busy, messages })
}

/// Loads a profile.
fn load(profile: &str) -> Result<Processing> {
    let profile = profile.to_owned();
    let mut processing = Processing { profile, nodes: None, speed: 1.0, loaded: None };
    processing.load(|file| std::fs::read_to_string(file))?;
    Ok(processing)
}

/// Counts the messages for a pair at a low rate, in three seconds of the steady state.
fn messages_of_a_pair(protocol: &str, processing: &Processing, seed: u64) -> Result<f64> {
    const RATE: u32 = 100;
    let counts = |seconds: u32| -> Result<[f64; 2]> {
        let window = [format!("{seconds}s"), "0s".to_owned()];
        let outcome = run(protocol, processing, (RATE, &window), seed)?;
        let router = outcome.processors.get("r").context("the router has a processor")?;
        Ok([router.turns, outcome.wanted].map(|count| count as f64))
    };
    let ([turns, pairs], [earlier, before]) = (counts(5)?, counts(2)?);
    Ok((turns - earlier) / (pairs - before))
}

/// Offers a rate; returns the use of the router's processor if the load goes through.
fn offer(
    protocol: &str,
    processing: &Processing,
    rate: u32,
    seed: u64,
) -> Result<Option<ProcessorOutcome>> {
    let window = WINDOW.map(str::to_owned);
    let outcome = run(protocol, processing, (rate, &window), seed)?;
    let router = *outcome.processors.get("r").context("the router has a processor")?;
    let granted = outcome.completed as f64 / (outcome.wanted as f64).max(1.0);
    let goes_through = router.lost == 0 && router.busy < FULL && granted >= GRANTED;
    Ok(goes_through.then_some(router))
}

fn run(
    protocol: &str,
    processing: &Processing,
    (rate, window): (u32, &[String; 2]),
    seed: u64,
) -> Result<Outcome> {
    let topology = Topology::parse(&star()).context("the star is a topology")?;
    let scenario = Scenario::parse(&scenario(protocol, rate, window))?;
    let scenario = Scenario { processing: Some(processing.clone()), ..scenario };
    Ok(play(&scenario, &topology, seed)?)
}

fn scenario(protocol: &str, rate: u32, [window, discarded]: &[String; 2]) -> String {
    let pairs: Vec<String> =
        (0..SOURCES).map(|number| format!("[\"s{number}\", \"d{number}\"]")).collect();
    let count = (f64::from(rate) * LIFE_S).ceil();
    format!(
        "name = \"knee\"\ntopology = \"none\"\nprotocol = \"{protocol}\"\n\
         duration = \"{window}\"\ndiscard = \"{discarded}\"\ndata = \"none\"\nrefresh_reduction = false\n\
         [[flows]]\nname = \"sessions\"\nbetween = [{}]\ncount = {count}\narrivals = \"poisson\"\ninitial = \"none\"\n\
         lifetime = \"constant {LIFE_S}s\"\nrate = \"1kbit\"\nreserves = \"0s\"\n",
        pairs.join(", ")
    )
}

/// Returns a router between sources and destinations, whose links are never full.
fn star() -> String {
    let hosts = || (0..SOURCES).flat_map(|number| [format!("s{number}"), format!("d{number}")]);
    let nodes: Vec<String> = hosts().map(|name| format!("{{ name = \"{name}\" }}")).collect();
    let link = |name: String| {
        format!("{{ ends = [\"{name}\", \"r\"], bandwidth = \"100Gbit\", delay = \"50us\" }}")
    };
    let links: Vec<String> = hosts().map(link).collect();
    format!(
        "node = [{{ name = \"r\", role = \"router\" }}, {}]\nlink = [{}]\n",
        nodes.join(", "),
        links.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 42 us a pass and 41 us with a removal: out and back twice, 166 us at most, so at least 6 024 pairs a second.
    #[test]
    fn published_times_of_boomerang_have_their_knee() {
        let processing = load("pentium-ii-2001").unwrap();
        let at = |rate| offer("boomerang", &processing, rate, 1).unwrap();
        let below = at(5_000).expect("83 % of the time");
        assert!((0.6..0.95).contains(&below.busy), "{below:?}");
        assert_eq!(at(7_000), None);
        let messages = messages_of_a_pair("boomerang", &processing, 1).unwrap();
        assert!((3.8..4.2).contains(&messages), "two loops, out and back: {messages}");
    }

    #[test]
    fn unknown_profile_is_refused() {
        let error = knee("rsvp", "vax", 1).unwrap_err();
        assert!(error.to_string().contains("vax"), "{error:#}");
        assert_eq!(knee("yessir", "pentium-ii-2001", 1).unwrap(), None, "it has no times");
    }
}
