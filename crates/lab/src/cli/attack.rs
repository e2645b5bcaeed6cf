//! Command `attack`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::demo::Bar;
use crate::attack::{self, AttackedNamespaces, AttackedSimulator, Report, VARIANTS, Variant};
use crate::demo::protocol::{DemoProtocol, Protocol};
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
/// An attacker on a customer's port has seen all signalling. It replays, changes, truncates and forges messages of each
/// protocol, with its own address and with others', beside a stream and a flood. Variants play the catalogue again: over
/// IPv6, from other places, against a group, inside UDP, after a restart and during reloads of the router's daemon. Takes
/// some minutes in network namespaces. Exit status 3: an attack had an effect.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  earmark-lab attack --network simulated
  earmark-lab attack --network testbed
  earmark-lab attack --network testbed --variant ipv6 --variant udp
  earmark-lab attack --network simulated --protocol yessir --json")]
pub(super) struct Attack {
    /// The network; by default namespaces if they are available.
    #[arg(long, value_enum)]
    network: Option<Kind>,
    /// Attack this protocol only.
    #[arg(long, value_parser = PossibleValuesParser::new(PROTOCOLS.map(DemoProtocol::name)))]
    protocol: Option<String>,
    /// Play this variant only; repeat it for several. The simulator has neither `udp` nor `reload`; namespaces play
    /// `ipv6-receiver-router`, `ipv6-restart`, `group-receiver-router` and `udp` only if they are named.
    #[arg(long, value_parser = variant_names())]
    variant: Vec<String>,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
    /// Seed of the random changes, and of the simulator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn variant_names() -> PossibleValuesParser {
    PossibleValuesParser::new(
        VARIANTS.iter().map(|variant| PossibleValue::new(variant.name).help(variant.about)),
    )
}

impl Attack {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut bar = Bar::new();
        let began = Instant::now();
        let report = self.perform(&mut bar);
        bar.0.finish_and_clear();
        let report = report?;
        match self.json {
            true => println!("{}", serde_json::to_string(&report)?),
            false => println!(
                "network: {}\n{}\n{}",
                report.network.describe(),
                report.table(),
                report.summary()
            ),
        }
        let (broken, all) = (report.broken().count(), report.rows.len());
        let seconds = began.elapsed().as_secs();
        if broken == 0 {
            eprintln!("all {all} attacks had no effect ({seconds} s)");
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("{broken} of {all} attacks had an effect ({seconds} s)");
        Ok(ExitCode::from(super::BROKEN_PROMISE))
    }

    fn perform(&self, bar: &mut Bar) -> Result<Report> {
        let mut protocols = PROTOCOLS.to_vec();
        if let Some(name) = &self.protocol {
            protocols.retain(|protocol| protocol.name() == name);
        }
        let obstacle = match self.network {
            Some(Kind::Testbed) => None,
            Some(Kind::Simulated) => Some("asked for".to_owned()),
            None => testbed::obstacle(),
        };
        let variants = self.variants(&protocols, obstacle.is_some())?;
        let plan = Plan { refresh: Duration::from_secs(1), ..Plan::default() };
        let mut reports = Vec::new();
        if let Some(obstacle) = obstacle {
            bar.note(&format!("simulated ({obstacle})"));
            for variants in variants.chunk_by(|a, b| a.setup() == b.setup()) {
                let setup = variants[0].setup();
                let mut network = AttackedSimulator::new(setup, plan.clone(), self.seed)?;
                let network = &mut network;
                reports.push(attack::run(network, variants, &protocols, &plan, self.seed, bar)?);
            }
            return Report::of(reports);
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        for variants in variants.chunk_by(|a, b| a.setup() == b.setup()) {
            bar.begin("six nodes start", 1);
            let (setup, interrupted) = (variants[0].setup(), Arc::clone(&interrupted));
            let mut network =
                AttackedNamespaces::new(program.clone(), setup, plan.clone(), interrupted)?;
            let network = &mut network;
            reports.push(attack::run(network, variants, &protocols, &plan, self.seed, bar)?);
        }
        Report::of(reports)
    }

    /// Returns the variants to play.
    fn variants(
        &self,
        protocols: &[Protocol],
        is_simulated: bool,
    ) -> Result<Vec<&'static Variant>> {
        let wanted = VARIANTS.iter().filter(|variant| {
            let is_named = |name: &String| name == variant.name;
            let is_default = self.variant.is_empty() && (is_simulated || !variant.is_combination());
            is_default || self.variant.iter().any(is_named)
        });
        let variants: Vec<_> = wanted
            .filter(|variant| !is_simulated || variant.can_be_simulated())
            .filter(|variant| protocols.iter().any(|protocol| variant.applies_to(*protocol)))
            .collect();
        if variants.is_empty() {
            bail!("{} does not exist for this protocol and network", self.variant.join(", "));
        }
        Ok(variants)
    }
}
