//! Command `earmark-lab topology show`: a network in numbers, and drawn.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use earmark_core::Rate;
use earmark_scenario::topology::{
    Choice, Made, Role, Spread, Summary, Topology as Network, Waxman,
};
use serde::Serialize;

use crate::report;

const EXAMPLES: &str = "\
Examples:
  earmark-lab topology show topologies/abilene.graphml
  earmark-lab topology show topologies/retry.toml --svg retry.svg
  earmark-lab topology show waxman --routers 200 --beta 0.1 --seed 7 --json

A file is a topology, .toml or .graphml; a scenario says `topology = ...` for the same.";

/// Networks for scenarios
#[derive(Debug, clap::Subcommand)]
pub(super) enum Topology {
    Show(Show),
}

/// Show the size of a network, the links of its routers, and the distances between them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Topology file, .toml or .graphml, or `waxman` for a random network.
    #[arg(value_name = "FILE|waxman")]
    network: PathBuf,
    /// Number of routers of a random network.
    #[arg(long, default_value_t = 100)]
    routers: usize,
    /// Probability of links, up to 1 [default: chosen so that routers have --degree links on average].
    #[arg(long)]
    alpha: Option<f64>,
    /// Probability of long links relative to short ones.
    #[arg(long)]
    beta: Option<f64>,
    /// Average number of links of a router.
    #[arg(long, conflicts_with = "alpha")]
    degree: Option<f64>,
    /// Seed of a random network.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of hosts of a random or published network [default: one for each router].
    #[arg(long)]
    hosts: Option<u32>,
    /// Bandwidth of links between routers [default: as in the file; 10Mbit in a random network].
    #[arg(long)]
    bandwidth: Option<Rate>,
    /// Print one JSON object, with all nodes and links.
    #[arg(long, conflicts_with = "svg")]
    json: bool,
    /// Draw the network into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Topology {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let Topology::Show(show) = self;
        let topology = show.build()?;
        let summary = Summary::of(&topology);
        if show.json {
            println!("{}", serde_json::to_string(&TopologyReport::of(&topology, &summary))?);
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}", describe(&summary));
        if let Some(file) = &show.svg {
            std::fs::write(file, report::map(&topology))
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Show {
    fn build(&self) -> Result<Network> {
        Ok(self.choice()?.build(|file| std::fs::read_to_string(file))?)
    }

    fn choice(&self) -> Result<Choice> {
        let Show { hosts, bandwidth, .. } = *self;
        if self.network == Path::new("waxman") {
            let standard = Waxman::of(self.routers);
            let waxman = Waxman {
                alpha: self.alpha,
                beta: self.beta.unwrap_or(standard.beta),
                degree: self.degree.unwrap_or(standard.degree),
                seed: self.seed,
                ..standard
            };
            let made = Made::by(waxman, bandwidth.unwrap_or(Rate::from_mbps(10)));
            return Ok(Choice::Made(Box::new(Made { hosts, ..made })));
        }
        let Some(file) = self.network.to_str() else { bail!("the name of the file is no text") };
        let file = file.to_owned();
        if hosts.is_none() && bandwidth.is_none() {
            return Ok(Choice::File(file));
        }
        let made = Made { file: Some(file), hosts, bandwidth, ..Made::default() };
        Ok(Choice::Made(Box::new(made)))
    }
}

/// Complete description, for `--json`.
#[derive(Serialize)]
struct TopologyReport<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    nodes: Vec<Node<'a>>,
    joined: Vec<Link<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    router: bool,
    address: String,
    range: Option<String>,
}

#[derive(Serialize)]
struct Link<'a> {
    ends: [&'a str; 2],
    bandwidth_bps: u64,
    reservable_bps: u64,
    delay_ms: f64,
}

impl<'a> TopologyReport<'a> {
    fn of(topology: &'a Network, summary: &'a Summary) -> TopologyReport<'a> {
        let addresses = topology.paths().addresses();
        let node =
            |(node, address): (&'a earmark_scenario::topology::Node, std::net::IpAddr)| Node {
                name: &node.name,
                router: node.role == Role::Router,
                address: address.to_string(),
                range: node.area.map(|area| area.to_string()),
            };
        let link = |link: &'a earmark_scenario::topology::Link| Link {
            ends: [0, 1].map(|side| topology.nodes[link.ends[side].node].name.as_str()),
            bandwidth_bps: link.bandwidth.as_bps(),
            reservable_bps: link.reservable.as_bps(),
            delay_ms: link.delay.as_secs_f64() * 1e3,
        };
        TopologyReport {
            summary,
            nodes: topology.nodes.iter().zip(addresses).map(node).collect(),
            joined: topology.links.iter().map(link).collect(),
        }
    }
}

fn describe(summary: &Summary) -> String {
    let Summary { name, routers, hosts, links, .. } = summary;
    let spread = |Spread { least, mean, most }: Spread| {
        format!("{mean:.2} on average, {least:.0} to {most:.0}")
    };
    let delays = summary.path_delay_ms;
    let mut text = format!(
        "{name}: {routers} routers, {links} links between them, {hosts} hosts\n\
         links of a router      {}\n\
         links of a path        {}\n\
         delay of a path, ms    {:.2} on average, {:.2} to {:.2}\n\
         routes of a router     {}",
        spread(summary.degree),
        spread(summary.path_links),
        delays.mean,
        delays.least,
        delays.most,
        spread(summary.routes)
    );
    let all: u64 = summary.pairs_by_links.iter().sum();
    for (place, pairs) in summary.pairs_by_links.iter().enumerate() {
        let share = *pairs as f64 / all as f64;
        let bar = "#".repeat((60.0 * share).round() as usize);
        text.push_str(&format!("\n{:>4} links {:>5.1} % {bar}", place + 1, 100.0 * share));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        topology: Topology,
    }

    fn shown(line: &str) -> Result<String> {
        let Topology::Show(show) = Program::try_parse_from(line.split_whitespace())?.topology;
        Ok(describe(&Summary::of(&show.build()?)))
    }

    #[test]
    fn networks_are_described() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/abilene.graphml");
        let text = shown(&format!("topology show {file} --hosts 20")).expect("a topology");
        assert!(
            text.starts_with("Abilene: 11 routers, 14 links between them, 20 hosts\n"),
            "{text}"
        );
        assert!(text.contains("\n   5 links "), "{text}");
        let text = shown("topology show waxman --routers 30 --degree 3").expect("a topology");
        assert!(text.starts_with("waxman-30-1: 30 routers, "), "{text}");
        let error = shown("topology show nowhere.toml").expect_err("there is no such file");
        assert!(error.to_string().contains("cannot read `nowhere.toml`"), "{error}");
    }
}
