//! What a node shows of itself: rows for listings, made to be serialised.

use alloc::string::String;
use core::net::IpAddr;

use earmark_core::Rate;
use serde::Serialize;

/// One sender of one session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// `rsvp`.
    pub protocol: &'static str,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Previous hop, `None` for a sender on this host.
    pub previous_hop: Option<IpAddr>,
    /// Incoming interface.
    pub incoming: Option<String>,
    /// Outgoing interface, `None` where it ends here.
    pub outgoing: Option<String>,
    /// Token rate the sender announces, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// RSVP hops so far, where the path advertises them.
    pub hops: Option<u32>,
    /// Seconds until it expires without a refresh; `None` for a sender on this host.
    pub expires_in_s: Option<f64>,
    /// Whether a reservation is in place or arrived for it.
    pub reserved: bool,
}

/// One reservation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReservationRow {
    /// `rsvp`.
    pub protocol: &'static str,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// `FF`, `SE`, `WF`.
    pub style: &'static str,
    /// `controlled-load` or `guaranteed`.
    pub service: &'static str,
    /// Outgoing interface, `None` for a receiver on this host.
    pub interface: Option<String>,
    /// Next hop, `None` for a receiver on this host.
    pub next_hop: Option<IpAddr>,
    /// Reserved rate, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// Seconds until it expires without a refresh; `None` for a receiver on this host.
    pub expires_in_s: Option<f64>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// Interface name.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// Whether it is up.
    pub up: bool,
    /// Its addresses.
    pub addresses: alloc::vec::Vec<IpAddr>,
    /// Bandwidth.
    pub bandwidth_bps: Rate,
    /// What may be reserved.
    pub reservable_bps: Rate,
    /// What is reserved.
    pub held_bps: Rate,
    /// What a dead daemon left reserved and nobody has claimed yet.
    pub adopted_bps: Rate,
    /// How many reservations.
    pub claims: usize,
}

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NeighborRow {
    /// `rsvp`.
    pub protocol: &'static str,
    /// Its address.
    pub address: IpAddr,
    /// Through which interface.
    pub interface: String,
    /// Senders whose previous hop it is.
    pub senders: usize,
    /// Reservations whose next hop it is.
    pub reservations: usize,
    /// Seconds since it was heard last.
    pub heard_s: f64,
}
