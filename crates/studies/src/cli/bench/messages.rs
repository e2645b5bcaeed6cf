//! Command `earmark-studies bench messages`, and its part that runs under valgrind.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::bench::messages::instructions::{self, WITHOUT_VALGRIND};
use crate::bench::messages::offload::{self, OffloadCost};
use crate::bench::messages::{self, MessageCost, Plan, SessionCost};
use crate::bench::nsis::profile;
use crate::bench::router::Protocol;
use crate::bench::{Supervision, table};
use crate::cli::measurement::Measurement;

const EXAMPLES: &str = "\
One router without I/O (all four engines, ledger, routes) receives messages as neighbours send them:

  instructions   of one message, counted by valgrind: this program runs itself under its tool callgrind. Median of five.
                 Parsing, look-ups, ledger and the messages that the router sends on are in it; system calls are not.
  ns             of one message, wall time, by batches of up to 20 000 about sessions far from each other. Median, least
                 and most of the repetitions; other load on the machine affects them.
  octets         of a session on the heap, slack of growing tables included; the ledger's claims are shown apart.
  in the kernel  refreshes, set-ups and releases of Boomerang that never reach the daemon, by the kernel's own test runner;
                 needs root and BPF.

A session has one sender and one receiver and 64 kbit/s; with Boomerang both ways, and each message passes twice, out and
back. NSIS sends datagrams, and its cookies are copied into the answers of neighbours, which counts in ns. Goals are listed beside the figures.

Examples:
  earmark-studies bench messages                                     all of it: some minutes, and 700 MB at most
  earmark-studies bench messages --protocol boomerang --sessions 1000     seconds
  earmark-studies bench messages --json | jq '.messages[] | {message, sessions, instructions}'

Exit status: 0 measured, also if a goal is missed; 1 it could not run.";

/// What each kind of message costs a router: instructions, nanoseconds, octets a session
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Messages {
    /// Protocol of the messages.
    #[arg(long, value_enum, default_value = "all")]
    protocol: ProtocolArgument,
    /// Number of resident sessions; one measurement for each.
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_value = "1000,100000,1000000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    sessions: Vec<u32>,
    /// Number of repetitions of the time measurement.
    #[arg(long, value_name = "COUNT", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repetitions: u32,
    /// Largest number of sessions with which instructions are counted; valgrind sets them up some fifty times slower. 0: none.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    count_up_to: u32,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolArgument {
    Rsvp,
    Boomerang,
    Yessir,
    Nsis,
    Natfw,
    All,
}

impl ProtocolArgument {
    fn protocols(self) -> Vec<Protocol> {
        match self {
            ProtocolArgument::Rsvp => vec![Protocol::Rsvp],
            ProtocolArgument::Boomerang => vec![Protocol::Boomerang],
            ProtocolArgument::Yessir => vec![Protocol::Yessir],
            ProtocolArgument::Nsis => vec![Protocol::Nsis],
            ProtocolArgument::Natfw => vec![Protocol::Natfw],
            ProtocolArgument::All => Protocol::ALL.to_vec(),
        }
    }
}

/// All results, for `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    messages: Vec<MessageCost>,
    sessions: Vec<SessionCost>,
    offload: Vec<OffloadCost>,
    /// Measurements that are missing, with the reason.
    notes: Vec<String>,
}

impl Messages {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let measurement = Measurement::begin(self.json)?;
        let supervision = measurement.supervision();
        let mut report = Report::default();
        for protocol in self.protocol.protocols() {
            for &sessions in &self.sessions {
                self.measure(protocol, sessions, &supervision, &mut report)?;
            }
        }
        if self.protocol.protocols().contains(&Protocol::Boomerang) {
            self.measure_kernel(&supervision, &mut report)?;
        }
        measurement.show(|| report.text());
        measurement.finish(&report, None)
    }

    fn measure(
        &self,
        protocol: Protocol,
        sessions: u32,
        supervision: &Supervision<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let plan = Plan { protocol, sessions, repetitions: self.repetitions };
        let mut costs = messages::measure(&plan, supervision)?;
        if sessions <= self.count_up_to {
            match instructions::count(protocol, sessions, supervision)? {
                Some(counts) => {
                    for (cost, count) in costs.messages.iter_mut().zip(counts) {
                        cost.instructions = Some(count);
                    }
                }
                None => report.note(WITHOUT_VALGRIND),
            }
        } else {
            let most = self.count_up_to;
            report
                .note(&format!("instructions were counted up to {most} sessions (--count-up-to)"));
        }
        report.messages.extend(costs.messages);
        report.sessions.extend(costs.session);
        Ok(())
    }

    /// Measures the kernel's part of Boomerang; if it is unavailable, a note gives the reason.
    fn measure_kernel(&self, supervision: &Supervision<'_>, report: &mut Report) -> Result<()> {
        supervision.watcher.begin("Boomerang in the kernel", self.sessions.len() as u64);
        for (done, &sessions) in self.sessions.iter().enumerate() {
            supervision.check_interrupted()?;
            match offload::measure(sessions) {
                Ok(cost) => report.offload.push(cost),
                Err(error) => {
                    report.note(&format!(
                        "the kernel's part of Boomerang was not measured, it needs root and BPF: {error:#}"
                    ));
                    break;
                }
            }
            supervision.watcher.reached(done as u64 + 1);
        }
        // Numbers of sessions above the kernel's capacity are measured once.
        report.offload.dedup_by_key(|cost| cost.sessions);
        Ok(())
    }
}

impl Report {
    /// Adds a note once.
    fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    fn text(&self) -> String {
        let mut parts = vec![table::messages(&self.messages)];
        parts.extend((!self.sessions.is_empty()).then(|| table::sessions(&self.sessions)));
        parts.extend((!self.offload.is_empty()).then(|| table::offload(&self.offload)));
        parts.extend(self.notes.iter().map(|note| format!("note: {note}")));
        parts.join("\n\n")
    }
}

/// Deliver messages, to be counted by valgrind
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CountedMessages {
    #[arg(long, value_enum)]
    protocol: Protocol,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    sessions: u32,
}

impl CountedMessages {
    pub(in crate::cli) fn run(&self) -> ExitCode {
        instructions::deliver_counted(self.protocol, self.sessions);
        ExitCode::SUCCESS
    }
}

/// Run a GIST router, to be counted by valgrind
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CountedTurns {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sessions: u32,
}

impl CountedTurns {
    pub(in crate::cli) fn run(&self) -> ExitCode {
        profile::take_counted_turns(self.sessions);
        ExitCode::SUCCESS
    }
}
