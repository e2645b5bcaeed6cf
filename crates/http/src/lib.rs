//! What the programs that serve HTTP share: a listener with bounds, answers, checks of `Host` and `Origin`, and files of a page.
//!
//! - [`listener`]: connections with one request each, bounded in number and time.
//! - [`access`]: which requests name this endpoint, and come from its own page.
//! - [`answer`]: answers of text, and the headers that every answer of a page has.
//! - [`files`]: files that are part of a program.
#![forbid(unsafe_code)]

pub mod access;
pub mod answer;
pub mod files;
pub mod listener;
