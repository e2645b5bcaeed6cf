//! Output of listings page by page: a table, blocks of details, or one JSON array.

use std::io::Write;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use comfy_table::{Cell, ColumnConstraint, Width};
use earmark_control::command::{Failure, Output};

use super::detail::{detail, name_and_value};
use super::of_router::{OfRouter, ROUTER};
use super::{Row, new_table};
use crate::cli::routers::names::RouterName;

/// Rows that a part of a table has at most.
const PART: usize = 1_000;
/// Time that rows wait for further ones, so that parts are not too small.
const WAIT: Duration = Duration::from_millis(50);
/// Time that rows of several routers wait, whose first pages arrive one after the other.
const ROUTERS_WAIT: Duration = Duration::from_millis(300);
/// Lines of a table before its first row: border, header, border.
const HEADER_LINES: usize = 3;
/// Columns of a cell besides its content.
const PADDING: u16 = 2;

/// Prints the rows of a listing as they come.
pub(super) struct Printer<'a, R> {
    out: &'a mut Output,
    is_detailed: bool,
    /// Whether the table has a column for the router.
    has_routers: bool,
    /// Time that rows wait for further ones.
    wait: Duration,
    /// Rows of a table that are not printed yet.
    rows: Vec<OfRouter<R>>,
    printed: usize,
    printed_at: Instant,
    /// Widths of the columns so far.
    widths: Vec<u16>,
    /// Lower border of the table.
    border: String,
    row: PhantomData<R>,
}

impl<'a, R: Row> Printer<'a, R> {
    /// Creates a printer. `router_width` is the length of the longest name of a router, if rows have routers.
    pub(super) fn new(
        out: &'a mut Output,
        is_detailed: bool,
        router_width: Option<usize>,
    ) -> Printer<'a, R> {
        let router_column =
            router_width.map(|width| u16::try_from(width).unwrap_or(u16::MAX - PADDING) + PADDING);
        let has_routers = router_column.is_some();
        let now = Instant::now();
        Printer {
            out,
            is_detailed,
            has_routers,
            wait: if has_routers { ROUTERS_WAIT } else { WAIT },
            rows: Vec::new(),
            printed: 0,
            // The first rows of one daemon do not wait.
            printed_at: if has_routers { now } else { now - WAIT },
            widths: router_column.into_iter().chain(R::COLUMNS.iter().map(|_| 0)).collect(),
            border: String::new(),
            row: PhantomData,
        }
    }

    /// Prints the rows of a page, now or with the next ones.
    pub(super) fn page(&mut self, rows: Vec<OfRouter<R>>) -> Result<(), Failure> {
        if self.out.json || self.is_detailed {
            for row in rows {
                self.one(&row)?;
            }
            self.out.to.flush()?;
            return Ok(());
        }
        self.rows.extend(rows);
        let is_due = self.rows.len() >= PART || self.printed_at.elapsed() >= self.wait;
        if is_due && !self.rows.is_empty() { self.part() } else { Ok(()) }
    }

    /// Prints one row as JSON or in detail.
    fn one(&mut self, row: &OfRouter<R>) -> Result<(), Failure> {
        let to = &mut self.out.to;
        if self.out.json {
            to.write_all(if self.printed == 0 { b"[" } else { b"," })?;
            serde_json::to_writer(to, row).map_err(std::io::Error::from)?;
        } else {
            if self.printed > 0 {
                writeln!(to)?;
            }
            if let Some(router) = &row.router {
                to.write_all(name_and_value(ROUTER, router.as_str()).as_bytes())?;
            }
            to.write_all(detail(&row.row).as_bytes())?;
        }
        self.printed += 1;
        Ok(())
    }

    /// Prints a part of a table. Columns are as wide as in the parts before, or wider.
    fn part(&mut self) -> Result<(), Failure> {
        let router_header = self.has_routers.then_some(ROUTER);
        let headers: Vec<&str> =
            router_header.into_iter().chain(R::COLUMNS.iter().map(|(header, _)| *header)).collect();
        let mut table = new_table(&headers);
        for OfRouter { router, row } in self.rows.drain(..) {
            let name = router.as_ref().map_or("", RouterName::as_str);
            let router_cell = self.has_routers.then(|| Cell::new(name));
            table.add_row(
                router_cell.into_iter().chain(R::COLUMNS.iter().map(|(_, cell)| cell(&row))),
            );
        }
        for (column, width) in table.column_iter_mut().zip(&self.widths) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
        let text = table.to_string();
        let widths = table.column_max_content_widths().into_iter().map(|width| width + PADDING);
        for (known, width) in self.widths.iter_mut().zip(widths) {
            *known = (*known).max(width);
        }
        let mut lines: Vec<&str> = text.lines().collect();
        self.border = lines.pop().unwrap_or_default().to_owned();
        let skipped = if self.printed == 0 { 0 } else { HEADER_LINES };
        for line in lines.into_iter().skip(skipped) {
            writeln!(self.out.to, "{line}")?;
        }
        self.out.to.flush()?;
        self.printed += 1;
        self.printed_at = Instant::now();
        Ok(())
    }

    /// Prints the end of the listing.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if !self.rows.is_empty() {
            self.part()?;
        }
        let to = &mut self.out.to;
        match (self.out.json, self.printed) {
            (true, 0) => writeln!(to, "[]")?,
            (true, _) => writeln!(to, "]")?,
            (false, 0) => writeln!(to, "{}", R::NOTHING)?,
            (false, _) if self.is_detailed => {}
            (false, _) => writeln!(to, "{}", self.border)?,
        }
        to.flush()?;
        Ok(())
    }

    /// Whether something is printed already.
    pub(super) fn has_begun(&self) -> bool {
        self.printed > 0
    }
}
