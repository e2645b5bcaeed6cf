//! The state blocks.
//!
//! A node keeps one [`Session`] a flow, with a [`Half`] for each direction that has passed by here. What few sessions need
//! stands apart in an [`Extra`]. A host's own sessions have a [`Loop`](crate::loops::Loop) besides.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::ClaimId;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};

use crate::api::Direction;

/// Place of a block in its slab.
pub(crate) type Index = u32;

/// Why the next deadline exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A session may have been forgotten by its initiating node.
    Expiry,
    /// A loop of this host's own has to be sent, for the first time or again.
    Loop,
}

/// A timer: what for, and for which block. One number, so that the wheel has room for a million of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(u32);

impl Timer {
    /// Set for loops. No slab has as many blocks.
    const LOOP: u32 = 1 << 31;

    pub(crate) fn new(kind: TimerKind, block: Index) -> Timer {
        match kind {
            TimerKind::Expiry => Timer(block),
            TimerKind::Loop => Timer(block | Self::LOOP),
        }
    }

    pub(crate) fn kind(self) -> TimerKind {
        if self.0 & Self::LOOP == 0 { TimerKind::Expiry } else { TimerKind::Loop }
    }

    pub(crate) fn block(self) -> Index {
        self.0 & !Self::LOOP
    }
}

/// One session: a flow, and what it has in each direction.
#[derive(Debug)]
pub(crate) struct Session {
    /// The classifier under the mask: all of it for IPv4, the source address for IPv6, where [`Extra::rest`] has the rest.
    pub(crate) words: [u64; 2],
    /// Forward and reverse.
    pub(crate) halves: [Half; 2],
    pub(crate) extra: Option<Box<Extra>>,
    /// Goes off no later than the first half ends.
    pub(crate) timer: Option<TimerId>,
    /// The initiating node.
    pub(crate) source: Index,
    /// When routes last changed before the halves were checked against them; see [`crate::Boomerang`].
    pub(crate) epoch: u32,
    /// What this node multiplies the key with; 0 where it has not locked the session.
    pub(crate) prime: u32,
    /// Number of the mask.
    pub(crate) mask: u16,
    /// See [`flag`].
    pub(crate) flags: u8,
}

/// Bits of [`Session::flags`]. While none but those of [`OFFLOAD`] is set, a message that says nothing new is a refresh and
/// no more.
pub(crate) mod flag {
    /// The forward half has to be checked against the routes.
    pub(crate) const FORWARD_STALE: u8 = 1 << 0;
    /// The reverse half has.
    pub(crate) const REVERSE_STALE: u8 = 1 << 1;
    /// Traffic control has refused the forward half, and the initiating node does not know yet.
    pub(crate) const FORWARD_FAULT: u8 = 1 << 2;
    /// Likewise the reverse half.
    pub(crate) const REVERSE_FAULT: u8 = 1 << 3;
    /// The prime was multiplied in on the way back, because only that comes by here.
    pub(crate) const LOCKED_ON_RETURN: u8 = 1 << 4;
    /// The initiating node has not shown the key yet, so nothing is installed.
    pub(crate) const LOCKED: u8 = 1 << 5;

    /// Plain refreshes of the session do not come here.
    pub(crate) const OFFLOADED: u8 = 1 << 6;
    /// It was asked whether there were any.
    pub(crate) const ASKED: u8 = 1 << 7;

    /// What does not keep a message from being a refresh and no more.
    pub(crate) const OFFLOAD: u8 = OFFLOADED | ASKED;
    /// The faults.
    pub(crate) const FAULT: u8 = FORWARD_FAULT | REVERSE_FAULT;
}

/// What a session has in one direction on its outgoing link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    /// Without meaning where `rate` is zero.
    pub(crate) claim: ClaimId,
    /// When it ends; [`Time::MAX`] where there is nothing.
    pub(crate) expires_at: Time,
    /// What it has, bits per second; zero where there is nothing.
    pub(crate) rate: u32,
    pub(crate) interface: InterfaceId,
}

impl Half {
    /// Nothing.
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

/// What few sessions have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// IPv6: destination address, ports and protocol under the mask.
    pub(crate) rest: [u64; 3],
    /// To a group: what each branch but the one of the forward half has.
    pub(crate) branches: Vec<Half>,
    /// The place of its flow in an aggregate of this node.
    pub(crate) member: Option<crate::aggregate::Member>,
}

/// An initiating node that sessions belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) address: IpAddr,
    pub(crate) sessions: u32,
}

impl Session {
    #[inline]
    pub(crate) fn half(&self, direction: Direction) -> &Half {
        &self.halves[direction as usize]
    }

    #[inline]
    pub(crate) fn half_mut(&mut self, direction: Direction) -> &mut Half {
        &mut self.halves[direction as usize]
    }

    /// What it has in a slot: 0 is forward, 1 reverse, 2 and more the branches to a group but the first.
    #[inline]
    pub(crate) fn half_at(&self, slot: usize) -> Half {
        match self.halves.get(slot) {
            Some(half) => *half,
            None => self.branches().get(slot - 2).copied().unwrap_or(Half::NONE),
        }
    }

    /// Likewise; a slot that is not there is made.
    #[inline]
    pub(crate) fn half_at_mut(&mut self, slot: usize) -> &mut Half {
        if slot < 2 { &mut self.halves[slot] } else { self.branch_mut(slot) }
    }

    /// Likewise, if the slot is there.
    #[inline]
    pub(crate) fn known_half_mut(&mut self, slot: usize) -> Option<&mut Half> {
        match slot {
            0 | 1 => Some(&mut self.halves[slot]),
            _ => self.extra.as_mut()?.branches.get_mut(slot - 2),
        }
    }

    /// Takes what it has out of a slot, if the slot is there.
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

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        2 + self.branches().len()
    }

    /// What it has on the branches to a group but the first.
    #[inline]
    fn branches(&self) -> &[Half] {
        self.extra.as_ref().map_or(&[], |extra| &extra.branches)
    }

    /// When the first of what it has ends.
    pub(crate) fn first_end(&self) -> Time {
        let [forward, reverse] = &self.halves;
        let ends = self.branches().iter().map(|half| half.expires_at);
        ends.fold(forward.expires_at.min(reverse.expires_at), Time::min)
    }

    /// Whether it has nothing, and nobody has to be told why.
    pub(crate) fn is_empty(&self) -> bool {
        let [forward, reverse] = &self.halves;
        let nothing = !forward.is_there() && !reverse.is_there();
        nothing && self.flags & flag::FAULT == 0 && !self.branches().iter().any(Half::is_there)
    }
}

impl Direction {
    /// Of what stands in a slot.
    pub(crate) fn of_slot(slot: usize) -> Direction {
        if slot == 1 { Direction::Reverse } else { Direction::Forward }
    }

    /// The bit that says that the half has to be checked against the routes.
    pub(crate) fn stale(self) -> u8 {
        match self {
            Direction::Forward => flag::FORWARD_STALE,
            Direction::Reverse => flag::REVERSE_STALE,
        }
    }

    /// The bit that says that traffic control has refused the half.
    pub(crate) fn fault(self) -> u8 {
        match self {
            Direction::Forward => flag::FORWARD_FAULT,
            Direction::Reverse => flag::REVERSE_FAULT,
        }
    }
}
