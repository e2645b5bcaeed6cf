//! Boomerang in the kernel without the daemon (`bpf/boomerang.c`), for IPv4.
//!
//! **Refresh.** Sessions that the daemon has granted and entered here are refreshed without it: a message that would
//! only be forwarded unchanged, and would only update a time, is forwarded by the kernel, which writes its time into
//! the entry. So the daemon checks the entry before it lets a session expire.
//!
//! **Setup and release.** The daemon may delegate a share of a link to the kernel ([`Offload::delegate`]), which it
//! keeps out of the ledger, and let the kernel set up a number of sessions of an initiating node ([`Offload::allow`]),
//! so that limits hold. The kernel then enters a session that names all five keys exactly and fits both limits, and
//! adds the rate of a released session to the share. The daemon receives a copy of each such message ([`ShareChange`])
//! but is not woken for it: a daemon that delegates reads the copies periodically, and always before it answers a
//! request for the reserved rates. For each copy it does what it would have done for the message, except forwarding it;
//! what it claims or releases thereby is what the share has lost or gained. Until the copy is read, packets of the new
//! session are sent with best effort.
//!
//! Everything else in a message goes to the daemon, which then enters the session again, or removes it. A session must
//! not be entered if this host is an end of it, if it is locked by a key, aggregated, or refreshed with an option, or
//! if this node would lower its interval: those messages are changed or answered on every pass. Nor may anything be
//! delegated if the daemon would check more than rates and limits before it grants: keys, or credentials.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use earmark_core::{Datagram, InterfaceId};

use super::delegation::Delegation;
use crate::sys::bpf::Map;
use crate::sys::bpf_run;

/// Section of the object that holds the program.
pub(super) const SECTION: &str = "boomerang";
/// Maximum number of sessions. The kernel reserves sixteen octets for each, and a hundred more for existing ones.
const SESSIONS: u32 = 1 << 18;
/// Octets of `struct keys`, `struct source` and `struct session`.
const KEYS: usize = 32;
const SOURCE: usize = 8;
const SESSION: usize = 64;
/// Maximum number of links with a delegated share.
const LINKS: u32 = 1_024;
/// Maximum number of initiating nodes that may set up sessions in the kernel.
const INITIATORS: u32 = 4_096;
/// Values for all sessions, by their index in the map `node`: the current epoch, the longest interval of sessions that
/// the kernel may set up, and counts of forwarded messages: refreshes and others, echoes and replies of each.
const NODE_EPOCH: [u8; 4] = 0_u32.to_ne_bytes();
const NODE_INTERVAL: [u8; 4] = 1_u32.to_ne_bytes();
const NODE_REFRESHES: [[u8; 4]; 2] = [2_u32.to_ne_bytes(), 3_u32.to_ne_bytes()];
const NODE_OTHERS: [[u8; 4]; 2] = [4_u32.to_ne_bytes(), 5_u32.to_ne_bytes()];
const NODE_NUMBERS: u32 = 6;
/// Offsets in `struct session`.
const EPOCH: usize = 4;
const INTERVAL: usize = 8;
const FAR_END: usize = 12;
const HALVES: [usize; 2] = [16, 40];
/// Offset of the classifier in a message, which the mask follows.
const CLASSIFIER: usize = 32;
/// The program's verdict for a packet that continues (`TCX_NEXT`).
const NEXT: u32 = u32::MAX;
/// An Ethernet header for IPv4 with zero addresses.
const ETHERNET: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00];

/// Identity of a session: classifier and mask, octet for octet as in its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffloadKey {
    /// Classifier for IPv4.
    pub classifier: [u8; 16],
    /// Mask of the classifier.
    pub mask: [u8; 16],
}

/// Content of the session's messages while nothing changes, and its reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadSession {
    /// Node that sends echoes and receives the replies.
    pub initiator: Ipv4Addr,
    /// Node that receives echoes and sends the replies.
    pub far_end: Ipv4Addr,
    /// Arrival interfaces of echoes and of replies; 0 if none has passed.
    pub arrivals: [InterfaceId; 2],
    /// Seconds between refreshes.
    pub interval: u8,
    /// Reservation here in the direction of the echo; `None` if the echo does not pass this node.
    pub forward: Option<Share>,
    /// Reservation here in the direction of the reply; `None` if the reply does not pass this node.
    pub reverse: Option<Share>,
}

