//! Deviations of other implementations from the RFCs that are accepted because their meaning is unambiguous. No message of
//! this node has them; the settings `strict` refuse them.

use serde::{Deserialize, Serialize};

earmark_core::named_enum! {
    /// A deviation that is accepted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Tolerated {
        /// The MRI of a flow has prefix length 0 beside the address of a host, instead of 32 or 128 (RFC 5971 A.3.1.1).
        PrefixLength = "prefix length 0 with host address",
        /// TMOD-1 or TMOD-2 has four words, without the maximum packet size, instead of five (RFC 5975 sections 5.2.1 and
        /// 5.2.2).
        TmodLength = "TMOD-1 of four words",
    }
}

/// Number of messages with each deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TolerationCounts([u32; Tolerated::ALL.len()]);

impl TolerationCounts {
    pub(crate) fn count(&mut self, tolerated: Tolerated) {
        if let Some(count) = self.0.get_mut(tolerated as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// Iterates over the deviations that have occurred, each with its number of messages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tolerated, u32)> {
        Tolerated::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}
