//! Results of a part of the report: text, tables, figures, and the values with a published counterpart.
//!
//! A section is plain data, so that a completed part can be stored in a file, and is not measured again.

use serde::{Deserialize, Serialize};

use earmark_lab::statistics::Median;

pub use earmark_lab::plot::chart::{Axis, Figure, Kind, Point, Series};

/// Results of a part of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Blocks to show, in order.
    pub blocks: Vec<Block>,
    /// Values with a counterpart among the published figures.
    pub entries: Vec<Entry>,
    /// Further values that verdicts on the papers' claims rely on, under keys of their own.
    #[serde(default)]
    pub measures: Vec<Entry>,
    /// Keys of published figures without a counterpart, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A block of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A heading within the section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A drawing.
    Figure(Figure),
}

/// A table, also written as CSV.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name for files: lower case, words joined by `-`.
    pub name: String,
    /// Title.
    pub title: String,
    /// Column headings with units.
    pub columns: Vec<String>,
    /// Rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// An empty cell.
    Nothing,
    /// Text.
    Text(String),
    /// A number that was counted or published.
    Number(f64),
    /// A number that was measured.
    Estimate(Estimate),
    /// A number that was published with its interval.
    Interval {
        /// Published value.
        value: f64,
        /// Ends of the published interval.
        ends: [f64; 2],
    },
}

/// Way to a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Measured by a clock, or by counters of the processor or the kernel.
    #[default]
    Measured,
    /// Counted, and the same each time.
    Counted,
    /// Result of a simulation.
    Simulated,
    /// Estimated by a model of a machine that is not this one.
    Estimated,
    /// Computed from measured values, as in the paper.
    Derived,
}

/// Result of repeated measurements: the median with its 95 % confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median of the values.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of values.
    pub repetitions: u64,
    /// Values behind the estimate, in order of time; empty if there is only one, or if it was computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

/// Values under a key, such as that of a published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Key of the published figure: `budapest.table1_isi_rsvp.path.cp1_median`.
    pub key: String,
    /// Unit of the values.
    pub unit: String,
    /// Way to the values.
    #[serde(default)]
    pub basis: Basis,
    /// One value, or as many as the published list has, in its order.
    pub values: Vec<Estimate>,
    /// Difference from the published measurement, if any.
    pub note: Option<String>,
}

impl Section {
    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a drawing.
    pub fn figure(&mut self, figure: Figure) {
        self.blocks.push(Block::Figure(figure));
    }

    /// Adds a value with a published counterpart.
    pub fn entry(&mut self, key: impl Into<String>, unit: &str, value: Estimate) {
        self.entries(key, unit, [value], None);
    }

    /// Adds as many measured values as the published list has, with a note about the difference from the published
    /// measurement, if any. Without values nothing is added.
    pub fn entries<'n>(
        &mut self,
        key: impl Into<String>,
        unit: &str,
        values: impl IntoIterator<Item = Estimate>,
        note: impl Into<Option<&'n str>>,
    ) {
        self.entries_by(Basis::Measured, key, unit, values, note);
    }

    /// Adds values as [`Section::entries`] does, for another way to them.
    pub fn entries_by<'n>(
        &mut self,
        basis: Basis,
        key: impl Into<String>,
        unit: &str,
        values: impl IntoIterator<Item = Estimate>,
        note: impl Into<Option<&'n str>>,
    ) {
        let (key, unit, note) = (key.into(), unit.to_owned(), note.into().map(str::to_owned));
        let values: Vec<Estimate> = values.into_iter().collect();
        if !values.is_empty() {
            self.entries.push(Entry { key, unit, basis, values, note });
        }
    }

    /// Adds a value without a published counterpart, for verdicts.
    pub fn measure(
        &mut self,
        basis: Basis,
        key: impl Into<String>,
        unit: &str,
        value: impl Into<Option<Estimate>>,
    ) {
        if let Some(value) = value.into() {
            let (key, unit) = (key.into(), unit.to_owned());
            self.measures.push(Entry { key, unit, basis, values: vec![value], note: None });
        }
    }

    /// Records that the published figures with this key, or all whose keys begin with it and a dot, have no
    /// counterpart.
    pub fn leave_out(&mut self, key: impl Into<String>, reason: impl Into<String>) {
        self.left_out.push((key.into(), reason.into()));
    }

    /// Appends the results of another section.
    pub fn append(&mut self, other: Section) {
        self.blocks.extend(other.blocks);
        self.entries.extend(other.entries);
        self.measures.extend(other.measures);
        self.left_out.extend(other.left_out);
    }

    /// Returns the tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            Block::Heading(_) | Block::Text(_) | Block::Figure(_) => None,
        })
    }
}

