//! Fault exploration: random networks, random flows over all protocols at once, random faults, and the invariants
//! that must hold.
//!
//! One seed is one network of 2 to 60 routers and one run: flows that start and end, each with a protocol of its own,
//! while messages are lost, duplicated, corrupted and reordered, links fail, daemons crash and traffic control
//! refuses. Some settings of the protocols are drawn too. The invariants ([`Invariant`]):
//!
//! - At every node, the ledger holds the sum of the reservations that the engines of all protocols list, and traffic
//!   control has exactly that. Checked twice a second.
//! - The reservations of a link never exceed its reservable rate: in the ledger, and, after each installation, in
//!   traffic control.
//! - No packet of a flow that conforms to its reservation is lost, if it left while the reservation was in force on
//!   every link of its path. The path is known from the routes, and the reservations from traffic control; so
//!   reservations removed by faults are no exception, but covered by the rule. Only packets of the last two seconds
//!   are ignored, which may have been in flight at the end; of a longer time if packets last took longer.
//! - When all flows have ended and the lifetimes are over, every node is empty: engines, ledger, traffic control,
//!   timers.
//!
//! [`explore_attacked`] adds one to three attackers: hosts on access interfaces that send what the catalogue of
//! [`attack`](crate::attack) makes of the signalling that passes a router, with their own address or with any. Links
//! between routers are core links. Half of these networks have no faults; there, two more invariants must hold:
//!
//! - What is reserved on the whole path of a flow stays reserved until the flow ends.
//! - A request is granted on the whole path or refused within 15 s, some refreshes.
//!
//! In all of them, the state of an engine stays below a bound: that of the flows, and the limit of each attacker's
//! access interface.
//!
//! The flows end after 60 s. Then nothing is sent for so long that all soft state expires.

mod attackers;
mod honest_requests;
mod invariants;
mod random_faults;
mod random_flows;
mod random_network;
mod reserved_paths;
mod run;

pub use invariants::{Breach, Invariant};
pub(crate) use invariants::{disagreements, remaining_state};
pub use run::{Exploration, explore, explore_attacked, explore_logged, explore_with};
