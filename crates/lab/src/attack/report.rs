//! Results of the attacks.

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use earmark_scenario::attack::Power;
use serde::Serialize;

use super::variant::Variant;
use crate::demo::NetworkKind;

/// Result of one attack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The variant.
    pub variant: &'static Variant,
    /// Protocol of the reservation and of the attack.
    pub protocol: &'static str,
    /// The attack.
    pub attack: String,
    /// What the attacker was able to do.
    pub power: Power,
    /// Packets that the attacker sent.
    pub packets: u64,
    /// Reasons that the routers have counted meanwhile, with their numbers, the largest first.
    pub counted: Vec<(String, u64)>,
    /// Whether the reservation was listed by the routers after the attack, unchanged.
    pub reserved: bool,
    /// Share of the stream's packets that were lost, 0 to 1.
    pub loss: f64,
    /// Time that a new reservation took during the attack, milliseconds; `None` if it was not set up.
    pub setup_ms: Option<f64>,
}

impl Row {
    /// Returns whether the attack had no effect.
    pub fn held(&self) -> bool {
        self.reserved && self.loss == 0.0 && self.setup_ms.is_some()
    }
}

/// Results of all attacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The kind of network.
    pub network: NetworkKind,
    /// One row for each attack.
    pub rows: Vec<Row>,
}

impl Report {
    /// Joins reports of several networks of one kind.
    ///
    /// # Errors
    /// There are none.
    pub fn of(reports: Vec<Report>) -> Result<Report> {
        let mut reports = reports.into_iter();
        let mut all = reports.next().context("nothing was played")?;
        all.rows.extend(reports.flat_map(|report| report.rows));
        Ok(all)
    }

    /// Returns the attacks that had an effect.
    pub fn broken(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.held())
    }

    /// Returns the results by attacks: what the routers have counted in which variants, and the worst of all variants.
    pub fn table(&self) -> Table {
        let mut table = table_of([
            "protocol",
            "attack",
            "power",
            "counted at r1 and r2",
            "reservation",
            "loss",
            "set-up ms",
        ]);
        for rows in self.rows_by(|row| (row.protocol, &row.attack, row.power.describe())) {
            let first = rows[0];
            let counted = by_reasons(&rows).into_iter().map(|(reasons, variants)| {
                let reasons = if reasons.is_empty() { "nothing" } else { &reasons };
                format!("{reasons} ({})", variants.join(", "))
            });
            let is_unchanged = rows.iter().all(|row| row.reserved);
            table.add_row([
                Cell::new(first.protocol),
                Cell::new(&first.attack),
                Cell::new(first.power.describe()),
                Cell::new(counted.collect::<Vec<_>>().join("\n")),
                Cell::new(if is_unchanged { "unchanged" } else { "CHANGED" }),
                right(format!("{:.2} %", worst_loss(&rows) * 100.0)),
                right(slowest_set_up(&rows)),
            ]);
        }
        table
    }

    /// Returns the results by variants.
    pub fn summary(&self) -> Table {
        let columns = ["variant", "", "attacks", "packets", "with an effect", "loss", "set-up ms"];
        let mut table = table_of(columns);
        for rows in self.rows_by(|row| row.variant.name) {
            let packets: u64 = rows.iter().map(|row| row.packets).sum();
            let effects = rows.iter().filter(|row| !row.held()).count();
            table.add_row([
                Cell::new(rows[0].variant.name),
                Cell::new(rows[0].variant.about),
                right(rows.len().to_string()),
                right(packets.to_string()),
                right(effects.to_string()),
                right(format!("{:.2} %", worst_loss(&rows) * 100.0)),
                right(slowest_set_up(&rows)),
            ]);
        }
        table
    }

    /// Returns the rows in groups of the same key, in the order of their first rows.
    fn rows_by<'a, K: PartialEq>(&'a self, key: impl Fn(&'a Row) -> K) -> Vec<Vec<&'a Row>> {
        let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
        for row in &self.rows {
            let key = key(row);
            match groups.iter_mut().find(|(of, _)| *of == key) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        groups.into_iter().map(|(_, rows)| rows).collect()
    }
}

/// Reasons of an attack that the table shows, those with the largest numbers.
const SHOWN: usize = 2;

/// Returns the reasons of rows, with the variants in which they were counted; effects are part of them.
fn by_reasons(rows: &[&Row]) -> Vec<(String, Vec<&'static str>)> {
    let mut groups: Vec<(String, Vec<&'static str>)> = Vec::new();
    for row in rows {
        let mut reasons: Vec<&str> =
            row.counted.iter().take(SHOWN).map(|(name, _)| name.as_str()).collect();
        reasons.sort_unstable();
        let mut reasons = reasons.join(", ");
        if !row.held() {
            reasons.push_str(" HAD AN EFFECT");
        }
        match groups.iter_mut().find(|(of, _)| *of == reasons) {
            Some((_, variants)) => variants.push(row.variant.name),
            None => groups.push((reasons, vec![row.variant.name])),
        }
    }
    groups
}

fn table_of<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(columns);
    table
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn worst_loss(rows: &[&Row]) -> f64 {
    rows.iter().map(|row| row.loss).fold(0.0, f64::max)
}

fn slowest_set_up(rows: &[&Row]) -> String {
    let all: Option<Vec<f64>> = rows.iter().map(|row| row.setup_ms).collect();
    all.map_or("REFUSED".to_owned(), |all| format!("{:.1}", all.into_iter().fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use super::super::variant::VARIANTS;
    use super::*;

    #[test]
    fn any_effect_breaks_the_promise() {
        let held = Row {
            variant: &VARIANTS[0],
            protocol: "example",
            attack: "ResvTear".to_owned(),
            power: Power::AnyAddress,
            packets: 10,
            counted: vec![("example dropped other_interface".to_owned(), 10)],
            reserved: true,
            loss: 0.0,
            setup_ms: Some(1.5),
        };
        assert!(held.held());
        let lost = Row { loss: 0.001, ..held.clone() };
        let changed = Row { reserved: false, ..held.clone() };
        let refused = Row { setup_ms: None, ..held.clone() };
        let report = Report {
            network: NetworkKind::Simulated,
            rows: vec![held, lost.clone(), changed.clone(), refused.clone()],
        };
        let broken: Vec<_> = report.broken().cloned().collect();
        assert_eq!(broken, [lost, changed, refused]);
        assert!(report.table().to_string().contains("REFUSED"));
        assert!(report.summary().to_string().contains("REFUSED"));
    }

    /// Variants with the same reasons share a line.
    #[test]
    fn reasons_are_listed_with_their_variants() {
        let row = |variant: usize, reasons: &[&str]| Row {
            variant: &VARIANTS[variant],
            protocol: "example",
            attack: "ResvTear".to_owned(),
            power: Power::AnyAddress,
            packets: 10,
            counted: reasons
                .iter()
                .zip(1..)
                .map(|(name, count)| ((*name).to_owned(), count))
                .collect(),
            reserved: true,
            loss: 0.0,
            setup_ms: Some(1.5),
        };
        let rows = vec![row(0, &["a", "b"]), row(1, &[]), row(2, &["b", "a", "c"])];
        let report = Report { network: NetworkKind::Simulated, rows };
        let table = report.table().to_string();
        let expected = format!("a, b ({}, {})", VARIANTS[0].name, VARIANTS[2].name);
        assert!(table.contains(&expected), "{table}");
        assert!(table.contains(&format!("nothing ({})", VARIANTS[1].name)), "{table}");
        assert_eq!(report.rows_by(|row| row.protocol).len(), 1);
    }
}
