//! Origin of results: program, commit, command line, settings, seeds, tools and machine, so that they can be cited and
//! repeated.

use std::collections::BTreeMap;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// Identifier of the format of results; `data/schema/results-1.json` describes it.
pub const SCHEMA: &str = "earmark-studies/results-1";

/// Origin of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the program.
    pub program: String,
    /// Version of the program.
    pub version: String,
    /// Commit that the program was built from; `unknown` if it was built outside of git.
    pub commit: String,
    /// Command line.
    pub command: Vec<String>,
    /// Settings of the command.
    pub settings: Settings,
    /// First and last seed of what has seeds.
    pub seeds: BTreeMap<String, [u64; 2]>,
    /// Versions of the tools.
    pub tools: BTreeMap<String, String>,
    /// Processor, and number of processors.
    pub machine: String,
}

/// Settings with which a command can be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "study", rename_all = "snake_case")]
pub enum Settings {
    /// `report`.
    Report {
        /// Whether it was a quick one.
        quick: bool,
        /// Selected parts; none: all.
        only: Vec<String>,
    },
    /// `study retry`.
    Retry {
        /// Number of seeds of each case.
        seeds: u64,
        /// Number of seeds of each point of the sweeps.
        sweep_seeds: u64,
        /// Whether it was a quick one.
        quick: bool,
    },
    /// `study compare`.
    Compare {
        /// Name of the extent.
        extent: String,
        /// Cost profile: name of a built-in one, or a file.
        profile: String,
        /// Whether the rows were played elsewhere.
        elsewhere: bool,
    },
}

impl Provenance {
    /// Describes results of this process.
    pub fn of_this_process(settings: Settings, seeds: BTreeMap<String, [u64; 2]>) -> Provenance {
        let system = rustix::system::uname();
        let kernel = [system.sysname(), system.release(), system.machine()];
        let kernel = kernel.map(|part| part.to_string_lossy().into_owned()).join(" ");
        let mut tools = BTreeMap::from([
            ("rustc".to_owned(), env!("EARMARK_RUSTC").to_owned()),
            ("kernel".to_owned(), kernel),
        ]);
        tools.extend(valgrind().map(|version| ("valgrind".to_owned(), version)));
        Provenance {
            program: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit().to_owned(),
            command: std::env::args().collect(),
            settings,
            seeds,
            tools,
            machine: machine(),
        }
    }

    /// Returns in what the results of another process differ in their origin, a sentence each.
    pub fn differences(&self, other: &Provenance) -> Vec<String> {
        let mut all = Vec::new();
        let mut compare = |what: &str, one: &str, other: &str| {
            if one != other {
                all.push(format!("{what}: {one} before, {other} now"));
            }
        };
        compare("version", &self.version, &other.version);
        compare("commit", &self.commit, &other.commit);
        compare("machine", &self.machine, &other.machine);
        let names = self.tools.keys().chain(other.tools.keys());
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let of = |of: &Provenance| of.tools.get(name).cloned().unwrap_or("none".to_owned());
            compare(name, &of(self), &of(other));
        }
        if self.commit == "unknown" && other.commit == "unknown" {
            all.push("commit: unknown before and now, so the programs may differ".to_owned());
        }
        all
    }
}

/// Returns the commit of this program.
pub fn commit() -> &'static str {
    env!("EARMARK_COMMIT")
}

fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{count} x {}", model.map_or("unknown processor", |(_, model)| model))
}

/// Returns the version of valgrind, if it is installed.
fn valgrind() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Provenance {
        let settings = Settings::Retry { seeds: 3, sweep_seeds: 0, quick: true };
        Provenance::of_this_process(settings, BTreeMap::from([("retry".to_owned(), [1, 3])]))
    }

    #[test]
    fn provenance_is_complete_and_restored() {
        let here = here();
        assert!(!here.commit.is_empty() && here.tools["rustc"].contains("rustc"), "{here:?}");
        assert!(here.tools["kernel"].starts_with("Linux") && !here.command.is_empty());
        let text = serde_json::to_string(&here).unwrap();
        assert!(text.contains("\"study\":\"retry\""), "{text}");
        assert_eq!(serde_json::from_str::<Provenance>(&text).unwrap(), here);
    }

    /// The citation file names what a citation needs, and the version of the program.
    #[test]
    fn citation_file_is_complete() {
        let text = include_str!("../../../CITATION.cff");
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("no {key}")).trim()
        };
        assert_eq!(value("cff-version"), "1.2.0");
        assert_eq!(value("version"), env!("CARGO_PKG_VERSION"));
        assert!(["message", "title", "license", "repository-code"].map(value).len() == 4);
        assert!(!value("message").is_empty() && !value("title").is_empty());
        assert!(text.contains("authors:\n  - name: "), "at least one author");
    }

    #[test]
    fn differences_name_what_changed() {
        let here = Provenance { commit: "abc".to_owned(), ..here() };
        assert_eq!(here.differences(&here), Vec::<String>::new());
        let mut there = Provenance { commit: "def".to_owned(), ..here.clone() };
        there.tools.insert("rustc".to_owned(), "rustc 9".to_owned());
        let all = here.differences(&there);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("commit: abc before, def now") && all[1].starts_with("rustc"));
        let unknown = Provenance { commit: "unknown".to_owned(), ..here };
        assert_eq!(unknown.differences(&unknown).len(), 1);
    }
}