/// A part of a link's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Bits per second.
    pub rate: u32,
}

/// A change of delegated shares that the kernel has made for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareChange {
    /// The kernel has taken this from the share of a link.
    Reserved(Share),
    /// The kernel has added these to the shares of links; a rate of zero means no share.
    Released([Share; 2]),
}

/// Refreshes of one direction of a session since it was entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Number of refreshes, modulo 2^32.
    pub refreshes: u32,
    /// Time since the last refresh, or the setup by the kernel, to some milliseconds; `None` if there was neither.
    pub ago: Option<Duration>,
}

/// State of a session in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionActivity {
    /// Seconds between refreshes.
    pub interval: u8,
    /// Direction of the echo.
    pub forward: Activity,
    /// Direction of the reply.
    pub reverse: Activity,
}

/// Messages that the kernel forwarded without a copy for the daemon, since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedMessages {
    /// Echoes.
    pub requests: u64,
    /// Replies.
    pub replies: u64,
    /// Echoes and replies that refreshed a reservation in their direction.
    pub refreshes: u64,
}

/// The sessions, shared with the kernel.
#[derive(Debug)]
pub struct Offload {
    sessions: Map<KEYS, SESSION>,
    node: Map<4, 8>,
    /// Delegated bits per second, by interface.
    links: Delegation<4>,
    /// Permitted setups of half sessions, by initiating node and arrival interface.
    initiators: Delegation<SOURCE>,
    /// The initiating nodes in the order of their entry.
    order: VecDeque<[u8; SOURCE]>,
    /// `None` until it is loaded.
    program: Option<OwnedFd>,
}

impl Offload {
    pub(crate) fn new() -> io::Result<Offload> {
        Ok(Offload {
            sessions: Map::create("earmark_session", SESSIONS)?,
            node: Map::create_array("earmark_node", NODE_NUMBERS)?,
            links: Delegation::create(["earmark_links", "earmark_shares"], LINKS)?,
            initiators: Delegation::create(["earmark_nodes", "earmark_allowed"], INITIATORS)?,
            order: VecDeque::new(),
            program: None,
        })
    }

