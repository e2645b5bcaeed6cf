//! Instructions of a message, as counted by valgrind.
//!
//! This program runs itself under valgrind's tool callgrind, which counts while one function runs that hands one
//! message to the router, and writes a file each time its caller returns. So each file has the instructions of one
//! message: parsing, look-ups, ledger, and the resulting messages. Setting up the sessions runs under valgrind too,
//! and is slow.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bench::Supervision;
use crate::bench::router::{COUNTED, DUMPED, Protocol, Router, Step};

/// Number of messages of a kind that are counted; the result is their median, as a table may grow during one of them.
const COUNTED_MESSAGES: u32 = 5;
/// Timeout of valgrind.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Advice if valgrind is not installed.
pub const WITHOUT_VALGRIND: &str =
    "instructions were not counted: there is no valgrind (`apt install valgrind` or the like)";

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
    let directory = Directory::new("messages")?;
    let mut child = match start(protocol, sessions, &directory.0) {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot start valgrind"),
    };
    let kinds = protocol.messages().len();
    let total = kinds as u64 * u64::from(COUNTED_MESSAGES);
    let what = format!("{}: instructions, {sessions} sessions", protocol.name());
    let ended = supervision.await_all(&what, total, PATIENCE, || {
        let files = fs::read_dir(&directory.0)?.count() as u64;
        Ok(if child.0.try_wait()?.is_some() { u64::MAX } else { files.min(total - 1) })
    })?;
    if !ended || !child.0.wait()?.success() {
        bail!("valgrind could not run this program with {sessions} sessions");
    }
    let counts = (1..=total).map(|number| directory.read(number)).collect::<Result<Vec<u64>>>()?;
    let median = |counts: &[u64]| {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    Ok(Some(counts.chunks(COUNTED_MESSAGES as usize).map(median).collect()))
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

fn start(protocol: Protocol, sessions: u32, directory: &Path) -> std::io::Result<Running> {
    let name = clap::ValueEnum::to_possible_value(&protocol).expect("none is hidden");
    Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--dump-after={DUMPED}"))
        .arg(format!("--callgrind-out-file={}", directory.join("counts").display()))
        .arg(std::env::current_exe()?)
        .args(["counted-messages", "--protocol", name.get_name()])
        .args(["--sessions", &sessions.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Running)
}

/// A child process that is killed when the value is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary directory for valgrind's files; dropping the value removes it.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// Creates a directory for this process and purpose.
    pub(crate) fn new(purpose: &str) -> Result<Directory> {
        let name = format!("earmark-studies-{purpose}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Directory(path))
    }

    /// Reads the instructions of the message with this number.
    fn read(&self, number: u64) -> Result<u64> {
        let path = self.0.join(format!("counts.{number}"));
        let text = fs::read_to_string(&path)
            .with_context(|| format!("valgrind did not count message {number}"))?;
        total(&text).with_context(|| format!("{} has no sum", path.display()))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the sum over all functions in a file of callgrind.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read() {
        assert_eq!(total("events: Ir\nfn=(1) f\n1 5\n\ntotals: 1234\n"), Some(1_234));
        assert_eq!(total("events: Ir\n"), None);
    }
}
