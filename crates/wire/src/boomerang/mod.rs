//! Boomerang: reservation messages in the data of a ping.
//!
//! The initiator sends a message in an echo request, any host that answers pings returns it in the reply, and each node
//! on the path may edit it. It is a container header of 12 octets, a reservation header of 12, the classifier of a flow
//! and a mask over it, the QoS part, and options:
//!
//! ```text
//!  0 MAGIC, transaction_id, type, format, flags       12 refresh_int, version, padding, key
//! 24 classifier, mask (IPv4: 16 octets each; IPv6: 40)
//! 56 or 104 QoS: two rates, or a list of pairs of rates; then options until the end
//! ```
//!
//! Offsets in this module count from MAGIC, all numbers are in network byte order. Five layers:
//!
//! - [`View`] checks lengths and code points once and then reads single fields. Transit nodes use it for messages that
//!   they forward.
//! - [`CommonForm`] is a cheap view of the common form that nearly all messages have.
//! - [`Reservation`] is a message as a value; [`Reservation::parse`] and [`Reservation::emit`] are inverse to each
//!   other.
//! - [`Shape`] is a valid mask. [`View::shape`] and [`Reservation::parse`] refuse invalid masks.
//! - [`Editor`] changes in place the fields that a node may edit, and updates the checksum of the ping.
//!
//! The layout is that of the 1999 specification draft. Where the draft is silent, Earmark uses network byte order, bit
//! 0 as the least significant one, NO_ECHO as bit 1 of the flags, IPv6 formats of the options, and the masks that are
//! refused.

mod common_form;
mod edit;
mod error;
pub mod iana;
mod keys;
mod message;
mod options;
mod participation;
mod view;

pub use common_form::CommonForm;
pub use edit::{Editor, append};
pub use error::{ErrorKind, ParseError};
pub use keys::{Family, Keys, Shape};
pub use message::{Flags, Qos, Rates, Reservation, Vector};
pub use options::{Aggregation, OptionItem, Options, OptionsIter, UserId};
pub use participation::{OptionFlags, Participation, PassCount};
pub use view::{QosView, View};

/// Offsets of fields, octets from MAGIC.
mod offset {
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

/// Whether the data of an echo are a Boomerang message of any type, that is whether they begin with MAGIC.
#[inline]
pub fn is_boomerang(data: &[u8]) -> bool {
    data.first_chunk() == Some(&iana::MAGIC.to_be_bytes())
}
