//! Metrics of the daemon: what it counts and measures, and the HTTP endpoint that Prometheus scrapes (`[metrics]`).
//!
//! The event loop collects families of samples when the endpoint asks for them, in slices, and only then. A thread of its own
//! serves HTTP and formats the text, so that no scraper delays the event loop.

#[cfg(not(feature = "http"))]
mod absent;
#[cfg(feature = "http")]
mod collection;
#[cfg(feature = "http")]
mod endpoint;
#[cfg(feature = "http")]
mod family;
mod histogram;
#[cfg(feature = "http")]
mod process;
mod settings;
// Only the endpoint reads what is counted.
#[cfg_attr(not(feature = "http"), allow(dead_code))]
mod statistics;
#[cfg(feature = "http")]
mod text;

#[cfg(not(feature = "http"))]
pub(crate) use absent::Endpoint;
#[cfg(feature = "http")]
pub(crate) use endpoint::Endpoint;
pub use settings::MetricsSettings;
pub(crate) use statistics::Statistics;
