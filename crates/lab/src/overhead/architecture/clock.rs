//! The same benchmark on the processor that is there: its time, and what its counters count, where it has some.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::super::chapter::Estimate;
use super::simulator::arguments;
use crate::bench::Supervision;
use crate::bench::calls::{self, Plan, Scenario};

/// How often it is played for one value,
const BATCH: usize = 3;
/// and for one value of the counters.
const PASSES: u32 = 20;
/// What is counted, of what the program itself does.
const EVENTS: [&str; 2] = ["cycles:u", "instructions:u"];

/// How long what is counted takes, microseconds: of each plan, with so many values, taken by turns, so that each sees the
/// machine at several times.
///
/// # Errors
/// The benchmark did not do what it should; it was interrupted.
pub(super) fn times(
    plans: &[Plan],
    values: usize,
    supervision: &Supervision<'_>,
) -> Result<Vec<Estimate>> {
    supervision.watcher.begin("architecture: calls on this processor", values as u64);
    let mut times = vec![Vec::new(); plans.len()];
    for round in 0..values {
        for (plan, times) in plans.iter().zip(&mut times) {
            supervision.go_on()?;
            let mut batch =
                (0..BATCH).map(|_| Ok(calls::play(plan)?.us)).collect::<Result<Vec<f64>>>()?;
            batch.sort_unstable_by(f64::total_cmp);
            times.push(batch[BATCH / 2]);
        }
        supervision.watcher.reached(round as u64 + 1);
    }
    Ok(times.iter().filter_map(|times| Estimate::of(times)).collect())
}

/// What the processor counts of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) cycles: Estimate,
    pub(super) ipc: Estimate,
}

/// What the counters of the processor say, by perf: all of it less what writing the messages takes, so that the loop of the
/// benchmark is in it. `None`: there is no perf, it may not, or there are no counters; or the plan has messages that come but do
/// not count, or that cannot be written before.
///
/// # Errors
/// It was interrupted, or perf cannot be started.
pub(super) fn counters(
    plan: &Plan,
    values: usize,
    supervision: &Supervision<'_>,
) -> Result<Option<Counted>> {
    if plan.scenario == Scenario::Resv || !plan.protocol.is_spread() {
        return Ok(None);
    }
    let (mut cycles, mut ipc) = (Vec::new(), Vec::new());
    for _ in 0..values {
        supervision.go_on()?;
        let Some((all, written)) = stat(plan, &[])?.zip(stat(plan, &["--only-write"])?) else {
            return Ok(None);
        };
        let [one, instructions] =
            [0, 1].map(|event| (all[event] - written[event]) / f64::from(PASSES));
        cycles.push(one);
        ipc.push(instructions / one);
    }
    let both = Estimate::of(&cycles).zip(Estimate::of(&ipc));
    Ok(both.map(|(cycles, ipc)| Counted { cycles, ipc }))
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

/// Lines of perf: `13499063,,cycles:u,5200000,100.00,,`; `<not supported>` stands where there is no such counter.
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
    fn counters_are_read_where_there_are_some() {
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
