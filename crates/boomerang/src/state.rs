//! State blocks.
//!
//! A node keeps one [`Session`] per flow, with a [`Half`] for each direction that has passed by here. Fields that few
//! sessions need are in an [`Extra`]. A host's own sessions also have a [`Loop`](crate::loops::Loop).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_token::HeldToken;

use crate::aggregates::Member;
use crate::credential::Accepted;
use crate::selector::Direction;

/// Index of a block in its slab.
pub(crate) type Index = u32;

/// Purpose of the next deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A session may have expired.
    Expiry,
    /// A loop of this host's own is to be sent, for the first time or again.
    Loop,
    /// The first token of a session ends.
    Token,
}

/// A timer: its kind and its block in one number, to keep the timer wheel small with a million timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(u32);

impl Timer {
    /// Bit for loops. No slab has as many blocks.
    const LOOP: u32 = 1 << 31;
    /// The one timer for the ends of tokens.
    pub(crate) const TOKEN: Timer = Timer(u32::MAX);

    pub(crate) fn new(kind: TimerKind, block: Index) -> Timer {
        match kind {
            TimerKind::Expiry => Timer(block),
            TimerKind::Loop => Timer(block | Self::LOOP),
            TimerKind::Token => Self::TOKEN,
        }
    }

    pub(crate) fn kind(self) -> TimerKind {
        match self.0 {
            u32::MAX => TimerKind::Token,
            number if number & Self::LOOP == 0 => TimerKind::Expiry,
            _ => TimerKind::Loop,
        }
    }

    pub(crate) fn block(self) -> Index {
        self.0 & !Self::LOOP
    }
}

/// One session: a flow, and its reservations in each direction.
#[derive(Debug)]
pub(crate) struct Session {
    /// Classifier under the mask: all of it for IPv4, the source address for IPv6, where [`Extra::rest`] has the
    /// rest.
    pub(crate) words: [u64; 2],
    /// Forward and reverse half.
    pub(crate) halves: [Half; 2],
    pub(crate) extra: Option<Box<Extra>>,
    /// Timer that fires no later than the first half expires.
    pub(crate) timer: Option<TimerId>,
    /// The initiating node, and the arrival interface of its requests.
    pub(crate) source: Index,
    /// Far end that the initiating node addresses, if that is an IPv4 address; otherwise 0, and [`Extra::far_end`]
    /// has the address.
    pub(crate) far: u32,
    /// Arrival interface of the far end's replies; [`crate::arrival::NONE`] if none has passed.
    pub(crate) reply_arrival: InterfaceId,
    /// Value of [`crate::Boomerang`]'s route epoch when the halves were last checked against the routes.
    pub(crate) epoch: u32,
    /// Prime that this node multiplies the key with; 0 if it has not locked the session.
    pub(crate) prime: u32,
    /// Number of the mask.
    pub(crate) mask: u16,
    /// See [`flag`].
    pub(crate) flags: u16,
}

/// Bits of [`Session::flags`]. While none but those of [`flag::OFFLOAD`] is set, a message that changes nothing is a plain
/// refresh.
pub(crate) mod flag {
    /// The forward half has to be checked against the routes.
    pub(crate) const FORWARD_STALE: u16 = 1 << 0;
    /// The reverse half has to be checked against the routes.
    pub(crate) const REVERSE_STALE: u16 = 1 << 1;
    /// Traffic control has refused the forward half, and the initiating node has not been notified.
    pub(crate) const FORWARD_FAULT: u16 = 1 << 2;
    /// Traffic control has refused the reverse half, and the initiating node has not been notified.
    pub(crate) const REVERSE_FAULT: u16 = 1 << 3;
    /// The prime was multiplied in on the return pass, because only that pass comes by here.
    pub(crate) const LOCKED_ON_RETURN: u16 = 1 << 4;
    /// The initiating node has not returned the key yet, so nothing is installed.
    pub(crate) const LOCKED: u16 = 1 << 5;

    /// The offload handles plain refreshes of the session.
    pub(crate) const OFFLOADED: u16 = 1 << 6;
    /// The offload was asked for refreshes.
    pub(crate) const ASKED: u16 = 1 << 7;

    /// The initiating node has sent one request, and neither repeated it nor received a reply that passed here.
    pub(crate) const FORWARD_UNPROVEN: u16 = 1 << 8;
    /// The reverse half was made by one message, without a request that passed here.
    pub(crate) const REVERSE_UNPROVEN: u16 = 1 << 9;
    /// A request has passed that has reserved nothing here; its reply is expected until the reverse half expires.
    pub(crate) const REPLY_EXPECTED: u16 = 1 << 10;

    /// The session is locked, and has the class that an earlier daemon made for it.
    pub(crate) const ADOPTED: u16 = 1 << 11;

    /// Bits that a refresh may have set.
    pub(crate) const OFFLOAD: u16 = OFFLOADED | ASKED;
    /// Both fault bits.
    pub(crate) const FAULT: u16 = FORWARD_FAULT | REVERSE_FAULT;
    /// Bits of a session whose initiating node is unproven.
    pub(crate) const UNPROVEN: u16 = FORWARD_UNPROVEN | REVERSE_UNPROVEN;
    /// Bits that keep a session without reservations.
    pub(crate) const PENDING: u16 = FAULT | REPLY_EXPECTED;
}

