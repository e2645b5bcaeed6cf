//! Schedulers: which of the packets that wait at an egress is transmitted next.
//!
//! An [`Egress`](crate::egress) classifies each packet and asks its scheduler for the next one when the link is free. A
//! scheduler holds the queues and knows the reserved classes with their demands; it knows no flow and no protocol.
//! [`StrictPriority`] is the default and models the traffic control that Earmark installs in Linux. The others show
//! what a reservation is worth under another discipline.
//!
//! To add one, implement [`Scheduler`] and pass it to
//! [`Network::set_scheduler`](crate::Network::set_scheduler).

mod discipline;
mod fifo;
mod priority;
#[cfg(test)]
mod tests;
mod token_bucket;
mod wfq;

pub use self::discipline::{FluidSharing, Next, PacketClass, Scheduler};
pub use self::fifo::Fifo;
pub use self::priority::StrictPriority;
pub use self::wfq::WeightedFairQueueing;
