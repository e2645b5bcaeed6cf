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
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::{Datagram, InterfaceId};

use super::fast_path::FastPath;
use super::settings::{Gist, Incoming, Intercept, InterfaceSignalling, Settled, Share, Yessir};
use super::{checksum, raw};
use crate::bpf_object::{self, BOOMERANG, NSIS, RSVP, YESSIR};
use crate::sys::bpf::{self, Map};
use crate::sys::ring::Ring;

/// Octets of the ring: room for sixteen thousand messages of RSVP, or thirty-eight thousand of Boomerang. That many
/// setups may arrive at once without a loss; only the next refresh repairs a loss.
const RING: u32 = 8 << 20;
/// Number of values that the programs report about the ring (`RING_LOST` and `RING_QUIET`), and the key of the first:
/// messages that it had no room for.
const RING_NUMBERS: u32 = 2;
const RING_LOST: [u8; 4] = [0; 4];
/// Octets of `struct message` before the packet.
const HEAD: usize = 32;
/// Values of its `fate`; all others mean a copy.
const TAKEN: u32 = 0;
const RESERVED: u32 = 2;
const RELEASED: u32 = 3;
/// License of the programs: the one that the sources name under which the kernel permits all of its functions.
const LICENSE: &str = "Dual MIT/GPL";

/// A program of one of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Program {
    /// RSVP to groups.
    Groups,
    /// All of RSVP.
    All,
    /// Boomerang.
    Boomerang,
    /// YESSIR with router alert.
    Alerted,
    /// All of YESSIR.
    Any,
    /// Copies of sender reports.
    Reports,
    /// GIST with router alert.
    Gist,
    /// GIST with router alert, and all Queries.
    GistPort,
}

impl Program {
    const ALL: [Program; 8] = [
        Program::Groups,
        Program::All,
        Program::Boomerang,
        Program::Alerted,
        Program::Any,
        Program::Reports,
        Program::Gist,
        Program::GistPort,
    ];

    /// Returns the object, the section in it, and the program's name in the kernel.
    fn place(self) -> (&'static [u8], &'static str, &'static str) {
        match self {
            Program::Groups => (RSVP, "groups", "earmark_groups"),
            Program::All => (RSVP, "all", "earmark_all"),
            Program::Boomerang => (BOOMERANG, "boomerang", "earmark_echo"),
            Program::Alerted => (YESSIR, "alerted", "earmark_alerted"),
            Program::Any => (YESSIR, "any", "earmark_any"),
            Program::Reports => (YESSIR, "reports", "earmark_reports"),
            Program::Gist => (NSIS, "gist", "earmark_gist"),
            Program::GistPort => (NSIS, "gist_port", "earmark_gport"),
        }
    }

    /// Whether an interface with these settings needs this program on its ingress.
    fn is_wanted(self, how: &InterfaceSignalling) -> bool {
        match self {
            Program::Groups => how.intercept == Intercept::RouterAlert,
            Program::All => how.intercept == Intercept::Protocol,
            Program::Boomerang => how.boomerang,
            Program::Alerted => how.yessir == Yessir::RouterAlert,
            Program::Any => how.yessir == Yessir::Always,
            Program::Reports => how.sender_reports,
            Program::Gist => how.gist == Gist::RouterAlert,
            Program::GistPort => how.gist == Gist::Port,
        }
    }
}

/// The programs, the ring that they write into, and the interfaces to which they are attached.
#[derive(Debug)]
pub(super) struct Interceptor {
    ring: Ring,
    /// Values that the programs report about the ring; see [`RING_LOST`].
    numbers: Map<4, 4>,
    pub(super) fast_path: FastPath,
    /// In the order of [`Program::ALL`]; the kernel's error for a program that it refused to load.
    programs: [Result<OwnedFd, io::ErrorKind>; Program::ALL.len()],
    /// Links that keep the programs attached.
    links: BTreeMap<(InterfaceId, Program), OwnedFd>,
    /// Buffer for packets whose checksum had to be completed.
    spare: Vec<u8>,
}