impl Estimate {
    /// Summarizes finite measured values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let Median { median, low, high } = Median::of(values.iter().copied())?;
        let (repetitions, samples) = (values.len() as u64, values.to_vec());
        Some(Estimate { median, low, high, repetitions, samples })
    }

    /// Summarizes values in order of time, if values near in time are alike: a shared machine is sometimes faster and
    /// sometimes slower. The values are cut into eight parts in time, and their medians count ([`parts`]), so that
    /// the interval reflects the variation of the machine rather than the number of values.
    pub fn over_time(values: &[f64]) -> Option<Estimate> {
        Some(Estimate::of(&parts(values))?.behind(values))
    }

    /// Summarizes means or medians of batches in order of time, with `repetitions` repetitions in all.
    pub fn of_batches(batches: &[f64], repetitions: u64) -> Option<Estimate> {
        Some(Estimate { repetitions, ..Estimate::over_time(batches)? })
    }

    /// Creates an estimate of a counted value that is the same each time.
    pub fn exact(value: f64) -> Estimate {
        Estimate::between(value, value, value, 1)
    }

    /// Creates an estimate that was computed otherwise than from values.
    pub fn between(low: f64, median: f64, high: f64, repetitions: u64) -> Estimate {
        Estimate { median, low, high, repetitions, samples: Vec::new() }
    }

    /// Replaces the values behind the estimate: it was computed from parts of these.
    #[must_use]
    pub fn behind(self, values: &[f64]) -> Estimate {
        Estimate { repetitions: values.len() as u64, samples: values.to_vec(), ..self }
    }

    /// Converts the estimate to another unit.
    #[must_use]
    pub fn times(&self, factor: f64) -> Estimate {
        let Estimate { median, low, high, repetitions, ref samples } = *self;
        let samples = samples.iter().map(|value| value * factor).collect();
        let [median, low, high] = [median, low, high].map(|value| value * factor);
        Estimate { median, low, high, repetitions, samples }
    }

    /// Divides by the estimate, whose ends change places.
    #[must_use]
    pub fn dividing(&self, dividend: f64) -> Estimate {
        let samples = self.samples.iter().map(|value| dividend / value).collect();
        let [median, low, high] = [self.median, self.high, self.low].map(|value| dividend / value);
        Estimate { median, low, high, repetitions: self.repetitions, samples }
    }

    /// Returns the estimate as a point of a drawing.
    pub fn at(&self, x: f64) -> Point {
        Point { x, y: self.median, interval: Some([self.low, self.high]) }
    }
}

/// Returns a name as a part of a key: `Boomerang, by the kernel` is `boomerang_by_the_kernel`.
pub fn key_part(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<&str>>().join("_")
}

/// Number of parts in time: with eight the interval is the whole range, from minimum to maximum.
const PARTS: usize = 8;

/// Returns the medians of eight consecutive parts of values; with fewer values each is a part.
pub fn parts(values: &[f64]) -> Vec<f64> {
    let count = PARTS.min(values.len());
    let end = |part: usize| part * values.len() / count;
    let part = |part: usize| values[end(part)..end(part + 1)].iter().copied();
    (0..count).filter_map(|number| Some(Median::of(part(number))?.median)).collect()
}

impl Table {
    /// Creates a table without rows.
    pub fn new(name: &str, title: &str, columns: &[&str]) -> Table {
        Table {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<&Estimate> for Cell {
    fn from(estimate: &Estimate) -> Cell {
        Cell::Estimate(estimate.clone())
    }
}

impl From<Estimate> for Cell {
    fn from(estimate: Estimate) -> Cell {
        Cell::Estimate(estimate)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::Nothing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_is_restored_from_json() {
        let mut section = Section::default();
        section.heading("Steps");
        section.text("Some <words>.");
        let estimate = Estimate::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(estimate, Estimate::between(1.0, 2.0, 3.0, 3).behind(&[3.0, 1.0, 2.0]));
        let mut table = Table::new("steps", "Steps", &["step", "us", "published"]);
        table.row(["find".into(), (&estimate).into(), Cell::from(None::<f64>)]);
        section.table(table);
        section.figure(Figure {
            name: "steps".to_owned(),
            title: "Steps".to_owned(),
            across: Axis::named("step", &["find"]),
            up: Axis::logarithmic("us"),
            kind: Kind::Bars,
            series: vec![Series {
                name: "ours".to_owned(),
                published: false,
                points: vec![estimate.times(0.5).at(0.0)],
            }],
        });
        section.entry("a.b", "us", estimate);
        section.leave_out("a.c", "it is not there");
        let text = serde_json::to_string(&section).unwrap();
        assert_eq!(serde_json::from_str::<Section>(&text).unwrap(), section);
        assert_eq!(section.tables().count(), 1);
        let mut twice = section.clone();
        twice.append(section);
        assert_eq!((twice.blocks.len(), twice.entries.len(), twice.left_out.len()), (8, 2, 2));
    }

    #[test]
    fn values_are_cut_into_parts_of_time() {
        assert_eq!((parts(&[]), parts(&[3.0, 1.0])), (vec![], vec![3.0, 1.0]));
        let slower_and_slower: Vec<f64> = (0..20).map(f64::from).collect();
        let medians = [0.5, 3.0, 5.5, 8.0, 10.5, 13.0, 15.5, 18.0];
        assert_eq!(parts(&slower_and_slower), medians);
        let estimate = Estimate::over_time(&slower_and_slower).unwrap();
        let expected = Estimate::between(0.5, 9.25, 18.0, 20).behind(&slower_and_slower);
        assert_eq!((&estimate, Estimate::over_time(&[])), (&expected, None));
        let of_batches = Estimate::of_batches(&slower_and_slower, 500);
        assert_eq!(of_batches, Some(Estimate { repetitions: 500, ..expected }));
    }
}
