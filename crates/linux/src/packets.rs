//! A source and a sink of packets, to measure the forwarding rate of a router between them.
//!
//! The [`Source`] is an XDP program that the kernel runs on live frames (Linux 5.18 and later), in the time of the
//! calling thread: it writes the headers of a packet, and the frame leaves through an interface as if it had been sent
//! there, at 100 to 150 ns a packet. The [`Sink`] is an XDP program that drops what arrives at an interface. Both are
//! for veth pairs, whose driver runs XDP programs: the other end's NAPI receives the packets, as from a network card.
//!
//! Packets are UDP over IPv4, from one host to another, of flows with different ports ([`ports`]).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::checksum;

use crate::bpf_object::{self, PACKETS};
use crate::sys::bpf::{self, Map};
use crate::sys::{bpf_run, scheduling};

/// Octets of headers: Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 42;
const LINK_HEADER: usize = 14;
/// Octets of `struct source` and `struct sink`.
const SOURCE: usize = 76;
const SINK: usize = 8;
/// Maximum number of flows that ports distinguish.
pub const MAX_FLOWS: u32 = 1 << 24;
/// First port; the same as in the programs.
const FIRST_PORT: u16 = 1_024;
const FLOW_BITS: u32 = 10;
/// License of the programs: one of those that the source names.
const LICENSE: &str = "MIT";
/// The nice value with the largest share of a processor, and the shortest slice.
const HIGHEST_PRIORITY: i32 = -20;
const SLICE: Duration = Duration::from_micros(100);
/// TTL of a packet.
const HOPS: u8 = 64;
const UDP: u8 = 17;

/// Returns source port and destination port of a flow, by its number below [`MAX_FLOWS`].
pub fn ports(flow: u32) -> (u16, u16) {
    let low = flow & ((1 << FLOW_BITS) - 1);
    (FIRST_PORT + low as u16, FIRST_PORT + (flow >> FLOW_BITS) as u16)
}

/// Destination and length of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Ethernet address of the next hop's interface.
    pub next_hop: [u8; 6],
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Octets of a packet, from the IP header on: 32 to 1 500.
    pub length: u16,
}

/// The flows of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Number of flows; the flow of each packet is drawn at random.
    pub flows: u32,
    /// Number of the first flow.
    pub first: u32,
    /// A flow that is measured by itself, with a share of the packets.
    pub measured: Option<MeasuredFlow>,
}

/// A flow whose packets are numbered, in the first four octets of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredFlow {
    /// One packet in this many belongs to it.
    pub every: u32,
    /// Number of the flow.
    pub flow: u32,
    /// Type of service in the headers of its packets; all others have 0.
    pub service: u8,
}

/// Sends packets through an interface. All calls come from threads of the interface's network namespace.
#[derive(Debug)]
pub struct Source {
    program: OwnedFd,
    settings: Map<4, SOURCE>,
    interface: InterfaceId,
    route: Route,
    /// Link of an XDP program on the interface, which the kernel requires for live frames.
    _receiver: OwnedFd,
}

