//! Counts of a simulated processor, and the instructions of each function on its stack.

use anyhow::{Result, ensure};

use crate::callgrind::{Costs, INSTRUCTIONS};

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
    fn of(costs: &Costs<'_>) -> Counts {
        let sum = |events: &[&str]| events.iter().map(|event| costs.sum(event)).sum();
        Counts {
            instructions: sum(&[INSTRUCTIONS]),
            loads: sum(&["Dr"]),
            stores: sum(&["Dw"]),
            il1_misses: sum(&["I1mr"]),
            dl1_misses: sum(&["D1mr", "D1mw"]),
            ul2_misses: sum(&["ILmr", "DLmr", "DLmw"]),
            conditional: sum(&["Bc"]),
            conditional_missed: sum(&["Bcm"]),
            indirect: sum(&["Bi"]),
            indirect_missed: sum(&["Bim"]),
            calls: costs.calls.iter().map(|call| call.count).sum(),
        }
    }
}

/// Profile of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Profile {
    /// Counts over all functions.
    pub(super) counts: Counts,
    /// Instructions of each function itself, by its name with its callers.
    pub(super) functions: Vec<(String, u64)>,
}

impl Profile {
    /// Reads a file of callgrind.
    ///
    /// # Errors
    /// The file is not one of callgrind, or nothing was counted.
    pub(super) fn parse(text: &str) -> Result<Profile> {
        let costs = Costs::parse(text);
        ensure!(!costs.sums.is_empty(), "there are no sums of counted events");
        let counts = Counts::of(&costs);
        ensure!(
            counts.instructions > 0,
            "nothing was counted; has this program lost its symbols (strip)?"
        );
        let mut own: Vec<(&str, u64)> =
            costs.own.iter().map(|(location, count)| (location.function, *count)).collect();
        own.sort_unstable();
        let of_function = |part: &[(&str, u64)]| {
            (part[0].0.to_owned(), part.iter().map(|(_, count)| count).sum())
        };
        let functions = own.chunk_by(|one, next| one.0 == next.0).map(of_function).collect();
        Ok(Profile { counts, functions })
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
    fn file_has_counts_and_functions() {
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
