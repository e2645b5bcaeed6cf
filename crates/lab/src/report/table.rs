//! Table of the demo's stages for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use super::{mbps, millis, percent};
use crate::demo::firewalls::FirewallStage;
use crate::demo::{Denial, Part, Report, Span, StageResult};

/// Returns all stages, and below them the results of the second reservation and of the daemon's restart.
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
        let texts = cells(stage, span).map(Cell::new).into_iter().enumerate();
        let row = texts.map(|(column, cell)| match column {
            0 | 1 => cell,
            _ => cell.set_alignment(CellAlignment::Right),
        });
        table.add_row(row);
    }
    let mut text = format!("{table}\n");
    for line in footnotes(report) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns the cells of a stage, in the order of the columns.
pub(super) fn cells(stage: &StageResult, span: &Span) -> [String; 9] {
    let reserved = if stage.reserved_bps == 0 { "-".to_owned() } else { mbps(stage.reserved_bps) };
    [
        span.name.to_owned(),
        stage.protocol.name().to_owned(),
        reserved,
        mbps(stage.offered_bps),
        mbps(stage.received_bps),
        percent(stage.loss),
        millis(stage.delay_p50_ms),
        millis(stage.delay_p99_ms),
        millis(stage.setup_ms),
    ]
}

/// Returns the sentences below the table.
pub(super) fn footnotes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(refusal) = &report.refusal {
        notes.push(format!(
            "Second reservation: {refusal}; the first stream kept {} Mbit/s.",
            mbps(refusal.stream_bps_after)
        ));
    }
    if !report.parts.is_empty() {
        let part = |part: &Part| {
            let (name, had) = (part.protocol.name(), mbps(part.received_bps));
            format!("{name} {had} of {} Mbit/s", mbps(part.reserved_bps))
        };
        let parts: Vec<String> = report.parts.iter().map(part).collect();
        notes.push(format!("Shared: {} arrived.", parts.join(", ")));
        let denial = |denial: &Denial| {
            let left = denial.available_bps;
            let left = left.map_or(String::new(), |left| format!(" ({} available)", mbps(left)));
            format!("{}{left}", denial.protocol.name())
        };
        let denials: Vec<String> = report.denials.iter().map(denial).collect();
        let much = report.denials.first().map_or(0, |denial| denial.requested_bps);
        notes.push(format!("{} Mbit/s more were refused to {}.", mbps(much), denials.join(", ")));
    }
    if let Some(kill) = &report.kill {
        notes.push(format!(
            "Daemon of {} killed: the stream kept {} Mbit/s with {} loss; {:.0} ms later a new daemon served, and \
             {:.0} ms after that the reservation was restored (one refresh interval: at most {:.0} ms).",
            kill.node,
            mbps(kill.stream_bps),
            percent(kill.loss),
            kill.down_ms,
            kill.reformed_ms,
            kill.longest_refresh_ms
        ));
    }
    if !report.firewalls.is_empty() {
        let stage = |stage: &FirewallStage| {
            let (name, received) = (stage.path.name(), mbps(stage.received_bps));
            format!("{name}: {received} of {} Mbit/s", mbps(stage.offered_bps))
        };
        let stages: Vec<String> = report.firewalls.iter().map(stage).collect();
        notes.push(format!("Behind firewalls and a translator, {}.", stages.join(", ")));
    }
    notes
}
