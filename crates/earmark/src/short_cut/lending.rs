//! What the kernel is lent of links, so that it can set sessions of Boomerang up by itself.
//!
//! A loan is no loss to others: the driver takes it back before anybody asks the ledger for something, and lends again
//! after that. Only what the kernel has granted by then, and the daemon has not read of yet, stays set aside. So how much
//! is lent decides how often the daemon has to be asked, and nothing else.
//!
//! It grows with use: it doubles when more than half of it was taken between two looks, and when a set-up came to the
//! daemon that the kernel could have treated. It halves when for [`IDLE`] looks in a row less than an eighth of it was
//! taken, down to nothing: then the link is the daemon's alone, and lending costs nobody anything.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use earmark_core::admission::LinkStatus;
use earmark_core::{InterfaceId, Rate, Time};
use earmark_linux::FastPath;

/// How often the daemon looks what the kernel has done: so long at most its sessions are without traffic control.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// So many looks without much use make a loan smaller: five seconds.
const IDLE: u8 = 50;
/// The smallest loan, bits per second.
const LEAST: u64 = 1_000_000;

/// The loans of all links.
#[derive(Debug, Default)]
pub(super) struct Lending {
    /// The most that is lent, as a part of what can be reserved; zero: nothing.
    pub(super) part: f64,
    loans: BTreeMap<InterfaceId, Loan>,
    /// When the daemon looks next, while something is lent.
    next_look: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Loan {
    /// How much is lent, where there is so much; bits per second.
    size: u64,
    /// What was taken of it since the last look.
    used: u64,
    /// Looks since it was last used.
    idle: u8,
}

impl Loan {
    /// What has been used until now decides how large it is from now on.
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
    /// A session with this rate on a link has come to the daemon, and its like need not.
    pub(super) fn grow(&mut self, interface: InterfaceId, rate: Rate) {
        if self.part > 0.0 {
            let loan = self.loans.entry(interface).or_default();
            let twice = |size: u64| size.saturating_mul(2);
            loan.size = twice(loan.size).max(twice(rate.as_bps())).max(LEAST);
        }
    }

    /// The kernel has taken this.
    pub(super) fn take_note(&mut self, interface: InterfaceId, rate: Rate) {
        if let Some(loan) = self.loans.get_mut(&interface) {
            loan.used = loan.used.saturating_add(rate.as_bps());
        }
    }

    /// Whether something is lent of a link.
    pub(super) fn has(&self, interface: InterfaceId) -> bool {
        self.loans.contains_key(&interface)
    }

    /// Takes all back; gives what the kernel still has of each link. What cannot be found out counts as all of it.
    pub(super) fn take_back(&self, path: &mut FastPath) -> Vec<(InterfaceId, Rate)> {
        let each = self.loans.iter().map(|(&interface, loan)| {
            let rest = path.lend(interface, 0).unwrap_or(loan.size);
            (interface, Rate::from_bps(rest))
        });
        each.collect()
    }

    /// Lends what is to be lent of what nobody holds; gives what the kernel has of each link now.
    pub(super) fn lend(
        &mut self,
        path: &mut FastPath,
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
                // Whoever waits for this link comes first.
                let free = if link.queued == 0 {
                    link.reservable.saturating_sub(link.held)
                } else {
                    Rate::ZERO
                };
                (link.reservable.share(part).as_bps(), free.as_bps())
            });
            loan.size = loan.size.min(most);
            let has = path.lend(interface, loan.size.min(free)).unwrap_or(loan.size);
            let ended = loan.size == 0 && has == 0 && path.forget(interface).is_ok();
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

    /// When the daemon has to look what the kernel has done.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// A link has gone.
    pub(super) fn forget(&mut self, path: &mut FastPath, interface: InterfaceId) -> io::Result<()> {
        match self.loans.remove(&interface) {
            Some(_) => path.forget(interface),
            None => Ok(()),
        }
    }

    /// Nothing is lent for now: nobody knows where packets go.
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
    fn a_loan_grows_with_use_and_shrinks_without() {
        let mut loan = Loan { size: 4 * LEAST, ..Loan::default() };
        assert_eq!(looks(&mut loan, LEAST, 1_000), 4 * LEAST, "neither much nor little");
        assert_eq!(looks(&mut loan, 3 * LEAST, 1), 8 * LEAST);
        assert_eq!(looks(&mut loan, 0, u32::from(IDLE) - 1), 8 * LEAST, "not at once");
        assert_eq!(looks(&mut loan, LEAST, 1), 8 * LEAST, "which is not little");
        assert_eq!(looks(&mut loan, 0, u32::from(IDLE)), 4 * LEAST);
        assert_eq!(looks(&mut loan, 0, 2 * u32::from(IDLE)), LEAST);
        assert_eq!(looks(&mut loan, 0, u32::from(IDLE)), 0);
    }

    /// A flow that comes and goes does not make it swing.
    #[test]
    fn a_loan_does_not_flap() {
        let mut loan = Loan { size: 4 * LEAST, ..Loan::default() };
        let mut sizes = Vec::new();
        for round in 0..10 * u64::from(IDLE) {
            sizes.push(looks(&mut loan, LEAST * (round % 2), 1));
        }
        assert!(sizes.iter().all(|&size| size == 4 * LEAST));
    }
}
