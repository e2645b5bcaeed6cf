//! MESSAGE_ID without its flags, and its order.
//!
//! A neighbour numbers its messages upward, and chooses a new random epoch when it restarts. Each state block keeps the
//! MESSAGE_ID of the last message that changed it. A later message can thus be distinguished from one that was
//! overtaken, and a list of identifiers can stand for the messages themselves.

use earmark_wire::rsvp::MessageId;

/// Epoch and Message_Identifier of a message. The context supplies the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageIdKey {
    /// 24 bits, and one above them if the key is [joint](MessageIdKey::joint); all bits are set only in
    /// [`MessageIdKey::NONE`].
    pub(crate) epoch: u32,
    pub(crate) id: u32,
}

impl MessageIdKey {
    /// Key of a message without MESSAGE_ID.
    pub(crate) const NONE: MessageIdKey = MessageIdKey { epoch: u32::MAX, id: 0 };

    pub(crate) fn is_some(self) -> bool {
        self != MessageIdKey::NONE
    }

    /// Marks a key that several blocks share.
    const JOINT: u32 = 1 << 24;

    /// Returns the key of each block of a message that stands for several blocks.
    pub(crate) fn joint(self) -> MessageIdKey {
        MessageIdKey { epoch: self.epoch | MessageIdKey::JOINT, ..self }
    }

    pub(crate) fn is_joint(self) -> bool {
        self.is_some() && self.epoch & MessageIdKey::JOINT != 0
    }

    /// Returns whether the message with this identifier was sent before the one with `other`. Identifiers of different
    /// epochs have no order (RFC 2961 section 4.5).
    pub(crate) fn is_before(self, other: MessageIdKey) -> bool {
        let is_same_epoch = (self.epoch ^ other.epoch) & !MessageIdKey::JOINT == 0;
        is_same_epoch && precedes(self.id, other.id)
    }
}

impl From<MessageId> for MessageIdKey {
    fn from(id: MessageId) -> MessageIdKey {
        MessageIdKey { epoch: id.epoch, id: id.id }
    }
}

/// Returns whether `a` comes before `b` in serial number order (modulo 2^32).
pub(crate) fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serial numbers wrap: the smallest follows the largest.
    #[test]
    fn numbers_are_compared_across_the_wrap() {
        assert!(precedes(1, 2) && !precedes(2, 1) && !precedes(2, 2));
        assert!(precedes(u32::MAX, 0) && precedes(u32::MAX - 5, 5));
        assert!(!precedes(0, u32::MAX));
        assert!(precedes(7, 7 + (1 << 31) - 1));
    }

    #[test]
    fn message_ids_of_different_epochs_have_no_order() {
        let old = MessageIdKey { epoch: 1, id: 5 };
        assert!(
            old.is_before(MessageIdKey { id: 6, ..old })
                && !MessageIdKey { id: 6, ..old }.is_before(old)
        );
        assert!(!old.is_before(MessageIdKey { epoch: 2, id: 6 }));
        let joint = MessageIdKey { id: 6, ..old }.joint();
        assert!(old.is_before(joint) && old.joint().is_before(joint) && !joint.is_before(old));
        assert!(joint.is_joint() && !old.is_joint() && !MessageIdKey::NONE.is_joint());
        assert!(!old.is_before(MessageIdKey::NONE) && !MessageIdKey::NONE.is_before(old));
    }
}
