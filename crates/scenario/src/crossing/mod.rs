//! Crossings: every variant of every protocol, in both address families, with events at every place of a path.
//!
//! One case is one reservation on a path of two routers, with a longer way around, and one or two [events](EventKind) at
//! random times before, while and after it is made: messages are lost, duplicated, damaged or reordered, links fail,
//! interfaces vanish, daemons crash, machines are replaced, traffic control or a link without room refuses, settings
//! change, and the application changes its rate. The seed draws everything, and consecutive seeds cross all values of the
//! axes evenly: [`Case`].
//!
//! The invariants need no expected messages ([`Violation`]). When the events are over and some refresh periods have passed:
//!
//! - The reservation is on each link of the present path once, and nowhere else; or nothing is anywhere. To a group it is on the
//!   paths to all members, or if something could fail to some of them.
//! - All its links have the same rate: the last one requested, or the one before if something could fail.
//! - Ledger, engines and traffic control of every node agree. Checked once a second, during the events, too.
//! - What is there is what the source's application was told last. It was told something, unless its daemon crashed; then
//!   nothing is left.
//! - What is there is what each receiver was told last that requests it or listens for it, and it was told of what is there. What
//!   a receiver has requested ends with it.
//! - The rate that an application was told last is that of the links.
//! - If no event could prevent or end the reservation, it is there: all were harmless (messages arrive twice or overtake each
//!   other, the rate changes, a router loses its state), over before the request, or without effect, since nothing
//!   happened that they change.
//!
//! If an end of the flow loses its address, these hold only for the nodes, and for the end: nobody can send the flow, or it
//! cannot arrive.
//!
//! When the reservation was released and its lifetime is over, no state is left on any node: engines, ledger, traffic
//! control, timers.

mod applications;
mod case;
mod effects;
mod ends;
mod event;
mod run;
mod violation;

pub use case::Case;
pub use event::{Event, EventKind, Place};
pub use run::{play_case, play_logged};
pub use violation::{Crossing, Violation, ViolationKind};
