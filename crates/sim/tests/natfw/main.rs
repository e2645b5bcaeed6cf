//! NATFW NSLP in whole networks: pinholes and translations as packets meet them.
//!
//! ```text
//!                                    +-- o      outside, with NSIS
//!                                    |
//!   c --0-- fw1 --1-- nat --2------- r --3-- fw2 --4-- e --5-- s
//!                                    |                 |
//!                                    +--6-- fw3 --7----+
//!                                    |
//!                                    +-- p      outside, without NSIS
//! ```
//!
//! `fw1`, `nat`, `fw2` and `fw3` drop what no session has opened: what comes from outside, and at `fw1` everything. Links
//! have a delay of 1 ms.

mod expose;
mod faults;
mod network;
mod open;
mod proxy;
mod reservations;
