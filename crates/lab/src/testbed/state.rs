//! State directory of a network, `/run/earmark-lab/NAME`: the parts that have to be removed.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmarkd::private_file;
use rustix::process::{Pid, Signal, kill_process};

/// Directory of the state of all networks.
pub const STATE_ROOT: &str = "/run/earmark-lab";

/// Name of the file that the owner of the network locks.
const OWNER: &str = "owner";

/// Returns the names of all existing networks, sorted.
pub fn names() -> Result<Vec<String>> {
    let entries = match fs::read_dir(STATE_ROOT) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {STATE_ROOT}")),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// State of one network.
#[derive(Debug)]
pub struct State {
    name: String,
    directory: PathBuf,
    /// Lock file, while this process owns the network: the lock ends with the process.
    owner: Option<File>,
}

/// Status of a node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NodeStatus {
    /// Name of the node.
    pub node: String,
    /// Name of its namespace.
    pub namespace: String,
    /// Process id of its daemon, if it runs.
    pub pid: Option<u32>,
    /// Path of its control socket.
    pub control: PathBuf,
}

impl State {
    /// Creates the directory of a new network. An `owned` network becomes an [orphan](State::orphan) when this value
    /// is dropped.
    pub(super) fn create(name: &str, nodes: &[String], owned: bool) -> Result<State> {
        let directory = Path::new(STATE_ROOT).join(name);
        fs::create_dir_all(STATE_ROOT).with_context(|| format!("cannot create {STATE_ROOT}"))?;
        match fs::create_dir(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!(
                    "the network `{name}` is up already; `earmark-lab down --name {name}` ends it"
                )
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot create {}", directory.display()));
            }
        }
        let mut state = State { name: name.to_owned(), directory, owner: None };
        state.write("nodes", &(nodes.join("\n") + "\n"))?;
        if owned {
            state.own().context("cannot lock the state of the network")?;
        }
        Ok(state)
    }

    /// Opens the state of an existing network.
    ///
    /// # Errors
    /// There is no network of that name.
    pub fn open(name: &str) -> Result<State> {
        let directory = Path::new(STATE_ROOT).join(name);
        if name.contains('/') || name.starts_with('.') || !directory.is_dir() {
            bail!("no network `{name}` is up; `earmark-lab status` lists those that are");
        }
        Ok(State { name: name.to_owned(), directory, owner: None })
    }

    /// Takes ownership of a network whose owner has ended without removing it. Returns `None` if the owner still runs
    /// or there never was one.
    pub(super) fn orphan(name: &str) -> Result<Option<State>> {
        let mut state = State::open(name)?;
        let owner = match File::open(state.path(OWNER)) {
            Ok(owner) => owner,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("cannot open the lock of its owner"),
        };
        match owner.try_lock() {
            Ok(()) => state.owner = Some(owner),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).context("cannot lock"),
        }
        // Another program may have removed it between the opening and the lock.
        Ok(state.path(OWNER).exists().then_some(state))
    }

    /// The lock file gets its name when it is locked, so that other programs never see it unlocked while this process
    /// runs.
    fn own(&mut self) -> io::Result<()> {
        let nameless = self.path("owner.new");
        let owner = File::create(&nameless)?;
        owner.lock()?;
        fs::rename(nameless, self.path(OWNER))?;
        self.owner = Some(owner);
        Ok(())
    }

    /// Returns the status of each node.
    pub fn status(&self) -> Result<Vec<NodeStatus>> {
        let status = |node: String| NodeStatus {
            namespace: self.namespace(&node),
            pid: self.running_process(&node),
            control: self.control(&node),
            node,
        };
        Ok(self.nodes()?.into_iter().map(status).collect())
    }

    /// Returns the names of the nodes.
    pub(super) fn nodes(&self) -> Result<Vec<String>> {
        match fs::read_to_string(self.path("nodes")) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            // The owner ended between creating the directory and writing the file, so there is nothing else.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).context("cannot read the names of the nodes"),
        }
    }

    /// Returns the name of a node's namespace.
    pub(super) fn namespace(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    /// Returns the path of the control socket of a node's daemon.
    pub(super) fn control(&self, node: &str) -> PathBuf {
        self.path(&format!("{node}.sock"))
    }

    /// Returns the path of the configuration file of a node's daemon.
    pub(super) fn configuration(&self, node: &str) -> PathBuf {
        self.path(&format!("{node}.toml"))
    }

    /// Returns the path of the log of a node's daemon.
    pub(super) fn log(&self, node: &str) -> PathBuf {
        self.path(&format!("{node}.log"))
    }

    pub(super) fn write_configuration(&self, node: &str, text: &str) -> Result<()> {
        self.write(&format!("{node}.toml"), text)
    }

    /// Records the process of a node's daemon.
    pub(super) fn record_process(&self, node: &str, pid: u32) -> Result<()> {
        let started = start_time(pid).context("it ended at once")?;
        self.write(&format!("{node}.pid"), &format!("{pid} {started}\n"))
    }

    /// Ends a node's daemon, if it runs, and waits for its end: by SIGTERM first, so that its log is complete.
    pub(super) fn kill_process(&self, node: &str) -> Result<()> {
        for signal in [Signal::TERM, Signal::KILL] {
            let deadline = Instant::now() + Duration::from_secs(2);
            let Some(number) = self.running_process(node) else {
                return Ok(());
            };
            let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
            match kill_process(pid.context("a process id is positive")?, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => bail!("cannot end process {number}, the daemon of {node}: {error}"),
            }
            while self.running_process(node).is_some() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        match self.running_process(node) {
            None => Ok(()),
            Some(pid) => bail!("process {pid}, the daemon of {node}, does not end"),
        }
    }

    /// Removes the state directory.
    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.directory.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the process id of a node's daemon, if the process is still the one that was started.
    fn running_process(&self, node: &str) -> Option<u32> {
        let text = fs::read_to_string(self.path(&format!("{node}.pid"))).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        let (pid, started) = (pid.parse().ok()?, started.parse().ok()?);
        (start_time(pid) == Some(started)).then_some(pid)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path(file);
        // A configuration may contain secrets.
        private_file::create(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }
}

/// Returns the start time of a process in clock ticks since boot; `None` if it does not exist, or is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat: io::Result<String> = fs::read_to_string(format!("/proc/{pid}/stat"));
    parse_start_time(&stat.ok()?)
}

/// Parses field 22 of `/proc/PID/stat`. Field 2, the name, may itself contain spaces and parentheses.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_identified_by_its_start_time() {
        let stat = |name: &str, state: &str| {
            format!(
                "42 ({name}) {state} 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 7777 1000 10"
            )
        };
        assert_eq!(parse_start_time(&stat("earmark-lab", "S")), Some(7_777));
        assert_eq!(parse_start_time(&stat("odd) R 1 (name", "S")), Some(7_777));
        assert_eq!(parse_start_time(&stat("earmark-lab", "Z")), None);
        assert_eq!(parse_start_time("42 (short) S 1"), None);
        assert!(start_time(std::process::id()).is_some());
    }
}
