//! Amount of signalling.

use core::ops::AddAssign;

/// Signalling that was sent over links, link by link: messages, segments of connections, and reports that carry requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignallingCount {
    /// IP packets.
    pub packets: u64,
    /// Octets of these packets, with the IP header.
    pub octets: u64,
}

impl AddAssign for SignallingCount {
    fn add_assign(&mut self, other: SignallingCount) {
        self.packets += other.packets;
        self.octets += other.octets;
    }
}