impl Source {
    /// Creates a source on an end of a veth pair. Needs CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The interface does not support XDP, or the kernel refuses.
    pub fn open(interface: InterfaceId, route: Route) -> io::Result<Source> {
        if !(32..=1_500).contains(&route.length) {
            let reason = "a packet of the source has 32 to 1500 octets";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let settings: Map<4, SOURCE> = Map::create_array("packet_source", 1)?;
        let program = load("source", &[("source_settings", settings.descriptor())])?;
        let receiver = load("pass", &[])?;
        let receiver = bpf::link_xdp(receiver.as_fd(), interface.0)?;
        Ok(Source { program, settings, interface, route, _receiver: receiver })
    }

    /// Sends this many packets, in the time of the calling thread; most of it is the work of the other end's NAPI.
    ///
    /// # Errors
    /// This kernel does not support live frames, or the call was interrupted.
    pub fn send(&self, packets: u32, mix: &Mix) -> io::Result<()> {
        self.send_from(0, packets, mix)
    }

    /// Sends a mix, with this number in the first packet of the measured flow.
    ///
    /// # Errors
    /// As for [`Source::send`].
    pub fn send_from(&self, number: u32, packets: u32, mix: &Mix) -> io::Result<()> {
        let MeasuredFlow { every, flow, service } = mix.measured.unwrap_or_default();
        let mut settings = [0; SOURCE];
        // The random number generator has the same seed each time: runs are comparable.
        for (word, value) in [mix.flows, mix.first, every, flow, 0, 1].into_iter().enumerate() {
            settings[word * 4..word * 4 + 4].copy_from_slice(&value.to_ne_bytes());
        }
        settings[24..66].copy_from_slice(&self.route.headers(0));
        settings[66..68].copy_from_slice(&self.route.headers(service)[24..26]);
        settings[68..72].copy_from_slice(&number.to_ne_bytes());
        settings[72] = service;
        self.settings.set(&[0; 4], &settings)?;
        let frame = vec![0; LINK_HEADER + usize::from(self.route.length)];
        bpf_run::run_live(self.program.as_fd(), self.interface.0, &frame, packets)
    }
}

impl Route {
    fn headers(&self, service: u8) -> [u8; HEADERS] {
        let mut headers = [0; HEADERS];
        headers[..6].copy_from_slice(&self.next_hop);
        // A locally administered address that is not in use.
        headers[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        headers[12..14].copy_from_slice(&[8, 0]);
        let ip = &mut headers[LINK_HEADER..];
        (ip[0], ip[1]) = (0x45, service);
        ip[2..4].copy_from_slice(&self.length.to_be_bytes());
        (ip[8], ip[9]) = (HOPS, UDP);
        ip[12..16].copy_from_slice(&self.source.octets());
        ip[16..20].copy_from_slice(&self.destination.octets());
        let sum = checksum::checksum(&ip[..20]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        // Without UDP checksum (RFC 768): the ports differ.
        ip[24..26].copy_from_slice(&(self.length - 20).to_be_bytes());
        headers
    }
}

/// Drops what arrives at an interface while the value exists.
#[derive(Debug)]
pub struct Sink {
    _attached: OwnedFd,
}

impl Sink {
    /// Drops the IPv4 packets that arrive at an end of a veth pair, each after a delay of the receiving processor (at
    /// most 80 us), but passes those of a measured flow. Called in the interface's network namespace; needs CAP_BPF and
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The interface does not support XDP, or the kernel refuses.
    pub fn open(interface: InterfaceId, time: Duration, measured: Option<u32>) -> io::Result<Sink> {
        let settings: Map<4, SINK> = Map::create_array("packet_sink", 1)?;
        let mut value = [0; SINK];
        let time = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
        value[..4].copy_from_slice(&time.to_ne_bytes());
        let port = measured.map_or(0, |flow| ports(flow).1);
        value[4..6].copy_from_slice(&port.to_be_bytes());
        settings.set(&[0; 4], &value)?;
        let program = load("sink", &[("sink_settings", settings.descriptor())])?;
        Ok(Sink { _attached: bpf::link_xdp(program.as_fd(), interface.0)? })
    }
}

/// Gives a thread the highest priority among ordinary threads on its processor, with short slices; 0: the calling
/// thread. Needs CAP_SYS_NICE.
///
/// # Errors
/// There is no such thread, or the kernel refuses.
pub fn raise_priority(thread: u32) -> io::Result<()> {
    scheduling::set(thread, HIGHEST_PRIORITY, SLICE)
}

/// Loads one of the object's programs.
fn load(section: &str, maps: &[(&str, i32)]) -> io::Result<OwnedFd> {
    let code = bpf_object::link(PACKETS, section, maps)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    bpf::load_xdp(section, &code, LICENSE)
}

/// Makes the kernel measure the run time of all BPF programs of this machine while the value exists.
#[derive(Debug)]
pub struct ProgramTimes {
    _counting: OwnedFd,
}

impl ProgramTimes {
    /// Starts to measure. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start() -> io::Result<ProgramTimes> {
        Ok(ProgramTimes { _counting: bpf_run::count_run_times()? })
    }

    /// Returns the number of runs and the total run time of the programs on an interface's egress so far. Called in the
    /// interface's network namespace.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn of(&self, interface: InterfaceId) -> io::Result<(u64, Duration)> {
        let mut all = (0, Duration::ZERO);
        for number in bpf::attached(interface.0)? {
            let program = bpf::program_by_id(number)?;
            let (runs, time) = bpf_run::run_time(program.as_fd())?;
            all = (all.0 + runs, all.1 + time);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_different_ports() {
        assert_eq!(ports(0), (1_024, 1_024));
        assert_eq!(ports(1_023), (2_047, 1_024));
        assert_eq!(ports(1_024), (1_024, 1_025));
        assert_eq!(ports(MAX_FLOWS - 1), (2_047, 17_407));
    }

    #[test]
    fn headers_are_of_a_valid_packet() {
        let [source, destination] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 9, 0, 1)];
        let route = Route { next_hop: [6; 6], source, destination, length: 78 };
        let mut frame = route.headers(0x10).to_vec();
        frame.resize(LINK_HEADER + 78, 0);
        let packet = earmark_wire::ipv4::Packet::parse(&frame[LINK_HEADER..]).expect("valid");
        assert_eq!((packet.source(), packet.destination()), (source, destination));
        assert_eq!((packet.protocol(), packet.payload().len()), (UDP, 58));
        assert_eq!(checksum::checksum(&frame[LINK_HEADER..LINK_HEADER + 20]), 0);
    }

    #[test]
    fn programs_are_in_the_object() {
        for (section, symbol) in [("source", "source_settings"), ("sink", "sink_settings")] {
            assert!(bpf_object::link(PACKETS, section, &[(symbol, 7)]).is_ok());
        }
        assert!(bpf_object::link(PACKETS, "pass", &[]).is_ok());
    }
}
