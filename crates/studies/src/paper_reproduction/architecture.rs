//! The benchmark of Delft: ten thousand messages of telephone calls ([`crate::bench::calls`]) on simulated processors.
//!
//! The paper ran an RSVP daemon without its sockets on a simulator of another kind of processor. Here valgrind
//! simulates caches and branch prediction for the daemon's own code, once with the caches of the paper, once with
//! current ones, and then with instruction caches of many shapes. Cycles of a simulated processor are an estimate and
//! named so; those of this machine's clock and counters stand in a table of their own, beside no published ones.
//!
//! - [`simulator`], [`counts`]: runs under valgrind, and what they count.
//! - [`functions`]: attribution of instructions to the paper's functions; [`shares`]: share of each.
//! - [`metrics`]: the paper's figures, from the counts.
//! - [`processors`]: comparison with the published figures; [`samples`]: the repetitions behind it.
//! - [`sweep`]: caches of many shapes.
//! - [`clock`]: the same on the real processor.

mod clock;
mod counts;
mod functions;
mod metrics;
mod processors;
mod samples;
mod shares;
mod simulator;
mod sweep;

use anyhow::Result;

use super::PartOptions;
use super::environment::Environment;
use super::section::Section;
use crate::bench::Supervision;
use crate::bench::calls::{CALLS_A_SECOND, Plan, Scenario};
use crate::bench::messages::instructions::WITHOUT_VALGRIND;
use crate::bench::router::Protocol;
use functions::Functions;
use processors::MeasuredCost;
use samples::Sample;
use simulator::{Caches, Job, OF_THE_PAPER, OF_TODAY, Run};
use sweep::{ShapeResult, VariedCache};

/// Messages of a run, as in the paper.
const MESSAGES: u32 = 10_000;
/// Seed of the runs that are not repetitions.
const SEED: u64 = 1;

/// Purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Purpose {
    /// One scenario of one protocol on one kind of processor, in several repetitions with different call arrivals.
    Scenario(Protocol, Scenario, Caches),
    /// A cache of another shape.
    Shape(VariedCache, Caches),
}

/// Counts, simulates, and times the benchmark.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = Section::default();
    let purposes = purposes(order.quick);
    let jobs: Vec<Job> = purposes.iter().map(|(purpose, seed)| job(*purpose, *seed)).collect();
    let Some(runs) = simulator::run(&jobs, supervision)? else {
        section.text(format!("Nothing was measured: {WITHOUT_VALGRIND}."));
        section.leave_out("delft", WITHOUT_VALGRIND);
        return Ok(section);
    };
    let runs: Vec<(Purpose, Run)> =
        purposes.into_iter().map(|(purpose, _)| purpose).zip(runs).collect();
    let samples = samples(&runs);
    introduce(&mut section, &samples);
    samples::check(&mut section, &samples);
    shares::show(&mut section, &samples);
    let here = clock(&samples, order.quick, supervision)?;
    processors::simulated(&mut section, &samples);
    let mhz = Environment::of_this_machine().mhz;
    processors::this_machine(&mut section, &samples, &here, mhz);
    let results: Vec<ShapeResult<'_>> = runs
        .iter()
        .filter_map(|(purpose, run)| match *purpose {
            Purpose::Shape(varied, caches) => Some(ShapeResult { varied, caches, run }),
            Purpose::Scenario(..) => None,
        })
        .collect();
    section.heading("Caches of other shapes");
    sweep::show(&mut section, &results, order.quick);
    processors::conclude(&mut section, &samples, &here);
    Ok(section)
}

