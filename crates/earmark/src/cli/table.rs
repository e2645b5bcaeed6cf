//! Tables for people.

use std::fmt::Display;

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Creates a table with this header.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    table
}

/// Returns a cell that is aligned like a number.
pub(crate) fn number(value: impl Display) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}
