//! Arguments of reservations that every protocol has in common.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use earmark_control::command::Failure;
use earmark_control::{Identity, ReservationRequest, SenderName};
use earmark_core::Rate;
use earmark_core::amounts::{parse_duration, parse_octets};

use super::values::{Sharing, endpoint, flow_label, ip_protocol, sender, spi};
use crate::cli::token::read_token;

/// What `earmark reserve` takes with every protocol.
#[derive(Args, Debug)]
pub(crate) struct Reservation {
    /// Token rate, the long-term rate of the data: 64kbit, 2Mbit, 1.5Gbit.
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
    /// Only query the available rate, and reserve nothing.
    #[arg(long)]
    pub(crate) query: bool,
    /// Accept a reservation on a part of the path, if some hops refuse or take no part.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Timeout of the outcome: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// What `earmark listen` takes with every protocol.
#[derive(Args, Debug)]
pub(crate) struct Receiver {
    /// Where the data arrives: an address of this host, or a multicast group.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    pub(crate) on: SocketAddr,
    /// Reserve this much for each sender (controlled load) [default: what it announces].
    #[arg(long, conflicts_with = "delay")]
    pub(crate) rate: Option<Rate>,
    /// Reserve enough to keep queueing delays below this, such as 20ms (guaranteed service).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) delay: Option<Duration>,
    /// How senders share what is reserved.
    #[arg(long, value_name = "STYLE", default_value = "ff")]
    pub(crate) style: Sharing,
    /// Reserve for this sender only; may be given several times. An address alone means everything from it, #LABEL an
    /// IPv6 flow label, @SPI an SPI of ESP or AH.
    #[arg(long = "sender", value_name = "ADDR[:PORT|#LABEL|@SPI]", value_parser = sender)]
    pub(crate) senders: Vec<SenderName>,
    /// Wait at most this long until the first reservation is confirmed or refused: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// With --wait: accept a reservation on a part of the path, if some hops take no part.
    #[arg(long, requires = "wait")]
    pub(crate) partial: bool,
    /// IP protocol of the data: udp, tcp, esp, ah or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    pub(crate) ip_protocol: u8,
    /// Reserve this for the way back, too, for each sender.
    #[arg(long, value_name = "RATE")]
    pub(crate) back: Option<Rate>,
    #[command(flatten)]
    pub(crate) who: Who,
    /// Keep running and print events; the reservation ends with this command.
    #[arg(long)]
    pub(crate) hold: bool,
}

/// The data for which to reserve.
#[derive(Args, Debug)]
pub(crate) struct Traffic {
    /// Destination of the data; the port may be omitted for protocols without ports.
    #[arg(long, value_name = "HOST:PORT", value_parser = endpoint)]
    pub(crate) to: SocketAddr,
    /// Source of the data [default: this host's own address, any port].
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    pub(crate) from: Option<SocketAddr>,
    /// IPv6 flow label of the data, which identifies it instead of the source port.
    #[arg(long, value_name = "LABEL", value_parser = flow_label)]
    pub(crate) flow_label: Option<u32>,
    /// SPI of the data, which identifies it instead of the source port, with --ip-protocol esp or ah.
    #[arg(long, value_name = "SPI", value_parser = spi, conflicts_with = "flow_label")]
    pub(crate) spi: Option<u32>,
    /// Bucket depth, the largest burst: 1500, 20kB, 1MB.
    #[arg(long, value_name = "OCTETS", default_value = "10kB", value_parser = parse_octets)]
    pub(crate) burst: u32,
    /// Peak rate, if known.
    #[arg(long, value_name = "RATE")]
    pub(crate) peak: Option<Rate>,
    /// Packets smaller than this count as this large.
    #[arg(long, value_name = "OCTETS", default_value = "64", value_parser = parse_octets)]
    pub(crate) min_packet: u32,
    /// Largest packet.
    #[arg(long, value_name = "OCTETS", default_value = "1500", value_parser = parse_octets)]
    pub(crate) max_packet: u32,
    /// IP protocol of the data: udp, tcp, esp, ah or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    pub(crate) ip_protocol: u8,
    /// TTL of the data, and so the range of the announcement.
    #[arg(long, default_value_t = 64)]
    pub(crate) ttl: u8,
    #[command(flatten)]
    pub(crate) who: Who,
    /// Keep running and print events; the reservation ends with this command.
    #[arg(long)]
    pub(crate) hold: bool,
}

impl Traffic {
    /// Creates a request of a protocol for this traffic, tied to the connection and followed.
    pub(crate) fn request(&self, protocol: &str) -> Result<ReservationRequest, Failure> {
        Ok(ReservationRequest {
            from: self.from,
            flow_label: self.flow_label,
            spi: self.spi,
            ip_protocol: self.ip_protocol,
            burst_octets: self.burst,
            peak_bps: self.peak,
            min_packet: self.min_packet.min(self.max_packet),
            max_packet: self.max_packet,
            ttl: self.ttl,
            identity: self.who.identity()?,
            hold: true,
            follow: true,
            ..ReservationRequest::of(protocol, self.to)
        })
    }
}

/// Identity of the requester, for the policies of routers.
#[derive(Args, Clone, Debug)]
pub(crate) struct Who {
    /// Name the user: alice@example.org, or "CN=Alice, O=Example".
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Name the application: "APP=voice, VER=1".
    #[arg(long, value_name = "NAME")]
    pub(crate) application: Option<String>,
    /// Preemption priority, 0 to 65535: routers may preempt reservations of lower priority for it.
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u16>,
    /// Prove the name of the user by the token in this file (`earmark token issue` makes one).
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
}

impl Who {
    /// The identity in the form of the control protocol. Reads the file of the token.
    pub(crate) fn identity(&self) -> Result<Identity, Failure> {
        let Who { user, application, priority, token } = self.clone();
        let token = token.map(|file| read_token(&file)).transpose()?;
        let token = token.map(|token| token.to_string());
        Ok(Identity { user, application, priority, token })
    }
}
