//! What a part of the report found: words, tables, figures, and the values that have a counterpart among the published ones.
//!
//! It is plain data, so that a part that is done can be put aside in a file, and need not be done again.

use serde::{Deserialize, Serialize};

use crate::statistics::Median;

/// A part of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chapter {
    /// What is shown, in its order.
    pub blocks: Vec<Block>,
    /// What has a counterpart among the published figures.
    pub entries: Vec<Entry>,
    /// Published figures that have none, by their keys, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// One thing that is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A heading within the chapter.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A drawing.
    Figure(Figure),
}

/// A table; also written as CSV.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name, for files: lower case, words joined by `-`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Its columns, units included.
    pub columns: Vec<String>,
    /// Its rows, each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// There is nothing to be said.
    Nothing,
    /// Words.
    Text(String),
    /// A number that was counted, or published.
    Number(f64),
    /// A number that was measured.
    Estimate(Estimate),
}

/// A number that was measured several times: their median, and the interval that holds the true one in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Half of the values are below.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// How many values there were.
    pub repetitions: u64,
}

/// Values that have a counterpart among the published figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The key of the published figure: `budapest.table1_isi_rsvp.path.cp1_median`.
    pub key: String,
    /// Unit of the values.
    pub unit: String,
    /// One value, or as many as were published in a list, in their order.
    pub values: Vec<Estimate>,
    /// What is different from what was published, where something is.
    pub note: Option<String>,
}

/// A drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, for files.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What goes across.
    pub across: Axis,
    /// What goes up.
    pub up: Axis,
    /// How values are shown.
    pub kind: Kind,
    /// Its values, series by series.
    pub series: Vec<Series>,
}

/// How values are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Joined by lines.
    Lines,
    /// Each a dot.
    Dots,
    /// Bars side by side, over the names of the axis.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, unit included.
    pub label: String,
    /// Whether each step is a multiple of the one before.
    pub logarithmic: bool,
    /// Names, where places 0, 1, 2 .. of it have some.
    pub names: Vec<String>,
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Whether it was published by others: then it is dashed.
    pub published: bool,
    /// Across and up, with the ends of the interval where there is one.
    pub points: Vec<Point>,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The ends of its interval.
    pub interval: Option<[f64; 2]>,
}

impl Chapter {
    /// A heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    /// A paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// A table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// A drawing.
    pub fn figure(&mut self, figure: Figure) {
        self.blocks.push(Block::Figure(figure));
    }

    /// A value that has a published counterpart.
    pub fn entry(&mut self, key: impl Into<String>, unit: &str, value: Estimate) {
        self.entries(key, unit, vec![value]);
    }

    /// As many values as were published in a list.
    pub fn entries(&mut self, key: impl Into<String>, unit: &str, values: Vec<Estimate>) {
        let (key, unit) = (key.into(), unit.to_owned());
        self.entries.push(Entry { key, unit, values, note: None });
    }

    /// The published figures with this key, or all whose keys begin with it and a dot, have no counterpart.
    pub fn leave_out(&mut self, key: impl Into<String>, reason: impl Into<String>) {
        self.left_out.push((key.into(), reason.into()));
    }

    /// Adds what another has found behind it.
    pub fn append(&mut self, other: Chapter) {
        self.blocks.extend(other.blocks);
        self.entries.extend(other.entries);
        self.left_out.extend(other.left_out);
    }

    /// Its tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            Block::Heading(_) | Block::Text(_) | Block::Figure(_) => None,
        })
    }
}

