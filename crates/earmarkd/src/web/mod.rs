//! The daemon's own web page (`[web]`): links, topology, reservations and events in a browser.
//!
//! A thread of its own serves HTTP. Each request of a browser becomes a request of the control protocol on a socket pair, whose
//! other end the event loop gives to the control hub: pages, slices, roles and the audit log are those of the control socket, and
//! no browser delays the event loop.

#[cfg(not(feature = "http"))]
mod absent;
#[cfg(feature = "http")]
mod access;
#[cfg(feature = "http")]
mod endpoint;
#[cfg(feature = "http")]
mod event_streams;
#[cfg(feature = "http")]
mod files;
#[cfg(feature = "http")]
mod hub_client;
mod listener;
#[cfg(feature = "http")]
mod server;
mod settings;

#[cfg(not(feature = "http"))]
pub(crate) use absent::WebEndpoint;
#[cfg(feature = "http")]
pub(crate) use endpoint::WebEndpoint;
pub(crate) use listener::{WebListener, WebSocket};
pub use settings::{WebAddress, WebSettings};
