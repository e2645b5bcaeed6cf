//! The table of stages for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use super::{mbps, millis, percent};
use crate::demo::Report;

/// All stages, and below them what became of the second reservation and of the daemon that was killed.
pub fn stages(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "stage",
        "protocol",
        "reserved\nMbit/s",
        "offered\nMbit/s",
        "received\nMbit/s",
        "loss",
        "delay p50\nms",
        "delay p99\nms",
        "set-up\nms",
    ]);
    for (stage, span) in report.stages.iter().zip(&report.timeline.spans) {
        let reserved =
            if stage.reserved_bps == 0 { "-".to_owned() } else { mbps(stage.reserved_bps) };
        let numbers = [
            reserved,
            mbps(stage.offered_bps),
            mbps(stage.received_bps),
            percent(stage.loss),
            millis(stage.delay_p50_ms),
            millis(stage.delay_p99_ms),
            millis(stage.setup_ms),
        ];
        let mut row = vec![Cell::new(span.name), Cell::new(stage.protocol.name())];
        row.extend(numbers.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    let mut text = format!("{table}\n");
    for line in footnotes(report) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Sentences that belong under the table.
pub(super) fn footnotes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(refusal) = &report.refusal {
        notes.push(format!(
            "second reservation: {refusal}; the first stream went on at {} Mbit/s",
            mbps(refusal.stream_bps_after)
        ));
    }
    if let Some(kill) = &report.kill {
        notes.push(format!(
            "kill -9 of the daemon on {}: the stream kept {} Mbit/s with {} loss; the state stood again {:.0} ms \
             after a new daemon started",
            kill.node,
            mbps(kill.stream_bps),
            percent(kill.loss),
            kill.reformed_ms
        ));
    }
    notes
}
