//! The participation record: an option of Earmark in which the nodes of a loop count themselves.
//!
//! Ordinary hosts echo the option like all data, and nodes that do not know it forward it. The initiator thus learns
//! which nodes take part and how many routers between them do not: each router decrements the TTL, and each
//! participating node records the TTL with which it forwards the message.
//!
//! ```text
//!   type 3 (16) | flags (16)
//!   initiator    4 or 16 octets: address of the initiator
//!   seen         IP source that a node saw instead; zero: none
//!   last_forward last node that has reserved on the outward pass
//!   first_reverse first node that has reserved on the return pass; zero: none
//!   forward nodes (8) | forward gaps (8) | reverse nodes (8) | reverse gaps (8)
//!   ttl (8) | zero (24)
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::iana::participation_flag;
use super::keys::Family;
use crate::writer::{EmitError, Writer};

/// Flags of an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OptionFlags(pub u16);

/// Participants of a loop, as the message collects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Participation {
    /// Flags; see [`super::iana::participation_flag`].
    pub flags: OptionFlags,
    /// Source address with which the initiator sent the message.
    pub initiator: IpAddr,
    /// Different IP source that a node has seen; unspecified if none has.
    pub seen: IpAddr,
    /// Last node that has reserved on the outward pass; initially the initiator.
    pub last_forward: IpAddr,
    /// First node that has reserved on the return pass; unspecified if none has.
    pub first_reverse: IpAddr,
    /// Counts of the outward pass, without the initiator.
    pub forward: PassCount,
    /// Counts of the return pass.
    pub reverse: PassCount,
    /// TTL with which the last participating node forwarded the message.
    pub ttl: u8,
}

/// Counts of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PassCount {
    /// Number of nodes that have reserved.
    pub nodes: u8,
    /// Number of routers between them that do not take part.
    pub gaps: u8,
}

/// Length of type and flags, octets.
const HEADER: usize = 4;

impl Participation {
    /// Length of the option, octets.
    pub const fn buffer_len(family: Family) -> usize {
        HEADER + 4 * family.address_len() + 8
    }

    /// Creates the record of an initiator that sends the message with this TTL.
    pub const fn new(initiator: IpAddr, ttl: u8) -> Participation {
        let none = match initiator {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let zero = PassCount { nodes: 0, gaps: 0 };
        Participation {
            flags: OptionFlags(0),
            initiator,
            seen: none,
            last_forward: initiator,
            first_reverse: none,
            forward: zero,
            reverse: zero,
            ttl,
        }
    }

    /// Whether all of these flags are set.
    pub const fn has(&self, flags: u16) -> bool {
        self.flags.0 & flags == flags
    }

    /// Sets or clears flags.
    pub const fn set(&mut self, flags: u16, on: bool) {
        if on {
            self.flags.0 |= flags;
        } else {
            self.flags.0 &= !flags;
        }
    }

    pub(super) fn parse(body: &[u8], flags: OptionFlags, family: Family) -> Option<Participation> {
        let length = family.address_len();
        let address = |number: usize| -> Option<IpAddr> {
            let octets = body.get(number * length..)?;
            Some(match family {
                Family::V4 => Ipv4Addr::from(*octets.first_chunk::<4>()?).into(),
                Family::V6 => Ipv6Addr::from(*octets.first_chunk::<16>()?).into(),
            })
        };
        let counts = body.get(4 * length..)?.first_chunk::<8>()?;
        let [forward_nodes, forward_gaps, reverse_nodes, reverse_gaps, ttl, ..] = *counts;
        Some(Participation {
            flags,
            initiator: address(0)?,
            seen: address(1)?,
            last_forward: address(2)?,
            first_reverse: address(3)?,
            forward: PassCount { nodes: forward_nodes, gaps: forward_gaps },
            reverse: PassCount { nodes: reverse_nodes, gaps: reverse_gaps },
            ttl,
        })
    }

    /// Writes the option without its type.
    pub(super) fn write(&self, family: Family, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        writer.put(self.flags.0.to_be_bytes())?;
        for address in [self.initiator, self.seen, self.last_forward, self.first_reverse] {
            if Family::of(address) != family {
                return Err(EmitError::Contradiction);
            }
            match address {
                IpAddr::V4(address) => writer.put(address.octets())?,
                IpAddr::V6(address) => writer.put(address.octets())?,
            }
        }
        let Participation { forward, reverse, ttl, .. } = self;
        writer.put([forward.nodes, forward.gaps, reverse.nodes, reverse.gaps, *ttl, 0, 0, 0])
    }
}

serialize_as!(Participation, |it| map! {
    "initiator": it.initiator,
    "seen": it.seen,
    "last_forward": it.last_forward,
    "first_reverse": it.first_reverse,
    "forward_nodes": it.forward.nodes,
    "forward_gaps": it.forward.gaps,
    "reverse_nodes": it.reverse.nodes,
    "reverse_gaps": it.reverse.gaps,
    "ttl": it.ttl,
    "forward_ends": it.has(participation_flag::FORWARD_ENDS),
    "far_end": it.has(participation_flag::FAR_END),
});
