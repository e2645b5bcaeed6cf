//! One router between a sender and a sink, each in a network namespace of its own:
//!
//! ```text
//!   sender 10.77.1.1 --- 10.77.1.2 [router] 10.77.2.2 --- 10.77.2.1 sink, 10.78.0.0/16 behind it
//!          source   veth  gro                       veth  drops
//! ```

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_core::admission::{ClaimId, Demand, Service};
use earmark_core::{Flow, Installation, InterfaceId, Rate};
use earmark_linux::link::Feature;
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::netns::Namespace;
use earmark_linux::packets::{self, Mix, ProgramTimes, Route, Sink, Source};
use earmark_linux::{ClassifierChoice, LinkPlan, Queues, TrafficControl, link};

use super::processor::{self, Processor};
use super::{End, FRAME, PACKET};

/// Router's interface towards the sender.
const INWARD: &str = "in";
/// Router's interface towards the sink.
const OUTWARD: &str = "out";
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const UDP: u8 = 17;
/// Timeout until packets pass a new network.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bucket of a reservation, octets.
const BURST: u32 = 3_000;
/// Greatest rate of one reservation, bits per second.
const GREATEST: u64 = 10_000_000_000;

// Constants of traffic control (`include/uapi/linux/rtnetlink.h`, `pkt_sched.h`).
const ROOT: u32 = u32::MAX;
const KIND: u16 = 1;

/// Treatment of outgoing packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Nothing is forwarded: the router's interface drops what it receives.
    DropOnReceipt,
    /// No queue, the default of a veth interface.
    NoQueue,
    /// `pfifo_fast`, the default of an Ethernet interface.
    Default,
    /// Earmark's traffic control, with this number of reserved flows.
    Reserved(Queues, u32),
    /// Earmark's classifier, with this number of reserved flows, and `pfifo_fast` in place of its queues.
    ClassifierAlone(Queues, u32),
    /// Earmark's queues without flows and without a program: everything is best effort.
    QueuesAlone,
}

/// Outgoing link of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Bandwidth of the link for traffic control.
    pub(super) bandwidth: Rate,
    /// Reservation of each flow; `None`: an equal share of the reservable bandwidth.
    pub(super) rate: Option<Rate>,
    /// Time that the device is busy with a packet, and the number of the device's own processor; `None`: the device
    /// takes every packet at once.
    pub(super) device: Option<(Duration, usize)>,
    /// Flow whose packets the sink passes.
    pub(super) watched: Option<u32>,
    /// Receiver of the packets behind the router.
    pub(super) end: End,
}

/// A running router. Dropping the value removes its network.
pub(super) struct Router {
    sender: Namespace,
    pub(super) router: Namespace,
    pub(super) sink: Namespace,
    source: Source,
    outward: InterfaceId,
    treatment: Treatment,
    /// Whether the router takes precedence over other programs: if wall time counts, not processor time.
    is_preferred: bool,
    _drops: Option<Sink>,
    /// Keeps the classifier's maps readable; traffic control itself outlives this value.
    _control: Option<TrafficControl>,
}

/// Cost of a number of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) sent: u64,
    /// Packets that left the router; with [`Treatment::DropOnReceipt`], packets that arrived at it.
    pub(super) passed: u64,
    /// Processor time.
    pub(super) spent: Duration,
}

