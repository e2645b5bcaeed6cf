//! Commands `earmark-lab up`, `down` and `status`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use earmark_linux::netns::Namespace;
use serde::Serialize;

use crate::testbed::{self, NodeStatus, Options, State, Testbed};
use earmark_scenario::topology::Topology;

const UP_EXAMPLES: &str = "\
A topology names nodes and links; the smallest one:

  [[node]]
  name = \"h1\"
  [[node]]
  name = \"h2\"
  [[link]]
  ends = [\"h1\", \"h2\"]
  bandwidth = \"10Mbit\"

Examples:
  earmark-lab up topologies/demo.toml
  earmark-lab up topologies/demo.toml --name second --refresh 5s";

/// Build a network from namespaces and start a daemon in each node (needs root)
///
/// Node h1 of the network `earmark` becomes the namespace `earmark-h1`.
#[derive(Debug, clap::Args)]
#[command(after_help = UP_EXAMPLES)]
pub(super) struct Up {
    /// Topology file.
    topology: PathBuf,
    /// Name of the network, instead of the one in the file.
    #[arg(long)]
    name: Option<String>,
    /// Refresh period R of all nodes.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = super::parse_duration)]
    refresh: Duration,
}

/// Take a network down: daemons, namespaces, everything; also after a crash
#[derive(Debug, clap::Args)]
pub(super) struct Down {
    /// Topology file.
    #[arg(conflicts_with = "name")]
    topology: Option<PathBuf>,
    /// Name of the network [default: earmark].
    #[arg(long)]
    name: Option<String>,
}

/// List the networks that are up, with their nodes
#[derive(Debug, clap::Args)]
pub(super) struct Status {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A running network, for `status --json`.
#[derive(Serialize)]
struct NetworkRow {
    network: String,
    nodes: Vec<NodeStatus>,
}

impl Up {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut topology = read(&self.topology)?;
        if let Some(name) = &self.name {
            topology.rename(name)?;
        }
        if let Some(obstacle) = testbed::obstacle() {
            bail!(
                "{obstacle}; `earmark-lab up` needs root, `earmark-lab demo --simulated` does not"
            );
        }
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let options = Options::new(program, self.refresh);
        if topology.links.iter().any(|link| !link.delay.is_zero()) {
            eprintln!("note: namespaces do not delay packets; `delay` is only told to the daemons");
        }
        let name = topology.name.clone();
        Testbed::up(topology, options)?.stay();
        let nodes = State::open(&name)?.status()?;
        println!("the network `{name}` is up:\n{}", table(&name, &nodes));
        if let Some(node) = nodes.first() {
            let NodeStatus { namespace, control, .. } = node;
            println!(
                "try:  earmark --control {} show links\n      ip netns exec {namespace} ip route\n\
                 end:  earmark-lab down --name {name}",
                control.display()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Down {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let name = match (&self.topology, &self.name) {
            (Some(path), _) => read(path)?.name,
            (None, Some(name)) => name.clone(),
            (None, None) => "earmark".to_owned(),
        };
        let nodes = testbed::down(&name)?;
        println!("the network `{name}` is down ({})", nodes.join(", "));
        Ok(ExitCode::SUCCESS)
    }
}

impl Status {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut networks = Vec::new();
        for network in testbed::names()? {
            let nodes = State::open(&network)?.status()?;
            networks.push(NetworkRow { network, nodes });
        }
        if self.json {
            println!("{}", serde_json::to_string(&networks)?);
        } else if networks.is_empty() {
            println!("no network is up; `earmark-lab up TOPOLOGY` starts one");
        } else {
            for NetworkRow { network, nodes } in &networks {
                println!("{}", table(network, nodes));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read(path: &Path) -> Result<Topology> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the topology {}", path.display()))?;
    Topology::parse(&text).with_context(|| path.display().to_string())
}

fn table(network: &str, nodes: &[NodeStatus]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["network", "node", "namespace", "daemon", "control socket"]);
    for NodeStatus { node, namespace, pid, control } in nodes {
        let daemon = match pid {
            Some(pid) => format!("process {pid}"),
            None => "dead".to_owned(),
        };
        let there = Namespace::open(namespace).is_ok();
        let namespace = if there { namespace.clone() } else { format!("{namespace} (gone)") };
        let control = control.display().to_string();
        table.add_row([network.to_owned(), node.clone(), namespace, daemon, control]);
    }
    table
}
