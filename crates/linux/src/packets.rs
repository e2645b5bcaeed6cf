//! A source of packets and a sink, to measure what a router between them forwards.
//!
//! The [`Source`] is an XDP program that the kernel runs on live frames (Linux 5.18 and later), in the time of the thread that
//! asks for them: it writes the headers of a packet, and the frame leaves through an interface as if it had been sent there,
//! at 100 to 150 ns a packet. The [`Sink`] is one that drops what comes in by an interface. Both are for veth pairs, whose driver runs
//! XDP programs: what leaves is received by the other end's NAPI, as from a network card.
//!
//! Packets are UDP over IPv4, from one host to another, of flows that are told apart by their ports ([`ports`]).

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
/// Most flows that ports tell apart.
pub const MOST_FLOWS: u32 = 1 << 24;
/// As in the programs.
const FIRST_PORT: u16 = 1_024;
const FLOW_BITS: u32 = 10;
/// One of those that the source names.
const LICENSE: &str = "MIT";
/// The nice value that has most of a processor, and the shortest slice.
const FIRST: i32 = -20;
const SLICE: Duration = Duration::from_micros(100);
/// Hops that a packet may still take.
const HOPS: u8 = 64;
const UDP: u8 = 17;

/// Source port and destination port of a flow, by its number below [`MOST_FLOWS`].
pub fn ports(flow: u32) -> (u16, u16) {
    let low = flow & ((1 << FLOW_BITS) - 1);
    (FIRST_PORT + low as u16, FIRST_PORT + (flow >> FLOW_BITS) as u16)
}

/// Where packets go, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Ethernet address of the next interface.
    pub next_hop: [u8; 6],
    /// Who sends them.
    pub source: Ipv4Addr,
    /// Whom they go to.
    pub destination: Ipv4Addr,
    /// Octets of a packet, from the IP header on: 32 to 1 500.
    pub length: u16,
}

/// Whose packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Each packet belongs to one of so many flows, drawn at random,
    pub flows: u32,
    /// from this one on.
    pub first: u32,
    /// But some belong to a flow that is watched.
    pub watched: Option<Watched>,
}

/// A flow whose packets are numbered, in the first four octets of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// One packet in so many belongs to it.
    pub every: u32,
    /// Number of the object.
    pub flow: u32,
    /// The type of service in its packets' headers; that of all others is 0.
    pub service: u8,
}

/// Sends packets through an interface. All calls come from threads of the interface's network namespace.
#[derive(Debug)]
pub struct Source {
    program: OwnedFd,
    settings: Map<4, SOURCE>,
    interface: InterfaceId,
    route: Route,
    /// What lets frames leave as if they had come from there.
    _receiver: OwnedFd,
}

impl Source {
    /// Makes a source on an end of a veth pair. Needs CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The interface knows no XDP, or the kernel refuses.
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

    /// Sends so many packets, in the time of the calling thread; what the interface's other end does with them in its NAPI is
    /// most of it.
    ///
    /// # Errors
    /// This kernel has no live frames, or the sending was interrupted.
    pub fn send(&self, packets: u32, mix: &Mix) -> io::Result<()> {
        self.send_from(0, packets, mix)
    }

    /// Sends a mix, with this number in the first packet of the watched flow.
    ///
    /// # Errors
    /// As of [`Source::send`].
    pub fn send_from(&self, number: u32, packets: u32, mix: &Mix) -> io::Result<()> {
        let Watched { every, flow, service } = mix.watched.unwrap_or_default();
        let mut settings = [0; SOURCE];
        // The generator of random numbers starts alike each time: runs are comparable.
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
        // A locally administered address that nobody has.
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
        // No checksum of UDP (RFC 768): the ports differ.
        ip[24..26].copy_from_slice(&(self.length - 20).to_be_bytes());
        headers
    }
}

/// Drops what comes in by an interface, for as long as the value lives.
#[derive(Debug)]
pub struct Sink {
    _attached: OwnedFd,
}

impl Sink {
    /// Drops the IPv4 packets that come in by an end of a veth pair, each after so much time of the receiving processor (at most
    /// 80 us), but lets pass those of a flow that is watched. Called in the interface's network namespace; needs CAP_BPF and
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The interface knows no XDP, or the kernel refuses.
    pub fn open(interface: InterfaceId, time: Duration, watched: Option<u32>) -> io::Result<Sink> {
        let settings: Map<4, SINK> = Map::create_array("packet_sink", 1)?;
        let mut value = [0; SINK];
        let time = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
        value[..4].copy_from_slice(&time.to_ne_bytes());
        let port = watched.map_or(0, |flow| ports(flow).1);
        value[4..6].copy_from_slice(&port.to_be_bytes());
        settings.set(&[0; 4], &value)?;
        let program = load("sink", &[("sink_settings", settings.descriptor())])?;
        Ok(Sink { _attached: bpf::link_xdp(program.as_fd(), interface.0)? })
    }
}

/// Lets a thread run before those of other programs on its processor, and at once; 0: the calling thread. It takes
/// CAP_SYS_NICE.
///
/// # Errors
/// There is no such thread, or the kernel refuses.
pub fn run_promptly(thread: u32) -> io::Result<()> {
    scheduling::set(thread, FIRST, SLICE)
}

/// Loads one of the object's programs.
fn load(section: &str, maps: &[(&str, i32)]) -> io::Result<OwnedFd> {
    let code = bpf_object::link(PACKETS, section, maps)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    bpf::load_xdp(section, &code, LICENSE)
}

/// Has the kernel count the time that BPF programs take, all of this machine, for as long as the value lives.
#[derive(Debug)]
pub struct ProgramTimes {
    _counting: OwnedFd,
}

impl ProgramTimes {
    /// Begins to count. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start() -> io::Result<ProgramTimes> {
        Ok(ProgramTimes { _counting: bpf_run::count_run_times()? })
    }

    /// How often the programs in an interface's way out have run so far, and how long in all. Called in the interface's
    /// network namespace.
    ///
    /// # Errors
    /// The kernel does not tell.
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
    fn flows_have_ports_of_their_own() {
        assert_eq!(ports(0), (1_024, 1_024));
        assert_eq!(ports(1_023), (2_047, 1_024));
        assert_eq!(ports(1_024), (1_024, 1_025));
        assert_eq!(ports(MOST_FLOWS - 1), (2_047, 17_407));
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
