//! Processors with caches that valgrind simulates, and the benchmark run on them: several at once, as many as there are processors.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::callgrind::Profile;
use crate::bench::Supervision;
use crate::bench::calls::{Plan, Played};
use crate::bench::messages::instructions::{Directory, Running};
use crate::bench::router::COUNTED;

/// More runs at once than this would only need memory.
const MOST_AT_ONCE: usize = 8;
/// How often to look whether one has ended.
const LOOK: Duration = Duration::from_millis(20);
/// By how much longer the environment of each draw is, octets: no multiple of any way of a cache that is simulated.
const LONGER: u64 = 1_184;
/// Callers that are kept apart: more than there are.
const CALLERS: u32 = 40;

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    /// Octets of all of it.
    pub(super) size: u32,
    /// How many places a block may have; 1: direct-mapped.
    pub(super) ways: u32,
    /// Octets of a block.
    pub(super) block: u32,
}

/// Those of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caches {
    /// Of instructions, first level,
    pub(super) il1: Cache,
    /// of data,
    pub(super) dl1: Cache,
    /// and of both, second level.
    pub(super) ul2: Cache,
}

/// Those of the paper.
pub(super) const OF_THE_PAPER: Caches = Caches {
    il1: Cache { size: 16 << 10, ways: 1, block: 32 },
    dl1: Cache { size: 16 << 10, ways: 4, block: 32 },
    ul2: Cache { size: 256 << 10, ways: 4, block: 64 },
};

/// Those of a core of today.
pub(super) const OF_TODAY: Caches = Caches {
    il1: Cache { size: 32 << 10, ways: 8, block: 64 },
    dl1: Cache { size: 32 << 10, ways: 8, block: 64 },
    ul2: Cache { size: 1 << 20, ways: 16, block: 64 },
};

impl Cache {
    /// Its size, KB.
    pub(super) fn kilo(&self) -> f64 {
        f64::from(self.size) / 1_024.0
    }

    /// How it is called for its ways.
    pub(super) fn ways_named(&self) -> String {
        if self.ways == 1 { "direct-mapped".to_owned() } else { format!("{}-way", self.ways) }
    }

    fn argument(&self) -> String {
        format!("{},{},{}", self.size, self.ways, self.block)
    }
}

impl std::fmt::Display for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} KB, {}, blocks of {} B", self.kilo(), self.ways_named(), self.block)
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) caches: Caches,
}

/// What it gave.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) played: Played,
    pub(super) profile: Profile,
}

/// A run that is under way.
struct Started {
    place: usize,
    child: Running,
}

/// Does all of them; what they gave is in their order. `None`: there is no valgrind.
///
/// # Errors
/// Valgrind does not get along with this program or this machine; the benchmark did not do what it should; it was interrupted.
pub(super) fn run(jobs: &[Job], supervision: &Supervision<'_>) -> Result<Option<Vec<Run>>> {
    let directory = Directory::new("architecture")?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE);
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
        supervision.go_on()?;
        std::thread::sleep(LOOK);
        let mut waiting = Vec::new();
        for mut started in under_way {
            let Some(status) = started.child.0.try_wait()? else {
                waiting.push(started);
                continue;
            };
            let place = started.place;
            if !status.success() {
                let last = last_words(&directory, place);
                bail!("valgrind could not run {}: {status}: {last}", told(&jobs[place]));
            }
            let run = collect(&directory, place);
            runs[place] = Some(run.with_context(|| format!("of {}", told(&jobs[place])))?);
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

fn told(job: &Job) -> String {
    format!("{:?} with {:?}", job.plan, job.caches)
}

/// What makes this program play a plan.
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

/// Where the stack lies, and so what shares a place of a cache with it, goes by how long the environment is: whoever starts this
/// program, runs of one draw have the same, and those of another draw another, as those of another machine have.
fn start(job: &Job, directory: &Directory, place: usize) -> std::io::Result<Running> {
    let Job { plan, caches } = job;
    let longer = "-".repeat((plan.seed * LONGER) as usize);
    let file = |kind: &str| directory.0.join(format!("{place}.{kind}"));
    Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes", "--branch-sim=yes"])
        .args(["--collect-atstart=no", "--dump-line=no"])
        .arg(format!("--separate-callers={CALLERS}"))
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--I1={}", caches.il1.argument()))
        .arg(format!("--D1={}", caches.dl1.argument()))
        .arg(format!("--LL={}", caches.ul2.argument()))
        .arg(format!("--callgrind-out-file={}", file("counts").display()))
        .arg(std::env::current_exe()?)
        .args(arguments(plan))
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("EARMARK_DRAW", longer)
        .stdin(Stdio::null())
        .stdout(File::create(file("json"))?)
        .stderr(File::create(file("errors"))?)
        .spawn()
        .map(Running)
}

/// The last line of what it complained of.
fn last_words(directory: &Directory, place: usize) -> String {
    let text = fs::read_to_string(directory.0.join(format!("{place}.errors"))).unwrap_or_default();
    text.lines().last().unwrap_or("it did not say why").to_owned()
}

/// Reads what a run has left, and takes it away.
fn collect(directory: &Directory, place: usize) -> Result<Run> {
    let read = |kind: &str| {
        let file = directory.0.join(format!("{place}.{kind}"));
        let text = fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        fs::remove_file(&file)?;
        anyhow::Ok(text)
    };
    let played = serde_json::from_str(&read("json")?).context("it did not say what it played")?;
    let profile = Profile::parse(&read("counts")?).context("callgrind's file")?;
    Ok(Run { played, profile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_told() {
        assert_eq!(OF_THE_PAPER.il1.to_string(), "16 KB, direct-mapped, blocks of 32 B");
        assert_eq!(OF_TODAY.ul2.to_string(), "1024 KB, 16-way, blocks of 64 B");
        assert_eq!(OF_THE_PAPER.dl1.argument(), "16384,4,32");
    }
}
