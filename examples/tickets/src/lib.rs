//! Tickets: a small reservation protocol, the example of `docs/extending.md`.
//!
//! The sender asks, in one pass: a request follows the data to the destination, and each router on the way reserves on
//! the link through which it leaves, or marks the request as refused. The destination answers the sender directly. The
//! sender draws a *ticket*, a number of 64 bits, and repeats the request every interval; a router changes or releases a
//! reservation only for a message with its ticket, and ends it when three requests are missing.
//!
//! | file | what it adds |
//! |---|---|
//! | [`message`] | the format |
//! | [`engine`] | the rules of processing, without I/O |
//! | [`node`] | the engine in a node: simulator, listings, counters |
//! | [`scenario`] | scenario files, and fault exploration |
//! | [`daemon`] | the daemon: requests of the control socket, settings |
#![forbid(unsafe_code)]

pub mod daemon;
pub mod engine;
pub mod message;
pub mod node;
pub mod scenario;
