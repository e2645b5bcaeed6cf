//! What of Boomerang the kernel does without the daemon (`bpf/boomerang.c`), for IPv4.
//!
//! **Refresh.** The daemon grants, the kernel remembers. What the daemon has entered here lives on without it: a message
//! that would only be sent on as it came, and would write a new time, flows on by itself, and its time is written into the
//! entry. So the daemon looks here before it lets a session expire.
//!
//! **Set-up and release.** The daemon may lend the kernel a share of a link ([`FastPath::lend`]), having kept that out of the
//! ledger, and let it set up so many sessions of an initiating node ([`FastPath::allow`]), so that limits hold. A session
//! that names all five keys exactly, and fits both, is then entered by the kernel, and one that is released gives its rate
//! to the share. The daemon has a copy of each such message ([`super::Settled`]) but is not woken for it:
//! who lends looks every now and then, and always before it answers somebody who asks what is reserved. For each copy it
//! does what it would have done for the message, but for sending it on; what it claims or gives up thereby is what
//! the share has lost or won. Until it has looked, packets of the new session go with best effort.
//!
//! Everything else that a message can say goes to the daemon, which then enters the session anew, or takes it out. An entry
//! must not be made for a session that this host is an end of, that is locked by a key, aggregated, or refreshed with an
//! option, or whose interval this node would lower: those messages are changed or answered on every pass. Nor may
//! anything be lent where the daemon would look at more than rates and limits before it grants: keys, or credentials.

mod loans;

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use earmark_core::InterfaceId;

use self::loans::Loans;
use super::settings::{Settled, Share};
use crate::sys::bpf::Map;
use crate::sys::bpf_run;

/// Most sessions. The kernel sets sixteen octets aside for each, and takes a hundred more for those that are there.
const SESSIONS: u32 = 1 << 18;
/// Octets of `struct keys` and `struct session`.
const KEYS: usize = 32;
const SESSION: usize = 64;
/// Most links of which a share can be lent.
const LINKS: u32 = 1_024;
/// Most initiating nodes that may be let set up sessions.
const INITIATORS: u32 = 4_096;
/// What is said once for all sessions, by its number in the map `node`: which time it is, the longest interval of sessions
/// that the kernel may set up, and counts of what has flowed on: refreshes and others, echoes and replies of each.
const NODE_EPOCH: [u8; 4] = 0_u32.to_ne_bytes();
const NODE_INTERVAL: [u8; 4] = 1_u32.to_ne_bytes();
const NODE_REFRESHES: [[u8; 4]; 2] = [2_u32.to_ne_bytes(), 3_u32.to_ne_bytes()];
const NODE_OTHERS: [[u8; 4]; 2] = [4_u32.to_ne_bytes(), 5_u32.to_ne_bytes()];
const NODE_NUMBERS: u32 = 6;
/// Where things are in `struct session`.
const EPOCH: usize = 4;
const INTERVAL: usize = 8;
const HALVES: [usize; 2] = [16, 40];
/// A program's answer to a packet that goes on (`TCX_NEXT`).
const NEXT: u32 = u32::MAX;
/// An Ethernet header for IPv4, to and from nobody.
const ETHERNET: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00];

/// Which session: classifier and mask, octet for octet as its messages have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FastKey {
    /// Classifier for IPv4.
    pub classifier: [u8; 16],
    /// Its mask.
    pub mask: [u8; 16],
}

/// What its messages say while nothing changes, and what is reserved for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSession {
    /// Who sends echoes and gets their replies.
    pub initiator: Ipv4Addr,
    /// Seconds between refreshes.
    pub interval: u8,
    /// What is reserved here in the direction of the echo; `None` where that does not come by here.
    pub forward: Option<Share>,
    /// Likewise in the direction of the reply.
    pub reverse: Option<Share>,
}

/// What the kernel has seen of one direction of a session since it was entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many refreshes, counted up to 2^32.
    pub refreshes: u32,
    /// How long ago the last was, or the set-up by the kernel, to some milliseconds; `None` where there was neither.
    pub ago: Option<Duration>,
}

/// A session as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSession {
    /// Seconds between refreshes.
    pub interval: u8,
    /// In the direction of the echo.
    pub forward: Seen,
    /// In the direction of the reply.
    pub reverse: Seen,
}

/// Messages that have flowed on without a word, since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedMessages {
    /// Echoes.
    pub requests: u64,
    /// Replies.
    pub replies: u64,
    /// How many of both have refreshed what their session has in their direction.
    pub refreshes: u64,
}

