//! Command-line arguments and their help texts.

mod path;
pub(crate) mod values;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use earmark_control::{DEFAULT_SOCKET, Identity, Listing, ReservationRequest, SenderName};
use earmark_core::Rate;
use earmark_core::amounts::{parse_duration, parse_octets};

use crate::protocols::{self, PingOptions, ProtocolName};
pub(crate) use path::PathOptions;
pub(crate) use values::Sharing;
use values::{endpoint, flow_label, ip_protocol, sender};

/// Reserve bandwidth along a network path.
#[derive(Debug, Parser)]
#[command(name = "earmark", version, propagate_version = true, after_help = MAIN_HELP)]
pub(crate) struct Arguments {
    /// The daemon's control socket [default: /run/earmark/control.sock].
    #[arg(long, global = true, value_name = "PATH", help_heading = EVERYWHERE)]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON, errors included.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Path of the control socket: the argument, or [`DEFAULT_SOCKET`].
    pub(crate) fn socket(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(|| DEFAULT_SOCKET.into())
    }
}

const EVERYWHERE: &str = "Options of every command";

const MAIN_HELP: &str = "\
Every router and host on the path runs a daemon:
  earmarkd config example > /etc/earmark.toml       # then adapt its interfaces
  earmarkd --config /etc/earmark.toml

Then, on the receiver (10.0.2.2 here) and on the sender, in this order:
  earmark listen --on 10.0.2.2:5001                 # reserve for whoever announces data for this address
  earmark reserve --to 10.0.2.2:5001 --rate 2Mbit   # announce it, and wait until it is reserved

And anywhere on the path:
  earmark show reservations
  earmark show path 10.0.2.2:5001 --from 10.0.1.2:4000   # where this flow goes from here, and what it gets
  earmark trace 10.0.2.2:5001                       # hop by hop, from the receiver to the sender

Exit status: 0 success, 1 error, 2 wrong usage, 3 reservation refused, 4 nobody answered in time,
5 reserved on part of the path only, 6 on this node only (5 and 6: released again; success with --partial).
Only the daemon needs privileges.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List what the daemon knows: sessions, reservations, links, neighbors, aggregates,
    /// routing state, associations, applications or counters; or where one flow goes, and what it gets.
    #[command(after_help = "\
Examples:
  earmark show sessions          # senders that were announced (path state)
  earmark show reservations      # what is reserved, for whom, on which link, and what has gone through
  earmark show links             # how much of each link is reserved
  earmark show applications      # what was opened on this host; `earmark release` ends it
  earmark show routing-state     # of NSIS: which node is next for each session, and how good that is
  earmark show associations      # of NSIS: connections with other nodes
  earmark show path 10.0.2.2:5001 --from 10.0.1.1:4000   # where a flow goes from here, and what its packets get
  earmark show counters --json")]
    Show {
        /// What to show.
        #[command(subcommand)]
        what: Show,
        /// Show at most so many rows [default: 10000; of `path` 100].
        #[arg(long, global = true, value_name = "N")]
        limit: Option<usize>,
    },
    /// Announce data that this host sends, so that receivers can reserve (RSVP Path).
    #[command(after_help = "\
Examples:
  earmark send --to 10.0.2.2:5001 --rate 2Mbit
  earmark send --to 10.0.2.2:5001 --from 10.0.1.2:4000 --rate 2Mbit --burst 20kB --ip-protocol tcp
  earmark send --to 239.1.2.3:5001 --rate 2Mbit                            # to a multicast group
  earmark send --to [2001:db8::2]:5001 --flow-label 0x12345 --rate 2Mbit   # found by its IPv6 flow label

The announcement lasts until `earmark release`; with --hold, until this command ends.")]
    Send(SendOptions),
    /// Answer senders that announce data for this host or a group, by reserving for them or telling them what is reserved.
    #[command(after_help = protocols::listen_help())]
    Listen(ListenOptions),
    /// Reserve for a flow from or to this host, and wait for the outcome.
    #[command(after_help = protocols::reserve_help())]
    Reserve(ReserveOptions),
    /// End what `send`, `listen` or `reserve` began.
    #[command(after_help = "\
Examples:
  earmark release 7
  earmark release --all          # everything that was opened on this host")]
    Release(ReleaseOptions),
    /// Show a flow hop by hop: what each node from the receiver to the sender has reserved for it.
    #[command(after_help = "\
Examples:
  earmark trace 10.0.2.2:5001                            # on any node that the flow passes
  earmark trace 10.0.2.2:5001 --from 10.0.1.1:4000       # where there are several senders, or from elsewhere
  earmark trace 10.0.2.2:5001 --last-hop 10.0.5.1        # the receiver does not answer: start at this router
  earmark trace 239.1.2.3:5001 --from 10.0.1.1 --json

The question goes to the receiver (of a group: starts here), and from there from node to node up the path that RSVP
has noted, towards the sender (RFC 2745). Each node adds what it knows: what is reserved on its link, for whom, what the
sender announces, and how often it refreshes. Routers in between that speak no RSVP are counted. Nothing is changed.

