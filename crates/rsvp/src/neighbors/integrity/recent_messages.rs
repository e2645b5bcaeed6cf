//! Recently sent messages, for neighbours whose challenges show that they have dropped them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{InterfaceId, Outgoing, Time};

/// Recently sent messages, to be resent to a neighbour whose challenge shows that it has dropped them.
#[derive(Debug, Default)]
pub(super) struct RecentMessages {
    pub(super) messages: VecDeque<SentMessage>,
    /// Numbers of effects that must not be changed: already signed, or another node's.
    pub(super) unsigned_effects: Vec<usize>,
    /// Numbers of effects that are resent, and are not kept for another resend.
    pub(super) resent_effects: Vec<usize>,
}

/// A message before it was signed.
#[derive(Debug)]
pub(super) struct SentMessage {
    pub(super) at: Time,
    pub(super) interface: InterfaceId,
    pub(super) how: Outgoing,
    pub(super) octets: Vec<u8>,
}

impl RecentMessages {
    /// Limit of kept messages.
    pub(super) const MESSAGES: usize = 8;
    /// Limit of the length of kept messages, octets.
    pub(super) const LONGEST: usize = 2_048;
    /// Time for which a message is kept.
    pub(super) const AGE: Duration = Duration::from_secs(1);

    pub(super) fn keep(&mut self, at: Time, interface: InterfaceId, how: Outgoing, message: &[u8]) {
        if message.len() > Self::LONGEST {
            return;
        }
        // The buffer of the oldest is reused.
        let mut octets = match self.messages.len() < Self::MESSAGES {
            true => Vec::new(),
            false => self.messages.pop_front().map(|sent| sent.octets).unwrap_or_default(),
        };
        octets.clear();
        octets.extend_from_slice(message);
        self.messages.push_back(SentMessage { at, interface, how, octets });
    }
}
