//! Diagnostics: state of a session at each hop (RFC 2745).
//!
//! A DREQ starts at the LAST-HOP, a node on the path of a sender's data, and follows path state towards the sender.
//! Each node adds a DIAG_RESPONSE with its state of the session (`response`), and forwards the DREQ or returns it as a
//! DREP: because it is the sender's node, because it has no path state, or because the requested number of nodes was
//! reached (`dreq`). A message that becomes too long for the links is returned in fragments. DREPs are sent to the
//! requester directly, or along the ROUTE that the DREQ has recorded, which also works if only neighbours trust each
//! other (`drep`).
//!
//! Diagnostics do not change RSVP state. A requester is a node itself (`trace`): it repeats a DREQ without answer, and
//! then searches for the silent node by requesting one hop more each time.
//!
//! # Choices that RFC 2745 leaves open
//!
//! - **D-TTL** is 1 between neighbours, as in sections 3.6 and 5.3. The difference of the TTLs, as in section 4.1,
//!   would be 0, because RSVP nodes do not decrement the TTL of messages addressed to them.
//! - **Path MTU** is what fits into an IP packet without fragmentation beside the headers of IP and UDP.
//! - **Fragment Offset** counts octets of DIAG_RESPONSE objects.
//! - **A requester with port 0** is an RSVP node and gets the DREP as an RSVP message; others get it inside UDP.
//! - **R-pointer** counts addresses.
//! - **RSVP_HOP of a DREP** is the node that sends it, so that neighbours can find the key of its digest.

mod drep;
mod dreq;
mod hop;
mod pending_trace;
mod receive;
mod response;
mod state;
mod trace;

pub use self::hop::{TraceEnd, TraceHop};
pub use self::pending_trace::Trace;
pub(crate) use self::state::Diagnostics;
pub use self::state::Settings;
