//! Interception of arriving messages by BPF, if raw sockets do not receive them.
//!
//! A raw socket receives a packet in transit only if it carries router alert; in the case of multicast only while the
//! kernel routes multicast, and in IPv6 not even then. A program on the ingress of an interface (TCX, Linux 6.6 and
//! later) sees every packet: intercepted ones arrive here through a ring buffer, complete, and are not forwarded.
//! Some messages with router alert, and some for this host, would reach raw sockets as well; but there the messages of
//! one port displace those of all others, and here they do not (`bpf/message.h`).
//!
//! Each protocol has its own programs, so that a protocol that is off on an interface costs its packets nothing. They
//! are loaded while the process has CAP_BPF; attaching one to an interface takes CAP_NET_ADMIN. They are attached by
//! links that this process holds: when it ends for any reason, packets flow as without them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::InterfaceId;

use super::checksum;
use super::fair_queue::FairQueue;
use super::incoming::Incoming;
use super::packet::{Parsed, packet};
use super::packet_filter::UDP;
use super::protocol::Program;
use super::protocols::{InterfaceSignalling, Known, Offload, PROTOCOLS, Share, ShareChange};
use crate::bpf_object;
use crate::sys::bpf::{self, Map};
use crate::sys::ring::Ring;
use crate::sys::shared_array::SharedArray;

/// Octets of the ring. One port may use half: room for 28 000 messages of up to 256 octets, or for 15 000 of up to 512. That
/// many setups may arrive at once without a loss; only the next refresh repairs a loss.
const RING: u32 = 16 << 20;
/// Number of ports that the programs tell apart, by the lowest bits of their index (`PORTS`); and, of the numbers of each
/// (`struct port`), octets that were read, and messages that were shed.
const PORTS: u32 = 4_096;
const PORT_NUMBERS: usize = 3;
const PORT_READ: usize = 1;
const PORT_SHED: usize = 2;
/// Number of values that the programs report about the ring (`RING_LOST` and `RING_UNANNOUNCED`), and the key of the
/// first: messages that it had no room for.
const RING_NUMBERS: u32 = 2;
const RING_LOST: [u8; 4] = [0; 4];
/// Octets of `struct message` before the packet.
const HEAD: usize = 32;
/// Values of its `treatment`; all others mean a copy.
const CONSUMED: u32 = 0;
const RESERVED: u32 = 2;
const RELEASED: u32 = 3;
/// License of the programs: the one that the sources name under which the kernel permits all of its functions.
const LICENSE: &str = "Dual MIT/GPL";

/// The programs, the ring that they write into, and the interfaces to which they are attached.
#[derive(Debug)]
pub(super) struct Interceptor {
    ring: Ring,
    /// Messages in the ring.
    queue: FairQueue,
    /// Values that the programs report about the ring; see [`RING_LOST`].
    numbers: Map<4, 4>,
    /// Use of the ring by each port.
    ports: SharedArray<PORT_NUMBERS>,
    pub(super) offload: Offload,
    /// In the order of [`programs`]; the kernel's error for a program that it refused to load.
    loaded: Vec<Result<OwnedFd, io::ErrorKind>>,
    /// Links that keep the programs attached, by their numbers in [`programs`].
    links: BTreeMap<(InterfaceId, usize), OwnedFd>,
    /// Buffer for packets whose checksum had to be completed.
    buffer: Vec<u8>,
}

impl Interceptor {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel refuses the ring, or even the first program.
    pub(super) fn open() -> io::Result<Interceptor> {
        let ring = Ring::new("earmark_messages", RING)?;
        let numbers: Map<4, 4> = Map::create_array("earmark_ring", RING_NUMBERS)?;
        let ports = SharedArray::new("earmark_ports", PORTS)?;
        let mut offload = Offload::new()?;
        let maps = [
            ("messages", ring.descriptor()),
            ("ring", numbers.descriptor()),
            ("ports", ports.descriptor()),
        ];
        let maps: Vec<(&str, i32)> = maps.into_iter().chain(offload.maps()).collect();
        let mut loaded = Vec::new();
        for (_, program) in programs() {
            let Program { object, section, name, .. } = program;
            let code = bpf_object::link(object, section, &maps)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            match bpf::load_classifier(name, &code, LICENSE) {
                Err(error) if loaded.is_empty() => return Err(error),
                Err(error) => {
                    tracing::info!(%error, program = section, "a program is not loaded");
                    loaded.push(Err(error.kind()));
                }
                Ok(descriptor) => {
                    offload.set_program(section, descriptor.as_fd())?;
                    loaded.push(Ok(descriptor));
                }
            }
        }
        let links = BTreeMap::new();
        let queue = FairQueue::new(PORTS as u16);
        Ok(Interceptor { ring, queue, numbers, ports, offload, loaded, links, buffer: Vec::new() })
    }

