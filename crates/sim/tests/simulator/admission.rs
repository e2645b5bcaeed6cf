//! Admission by measurement against admission by parameters, with real packets of on-off sources.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::{AdmissionMethod, MeasuredSum, MeasurementBased};
use earmark_core::{InterfaceId, Rate, Time};
use earmark_node::{Command, Listen, NodeConfig};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::{Keep, Network, NodeId, Source, StreamId, TrafficPattern};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};

use crate::common::{Bench, Family};

/// Flows that want a reservation.
const FLOWS: u16 = 30;
/// Token rate of each, at which it sends while it is on: 30 % of the time.
const RATE: Rate = Rate::from_mbps(1);

/// `FLOWS` senders at one host want reservations over a link of 10 Mbit/s behind a router.
struct Net {
    network: Network,
    router: NodeId,
    narrow: InterfaceId,
    streams: Vec<StreamId>,
}

impl Net {
    fn new(admission: AdmissionMethod) -> Net {
        let timing = rsvp::Timing {
            refresh: Duration::from_secs(2),
            lifetime_factor: 3,
            ..Default::default()
        };
        let rsvp = rsvp::Config { timing, ..rsvp::Config::default() };
        let config = NodeConfig { rsvp, admission, ..NodeConfig::default() };
        let mut bench = Bench::with(7, Family::V4, config);
        let router = bench.router("router");
        let (sender, wide) = bench.host("sender", router, Rate::from_mbps(100));
        let (receiver, narrow) = bench.host("receiver", router, Rate::from_mbps(10));
        bench.route();
        let [source, destination] = [wide, narrow].map(|link| bench.links[link].addresses[0]);
        let narrow = bench.links[narrow].ends[1].1;
        let mut net = Net { network: bench.network, router, narrow, streams: Vec::new() };
        for port in 1..=FLOWS {
            net.add_flow([sender, receiver], [source, destination], port);
        }
        net
    }

    /// Starts a sender, and reserves its token rate.
    fn add_flow(
        &mut self,
        [sender, receiver]: [NodeId; 2],
        [source, destination]: [IpAddr; 2],
        port: u16,
    ) {
        let (on, off) = (Duration::from_millis(300), Duration::from_millis(700));
        self.streams.push(self.network.add_source(Source {
            node: sender,
            port,
            destination,
            destination_port: port,
            dscp: 0,
            pattern: TrafficPattern::OnOff { rate: RATE, on, off },
            packet_octets: 500,
            from: self.network.now(),
            until: Time::MAX,
            keep: Keep::Packets,
        }));
        let session = Session { destination, protocol: 17, flags: 0, port };
        let application = Application(port.into());
        let tspec = TokenBucket {
            rate: RATE.as_octets_per_second(),
            depth: 5_000.0,
            peak: f32::INFINITY,
            min_policed_unit: 500,
            max_packet_size: 500,
        };
        let template = FilterSpec { source, selector: SourceSelector::Port(port) };
        let send = rsvp::Command::Sender { application, template, tspec, ttl: 64 };
        for (node, command) in [
            (receiver, Command::Listen(Listen::new(application, session))),
            (sender, Command::Rsvp(rsvp::Command::Session { application, session })),
            (sender, Command::Rsvp(send)),
        ] {
            self.network.command(node, command);
        }
    }

    /// Destination ports of the flows with a reservation on the narrow link.
    fn admitted(&self) -> BTreeSet<u16> {
        let reserved = self.network.traffic_control(self.router);
        let narrow = reserved.filter(|(interface, _)| *interface == self.narrow);
        let flows = narrow.flat_map(|(_, reserved)| reserved.flows);
        flows.map(|flow| flow.destination_port).collect()
    }

    /// Runs for two minutes. Returns how many flows were admitted by then, and the share of their packets that were lost
    /// after the first minute of those admitted by then.
    fn play(&mut self) -> (usize, f64) {
        let (begin, end) = (Time::from_secs(60), Time::from_secs(119));
        self.network.run_until(begin);
        let early = self.admitted();
        self.network.run_until(Time::from_secs(120));
        let figures = early.iter().map(|port| {
            let trace = self.network.trace(self.streams[usize::from(*port) - 1]);
            trace.figures(begin, end).loss
        });
        (self.admitted().len(), figures.sum::<f64>() / early.len() as f64)
    }

    fn measured_load(&self) -> Option<Rate> {
        let daemon = self.network.node(self.router).expect("it runs");
        daemon.ledger().admission(self.narrow).expect("known").measured_load()
    }
}

fn measured_sum() -> MeasuredSum {
    MeasuredSum { target: 0.9, window: Duration::from_secs(3), sample: Duration::from_millis(300) }
}

/// By parameters ten flows of 1 Mbit/s fit 10 Mbit/s, which they use to 30 %. By measurement more fit, and they lose
/// hardly anything although their token rates exceed the link together.
#[test]
fn on_off_sources_are_admitted_beyond_the_sum_of_rates_with_low_loss() {
    let (by_parameters, loss) = Net::new(AdmissionMethod::Parameter).play();
    assert_eq!((by_parameters, loss), (10, 0.0));
    let mut net = Net::new(AdmissionMethod::Measured(measured_sum()));
    let (by_measurement, loss) = net.play();
    assert!((15..=25).contains(&by_measurement), "{by_measurement}");
    assert!(loss < 0.001, "{loss}");
    let load = net.measured_load().expect("measured").as_bps();
    assert!((4_000_000..=10_000_000).contains(&load), "{load}");
}

/// A control from outside, set on the running node, decides like one of the settings; a new daemon has that of the
/// settings again.
#[test]
fn admission_control_of_a_link_is_set_from_outside() {
    let mut net = Net::new(AdmissionMethod::Parameter);
    let control = MeasurementBased::new(measured_sum());
    net.network.set_admission(net.router, net.narrow, Box::new(control));
    net.network.run_until(Time::from_secs(60));
    assert!(net.admitted().len() > 10, "{}", net.admitted().len());
    net.network.kill(net.router);
    net.network.restart(net.router, Duration::from_secs(6));
    assert_eq!(net.measured_load(), None);
    net.network.run_until(Time::from_secs(80));
    assert_eq!(net.admitted().len(), 10);
}

/// After a restart the daemon adopts the flows that exceed the link together, and their owners claim them again.
#[test]
fn restarted_daemon_keeps_what_was_admitted_by_measurement() {
    let mut net = Net::new(AdmissionMethod::Measured(measured_sum()));
    net.network.run_until(Time::from_secs(60));
    let before = net.admitted();
    assert!(before.len() > 10, "{before:?}");
    net.network.kill(net.router);
    net.network.restart(net.router, Duration::from_secs(6));
    net.network.run_until(Time::from_secs(67));
    assert!(net.admitted().is_superset(&before), "{before:?} {:?}", net.admitted());
}