Where a node is silent, the way is asked again hop by hop to find out which; that takes some seconds.
A reservation that is larger than the one a hop before is merged with others; \"nothing\" is where best effort begins.
Exit status: 0 the whole way answered, 1 a node knows nothing of the flow, 4 a node did not answer in time.")]
    Trace(TraceOptions),
    /// Show every node on the way to a host that takes part in NSIS, with its round-trip time (Ping NSLP).
    #[command(after_help = "\
Examples:
  earmark ping 10.0.3.2
  earmark ping 10.0.3.2 --qos                 # and what each node could still reserve, there and back
  earmark ping 10.0.3.2 --count 10 --interval 200ms --json
  earmark ping 10.0.3.2 --secure              # over connections by TLS, all the way

The message follows the path that packets to the host take; each node that speaks NSIS adds what it knows, and the last one
sends it back. Round-trip times need no clocks that agree: they are what is left of the whole when the time beyond a node is
taken off. The host itself answers if its daemon speaks NSIS; otherwise the last router that does.
Exit status: 0 a message came back, 4 none did in time.")]
    Ping(PingOptions),
    /// Print events as they happen, until Ctrl-C.
    #[command(after_help = "\
Examples:
  earmark watch
  earmark watch --count 10 --json
  earmark watch --for 10s")]
    Watch(WatchOptions),
    /// Print the JSON Schema of the control protocol, which describes every request, answer and event.
    #[command(after_help = "\
Example:
  earmark schema > control-protocol.json")]
    Schema,
    /// Print the reservation messages of a packet capture (pcap or pcapng).
    #[command(after_help = "\
Examples:
  tcpdump -i eth0 -w signalling.pcap ip proto 46
  tcpdump -i eth0 -w signalling.pcap 'proto 46 or icmp or icmp6 or udp'    # Boomerang and YESSIR, too
  earmark decode signalling.pcap
  earmark decode - --json < signalling.pcap        # one object a message")]
    Decode {
        /// The capture; `-` reads standard input.
        file: PathBuf,
    },
}

/// What can be shown.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Show {
    #[command(flatten)]
    Listing(What),
    /// Where a flow goes from this node, and what its packets get.
    Path(PathOptions),
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum What {
    /// Senders that were announced (path state).
    Sessions,
    /// What is reserved, and what has gone through it.
    Reservations,
    /// Interfaces that take part, and how much of each is reserved.
    Links,
    /// Nodes that this one talks to.
    Neighbors,
    /// What crosses cores in one reservation for many flows.
    Aggregates,
    /// The peers of GIST that each session of NSIS has.
    RoutingState,
    /// Connections with peers of GIST.
    Associations,
    /// What `send`, `listen` and `reserve` opened on this host.
    Applications,
    /// Messages by kind, what was dropped and why, sockets and traffic control.
    Counters,
}

impl From<What> for Listing {
    fn from(what: What) -> Listing {
        match what {
            What::Sessions => Listing::Sessions,
            What::Reservations => Listing::Reservations,
            What::Links => Listing::Links,
            What::Neighbors => Listing::Neighbors,
            What::Aggregates => Listing::Aggregates,
            What::RoutingState => Listing::RoutingState,
            What::Associations => Listing::Associations,
            What::Applications => Listing::Applications,
            What::Counters => Listing::Counters,
        }
    }
}

/// What the data looks like.
#[derive(Args, Debug)]
pub(crate) struct Traffic {
    /// Where the data goes; the port may be left out for protocols without.
    #[arg(long, value_name = "HOST:PORT", value_parser = endpoint)]
    pub(crate) to: SocketAddr,
    /// Where it comes from [default: this host's own address, any port].
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    pub(crate) from: Option<SocketAddr>,
    /// IPv6 flow label of the data, which then tells it from other data instead of its source port.
    #[arg(long, value_name = "LABEL", value_parser = flow_label)]
    pub(crate) flow_label: Option<u32>,
    /// Bucket depth, how much may come at once: 1500, 20kB, 1MB.
    #[arg(long, value_name = "OCTETS", default_value = "10kB", value_parser = parse_octets)]
    pub(crate) burst: u32,
    /// Peak rate, where it is known.
    #[arg(long, value_name = "RATE")]
    pub(crate) peak: Option<Rate>,
    /// Packets smaller than this count as this large.
    #[arg(long, value_name = "OCTETS", default_value = "64", value_parser = parse_octets)]
    pub(crate) min_packet: u32,
    /// Largest packet.
    #[arg(long, value_name = "OCTETS", default_value = "1500", value_parser = parse_octets)]
    pub(crate) max_packet: u32,
    /// IP protocol of the data: udp, tcp or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    pub(crate) ip_protocol: u8,
    /// TTL of the data, and so the reach of the announcement.
    #[arg(long, default_value_t = 64)]
    pub(crate) ttl: u8,
    #[command(flatten)]
    pub(crate) who: Who,
    /// Keep running, print what happens, and end it all with this command.
    #[arg(long)]
    pub(crate) hold: bool,
}

