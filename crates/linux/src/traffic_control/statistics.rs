//! Counters of reservations.

/// Counters of a reservation's class since its installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Octets sent, from the IP header on.
    pub octets: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped because the queue was full; with [`super::Queues::Aggregate`], those that exceeded the
    /// reservation and were sent with best effort.
    pub drops: u64,
    /// Octets waiting now.
    pub backlog_octets: u32,
    /// Packets waiting now.
    pub backlog_packets: u32,
}

impl Statistics {
    /// Returns the sum of these counters and earlier ones.
    pub(super) fn plus(self, before: Statistics) -> Statistics {
        Statistics {
            octets: self.octets + before.octets,
            packets: self.packets + before.packets,
            drops: self.drops + before.drops,
            ..self
        }
    }
}
