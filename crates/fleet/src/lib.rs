//! One web page for the operator of many routers, from the metrics that their daemons serve.
//!
//! Each router is scraped by a task of its own, so that one that is slow delays no other. What a router answers is parsed while it
//! arrives, and everything that is kept of it is bounded.
//!
//! - [`config`]: the settings, from a file or from arguments; [`metrics_url`]: where the metrics of a router are.
//! - [`exposition`]: the text format of metrics; [`metrics`]: the parts of it that the page shows.
//! - [`scrape`]: one request to a router.
//! - [`router`]: what is known about a router over time; [`fleet`]: that of all routers, and [`report`]: the same as JSON.
//! - [`server`]: the page; [`run`]: everything together, until a signal.
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod exposition;
pub mod fleet;
pub mod metrics;
pub mod metrics_url;
pub mod report;
pub mod router;
pub mod run;
pub mod scrape;
pub mod server;
