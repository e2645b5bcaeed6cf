//! The claims of a ledger, in slots that are used again.
//!
//! A generation tells the claims of one slot apart. Free slots are linked through themselves, so that a claim comes and
//! goes without any memory but its slot.

use alloc::vec::Vec;

use super::{ClaimId, Demand, Owner, Protocol, Service};
use crate::{InterfaceId, Rate, growth};

/// All claims.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    slots: Vec<Slot>,
    /// First of the free slots, linked by their `block`. The one that became free last is used next.
    free: u32,
}

/// No slot.
const NIL: u32 = u32::MAX;

/// A place for a claim. The parts of a [`Claim`] stand in it one by one, so that nothing is lost between them.
#[derive(Clone, Copy, Debug)]
struct Slot {
    rate: Rate,
    burst: u32,
    max_packet: u32,
    link: InterfaceId,
    /// Of the owner; where the slot is free, the next free one.
    block: u32,
    /// How often the slot was used before: that of the claim in it.
    generation: u32,
    /// `None` where the slot is free.
    protocol: Option<Protocol>,
    service: Service,
}

/// Who holds what of which link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) link: InterfaceId,
    pub(super) owner: Owner,
    pub(super) demand: Demand,
}

impl Slot {
    #[inline]
    fn new(generation: u32, Claim { link, owner, demand }: Claim) -> Slot {
        let Demand { service, rate, burst, max_packet } = demand;
        let Owner { protocol, block } = owner;
        let protocol = Some(protocol);
        Slot { rate, burst, max_packet, link, block, generation, protocol, service }
    }

    /// What stands in it.
    #[inline]
    fn claim(&self) -> Option<Claim> {
        let Slot { rate, burst, max_packet, link, block, protocol, service, .. } = *self;
        let owner = Owner { protocol: protocol?, block };
        Some(Claim { link, owner, demand: Demand { service, rate, burst, max_packet } })
    }

    /// Takes the claim out, whose id is stale from now on; `next` is the next free slot.
    #[inline]
    fn vacate(&mut self, next: u32) {
        self.protocol = None;
        self.block = next;
        self.generation = self.generation.wrapping_add(1);
    }
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { slots: Vec::new(), free: NIL }
    }
}

impl Claims {
    #[inline]
    pub(super) fn get(&self, id: ClaimId) -> Option<Claim> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.claim() } else { None }
    }

    /// Changes what a claim holds that is there.
    #[inline]
    pub(super) fn set_demand(&mut self, id: ClaimId, demand: Demand) {
        let Demand { service, rate, burst, max_packet } = demand;
        let slot = &mut self.slots[id.slot as usize];
        *slot = Slot { service, rate, burst, max_packet, ..*slot };
    }

    #[inline]
    pub(super) fn enter(&mut self, claim: Claim) -> ClaimId {
        let number = self.free;
        if let Some(slot) = self.slots.get_mut(number as usize) {
            let generation = slot.generation;
            self.free = slot.block;
            *slot = Slot::new(generation, claim);
            return ClaimId { slot: number, generation };
        }
        let slot = self.slots.len() as u32;
        growth::push(&mut self.slots, Slot::new(0, claim));
        ClaimId { slot, generation: 0 }
    }

    /// Takes a claim out, if it is there.
    #[inline]
    pub(super) fn leave(&mut self, id: ClaimId) -> Option<Claim> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let claim = slot.claim()?;
        slot.vacate(self.free);
        self.free = id.slot;
        Some(claim)
    }

    /// Takes all claims on a link out, which are so many, by slot.
    pub(super) fn leave_link(&mut self, link: InterfaceId, many: usize) -> Vec<(ClaimId, Owner)> {
        let mut gone = Vec::with_capacity(many);
        for (number, slot) in (0..).zip(&mut self.slots) {
            if let Some(claim) = slot.claim().filter(|claim| claim.link == link) {
                gone.push((ClaimId { slot: number, generation: slot.generation }, claim.owner));
                slot.vacate(self.free);
                self.free = number;
            }
        }
        gone
    }

    /// All of them, by slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimId, Claim)> {
        (0..).zip(&self.slots).filter_map(|(number, slot)| {
            let id = ClaimId { slot: number, generation: slot.generation };
            slot.claim().map(|claim| (id, claim))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million claims must fit beside everything else: 32 MB.
    #[test]
    fn a_claim_takes_32_octets() {
        assert_eq!(size_of::<Slot>(), 32);
    }

    /// Slots are used again, the last one first, and never under an id that was given before.
    #[test]
    fn what_is_free_is_used_again_before_there_is_more() {
        let claim = |block| Claim {
            link: InterfaceId(block % 2),
            owner: Owner { protocol: Protocol::Yessir, block },
            demand: Demand {
                service: Service::Guaranteed,
                rate: Rate::from_bps(1),
                burst: 0,
                max_packet: 0,
            },
        };
        let mut claims = Claims::default();
        let ids = [0, 1, 2, 3, 4].map(|block| claims.enter(claim(block)));
        assert!(claims.leave(ids[3]).is_some_and(|claim| claim.owner.block == 3));
        assert!(claims.leave(ids[3]).is_none(), "once only");
        let gone = claims.leave_link(InterfaceId(0), 3);
        assert_eq!(gone.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ids[0], ids[2], ids[4]]);
        assert!(gone.iter().all(|(id, _)| claims.get(*id).is_none()));
        let again = [5, 6, 7, 8, 9].map(|block| claims.enter(claim(block)));
        assert_eq!(
            again.map(|id| (id.slot, id.generation)),
            [(4, 1), (2, 1), (0, 1), (3, 1), (5, 0)]
        );
        let blocks: Vec<u32> = claims.iter().map(|(_, claim)| claim.owner.block).collect();
        assert_eq!(blocks, [7, 1, 6, 8, 5, 9]);
    }
}
