//! The paper's figures of a processor, from the counts.

use super::super::section::Basis;
use super::counts::Counts;

/// Latency of a first-level miss, cycles, from the paper.
pub(super) const SECOND_LEVEL: f64 = 6.0;
/// Latency of a second-level miss, cycles: 18 for the first 8 octets and 2 for each further 8 of a block, the default
/// of the paper's simulator.
pub(super) const MEMORY: f64 = 32.0;
/// Cost of a wrong prediction, cycles: about the pipeline length between fetching and resolving a branch.
pub(super) const WRONG_PREDICTION: f64 = 10.0;

/// A figure of the paper.
pub(super) struct Metric {
    /// Key of the figure, below that of a scenario.
    pub(super) key: &'static str,
    /// Name in tables.
    pub(super) title: &'static str,
    /// Unit.
    pub(super) unit: &'static str,
    /// Computes the figure.
    pub(super) of: fn(&Counts) -> f64,
    /// Way to the figure.
    pub(super) basis: Basis,
    /// Difference from the paper's definition.
    pub(super) note: Option<&'static str>,
}

const CYCLES: &str = "not measured: an estimate for another machine than this one, from simulated caches: instructions + 6 x misses of the first level + 32 x misses of the second + 10 x wrong predictions; one \
    instruction a cycle, and nothing overlaps";
const BRANCHES: &str =
    "conditional and indirect branches; valgrind does not count direct jumps, calls and returns";
const ACCESSES: &str =
    "one for each instruction; the published one has those in it that were fetched in vain";

/// All figures, in the order of the paper's tables.
pub(super) const ALL: [Metric; 13] = [
    Metric {
        key: "cycles_m",
        title: "cycles, M (estimate for the simulated processor)",
        unit: "M",
        of: |c| cycles(c) / 1e6,
        basis: Basis::Estimated,
        note: Some(CYCLES),
    },
    Metric {
        key: "ipc",
        title: "IPC (estimate for the simulated processor)",
        unit: "instructions a cycle",
        of: ipc,
        basis: Basis::Estimated,
        note: Some(CYCLES),
    },
    Metric {
        key: "apr_pct",
        title: "next address predicted, %",
        unit: "%",
        of: addresses_predicted,
        basis: Basis::Simulated,
        note: Some(
            "of conditional and indirect branches, those after which it went on where it was predicted to",
        ),
    },
    Metric {
        key: "dpr_pct",
        title: "direction predicted, %",
        unit: "%",
        of: directions_predicted,
        basis: Basis::Simulated,
        note: Some("of conditional branches"),
    },
    Metric {
        key: "inst_m",
        title: "instructions, M",
        unit: "M",
        of: |c| c.instructions as f64 / 1e6,
        basis: Basis::Counted,
        note: None,
    },
    Metric {
        key: "load_pct",
        title: "loads, %",
        unit: "%",
        of: |c| of_instructions(c, c.loads),
        basis: Basis::Counted,
        note: None,
    },
    Metric {
        key: "store_pct",
        title: "stores, %",
        unit: "%",
        of: |c| of_instructions(c, c.stores),
        basis: Basis::Counted,
        note: None,
    },
    Metric {
        key: "branch_pct",
        title: "branches, %",
        unit: "%",
        of: |c| of_instructions(c, c.conditional + c.indirect),
        basis: Basis::Counted,
        note: Some(BRANCHES),
    },
    Metric {
        key: "il1_acc_m",
        title: "il1 accesses, M",
        unit: "M",
        of: |c| c.instructions as f64 / 1e6,
        basis: Basis::Counted,
        note: Some(ACCESSES),
    },
    Metric {
        key: "il1_miss_pct",
        title: "il1 misses, %",
        unit: "%",
        of: il1_misses,
        basis: Basis::Simulated,
        note: None,
    },
    Metric {
        key: "dl1_acc_m",
        title: "dl1 accesses, M",
        unit: "M",
        of: |c| data(c) as f64 / 1e6,
        basis: Basis::Counted,
        note: None,
    },
    Metric {
        key: "dl1_miss_pct",
        title: "dl1 misses, %",
        unit: "%",
        of: dl1_misses,
        basis: Basis::Simulated,
        note: None,
    },
    Metric {
        key: "ul2_miss_pct",
        title: "ul2 misses, %",
        unit: "%",
        of: ul2_misses,
        basis: Basis::Simulated,
        note: Some("of what the first level did not have"),
    },
];

