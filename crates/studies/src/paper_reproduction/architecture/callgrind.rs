//! Parser for callgrind's output: counts of each event, by function and callers.
//!
//! Valgrind's manual describes the format in "Callgrind Format Specification". With callers kept apart, callgrind
//! names a function with all its callers, the nearest first, joined by `'`; so the costs of a function are known for
//! each call chain.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    pub(super) loads: u64,
    pub(super) stores: u64,
    /// Instruction reads that missed the first-level cache.
    pub(super) il1_misses: u64,
    /// Data accesses that missed the first-level cache.
    pub(super) dl1_misses: u64,
    /// Accesses of either kind that missed the second-level cache.
    pub(super) ul2_misses: u64,
    /// Conditional branches.
    pub(super) conditional: u64,
    /// Mispredicted conditional branches.
    pub(super) conditional_missed: u64,
    /// Indirect jumps and calls, without returns.
    pub(super) indirect: u64,
    /// Indirect jumps and calls to another address than predicted.
    pub(super) indirect_missed: u64,
    /// Calls of functions, which equal the number of returns.
    pub(super) calls: u64,
}

impl Counts {
    /// Reads the numbers of a line by the names of the events; events that were not counted are 0.
    fn of(events: &[&str], numbers: &[u64]) -> Counts {
        let get = |names: &[&str]| {
            let of_names = events.iter().zip(numbers).filter(|(event, _)| names.contains(event));
            of_names.map(|(_, number)| number).sum()
        };
        Counts {
            instructions: get(&["Ir"]),
            loads: get(&["Dr"]),
            stores: get(&["Dw"]),
            il1_misses: get(&["I1mr"]),
            dl1_misses: get(&["D1mr", "D1mw"]),
            ul2_misses: get(&["ILmr", "DLmr", "DLmw"]),
            conditional: get(&["Bc"]),
            conditional_missed: get(&["Bcm"]),
            indirect: get(&["Bi"]),
            indirect_missed: get(&["Bim"]),
            calls: 0,
        }
    }
}

/// Contents of a callgrind file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Profile {
    /// Counts over all functions.
    pub(super) counts: Counts,
    /// Instructions of each function itself, by its name with its callers.
    pub(super) functions: Vec<(String, u64)>,
}

impl Profile {
    /// Parses a file.
    ///
    /// # Errors
    /// The file is not a callgrind file, or nothing was counted.
    pub(super) fn parse(text: &str) -> Result<Profile> {
        let header = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let events = header("events:").context("no line says which events were counted")?;
        let events: Vec<&str> = events.split_whitespace().collect();
        let sums = header("summary:").or_else(|| header("totals:"));
        let sums = numbers(sums.context("there are no sums")?);
        let mut profile = Profile { counts: Counts::of(&events, &sums), ..Profile::default() };
        ensure!(
            profile.counts.instructions > 0,
            "nothing was counted; has this program lost its symbols (strip)?"
        );
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut costs: HashMap<&str, u64> = HashMap::new();
        let (mut current, mut of_call) = ("", false);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                current = resolve(name, &mut names);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                resolve(name, &mut names);
            } else if let Some(calls) = line.strip_prefix("calls=") {
                profile.counts.calls += numbers(calls).first().copied().unwrap_or(0);
                of_call = true;
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                // The line after a call has the inclusive costs of the callee, which has lines of its own.
                if !std::mem::take(&mut of_call) {
                    let place = events.iter().position(|event| *event == "Ir").unwrap_or(0);
                    let cost = line.split_whitespace().nth(1 + place);
                    let cost: u64 = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
                    *costs.entry(current).or_default() += cost;
                }
            }
        }
        profile.functions = costs.into_iter().map(|(name, cost)| (name.to_owned(), cost)).collect();
        profile.functions.sort_unstable();
        Ok(profile)
    }
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map_while(|number| number.parse().ok()).collect()
}

/// Resolves a name: `(12) name` defines 12, `(12)` alone refers to it.
fn resolve<'t>(text: &'t str, names: &mut HashMap<&'t str, &'t str>) -> &'t str {
    match text.split_once(' ') {
        Some((number, name)) if number.starts_with('(') => {
            names.insert(number, name);
            name
        }
        _ => names.get(text).copied().unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
version: 1
positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim
summary: 170 30 20 7 1 2 3 4 5 12 2 6 1

fl=(1) a.rs
fn=(1) parse'handle'main
10 60 20
+1 10 0 5
fn=(2) handle'main
fi=(2) b.rs
3 40
cfn=(1)
calls=7 10
* 70 20 5
-2 30 10 15 7 1 2 3 4 5 12 2 6 1
fn=(3) main
cfn=(2)
calls=1 0
1 140 30 20
5 30

totals: 170 30 20
";

    #[test]
    fn a_file_is_read() {
        let profile = Profile::parse(FILE).unwrap();
        let counts = Counts {
            instructions: 170,
            loads: 30,
            stores: 20,
            il1_misses: 7,
            dl1_misses: 3,
            ul2_misses: 12,
            conditional: 12,
            conditional_missed: 2,
            indirect: 6,
            indirect_missed: 1,
            calls: 8,
        };
        assert_eq!(profile.counts, counts);
        let functions = [("handle'main", 70), ("main", 30), ("parse'handle'main", 70)];
        assert_eq!(profile.functions, functions.map(|(name, cost)| (name.to_owned(), cost)));
    }

    #[test]
    fn malformed_file_is_refused() {
        assert!(Profile::parse("").is_err());
        let nothing = FILE.replace("summary: 170", "summary: 0");
        assert!(Profile::parse(&nothing).unwrap_err().to_string().contains("symbols"));
    }
}
