//! Taking messages out of arriving packets by BPF, where raw sockets do not get them.
//!
//! A raw socket sees a packet in transit only if it carries router alert, and in the case of multicast only while the
//! kernel routes multicast, and in IPv6 not even then. A program in the way in of an interface (TCX, Linux 6.6 and
//! later) sees all: what it takes comes here through a ring buffer, whole, and nothing else of it goes on.
//!
//! Programs are loaded while the process has the right to (CAP_BPF); hanging one into an interface takes CAP_NET_ADMIN.
//! They hang by links that this process holds: when it dies in any way, packets flow as if it had never been there.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::InterfaceId;

use crate::bpf_object::{self, INTERCEPT};
use crate::sys::bpf::{self, Map};
use crate::sys::ring::Ring;

/// Octets of the ring: four thousand messages of at most 512 octets.
const RING: u32 = 2 << 20;
/// Octets of `struct message` before the packet.
const HEAD: usize = 8;
/// One of the licences that the source names.
const LICENSE: &str = "MIT";

/// Which messages are taken out of the packets that arrive through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intercept {
    /// Those that ask for it by router alert, those for this host, and those to groups.
    #[default]
    RouterAlert,
    /// All of protocol 46, for neighbours that never set router alert.
    Protocol,
}

/// The programs, the ring that they write into, and the interfaces in which they hang.
#[derive(Debug)]
pub(super) struct Interceptor {
    ring: Ring,
    lost: Map<4, 4>,
    groups: OwnedFd,
    all: OwnedFd,
    /// What holds each program in its place.
    links: BTreeMap<InterfaceId, (Intercept, OwnedFd)>,
}

impl Interceptor {
    /// Loads the programs.
    pub(super) fn open() -> io::Result<Interceptor> {
        let ring = Ring::new("earmark_rsvp", RING)?;
        let lost: Map<4, 4> = Map::create("earmark_lost", 1)?;
        lost.set(&[0; 4], &[0; 4])?;
        let maps = [("messages", ring.descriptor()), ("lost", lost.descriptor())];
        let load = |section, name| {
            let code = bpf_object::link(INTERCEPT, section, &maps)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            bpf::load_classifier(name, &code, LICENSE)
        };
        let groups = load("groups", "earmark_groups")?;
        let all = load("all", "earmark_all")?;
        Ok(Interceptor { ring, lost, groups, all, links: BTreeMap::new() })
    }

    /// Hangs the program for `what` into an interface, in place of the other one.
    pub(super) fn attach(&mut self, interface: InterfaceId, what: Intercept) -> io::Result<()> {
        if self.links.get(&interface).is_some_and(|(present, _)| *present == what) {
            return Ok(());
        }
        let program = match what {
            Intercept::RouterAlert => &self.groups,
            Intercept::Protocol => &self.all,
        };
        // The new one hangs behind the old one, which takes what both would: nothing comes twice.
        let link = bpf::link_way_in(program.as_fd(), interface.0)?;
        self.links.insert(interface, (what, link));
        Ok(())
    }

    /// Lets packets of an interface alone.
    pub(super) fn detach(&mut self, interface: InterfaceId) {
        self.links.remove(&interface);
    }

    /// Hands out at most `most` packets, each with the index of its interface; returns how many.
    pub(super) fn read(&mut self, most: usize, mut each: impl FnMut(&[u8], u32)) -> usize {
        self.ring.read(most, |record| {
            let number = |at: usize| {
                let octets = record.get(at..).and_then(<[u8]>::first_chunk::<4>);
                octets.copied().map_or(0, u32::from_ne_bytes)
            };
            let packet = record.get(HEAD..).and_then(|rest| rest.get(..number(4) as usize));
            each(packet.unwrap_or_default(), number(0));
        })
    }

    /// How many messages the ring had no room for.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get(&[0; 4]).ok().flatten().map_or(0, u32::from_ne_bytes).into()
    }
}

impl AsFd for Interceptor {
    /// The descriptor that becomes readable when messages wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
