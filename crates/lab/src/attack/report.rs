//! Results of the attacks.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use earmark_scenario::attack::Power;
use serde::Serialize;

use crate::demo::NetworkKind;

/// Result of one attack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Protocol of the reservation and of the attack.
    pub protocol: &'static str,
    /// The attack.
    pub attack: String,
    /// What the attacker was able to do.
    pub power: Power,
    /// Packets that the attacker sent.
    pub packets: u64,
    /// Reasons that the router before the bottleneck has counted meanwhile, with their numbers, the largest first.
    pub counted: Vec<(String, u64)>,
    /// Whether the reservation was listed by the router after the attack, unchanged.
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
    /// Returns the attacks that had an effect.
    pub fn broken(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.held())
    }

    /// Returns the results as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header([
            "protocol",
            "attack",
            "power",
            "packets",
            "counted at r1",
            "reservation",
            "loss",
            "set-up ms",
        ]);
        for row in &self.rows {
            let counted = row.counted.iter().take(2).map(|(name, count)| format!("{name} {count}"));
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            table.add_row([
                Cell::new(row.protocol),
                Cell::new(&row.attack),
                Cell::new(row.power.describe()),
                right(row.packets.to_string()),
                Cell::new(counted.collect::<Vec<_>>().join(", ")),
                Cell::new(if row.reserved { "unchanged" } else { "CHANGED" }),
                right(format!("{:.2} %", row.loss * 100.0)),
                right(row.setup_ms.map_or("REFUSED".to_owned(), |ms| format!("{ms:.1}"))),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_effect_breaks_the_promise() {
        let held = Row {
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
    }
}
