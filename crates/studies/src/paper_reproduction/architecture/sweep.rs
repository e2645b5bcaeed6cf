//! Sweep over caches of many shapes, to find the one that the benchmark needs.

use super::super::published;
use super::super::section::{Axis, Basis, Estimate, Figure, Kind, Point, Section, Series, Table};
use super::metrics;
use super::simulator::{Cache, Caches, OF_THE_PAPER, Run};

/// Sizes of a first-level cache, KB.
const SIZES: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
/// Block sizes, octets; valgrind simulates none below 32.
const BLOCKS: [u32; 4] = [32, 64, 128, 256];
/// Associativities.
const VARIANTS: [u32; 4] = [1, 2, 4, 8];
/// Sizes of the second level, KB, larger than both caches of the first together.
const SECOND_SIZES: [u32; 5] = [64, 128, 256, 512, 1_024];
/// Largest factor of time by which a cache still counts as good as the best one.
const AS_GOOD: f64 = 1.01;

/// Change of cycles that counts as small, percent.
const LITTLE: f64 = 5.0;

/// The varied cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariedCache {
    Instructions,
    Data,
    Second,
}

/// Returns all shapes to try; the other caches are the paper's. The quick set changes one property of the paper's
/// cache at a time.
pub(super) fn shapes(quick: bool) -> Vec<(VariedCache, Caches)> {
    let Caches { il1, dl1, ul2 } = OF_THE_PAPER;
    let mut shapes = Vec::new();
    for size in SIZES {
        for block in BLOCKS {
            for ways in VARIANTS {
                let shape = Cache { size: size << 10, ways, block };
                let same = [shape.size == il1.size, ways == il1.ways, block == il1.block];
                let changed = same.iter().filter(|same| !**same).count();
                if !quick || changed <= 1 {
                    shapes.push((VariedCache::Instructions, Caches { il1: shape, ..OF_THE_PAPER }));
                }
            }
        }
    }
    for size in SIZES.into_iter().filter(|size| !quick || [4, 256].contains(size)) {
        let shape = Cache { size: size << 10, ..dl1 };
        shapes.push((VariedCache::Data, Caches { dl1: shape, ..OF_THE_PAPER }));
    }
    for size in SECOND_SIZES.into_iter().filter(|size| !quick || [64, 1_024].contains(size)) {
        let shape = Cache { size: size << 10, ..ul2 };
        shapes.push((VariedCache::Second, Caches { ul2: shape, ..OF_THE_PAPER }));
    }
    shapes
}

/// A shape, and its results.
pub(super) struct ShapeResult<'r> {
    pub(super) varied: VariedCache,
    pub(super) caches: Caches,
    pub(super) run: &'r Run,
}

impl ShapeResult<'_> {
    fn cache(&self) -> Cache {
        match self.varied {
            VariedCache::Instructions => self.caches.il1,
            VariedCache::Data => self.caches.dl1,
            VariedCache::Second => self.caches.ul2,
        }
    }

    /// Miss rate of the varied cache, percent.
    fn misses(&self) -> f64 {
        let counts = &self.run.profile.counts;
        match self.varied {
            VariedCache::Instructions => metrics::il1_misses(counts),
            VariedCache::Data => metrics::dl1_misses(counts),
            VariedCache::Second => metrics::ul2_misses(counts),
        }
    }

    fn cycles(&self) -> f64 {
        metrics::cycles(&self.run.profile.counts)
    }
}

/// Adds tables, figures and text; leaves out values that are not finite.
pub(super) fn show(section: &mut Section, results: &[ShapeResult<'_>], quick: bool) {
    let instructions: Vec<&ShapeResult<'_>> =
        results.iter().filter(|one| one.varied == VariedCache::Instructions).collect();
    best(section, &instructions, results, quick);
    figures_of_misses(section, &instructions);
    let as_in_paper = |one: &&ShapeResult<'_>| {
        let (cache, paper) = (one.cache(), one.varied.of_the_paper());
        (cache.ways, cache.block) == (paper.ways, paper.block)
    };
    figure(
        section,
        (
            "architecture-sizes",
            "IPC (estimate) against the size of one cache, the others as in the paper",
        ),
        [Axis::logarithmic("size, KB"), Axis::linear("IPC (estimate)")],
        results.iter().filter(as_in_paper).map(|one| {
            let ipc = metrics::ipc(&one.run.profile.counts);
            (one.varied.name().to_owned(), one.cache().kilo(), ipc)
        }),
    );
    section.table(table(results));
}

