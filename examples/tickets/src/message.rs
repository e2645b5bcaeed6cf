//! Messages of Tickets: one format of 88 octets, in an IP protocol of its own.
//!
//! | offset | field |
//! |---|---|
//! | 0 | kind |
//! | 1 | IP protocol of the flow |
//! | 2 | Internet checksum of the message |
//! | 4 | refresh interval, seconds |
//! | 5 | requests: routers that took part; answers: routers that did not |
//! | 6 | largest packet, octets |
//! | 8, 10 | source and destination port of the flow |
//! | 12 | bucket depth, octets |
//! | 16 | rate, bits per second |
//! | 24 | refused: rate available, bits per second |
//! | 32 | ticket |
//! | 40, 56 | source and destination of the flow, IPv4 addresses as IPv4-mapped IPv6 addresses |
//! | 72 | refused: address of the node that refused |

use std::net::{IpAddr, Ipv6Addr};

use earmark_core::admission::{Demand, Service};
use earmark_core::{Flow, Rate};
use earmark_wire::checksum::checksum;

/// IP protocol: a number for experiments (RFC 3692).
pub const PROTOCOL: u8 = 253;
/// Octets of a message.
pub const LENGTH: usize = 88;
/// TTL of a message at its sender. Routers that take no part decrement it without counting themselves.
pub const TTL: u8 = 64;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reserve; follows the data.
    Request,
    /// A request that a node on the way has refused; follows the data and releases.
    Refused,
    /// Release; follows the data.
    Return,
    /// A request has reached the destination; goes back to the source.
    Answer,
    /// A refused request has reached the destination; goes back to the source.
    Refusal,
}

const KINDS: [Kind; 5] = [Kind::Request, Kind::Refused, Kind::Return, Kind::Answer, Kind::Refusal];

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Kind.
    pub kind: Kind,
    /// The packets: one source, one destination, ports or 0 for any.
    pub flow: Flow,
    /// Rate, bucket and packet size.
    pub demand: Demand,
    /// Number that the sender has drawn. Only who knows it changes or releases the reservation.
    pub ticket: u64,
    /// Seconds between two requests.
    pub interval_s: u8,
    /// Requests: routers that took part. Answers: routers that did not.
    pub hops: u8,
    /// Refused: rate available.
    pub available: Rate,
    /// Refused: node that refused.
    pub refused_by: IpAddr,
}

impl Message {
    /// Parses a message; `None` if it is malformed.
    pub fn parse(octets: &[u8]) -> Option<Message> {
        let octets: &[u8; LENGTH] = octets.try_into().ok()?;
        if checksum(octets) != 0 {
            return None;
        }
        let u16_at = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        let u64_at = |at: usize| octets[at..at + 8].iter().fold(0, |n, o| n << 8 | u64::from(*o));
        let address = |at: usize| {
            let octets: [u8; 16] = octets[at..at + 16].try_into().unwrap_or_default();
            Ipv6Addr::from(octets).to_canonical()
        };
        let flow = Flow {
            destination: address(56),
            source: Some(address(40)),
            protocol: octets[1],
            destination_port: u16_at(10),
            source_port: u16_at(8),
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        flow.check().ok()?;
        Some(Message {
            kind: *KINDS.get(usize::from(octets[0]))?,
            flow,
            demand: Demand {
                service: Service::ControlledLoad,
                rate: Rate::from_bps(u64_at(16)),
                burst: (u64_at(8) & u64::from(u32::MAX)) as u32,
                max_packet: u16_at(6).into(),
                min_packet: 0,
            },
            ticket: u64_at(32),
            interval_s: octets[4].max(1),
            hops: octets[5],
            available: Rate::from_bps(u64_at(24)),
            refused_by: address(72),
        })
    }

    /// Encodes the message.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut octets = [0; LENGTH];
        octets[0] = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or_default() as u8;
        octets[1] = self.flow.protocol;
        octets[4] = self.interval_s;
        octets[5] = self.hops;
        let mut put = |at: usize, value: &[u8]| octets[at..at + value.len()].copy_from_slice(value);
        let max_packet = u16::try_from(self.demand.max_packet).unwrap_or(u16::MAX);
        put(6, &max_packet.to_be_bytes());
        put(8, &self.flow.source_port.to_be_bytes());
        put(10, &self.flow.destination_port.to_be_bytes());
        put(12, &self.demand.burst.to_be_bytes());
        put(16, &self.demand.rate.as_bps().to_be_bytes());
        put(24, &self.available.as_bps().to_be_bytes());
        put(32, &self.ticket.to_be_bytes());
        let source = self.flow.source.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
        for (at, address) in [(40, source), (56, self.flow.destination), (72, self.refused_by)] {
            let address = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            put(at, &address.octets());
        }
        let sum = checksum(&octets);
        octets[2..4].copy_from_slice(&sum.to_be_bytes());
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: &str, destination: &str) -> Message {
        let address = |text: &str| text.parse().expect("an address");
        Message {
            kind: Kind::Refused,
            flow: Flow {
                destination: address(destination),
                source: Some(address(source)),
                protocol: 17,
                destination_port: 5_000,
                source_port: 4_000,
                flow_label: 0,
                spi: 0,
                destination_open: 0,
                source_open: 0,
                dscp: 0,
            },
            demand: Demand {
                service: Service::ControlledLoad,
                rate: Rate::from_mbps(2),
                burst: 70_000,
                max_packet: 1_500,
                min_packet: 0,
            },
            ticket: u64::MAX - 1,
            interval_s: 30,
            hops: 3,
            available: Rate::from_bps(999),
            refused_by: address(destination),
        }
    }

    #[test]
    fn message_is_parsed_as_emitted() {
        for message in [message("10.0.0.1", "10.0.9.2"), message("2001:db8::1", "2001:db8:9::2")] {
            assert_eq!(Message::parse(&message.emit()), Some(message));
        }
    }

    #[test]
    fn damaged_or_short_message_is_malformed() {
        let octets = message("10.0.0.1", "10.0.9.2").emit();
        for at in 0..LENGTH {
            let mut damaged = octets;
            damaged[at] ^= 0x10;
            assert_eq!(Message::parse(&damaged), None, "octet {at}");
        }
        assert_eq!(Message::parse(&octets[..LENGTH - 1]), None);
        assert_eq!(Message::parse(&[]), None);
    }
}
