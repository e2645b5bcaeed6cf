//! Context of handling one input.

use earmark_core::{Context, Effects, Time};

use crate::neighbors::integrity::Signature;
use crate::state::Index;
use crate::state::message_id_key::MessageIdKey;

/// Context of handling one input: time, environment, and output.
pub(crate) struct HandlerContext<'t, 'c, E> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut Effects<E>,
    /// Signature of the current message, if it was verified.
    pub(crate) verified: Option<Signature>,
    /// Whether the current message cannot come from another link: it has the largest TTL, which every router decrements. The
    /// TTL of an encapsulated one is unknown.
    pub(crate) is_from_this_link: bool,
    /// MESSAGE_ID of the current message, if any.
    pub(crate) message_id: MessageIdKey,
    /// Peer that gets the acknowledgement of the current message, and its MESSAGE_ID, if one is requested.
    pub(crate) acknowledge_to: Option<(Index, MessageIdKey)>,
    /// Whether the current message leaves no state, and was handled before.
    pub(crate) is_repeated: bool,
}
