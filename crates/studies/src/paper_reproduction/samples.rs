//! File `raw/PART.csv`: every value behind each estimate of a part, so that a reader can compute another statistic.

use super::section::{Cell, Estimate, Section, Table};

/// Returns a row for each value: what it belongs to (a key of `results.json`, or a cell of a table), its unit or column,
/// its place in time, and the value; `None` if no estimate of the section has values behind it.
///
/// # Errors
/// None in practice: the table is written into memory.
pub fn csv(section: &Section) -> Result<Option<String>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["of", "unit", "number", "value"])?;
    let mut count = 0;
    let mut write = |of: &str, unit: &str, estimate: &Estimate| {
        for (number, value) in estimate.samples.iter().enumerate() {
            count += 1;
            writer.write_record([of, unit, &(number + 1).to_string(), &value.to_string()])?;
        }
        Ok::<(), csv::Error>(())
    };
    for entry in section.entries.iter().chain(&section.measures) {
        for (place, estimate) in entry.values.iter().enumerate() {
            let of = match entry.values.len() {
                1 => entry.key.clone(),
                _ => format!("{}.{place}", entry.key),
            };
            write(&of, &entry.unit, estimate)?;
        }
    }
    for table in section.tables() {
        for row in &table.rows {
            let of = name(table, row);
            for (cell, column) in row.iter().zip(&table.columns) {
                if let Cell::Estimate(estimate) = cell {
                    write(&of, column, estimate)?;
                }
            }
        }
    }
    let octets = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok((count > 0).then(|| String::from_utf8_lossy(&octets).into_owned()))
}

/// Returns the name of a row: that of its table, and the cells before its first estimate.
fn name(table: &Table, row: &[Cell]) -> String {
    let cells = row.iter().map_while(|cell| match cell {
        Cell::Text(text) => Some(text.clone()),
        Cell::Number(number) => Some(number.to_string()),
        Cell::Nothing | Cell::Estimate(_) | Cell::Interval { .. } => None,
    });
    let cells: Vec<String> = cells.collect();
    format!("{}: {}", table.name, cells.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_row() {
        let mut section = Section::default();
        assert_eq!(csv(&section).unwrap(), None);
        let estimate = Estimate::of(&[3.0, 1.0]).unwrap();
        section.entries("a.b", "us", [estimate.clone(), estimate.times(2.0)], None);
        let mut table = Table::new("some", "Some", &["step", "sessions", "us", "published"]);
        table.row(["find".into(), 10.0.into(), estimate.into(), 7.0.into()]);
        section.table(table);
        let text = csv(&section).unwrap().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "of,unit,number,value",
            "a.b.0,us,1,3",
            "a.b.0,us,2,1",
            "a.b.1,us,1,6",
            "a.b.1,us,2,2",
            "\"some: find, 10\",us,1,3",
            "\"some: find, 10\",us,2,1",
        ];
        assert_eq!(lines, expected);
    }
}
