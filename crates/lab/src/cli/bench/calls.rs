//! What runs under valgrind for the report's part on architecture: the benchmark of many calls.

use std::process::ExitCode;

use anyhow::Result;

use crate::bench::calls::{self, Plan, Scenario};
use crate::bench::router::Protocol;

/// Be counted by valgrind, or timed: many calls through one router without I/O, once or several times
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CountedCalls {
    #[arg(long, value_enum)]
    protocol: Protocol,
    #[arg(long, value_enum)]
    scenario: Scenario,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    messages: u32,
    #[arg(long)]
    seed: u64,
}

impl CountedCalls {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let CountedCalls { protocol, scenario, messages, seed } = *self;
        let played = calls::play(&Plan { protocol, scenario, messages, seed })?;
        println!("{}", serde_json::to_string(&played)?);
        Ok(ExitCode::SUCCESS)
    }
}
