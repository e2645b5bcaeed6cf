//! Received messages, with the kernel's part in them.

use earmark_core::Datagram;

use super::protocols::ShareChange;

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'a> {
    /// IP protocol number of its payload: for 17 the payload is a UDP header and its data, for 1 or 58 an ICMP or
    /// ICMPv6 message, for others the message itself.
    pub protocol: u8,
    /// Whether it is a copy: the kernel forwards or delivers the packet itself. All others were consumed: the reader
    /// forwards or answers them.
    pub is_copy: bool,
    /// Change that the kernel has made for a message that it forwarded itself; see [`super::Offload`].
    pub share_change: Option<ShareChange>,
    /// The message.
    pub datagram: Datagram<'a>,
}
