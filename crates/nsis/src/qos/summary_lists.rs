//! The two lists of a message about several sessions: SESSION-ID-LIST and RSN-LIST.

use alloc::vec::Vec;

use earmark_wire::gist::SessionId;

/// Sessions and sequence numbers in the format of the two lists.
#[derive(Debug, Default)]
pub(super) struct SummaryLists {
    pub(super) sessions: Vec<[u8; SessionId::LEN]>,
    pub(super) rsns: Vec<[u8; 4]>,
}

impl SummaryLists {
    pub(super) fn push(&mut self, id: SessionId, number: u32) {
        self.sessions.push(id.0);
        self.rsns.push(number.to_be_bytes());
    }

    pub(super) fn clear(&mut self) {
        self.sessions.clear();
        self.rsns.clear();
    }
}
