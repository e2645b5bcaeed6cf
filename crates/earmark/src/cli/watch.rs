//! `earmark watch`: prints events as they happen.

use std::time::{Duration, Instant};

use clap::Args;

use super::outcome::Outcome;
use earmark_control::command::{Failure, Output};
use earmark_control::{Client, Event};
use earmark_core::amounts::parse_duration;

/// Print events as they happen, until Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmark watch
  earmark watch --count 10 --json
  earmark watch --for 10s")]
pub(crate) struct WatchOptions {
    /// End after this many events.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// End after this time: 500ms, 10s, 2min.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) span: Option<Duration>,
}

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
pub(crate) fn print(event: &Event, out: &mut Output) -> Result<(), Failure> {
    let text = format!("{:>12.3} s  {}", event.at_s, event.text);
    out.line(&text, event)
}
