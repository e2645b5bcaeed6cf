//! `earmark watch`: prints events as they happen.

use std::time::Instant;

use super::arguments::WatchOptions;
use super::{Failure, Outcome, Output};
use earmark_control::Client;
use earmark_control::Event;

pub(super) fn watch(
    client: &mut Client,
    options: &WatchOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let deadline = options.span.map(|span| Instant::now() + span);
    let node = client.start_watching()?;
    if !out.json {
        eprintln!("watching {node}; Ctrl-C ends it");
    }
    let mut left = options.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(event) = client.next_event(deadline)? else {
            break;
        };
        print(&event, out)?;
        left -= 1;
    }
    Ok(Outcome::Done)
}

/// Prints one event on one line.
pub(super) fn print(event: &Event, out: &mut Output) -> Result<(), Failure> {
    let text = format!("{:>12.3} s  {}", event.at_s, event.text);
    out.line(&text, event)
}