impl Estimate {
    /// Of values that were measured, all of them finite; `None` where there are none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let Median { median, low, high } = Median::of(values.iter().copied())?;
        Some(Estimate { median, low, high, repetitions: values.len() as u64 })
    }

    /// Of values in the order in which they were measured, where those that are near in time are alike: a machine that others use,
    /// too, is now quicker and now slower. They are cut into eight parts in time, and the medians of these count ([`parts`]), so
    /// that the interval tells of the machine's moods rather than of the number of values.
    pub fn over_time(values: &[f64]) -> Option<Estimate> {
        let of_parts = Estimate::of(&parts(values))?;
        Some(Estimate { repetitions: values.len() as u64, ..of_parts })
    }

    /// Likewise, of what batch after batch gave, where each is the mean or the median of many repetitions, of which there were so
    /// many in all.
    pub fn of_batches(batches: &[f64], repetitions: u64) -> Option<Estimate> {
        Some(Estimate { repetitions, ..Estimate::over_time(batches)? })
    }

    /// What was counted, and is the same each time.
    pub fn exact(value: f64) -> Estimate {
        Estimate { median: value, low: value, high: value, repetitions: 1 }
    }

    /// The same in another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Estimate {
        let Estimate { median, low, high, repetitions } = self;
        Estimate { median: median * factor, low: low * factor, high: high * factor, repetitions }
    }

    /// As a point of a drawing.
    pub fn at(self, x: f64) -> Point {
        Point { x, y: self.median, interval: Some([self.low, self.high]) }
    }
}

/// Into how many parts of time values are cut: of eight the interval is the whole range, from the least to the greatest.
const PARTS: usize = 8;

/// The medians of eight parts of values, each of the next so many in time; of fewer values each is a part.
pub fn parts(values: &[f64]) -> Vec<f64> {
    let count = PARTS.min(values.len());
    let end = |part: usize| part * values.len() / count;
    let part = |part: usize| values[end(part)..end(part + 1)].iter().copied();
    (0..count).filter_map(|number| Some(Median::of(part(number))?.median)).collect()
}

impl Table {
    /// A table without rows.
    pub fn new(name: &str, title: &str, columns: &[&str]) -> Table {
        Table {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, which has as many cells as there are columns.
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

impl Axis {
    /// Even steps.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), ..Axis::default() }
    }

    /// Each step a multiple of the one before; values must be above 0.
    pub fn logarithmic(label: &str) -> Axis {
        Axis { label: label.to_owned(), logarithmic: true, ..Axis::default() }
    }

    /// Names at the places 0, 1, 2 ..
    pub fn named(label: &str, names: &[&str]) -> Axis {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Axis { label: label.to_owned(), logarithmic: false, names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_can_be_put_aside() {
        let mut chapter = Chapter::default();
        chapter.heading("Steps");
        chapter.text("Some <words>.");
        let estimate = Estimate::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(estimate, Estimate { median: 2.0, low: 1.0, high: 3.0, repetitions: 3 });
        let mut table = Table::new("steps", "Steps", &["step", "us", "published"]);
        table.row(["find".into(), estimate.into(), Cell::from(None::<f64>)]);
        chapter.table(table);
        chapter.figure(Figure {
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
        chapter.entry("a.b", "us", estimate);
        chapter.leave_out("a.c", "it is not there");
        let text = serde_json::to_string(&chapter).unwrap();
        assert_eq!(serde_json::from_str::<Chapter>(&text).unwrap(), chapter);
        assert_eq!(chapter.tables().count(), 1);
        let mut twice = chapter.clone();
        twice.append(chapter);
        assert_eq!((twice.blocks.len(), twice.entries.len(), twice.left_out.len()), (8, 2, 2));
    }

    #[test]
    fn values_are_cut_into_parts_of_time() {
        assert_eq!((parts(&[]), parts(&[3.0, 1.0])), (vec![], vec![3.0, 1.0]));
        let slower_and_slower: Vec<f64> = (0..20).map(f64::from).collect();
        let medians = [0.5, 3.0, 5.5, 8.0, 10.5, 13.0, 15.5, 18.0];
        assert_eq!(parts(&slower_and_slower), medians);
        let estimate = Estimate::over_time(&slower_and_slower).unwrap();
        let expected = Estimate { median: 9.25, low: 0.5, high: 18.0, repetitions: 20 };
        assert_eq!((estimate, Estimate::over_time(&[])), (expected, None));
        let of_batches = Estimate::of_batches(&slower_and_slower, 500);
        assert_eq!(of_batches, Some(Estimate { repetitions: 500, ..expected }));
    }
}
