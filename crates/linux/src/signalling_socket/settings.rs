//! How a node signals: what it takes out of the packets that pass, interface by interface.

use earmark_core::{Datagram, InterfaceId};

/// By which means a node signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By raw sockets, and inside UDP where an interface is set so.
    #[default]
    Raw,
    /// Inside UDP only: for hosts, which then need no CAP_NET_RAW.
    UdpOnly,
}

/// Which messages of RSVP are taken out of the packets that arrive through an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intercept {
    /// Those that ask for it by router alert, those for this host, and those to groups.
    #[default]
    RouterAlert,
    /// All of protocol 46, for neighbours that never set router alert.
    Protocol,
}

/// Which messages of YESSIR are taken out of the packets that arrive through an interface. Those for this host are
/// copied: the application has its reports all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Yessir {
    /// None.
    #[default]
    Off,
    /// Those that ask for it by router alert.
    RouterAlert,
    /// All UDP packets with an RTCP compound that holds an APP packet named YSSR, for networks that take options off.
    Always,
}

/// Which messages of GIST are taken out of the packets that arrive through an interface: of those in transit. Those for
/// this host are always taken, but where it is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gist {
    /// None, and nothing for this host either.
    #[default]
    Off,
    /// Those that ask for it by router alert, with whatever value (RFC 5971 section 5.3.2.1).
    RouterAlert,
    /// All Queries that go to the port of GIST, for neighbours that never set router alert.
    Port,
}

/// How messages pass through one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSignalling {
    /// Messages of RSVP.
    pub intercept: Intercept,
    /// Whether there are hosts behind it that signal inside UDP (RFC 2205 appendix C): messages in UDP are heard, and
    /// those that follow the data leave both ways.
    pub udp: bool,
    /// Whether messages of Boomerang are taken: pings whose data begin with MAGIC. Where BPF is not to be had, only those
    /// with router alert are seen in transit, hence no replies of hosts that do not copy the option.
    pub boomerang: bool,
    /// Messages of YESSIR.
    pub yessir: Yessir,
    /// Whether sender reports of RTP applications that know nothing of YESSIR are copied. Needs BPF.
    pub sender_reports: bool,
    /// Messages of GIST.
    pub gist: Gist,
}

/// A message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'a> {
    /// IP protocol number of its payload: 46 an RSVP message, 1 or 58 an ICMP or ICMPv6 message, 17 a UDP header and
    /// what follows.
    pub protocol: u8,
    /// Whether it is a copy: the kernel sends the packet on or delivers it by itself. All others were consumed: whoever
    /// reads one sends it on or answers it.
    pub is_copy: bool,
    /// What the kernel has done about a message of Boomerang that it sent on by itself; see [`super::FastPath`].
    pub settled: Option<Settled>,
    /// The message.
    pub datagram: Datagram<'a>,
}

/// What the kernel has done about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It has taken this from the share of a link.
    Reserved(Share),
    /// It has added these to the shares of links; a rate of zero says nothing.
    Released([Share; 2]),
}

/// A part of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Bits per second.
    pub rate: u32,
}

/// What a socket counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Messages handed out.
    pub received: u64,
    /// Packets not handed out because their IP header was broken, or because they came inside UDP where nobody wants
    /// that.
    pub malformed: u64,
    /// Messages the kernel dropped because the receive buffer, or the interceptor's ring, was full.
    pub overflowed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages lost because the kernel had no room ([`super::SendError::NoRoom`]).
    pub no_room: u64,
    /// Packets in transit that carried a router alert but were no messages for us, and were sent on.
    pub passed_on: u64,
}