impl Router {
    /// Builds a router.
    ///
    /// # Errors
    /// The process lacks root; the kernel lacks live frames or HTB.
    pub(super) fn up(treatment: Treatment, line: Line) -> Result<Router> {
        let [sender, router, sink] = namespaces()?;
        // The kernel thread that receives for this interface can be found only by this name, which is unique over all
        // namespaces.
        let far_name = &format!("f{}", std::process::id());
        let (near, inward) = link::create_veth(&sender, "near", &router, INWARD)?;
        let (outward, far) = link::create_veth(&router, OUTWARD, &sink, far_name)?;
        for (namespace, name, address) in [
            (&sender, "near", SENDER),
            (&router, INWARD, Ipv4Addr::new(10, 77, 1, 2)),
            (&router, OUTWARD, Ipv4Addr::new(10, 77, 2, 2)),
            (&sink, far_name, Ipv4Addr::new(10, 77, 2, 1)),
        ] {
            link::add_address(namespace, name, IpAddr::V4(address), 24)?;
            link::set_up(namespace, name, true)?;
        }
        link::sysctl(&router, "net.ipv4.ip_forward", "1")?;
        let behind = "10.78.0.0/16".parse()?;
        link::add_route(&router, behind, Ipv4Addr::new(10, 77, 2, 1).into())?;
        link::set_feature(&router, INWARD, Feature::ReceiveJoining, true)?;
        link::set_feature(&router, OUTWARD, Feature::Segmentation, false)?;
        let next_hop = link::hardware_address(&router, INWARD)?;
        let route = Route { next_hop, source: SENDER, destination: DESTINATION, length: PACKET };
        let source = sender.run_in(|| Source::open(near, route))?;
        let source = source.context("cannot make a source of packets (root and BPF)")?;
        let (end, interface) = match treatment {
            Treatment::DropOnReceipt => (&router, inward),
            _ => (&sink, far),
        };
        let time = line.device.map_or(Duration::ZERO, |(time, _)| time);
        let drop_all = || Sink::open(interface, time, line.watched);
        let drops = match (treatment, line.end) {
            (Treatment::DropOnReceipt, _) | (_, End::Drop) => {
                Some(end.run_in(drop_all)?.context("cannot make a sink of packets")?)
            }
            (_, End::Host) => None,
        };
        if let Some((_, processor)) = line.device {
            let thread = link::receive_by_thread(&sink, far_name)?;
            processor::put(Some(thread), processor)?;
            processor::prefer(Some(thread))?;
        }
        let control = router.run_in(|| set_up(treatment, line, outward))??;
        let (is_preferred, _drops, _control) = (line.device.is_some(), drops, control);
        Ok(Router {
            sender,
            router,
            sink,
            source,
            outward,
            treatment,
            is_preferred,
            _drops,
            _control,
        })
    }

    /// Sends until packets pass: neighbor resolution comes first.
    pub(super) fn warm_up(&self, processor: Processor, mix: &Mix) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            if self.sample(processor, 1_000, mix)?.passed > 500 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("no packet has passed the router within {TIMEOUT:?}")
    }

    /// Sends `packets` packets on one processor.
    pub(super) fn sample(&self, processor: Processor, packets: u32, mix: &Mix) -> Result<Sample> {
        let (before, source) = (self.passed()?, &self.source);
        let is_preferred = self.is_preferred;
        let spent = self.sender.run_in(move || -> Result<Duration> {
            processor.enter()?;
            if is_preferred {
                processor::prefer(None)?;
            }
            let before = processor.spent()?;
            source.send(packets, mix).context("cannot send live frames (Linux 5.18)")?;
            Ok(processor.spent()? - before)
        })??;
        let passed = self.passed()? - before;
        Ok(Sample { sent: packets.into(), passed, spent })
    }

    /// Sends `packets` numbered packets of the watched flow, with a pause after each, until interrupted.
    pub(super) fn send_slowly(
        &self,
        processor: Processor,
        packets: u32,
        pause: Duration,
        mix: &Mix,
        check_interrupted: impl Fn() -> Result<()> + Send,
    ) -> Result<()> {
        let source = &self.source;
        self.sender.run_in(move || -> Result<()> {
            processor.enter()?;
            processor::prefer(None)?;
            for number in 0..packets {
                check_interrupted()?;
                source.send_from(number, 1, mix)?;
                std::thread::sleep(pause);
            }
            Ok(())
        })?
    }

    /// Time of the classifier for a packet by the kernel's own count, nanoseconds; `None` without a classifier.
    pub(super) fn program_time(
        &self,
        processor: Processor,
        packets: u32,
        mix: &Mix,
    ) -> Result<Option<f64>> {
        let times = ProgramTimes::start().context("the kernel does not count BPF programs")?;
        let (outward, times) = (self.outward, &times);
        let read = || self.router.run_in(|| times.of(outward));
        let before = read()??;
        self.sample(processor, packets, mix)?;
        let after = read()??;
        let (runs, time) = (after.0 - before.0, after.1 - before.1);
        Ok((runs > 0).then(|| time.as_nanos() as f64 / runs as f64))
    }

    /// Packets that have left the router so far; with [`Treatment::DropOnReceipt`], packets that arrived at it.
    fn passed(&self) -> Result<u64> {
        let table = self.router.run_in(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
        let (name, column) = match self.treatment {
            Treatment::DropOnReceipt => (INWARD, 1),
            _ => (OUTWARD, 9),
        };
        counter(&table, name, column).context("the kernel does not count an interface's packets")
    }
}

