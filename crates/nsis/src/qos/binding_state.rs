//! RESERVEs that wait for another message, and results of messages that have arrived, by MSG-ID.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use earmark_core::timer::TimerId;

use super::stored_reserve::StoredReserve;

/// Entries by MSG-ID. Peers choose the keys, so the map is an ordered one.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    pub(super) by_id: BTreeMap<[u8; 16], Binding>,
}

#[derive(Debug)]
pub(super) struct Binding {
    pub(super) state: State,
    pub(super) timer: TimerId,
}

#[derive(Debug)]
pub(super) enum State {
    /// A RESERVE that waits for the other message.
    Waiting(Box<StoredReserve>),
    /// The message with the MSG-ID has arrived; whether it was successful.
    Arrived(bool),
}
