//! Sorting of listings by columns. Only as many rows are kept as are printed.

use std::cmp::Ordering;
use std::net::IpAddr;

use earmark_control::command::Failure;

use super::Row;
use super::of_router::{OfRouter, ROUTER};

/// Most rows that are kept.
pub(super) const MAX_SORTED: usize = 200_000;

/// Value of a row in a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SortKey {
    Number(f64),
    Address(IpAddr, u16),
    Text(String),
    /// No value; after all others in either direction.
    Nothing,
}

impl SortKey {
    /// Returns the key of a number.
    pub(super) fn number(value: impl Into<f64>) -> SortKey {
        SortKey::Number(value.into())
    }

    /// Returns the key of a count, which is exact below 2^53.
    pub(super) fn count(value: u64) -> SortKey {
        SortKey::Number(value as f64)
    }

    /// Returns the key of a text.
    pub(super) fn text(value: &str) -> SortKey {
        SortKey::Text(value.to_owned())
    }

    /// Returns the key of a value that may be absent.
    pub(super) fn of<T>(value: Option<T>, key: impl FnOnce(T) -> SortKey) -> SortKey {
        value.map_or(SortKey::Nothing, key)
    }

    /// Compares two values; of equal kinds in a column.
    fn compare(&self, other: &SortKey, is_descending: bool) -> Ordering {
        use SortKey::{Address, Nothing, Number, Text};
        let order = match (self, other) {
            (Nothing, Nothing) => return Ordering::Equal,
            (Nothing, _) => return Ordering::Greater,
            (_, Nothing) => return Ordering::Less,
            (Number(one), Number(other)) => one.total_cmp(other),
            (Address(one, port), Address(other, other_port)) => {
                (one, port).cmp(&(other, other_port))
            }
            (Text(one), Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        };
        if is_descending { order.reverse() } else { order }
    }
}

/// A column to sort by.
enum Column<R> {
    /// The router of a row.
    Router,
    /// The value in a row.
    OfRow(fn(&R) -> SortKey),
}

impl<R> Column<R> {
    fn key(&self, OfRouter { router, row }: &OfRouter<R>) -> SortKey {
        match self {
            Column::Router => SortKey::of(router.as_ref(), |name| SortKey::text(name.as_str())),
            Column::OfRow(key) => key(row),
        }
    }
}

/// Rows in the order of some columns.
pub(super) struct Sorted<R> {
    columns: Vec<(Column<R>, bool)>,
    rows: Vec<(Vec<SortKey>, OfRouter<R>)>,
    /// Most rows that are printed.
    limit: Option<usize>,
    seen: usize,
}

impl<R: Row> Sorted<R> {
    /// Creates an empty list, to be sorted by columns, of which the first `limit` rows are printed. Rows of routers can also be
    /// sorted by the router.
    ///
    /// # Errors
    /// There is no column of a name.
    pub(super) fn by(
        columns: &[String],
        limit: Option<usize>,
        has_routers: bool,
    ) -> Result<Sorted<R>, Failure> {
        let column = |text: &String| {
            let (name, is_descending) = match text.strip_prefix('-') {
                Some(name) => (name, true),
                None => (text.as_str(), false),
            };
            if has_routers && name == ROUTER {
                return Ok((Column::Router, is_descending));
            }
            let found = R::SORT.iter().find(|(known, _)| *known == name);
            let router = has_routers.then_some(ROUTER);
            let names = || {
                router
                    .into_iter()
                    .chain(R::SORT.iter().map(|(name, _)| *name))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            found.map(|(_, column)| (Column::OfRow(*column), is_descending)).ok_or_else(|| {
                let message = format!("cannot sort by {name:?}");
                Failure::new("unknown_column", message, format!("the columns are {}", names()))
            })
        };
        let columns = columns.iter().map(column).collect::<Result<_, _>>()?;
        Ok(Sorted { columns, rows: Vec::new(), limit, seen: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// There are too many rows.
    pub(super) fn add(&mut self, row: OfRouter<R>) -> Result<(), Failure> {
        let most = self.limit.unwrap_or(MAX_SORTED).min(MAX_SORTED);
        self.seen += 1;
        if self.seen > most && self.limit.is_none_or(|limit| limit > MAX_SORTED) {
            let message = format!("more than {MAX_SORTED} rows to sort");
            let hint = "--limit N prints the first N of all rows; filters such as --to reduce them";
            return Err(Failure::new("too_many_rows", message, hint));
        }
        self.rows.push((self.columns.iter().map(|(column, _)| column.key(&row)).collect(), row));
        // Sorting only sometimes keeps its cost per row logarithmic.
        if self.rows.len() > most + most.max(1_024) {
            self.keep(most);
        }
        Ok(())
    }

    fn keep(&mut self, most: usize) {
        let Sorted { columns, rows, .. } = self;
        rows.sort_by(|(one, _), (other, _)| {
            let keys = columns.iter().zip(one.iter().zip(other));
            let orders =
                keys.map(|((_, is_descending), (one, other))| one.compare(other, *is_descending));
            orders.fold(Ordering::Equal, Ordering::then)
        });
        rows.truncate(most);
    }

    /// Returns the rows, and whether there are more than were to be printed.
    pub(super) fn finish(mut self) -> (Vec<OfRouter<R>>, bool) {
        self.keep(self.limit.unwrap_or(MAX_SORTED));
        (
            self.rows.into_iter().map(|(_, row)| row).collect(),
            self.limit.is_some_and(|limit| self.seen > limit),
        )
    }
}
