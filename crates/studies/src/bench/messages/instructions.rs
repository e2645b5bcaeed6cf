//! Instructions of a message, as counted by valgrind.
//!
//! This program runs itself under valgrind's tool callgrind, which counts while one function runs that hands one
//! message to the router, and writes a file each time its caller returns. So each file has the instructions of one
//! message: parsing, look-ups, ledger, and the resulting messages. Setting up the sessions runs under valgrind too,
//! and is slow.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::bench::Supervision;
use crate::bench::router::{COUNTED, DUMPED, Protocol, Router, Step};
use crate::callgrind::{self, Costs, Directory, INSTRUCTIONS, Running};
use earmark_lab::statistics::percentile;

/// Number of messages of a kind that are counted; the result is their median, as a table may grow during one of them.
const COUNTED_MESSAGES: u32 = 5;
/// Timeout of valgrind.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// Advice if valgrind is not installed.
pub const WITHOUT_VALGRIND: &str =
    "instructions were not counted: valgrind is not installed (`apt install valgrind`)";

/// Counts the instructions of each kind of message of a protocol, in the order of [`Protocol::messages`]. Returns
/// `None` if valgrind is not installed.
///
/// # Errors
/// Valgrind fails on this program or this machine; the measurement was interrupted.
pub fn count(
    protocol: Protocol,
    sessions: u32,
    supervision: &Supervision<'_>,
) -> Result<Option<Vec<u64>>> {
    let arguments = counted_arguments("counted-messages", protocol, sessions);
    let kinds = protocol.messages().len();
    let total = kinds as u64 * u64::from(COUNTED_MESSAGES);
    let what = format!("{}: instructions, {sessions} sessions", protocol.name());
    let counts = count_calls(&arguments, total, &what, supervision)?;
    Ok(counts.map(|mut counts| {
        let medians = counts.chunks_mut(COUNTED_MESSAGES as usize).map(|counts| {
            counts.sort_unstable();
            percentile(counts, 50).unwrap_or_default()
        });
        medians.collect()
    }))
}

/// Arguments of a hidden subcommand whose functions valgrind counts.
pub(in crate::bench) fn counted_arguments(
    subcommand: &str,
    protocol: Protocol,
    sessions: u32,
) -> Vec<String> {
    let name = clap::ValueEnum::to_possible_value(&protocol).expect("none is hidden");
    let sessions = sessions.to_string();
    let words = [subcommand, "--protocol", name.get_name(), "--sessions", &sessions];
    words.map(str::to_owned).into()
}

/// Runs this program with these arguments under valgrind. Returns the instructions of each of the `total` calls that it counts;
/// `None` if valgrind is not installed.
///
/// # Errors
/// The errors of [`count`].
pub(in crate::bench) fn count_calls(
    arguments: &[String],
    total: u64,
    what: &str,
    supervision: &Supervision<'_>,
) -> Result<Option<Vec<u64>>> {
    let directory = Directory::new("messages")?;
    let mut child = match start(arguments, &directory.0) {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot start valgrind"),
    };
    let ended = supervision.await_all(what, total, TIMEOUT, || {
        let files = fs::read_dir(&directory.0)?.count() as u64;
        Ok(if child.0.try_wait()?.is_some() { u64::MAX } else { files.min(total - 1) })
    })?;
    if !ended || !child.0.wait()?.success() {
        bail!("valgrind could not run this program: {}", arguments.join(" "));
    }
    (1..=total).map(|number| instructions(&directory, number)).collect::<Result<_>>().map(Some)
}

/// Delivers every kind of message several times; runs under valgrind.
pub fn deliver_counted(protocol: Protocol, sessions: u32) {
    let mut router = Router::with_sessions(protocol, sessions, |_| {});
    for kind in protocol.messages() {
        let arrival = |number: u32| {
            let session = match kind.step {
                Step::Refresh => (sessions / COUNTED_MESSAGES * number).min(sessions - 1),
                Step::SetUp | Step::Release => sessions + number,
            };
            kind.of(&router, session, 1 + number)
        };
        let arrivals: Vec<_> = (0..COUNTED_MESSAGES).map(arrival).collect();
        router.deliver_all_counted(&arrivals);
    }
}

fn start(arguments: &[String], directory: &Path) -> std::io::Result<Running> {
    let options = [format!("--dump-after={DUMPED}")];
    callgrind::command(COUNTED, &directory.join("counts"), &options)?
        .args(arguments)
        .spawn()
        .map(Running)
}

/// Reads the instructions of the message with this number.
fn instructions(directory: &Directory, number: u64) -> Result<u64> {
    let path = directory.0.join(format!("counts.{number}"));
    let text = fs::read_to_string(&path)
        .with_context(|| format!("valgrind did not count message {number}"))?;
    let count = Costs::parse(&text).sum(INSTRUCTIONS);
    ensure!(count > 0, "{} has no sum", path.display());
    Ok(count)
}
