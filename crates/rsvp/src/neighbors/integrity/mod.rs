//! Message integrity: authentication and replay protection by the INTEGRITY object (RFC 2747, with the message types of
//! RFC 3097).
//!
//! # Overview
//!
//! Neighbours share secret keys. Every message sent through a secured interface gets an INTEGRITY object with a keyed
//! digest of the whole message and a sequence number. A message received through such an interface is processed only if
//! its digest is valid and its sequence number is new. All others are dropped and counted by reason, without any error
//! message (section 4.2), so that an attacker learns nothing and cannot make this node send.
//!
//! Signing is the last step of handling an input: each message among its effects is rewritten with INTEGRITY
//! ([`sign`]). No rule of the protocol can omit it, and it costs nothing if not configured. Verification precedes
//! parsing ([`verify`]). A Bundle has no digest; each message in it has its own (RFC 2961 section 3.2).
//!
//! # Sequence numbers
//!
//! The sequence numbers of this node come from the wall clock as the driver supplied it at start, so that they increase
//! across restarts ([`sequence`]). For each neighbour and key the last N numbers are kept. The first message of an
//! unknown neighbour could be an old one that is replayed, so it only causes a challenge: an unpredictable number to be
//! returned signed ([`handshake`]). The answer opens the association. Neighbours that the keys name are challenged in
//! advance.
//!
//! The first message is lost, which would delay a Path by a refresh period. A node that answers a challenge therefore
//! resends the messages that it has sent that way within the last second, up to a small limit.
//!
//! # Odd cases
//!
//! - **The last key expires**: it remains in use (section 5.3), and one event reports it.
//! - **No key** for a message through a secured interface: the message is not sent.
//! - **ResvConf** is signed by each hop, so each hop sends it from its own address: RFC 2747 section 4 identifies the
//!   signer by the IP source address.
//! - **One key for both directions** allows an attacker to reflect messages without a hop object (PathErr, Ack,
//!   Srefresh) to their sender as the neighbour's. Keys for one of the [`Directions`] prevent that.

mod digest;
mod handshake;
mod key;
mod recent_messages;
mod sequence;
mod settings;
mod sign;
mod state;
mod verify;

pub use self::key::Key;
pub use self::settings::{HandshakeMode, Settings};
pub(crate) use self::state::{Integrity, Signature};
pub use earmark_core::keys::{Algorithm, Directions};
