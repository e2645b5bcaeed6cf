//! Runs of this program under valgrind's tool callgrind, and the files that they write.
//!
//! The program runs itself with one of its hidden subcommands ([`command`]); callgrind counts while a function of a
//! given name runs, and writes [`Costs`] into a [`Directory`]. Valgrind's manual describes the format of the files in
//! "Callgrind Format Specification":
//!
//! ```text
//! events: Ir Dr         what is counted: instructions, loads
//! fl=(1) src/a.rs       the file of the next function
//! fn=(7) a::f           a function; its first occurrence has the name, later ones the number alone
//! 12 30 4               line, count of each event
//! fi=(2) src/b.rs       what follows was inlined from there
//! +3 5
//! cfn=(8) g             a call from here,
//! calls=2 40            made twice,
//! 13 100                with the counts of the callee and all below it
//! totals: 135 4         the counts of all functions
//! ```
//!
//! If callers are kept apart, a function's name has all its callers, the nearest first, joined by `'`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Event: executed instructions.
pub(crate) const INSTRUCTIONS: &str = "Ir";

/// Returns the command that runs this program under callgrind, without input and output; arguments of the program may
/// follow. Callgrind counts in the function `counted`, and writes to `file`.
///
/// # Errors
/// The path of this program is unknown.
pub(crate) fn command(counted: &str, file: &Path, options: &[String]) -> std::io::Result<Command> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={counted}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args(options)
        .arg(std::env::current_exe()?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

/// A child process that is killed when the value is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary directory for callgrind's files; dropping the value removes it.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// Creates a directory for this process and purpose.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub(crate) fn new(purpose: &str) -> Result<Directory> {
        let name = format!("earmark-studies-{purpose}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Location of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location<'t> {
    /// Symbol of the function, with its callers if they are kept apart.
    pub(crate) function: &'t str,
    /// Source file of the code.
    pub(crate) file: &'t str,
}

/// Calls from a location to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<'t> {
    pub(crate) from: Location<'t>,
    pub(crate) to: &'t str,
    /// Number of the calls.
    pub(crate) count: u64,
    /// Instructions of the callee and of everything that it called.
    pub(crate) instructions: u64,
}

/// Contents of a file.
#[derive(Debug, Default)]
pub(crate) struct Costs<'t> {
    /// Instructions of a location itself.
    pub(crate) own: HashMap<Location<'t>, u64>,
    pub(crate) calls: Vec<Call<'t>>,
    /// Count of each event over all functions, by its name; empty if the file has no sums.
    pub(crate) sums: HashMap<&'t str, u64>,
}

impl<'t> Costs<'t> {
    /// Parses a file whose positions are lines.
    pub(crate) fn parse(text: &'t str) -> Costs<'t> {
        let header = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let events: Vec<&str> = header("events:").unwrap_or("").split_whitespace().collect();
        let sums = header("summary:").or_else(|| header("totals:")).unwrap_or("");
        let sums = events.iter().copied().zip(numbers(sums)).collect();
        let column = 1 + events.iter().position(|event| *event == INSTRUCTIONS).unwrap_or(0);
        let mut costs = Costs { sums, ..Costs::default() };
        let (mut files, mut functions) = (Names::default(), Names::default());
        let mut location = Location { function: "", file: "" };
        let (mut callee, mut calls) = ("", None);
        for line in text.lines() {
            if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                let cost = line.split_whitespace().nth(column);
                let instructions = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
                // The line after a call has the counts of the callee, which has lines of its own.
                match calls.take() {
                    Some(count) => {
                        let from = location;
                        costs.calls.push(Call { from, to: callee, count, instructions });
                    }
                    None => *costs.own.entry(location).or_default() += instructions,
                }
                continue;
            }
            let Some((what, value)) = line.split_once('=') else { continue };
            match what {
                "fl" | "fi" | "fe" => location.file = files.resolve(value),
                "fn" => location.function = functions.resolve(value),
                "cfn" => callee = functions.resolve(value),
                "cfi" | "cfl" => drop(files.resolve(value)),
                "calls" => calls = Some(numbers(value).next().unwrap_or(0)),
                _ => {}
            }
        }
        costs
    }

    /// Returns the count of an event over all functions; 0 if it was not counted.
    pub(crate) fn sum(&self, event: &str) -> u64 {
        self.sums.get(event).copied().unwrap_or(0)
    }
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split_whitespace().map_while(|number| number.parse().ok())
}

/// Names of one kind, by callgrind's numbers.
#[derive(Default)]
struct Names<'t>(HashMap<&'t str, &'t str>);

impl<'t> Names<'t> {
    /// Returns the name in `(7) a::f`, which defines 7, or in `(7)` alone, which refers to it.
    fn resolve(&mut self, text: &'t str) -> &'t str {
        match text.split_once(' ') {
            Some((number, name)) if number.starts_with('(') => {
                self.0.insert(number, name);
                name
            }
            _ => self.0.get(text).copied().unwrap_or(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_apart_from_those_of_calls() {
        let text = "events: Ir\n\nfl=(1) src/a.rs\nfn=(7) a::f\n12 30\nfi=(2) src/b.rs\n+3 5\n* 1\nfe=(1)\n\
            cfn=(8) g\ncalls=2 40\n13 100\n14 2\n\nfn=(8)\n1 100\n\ntotals: 138\n";
        let costs = Costs::parse(text);
        let at = |function, file| costs.own[&Location { function, file }];
        assert_eq!((at("a::f", "src/a.rs"), at("a::f", "src/b.rs")), (32, 6));
        assert_eq!(at("g", "src/a.rs"), 100);
        let from = Location { function: "a::f", file: "src/a.rs" };
        assert_eq!(costs.calls, [Call { from, to: "g", count: 2, instructions: 100 }]);
        assert_eq!(costs.sum(INSTRUCTIONS), 138);
    }

    /// Instructions are found whichever column they have.
    #[test]
    fn events_are_found_by_name() {
        let costs = Costs::parse("events: Dr Ir\nfn=(1) f\n1 5 20\ntotals: 5 20\n");
        assert_eq!(costs.own.values().copied().collect::<Vec<u64>>(), [20]);
        assert_eq!(["Ir", "Dr", "Bc"].map(|event| costs.sum(event)), [20, 5, 0]);
    }

    #[test]
    fn malformed_file_has_no_sums() {
        for text in ["", "events: Ir\n", "totals: 7\n", "\u{0}\u{1}=\n"] {
            assert_eq!(Costs::parse(text).sum(INSTRUCTIONS), 0, "{text:?}");
        }
    }
}