/// Reads a number from `/proc/net/dev`.
fn counter(table: &str, name: &str, column: usize) -> Option<u64> {
    let mut rows = table.lines().filter_map(|line| line.split_once(':'));
    let (_, counters) = rows.find(|(interface, _)| interface.trim() == name)?;
    counters.split_ascii_whitespace().nth(column)?.parse().ok()
}

fn namespaces() -> Result<[Namespace; 3]> {
    let one =
        || Namespace::unnamed().context("network namespaces are unavailable; this needs root");
    Ok([one()?, one()?, one()?])
}

/// Sets up the outgoing link, in the namespace of the calling thread.
fn set_up(
    treatment: Treatment,
    line: Line,
    outward: InterfaceId,
) -> Result<Option<TrafficControl>> {
    match treatment {
        Treatment::DropOnReceipt | Treatment::NoQueue => Ok(None),
        Treatment::Default => pfifo_fast(outward).map(|()| None),
        Treatment::Reserved(queues, flows) => {
            control(outward, line, queues, flows, ClassifierChoice::Bpf).map(Some)
        }
        Treatment::ClassifierAlone(queues, flows) => {
            let control = control(outward, line, queues, flows, ClassifierChoice::Bpf)?;
            pfifo_fast(outward)?;
            Ok(Some(control))
        }
        Treatment::QueuesAlone => {
            control(outward, line, Queues::PerFlow, 0, ClassifierChoice::U32).map(Some)
        }
    }
}

/// Sets up Earmark's traffic control, with one reservation for each flow.
fn control(
    outward: InterfaceId,
    line: Line,
    queues: Queues,
    flows: u32,
    classifier: ClassifierChoice,
) -> Result<TrafficControl> {
    let bandwidth = line.bandwidth;
    let reservable = Rate::from_bps(bandwidth.as_bps() / 100 * 95);
    let plan = LinkPlan {
        queues,
        pool: flows,
        pool_limit: flows,
        ..LinkPlan::new(outward, bandwidth, reservable)
    };
    let (mut control, _) = TrafficControl::open(&[plan], classifier)?;
    let share = (reservable.as_bps() / u64::from(flows.max(1))).min(GREATEST);
    let rate = line.rate.unwrap_or(Rate::from_bps(share));
    let demand = Demand {
        service: Service::ControlledLoad,
        rate,
        burst: BURST,
        max_packet: FRAME.into(),
        min_packet: 0,
    };
    for slot in 0..flows {
        let (source_port, destination_port) = packets::ports(slot);
        let flow = Flow {
            destination: DESTINATION.into(),
            source: Some(SENDER.into()),
            protocol: UDP,
            destination_port,
            source_port,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        let claim = ClaimId { slot, generation: 0 };
        let installation = Installation { claim, interface: outward, flow, demand };
        control.install(&installation).with_context(|| format!("reservation {slot}"))?;
    }
    Ok(control)
}

/// Replaces the root qdisc of an interface by `pfifo_fast`.
fn pfifo_fast(interface: InterfaceId) -> Result<()> {
    let header = [0, interface.0, 0, ROOT, 0].map(u32::to_ne_bytes).concat(); // `struct tcmsg`
    let flags = NLM_F_REPLACE | NLM_F_CREATE;
    let message = Message::new(RTM_NEWQDISC, flags).fixed(&header).text(KIND, "pfifo_fast");
    Ok(Connection::open()?.request("make a pfifo_fast", message)?)
}

// Constants of `include/uapi/linux/netlink.h` and `rtnetlink.h`.
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWQDISC: u16 = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_interface_and_column() {
        let table = "Inter-|   Receive |  Transmit\n face |bytes packets\n\
            out: 100 11 0 0 0 0 0 0 2280 20 0 0 0 0 0 0\n    \
            in: 300 33 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(counter(table, "out", 9), Some(20));
        assert_eq!(counter(table, "in", 1), Some(33));
        assert_eq!(counter(table, "n", 1), None);
    }
}
