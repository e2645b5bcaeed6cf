//! Fault exploration: random networks, random flows over all protocols at once, random faults, and what must hold all the same.
//!
//! One seed is one network of 2 to 60 routers and one story: flows that come and go, each with a protocol of its own, while
//! messages get lost, doubled, damaged and overtaken, links fail, daemons die and traffic control refuses. Of the settings
//! that protocols have, some are drawn too. Whatever happens, this must hold ([`Invariant`]):
//!
//! - At every node, the ledger holds the sum of what the engines of all protocols show as reserved, and traffic control has
//!   exactly that. Looked at twice a second.
//! - No link ever promised more than may be reserved of it: in the ledger, and, after each installation, in traffic control.
//! - No packet of a flow that keeps to what it reserved is lost, if it left while the reservation stood on every link of its
//!   way. The way that packets take is known from the routes, and what stands from traffic control; so what faults take
//!   away is no exception, but part of the rule. Only packets of the last two seconds are passed over, which may have been
//!   on their way when the end came.
//! - When everybody has left and the lifetimes are over, every node is empty: engines, ledger, traffic control, timers.
//!
//! The story ends after 60 s. Then it is silent for so long that all that is soft is forgotten.

mod churn;
mod drawn;
mod invariants;
mod network;
mod random_faults;
mod run;
mod standing;

pub use invariants::{Breach, Invariant};
pub use run::{Exploration, explore};
