//! Peer-Identity of this node, as its messages have it.

/// Peer-Identity of this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    octets: [u8; 16],
    length: u8,
}

impl Identity {
    pub(super) fn new(identity: &[u8]) -> Identity {
        let mut octets = [0; 16];
        let length = identity.len().min(octets.len());
        octets[..length].copy_from_slice(&identity[..length]);
        Identity { octets, length: length as u8 }
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}
