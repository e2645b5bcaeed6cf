//! Command `earmark-studies bench bytes`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use crate::bench::bytes::{self, Comparison, NOTES};
use crate::bench::table;

const EXAMPLES: &str = "\
Every message that Overhead and Performance Study of GIST lists in its Table I is written, octet by octet, with the paper's
choices (32 octets of cookie, the node's address as its identity, a flow by its destination port or its flow label, TCP as the
only protocol offered), and taken apart again; payload of applications is left out. Then what Figure 5 shows is added up: a
reservation is set up, and refreshed. Each difference comes with its reasons, which add up to it.

Examples:
  earmark-studies bench bytes
  earmark-studies bench bytes --json | jq '.messages[] | select(.what == \"Query\") | .parts'

Exit status: 0.";

/// Count the octets of GIST messages, beside the published figures
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Bytes {
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// All results, for `--json`.
#[derive(Debug, Serialize)]
struct Report {
    messages: Vec<Comparison>,
    procedures: Vec<Comparison>,
    notes: [&'static str; NOTES.len()],
}

impl Bytes {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let (messages, procedures, notes) = (bytes::messages(), bytes::scenarios(), NOTES);
        let report = Report { messages, procedures, notes };
        if self.json {
            println!("{}", serde_json::to_string(&report)?);
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}", table::bytes("message (Table I)", &report.messages));
        println!("\n{}", table::bytes("procedure (Figure 5)", &report.procedures));
        for note in report.notes {
            println!("\nnote: {note}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