    /// Attaches the programs that an interface needs, and detaches the others.
    ///
    /// # Errors
    /// The error of the first program that cannot be attached; the others are attached.
    pub(super) fn attach(
        &mut self,
        interface: InterfaceId,
        how: &InterfaceSignalling,
    ) -> io::Result<()> {
        let mut outcome = Ok(());
        let (needed, other): (Vec<_>, Vec<_>) =
            programs().zip(0..).partition(|((known, program), _)| known.needs(program, how));
        for (_, number) in needed {
            if self.links.contains_key(&(interface, number)) {
                continue;
            }
            // The new program runs after the old one, which intercepts what both would: nothing arrives twice.
            let link = self.loaded[number]
                .as_ref()
                .map_err(|&kind| kind.into())
                .and_then(|loaded| bpf::link_ingress(loaded.as_fd(), interface.0));
            match link {
                Ok(link) => {
                    self.links.insert((interface, number), link);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        for (_, number) in other {
            self.links.remove(&(interface, number));
        }
        outcome
    }

    /// Detaches all programs from an interface.
    pub(super) fn detach(&mut self, interface: InterfaceId) {
        self.links.retain(|&(on, _), _| on != interface);
    }

    /// Whether a program is attached to an interface.
    pub(super) fn has(&self, interface: InterfaceId, program: &Program) -> bool {
        let number = programs().position(|(_, known)| std::ptr::eq(known, program));
        number.is_some_and(|number| self.links.contains_key(&(interface, number)))
    }

    /// Passes at most `most` messages to `each`, `None` for a malformed packet. A message that the daemon handles alone
    /// never follows one that reports a release: the kernel may grant the released bandwidth again until the daemon has
    /// taken it back.
    pub(super) fn read(&mut self, most: usize, mut each: impl FnMut(Option<Incoming<'_>>)) -> Read {
        let Interceptor { ring, queue, buffer, offload, ports, .. } = self;
        ring.scan(|at, end, record| {
            let Head { interface, treatment, .. } = Head::of(record);
            let is_report = matches!(treatment, RESERVED | RELEASED);
            queue.push((!is_report).then_some(interface), at, end);
        });
        let mut read = Read { count: 0, has_release: false };
        while let Some(next) = queue.next() {
            if read.count == most || read.has_release && !next.is_report {
                break;
            }
            let record = ring.record(next.at);
            let head = Head::of(record);
            read.has_release |= head.treatment == RELEASED;
            let share_change = head.share_change(record);
            let octets = record.get(HEAD..).and_then(|rest| rest.get(..head.length as usize));
            let found = packet(octets.unwrap_or_default(), head.interface)
                .filter(|found| u32::from(found.protocol) == head.protocol);
            if let Some(change) = share_change {
                offload.account(&change, found.as_ref().map(|found| &found.datagram));
            }
            each(found.map(|Parsed { protocol, mut datagram }| {
                if protocol == UDP {
                    checksum::complete(&mut datagram, buffer);
                }
                let is_copy = head.treatment != CONSUMED;
                Incoming { protocol, is_copy, share_change, datagram }
            }));
            ports.add(head.interface, PORT_READ, next.octets());
            read.count += 1;
            if let Some(end) = queue.finish(next) {
                ring.release(end);
            }
        }
        if queue.is_empty() {
            // Discarded records are in no queue.
            ring.release_all();
        }
        read
    }

    /// Whether no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns the number of messages that the ring had no room for, those that were shed included.
    pub(super) fn lost(&self) -> u64 {
        let full = self.numbers.get(&RING_LOST).ok().flatten().map_or(0, u32::from_ne_bytes);
        let shed: u64 = (0..PORTS).map(|port| self.ports.get(port, PORT_SHED)).sum();
        u64::from(full) + shed
    }

    /// Returns the interfaces from which messages are intercepted, and the number of messages that were shed at each because
    /// too many of it waited.
    pub(super) fn shed(&self) -> BTreeMap<InterfaceId, u64> {
        let of = |&(interface, _): &(InterfaceId, usize)| {
            (interface, self.ports.get(interface.0, PORT_SHED))
        };
        self.links.keys().map(of).collect()
    }
}

/// The fields of `struct message`.
struct Head {
    interface: u32,
    length: u32,
    protocol: u32,
    treatment: u32,
}

impl Head {
    fn of(record: &[u8]) -> Head {
        let [interface, length, protocol, treatment] = [0, 4, 8, 12].map(|at| number(record, at));
        Head { interface, length, protocol, treatment }
    }

    /// Returns the change of shares that the record reports.
    fn share_change(&self, record: &[u8]) -> Option<ShareChange> {
        let share =
            |at| Share { interface: InterfaceId(number(record, at)), rate: number(record, at + 4) };
        match self.treatment {
            RESERVED => Some(ShareChange::Reserved(share(16))),
            RELEASED => Some(ShareChange::Released([share(16), share(24)])),
            _ => None,
        }
    }
}

/// Returns the number at this offset of a record; 0 beyond its end.
fn number(record: &[u8], at: usize) -> u32 {
    let octets = record.get(at..).and_then(<[u8]>::first_chunk::<4>);
    octets.copied().map_or(0, u32::from_ne_bytes)
}

/// Result of one read.
pub(super) struct Read {
    /// Number of messages.
    pub(super) count: usize,
    /// Whether one of them reported a release by the kernel.
    pub(super) has_release: bool,
}

/// Returns the programs of all protocols, each with its protocol.
fn programs() -> impl Iterator<Item = (&'static Known, &'static Program)> {
    PROTOCOLS.iter().flat_map(|known| known.protocol.programs.iter().map(move |p| (known, p)))
}

impl AsFd for Interceptor {
    /// Returns the descriptor that becomes readable when messages wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
