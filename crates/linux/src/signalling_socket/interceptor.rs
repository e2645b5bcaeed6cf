//! Interception of arriving messages by BPF, if raw sockets do not receive them.
//!
//! A raw socket receives a packet in transit only if it carries router alert; in the case of multicast only while the
//! kernel routes multicast, and in IPv6 not even then. A program on the ingress of an interface (TCX, Linux 6.6 and
//! later) sees every packet: intercepted ones arrive here through a ring buffer, complete, and are not forwarded.
//!
//! Each protocol has its own programs, so that a protocol that is off on an interface costs its packets nothing. They
//! are loaded while the process has CAP_BPF; attaching one to an interface takes CAP_NET_ADMIN. They are attached by
//! links that this process holds: when it ends for any reason, packets flow as without them.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::InterfaceId;

use super::checksum;
use super::incoming::Incoming;
use super::packet::{Parsed, packet};
use super::packet_filter::UDP;
use super::protocol::Program;
use super::protocols::{InterfaceSignalling, Known, Offload, PROTOCOLS, Share, ShareChange};
use crate::bpf_object;
use crate::sys::bpf::{self, Map};
use crate::sys::ring::Ring;

/// Octets of the ring: room for sixteen thousand messages of 512 octets. That many setups may arrive at once without a
/// loss; only the next refresh repairs a loss.
const RING: u32 = 8 << 20;
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
    /// Values that the programs report about the ring; see [`RING_LOST`].
    numbers: Map<4, 4>,
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
        let mut offload = Offload::new()?;
        let maps = [("messages", ring.descriptor()), ("ring", numbers.descriptor())];
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
        Ok(Interceptor { ring, numbers, offload, loaded, links, buffer: Vec::new() })
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
        let Interceptor { ring, buffer, offload, .. } = self;
        let mut has_release = false;
        let count = ring.read(most, |record| {
            let number = |at: usize| {
                let octets = record.get(at..).and_then(<[u8]>::first_chunk::<4>);
                octets.copied().map_or(0, u32::from_ne_bytes)
            };
            let [interface, length, protocol, treatment] = [0, 4, 8, 12].map(number);
            let share = |at| Share { interface: InterfaceId(number(at)), rate: number(at + 4) };
            let share_change = match treatment {
                RESERVED => Some(ShareChange::Reserved(share(16))),
                RELEASED => Some(ShareChange::Released([share(16), share(24)])),
                _ => None,
            };
            if has_release && share_change.is_none() {
                return ControlFlow::Break(());
            }
            has_release |= treatment == RELEASED;
            let octets = record.get(HEAD..).and_then(|rest| rest.get(..length as usize));
            let found = packet(octets.unwrap_or_default(), interface)
                .filter(|found| u32::from(found.protocol) == protocol);
            if let Some(change) = share_change {
                offload.account(&change, found.as_ref().map(|found| &found.datagram));
            }
            each(found.map(|Parsed { protocol, mut datagram }| {
                if protocol == UDP {
                    checksum::complete(&mut datagram, buffer);
                }
                Incoming { protocol, is_copy: treatment != CONSUMED, share_change, datagram }
            }));
            ControlFlow::Continue(())
        });
        Read { count, has_release }
    }

    /// Whether no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns the number of messages that the ring had no room for.
    pub(super) fn lost(&self) -> u64 {
        self.numbers.get(&RING_LOST).ok().flatten().map_or(0, u32::from_ne_bytes).into()
    }
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
