//! Calls of the hook for signalling messages.

use alloc::boxed::Box;

use earmark_core::InterfaceId;

use super::Network;
use crate::NodeId;
use crate::capture::octets;
use crate::message_hook::{Direction, HookedMessage, MessageAction, MessageHook};
use crate::packet::{Body, Packet};

impl Network {
    /// Sets the hook that sees the signalling messages on all links from now on; `None`: no longer.
    pub fn set_message_hook(&mut self, hook: Option<Box<dyn MessageHook>>) {
        self.message_hook = hook;
    }

    /// Shows a message at an interface to the hook, which may replace it; returns whether it continues.
    pub(crate) fn passes_hook(
        &mut self,
        (node, interface): (NodeId, InterfaceId),
        direction: Direction,
        packet: &mut Packet,
    ) -> bool {
        let (Some(hook), Body::Signalling(payload)) = (&mut self.message_hook, &packet.body) else {
            return true;
        };
        let whole = octets(packet);
        let action = hook.message(&HookedMessage {
            at: self.now,
            node,
            interface,
            direction,
            source: packet.source,
            destination: packet.destination,
            ip_protocol: packet.protocol,
            packet: whole.as_deref(),
            octets: payload,
        });
        match action {
            MessageAction::Pass => true,
            MessageAction::Drop => false,
            MessageAction::Replace(replacement) => {
                let header = packet.length.saturating_sub(length(payload.len()));
                packet.length = header.saturating_add(length(replacement.len()));
                packet.body = Body::Signalling(replacement);
                true
            }
        }
    }
}

/// Returns a length in octets; the largest possible one if there is no such packet.
fn length(octets: usize) -> u32 {
    u32::try_from(octets).unwrap_or(u32::MAX)
}
