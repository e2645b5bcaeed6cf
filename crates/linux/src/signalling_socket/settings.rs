//! Settings of the signalling: the packets that are intercepted, interface by interface.

use earmark_core::{Datagram, InterfaceId};

/// Sockets by which a node signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Raw sockets, and UDP on interfaces with that setting.
    #[default]
    Raw,
    /// UDP only: for hosts, which then need no CAP_NET_RAW.
    UdpOnly,
}

/// RSVP messages that are intercepted among the packets that arrive through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intercept {
    /// Messages with router alert, messages for this host, and messages to groups.
    #[default]
    RouterAlert,
    /// All of protocol 46, for neighbours that never set router alert.
    Protocol,
}

/// YESSIR messages that are intercepted among the packets that arrive through an interface. Those for this host are
/// copied, so that the application still receives its reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Yessir {
    /// None.
    #[default]
    Off,
    /// Messages with router alert.
    RouterAlert,
    /// All UDP packets with an RTCP compound that holds an APP packet named YSSR, for networks that remove options.
    Always,
}

/// GIST messages in transit that are intercepted among the packets that arrive through an interface. Those for this
/// host are always received, except with `Off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gist {
    /// None, also not those for this host.
    #[default]
    Off,
    /// Messages with router alert of any value (RFC 5971 section 5.3.2.1).
    RouterAlert,
    /// All Queries to the GIST port, for neighbours that never set router alert.
    Port,
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
    /// IP protocol number of its payload: 46 is an RSVP message, 1 or 58 an ICMP or ICMPv6 message, 17 a UDP header and
    /// its data.
    pub protocol: u8,
    /// Whether it is a copy: the kernel forwards or delivers the packet itself. All others were consumed: the reader
    /// forwards or answers them.
    pub is_copy: bool,
    /// What the kernel has done about a Boomerang message that it forwarded itself; see [`super::FastPath`].
    pub settled: Option<Settled>,
    /// The message.
    pub datagram: Datagram<'a>,
}

/// A change of delegated shares that the kernel has made for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The kernel has taken this from the share of a link.
    Reserved(Share),
    /// The kernel has added these to the shares of links; a rate of zero means no share.
    Released([Share; 2]),
}

/// A part of a link's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Bits per second.
    pub rate: u32,
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
    /// Messages lost because the kernel had no room ([`super::SendError::NoRoom`]).
    pub no_room: u64,
    /// Packets in transit with router alert that were no messages of these protocols and were forwarded.
    pub passed_on: u64,
}
