//! What the daemon notes about reservations.

use std::net::IpAddr;

use earmark_core::Flow;
use earmark_core::listing::{ReservationRow, SenderName, UserRow};
use serde::{Deserialize, Serialize};

/// One note about reservations, in the order in which things happened. Times are milliseconds since 1970 by the wall clock. Numbers
/// of reservations count from the last [`Record::Started`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case", deny_unknown_fields)]
pub enum Record {
    /// A daemon has started. Open reservations are from an earlier one.
    Started {
        /// Time.
        at_ms: i64,
        /// Name of the node.
        node: String,
    },
    /// The kernel still has a flow of an earlier daemon. Follows [`Record::Started`].
    Adopted {
        /// The flow.
        flow: FlowKey,
    },
    /// There are no more [`Record::Adopted`]: other open reservations have ended while no daemon ran.
    AdoptedAll {},
    /// A reservation has been made, or continues that of an adopted flow. A repeated one replaces what is known of the number.
    Begun {
        /// Number.
        number: u64,
        /// Time.
        at_ms: i64,
        /// Flow of the reservation, or the first of several.
        flow: FlowKey,
        /// What the queue had counted before.
        counts: Counts,
        /// The reservation.
        reservation: Reservation,
    },
    /// A reservation has another rate, or other senders.
    Changed {
        /// Number.
        number: u64,
        /// Time.
        at_ms: i64,
        /// The reservation.
        reservation: Reservation,
    },
    /// What the queue has counted so far.
    Used {
        /// Number.
        number: u64,
        /// Time.
        at_ms: i64,
        /// What the queue has counted.
        counts: Counts,
    },
    /// A reservation has ended.
    Ended {
        /// Number.
        number: u64,
        /// Time.
        at_ms: i64,
        /// Why it ended.
        reason: String,
        /// What the queue had counted; absent if it cannot be read any more.
        counts: Option<Counts>,
    },
    /// Nobody has claimed an adopted flow in time, and its queue is removed.
    NotAdopted {
        /// The flow.
        flow: FlowKey,
        /// Time.
        at_ms: i64,
        /// What the queue had counted; absent if it cannot be read any more.
        counts: Option<Counts>,
    },
    /// This many records were dropped because the journal was full.
    Lost {
        /// Time of the next record that was kept.
        at_ms: i64,
        /// Number of records.
        records: u64,
    },
}

/// Flow on a link, by which a later daemon finds the reservation again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowKey {
    /// Name of the interface.
    pub link: String,
    /// Name of the protocol; absent if the kernel has not stored it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The packets.
    pub flow: Flow,
}

/// A reservation on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Name of the protocol.
    pub protocol: String,
    /// Name of the outgoing interface.
    pub link: String,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// DSCP of the data, if it is an aggregate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Senders whose packets get the reservation; none if it applies to all senders.
    pub senders: Vec<SenderName>,
    /// Style, in the words of the protocol.
    pub style: String,
    /// Service.
    pub service: String,
    /// User who requested it, if the request names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserRow>,
    /// Reserved rate, bits per second.
    pub rate_bps: u64,
}

impl Reservation {
    /// Describes a reservation on a link.
    pub fn on(link: String, row: ReservationRow) -> Reservation {
        Reservation {
            protocol: row.protocol.into_owned(),
            link,
            destination: row.destination,
            destination_port: row.destination_port,
            ip_protocol: row.ip_protocol,
            dscp: row.dscp,
            senders: row.senders,
            style: row.style.into_owned(),
            service: row.service.into_owned(),
            user: row.user,
            rate_bps: row.rate_bps,
        }
    }
}

/// What a queue has counted since it was created, also for earlier reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Octets forwarded, from the IP header on.
    pub octets: u64,
    /// Packets forwarded.
    pub packets: u64,
    /// Packets dropped because the queue was full.
    pub drops: u64,
}

impl Counts {
    /// Returns what was counted since `earlier`. A counter that has gone back, because the kernel has lost the queue, counts as zero.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            octets: self.octets.saturating_sub(earlier.octets),
            packets: self.packets.saturating_sub(earlier.packets),
            drops: self.drops.saturating_sub(earlier.drops),
        }
    }

    /// Returns the sum.
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            octets: self.octets.saturating_add(other.octets),
            packets: self.packets.saturating_add(other.packets),
            drops: self.drops.saturating_add(other.drops),
        }
    }
}
