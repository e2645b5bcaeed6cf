//! Description of a signalling protocol, as far as the socket needs to know it.

use super::packet_filter::PacketFilter;

/// A signalling protocol.
#[derive(Debug)]
pub(super) struct Protocol {
    /// Programs that intercept its messages on the ingress of an interface.
    pub(super) programs: &'static [Program],
    /// Packets that raw sockets receive.
    pub(super) filter: PacketFilter,
    /// Whether the raw sockets are always open, and receive from all interfaces.
    pub(super) is_always_received: bool,
    /// UDP port that is kept open while an interface receives the protocol.
    pub(super) port: Option<u16>,
}

/// A BPF program of a protocol.
#[derive(Debug)]
pub(super) struct Program {
    /// Compiled object.
    pub(super) object: &'static [u8],
    /// Section of the object that holds the program.
    pub(super) section: &'static str,
    /// Name in the kernel.
    pub(super) name: &'static str,
    /// Whether raw sockets can replace it, at least for messages with router alert.
    pub(super) is_replaceable: bool,
}
