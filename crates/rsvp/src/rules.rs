//! The processing rules of RFC 2209: what each message, timer and change of a route does to path and reservation state,
//! to traffic control, and to other nodes.

pub(crate) mod admission;
pub(crate) mod behavior_aggregate;
pub(crate) mod blockade;
pub(crate) mod confirm;
pub mod diagnostics;
pub(crate) mod error;
pub(crate) mod fault;
pub(crate) mod flows;
pub(crate) mod increase;
pub(crate) mod marking;
pub(crate) mod merge;
pub(crate) mod next_hops;
pub mod notify;
pub(crate) mod path;
pub mod policy;
pub(crate) mod pool;
pub(crate) mod refresh;
pub(crate) mod repair;
pub(crate) mod request;
mod restart;
pub(crate) mod resv;
pub(crate) mod shared;
pub(crate) mod tear;
pub(crate) mod traffic;
pub(crate) mod upstream;
