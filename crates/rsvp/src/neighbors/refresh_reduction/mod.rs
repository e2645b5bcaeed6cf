//! Refresh reduction with all neighbours of a node (RFC 2961), and Hello (RFC 3209 section 5).
//!
//! # Sending
//!
//! A Path or Resv to a neighbour that supports refresh reduction has a MESSAGE_ID. [`SentMessageIds`] stores the state
//! that each identifier stands for. Changed state gets a new identifier and waits in the [`RetransmissionQueue`] for
//! its acknowledgement. A retransmission is built from the state, since no copy is stored. Once acknowledged, the
//! identifier is in the neighbour's [`SummaryRefreshList`](summary_refresh_list::SummaryRefreshList), the state has no
//! refresh messages any more, and in each refresh interval a few Srefresh messages contain the whole list. A neighbour
//! that answers with a MESSAGE_ID NACK, or shows by a new epoch that it has restarted, gets the state again. State
//! that was never acknowledged is refreshed as in RFC 2205.
//!
//! Tears, errors and confirmations have no state to build them from: a copy of each is stored until it is
//! acknowledged.
//!
//! Messages that several inputs cause for one neighbour can be sent in one datagram: see [`Bundler`].
//!
//! # Receiving
//!
//! State blocks store the MESSAGE_ID of the neighbour's last message about them, and an index of the store finds them by
//! it. A message that arrives after a later one is dropped. An identifier in an Srefresh counts like the message itself.
//!
//! # Odd cases
//!
//! - **The next hop** is known from the route. A Path to a next hop that has sent nothing yet has no MESSAGE_ID, since
//!   a node that does not know the class would reject it. Its first message shows what the node supports.
//! - **A neighbour stops refresh reduction**: its state is sent once more, without MESSAGE_ID, and refreshed as in RFC
//!   2205.
//! - **A refused message** is not acknowledged. The error shows that it arrived, and its state is refreshed by
//!   messages until it is accepted.
//! - **A Resv for several senders** of the fixed-filter style, from another implementation, has one identifier for several
//!   states, which all of them keep. When one of them ends or changes by another message, the identifier stands for none,
//!   so that the next Srefresh with it gets a NACK, and the whole message follows.
//! - **Path messages to groups** have no MESSAGE_ID: the nodes that would have to acknowledge them are unknown (RFC
//!   2961 section 4.7). Summary refreshes of other implementations that list them are processed.

mod acknowledgement;
mod assign_message_id;
mod bundle;
mod hello;
mod hello_state;
mod peer;
mod receive;
mod recent_ids;
mod resend;
mod restart;
mod retransmission;
mod send;
mod sent_message_ids;
mod state;
mod summary;
mod summary_refresh_list;

pub use self::bundle::{Bundled, Bundler, Envelope};
pub use self::hello_state::Liveness;
pub(crate) use self::receive::unbundled;
pub(crate) use self::send::{OutgoingMessage, SendReason};
pub(crate) use self::state::RefreshReduction;
