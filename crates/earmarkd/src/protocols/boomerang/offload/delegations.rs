//! Bandwidth of links delegated to the kernel, so that it can set up sessions of Boomerang by itself.
//!
//! Delegated bandwidth stays available to others: the driver withdraws it before every request to the ledger and delegates it
//! again afterwards. Only the rate that the kernel has granted without the daemon having read about it stays set aside. The
//! delegated rate therefore decides only how often the kernel must ask the daemon.
//!
//! The rate doubles when more than half of it was used between two looks, and when the daemon got a set-up that the kernel
//! could have handled. It halves when less than an eighth was used in [`IDLE`] looks in a row, down to zero: then nothing is
//! delegated on the link, and no work is spent on it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use earmark_core::admission::LinkStatus;
use earmark_core::{InterfaceId, Rate, Time};
use earmark_linux::Offload;

/// Interval between looks at what the kernel has done, which bounds the time that its sessions are without traffic control.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Looks with little use after which the delegated rate is halved: five seconds.
const IDLE: u8 = 50;
/// Smallest delegated rate, bits per second.
const LEAST: u64 = 1_000_000;

/// Delegated bandwidth of all links.
#[derive(Debug, Default)]
pub(super) struct Delegations {
    /// Largest part of the reservable rate that is delegated; zero for none.
    pub(super) part: f64,
    delegated: BTreeMap<InterfaceId, Delegation>,
    /// Time of the next look, while bandwidth is delegated.
    next_look: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Delegation {
    /// Rate to delegate if that much is free, bits per second.
    size: u64,
    /// Rate used since the last look, bits per second.
    used: u64,
    /// Looks in a row with little use.
    idle: u8,
}

impl Delegation {
    /// Adapts the size to the use since the last look.
    fn look(&mut self) {
        let used = std::mem::take(&mut self.used);
        if used > self.size / 2 {
            self.size = self.size.saturating_mul(2);
        }
        self.idle = if used < self.size / 8 { self.idle + 1 } else { 0 };
        if self.idle >= IDLE {
            self.idle = 0;
            self.size = if self.size > LEAST { self.size / 2 } else { 0 };
        }
    }
}

impl Delegations {
    /// Grows the delegated rate, because the daemon got a set-up with this rate that the kernel could have handled.
    pub(super) fn grow(&mut self, interface: InterfaceId, rate: Rate) {
        if self.part > 0.0 {
            let delegation = self.delegated.entry(interface).or_default();
            let twice = |size: u64| size.saturating_mul(2);
            delegation.size = twice(delegation.size).max(twice(rate.as_bps())).max(LEAST);
        }
    }

    /// Records that the kernel has granted this rate.
    pub(super) fn take_note(&mut self, interface: InterfaceId, rate: Rate) {
        if let Some(delegation) = self.delegated.get_mut(&interface) {
            delegation.used = delegation.used.saturating_add(rate.as_bps());
        }
    }

    /// Whether bandwidth of a link is delegated.
    pub(super) fn has(&self, interface: InterfaceId) -> bool {
        self.delegated.contains_key(&interface)
    }

    /// Withdraws everything. Returns the rate that the kernel still has of each link; if that is unknown, the whole size.
    pub(super) fn take_back(&self, path: &mut Offload) -> Vec<(InterfaceId, Rate)> {
        let each = self.delegated.iter().map(|(&interface, delegation)| {
            let rest = path.delegate(interface, 0).unwrap_or(delegation.size);
            (interface, Rate::from_bps(rest))
        });
        each.collect()
    }

    /// Delegates free bandwidth. Returns the rate that the kernel has of each link now.
    pub(super) fn delegate(
        &mut self,
        path: &mut Offload,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        let is_due = self.next_look.is_none_or(|at| at <= now);
        let mut delegated = Vec::with_capacity(self.delegated.len());
        let part = self.part;
        self.delegated.retain(|&interface, delegation| {
            if is_due {
                delegation.look();
            }
            let (most, free) = link(interface).map_or((0, 0), |link| {
                // Requests that wait for this link have precedence.
                let free = if link.queued == 0 {
                    link.reservable.saturating_sub(link.held)
                } else {
                    Rate::ZERO
                };
                (link.reservable.share(part).as_bps(), free.as_bps())
            });
            delegation.size = delegation.size.min(most);
            let has =
                path.delegate(interface, delegation.size.min(free)).unwrap_or(delegation.size);
            let ended = delegation.size == 0 && has == 0 && path.remove_link(interface).is_ok();
            delegated.push((interface, Rate::from_bps(has)));
            !ended
        });
        if self.delegated.is_empty() {
            self.next_look = None;
        } else if is_due {
            self.next_look = Some(now + LOOK);
        }
        delegated
    }

    /// Time of the next look.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// Forgets a link that has gone.
    pub(super) fn forget(&mut self, path: &mut Offload, interface: InterfaceId) -> io::Result<()> {
        match self.delegated.remove(&interface) {
            Some(_) => path.remove_link(interface),
            None => Ok(()),
        }
    }

    /// Delegates nothing for now, because the paths of packets may have changed.
    pub(super) fn pause(&mut self) {
        for delegation in self.delegated.values_mut() {
            delegation.size = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(delegation: &mut Delegation, used: u64, count: u32) -> u64 {
        for _ in 0..count {
            delegation.used = used;
            delegation.look();
        }
        delegation.size
    }

    #[test]
    fn delegated_rate_grows_with_use_and_shrinks_without() {
        let mut delegation = Delegation { size: 4 * LEAST, ..Delegation::default() };
        assert_eq!(looks(&mut delegation, LEAST, 1_000), 4 * LEAST, "neither much nor little");
        assert_eq!(looks(&mut delegation, 3 * LEAST, 1), 8 * LEAST);
        assert_eq!(looks(&mut delegation, 0, u32::from(IDLE) - 1), 8 * LEAST, "not at once");
        assert_eq!(looks(&mut delegation, LEAST, 1), 8 * LEAST, "which is not little");
        assert_eq!(looks(&mut delegation, 0, u32::from(IDLE)), 4 * LEAST);
        assert_eq!(looks(&mut delegation, 0, 2 * u32::from(IDLE)), LEAST);
        assert_eq!(looks(&mut delegation, 0, u32::from(IDLE)), 0);
    }

    /// A flow that comes and goes does not make the size oscillate.
    #[test]
    fn delegated_rate_does_not_oscillate() {
        let mut delegation = Delegation { size: 4 * LEAST, ..Delegation::default() };
        let mut sizes = Vec::new();
        for round in 0..10 * u64::from(IDLE) {
            sizes.push(looks(&mut delegation, LEAST * (round % 2), 1));
        }
        assert!(sizes.iter().all(|&size| size == 4 * LEAST));
    }
}
