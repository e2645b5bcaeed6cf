//! Signed tokens: a provider vouches for the name behind a reservation, and says what the name is good for.
//!
//! A token is a CBOR Web Token (RFC 8392) in a COSE_Sign1 (RFC 9052), signed with Ed25519. It has a name, a lifetime, a
//! largest rate, and what it is bound to: the destination of the flow, its sources, and the interface where the request
//! enters the network. [`Claims::sign`] makes a token; [`verify`] decides whether it covers a request. An engine keeps its
//! issuers, and the requests that end with a token, in [`Tokens`].
//!
//! # Odd cases
//!
//! - **Every octet counts.** The unsigned part of the COSE structure must be empty, and only the shortest encoding is
//!   accepted, so that a changed token is never the same token.
//! - **An unknown claim** may be a restriction that this version does not know, so the token is malformed.
//! - **Clocks differ.** [`TOLERANCE`] is added to both ends of the lifetime.
//! - **An access interface** is checked by the router that a token names. Other routers accept the token through core
//!   interfaces only, behind which a router of the same administration has checked it.
//! - **Two keys of one issuer** are tried in turn, so that a new key can be added before the old one is removed.
//!
//! # Limits
//!
//! A token is no secret: whoever sees it can request what it allows, for the flow that it names, until it expires. There is no
//! list of withdrawn tokens; short lifetimes take its place.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod claims;
mod encoding;
mod entrance;
mod held;
mod key;
mod pattern;
mod required;
mod token;
mod tokens;
mod user;
mod verify;

pub use claims::{AccessPort, Claims, ClaimsError, Destination, DestinationError};
pub use entrance::Entrance;
pub use held::HeldToken;
pub use key::{KeyError, PublicKey, SecretKey};
pub use pattern::{EmptyPattern, Pattern, name_parts};
pub use required::Required;
pub use token::{Token, TokenTextError};
pub use tokens::{Ended, Refused, Settings, Tokens};
pub use user::User;
pub use verify::{Issuer, TOLERANCE, TokenError, TokenUse, Verified, verify};

/// Maximum length of a token, octets. Signalling messages must fit into one packet.
pub const MAX_LENGTH: usize = 512;

/// Maximum length of a name, octets.
pub const MAX_NAME: usize = 128;

/// Maximum length of the names of issuers, routers and interfaces, octets.
pub const MAX_LABEL: usize = 64;
