//! `earmark top`: the links and the largest reservations of a node, refreshed all the time.
//!
//! `options` has its options, `sampler` asks the daemon, `view` has what is shown and what keys do, `draw` draws it, and `screen` is the terminal.

mod draw;
pub(super) mod options;
mod sampler;
mod screen;
mod view;

use std::io::IsTerminal;
use std::path::Path;

use earmark_control::command::{Failure, Output};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use self::options::TopOptions;
use self::sampler::{Query, Sampler, Update};
use self::view::View;
use super::listings;
use super::outcome::Outcome;

/// Width of a frame that is printed.
const PRINTED_WIDTH: u16 = 120;
/// Lines of a frame that is printed, besides its links and reservations.
const PRINTED_LINES: u16 = 10;

pub(super) fn top(
    socket: &Path,
    options: &TopOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    listings::check_reservation_sort(&options.sort)?;
    let query = Query { sort: options.sort.clone(), filter: options.filter.clone().into() };
    let sampler = Sampler::start(socket, query.clone(), options.interval);
    let view = View::new(query);
    if options.once || out.json || !std::io::stdout().is_terminal() {
        return once(view, &sampler, out);
    }
    screen::run(view, &sampler)?;
    Ok(Outcome::Done)
}

/// Prints one frame after two samples, so that rates are known.
fn once(mut view: View, sampler: &Sampler, out: &mut Output) -> Result<Outcome, Failure> {
    let mut samples = 0;
    while samples < 2 {
        let update = sampler.next();
        samples += usize::from(matches!(update, Update::Reservations(_)));
        if let Update::Failed(failure) = update {
            return Err(failure);
        }
        view.update(update);
    }
    out.line(&printed(&view), &view)?;
    Ok(Outcome::Done)
}

/// Returns a frame with all links and reservations as text, without empty lines.
fn printed(view: &View) -> String {
    let lines = view.links.len() + view.reservations.len();
    let height = PRINTED_LINES.saturating_add(u16::try_from(lines).unwrap_or(u16::MAX));
    let Ok(mut terminal) = Terminal::new(TestBackend::new(PRINTED_WIDTH, height));
    let Ok(_) = terminal.draw(|frame| draw::draw(view, frame));
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(PRINTED_WIDTH));
    let text: Vec<String> = rows
        .map(|cells| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>())
        .map(|line| line.trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    text.join("\n")
}