/// Returns the figure with this key.
pub(super) fn metric(key: &str) -> Option<&'static Metric> {
    static ALL_OF_THEM: [Metric; 13] = ALL;
    ALL_OF_THEM.iter().find(|metric| metric.key == key)
}

/// Estimates the cycles of a processor of the paper's kind.
pub(super) fn cycles(counts: &Counts) -> f64 {
    let Counts { instructions, il1_misses, dl1_misses, ul2_misses, .. } = *counts;
    let wrong = counts.conditional_missed + counts.indirect_missed;
    instructions as f64
        + SECOND_LEVEL * (il1_misses + dl1_misses) as f64
        + MEMORY * ul2_misses as f64
        + WRONG_PREDICTION * wrong as f64
}

pub(super) fn ipc(counts: &Counts) -> f64 {
    counts.instructions as f64 / cycles(counts)
}

pub(super) fn il1_misses(counts: &Counts) -> f64 {
    percent(counts.il1_misses, counts.instructions)
}

pub(super) fn dl1_misses(counts: &Counts) -> f64 {
    percent(counts.dl1_misses, data(counts))
}

pub(super) fn ul2_misses(counts: &Counts) -> f64 {
    percent(counts.ul2_misses, counts.il1_misses + counts.dl1_misses)
}

/// Number of calls and returns, which valgrind does not count as branches.
pub(super) fn calls_and_returns(counts: &Counts) -> f64 {
    of_instructions(counts, 2 * counts.calls)
}

/// Share of indirect jumps and calls with a correctly predicted target.
pub(super) fn targets_predicted(counts: &Counts) -> f64 {
    100.0 - percent(counts.indirect_missed, counts.indirect)
}

fn directions_predicted(counts: &Counts) -> f64 {
    100.0 - percent(counts.conditional_missed, counts.conditional)
}

fn addresses_predicted(counts: &Counts) -> f64 {
    let wrong = counts.conditional_missed + counts.indirect_missed;
    100.0 - percent(wrong, counts.conditional + counts.indirect)
}

fn data(counts: &Counts) -> u64 {
    counts.loads + counts.stores
}

fn of_instructions(counts: &Counts, part: u64) -> f64 {
    percent(part, counts.instructions)
}

/// Returns the percentage; 0 if `all` is 0.
pub(super) fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / (all as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::super::published;
    use super::*;

    const COUNTS: Counts = Counts {
        instructions: 1_000,
        loads: 250,
        stores: 150,
        il1_misses: 50,
        dl1_misses: 10,
        ul2_misses: 3,
        conditional: 100,
        conditional_missed: 6,
        indirect: 20,
        indirect_missed: 12,
        calls: 15,
    };

    #[test]
    fn figures_are_those_of_their_names() {
        let of = |key: &str| (metric(key).unwrap().of)(&COUNTS);
        // 1000 + 6 x 60 + 32 x 3 + 10 x 18
        assert_eq!(cycles(&COUNTS), 1_636.0);
        assert!((of("ipc") - 0.611).abs() < 0.001);
        assert_eq!((of("load_pct"), of("store_pct"), of("branch_pct")), (25.0, 15.0, 12.0));
        assert_eq!((of("il1_miss_pct"), of("dl1_miss_pct"), of("ul2_miss_pct")), (5.0, 2.5, 5.0));
        assert_eq!((of("dpr_pct"), of("apr_pct")), (94.0, 85.0));
        assert_eq!((targets_predicted(&COUNTS), calls_and_returns(&COUNTS)), (40.0, 3.0));
        assert_eq!(of("dl1_acc_m"), 0.0004);
        assert!(ipc(&Counts::default()).is_nan(), "of nothing");
    }

    /// The figures here are exactly those that the paper prints of a scenario.
    #[test]
    fn keys_are_the_published_ones() {
        let published: Vec<&str> = published::figures()
            .iter()
            .filter_map(|(key, _)| key.strip_prefix("delft.scenario1."))
            .collect();
        assert_eq!(published.len(), ALL.len());
        assert!(ALL.iter().all(|metric| published.contains(&metric.key)));
    }
}
