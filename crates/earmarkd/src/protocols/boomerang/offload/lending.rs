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
pub(super) struct Lending {
    /// Largest part of the reservable rate that is delegated; zero for none.
    pub(super) part: f64,
    loans: BTreeMap<InterfaceId, Loan>,
    /// Time of the next look, while bandwidth is delegated.
    next_look: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Loan {
    /// Rate to delegate if that much is free, bits per second.
    size: u64,
    /// Rate used since the last look, bits per second.
    used: u64,
    /// Looks in a row with little use.
    idle: u8,
}

impl Loan {
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

impl Lending {
    /// Grows the delegated rate, because the daemon got a set-up with this rate that the kernel could have handled.
    pub(super) fn grow(&mut self, interface: InterfaceId, rate: Rate) {
        if self.part > 0.0 {
            let loan = self.loans.entry(interface).or_default();
            let twice = |size: u64| size.saturating_mul(2);
            loan.size = twice(loan.size).max(twice(rate.as_bps())).max(LEAST);
        }
    }

    /// Records that the kernel has granted this rate.
    pub(super) fn take_note(&mut self, interface: InterfaceId, rate: Rate) {
        if let Some(loan) = self.loans.get_mut(&interface) {
            loan.used = loan.used.saturating_add(rate.as_bps());
        }
    }

    /// Whether bandwidth of a link is delegated.
    pub(super) fn has(&self, interface: InterfaceId) -> bool {
        self.loans.contains_key(&interface)
    }

    /// Withdraws everything. Returns the rate that the kernel still has of each link; if that is unknown, the whole size.
    pub(super) fn take_back(&self, path: &mut Offload) -> Vec<(InterfaceId, Rate)> {
        let each = self.loans.iter().map(|(&interface, loan)| {
            let rest = path.delegate(interface, 0).unwrap_or(loan.size);
            (interface, Rate::from_bps(rest))
        });
        each.collect()
    }

    /// Delegates free bandwidth. Returns the rate that the kernel has of each link now.
    pub(super) fn lend(
        &mut self,
        path: &mut Offload,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        let is_due = self.next_look.is_none_or(|at| at <= now);
        let mut lent = Vec::with_capacity(self.loans.len());
        let part = self.part;
        self.loans.retain(|&interface, loan| {
            if is_due {
                loan.look();
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
            loan.size = loan.size.min(most);
            let has = path.delegate(interface, loan.size.min(free)).unwrap_or(loan.size);
            let ended = loan.size == 0 && has == 0 && path.remove_link(interface).is_ok();
            lent.push((interface, Rate::from_bps(has)));
            !ended
        });
        if self.loans.is_empty() {
            self.next_look = None;
        } else if is_due {
            self.next_look = Some(now + LOOK);
        }
        lent
    }

    /// Time of the next look.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// Forgets a link that has gone.
    pub(super) fn forget(&mut self, path: &mut Offload, interface: InterfaceId) -> io::Result<()> {
        match self.loans.remove(&interface) {
            Some(_) => path.remove_link(interface),
            None => Ok(()),
        }
    }

    /// Delegates nothing for now, because the paths of packets may have changed.
    pub(super) fn pause(&mut self) {
        for loan in self.loans.values_mut() {
            loan.size = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(loan: &mut Loan, used: u64, count: u32) -> u64 {
        for _ in 0..count {
            loan.used = used;
            loan.look();
        }
        loan.size
    }

    #[test]
    fn delegated_rate_grows_with_use_and_shrinks_without() {
        let mut loan = Loan { size: 4 * LEAST, ..Loan::default() };
        assert_eq!(looks(&mut loan, LEAST, 1_000), 4 * LEAST, "neither much nor little");
        assert_eq!(looks(&mut loan, 3 * LEAST, 1), 8 * LEAST);
        assert_eq!(looks(&mut loan, 0, u32::from(IDLE) - 1), 8 * LEAST, "not at once");
        assert_eq!(looks(&mut loan, LEAST, 1), 8 * LEAST, "which is not little");
        assert_eq!(looks(&mut loan, 0, u32::from(IDLE)), 4 * LEAST);
        assert_eq!(looks(&mut loan, 0, 2 * u32::from(IDLE)), LEAST);
        assert_eq!(looks(&mut loan, 0, u32::from(IDLE)), 0);
    }

    /// A flow that comes and goes does not make the size oscillate.
    #[test]
    fn delegated_rate_does_not_oscillate() {
        let mut loan = Loan { size: 4 * LEAST, ..Loan::default() };
        let mut sizes = Vec::new();
        for round in 0..10 * u64::from(IDLE) {
            sizes.push(looks(&mut loan, LEAST * (round % 2), 1));
        }
        assert!(sizes.iter().all(|&size| size == 4 * LEAST));
    }
}
