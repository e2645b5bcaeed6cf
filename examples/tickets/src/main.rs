//! `tickets`: plays a scenario file with Tickets among the protocols, explores faults, and runs the daemon.

use std::path::Path;
use std::process::ExitCode;

use earmark_scenario::explore::explore_with;
use earmark_scenario::{Protocols, Scenario, load, play};
use earmark_tickets::daemon::TicketsInDaemon;
use earmark_tickets::scenario::TicketsInScenarios;
use earmarkd::config::Config;
use earmarkd::log::Log;

const USAGE: &str = "\
usage: tickets simulate SCENARIO [SEED]   plays a scenario file and prints its outcome as one line of JSON
       tickets explore SEEDS              explores random networks, flows and faults
       tickets --config FILE              runs the daemon, with the options of earmarkd
       tickets node --config FILE         runs the daemon of a node in a test network of the lab";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["simulate", file] => simulate(file, "1"),
        ["simulate", file, seed] => simulate(file, seed),
        ["explore", seeds] => explore(seeds),
        ["node", "--config", file] => node(file),
        ["--config", ..] => return earmarkd::cli::main_with(&[&TicketsInDaemon]),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn protocols() -> Result<Protocols, String> {
    Protocols::default().with(&TicketsInScenarios).map_err(|error| error.to_string())
}

fn simulate(file: &str, seed: &str) -> Result<(), String> {
    let seed = seed.parse().map_err(|_| format!("`{seed}` is no seed"))?;
    let (scenario, topology) = load(Path::new(file), &[]).map_err(|error| error.to_string())?;
    let scenario = Scenario { protocols: protocols()?, ..scenario };
    let outcome = play(&scenario, &topology, seed).map_err(|error| error.to_string())?;
    println!("{}", serde_json::to_string(&outcome).map_err(|error| error.to_string())?);
    Ok(())
}

fn node(file: &str) -> Result<(), String> {
    earmarkd::protocols::add(&[&TicketsInDaemon]).map_err(|error| error.to_string())?;
    let config = Config::load(Path::new(file)).map_err(|error| error.to_string())?;
    earmarkd::daemon::run(&config, &Log::default()).map_err(|error| error.to_string())
}

fn explore(seeds: &str) -> Result<(), String> {
    let seeds: u64 = seeds.parse().map_err(|_| format!("`{seeds}` is no number of seeds"))?;
    let protocols = protocols()?;
    let (mut flows, mut packets) = (0, 0);
    for seed in 0..seeds {
        let explored = explore_with(seed, &protocols);
        (flows, packets) = (flows + explored.flows, packets + explored.reserved_packets);
        if let Some(breach) = explored.breaches.first() {
            return Err(format!(
                "seed {seed}: {} at {}: {}",
                breach.invariant.name(),
                breach.node,
                breach.what
            ));
        }
    }
    println!(
        "{seeds} seeds, {flows} flows: all invariants hold; {packets} reserved packets arrived"
    );
    Ok(())
}