impl Traffic {
    /// Creates a request of a protocol for this traffic, tied to the connection and followed.
    pub(crate) fn request(&self, protocol: &str) -> ReservationRequest {
        ReservationRequest {
            from: self.from,
            flow_label: self.flow_label,
            ip_protocol: self.ip_protocol,
            burst_octets: self.burst,
            peak_bps: self.peak,
            min_packet: self.min_packet.min(self.max_packet),
            max_packet: self.max_packet,
            ttl: self.ttl,
            identity: self.who.identity(),
            hold: true,
            follow: true,
            ..ReservationRequest::of(protocol, self.to)
        }
    }
}

/// In whose name a reservation is asked for, for routers with rules about that.
#[derive(Args, Clone, Debug)]
pub(crate) struct Who {
    /// Name the user: alice@example.org, or "CN=Alice, O=Example".
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Name the application: "APP=voice, VER=1".
    #[arg(long, value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// How important it is, from 0 to 65535: routers may let it displace what is less.
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u16>,
}

impl Who {
    /// The identity in the form of the control protocol.
    pub(crate) fn identity(&self) -> Identity {
        let Who { user, application, priority } = self.clone();
        Identity { user, application, priority }
    }
}

#[derive(Args, Debug)]
pub(crate) struct SendOptions {
    /// Token rate, how fast the data comes for long: 64kbit, 2Mbit, 1.5Gbit.
    #[arg(long)]
    pub(crate) rate: Rate,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
}

#[derive(Args, Debug)]
pub(crate) struct ListenOptions {
    /// By which protocol senders announce themselves.
    #[arg(long, value_name = "NAME", default_value = "rsvp")]
    pub(crate) protocol: ProtocolName,
    /// Where the data arrives: an address of this host, or a multicast group.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    pub(crate) on: SocketAddr,
    /// Reserve this much for each sender (controlled load) [default: what it announces].
    #[arg(long, conflicts_with = "delay")]
    pub(crate) rate: Option<Rate>,
    /// Reserve so much that queueing delays stay below this, such as 20ms (guaranteed service).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) delay: Option<Duration>,
    /// How senders share what is reserved.
    #[arg(long, value_name = "STYLE", default_value = "ff")]
    pub(crate) style: Sharing,
    /// Reserve for this sender only; may be given several times. An address alone means all that it sends, #LABEL an
    /// IPv6 flow label.
    #[arg(long = "sender", value_name = "ADDR[:PORT|#LABEL]", value_parser = sender)]
    pub(crate) senders: Vec<SenderName>,
    /// Wait so long until the first reservation is confirmed or refused: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// With --wait: be content with a part of the path, where some hops take no part.
    #[arg(long, requires = "wait")]
    pub(crate) partial: bool,
    /// IP protocol of the data: udp, tcp or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    pub(crate) ip_protocol: u8,
    /// With NSIS: reserve this for the way back, too, for each sender.
    #[arg(long, value_name = "RATE")]
    pub(crate) back: Option<Rate>,
    #[command(flatten)]
    pub(crate) who: Who,
    /// Keep running, print what happens, and end it all with this command.
    #[arg(long)]
    pub(crate) hold: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReserveOptions {
    /// By which protocol to reserve.
    #[arg(long, value_name = "NAME", default_value = "rsvp")]
    pub(crate) protocol: ProtocolName,
    /// Token rate, how fast the data comes for long: 64kbit, 2Mbit, 1.5Gbit. For all but Boomerang.
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
    #[command(flatten)]
    pub(crate) own: protocols::Options,
    /// Only ask what could be had, and reserve nothing. Not for RSVP.
    #[arg(long)]
    pub(crate) query: bool,
    /// Be content with a part of the path, where some hops refuse or take no part. With YESSIR those that refuse try again.
    #[arg(long)]
    pub(crate) partial: bool,
    /// How long to wait for the outcome: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ReleaseOptions {
    /// Which one; `earmark show applications` lists them.
    #[arg(value_name = "ID")]
    pub(crate) application: Option<u64>,
    /// All of them, whoever opened them.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TraceOptions {
    /// Where the flow goes.
    #[arg(value_name = "HOST:PORT", value_parser = endpoint)]
    pub(crate) to: SocketAddr,
    /// Who sends it: ADDR, ADDR:PORT or ADDR#LABEL [default: the only sender known here].
    #[arg(long, value_name = "SENDER", value_parser = sender)]
    pub(crate) from: Option<SenderName>,
    /// IP protocol of the flow: udp, tcp or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    pub(crate) ip_protocol: u8,
    /// The node to start at [default: the receiver; for a group, this node].
    #[arg(long, value_name = "ADDR")]
    pub(crate) last_hop: Option<IpAddr>,
    /// Ask at most so many nodes; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_hops: u8,
    /// How long to wait in all: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct WatchOptions {
    /// End after so many events.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// End after so long: 500ms, 10s, 2min.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) span: Option<Duration>,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