/// Times of this processor for each sample with the paper's caches, in their order.
fn clock(
    samples: &[Sample<'_>],
    quick: bool,
    supervision: &Supervision<'_>,
) -> Result<Vec<MeasuredCost>> {
    let with_the_papers = samples.iter().filter(|sample| sample.caches == OF_THE_PAPER);
    let plans: Vec<Plan> =
        with_the_papers.map(|sample| plan(sample.protocol, sample.scenario, SEED)).collect();
    let times = clock::times(&plans, if quick { 9 } else { 25 }, supervision)?;
    let mut here = Vec::new();
    for (plan, us) in plans.iter().zip(times) {
        let counted = clock::counters(plan, if quick { 3 } else { 9 }, supervision)?;
        here.push(MeasuredCost { us, counted });
    }
    Ok(here)
}

/// Returns the first and the last seed.
pub(super) fn seeds(quick: bool) -> [u64; 2] {
    [SEED, if quick { 5 } else { 9 }]
}

/// Returns all runs, each with its seed.
fn purposes(quick: bool) -> Vec<(Purpose, u64)> {
    let mut all = Vec::new();
    let mut add = |protocol, scenario, caches, count: u64| {
        let purpose = Purpose::Scenario(protocol, scenario, caches);
        all.extend((SEED..SEED + count).map(|seed| (purpose, seed)));
    };
    for (caches, count) in [(OF_THE_PAPER, seeds(quick)[1]), (OF_TODAY, if quick { 1 } else { 3 })]
    {
        for scenario in Scenario::ALL {
            add(Protocol::Rsvp, scenario, caches, count);
        }
        if !quick {
            for protocol in [Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis] {
                add(protocol, Scenario::All, caches, 3);
            }
        }
    }
    let shapes = sweep::shapes(quick).into_iter();
    all.extend(shapes.map(|(varied, caches)| (Purpose::Shape(varied, caches), SEED)));
    all
}

fn plan(protocol: Protocol, scenario: Scenario, seed: u64) -> Plan {
    Plan { protocol, scenario, messages: MESSAGES, seed }
}

fn job(purpose: Purpose, seed: u64) -> Job {
    match purpose {
        Purpose::Scenario(protocol, scenario, caches) => {
            Job { plan: plan(protocol, scenario, seed), caches }
        }
        Purpose::Shape(_, caches) => {
            Job { plan: plan(Protocol::Rsvp, Scenario::All, seed), caches }
        }
    }
}

/// Groups the repetitions of each scenario.
fn samples(runs: &[(Purpose, Run)]) -> Vec<Sample<'_>> {
    let same = |one: &(Purpose, Run), next: &(Purpose, Run)| one.0 == next.0;
    let groups = runs.chunk_by(same).filter_map(|group| match group[0].0 {
        Purpose::Scenario(protocol, scenario, caches) => {
            let runs = group.iter().map(|(_, run)| run).collect();
            Some(Sample { protocol, scenario, caches, runs })
        }
        Purpose::Shape(..) => None,
    });
    groups.collect()
}

fn introduce(section: &mut Section, samples: &[Sample<'_>]) {
    let repetitions = samples.first().map_or(0, |sample| sample.runs.len());
    let at_once = samples.first().map_or(0, |sample| sample.runs[0].played.calls_at_once);
    section.text(format!(
        "Calls by telephone are set up, refreshed every 30 s for as long as somebody talks, and given back: 4 Path, 4 Resv, 1 ResvConf, 1 \
         ResvTear and 1 PathTear each, on average, with 0 to 6 refreshes. About {CALLS_A_SECOND} calls begin in a second, so that up to \
         {at_once} stand at a time, and their messages reach one router in the order of time: as many whole calls as {MESSAGES} messages \
         make. Scenario 1 has all messages, scenario 2 only the Path and PathTear, scenario 3 only those of Resv; the Path messages that it \
         needs come as well, and are not counted, but the time-outs of both kinds of state are. The router is the daemon's: engine, ledger, routes, without sockets and kernel, as \
         in the paper. It runs on processors that valgrind simulates, of which each instruction is counted, with {repetitions} draws of when \
         calls come and of where the stack lies; intervals are over these draws, and the counts of one draw are the same every time."
    ));
    section.text(format!(
        "Where time goes by, this benchmark goes beyond the paper's: a router sends its own refreshes, every 30 s or so, and in our engine \
         as in most it is a timer that has them sent. They are counted here as time-outs, in a line of their own. Caches of the paper: il1 \
         {}; dl1 {}; ul2 {}. Of today: il1 and dl1 {}; ul2 {}.",
        OF_THE_PAPER.il1, OF_THE_PAPER.dl1, OF_THE_PAPER.ul2, OF_TODAY.il1, OF_TODAY.ul2
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_paper_is_repeated() {
        for quick in [true, false] {
            let all = purposes(quick);
            for scenario in Scenario::ALL {
                let purpose = Purpose::Scenario(Protocol::Rsvp, scenario, OF_THE_PAPER);
                let seeds: Vec<u64> = all
                    .iter()
                    .filter(|(other, _)| *other == purpose)
                    .map(|(_, seed)| *seed)
                    .collect();
                assert!(seeds.len() >= 3 && seeds.windows(2).all(|pair| pair[0] < pair[1]));
            }
            let others = |(purpose, _): &&(Purpose, u64)| matches!(purpose, Purpose::Scenario(protocol, ..) if *protocol != Protocol::Rsvp);
            assert_eq!(all.iter().filter(others).count(), if quick { 0 } else { 18 });
        }
        assert!(purposes(true).len() < 45, "it is to be quick");
    }
}
