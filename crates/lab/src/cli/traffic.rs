//! Commands `earmark-lab traffic`: sources and sinks for manual tests.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_core::Rate;
use earmark_sim::Figures;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::traffic::{Arrival, Shape, Sink, Source, now, trace_of};

/// Largest number of streams that a sink distinguishes; packets of further ones are not listed.
const MAX_STREAMS: usize = 64;

const EXAMPLES: &str = "\
Rates count IP packet octets: IP and UDP header and payload, no link framing. Times in packets are those of this
machine's monotonic clock, so delays are right between namespaces of one machine and meaningless between two machines.

Examples, in a network that `earmark-lab up` has built from topologies/demo.toml:
  ip netns exec earmark-h2 earmark-lab traffic sink --on 0.0.0.0:5001 --for 20s
  ip netns exec earmark-h1 earmark-lab traffic source --to 10.0.2.2:5001 --rate 2Mbit --for 10s";

/// Send or receive measured UDP traffic
#[derive(Debug, clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Traffic {
    /// Send UDP packets at a constant rate
    #[command(after_help = EXAMPLES)]
    Source(SourceArguments),
    /// Receive UDP packets, and report rate, loss and one-way delay
    #[command(after_help = EXAMPLES)]
    Sink(SinkArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct SourceArguments {
    /// Destination, `ADDRESS:PORT`.
    #[arg(long)]
    to: SocketAddr,
    /// Source, `ADDRESS:PORT` [default: an address of this host and any port].
    #[arg(long)]
    from: Option<SocketAddr>,
    /// Rate in IP packet octets.
    #[arg(long)]
    rate: Rate,
    /// Octets of each IP packet.
    #[arg(long, default_value_t = 1_000)]
    packet: u32,
    /// Burst after a delay of the source, octets.
    #[arg(long, default_value_t = 32_000)]
    burst: u32,
    /// Duration.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = super::parse_duration)]
    how_long: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct SinkArguments {
    /// Local address, `ADDRESS:PORT`.
    #[arg(long)]
    on: SocketAddr,
    /// Duration [default: until Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = super::parse_duration)]
    how_long: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Output row of a source or sink for one stream.
#[derive(Serialize)]
struct Row {
    stream: u32,
    packet_octets: u32,
    #[serde(flatten)]
    figures: Figures,
}

impl Traffic {
    pub(super) fn run(&self) -> Result<ExitCode> {
        match self {
            Traffic::Source(arguments) => arguments.run(),
            Traffic::Sink(arguments) => arguments.run(),
        }
    }
}

impl SourceArguments {
    fn run(&self) -> Result<ExitCode> {
        let any: IpAddr = if self.to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let from = self.from.unwrap_or(SocketAddr::new(any, 0));
        let socket = UdpSocket::bind(from).with_context(|| format!("cannot send from {from}"))?;
        socket.connect(self.to).with_context(|| format!("no route to {}", self.to))?;
        let shape =
            Shape { rate: self.rate, packet_octets: self.packet, bucket_octets: self.burst };
        let start = now();
        let sent = Source::start(socket, shape, self.how_long)?.join()?;
        let bits = sent.len() as f64 * f64::from(self.packet) * 8.0;
        let offered_bps = (bits / now().since(start).max(self.how_long).as_secs_f64()) as u64;
        if self.json {
            let packets = sent.len();
            println!("{}", serde_json::json!({ "packets": packets, "offered_bps": offered_bps }));
        } else {
            println!("sent {} packets, {}", sent.len(), Rate::from_bps(offered_bps));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl SinkArguments {
    fn run(&self) -> Result<ExitCode> {
        let socket = UdpSocket::bind(self.on)
            .with_context(|| format!("cannot receive on {}; is it taken?", self.on))?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let sink = Sink::start(socket)?;
        self.wait(&sink, &interrupted);
        let rows = rows(&sink.stop()?);
        if self.json {
            println!("{}", serde_json::to_string(&rows)?);
        } else if rows.is_empty() {
            println!(
                "nothing arrived; `earmark-lab traffic source --to ...` sends what this sink knows"
            );
        }
        for Row { stream, figures, .. } in rows.iter().filter(|_| !self.json) {
            let delay = |value: Option<f64>| value.map_or("-".into(), |ms| format!("{ms:.2} ms"));
            println!(
                "stream {stream:08x}: offered {}, received {}, loss {:.2} %, one-way delay p50 {}, p99 {}",
                Rate::from_bps(figures.offered_bps),
                Rate::from_bps(figures.received_bps),
                figures.loss * 100.0,
                delay(figures.delay_p50_ms),
                delay(figures.delay_p99_ms),
            );
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Shows the rate every second until the end.
    fn wait(&self, sink: &Sink, interrupted: &AtomicBool) {
        let end = self.how_long.map(|how_long| now() + how_long);
        let (mut shown, mut octets) = (now(), 0);
        while !interrupted.load(Ordering::Relaxed) && end.is_none_or(|end| now() < end) {
            std::thread::sleep(Duration::from_millis(20));
            let passed = now().since(shown);
            if passed >= Duration::from_secs(1) && !self.json {
                let received = sink.octets();
                let bps = (received - octets) as f64 * 8.0 / passed.as_secs_f64();
                println!("{}", Rate::from_bps(bps as u64));
                (shown, octets) = (now(), received);
            }
        }
    }
}

/// Returns the figures of each stream, from its first packet to its last.
fn rows(arrivals: &[Arrival]) -> Vec<Row> {
    let mut streams: BTreeMap<u32, Vec<Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        if streams.len() < MAX_STREAMS || streams.contains_key(&arrival.stream) {
            streams.entry(arrival.stream).or_default().push(*arrival);
        }
    }
    let row = |(stream, arrivals): (u32, Vec<Arrival>)| {
        let packet_octets = arrivals.iter().map(|arrival| arrival.packet_octets).max()?;
        let first = arrivals.iter().map(|arrival| arrival.sent).min()?;
        let last = arrivals.iter().map(|arrival| arrival.sent).max()?;
        let figures = trace_of(packet_octets, &arrivals).figures(first, last);
        Some(Row { stream, packet_octets, figures })
    };
    streams.into_iter().filter_map(row).collect()
}
