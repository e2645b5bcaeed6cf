//! Flows that the driver found in traffic control after a restart, until claims replace them.

use alloc::vec::Vec;

use super::Protocol;
use super::ledger::{Ledger, mark_queue, note_release};
use super::link::{AdoptError, AdoptedRate};
use crate::{Flow, InterfaceId, Rate};

/// Adopted flows.
impl Ledger {
    /// Maximum number of adopted flows on one link.
    pub const MAX_ADOPTED: usize = 65_536;

    /// Holds `rate` of `link` for a flow that traffic control already serves, until a claim for the flow replaces it
    /// or it is dropped. Adopting a flow again changes its rate. If `protocol` is given, only a claim of this
    /// protocol replaces it.
    pub fn adopt(
        &mut self,
        link: InterfaceId,
        flow: Flow,
        rate: Rate,
        protocol: Option<Protocol>,
    ) -> Result<(), AdoptError> {
        let entry = self.links.get_mut(link).ok_or(AdoptError::NoSuchLink)?;
        if entry.load.reservable == Rate::ZERO {
            return Err(AdoptError::NoSuchLink);
        }
        let known = entry.adopted.get(&flow).map(AdoptedRate::demand);
        if known.is_none() && entry.adopted.len() >= Self::MAX_ADOPTED {
            return Err(AdoptError::TooMany);
        }
        if rate > entry.adoptable(known.map_or(Rate::ZERO, |known| known.rate)) {
            return Err(AdoptError::Bandwidth);
        }
        let adopted = AdoptedRate { rate, protocol };
        entry.replace::<true>(known.as_ref(), Some(&adopted.demand()));
        entry.adopted.insert(flow, adopted);
        mark_queue(&mut self.freed, link, entry);
        Ok(())
    }

    /// Returns the rate of a flow that was adopted and has no owner yet.
    pub fn adopted_rate(&self, link: InterfaceId, flow: &Flow) -> Option<Rate> {
        Some(self.links.get(link)?.adopted.get(flow)?.rate)
    }

    /// Drops an adopted flow and returns its rate. `None` if it was not adopted, or has an owner by now.
    pub fn drop_adopted(&mut self, link: InterfaceId, flow: &Flow) -> Option<Rate> {
        let entry = self.links.get_mut(link)?;
        let adopted = entry.adopted.remove(flow)?;
        entry.replace::<true>(Some(&adopted.demand()), None);
        note_release(&mut self.freed, link, entry);
        Some(adopted.rate)
    }

    /// Drops all adopted flows. Returns them by link and flow, for the driver to remove them from traffic control.
    pub fn drop_all_adopted(&mut self) -> Vec<(InterfaceId, Flow)> {
        let mut dropped = Vec::new();
        for (id, link) in self.links.iter_mut() {
            while let Some((flow, adopted)) = link.adopted.pop_first() {
                link.replace::<true>(Some(&adopted.demand()), None);
                dropped.push((id, flow));
            }
            mark_queue(&mut self.freed, id, link);
        }
        dropped
    }
}
