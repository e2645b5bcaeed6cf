//! Interception: what a host does with an arriving packet for the sake of signalling.

/// A packet that arrives at the host of a node.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// IP protocol.
    pub ip_protocol: u8,
    /// Payload of the IP packet.
    pub payload: &'a [u8],
    /// Whether the packet has the router-alert option.
    pub router_alert: bool,
    /// Whether the packet is for this host.
    pub here: bool,
    /// Whether the host forwards packets.
    pub forwards: bool,
}

impl Arrival<'_> {
    /// Returns whether a router has to look at the packet in transit.
    pub fn is_alert_in_transit(&self) -> bool {
        self.router_alert && self.forwards
    }
}

/// What a host does with an arriving packet for the sake of signalling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interception {
    /// The node gets the packet, and the host does nothing with it.
    Taken,
    /// The node gets a copy; the host forwards or delivers the packet.
    Copied,
    /// The host forwards or delivers the packet.
    Left,
}