    /// Returns the maps, by their symbols in the program.
    pub(crate) fn maps(&self) -> [(&'static str, i32); 6] {
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

    /// Uses a program that was loaded from a section, if it is the one of these sessions.
    pub(crate) fn set_program(&mut self, section: &str, program: BorrowedFd<'_>) -> io::Result<()> {
        if section == SECTION {
            self.program = Some(program.try_clone_to_owned()?);
        }
        Ok(())
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.program.is_some()
    }

    /// Makes the kernel refresh a session from now on; clears what it has recorded of it before.
    ///
    /// # Errors
    /// `E2BIG`: the limit of sessions is reached. The daemon then continues to refresh the session itself.
    pub fn set(&self, key: &OffloadKey, session: &OffloadSession) -> io::Result<()> {
        let mut value = [0; SESSION];
        value[..EPOCH].copy_from_slice(&session.initiator.octets());
        value[EPOCH..INTERVAL].copy_from_slice(&self.epoch()?.to_ne_bytes());
        value[INTERVAL] = session.interval;
        value[FAR_END..FAR_END + 4].copy_from_slice(&session.far_end.octets());
        for (at, arrival) in HALVES.into_iter().zip(session.arrivals) {
            value[at + 20..at + 24].copy_from_slice(&arrival.0.to_ne_bytes());
        }
        for (at, share) in HALVES.into_iter().zip([session.forward, session.reverse]) {
            if let Some(Share { interface, rate }) = share {
                value[at..at + 4].copy_from_slice(&rate.to_be_bytes());
                value[at + 16..at + 20].copy_from_slice(&interface.0.to_ne_bytes());
            }
        }
        self.sessions.set(&octets_of(key), &value)
    }

    /// Makes the kernel pass all messages of a session to the daemon from now on, setups too.
    ///
    /// # Errors
    /// `E2BIG`: the limit of sessions is reached.
    pub fn exclude(&self, key: &OffloadKey) -> io::Result<()> {
        let mut value = [0; SESSION];
        // The previous epoch: the kernel ignores such an entry.
        value[EPOCH..INTERVAL].copy_from_slice(&self.epoch()?.wrapping_sub(1).to_ne_bytes());
        self.sessions.set(&octets_of(key), &value)
    }

    /// Removes a session; its next message goes to the daemon unless the kernel can set it up again. Returns whether it
    /// was present.
    pub fn remove(&self, key: &OffloadKey) -> io::Result<bool> {
        self.sessions.remove(&octets_of(key))
    }

    /// Returns what the kernel has recorded of a session; `None` if it is not entered.
    pub fn activity(&self, key: &OffloadKey) -> io::Result<Option<SessionActivity>> {
        let Some(value) = self.sessions.get(&octets_of(key))? else { return Ok(None) };
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        let [forward, reverse] = HALVES.map(|at| {
            let last = Duration::from_nanos(number::<8>(&value, at + 8));
            Activity {
                refreshes: number::<4>(&value, at + 4) as u32,
                ago: (!last.is_zero()).then(|| now.saturating_sub(last)),
            }
        });
        Ok(Some(SessionActivity { interval: value[INTERVAL], forward, reverse }))
    }

    /// Makes the kernel pass the next message of every session to the daemon: routes may have changed, or interfaces.
    /// The kernel refreshes each session again once it is set again. Takes constant time for any number of sessions.
    pub fn suspend_all(&self) -> io::Result<()> {
        let next = u64::from(self.epoch()?.wrapping_add(1));
        self.node.set(&NODE_EPOCH, &next.to_ne_bytes())
    }

    /// Lets the kernel set up sessions with at most this interval, within its share; `None`: no sessions.
    pub fn set_longest_interval(&self, seconds: Option<u8>) -> io::Result<()> {
        self.node.set(&NODE_INTERVAL, &u64::from(seconds.unwrap_or(0)).to_ne_bytes())
    }

    /// Delegates this much of a link to the kernel, bits per second, in place of its previous share. Returns what it
    /// has now: more than that if it has granted a part already and the daemon has not read the copy yet. This much
    /// must be kept out of the ledger: before an increase, and after a decrease.
    ///
    /// # Errors
    /// `E2BIG`: the limit of links is reached.
    pub fn delegate(&mut self, interface: InterfaceId, rate: u64) -> io::Result<u64> {
        self.links.delegate(interface.0.to_ne_bytes(), rate)?;
        self.share(interface)
    }

    /// Returns the kernel's share of a link, bits per second: delegated, and not known to the daemon as a session's.
    pub fn share(&self, interface: InterfaceId) -> io::Result<u64> {
        self.links.outstanding(interface.0.to_ne_bytes())
    }

    /// Removes a link and its delegated share.
    pub fn remove_link(&mut self, interface: InterfaceId) -> io::Result<()> {
        self.links.remove(interface.0.to_ne_bytes())
    }

    /// Lets the kernel set up this many half sessions of an initiating node whose requests arrive through an interface
    /// before it asks the daemon again, in place of the previous number. At the limit of nodes, the permission of the oldest entry is removed.
    pub fn allow(
        &mut self,
        initiator: Ipv4Addr,
        arrival: InterfaceId,
        set_ups: u32,
    ) -> io::Result<()> {
        let key = source_key(initiator, arrival);
        let (wanted, has) = (u64::from(set_ups), self.initiators.delegated(key));
        // Small changes are not worth a system call.
        if has.is_some_and(|has| (wanted.div_ceil(2)..=wanted).contains(&has)) {
            return Ok(());
        }
        if has.is_none() {
            if self.initiators.len() >= INITIATORS as usize
                && let Some(first) = self.order.pop_front()
            {
                self.initiators.remove(first)?;
            }
            self.order.push_back(key);
        }
        self.initiators.delegate(key, wanted)
    }

    /// Returns how many half sessions of an initiating node the kernel may still set up, as far as the daemon has read
    /// the copies; `None` if the node has no entry.
    pub fn allowance(&self, initiator: Ipv4Addr, arrival: InterfaceId) -> Option<u64> {
        self.initiators.delegated(source_key(initiator, arrival))
    }

    /// Accounts for the copy of a message; `None` if it is malformed.
    pub(crate) fn account(&mut self, change: &ShareChange, message: Option<&Datagram<'_>>) {
        let mut account_for = |share: &Share, is_returned| {
            self.links.account(share.interface.0.to_ne_bytes(), share.rate.into(), is_returned);
        };
        match change {
            ShareChange::Reserved(share) => {
                account_for(share, false);
                if let Some(source) = message.and_then(|message| self.source(message)) {
                    self.initiators.account(source, 1, false);
                }
            }
            ShareChange::Released(shares) => {
                shares.iter().for_each(|share| account_for(share, true));
            }
        }
    }

    /// Returns the number of messages forwarded without the daemon and without a copy for it.
    pub fn forwarded(&self) -> io::Result<ForwardedMessages> {
        let number = |key| io::Result::Ok(self.node.get(key)?.map_or(0, u64::from_ne_bytes));
        let refreshes = [number(&NODE_REFRESHES[0])?, number(&NODE_REFRESHES[1])?];
        let others = [number(&NODE_OTHERS[0])?, number(&NODE_OTHERS[1])?];
        Ok(ForwardedMessages {
            requests: refreshes[0].wrapping_add(others[0]),
            replies: refreshes[1].wrapping_add(others[1]),
            refreshes: refreshes[0].wrapping_add(refreshes[1]),
        })
    }

    /// Makes the kernel run the program on an IPv4 packet this many times, as if it had arrived through the loopback
    /// interface of the calling thread's namespace; returns the duration of one run. A message of Boomerang counts as
    /// one.
    ///
    /// # Errors
    /// `InvalidInput` for a packet that the program would pass to the daemon; the kernel's errors. Needs CAP_BPF.
    pub fn measure(&self, packet: &[u8], times: u32) -> io::Result<Duration> {
        let program = self.program.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let frame = [&ETHERNET, packet].concat();
        match bpf_run::run(program.as_fd(), &frame, times)? {
            (NEXT, time) => Ok(time),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns the source that a message of a setup was charged to: a reply is charged like the request.
    fn source(&self, datagram: &Datagram<'_>) -> Option<[u8; SOURCE]> {
        let initiator = initiator(datagram)?;
        let is_reply = datagram.payload.first() == Some(&0);
        if !is_reply {
            return Some(source_key(initiator, datagram.interface));
        }
        let keys = datagram.payload.get(CLASSIFIER..)?.first_chunk::<KEYS>()?;
        let session = self.sessions.get(keys).ok()??;
        let arrival = number::<4>(&session, HALVES[0] + 20) as u32;
        Some(source_key(initiator, InterfaceId(arrival)))
    }

    fn epoch(&self) -> io::Result<u32> {
        let epoch = self.node.get(&NODE_EPOCH)?.map_or(0, u64::from_ne_bytes);
        Ok(epoch as u32) // no larger value is ever written
    }
}

/// Returns the key of an initiating node whose requests arrive through an interface.
fn source_key(initiator: Ipv4Addr, arrival: InterfaceId) -> [u8; SOURCE] {
    let mut key = [0; SOURCE];
    key[..4].copy_from_slice(&initiator.octets());
    key[4..].copy_from_slice(&arrival.0.to_ne_bytes());
    key
}

/// Returns the initiating node of a message.
fn initiator(datagram: &Datagram<'_>) -> Option<Ipv4Addr> {
    let is_reply = datagram.payload.first() == Some(&0);
    match if is_reply { datagram.destination } else { datagram.source } {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn octets_of(key: &OffloadKey) -> [u8; KEYS] {
    let mut octets = [0; KEYS];
    octets[..16].copy_from_slice(&key.classifier);
    octets[16..].copy_from_slice(&key.mask);
    octets
}

/// Reads a little-endian number, as the object has it.
fn number<const N: usize>(octets: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(octets.get(at..at + N).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(wide)
}
