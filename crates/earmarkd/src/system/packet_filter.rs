//! The packet filter of a node that has one.

use earmark_core::{FilterChange, FilterRule, FilteredPackets, Time};
use earmark_linux::clock::Clock;
use earmark_linux::nftables::{self, FilterReconciliation};
use earmark_linux::{PacketFilter, PacketFilterError, PacketFilterSettings};
use tracing::{debug, info, warn};

use crate::driver::FilterFailure;
use earmark_control::command::with_cause;

/// The packet filter, if the settings enable it, and its counters.
#[derive(Debug, Default)]
pub(crate) struct NodeFilter {
    filter: Option<PacketFilter>,
    /// Rules of an earlier daemon that were adopted.
    adopted: u64,
    /// Refused rules.
    refused: u64,
    /// Elements without a rule that were removed, and missing or altered ones that were restored.
    removed: u64,
    restored: u64,
}

/// Removes the packet filter of an earlier daemon whose settings had one.
fn remove_earlier() {
    match nftables::clear() {
        Ok(false) => {}
        Ok(true) => info!("removed the packet filter of an earlier daemon"),
        // Without the privilege this daemon can have left none.
        Err(PacketFilterError::NotPermitted) => {}
        Err(error) => warn!("cannot look for an earlier packet filter: {}", with_cause(&error)),
    }
}

impl NodeFilter {
    /// Opens the packet filter if there are settings for it, else removes that of an earlier daemon. Returns the rules that an
    /// earlier daemon has left, with their ends.
    pub(crate) fn open(
        &mut self,
        settings: Option<PacketFilterSettings>,
        clock: Clock,
    ) -> Result<Vec<(FilterRule, Time)>, PacketFilterError> {
        let Some(settings) = settings else {
            remove_earlier();
            return Ok(Vec::new());
        };
        let guard = settings.guard.clone();
        let (filter, adoption) = PacketFilter::open(settings, clock)?;
        if let Some(replaced) = adoption.replaced {
            warn!("{replaced}");
        }
        debug!(?guard, adopted = adoption.rules.len(), "packet filter");
        self.adopted = adoption.rules.len() as u64;
        self.filter = Some(filter);
        Ok(adoption.rules)
    }

    pub(super) fn change(
        &mut self,
        changes: &[FilterChange],
    ) -> Vec<(FilteredPackets, FilterFailure)> {
        let refused: Vec<_> = match &mut self.filter {
            Some(filter) => {
                let failure = |error: PacketFilterError| FilterFailure {
                    errno: error.errno(),
                    text: with_cause(&error),
                };
                let refused = filter.change(changes).into_iter();
                refused.map(|(packets, error)| (packets, failure(error))).collect()
            }
            None => FilterFailure::of_all(changes).collect(),
        };
        self.refused += refused.len() as u64;
        refused
    }

    /// Compares the packet filter with its rules and corrects it; see [`PacketFilter::reconcile`].
    pub(crate) fn reconcile(&mut self) -> Result<FilterReconciliation, PacketFilterError> {
        let Some(filter) = &mut self.filter else { return Ok(FilterReconciliation::default()) };
        let found = filter.reconcile()?;
        self.removed += u64::from(found.removed);
        self.restored += u64::from(found.restored);
        Ok(found)
    }

    /// Removes the packet filter from the kernel.
    pub(crate) fn remove(&mut self) -> Result<(), PacketFilterError> {
        self.filter.take().map_or(Ok(()), PacketFilter::teardown)
    }

    /// Lists part, name and count of each counter; nothing without a packet filter.
    pub(super) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let Some(filter) = &self.filter else { return Vec::new() };
        vec![
            ("packet_filter", "rules", filter.len() as u64),
            ("packet_filter", "adopted", self.adopted),
            ("packet_filter", "refused", self.refused),
            ("packet_filter", "removed", self.removed),
            ("packet_filter", "restored", self.restored),
        ]
    }
}