/// Reservation of a session in one direction on its outgoing link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    /// Claim in the ledger; meaningless if `rate` is zero.
    pub(crate) claim: ClaimId,
    /// Expiry time; [`Time::MAX`] if nothing is reserved.
    pub(crate) expires_at: Time,
    /// Reserved rate, bits per second; zero if nothing is reserved.
    pub(crate) rate: u32,
    pub(crate) interface: InterfaceId,
}

impl Half {
    /// The empty half.
    pub(crate) const NONE: Half = Half {
        claim: ClaimId { slot: u32::MAX, generation: 0 },
        expires_at: Time::MAX,
        rate: 0,
        interface: InterfaceId(0),
    };

    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.rate != 0
    }
}

/// Fields that few sessions need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// IPv6: destination address, ports and protocol under the mask.
    pub(crate) rest: [u64; 3],
    /// Far end, if that is an IPv6 address.
    pub(crate) far_end: Option<Ipv6Addr>,
    /// Groups: the reservation on each branch but that of the forward half.
    pub(crate) branches: Vec<Half>,
    /// Membership of its flow in an aggregate of this node.
    pub(crate) member: Option<Member>,
    /// Credentials that were accepted, if they are checked.
    pub(crate) accepted: Option<Accepted>,
    /// Token of the request.
    pub(crate) token: Option<Box<HeldToken>>,
}

/// An initiating node that has sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) address: IpAddr,
    /// Arrival interface of its requests; [`crate::arrival::NONE`] if only replies to it have passed.
    pub(crate) port: InterfaceId,
    pub(crate) sessions: u32,
}

impl Session {
    /// Returns the token of the request.
    #[inline]
    pub(crate) fn token(&self) -> Option<&HeldToken> {
        self.extra.as_ref()?.token.as_deref()
    }

    #[inline]
    pub(crate) fn half(&self, direction: Direction) -> &Half {
        &self.halves[direction as usize]
    }

    #[inline]
    pub(crate) fn half_mut(&mut self, direction: Direction) -> &mut Half {
        &mut self.halves[direction as usize]
    }

    /// Returns the half in a slot: 0 is forward, 1 reverse, 2 and more the branches to a group but the first.
    #[inline]
    pub(crate) fn half_at(&self, slot: usize) -> Half {
        match self.halves.get(slot) {
            Some(half) => *half,
            None => self.branches().get(slot - 2).copied().unwrap_or(Half::NONE),
        }
    }

    /// Returns the half in a slot for change; a missing slot is created.
    #[inline]
    pub(crate) fn half_at_mut(&mut self, slot: usize) -> &mut Half {
        if slot < 2 { &mut self.halves[slot] } else { self.branch_mut(slot) }
    }

    /// Returns the half in a slot for change, if the slot exists.
    #[inline]
    pub(crate) fn known_half_mut(&mut self, slot: usize) -> Option<&mut Half> {
        match slot {
            0 | 1 => Some(&mut self.halves[slot]),
            _ => self.extra.as_mut()?.branches.get_mut(slot - 2),
        }
    }

    /// Empties a slot and returns its half, if the slot exists.
    #[inline]
    pub(crate) fn take_half(&mut self, slot: usize) -> Option<Half> {
        self.known_half_mut(slot).map(|half| core::mem::replace(half, Half::NONE))
    }

    #[cold]
    fn branch_mut(&mut self, slot: usize) -> &mut Half {
        let branches = &mut self.extra.get_or_insert_default().branches;
        if branches.len() <= slot - 2 {
            branches.resize(slot - 1, Half::NONE);
        }
        &mut branches[slot - 2]
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> usize {
        2 + self.branches().len()
    }

    /// Returns the halves on the branches to a group but the first.
    #[inline]
    fn branches(&self) -> &[Half] {
        self.extra.as_ref().map_or(&[], |extra| &extra.branches)
    }

    /// Returns when the first half expires.
    #[inline(always)]
    pub(crate) fn first_end(&self) -> Time {
        let [forward, reverse] = &self.halves;
        let ends = self.branches().iter().map(|half| half.expires_at);
        ends.fold(forward.expires_at.min(reverse.expires_at), Time::min)
    }

    /// Returns whether the session holds nothing, has no fault to report, and expects no reply.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        let [forward, reverse] = &self.halves;
        let nothing = !forward.is_there() && !reverse.is_there();
        nothing && self.flags & flag::PENDING == 0 && !self.branches().iter().any(Half::is_there)
    }
}

impl Direction {
    /// Returns the direction of a slot.
    pub(crate) fn of_slot(slot: usize) -> Direction {
        if slot == 1 { Direction::Reverse } else { Direction::Forward }
    }

    /// Returns the flag of a half whose initiating node is unproven.
    pub(crate) fn unproven(self) -> u16 {
        match self {
            Direction::Forward => flag::FORWARD_UNPROVEN,
            Direction::Reverse => flag::REVERSE_UNPROVEN,
        }
    }

    /// Returns the flag of a half that has to be checked against the routes.
    pub(crate) fn stale(self) -> u16 {
        match self {
            Direction::Forward => flag::FORWARD_STALE,
            Direction::Reverse => flag::REVERSE_STALE,
        }
    }

    /// Returns the flag of a half that traffic control has refused.
    pub(crate) fn fault(self) -> u16 {
        match self {
            Direction::Forward => flag::FORWARD_FAULT,
            Direction::Reverse => flag::REVERSE_FAULT,
        }
    }
}
