//! Cost of a network of 1 000 routers before a run: time to draw it, to compute all routes, and to build it in the
//! simulator, and its memory.
//!
//! `EARMARK_BENCH_ROUTERS` is the number of routers; each has one host.

use std::time::Instant;

use earmark_core::Rate;
use earmark_node::NodeConfig;
use earmark_scenario::network;
use earmark_scenario::topology::{Choice, Made, Waxman};

fn main() {
    let routers = std::env::var("EARMARK_BENCH_ROUTERS").ok().and_then(|text| text.parse().ok());
    let routers = routers.unwrap_or(1_000);
    let begun = Instant::now();
    let made = Made::by(Waxman::of(routers), Rate::from_mbps(10));
    let topology = Choice::Made(Box::new(made))
        .build(|_| Err(std::io::Error::other("no file is needed")))
        .expect("a topology");
    println!(
        "{} nodes, {} links: drawn in {:.2?}",
        topology.nodes.len(),
        topology.links.len(),
        begun.elapsed()
    );
    let begun = Instant::now();
    let paths = topology.paths();
    let counts: Vec<usize> = (0..routers).map(|router| paths.routes(router).len()).collect();
    let (sum, most) = (counts.iter().sum::<usize>(), counts.iter().max().copied().unwrap_or(0));
    println!(
        "routes: {} a router on average, {most} at most, to {} others; found in {:.2?}",
        sum / routers,
        routers - 1,
        begun.elapsed()
    );
    let (begun, before) = (Instant::now(), resident());
    let (network, nodes) = network(&topology, 1, &NodeConfig::default());
    let octets = resident().saturating_sub(before);
    println!(
        "simulated network: built in {:.2?}, {} MB, {} octets a node",
        begun.elapsed(),
        octets / 1_000_000,
        octets / nodes.len() as u64
    );
    drop(network);
}

/// Returns the resident memory of this process, octets; 0 if the kernel does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilo = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    1_024 * kilo.unwrap_or(0)
}
