//! Claims of a ledger, in slots that are reused.
//!
//! A generation tells the claims of one slot apart. Free slots are linked through themselves, so that a claim needs
//! no memory but its slot.

use alloc::vec::Vec;

use super::{ClaimId, Demand, Owner, Protocol, Service};
use crate::memory::Table;
use crate::{InterfaceId, Rate, growth};

/// All claims.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    slots: Vec<Slot>,
    /// First of the free slots, linked by their `block`. The slot freed last is used next.
    free: u32,
}

/// No slot.
const NIL: u32 = u32::MAX;

/// Slot of a claim. The parts of a [`Claim`] are stored one by one, so that no padding is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    rate: Rate,
    burst: u32,
    max_packet: u32,
    link: InterfaceId,
    /// Block of the owner; in a free slot, the next free one.
    block: u32,
    /// Number of earlier uses of the slot; part of the id of the claim in it.
    generation: u32,
    /// Protocol of the owner; `None` in a free slot.
    protocol: Option<Protocol>,
    service: Service,
    min_packet: u16,
}

/// Bandwidth of a link held for an owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) link: InterfaceId,
    pub(super) owner: Owner,
    pub(super) demand: Demand,
}

impl Slot {
    #[inline]
    fn new(generation: u32, Claim { link, owner, demand }: Claim) -> Slot {
        let Demand { service, rate, burst, max_packet, min_packet } = demand;
        let Owner { protocol, block } = owner;
        let protocol = Some(protocol);
        Slot { rate, burst, max_packet, link, block, generation, protocol, service, min_packet }
    }

    /// Returns the claim in the slot.
    #[inline]
    fn claim(&self) -> Option<Claim> {
        let Slot { rate, burst, max_packet, link, block, protocol, service, min_packet, .. } =
            *self;
        let owner = Owner { protocol: protocol?, block };
        Some(Claim { link, owner, demand: Demand { service, rate, burst, max_packet, min_packet } })
    }

    /// Changes the demand of the claim in the slot.
    #[inline]
    pub(super) fn set_demand(&mut self, demand: Demand) {
        let Demand { service, rate, burst, max_packet, min_packet } = demand;
        *self = Slot { service, rate, burst, max_packet, min_packet, ..*self };
    }

    /// Frees the slot, which makes the id of its claim stale; `next` is the next free slot.
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
    /// Returns the octets of the table on the heap. O(1).
    pub(super) fn table_octets(&self) -> usize {
        self.slots.octets()
    }

    #[inline]
    pub(super) fn get(&self, id: ClaimId) -> Option<Claim> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.claim() } else { None }
    }

    /// Returns a claim, and its slot to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, id: ClaimId) -> Option<(Claim, &mut Slot)> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation { Some((slot.claim()?, slot)) } else { None }
    }

    #[inline]
    pub(super) fn insert(&mut self, claim: Claim) -> ClaimId {
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

    /// Removes a claim, if it exists.
    #[inline]
    pub(super) fn remove(&mut self, id: ClaimId) -> Option<Claim> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let claim = slot.claim()?;
        slot.vacate(self.free);
        self.free = id.slot;
        Some(claim)
    }

    /// Removes all claims on a link, in slot order; `many` is their number.
    pub(super) fn remove_link(&mut self, link: InterfaceId, many: usize) -> Vec<(ClaimId, Owner)> {
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

    /// Returns all claims, in slot order.
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

    /// Slots are reused, the one freed last first, and never under an earlier id.
    #[test]
    fn freed_slots_are_reused_first() {
        let claim = |block| Claim {
            link: InterfaceId(block % 2),
            owner: Owner { protocol: Protocol::new(2), block },
            demand: Demand {
                service: Service::Guaranteed,
                rate: Rate::from_bps(1),
                burst: 0,
                max_packet: 0,
                min_packet: 0,
            },
        };
        let mut claims = Claims::default();
        let ids = [0, 1, 2, 3, 4].map(|block| claims.insert(claim(block)));
        assert!(claims.remove(ids[3]).is_some_and(|claim| claim.owner.block == 3));
        assert!(claims.remove(ids[3]).is_none(), "once only");
        let gone = claims.remove_link(InterfaceId(0), 3);
        assert_eq!(gone.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ids[0], ids[2], ids[4]]);
        assert!(gone.iter().all(|(id, _)| claims.get(*id).is_none()));
        let again = [5, 6, 7, 8, 9].map(|block| claims.insert(claim(block)));
        assert_eq!(
            again.map(|id| (id.slot, id.generation)),
            [(4, 1), (2, 1), (0, 1), (3, 1), (5, 0)]
        );
        let blocks: Vec<u32> = claims.iter().map(|(_, claim)| claim.owner.block).collect();
        assert_eq!(blocks, [7, 1, 6, 8, 5, 9]);
    }
}
