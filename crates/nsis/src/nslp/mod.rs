//! The interface between GIST and the signalling applications (RFC 5971 appendix B).
//!
//! | appendix B | here |
//! |---|---|
//! | SendMessage | [`HandlerContext::send`] |
//! | RecvMessage | [`Nslp::receive`]; with Routing-State-Check [`Nslp::may_peer`] |
//! | MessageStatus | [`Nslp::status`], [`Nslp::undelivered`] |
//! | NetworkNotification | [`Nslp::notify`] |
//! | SetStateLifetime | [`HandlerContext::set_state_lifetime`]; [`HandlerContext::forget`] for both directions at once |
//! | InvalidateRoutingState | [`HandlerContext::invalidate_routing_state`] |
//!
//! An application is a value that implements [`Nslp`]. GIST calls it with every event that concerns it, and passes a
//! [`HandlerContext`] for its requests. GIST executes a request as soon as the application returns; all effects exist
//! before the engine has finished the input.

mod application;
mod context;
mod message;
mod notification;
mod origin;
mod requests;
mod sink;

pub use application::{Nslp, Peering};
pub use context::HandlerContext;
pub use message::{Attributes, MessageHandle, PeerHandle, Received, SendFailure, SendMessage};
pub use notification::{NetworkNotification, Notification, Validity};
pub use origin::{AssociationId, Channel, Encapsulation, Origin};
pub use requests::{Request, Requests};
pub use sink::Sink;
