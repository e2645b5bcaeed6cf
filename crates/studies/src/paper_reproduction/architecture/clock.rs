//! Benchmark on the real processor: time, and performance counters if available.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use earmark_lab::statistics::{percentile, sorted};

use super::super::section::Estimate;
use super::simulator::arguments;
use crate::bench::Supervision;
use crate::bench::calls::{self, Plan, Scenario};

/// Number of runs for one value of time.
const BATCH: usize = 3;
/// Number of runs for one value of the counters.
const PASSES: u32 = 20;
/// Counted events, of user space only.
const EVENTS: [&str; 2] = ["cycles:u", "instructions:u"];

/// Times of the counted functions, microseconds: `values` for each plan, taken in turns, so that each plan is
/// measured at several times.
///
/// # Errors
/// The benchmark failed its own check; the measurement was interrupted.
pub(super) fn times(
    plans: &[Plan],
    values: usize,
    supervision: &Supervision<'_>,
) -> Result<Vec<Estimate>> {
    supervision.watcher.begin("architecture: calls on this processor", values as u64);
    let mut times = vec![Vec::new(); plans.len()];
    for round in 0..values {
        for (plan, times) in plans.iter().zip(&mut times) {
            supervision.check_interrupted()?;
            let batch =
                (0..BATCH).map(|_| Ok(calls::play(plan)?.us)).collect::<Result<Vec<f64>>>()?;
            times.extend(percentile(&sorted(batch), 50));
        }
        supervision.watcher.reached(round as u64 + 1);
    }
    Ok(times.iter().filter_map(|times| Estimate::of(times)).collect())
}

/// Counts of the processor for a plan.
#[derive(Clone, Debug)]
pub(super) struct ProcessorCounts {
    pub(super) cycles: Estimate,
    pub(super) ipc: Estimate,
}

/// Returns the performance counters by perf: all of a run less the writing of its messages, so that the benchmark's
/// loop is included. Returns `None` if perf or the counters are missing or not permitted; or if the plan has
/// uncounted messages, or messages that cannot be written in advance.
///
/// # Errors
/// The measurement was interrupted, or perf cannot be started.
pub(super) fn counters(
    plan: &Plan,
    values: usize,
    supervision: &Supervision<'_>,
) -> Result<Option<ProcessorCounts>> {
    if plan.scenario == Scenario::Resv || !plan.protocol.is_written_ahead() {
        return Ok(None);
    }
    let (mut cycles, mut ipc) = (Vec::new(), Vec::new());
    for _ in 0..values {
        supervision.check_interrupted()?;
        let Some((all, written)) = stat(plan, &[])?.zip(stat(plan, &["--only-write"])?) else {
            return Ok(None);
        };
        let [one, instructions] =
            [0, 1].map(|event| (all[event] - written[event]) / f64::from(PASSES));
        cycles.push(one);
        ipc.push(instructions / one);
    }
    let both = Estimate::of(&cycles).zip(Estimate::of(&ipc));
    Ok(both.map(|(cycles, ipc)| ProcessorCounts { cycles, ipc }))
}

fn stat(plan: &Plan, more: &[&str]) -> Result<Option<[f64; 2]>> {
    let output = Command::new("perf")
        .args(["stat", "-x,", "-e", &EVENTS.join(","), "--"])
        .arg(std::env::current_exe()?)
        .args(arguments(plan))
        .arg(format!("--passes={PASSES}"))
        .args(more)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(read(&String::from_utf8_lossy(&output.stderr))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot start perf"),
    }
}

/// Parses lines of perf: `13499063,,cycles:u,5200000,100.00,,`; `<not supported>` stands for a missing counter.
fn read(text: &str) -> Option<[f64; 2]> {
    let value = |event: &str| {
        text.lines().find_map(|line| {
            let mut fields = line.split(',');
            let value = fields.next()?.trim().parse::<f64>().ok()?;
            (fields.nth(1)? == event && value > 0.0).then_some(value)
        })
    };
    Some([value(EVENTS[0])?, value(EVENTS[1])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_if_supported() {
        let some =
            "1000,,cycles:u,52,100.00,,\n2500,,instructions:u,52,100.00,2.50,insn per cycle\n";
        assert_eq!(read(some), Some([1_000.0, 2_500.0]));
        let none =
            "<not supported>,,cycles:u,0,100.00,,\n<not supported>,,instructions:u,0,100.00,,\n";
        assert_eq!(read(none), None);
        assert_eq!(read("1000,,cycles:u,52,100.00,,\n"), None);
        assert_eq!(read(""), None);
    }
}
