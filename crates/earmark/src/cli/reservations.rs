//! `earmark release`, and what commands that open an application have in common.

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::{ApplicationId, Client, Opened};

use super::outcome::Outcome;

/// End what `send`, `listen`, `reserve`, `open` or `expose` began.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmark release 7
  earmark release --all          # everything that was opened on this host")]
#[group(required = true, multiple = false)]
pub(crate) struct ReleaseOptions {
    /// Application to release; `earmark show applications` lists them.
    #[arg(value_name = "ID")]
    pub(crate) application: Option<u64>,
    /// Release all applications, whoever opened them.
    #[arg(long)]
    pub(crate) all: bool,
}

pub(super) fn release(
    client: &mut Client,
    which: &ReleaseOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let released = match which.application {
        Some(application) => client.release(ApplicationId(application))?,
        None => client.release_all()?,
    };
    let text = match released.applications.as_slice() {
        [] => "nothing was open".to_owned(),
        [one] => format!("released {one}"),
        many => format!("released {} applications", many.len()),
    };
    out.line(&text, &released)?;
    Ok(Outcome::Done)
}

/// Reports what was opened, and follows it if it is held.
pub(crate) fn begun(
    text: &str,
    opened: &Opened,
    hold: bool,
    client: &mut Client,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let end = if hold {
        "it ends with this command".to_owned()
    } else {
        format!("`earmark release {}` ends it", opened.application)
    };
    out.line(&format!("{text}; {end}"), opened)?;
    if hold { follow(client, out) } else { Ok(Outcome::Done) }
}

/// Prints the events of our application until a signal arrives or the daemon stops.
pub(super) fn follow(client: &mut Client, out: &mut Output) -> Result<Outcome, Failure> {
    while let Some(event) = client.next_event(None)? {
        super::watch::print(&event, out)?;
    }
    Ok(Outcome::Done)
}
