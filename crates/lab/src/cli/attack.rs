//! Command `attack`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::demo::Bar;
use crate::attack::{self, AttackedNamespaces, AttackedSimulator, Report};
use crate::demo::protocol::DemoProtocol;
use crate::demo::{Plan, Progress};
use crate::protocols::PROTOCOLS;
use crate::testbed;

/// Kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Daemons in network namespaces; needs root.
    Testbed,
    /// The engines in the simulator.
    Simulated,
}

/// Attack reservations, and show whether anything changes: their streams, their state, and new reservations
///
/// A host on a customer's port of the router before the bottleneck has seen all signalling. It replays, changes, truncates
/// and forges messages of each protocol, with its own address and with others', beside a stream and a flood. Takes some
/// minutes in network namespaces. Exit status 3: an attack had an effect.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  earmark-lab attack --network simulated
  earmark-lab attack --network testbed
  earmark-lab attack --network simulated --protocol yessir --json")]
pub(super) struct Attack {
    /// The network; by default namespaces if they are available.
    #[arg(long, value_enum)]
    network: Option<Kind>,
    /// Attack this protocol only.
    #[arg(long, value_parser = PossibleValuesParser::new(PROTOCOLS.map(DemoProtocol::name)))]
    protocol: Option<String>,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
    /// Seed of the random changes, and of the simulator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Attack {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut bar = Bar::new();
        let report = self.perform(&mut bar);
        bar.0.finish_and_clear();
        let report = report?;
        match self.json {
            true => println!("{}", serde_json::to_string(&report)?),
            false => println!("network: {}\n{}", report.network.describe(), report.table()),
        }
        let broken = report.broken().count();
        if broken == 0 {
            eprintln!("all {} attacks had no effect", report.rows.len());
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("{broken} of {} attacks had an effect", report.rows.len());
        Ok(ExitCode::from(super::BROKEN_PROMISE))
    }

    fn perform(&self, bar: &mut Bar) -> Result<Report> {
        let mut protocols = PROTOCOLS.to_vec();
        if let Some(name) = &self.protocol {
            protocols.retain(|protocol| protocol.name() == name);
        }
        let plan = Plan { refresh: Duration::from_secs(1), ..Plan::default() };
        let obstacle = match self.network {
            Some(Kind::Testbed) => None,
            Some(Kind::Simulated) => Some("asked for".to_owned()),
            None => testbed::obstacle(),
        };
        if let Some(obstacle) = obstacle {
            bar.note(&format!("simulated ({obstacle})"));
            let mut network = AttackedSimulator::new(plan.clone(), self.seed)?;
            return attack::run(&mut network, &protocols, &plan, self.seed, bar);
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        bar.begin("five nodes start", 1);
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut network = AttackedNamespaces::new(program, plan.clone(), interrupted)?;
        attack::run(&mut network, &protocols, &plan, self.seed, bar)
    }
}
