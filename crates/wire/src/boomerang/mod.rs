//! Boomerang: reservation messages in the data of a ping.
//!
//! A message goes out in an echo request, is bounced by whoever answers pings at the far end, and comes back in the
//! reply; each node on the way may edit it. It is a container header of 12 octets, a reservation header of 12, the
//! classifier of a flow and a mask over it, what is asked for, and options:
//!
//! ```text
//!  0 MAGIC, transaction_id, type, format, flags       12 refresh_int, version, padding, key
//! 24 classifier, mask (IPv4: 16 octets each; IPv6: 40)
//! 56 or 104 QoS: two rates, or a list of pairs of rates; then options until the end
//! ```
//!
//! Offsets in this module count from MAGIC, all numbers are in network byte order. Five layers:
//!
//! - [`View`] checks lengths and code points once and then reads fields where they stand. It is what a node looks through
//!   at a message that it will send on.
//! - [`Plain`] is a view of those messages alone that nearly all are; it costs next to nothing.
//! - [`Reservation`] is what a message means; [`Reservation::parse`] and [`Reservation::emit`] are each other's inverse.
//! - [`Shape`] is a mask that makes sense. Nonsense is found by [`View::shape`] and by [`Reservation::parse`].
//! - [`Editor`] changes a message where it stands, in the fields that a node may edit, and mends the checksum of the ping
//!   around it.
//!
//! The layout is that of the 1999 specification draft. What that leaves open is decided here: network byte order, bit 0
//! as the least significant one, NO_ECHO as bit 1 of the flags, IPv6 formats of the options, and the masks that are
//! refused.

mod edit;
mod error;
pub mod iana;
mod keys;
mod message;
mod options;
mod participation;
mod plain;
mod view;

pub use edit::{Editor, append};
pub use error::{ErrorKind, ParseError};
pub use keys::{Family, Keys, Shape};
pub use message::{Flags, Qos, Rates, Reservation, Vector};
pub use options::{Aggregation, OptionFlags, OptionItem, Options, OptionsIter, UserId};
pub use participation::{Participation, PassCount};
pub use plain::Plain;
pub use view::{QosView, View};

/// Where fields stand.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const TRANSACTION: usize = 4;
    pub(super) const TYPE: usize = 8;
    pub(super) const FORMAT: usize = 9;
    pub(super) const FLAGS: usize = 10;
    pub(super) const REFRESH: usize = 12;
    pub(super) const VERSION: usize = 13;
    pub(super) const KEY: usize = 16;
    pub(super) const CLASSIFIER: usize = 24;
}

/// Whether the data of an echo are a Boomerang message of any type: they begin with MAGIC.
#[inline]
pub fn is_boomerang(data: &[u8]) -> bool {
    data.first_chunk() == Some(&iana::MAGIC.to_be_bytes())
}