/// The sessions, shared with the kernel.
#[derive(Debug)]
pub struct FastPath {
    sessions: Map<KEYS, SESSION>,
    node: Map<4, 8>,
    /// Bits per second, by interface.
    links: Loans,
    /// Set-ups of half sessions, by initiating node.
    initiators: Loans,
    /// The initiating nodes in the order in which they were entered.
    order: VecDeque<[u8; 4]>,
    /// `None` until it is loaded.
    program: Option<OwnedFd>,
}

impl FastPath {
    pub(super) fn new() -> io::Result<FastPath> {
        Ok(FastPath {
            sessions: Map::create("earmark_session", SESSIONS)?,
            node: Map::create_array("earmark_node", NODE_NUMBERS)?,
            links: Loans::create(["earmark_links", "earmark_shares"], LINKS)?,
            initiators: Loans::create(["earmark_nodes", "earmark_allowed"], INITIATORS)?,
            order: VecDeque::new(),
            program: None,
        })
    }

    /// The maps, by their symbols in the program.
    pub(super) fn maps(&self) -> [(&'static str, i32); 6] {
        let [links, shares] = self.links.descriptors();
        let [initiators, allowances] = self.initiators.descriptors();
        [
            ("sessions", self.sessions.descriptor()),
            ("node", self.node.descriptor()),
            ("links", links),
            ("shares", shares),
            ("initiators", initiators),
            ("allowances", allowances),
        ]
    }

    pub(super) fn set_program(&mut self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.program = Some(program.try_clone_to_owned()?);
        Ok(())
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.program.is_some()
    }

    /// Lets the kernel refresh a session from now on; what it has seen of it before is forgotten.
    ///
    /// # Errors
    /// `E2BIG`: there are as many as there can be. The daemon goes on to do it then.
    pub fn set(&self, key: &FastKey, session: &FastSession) -> io::Result<()> {
        let mut value = [0; SESSION];
        value[..EPOCH].copy_from_slice(&session.initiator.octets());
        value[EPOCH..INTERVAL].copy_from_slice(&self.epoch()?.to_ne_bytes());
        value[INTERVAL] = session.interval;
        for (at, share) in HALVES.into_iter().zip([session.forward, session.reverse]) {
            if let Some(Share { interface, rate }) = share {
                value[at..at + 4].copy_from_slice(&rate.to_be_bytes());
                value[at + 16..at + 20].copy_from_slice(&interface.0.to_ne_bytes());
            }
        }
        self.sessions.set(&octets_of(key), &value)
    }

    /// Hands all messages of a session to the daemon from now on, set-ups too.
    ///
    /// # Errors
    /// `E2BIG`: there are as many sessions as there can be.
    pub fn withhold(&self, key: &FastKey) -> io::Result<()> {
        let mut value = [0; SESSION];
        // As of the time before this one: no such entry counts.
        value[EPOCH..INTERVAL].copy_from_slice(&self.epoch()?.wrapping_sub(1).to_ne_bytes());
        self.sessions.set(&octets_of(key), &value)
    }

    /// Forgets a session; its next message comes to the daemon unless the kernel can set it up anew. Returns whether it was there.
    pub fn remove(&self, key: &FastKey) -> io::Result<bool> {
        self.sessions.remove(&octets_of(key))
    }

    /// What the kernel has seen of a session; `None` where it is not entered.
    pub fn seen(&self, key: &FastKey) -> io::Result<Option<SeenSession>> {
        let Some(value) = self.sessions.get(&octets_of(key))? else { return Ok(None) };
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        let [forward, reverse] = HALVES.map(|at| {
            let last = Duration::from_nanos(number::<8>(&value, at + 8));
            Seen {
                refreshes: number::<4>(&value, at + 4) as u32,
                ago: (!last.is_zero()).then(|| now.saturating_sub(last)),
            }
        });
        Ok(Some(SeenSession { interval: value[INTERVAL], forward, reverse }))
    }

    /// Hands the next message of every session to the daemon: routes may have changed, or interfaces. Each session that
    /// is then set again is refreshed by the kernel again. It takes the same time however many there are.
    pub fn suspend_all(&self) -> io::Result<()> {
        let next = u64::from(self.epoch()?.wrapping_add(1));
        self.node.set(&NODE_EPOCH, &next.to_ne_bytes())
    }

    /// Lets the kernel set up sessions whose interval is at most this, where it has been lent something; `None`: none.
    pub fn set_longest_interval(&self, seconds: Option<u8>) -> io::Result<()> {
        self.node.set(&NODE_INTERVAL, &u64::from(seconds.unwrap_or(0)).to_ne_bytes())
    }

    /// Lends the kernel this much of a link, bits per second, in place of what it had; returns what it has now: more than
    /// that where it has given part of it away already and the daemon has not read the copy yet. This much must be kept
    /// out of the ledger, before where it becomes more, and after where it becomes less.
    ///
    /// # Errors
    /// `E2BIG`: there are too many links.
    pub fn lend(&mut self, interface: InterfaceId, rate: u64) -> io::Result<u64> {
        self.links.lend(interface.0.to_ne_bytes(), rate)?;
        self.share(interface)
    }

    /// What the kernel has of a link, bits per second: lent to it, and not known to the daemon as a session's.
    pub fn share(&self, interface: InterfaceId) -> io::Result<u64> {
        self.links.outstanding(interface.0.to_ne_bytes())
    }

    /// A link has gone, and what was lent of it.
    pub fn forget(&mut self, interface: InterfaceId) -> io::Result<()> {
        self.links.end(interface.0.to_ne_bytes())
    }

    /// Lets the kernel set up so many half sessions of an initiating node before it asks the daemon again, in place of what
    /// it was let. Where this is known of more nodes than there is room for, the first of them has to ask again.
    pub fn allow(&mut self, initiator: Ipv4Addr, set_ups: u32) -> io::Result<()> {
        let key = initiator.octets();
        let (wanted, has) = (u64::from(set_ups), self.initiators.lent(key));
        // Not each taking is worth a system call.
        if has.is_some_and(|has| (wanted.div_ceil(2)..=wanted).contains(&has)) {
            return Ok(());
        }
        if has.is_none() {
            if self.initiators.len() >= INITIATORS as usize
                && let Some(first) = self.order.pop_front()
            {
                self.initiators.end(first)?;
            }
            self.order.push_back(key);
        }
        self.initiators.lend(key, wanted)
    }

    /// How many half sessions of an initiating node the kernel may still set up, as far as the daemon has read the copies;
    /// `None` where it has never been let.
    pub fn allowance(&self, initiator: Ipv4Addr) -> Option<u64> {
        self.initiators.lent(initiator.octets())
    }

    /// Takes note of what a copy of a message of this initiating node tells.
    pub(super) fn account(&mut self, settled: &Settled, initiator: Option<Ipv4Addr>) {
        let mut learn = |share: &Share, is_returned| {
            self.links.learn(share.interface.0.to_ne_bytes(), share.rate.into(), is_returned);
        };
        match settled {
            Settled::Reserved(share) => {
                learn(share, false);
                if let Some(initiator) = initiator {
                    self.initiators.learn(initiator.octets(), 1, false);
                }
            }
            Settled::Released(shares) => shares.iter().for_each(|share| learn(share, true)),
        }
    }

    /// How many messages have flowed on without the daemon, and without a copy for it.
    pub fn passed(&self) -> io::Result<PassedMessages> {
        let number = |key| io::Result::Ok(self.node.get(key)?.map_or(0, u64::from_ne_bytes));
        let refreshes = [number(&NODE_REFRESHES[0])?, number(&NODE_REFRESHES[1])?];
        let others = [number(&NODE_OTHERS[0])?, number(&NODE_OTHERS[1])?];
        Ok(PassedMessages {
            requests: refreshes[0].wrapping_add(others[0]),
            replies: refreshes[1].wrapping_add(others[1]),
            refreshes: refreshes[0].wrapping_add(refreshes[1]),
        })
    }

    /// Has the kernel run the program on an IPv4 packet so many times, as if it came through the loopback interface of
    /// the calling thread's namespace; gives how long one run took. A message of Boomerang counts as one.
    ///
    /// # Errors
    /// `InvalidInput` for a packet that the program would hand to the daemon; the kernel's answers. Takes CAP_BPF.
    pub fn time(&self, packet: &[u8], times: u32) -> io::Result<Duration> {
        let program = self.program.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let frame = [&ETHERNET, packet].concat();
        match bpf_run::run(program.as_fd(), &frame, times)? {
            (NEXT, time) => Ok(time),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn epoch(&self) -> io::Result<u32> {
        let epoch = self.node.get(&NODE_EPOCH)?.map_or(0, u64::from_ne_bytes);
        Ok(epoch as u32) // never written as more
    }
}

fn octets_of(key: &FastKey) -> [u8; KEYS] {
    let mut octets = [0; KEYS];
    octets[..16].copy_from_slice(&key.classifier);
    octets[16..].copy_from_slice(&key.mask);
    octets
}

/// A number as the object has it: with the least significant octet first.
fn number<const N: usize>(octets: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(octets.get(at..at + N).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(wide)
}