/// Figures of the instruction cache: its size, its blocks, its ways, each with one of the others as in the paper.
fn figures_of_misses(section: &mut Section, results: &[&ShapeResult<'_>]) {
    let Cache { size, ways, block } = OF_THE_PAPER.il1;
    let misses = || Axis::linear("misses, %");
    let of = |chosen: fn(&Cache, Cache) -> bool, shown: fn(Cache) -> (String, f64)| {
        let paper = Cache { size, ways, block };
        let chosen = results.iter().filter(move |one| chosen(&one.cache(), paper));
        chosen.map(move |one| {
            let (name, across) = shown(one.cache());
            (name, across, one.misses())
        })
    };
    figure(
        section,
        (
            "architecture-il1-size",
            &format!("Instruction cache: misses against its size, blocks of {block} B"),
        ),
        [Axis::logarithmic("size, KB"), misses()],
        of(|one, paper| one.block == paper.block, |one| (one.associativity_name(), one.kilo())),
    );
    figure(
        section,
        ("architecture-il1-block", "Instruction cache: misses against its blocks, direct-mapped"),
        [Axis::logarithmic("block, B"), misses()],
        of(
            |one, paper| one.ways == paper.ways,
            |one| (format!("{} KB", one.kilo()), f64::from(one.block)),
        ),
    );
    figure(
        section,
        (
            "architecture-il1-ways",
            &format!("Instruction cache: misses against its ways, {} KB", size >> 10),
        ),
        [Axis::linear("ways"), misses()],
        of(
            |one, paper| one.size == paper.size,
            |one| (format!("blocks of {} B", one.block), f64::from(one.ways)),
        ),
    );
}

/// Table of all shapes.
fn table(results: &[ShapeResult<'_>]) -> Table {
    let mut table = Table::new(
        "architecture-caches",
        "Caches of other shapes, scenario 1",
        &[
            "cache",
            "size, KB",
            "ways",
            "block, B",
            "its misses, %",
            "cycles, M (estimate)",
            "IPC (estimate)",
        ],
    );
    for one in results {
        let cache = one.cache();
        table.row([
            one.varied.name().into(),
            cache.kilo().into(),
            f64::from(cache.ways).into(),
            f64::from(cache.block).into(),
            one.misses().into(),
            (one.cycles() / 1e6).into(),
            metrics::ipc(&one.run.profile.counts).into(),
        ]);
    }
    table
}

impl VariedCache {
    fn name(self) -> &'static str {
        match self {
            VariedCache::Instructions => "il1",
            VariedCache::Data => "dl1",
            VariedCache::Second => "ul2",
        }
    }

    fn of_the_paper(self) -> Cache {
        match self {
            VariedCache::Instructions => OF_THE_PAPER.il1,
            VariedCache::Data => OF_THE_PAPER.dl1,
            VariedCache::Second => OF_THE_PAPER.ul2,
        }
    }
}

/// Adds the best instruction cache, and the influence of each of the three properties.
fn best(
    section: &mut Section,
    instructions: &[&ShapeResult<'_>],
    all: &[ShapeResult<'_>],
    quick: bool,
) {
    let least = |results: &mut dyn Iterator<Item = &ShapeResult<'_>>| {
        results.map(ShapeResult::cycles).fold(f64::INFINITY, f64::min)
    };
    let fewest = least(&mut instructions.iter().copied());
    let good = instructions.iter().filter(|one| one.cycles() <= AS_GOOD * fewest);
    let smallest = good.min_by_key(|one| (one.cache().size, one.cache().ways, one.cache().block));
    let Some(smallest) = smallest else { return };
    let paper = published::figure("delft.best_icache").and_then(|value| value.as_str());
    let range = |varied: VariedCache| {
        let of = || all.iter().filter(move |one| one.varied == varied);
        let most = of().map(ShapeResult::cycles).fold(0.0, f64::max);
        100.0 * (most / least(&mut of()) - 1.0)
    };
    let found = format!(
        "{}, with {:.2} % misses (published: {})",
        smallest.cache(),
        smallest.misses(),
        paper.unwrap_or("-")
    );
    let [code, data, second] =
        [VariedCache::Instructions, VariedCache::Data, VariedCache::Second].map(range);
    let verdict = match code > data && code > second {
        true => "As in the paper the instruction cache matters most",
        false => "Unlike in the paper the instruction cache is not what matters most",
    };
    let others = match data.max(second) > LITTLE {
        true => "the others matter too",
        false => "the others matter little",
    };
    section.text(format!(
        "Of {} instruction caches, with blocks of 32 B and more, which is what valgrind simulates, the smallest that is within 1 % of the \
         best one is {found}. From the worst shape to the best one the estimate of cycles changes by {code:.0} % with the instruction \
         cache, by {data:.0} % with the data cache, and by {second:.0} % with the second level. {verdict}; {others}.",
        instructions.len(),
    ));
    for (name, range) in [("code", code), ("data", data), ("second", second)] {
        let key = format!("architecture.cycles_range_pct.{name}");
        section.measure(Basis::Estimated, key, "%", Estimate::exact(range));
    }
    // The published cache among all that were tried: how much slower than the best one.
    const BEST: Cache = Cache { size: 128 << 10, ways: 4, block: 64 };
    let of_best = instructions.iter().find(|one| one.cache() == BEST).map(|one| one.cycles());
    if let Some(cycles) = of_best {
        let excess = Estimate::exact(100.0 * (cycles / fewest - 1.0));
        section.measure(Basis::Estimated, "architecture.published_icache_excess_pct", "%", excess);
    }
    let reason = match quick {
        true => "a quick report changes one property of the cache at a time, so the published one is not among those tried".to_owned(),
        false => {
            format!("it is no number; here the smallest that is within 1 % of the best one is {found}")
        }
    };
    section.leave_out("delft.best_icache", reason);
}

/// Draws lines through points of one name, for names with at least two.
fn figure(
    section: &mut Section,
    (name, title): (&str, &str),
    [across, up]: [Axis; 2],
    points: impl Iterator<Item = (String, f64, f64)>,
) {
    let mut series: Vec<Series> = Vec::new();
    for (name, x, y) in points {
        let point = Point { x, y, interval: None };
        match series.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.push(point),
            None => series.push(Series::measured(name, [point])),
        }
    }
    series.retain(|one| one.points.len() > 1);
    series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    section.figure(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        across,
        up,
        kind: Kind::Lines,
        series,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_shapes_change_one_thing() {
        let quick = shapes(true);
        let of = |varied| quick.iter().filter(|(other, _)| *other == varied).count();
        assert_eq!(of(VariedCache::Instructions), SIZES.len() + BLOCKS.len() + VARIANTS.len() - 2);
        assert_eq!((of(VariedCache::Data), of(VariedCache::Second)), (2, 2));
        assert_eq!(shapes(false).len(), 7 * 4 * 4 + 7 + 5);
    }

    #[test]
    fn lines_have_at_least_two_points_in_their_order() {
        let mut section = Section::default();
        let points = [("a", 8.0, 1.0), ("b", 4.0, 2.0), ("a", 4.0, 3.0)];
        let points = points.map(|(name, x, y)| (name.to_owned(), x, y));
        let axes = [Axis::logarithmic("KB"), Axis::linear("%")];
        figure(&mut section, ("some", "Some"), axes, points.into_iter());
        let crate::paper_reproduction::section::Block::Figure(figure) = &section.blocks[0] else {
            panic!()
        };
        assert_eq!(figure.series.len(), 1);
        let xs: Vec<f64> = figure.series[0].points.iter().map(|point| point.x).collect();
        assert_eq!(xs, [4.0, 8.0]);
    }
}
