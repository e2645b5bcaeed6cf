//! Share of a link's signalling class that the requests of one port may use.
//!
//! Signalling has a class of its own on each link. New and changed requests from behind one access interface, of all
//! protocols together, are forwarded at up to half of its rate ([`Interface::requests_per_second`]), so that those of others
//! fit as well. Refreshes are not counted.

use super::Ledger;
use crate::{Interface, Time};

impl Ledger {
    /// Returns whether this many more messages for new or changed requests of a port may be forwarded through a link. The
    /// port is the number of an access interface, or the keyed hash of a neighbour there that has limits of its own.
    pub fn admits_request(
        &mut self,
        now: Time,
        port: u64,
        link: &Interface,
        messages: u32,
    ) -> bool {
        let (key, rate) = (key_of(port, link), link.requests_per_second());
        if messages > 1 && self.requests.remaining(now, key, rate) < messages.min(rate) {
            return false;
        }
        self.requests.admits(now, key, rate) && {
            (1..messages).for_each(|_| self.requests.charge(now, key, rate));
            true
        }
    }

    /// Counts a request of a port that was forwarded through a link already. An excess delays the next ones.
    pub fn charge_request(&mut self, now: Time, port: u64, link: &Interface) {
        self.requests.charge(now, key_of(port, link), link.requests_per_second());
    }

    /// Returns how many new or changed requests of a port may be forwarded through a link now.
    pub fn remaining_requests(&self, now: Time, port: u64, link: &Interface) -> u32 {
        self.requests.remaining(now, key_of(port, link), link.requests_per_second())
    }
}

/// Returns the key of a port and a link. Nobody chooses their numbers, so it need not be secret.
fn key_of(port: u64, link: &Interface) -> u64 {
    (port ^ u64::from(link.id.0).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::*;
    use crate::{InterfaceId, Rate, Trust};

    fn link(id: u32) -> Interface {
        Interface {
            id: InterfaceId(id),
            name: String::new(),
            addresses: Vec::new(),
            mtu: 1_500,
            up: true,
            bandwidth: Rate::from_mbps(10),
            reservable: Rate::ZERO,
            largest: None,
            overhead: 0,
            latency_us: 0,
            trust: Trust::CORE,
        }
    }

    /// 10 Mbit/s have 1 Mbit/s for signalling: 250 requests of 250 octets for each port. A request of several messages counts
    /// as these, and is forwarded whole or not at all.
    #[test]
    fn each_port_has_its_share_of_each_link() {
        let mut ledger = Ledger::new();
        let start = Time::from_secs(5);
        let admitted = |ledger: &mut Ledger, now, port, link: &Interface, messages| {
            (0..1_000).filter(|_| ledger.admits_request(now, port, link, messages)).count()
        };
        assert_eq!(admitted(&mut ledger, start, 1, &link(1), 1), 250);
        assert_eq!(admitted(&mut ledger, start, 1, &link(2), 3), 83);
        assert_eq!(ledger.remaining_requests(start, 1, &link(2)), 1);
        assert_eq!(admitted(&mut ledger, start, 2, &link(1), 1), 250);
        ledger.charge_request(start, 2, &link(1));
        let later = start + Duration::from_millis(20);
        assert_eq!(admitted(&mut ledger, later, 1, &link(1), 1), 5);
        assert_eq!(admitted(&mut ledger, later, 2, &link(1), 1), 4, "one was forwarded already");
    }

    /// The slowest link forwards one request a second, of however many messages.
    #[test]
    fn slow_link_forwards_some_requests() {
        let slow = Interface { bandwidth: Rate::from_bps(1_000), ..link(1) };
        let mut ledger = Ledger::new();
        let admitted = |second| ledger.admits_request(Time::from_secs(second), 1, &slow, 3);
        assert_eq!([5, 6, 7, 8, 9].map(admitted), [true, false, false, true, false]);
    }
}
