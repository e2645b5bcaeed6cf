//! Processors with caches simulated by valgrind, and parallel runs of the benchmark on them, one for each real
//! processor.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::counts::Profile;
use crate::bench::Supervision;
use crate::bench::calls::{Plan, Played};
use crate::bench::router::COUNTED;
use crate::callgrind::{self, Directory, Running};

/// Limit of parallel runs, for their memory.
const MAX_PARALLEL: usize = 8;
/// Interval of checks whether a run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Difference in the length of the environment between draws, octets: not a multiple of any way of a simulated cache.
const LONGER: u64 = 1_184;
/// Number of callers kept apart: more than occur.
const CALLERS: u32 = 40;

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    /// Total size, octets.
    pub(super) size: u32,
    /// Associativity; 1: direct-mapped.
    pub(super) ways: u32,
    /// Block size, octets.
    pub(super) block: u32,
}

/// Caches of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caches {
    /// First-level instruction cache.
    pub(super) il1: Cache,
    /// First-level data cache.
    pub(super) dl1: Cache,
    /// Unified second-level cache.
    pub(super) ul2: Cache,
}

/// Caches of the paper.
pub(super) const OF_THE_PAPER: Caches = Caches {
    il1: Cache { size: 16 << 10, ways: 1, block: 32 },
    dl1: Cache { size: 16 << 10, ways: 4, block: 32 },
    ul2: Cache { size: 256 << 10, ways: 4, block: 64 },
};

/// Caches of a current core.
pub(super) const OF_TODAY: Caches = Caches {
    il1: Cache { size: 32 << 10, ways: 8, block: 64 },
    dl1: Cache { size: 32 << 10, ways: 8, block: 64 },
    ul2: Cache { size: 1 << 20, ways: 16, block: 64 },
};

impl Cache {
    /// Size, KB.
    pub(super) fn kilo(&self) -> f64 {
        f64::from(self.size) / 1_024.0
    }

    /// Name of the associativity.
    pub(super) fn associativity_name(&self) -> String {
        if self.ways == 1 { "direct-mapped".to_owned() } else { format!("{}-way", self.ways) }
    }

    fn argument(&self) -> String {
        format!("{},{},{}", self.size, self.ways, self.block)
    }
}

impl std::fmt::Display for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} KB, {}, blocks of {} B", self.kilo(), self.associativity_name(), self.block)
    }
}

/// A run to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) caches: Caches,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) played: Played,
    pub(super) profile: Profile,
}

/// A run in progress.
struct Started {
    place: usize,
    child: Running,
}

/// Runs all jobs; returns their results in order. Returns `None` if valgrind is not installed.
///
/// # Errors
/// Valgrind fails on this program or this machine; the benchmark failed its own check; the measurement was
/// interrupted.
pub(super) fn run(jobs: &[Job], supervision: &Supervision<'_>) -> Result<Option<Vec<Run>>> {
    let directory = Directory::new("architecture")?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_PARALLEL);
    supervision.watcher.begin("architecture: calls on simulated processors", jobs.len() as u64);
    let mut runs: Vec<Option<Run>> = vec![None; jobs.len()];
    let (mut next, mut done, mut under_way) = (0, 0, Vec::<Started>::new());
    while done < jobs.len() {
        while next < jobs.len() && under_way.len() < at_once {
            match start(&jobs[next], &directory, next) {
                Ok(child) => under_way.push(Started { place: next, child }),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).context("cannot start valgrind"),
            }
            next += 1;
        }
        supervision.check_interrupted()?;
        std::thread::sleep(POLL_INTERVAL);
        let mut waiting = Vec::new();
        for mut started in under_way {
            let Some(status) = started.child.0.try_wait()? else {
                waiting.push(started);
                continue;
            };
            let place = started.place;
            if !status.success() {
                let last = last_error_line(&directory, place);
                bail!("valgrind could not run {}: {status}: {last}", described(&jobs[place]));
            }
            let run = collect(&directory, place);
            runs[place] = Some(run.with_context(|| format!("of {}", described(&jobs[place])))?);
            done += 1;
        }
        under_way = waiting;
        supervision.watcher.reached(done as u64);
    }
    match runs.into_iter().collect() {
        Some(runs) => Ok(Some(runs)),
        None => bail!("a run was lost"),
    }
}

fn described(job: &Job) -> String {
    format!("{:?} with {:?}", job.plan, job.caches)
}

/// Returns the arguments with which this program plays a plan.
pub(super) fn arguments(plan: &Plan) -> Vec<String> {
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map_or(String::new(), |value| value.get_name().to_owned())
    };
    let Plan { protocol, scenario, messages, seed } = plan;
    vec![
        "counted-calls".to_owned(),
        format!("--protocol={}", name(protocol.to_possible_value())),
        format!("--scenario={}", name(scenario.to_possible_value())),
        format!("--messages={messages}"),
        format!("--seed={seed}"),
    ]
}

/// Starts a run. The length of the environment determines the stack address, and so which data share a set of the
/// cache with the stack: runs of one draw get equal lengths wherever this program is started, and those of another
/// draw another length, like those of another machine.
fn start(job: &Job, directory: &Directory, place: usize) -> std::io::Result<Running> {
    let Job { plan, caches } = job;
    let longer = "-".repeat((plan.seed * LONGER) as usize);
    let file = |kind: &str| directory.0.join(format!("{place}.{kind}"));
    let options = [
        "--cache-sim=yes".to_owned(),
        "--branch-sim=yes".to_owned(),
        "--dump-line=no".to_owned(),
        format!("--separate-callers={CALLERS}"),
        format!("--I1={}", caches.il1.argument()),
        format!("--D1={}", caches.dl1.argument()),
        format!("--LL={}", caches.ul2.argument()),
    ];
    callgrind::command(COUNTED, &file("counts"), &options)?
        .args(arguments(plan))
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("EARMARK_DRAW", longer)
        .stdout(File::create(file("json"))?)
        .stderr(File::create(file("errors"))?)
        .spawn()
        .map(Running)
}

/// Returns the last line of the run's standard error.
fn last_error_line(directory: &Directory, place: usize) -> String {
    let text = fs::read_to_string(directory.0.join(format!("{place}.errors"))).unwrap_or_default();
    text.lines().last().unwrap_or("no error message").to_owned()
}

/// Reads and removes the output files of a run.
fn collect(directory: &Directory, place: usize) -> Result<Run> {
    let read = |kind: &str| {
        let file = directory.0.join(format!("{place}.{kind}"));
        let text = fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        fs::remove_file(&file)?;
        anyhow::Ok(text)
    };
    let played = serde_json::from_str(&read("json")?).context("malformed result")?;
    let profile = Profile::parse(&read("counts")?).context("callgrind's file")?;
    Ok(Run { played, profile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_described() {
        assert_eq!(OF_THE_PAPER.il1.to_string(), "16 KB, direct-mapped, blocks of 32 B");
        assert_eq!(OF_TODAY.ul2.to_string(), "1024 KB, 16-way, blocks of 64 B");
        assert_eq!(OF_THE_PAPER.dl1.argument(), "16384,4,32");
    }
}