impl Interceptor {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel refuses the ring, or even the programs of RSVP.
    pub(super) fn open() -> io::Result<Interceptor> {
        let ring = Ring::new("earmark_messages", RING)?;
        let numbers: Map<4, 4> = Map::create_array("earmark_ring", RING_NUMBERS)?;
        let mut fast_path = FastPath::new()?;
        let maps = [("messages", ring.descriptor()), ("ring", numbers.descriptor())];
        let maps: Vec<(&str, i32)> = maps.into_iter().chain(fast_path.maps()).collect();
        let load = |program: Program| {
            let (object, section, name) = program.place();
            let code = bpf_object::link(object, section, &maps)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            bpf::load_classifier(name, &code, LICENSE)
        };
        let rsvp = load(Program::Groups)?;
        let mut programs = Program::ALL.map(|program| match program {
            Program::Groups => Err(io::ErrorKind::NotFound),
            program => load(program).map_err(|error| {
                tracing::info!(%error, ?program, "a program is not loaded");
                error.kind()
            }),
        });
        programs[Program::Groups as usize] = Ok(rsvp);
        if let Ok(boomerang) = &programs[Program::Boomerang as usize] {
            fast_path.set_program(boomerang.as_fd())?;
        }
        let links = BTreeMap::new();
        Ok(Interceptor { ring, numbers, fast_path, programs, links, spare: Vec::new() })
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
        for (program, loaded) in Program::ALL.into_iter().zip(&self.programs) {
            if !program.is_wanted(how) || self.links.contains_key(&(interface, program)) {
                continue;
            }
            // The new program runs after the old one, which intercepts what both would: nothing arrives twice.
            let link = loaded
                .as_ref()
                .map_err(|&kind| kind.into())
                .and_then(|loaded| bpf::link_way_in(loaded.as_fd(), interface.0));
            match link {
                Ok(link) => {
                    self.links.insert((interface, program), link);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        self.links.retain(|&(on, program), _| on != interface || program.is_wanted(how));
        outcome
    }

    /// Detaches all programs from an interface.
    pub(super) fn detach(&mut self, interface: InterfaceId) {
        self.links.retain(|&(on, _), _| on != interface);
    }

    /// Returns what the interface's settings for Boomerang, YESSIR and GIST require and is not attached.
    pub(super) fn missing(
        &self,
        interface: InterfaceId,
        how: &InterfaceSignalling,
    ) -> InterfaceSignalling {
        let has = |program| self.links.contains_key(&(interface, program));
        InterfaceSignalling {
            boomerang: how.boomerang && !has(Program::Boomerang),
            yessir: if has(Program::Alerted) { Yessir::Off } else { how.yessir },
            gist: if has(Program::Gist) { Gist::Off } else { how.gist },
            ..InterfaceSignalling::default()
        }
    }

    /// Passes at most `most` messages to `each`, `None` for a malformed packet. A message that the daemon handles alone
    /// never follows one that reports a release: the kernel may grant the released bandwidth again until the daemon has
    /// taken it back.
    pub(super) fn read(&mut self, most: usize, mut each: impl FnMut(Option<Incoming<'_>>)) -> Read {
        let Interceptor { ring, spare, fast_path, .. } = self;
        let mut is_returned = false;
        let count = ring.read(most, |record| {
            let number = |at: usize| {
                let octets = record.get(at..).and_then(<[u8]>::first_chunk::<4>);
                octets.copied().map_or(0, u32::from_ne_bytes)
            };
            let [interface, length, protocol, fate] = [0, 4, 8, 12].map(number);
            let share = |at| Share { interface: InterfaceId(number(at)), rate: number(at + 4) };
            let settled = match fate {
                RESERVED => Some(Settled::Reserved(share(16))),
                RELEASED => Some(Settled::Released([share(16), share(24)])),
                _ => None,
            };
            if is_returned && settled.is_none() {
                return ControlFlow::Break(());
            }
            is_returned |= fate == RELEASED;
            let packet = record.get(HEAD..).and_then(|rest| rest.get(..length as usize));
            let found = raw::packet(packet.unwrap_or_default(), interface)
                .filter(|(found, _)| u32::from(*found) == protocol);
            if let Some(settled) = settled {
                let initiator = found.as_ref().and_then(|(_, datagram)| initiator(datagram));
                fast_path.account(&settled, initiator);
            }
            each(found.map(|(protocol, mut datagram)| {
                if protocol == raw::UDP {
                    checksum::finish(&mut datagram, spare);
                }
                Incoming { protocol, is_copy: fate != TAKEN, settled, datagram }
            }));
            ControlFlow::Continue(())
        });
        Read { count, is_returned }
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
    pub(super) is_returned: bool,
}

/// Returns the initiating node of a Boomerang message.
fn initiator(datagram: &Datagram<'_>) -> Option<Ipv4Addr> {
    let is_reply = datagram.payload.first() == Some(&0);
    match if is_reply { datagram.destination } else { datagram.source } {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

impl AsFd for Interceptor {
    /// Returns the descriptor that becomes readable when messages wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
