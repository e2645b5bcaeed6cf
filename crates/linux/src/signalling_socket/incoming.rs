//! Settings of the signalling: the packets that are intercepted, interface by interface.

use earmark_core::Datagram;

use super::protocols::ShareChange;
pub use super::protocols::nsis::Gist;
pub use super::protocols::rsvp::Intercept;
pub use super::protocols::yessir::Yessir;

/// Sockets by which a node signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Raw sockets, and UDP on interfaces with that setting.
    #[default]
    Raw,
    /// UDP only: for hosts, which then need no CAP_NET_RAW.
    UdpOnly,
}

/// Signalling settings of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSignalling {
    /// RSVP messages.
    pub intercept: Intercept,
    /// Whether hosts on the link signal inside UDP (RFC 2205 appendix C): messages in UDP are received, and those that
    /// follow the data leave both raw and inside UDP.
    pub udp: bool,
    /// Whether Boomerang messages are intercepted: pings whose data begin with MAGIC. If BPF is unavailable, only those
    /// with router alert are received in transit, hence no replies of hosts that do not copy the option.
    pub boomerang: bool,
    /// YESSIR messages.
    pub yessir: Yessir,
    /// Whether sender reports of RTP applications without YESSIR are copied. Needs BPF.
    pub sender_reports: bool,
    /// GIST messages.
    pub gist: Gist,
}

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

/// Counters of a socket since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Messages received.
    pub received: u64,
    /// Packets dropped because their IP header was malformed, or because they arrived inside UDP at an interface that
    /// does not use it.
    pub malformed: u64,
    /// Messages the kernel dropped because the receive buffer, or the interceptor's ring, was full.
    pub overflowed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages lost because the kernel's queues were full ([`super::SendError::QueueFull`]).
    pub queue_full: u64,
    /// Packets in transit with router alert that were not messages and were forwarded from here.
    pub forwarded: u64,
}
