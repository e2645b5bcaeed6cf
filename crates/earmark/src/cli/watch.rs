//! `earmark watch`: prints events as they happen.

use std::time::Instant;

use super::arguments::WatchOptions;
use super::{Failure, Outcome, Output};
use crate::client::Client;
use crate::control::protocol::Notice;
use crate::describe;

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
        let Some(notice) = client.next_event(deadline)? else {
            break;
        };
        print(&notice, out)?;
        left -= 1;
    }
    Ok(Outcome::Done)
}

/// Prints one event on one line.
pub(super) fn print(notice: &Notice, out: &mut Output) -> Result<(), Failure> {
    let on = notice.interface_name.as_deref().unwrap_or("an interface without a name");
    let text = format!("{:>12.3} s  {}", notice.at_s, describe::event(&notice.event, on));
    out.line(&text, notice)
}
