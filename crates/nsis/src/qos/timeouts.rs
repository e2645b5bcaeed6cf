//! Lifetimes and waits of sessions and requests, from the refresh period and the retries.

use core::time::Duration;

use earmark_core::Time;

use super::QosNslp;

/// Default refresh period, milliseconds (RFC 5974 section 5.1.2.1).
pub(super) const DEFAULT_REFRESH_MS: u32 = 30_000;

/// Returns the next retransmission of a request, and the wait before it in milliseconds: twice the previous one
/// (RFC 5974 section 5.2.4).
pub(super) fn next_retry(now: Time, wait_ms: u32, until: Time) -> (Time, u32) {
    let wait_ms = wait_ms.saturating_mul(2);
    ((now + Duration::from_millis(wait_ms.into())).min(until), wait_ms)
}

impl QosNslp {
    /// Returns the lifetime of the state that this node refreshes.
    pub(super) fn own_lifetime(&self) -> Duration {
        let period = u32::try_from(self.config.refresh.as_millis()).unwrap_or(u32::MAX);
        Duration::from_millis(lifetime_ms(Some(period), self.config.lost_refreshes).into())
    }

    /// Returns the lifetime of state for the refresh period that a peer announces, which is bounded: by the setting, or
    /// by the refresh period of this node if that is longer.
    #[inline]
    pub(super) fn lifetime_for(&self, announced: Option<u32>) -> u32 {
        let period = announced.map(|period| {
            let longest = self.config.longest_refresh.max(self.config.refresh);
            period.min(u32::try_from(longest.as_millis()).unwrap_or(u32::MAX))
        });
        lifetime_ms(period, self.config.lost_refreshes)
    }
}

/// Returns L, the lifetime for a refresh period in milliseconds: (K + 0.5) 1.5 R (RFC 2205 section 3.7).
pub(super) fn lifetime_ms(period: Option<u32>, lost: u32) -> u32 {
    let period = u64::from(period.unwrap_or(DEFAULT_REFRESH_MS).max(1));
    u32::try_from((2 * u64::from(lost) + 1) * 3 * period / 4).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (K + 0.5) 1.5 R with K = 3 is 157.5 s.
    #[test]
    fn lifetime_covers_lost_refreshes() {
        assert_eq!(lifetime_ms(None, 3), 157_500);
        assert_eq!(lifetime_ms(Some(u32::MAX), 3), u32::MAX);
    }
}
