//! Drawing of the view.

use earmark_control::text::with_port;
use earmark_control::{LinkRow, ReservationRow};
use earmark_core::Rate;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::view::{Line, View};
use crate::cli::listings::{enforced, expires_text, senders};

/// Cells of the bar of a link.
const BAR: usize = 20;
/// Lines of reservations that remain, however many links there are.
const LEAST: u16 = 5;
/// Keys, in short.
const KEYS: &str = "q end  s sort  r reverse  / filter  arrows move";

/// Draws all that is shown.
pub(super) fn draw(view: &View, frame: &mut Frame<'_>) {
    let area = frame.area();
    let links = u16::try_from(view.links.len()).unwrap_or(u16::MAX).saturating_add(1);
    let links = links.min(area.height.saturating_sub(LEAST + 3).max(1));
    let [head, links, reservations, event, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(links),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head_text(view)).style(bold()), head);
    draw_links(view, frame, links);
    draw_reservations(view, frame, reservations);
    frame.render_widget(Paragraph::new(view.event.as_str()), event);
    frame.render_widget(Paragraph::new(foot_text(view)), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn head_text(view: &View) -> String {
    if let Some(failure) = &view.failure {
        return format!("{}; help: {}; trying again", failure.message, failure.hint);
    }
    let node = if view.node.is_empty() { "connecting" } else { &view.node };
    let progress = view.progress.map(|count| format!(", {count} of the next sample"));
    format!("{node}: {} reservations{}", view.included, progress.unwrap_or_default())
}

fn foot_text(view: &View) -> Text<'_> {
    match (&view.typed, &view.mistake) {
        (Some(typed), None) => Text::from(format!("/{typed}_   Enter applies, Esc leaves")),
        (Some(typed), Some(mistake)) => Text::from(format!("/{typed}_   {mistake}")),
        (None, _) if view.filters.is_empty() => {
            Text::from(format!("{KEYS}   sorted by {}", view.query.sort))
        }
        (None, _) => {
            Text::from(format!("{KEYS}   sorted by {}, {}", view.query.sort, view.filters))
        }
    }
}

/// A column: its name, its width, the least width of a screen that has it, and its text of a row.
type Column<R> = (&'static str, Constraint, u16, fn(&Line<R>) -> String);

const LINKS: [Column<LinkRow>; 6] = [
    ("link", Constraint::Fill(1), 0, |line| line.row.interface.clone()),
    ("state", Constraint::Length(9), 60, |line| line.row.state.name().to_owned()),
    ("reserved", Constraint::Length(11), 0, |line| line.row.held_bps.to_string()),
    ("", Constraint::Length(BAR as u16), 70, |line| {
        bar(line.row.held_bps, line.row.reservable_bps)
    }),
    ("of", Constraint::Length(11), 0, |line| line.row.reservable_bps.to_string()),
    ("used", Constraint::Length(11), 50, |line| used(line.used_bps)),
];

const RESERVATIONS: [Column<ReservationRow>; 8] = [
    ("by", Constraint::Length(9), 60, |line| line.row.protocol.to_string()),
    ("destination", Constraint::Fill(3), 0, |line| {
        with_port(line.row.destination, line.row.destination_port)
    }),
    ("source", Constraint::Fill(3), 90, |line| senders(&line.row.senders).replace('\n', " ")),
    ("link", Constraint::Fill(1), 70, |line| {
        line.row.interface.clone().unwrap_or_else(|| "this host".to_owned())
    }),
    ("rate", Constraint::Length(11), 0, |line| Rate::from_bps(line.row.rate_bps).to_string()),
    ("used", Constraint::Length(11), 50, |line| used(line.used_bps)),
    ("expires", Constraint::Length(12), 100, |line| expires_text(line.row.expires_in_s)),
    ("enforced", Constraint::Fill(1), 80, |line| enforced(line.row.enforcement.as_ref())),
];

fn draw_links(view: &View, frame: &mut Frame<'_>, area: Rect) {
    draw_table(&LINKS, view.links.iter(), frame, area);
}

fn draw_reservations(view: &View, frame: &mut Frame<'_>, area: Rect) {
    draw_table(&RESERVATIONS, view.reservations.iter().skip(view.first), frame, area);
}

/// Draws a table with the columns that the screen is wide enough for, and as many rows as it has lines.
fn draw_table<'r, R: 'r>(
    columns: &[Column<R>],
    lines: impl Iterator<Item = &'r Line<R>>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let columns = || columns.iter().filter(|(_, _, least, _)| *least <= area.width);
    let header = Row::new(columns().map(|(name, ..)| *name)).style(bold());
    let row = |line| Row::new(columns().map(|(.., text)| Cell::new(text(line))));
    let rows = lines.take(area.height.into()).map(row);
    let widths = columns().map(|(_, width, ..)| *width);
    frame.render_widget(Table::new(rows, widths).header(header), area);
}

/// Returns a bar of the part that is reserved.
fn bar(held: Rate, reservable: Rate) -> String {
    let share = held.as_bps() as f64 / reservable.as_bps().max(1) as f64;
    let full = ((share * BAR as f64).round() as usize).min(BAR);
    format!("{}{}", "#".repeat(full), ".".repeat(BAR - full))
}

fn used(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string())
}
