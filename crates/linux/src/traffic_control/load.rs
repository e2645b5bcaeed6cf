//! Traffic of all reservations of a link together, for admission by measurement.

use earmark_core::{InterfaceId, Rate};

use super::plan::{BEST_EFFORT, CONTROL, FIRST_SERVICE, LINK, RESERVED, SIGNALLING};
use super::{Queues, TcError, TrafficControl, kernel};

impl TrafficControl {
    /// Returns the count of octets that the reservations of a link have sent, with the overhead of its plan; `None` without
    /// HTB, which alone counts them. Reads a fixed number of classes, whatever the number of reservations: HTB's class of the link counts all of
    /// them, and what is not reserved is subtracted.
    ///
    /// # Errors
    /// [`TcError::UnknownLink`], or a refusal of the kernel.
    pub fn reserved_octets(&mut self, interface: InterfaceId) -> Result<Option<u64>, TcError> {
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        let services = link.plan.services.len() as u16; // at most MAX_SERVICES
        let overhead = u64::from(link.plan.overhead);
        let mut octets = |minor| -> Result<u64, TcError> {
            let class = kernel::class(&mut self.netlink, interface, minor)?;
            // Zero if the kernel has lost the class.
            let counters = class.map(|class| class.counters).unwrap_or_default();
            Ok(counters.octets.saturating_add(counters.packets.saturating_mul(overhead)))
        };
        let count = match link.plan.queues {
            Queues::Priority => return Ok(None),
            Queues::Aggregate => octets(RESERVED)?,
            Queues::PerFlow => {
                let services = FIRST_SERVICE..FIRST_SERVICE + services;
                let mut unreserved = 0;
                for minor in [BEST_EFFORT, SIGNALLING, CONTROL].into_iter().chain(services) {
                    unreserved += octets(minor)?;
                }
                octets(LINK)?.saturating_sub(unreserved)
            }
        };
        // The classes are not read in one moment. What the link sent meanwhile makes the count vary, and a falling count
        // would look like one that begins again.
        let slack = in_a_tenth_of_a_second(link.plan.bandwidth);
        if !(count..=count.saturating_add(slack)).contains(&link.reserved_octets) {
            link.reserved_octets = count;
        }
        Ok(Some(link.reserved_octets))
    }
}

/// Returns the octets that a link sends in a tenth of a second.
fn in_a_tenth_of_a_second(bandwidth: Rate) -> u64 {
    bandwidth.as_bps() / 80
}
