//! Resource use of a process: processor time, memory, and packets on the interfaces of its network namespace.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_core::Time;

use earmark_lab::traffic::now;

/// Octets of the Ethernet header, which the kernel's interface counters include and an IP packet does not have.
const LINK_HEADER: u64 = 14;

/// State of a process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the sample.
    pub at: Time,
    /// Processor time that the first thread has used (a daemon has no other), including the kernel's work on its
    /// behalf: a packet through a veth pair is handled in the sender's time up to the receiver's socket.
    pub processor: Duration,
    /// Resident memory, octets.
    pub memory: u64,
    /// Packets received on all interfaces but the loopback.
    pub incoming: Load,
    /// Packets sent on all interfaces but the loopback.
    pub outgoing: Load,
}

/// Number of packets and octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// IP packets.
    pub packets: u64,
    /// Octets, from the IP header on.
    pub octets: u64,
}

impl Load {
    /// Returns the difference to an earlier sample.
    #[must_use]
    pub fn since(self, earlier: Load) -> Load {
        Load { packets: self.packets - earlier.packets, octets: self.octets - earlier.octets }
    }
}

/// Resource use between two samples, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Packets received.
    pub packets_in: f64,
    /// Octets received, from the IP header on.
    pub octets_in: f64,
    /// Packets sent.
    pub packets_out: f64,
    /// Octets sent, from the IP header on.
    pub octets_out: f64,
    /// Share of one processor, 0 to 1.
    pub processor: f64,
    /// Processor time for one packet, in or out, microseconds; `None` if there were no packets.
    pub packet_us: Option<f64>,
}

impl Sample {
    /// Returns the resource use since an earlier sample.
    #[must_use]
    pub fn since(&self, earlier: &Sample) -> Spent {
        let seconds = self.at.since(earlier.at).as_secs_f64().max(1e-9);
        let incoming = self.incoming.since(earlier.incoming);
        let outgoing = self.outgoing.since(earlier.outgoing);
        let processor = self.processor.saturating_sub(earlier.processor).as_secs_f64();
        let packets = (incoming.packets + outgoing.packets) as f64;
        Spent {
            packets_in: incoming.packets as f64 / seconds,
            octets_in: incoming.octets as f64 / seconds,
            packets_out: outgoing.packets as f64 / seconds,
            octets_out: outgoing.octets as f64 / seconds,
            processor: processor / seconds,
            packet_us: (packets > 0.0).then(|| processor * 1e6 / packets),
        }
    }

    /// Returns the additional memory of `sessions` sessions since an earlier sample, octets a session.
    #[must_use]
    pub fn octets_a_session(&self, earlier: &Sample, sessions: u32) -> f64 {
        self.memory.saturating_sub(earlier.memory) as f64 / f64::from(sessions.max(1))
    }

    /// Samples a process.
    ///
    /// # Errors
    /// The process has ended, or the kernel does not report its time.
    pub fn of(process: u32) -> Result<Sample> {
        let read = |file: &str| {
            let path = format!("/proc/{process}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let spent = read("schedstat")?;
        let nanos = spent.split(' ').next().unwrap_or_default().parse();
        let processor = Duration::from_nanos(nanos.context("a schedstat that starts oddly")?);
        let memory = resident(&read("status")?).context("a status without VmRSS")?;
        let (incoming, outgoing) = loads(&read("net/dev")?);
        Ok(Sample { at: now(), processor, memory, incoming, outgoing })
    }
}

/// Returns VmRSS of `/proc/PID/status`, octets.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the sums over all interfaces but the loopback in `/proc/PID/net/dev`: received, sent.
fn loads(devices: &str) -> (Load, Load) {
    let (mut incoming, mut outgoing) = (Load::default(), Load::default());
    for line in devices.lines() {
        let Some((name, counters)) = line.split_once(':') else { continue };
        let numbers: Vec<u64> =
            counters.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        if name.trim() == "lo" || numbers.len() < 10 {
            continue;
        }
        for (load, octets, packets) in
            [(&mut incoming, numbers[0], numbers[1]), (&mut outgoing, numbers[8], numbers[9])]
        {
            load.packets += packets;
            load.octets += octets.saturating_sub(LINK_HEADER * packets);
        }
    }
    (incoming, outgoing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_tables_are_parsed() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    1234 kB\n"), Some(1_263_616));
        assert_eq!(resident("Name:\tx\n"), None);
        let devices = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    \
            lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
            eth0: 1140 10 0 0 0 0 0 0 2280 20 0 0 0 0 0 0\n  \
            eth1: 114 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let (incoming, outgoing) = loads(devices);
        assert_eq!(incoming, Load { packets: 11, octets: 1_100 });
        assert_eq!(outgoing, Load { packets: 20, octets: 2_000 });
        assert_eq!(outgoing.since(Load { packets: 5, octets: 100 }).packets, 15);
    }

    #[test]
    fn cost_is_the_increase_in_the_window() {
        let sample = |seconds: u64, millis: u64, packets: u64| Sample {
            at: Time::from_secs(seconds),
            processor: Duration::from_millis(millis),
            memory: 1_000 * seconds,
            incoming: Load { packets, octets: 100 * packets },
            outgoing: Load { packets: 3 * packets, octets: 10 * packets },
        };
        let [empty, before, after] = [sample(1, 0, 0), sample(5, 100, 10), sample(15, 1_100, 110)];
        let spent = after.since(&before);
        assert_eq!((spent.packets_in, spent.octets_in), (10.0, 1_000.0));
        assert_eq!((spent.packets_out, spent.octets_out), (30.0, 100.0));
        assert_eq!((spent.processor, spent.packet_us), (0.1, Some(2_500.0)));
        assert_eq!(before.since(&before).packet_us, None);
        assert_eq!(after.octets_a_session(&empty, 10), 1_400.0);
    }

    #[test]
    fn own_process_is_sampled() {
        let before = Sample::of(std::process::id()).expect("it runs");
        assert!(before.memory > 100_000 && before.at > Time::ZERO);
    }
}
