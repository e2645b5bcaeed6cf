//! Command `earmark-studies bench forwarding`.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::bench::forwarding::promise::{self, Promise};
use crate::bench::forwarding::{
    End, FRAME, Forwarding, KINDS, MAX_FLOWS, PACKET, Plan, Reservations, USUAL, name, parts,
};
use crate::bench::{forwarding, table};
use crate::cli::measurement::Measurement;

const EXAMPLES: &str = "\
A router between a sender and a sink, in network namespaces (needs root; Linux 5.18 and BPF). Packets have 78 octets of IP, 92
with the Ethernet header. One processor has all the work, from the sender's interface to the sink's, and its time for a packet is
what counts; so other programs on the machine do little harm.

  forwarding   packets a second that a router forwards without a daemon, and with a number of reserved flows. Packets belong to
               reserved flows, drawn at random, or are best effort. All routers exist through the run and take turns, the one
               without a daemon between all others. Median over the rounds, with its interval.
  parts        breakdown of the time, by routers that lack one part each. `source` is in all figures: the time to write a packet and
               to receive it by the router's interface, as by the driver of a network card.
  promise      a flow within its rate beside a flood that fills the link: its losses, its delay in the router's queue, and its delay
               in the ring of the device, which no queue can shorten. `strict` is a router without a daemon that gives the flow
               strict priority: a delay there cannot be avoided.

Examples:
  earmark-studies bench forwarding
  earmark-studies bench forwarding --part forwarding --queues aggregate:1000,aggregate:1000000 --rounds 15
  earmark-studies bench forwarding --part forwarding --sink host     beside a slower router: between hosts of one machine
  earmark-studies bench forwarding --json | jq '.forwarding[] | {queues, flows, traffic, kept}'
  earmark-studies bench forwarding --quick          some seconds: a smoke test

Exit status: 0 measured, also if a goal is missed; 1 it could not run; 3 a flow within its rate lost packets, or waited a
millisecond longer than with strict priority.";

/// Largest number of packets of a turn, which take about a minute.
const MAX_PACKETS: i64 = 20_000_000;

/// Measure what a router forwards with and without traffic control, and whether reserved flows are served
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ForwardingBench {
    /// Part to measure [default: all].
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Kinds of queues and reserved flows. [default: per-flow and aggregate, with 1, 1000 and 10000 each, and
    /// priority with 10000 and 1000000]
    #[arg(long, value_name = "KIND:FLOWS,...", value_delimiter = ',')]
    queues: Vec<QueuesArgument>,
    /// Receiver of packets behind the router; part promise always uses a slow device.
    #[arg(long, value_enum, default_value = "drop")]
    sink: End,
    /// Number of turns of each router. [default: 9]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Packets of a turn; a flood has five times as many, a flow without a flood a two-hundredth. [default: 200000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1_000..=MAX_PACKETS))]
    packets: Option<u32>,
    /// Fewer flows, rounds and packets by default: a smoke test.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Forwarding,
    Parts,
    Promise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueuesArgument(Reservations);

impl FromStr for QueuesArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<QueuesArgument, String> {
        let (kind, flows) = text.split_once(':').unwrap_or((text, ""));
        let queues = KINDS.into_iter().find(|&queues| name(queues) == kind);
        let flows = flows.parse().ok().filter(|flows| (1..=MAX_FLOWS).contains(flows));
        let (Some(queues), Some(flows)) = (queues, flows) else {
            let kinds = KINDS.map(name).join(", ");
            return Err(format!(
                "a kind of queues ({kinds}), a colon, and 1 to {MAX_FLOWS} flows: aggregate:1000"
            ));
        };
        Ok(QueuesArgument(Reservations { queues, flows }))
    }
}

/// All results, for `--json`.
#[derive(Debug, Serialize)]
struct Report {
    packet_octets: u16,
    frame_octets: u16,
    sink: End,
    rounds: u32,
    packets_of_a_turn: u32,
    forwarding: Vec<Forwarding>,
    parts: Vec<Forwarding>,
    promise: Vec<Promise>,
}

impl ForwardingBench {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let measurement = Measurement::in_namespaces(self.json, "a router")?;
        let supervision = measurement.supervision();
        let plan = self.plan();
        let mut report = Report {
            packet_octets: PACKET,
            frame_octets: FRAME,
            sink: self.sink,
            rounds: plan.rounds,
            packets_of_a_turn: plan.packets,
            forwarding: Vec::new(),
            parts: Vec::new(),
            promise: Vec::new(),
        };
        let has = |part| self.part.is_none_or(|only| only == part);
        if has(Part::Forwarding) {
            report.forwarding = forwarding::measure(&plan, &supervision)?;
            measurement.show(|| table::forwarding(&report.forwarding) + "\n");
        }
        if has(Part::Parts) {
            report.parts = parts::measure(&plan, &supervision)?;
            measurement.show(|| table::forwarding(&report.parts) + "\n");
        }
        if has(Part::Promise) {
            let (flood, alone) = (plan.packets.saturating_mul(5), plan.packets / 200);
            report.promise = promise::measure(flood, alone, &supervision)?;
            measurement.show(|| table::promises(&report.promise) + "\n");
        }
        let is_broken = report.promise.iter().any(|promise| promise.kept == Some(false));
        let broken = || "a flow within its rate lost packets, or waited too long".to_owned();
        measurement.finish(&report, is_broken.then(broken))
    }

    fn plan(&self) -> Plan {
        let usual = USUAL.into_iter().filter(|of| !self.quick || of.flows == 1_000);
        let reservations = match self.queues.is_empty() {
            true => usual.collect(),
            false => self.queues.iter().map(|&QueuesArgument(reservations)| reservations).collect(),
        };
        let (rounds, packets) = if self.quick { (3, 10_000) } else { (9, 200_000) };
        let rounds = self.rounds.unwrap_or(rounds);
        Plan { end: self.sink, reservations, rounds, packets: self.packets.unwrap_or(packets) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use earmark_linux::Queues;

    #[test]
    fn queues_are_read_with_their_flows() {
        let read = |text: &str| text.parse::<QueuesArgument>().map(|asked| asked.0);
        let reservations = Reservations { queues: Queues::Aggregate, flows: 1_000_000 };
        assert_eq!(read("aggregate:1000000"), Ok(reservations));
        for wrong in ["aggregate", "aggregate:0", "fair:7", "per-flow:2000000", ":3", "per-flow:-1"]
        {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("per-flow, aggregate"), "{wrong}: {error}");
        }
    }
}
