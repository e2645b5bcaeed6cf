//! Memory of a large network: 1 000 routers and as many hosts, and 100 000 flows that all have reservations.
//!
//! Each scenario runs in a process of its own; its maximum resident set is measured, including all slack and
//! everything that a run keeps. Without flows, less the memory of a network of two nodes, it is the cost of nodes;
//! the difference between half of the flows and all of them is the cost of flows. The cost of routes grows with their
//! number, nodes times address ranges, and counts for the nodes.
//!
//! `EARMARK_BENCH_ROUTERS` and `EARMARK_BENCH_FLOWS` set other numbers.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use earmark_scenario::{load_text, play};

/// Protocol and data plane of each row.
const ROWS: [(&str, &str); 3] = [("yessir", "none"), ("rsvp", "none"), ("yessir", "fluid")];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "one", protocol, data, routers, flows] => one(protocol, data, routers, flows),
        _ => all(),
    }
}

/// Plays one scenario, and prints the maximum resident set in octets, the events and the seconds.
fn one(protocol: &str, data: &str, routers: &str, flows: &str) {
    let text = format!(
        r#"
        name = "large"
        topology = {{ waxman = {{ routers = {routers} }}, bandwidth = "10Gbit" }}
        protocol = "{protocol}"
        data = "{data}"
        duration = "40s"

        [[flows]]
        name = "flows"
        between = "random"
        count = {flows}
        spread = "20s"
        rate = "100kbit"
        reserves = "0s"
        "#
    );
    let (scenario, topology) = load_text(&text, Path::new("."), &[]).expect("it makes sense");
    let begun = Instant::now();
    let outcome = play(&scenario, &topology, 1).expect("it fits");
    let took = begun.elapsed().as_secs_f64();
    println!("{} {} {took} {}", peak(), outcome.events, outcome.completed);
}

/// Returns the maximum resident set of this process so far, octets (proc(5)).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib =
        line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.parse().ok());
    1_024 * kib.unwrap_or(0_u64)
}

fn all() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
    };
    let routers = number("EARMARK_BENCH_ROUTERS", 1_000);
    let flows = number("EARMARK_BENCH_FLOWS", 100_000);
    println!("{routers} routers, {routers} hosts, {flows} flows; MB are 10^6 octets");
    for (protocol, data) in ROWS {
        let [small, empty, half, full] =
            [(2, 0), (routers, 0), (routers, flows / 2), (routers, flows)]
                .map(|(routers, flows)| in_a_process(protocol, data, routers, flows));
        let nodes = (empty.peak - small.peak) / (2.0 * routers as f64);
        let flow = (full.peak - half.peak) / (flows - flows / 2) as f64;
        println!(
            "{protocol}, data {data}: {:.0} MB, of which {:.0} without flows: {nodes:.0} octets a node, {flow:.0} a flow; \
             {:.0} reservations of {flows} complete, {:.2} million events in {:.1} s",
            full.peak / 1e6,
            empty.peak / 1e6,
            full.completed,
            full.events / 1e6,
            full.seconds,
        );
    }
}

/// Output of one process.
struct ProcessOutput {
    peak: f64,
    events: f64,
    seconds: f64,
    completed: f64,
}

fn in_a_process(protocol: &str, data: &str, routers: u64, flows: u64) -> ProcessOutput {
    let program = std::env::current_exe().expect("this program");
    let (routers, flows) = (routers.to_string(), flows.to_string());
    let output = Command::new(program).args(["one", protocol, data, &routers, &flows]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output_text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> =
        output_text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [peak, events, seconds, completed] = numbers[..] else { panic!("{output_text}") };
    ProcessOutput { peak, events, seconds, completed }
}
