//! Command `earmark-lab demo`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_core::Rate;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::capture::{self, Capture};
use crate::demo::firewalls::{self, FirewallsInSimulator, FirewallsOnNamespaces};
use crate::demo::{self, OnNamespaces, OnSimulator, Plan, Progress, ROUTER, Report};
use crate::report;
use crate::testbed::{self, Options, Testbed};
use earmark_scenario::topology::{DEMO, Topology};

const EXAMPLES: &str = "\
The network is h1 - r1 - r2 - h2 with 10 Mbit/s between the routers. A stream of 2 Mbit/s and a flood of 20 Mbit/s go
from h1 to h2: first without, then with a reservation, and without again. While the reservation is installed, a second
one that exceeds the capacity is refused. Then a host behind firewalls and a translator receives a stream with its
bandwidth, as long as it asks for it.

Examples:
  earmark-lab demo
  earmark-lab demo --json | jq '.stages[].loss'
  earmark-lab demo --kill                   the daemon of r1 is killed while the stream runs
  earmark-lab demo --pcap r1.pcap           and `earmark decode r1.pcap` reads the signalling at r1
  earmark-lab demo --simulated --seed 7     no privileges needed, takes a moment

Exit status: 0 all promises held, 1 the demo could not run, 3 a promise did not hold.";

/// Show what a reservation does: a stream beside a flood, without and with one
///
/// Takes about a minute and a half in network namespaces (as root), a moment in the simulator (as any user).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Write a page with the rate over time to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write only the chart to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the signalling that passes r1 to this file, as pcap: for `earmark decode`, tshark or tcpdump.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Kill the daemon of r1 while the reservation is installed, and start another: it must learn the reservation
    /// within one refresh interval, without any effect on the stream.
    #[arg(long)]
    kill: bool,
    /// Use the simulator even if namespaces are available.
    #[arg(long)]
    simulated: bool,
    /// Seed of the simulator's random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of each stage.
    #[arg(long, value_name = "TIME", default_value = "7s", value_parser = super::parse_duration)]
    stage: Duration,
}

impl Demo {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let plan = Plan { stage: self.stage, kill: self.kill, ..Plan::default() };
        let mut bar = Bar::new();
        let report = self.perform(&plan, &mut bar);
        bar.0.finish_and_clear();
        let report = report?;
        self.write(&report)?;
        if self.json {
            println!("{}", serde_json::to_string(&report)?);
        } else {
            println!("network: {}\n{}", report.network.describe(), report::stages(&report));
        }
        let broken = report.broken_promises();
        for promise in &broken {
            eprintln!("broken promise: {promise}");
        }
        if broken.is_empty() {
            eprintln!("all promises held");
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::from(super::BROKEN_PROMISE))
    }

    fn perform(&self, plan: &Plan, bar: &mut Bar) -> Result<Report> {
        let mut topology = Topology::parse(DEMO)?;
        let obstacle =
            if self.simulated { Some("asked for".to_owned()) } else { testbed::obstacle() };
        if let Some(obstacle) = obstacle {
            bar.note(&format!("simulated ({obstacle})"));
            return self.simulate(topology, plan, bar);
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        topology.name = format!("earmark-demo-{}", std::process::id());
        bar.begin("four nodes start", 1);
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let options = Options { bound: true, ..Options::new(program.clone(), plan.refresh) };
        let testbed = Testbed::up(topology, options)?;
        let router = testbed.topology().node(ROUTER).context("the router is missing")?;
        let capturing = |file| Capture::start(testbed.namespace(router), file);
        let capture = self.pcap.as_deref().map(capturing).transpose()?;
        let mut network = OnNamespaces::new(testbed, plan.clone(), Arc::clone(&interrupted))?;
        let report = demo::run(&mut network, plan, bar)?;
        if let (Some(file), Some(capture)) = (&self.pcap, capture) {
            bar.note(&format!("wrote {}: {} frames", file.display(), capture.stop()?));
        }
        drop(network);
        bar.begin("five nodes with firewalls start", 1);
        let mut network = FirewallsOnNamespaces::new(program, plan, interrupted)?;
        Ok(Report { firewalls: firewalls::run(&mut network, plan, bar)?, ..report })
    }

    fn simulate(&self, topology: Topology, plan: &Plan, bar: &mut Bar) -> Result<Report> {
        let mut network = OnSimulator::new(topology, plan.clone(), self.seed);
        network.tap(ROUTER)?;
        let report = demo::run(&mut network, plan, bar)?;
        if let Some(file) = &self.pcap {
            let packets = capture::write_tapped(file, &network.take_captured(ROUTER)?)?;
            bar.note(&format!("wrote {}: {packets} packets", file.display()));
        }
        let mut network = FirewallsInSimulator::new(plan, self.seed)?;
        Ok(Report { firewalls: firewalls::run(&mut network, plan, bar)?, ..report })
    }

    fn write(&self, report: &Report) -> Result<()> {
        let drawing = || report::svg(&report.timeline, "Rate received at h2");
        let files = [
            (&self.html, self.html.is_some().then(|| report::page(report))),
            (&self.svg, self.svg.is_some().then(drawing)),
        ];
        for (path, text) in files {
            if let (Some(path), Some(text)) = (path, text) {
                fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                eprintln!("wrote {}", path.display());
            }
        }
        Ok(())
    }
}

/// Progress on standard error: a bar on a terminal, lines elsewhere.
pub(super) struct Bar(pub(super) ProgressBar);

impl Bar {
    pub(super) fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {msg}");
        Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }
}

impl Progress for Bar {
    fn begin(&mut self, what: &str, steps: u64) {
        self.0.reset();
        self.0.set_length(steps.max(1));
        self.0.set_prefix(what.to_owned());
        self.0.set_message(what.to_owned());
    }

    fn step(&mut self, stream_bps: u64) {
        self.0.inc(1);
        let rate = Rate::from_bps(stream_bps / 10_000 * 10_000);
        self.0.set_message(format!("{}: the stream gets {rate}", self.0.prefix()));
    }

    fn note(&mut self, what: &str) {
        if self.0.is_hidden() {
            eprintln!("{what}");
        } else {
            self.0.println(what);
        }
    }
}
