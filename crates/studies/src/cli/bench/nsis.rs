//! Command `earmark-studies bench scale --protocol nsis`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::{Part, Protocol, Scale, or, show};
use crate::bench::nsis::ping::{self, Pings};
use crate::bench::nsis::resident::{self, Residents};
use crate::bench::nsis::set_up::{self, SetUps};
use crate::bench::nsis::{Chain, Service, Set, Transport, table};
use crate::bench::published::{self, Published};
use crate::cli::measurement::Measurement;

/// Largest number of hops of a chain: each is a namespace and a daemon.
const MAX_HOPS: u64 = 16;

/// Options of NSIS.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "NSIS only")]
pub(super) struct NsisScale {
    /// Transport of messages; one measurement for each. [default: all for set-ups, else datagram]
    #[arg(long, value_enum, value_name = "TRANSPORT,...", value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Hops from h1 to h2; one measurement for each number. [default: 2,4 for set-ups, else 4]
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=MAX_HOPS))]
    hops: Vec<u64>,
    /// Validity of GIST's routing state without a refresh.
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = crate::cli::parse_duration)]
    validity: Duration,
    /// Number of further sessions in a summary refresh of QoS NSLP; resident sessions are measured with each number.
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    summary: Vec<u32>,
    /// Set-ups with new associations in every hop, some seconds apart, so that associations end.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    new_associations: u32,
    /// Duration of each rate of pings.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = crate::cli::parse_duration)]
    ping_window: Duration,
}

/// All results, for `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    protocol: &'static str,
    set_up: Vec<SetUps>,
    resident: Vec<Residents>,
    ping: Vec<Pings>,
    published: Vec<Published>,
}

impl Scale {
    pub(super) fn run_nsis(&self, measurement: Measurement) -> Result<ExitCode> {
        let supervision = &measurement.supervision();
        let is_natfw = self.service() == Service::Natfw;
        let protocol = if is_natfw { "natfw" } else { "nsis" };
        let mut report = Report { protocol, ..Report::default() };
        // The published figures are those of other applications.
        let (set_ups, residents): (&[_], &[_]) = match is_natfw {
            true => (&[], &[]),
            false => (&published::GIST_SET_UP, &published::GIST_RESIDENT),
        };
        if self.asks_for(Part::SetUp) {
            for plan in self.nsis_set_ups() {
                report.set_up.push(set_up::measure(&plan, supervision)?);
            }
            report.published.extend(set_ups.iter().copied());
            show(&measurement, || table::set_ups(&report.set_up), set_ups);
        }
        if self.asks_for(Part::Resident) {
            for plan in self.nsis_residents() {
                report.resident.push(resident::measure(&plan, supervision)?);
            }
            report.published.extend(residents.iter().copied());
            show(&measurement, || table::residents(&report.resident), residents);
        }
        if self.asks_for(Part::Ping) && !is_natfw {
            for (hops, transport) in self.chains() {
                supervision.watcher.begin("the network starts", 1);
                let chain = Chain::up(&self.nsis_set(hops, transport))?;
                let window = self.nsis.ping_window;
                let pings = ping::measure_on(&chain, hops, window, supervision)?;
                show(&measurement, || table::pings(&pings), &[]);
                report.ping.push(pings);
            }
        }
        let lost: u32 = report.resident.iter().map(|resident| resident.sessions_lost).sum();
        let broken = || format!("{lost} sessions were lost");
        measurement.finish(&report, (lost > 0).then(broken))
    }

    fn service(&self) -> Service {
        match self.protocol {
            Protocol::Natfw => Service::Natfw,
            Protocol::Nsis | Protocol::Rsvp => Service::Qos,
        }
    }

    fn asks_for(&self, part: Part) -> bool {
        self.part.is_none_or(|asked| asked == part)
    }

    fn nsis_set_ups(&self) -> Vec<set_up::Plan> {
        let (all, service) = (&self.transports(&Transport::ALL)[..], self.service());
        let transports = or(&self.nsis.transport, all);
        let mut plans = Vec::new();
        for &hops in or(&self.nsis.hops, &[2, 4]) {
            let mut new = self.nsis.new_associations;
            for &count in or(&self.set_ups, &[2_000]) {
                plans.extend(set_up::plans(hops as usize, transports, count, new));
                // The number of set-ups without connections does not depend on that of the others.
                new = 0;
            }
        }
        plans.into_iter().map(|plan| set_up::Plan { service, ..plan }).collect()
    }

    /// Returns those of the default transports that the application has: NATFW NSLP needs connections.
    fn transports(&self, all: &[Transport]) -> Vec<Transport> {
        match self.service() {
            Service::Qos => all.to_vec(),
            Service::Natfw => vec![Transport::Tcp],
        }
    }

    fn nsis_residents(&self) -> Vec<resident::Plan> {
        let mut plans = Vec::new();
        for (hops, transport) in self.chains() {
            for &sessions in or(&self.sessions, &[45_000, 60_000]) {
                plans.extend(self.nsis.summary.iter().map(|&summary| resident::Plan {
                    sessions,
                    name: if summary == 0 { "each refreshed" } else { "in summaries" },
                    set: Set { summary, ..self.nsis_set(hops, transport) },
                    warm_up: self.warm_up.unwrap_or(self.nsis.validity),
                    window: self.window,
                }));
            }
        }
        plans
    }

    /// Returns hops and transports of the chains for everything but set-ups.
    fn chains(&self) -> Vec<(usize, Transport)> {
        let mut chains = Vec::new();
        for &hops in or(&self.nsis.hops, &[4]) {
            let all = self.transports(&[Transport::Datagram]);
            let transports = or(&self.nsis.transport, &all);
            chains.extend(transports.iter().map(|&transport| (hops as usize, transport)));
        }
        chains
    }

    fn nsis_set(&self, hops: usize, transport: Transport) -> Set {
        Set {
            service: self.service(),
            refresh: self.refresh,
            validity: self.nsis.validity,
            interface: self.interface(),
            ..Set::new(hops, transport)
        }
    }
}
