//! Rows of listings, as clients read them: the rows of [`earmark_node`], owned.
//!
//! The node's own rows borrow constant names and can only be written. That both have the same fields is tested here.

use std::net::IpAddr;

use earmark_core::Rate;
use serde::{Deserialize, Serialize};

/// One sender of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as of earmark_node::SessionRow")]
pub struct SessionRow {
    pub protocol: String,
    pub destination: IpAddr,
    pub destination_port: u16,
    pub ip_protocol: u8,
    pub source: IpAddr,
    pub source_port: u16,
    pub previous_hop: Option<IpAddr>,
    pub incoming: Option<String>,
    pub outgoing: Option<String>,
    pub rate_bps: u64,
    pub burst_octets: u32,
    pub hops: Option<u32>,
    pub expires_in_s: Option<f64>,
    pub reserved: bool,
}

/// One reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as of earmark_node::ReservationRow")]
pub struct ReservationRow {
    pub protocol: String,
    pub destination: IpAddr,
    pub destination_port: u16,
    pub ip_protocol: u8,
    pub source: IpAddr,
    pub source_port: u16,
    pub style: String,
    pub service: String,
    pub interface: Option<String>,
    pub next_hop: Option<IpAddr>,
    pub rate_bps: u64,
    pub burst_octets: u32,
    pub expires_in_s: Option<f64>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as of earmark_node::LinkRow")]
pub struct LinkRow {
    pub interface: String,
    pub index: u32,
    pub up: bool,
    pub addresses: Vec<IpAddr>,
    pub bandwidth_bps: Rate,
    pub reservable_bps: Rate,
    pub held_bps: Rate,
    pub claims: u32,
    pub adopted: u32,
}

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as of earmark_node::NeighborRow")]
pub struct NeighborRow {
    pub protocol: String,
    pub address: IpAddr,
    pub interface: String,
    pub senders: usize,
    pub reservations: usize,
    pub heard_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 2, 2));

    /// Written by the node, read by the client, and nothing lost on the way.
    fn same<N: Serialize, C: Serialize + for<'a> Deserialize<'a>>(row: N) {
        let written = serde_json::to_value(row).unwrap();
        let read: C = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), written);
    }

    #[test]
    fn clients_read_the_rows_that_nodes_write() {
        same::<_, SessionRow>(earmark_node::SessionRow {
            protocol: "rsvp",
            destination: ADDRESS,
            destination_port: 5001,
            ip_protocol: 17,
            source: ADDRESS,
            source_port: 0,
            previous_hop: None,
            incoming: Some("eth0".into()),
            outgoing: None,
            rate_bps: 2_000_000,
            burst_octets: 10_000,
            hops: Some(2),
            expires_in_s: Some(1.5),
            reserved: true,
        });
        same::<_, ReservationRow>(earmark_node::ReservationRow {
            protocol: "rsvp",
            destination: ADDRESS,
            destination_port: 5001,
            ip_protocol: 17,
            source: ADDRESS,
            source_port: 0,
            style: "FF",
            service: "guaranteed",
            interface: None,
            next_hop: Some(ADDRESS),
            rate_bps: 2_000_000,
            burst_octets: 10_000,
            expires_in_s: None,
        });
        same::<_, LinkRow>(earmark_node::LinkRow {
            interface: "eth0".into(),
            index: 2,
            up: true,
            addresses: vec![ADDRESS],
            bandwidth_bps: Rate::from_mbps(10),
            reservable_bps: Rate::from_mbps(7),
            held_bps: Rate::from_mbps(2),
            claims: 1,
            adopted: 3,
        });
        same::<_, NeighborRow>(earmark_node::NeighborRow {
            protocol: "rsvp",
            address: ADDRESS,
            interface: "eth0".into(),
            senders: 1,
            reservations: 2,
            heard_s: 0.25,
        });
    }
}
