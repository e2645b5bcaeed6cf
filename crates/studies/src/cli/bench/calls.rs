//! Hidden command that runs under valgrind for the report's section on architecture: the benchmark of many calls.

use std::process::ExitCode;

use anyhow::Result;

use crate::bench::calls::{self, Plan, Scenario};
use crate::bench::router::Protocol;

/// Play many calls through one router without I/O, to be counted by valgrind or timed
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
    /// Number of runs; the result of the last one is printed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    passes: u32,
    /// Only write the messages.
    #[arg(long)]
    only_write: bool,
}

impl CountedCalls {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let CountedCalls { protocol, scenario, messages, seed, passes, only_write } = *self;
        let plan = Plan { protocol, scenario, messages, seed };
        let mut line = String::new();
        for _ in 0..passes {
            line = match only_write {
                true => calls::only_write(&plan)?.to_string(),
                false => serde_json::to_string(&calls::play(&plan)?)?,
            };
        }
        println!("{line}");
        Ok(ExitCode::SUCCESS)
    }
}
