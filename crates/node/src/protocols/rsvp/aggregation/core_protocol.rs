//! Reservations of aggregates in a core, by the protocol that the settings name.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Prefix, Rate};
use serde::{Deserialize, Serialize};

use super::core_packets::CorePackets;
use crate::edge::CoreEvent;
use crate::protocols::boomerang::core_reservation as by_boomerang;
use crate::protocols::rsvp::core_reservation as by_rsvp;
use crate::protocols::{Command, Event};

/// Protocol that reserves an aggregate in the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreProtocol {
    /// Boomerang: a session for the range of destinations.
    #[default]
    Boomerang,
    /// RSVP: a session for these packets.
    Rsvp(CorePackets),
}

/// The settings of an aggregate do not fit its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreProtocolError {
    /// No protocol with this name reserves aggregates.
    UnknownName,
    /// The protocol needs to know how the core tells the packets apart.
    WithoutPackets,
    /// The protocol tells the packets apart by the range of destinations.
    ByRange,
}

impl CoreProtocol {
    /// Names of the protocols: first the one that tells packets apart by the range of destinations.
    pub const NAMES: [&str; 2] = [by_boomerang::PROTOCOL_NAME, by_rsvp::PROTOCOL_NAME];

    /// Returns the protocol with this name, for these packets.
    ///
    /// # Errors
    /// There is no such protocol, or it needs `packets` and has none, or the reverse.
    pub fn named(
        name: &str,
        packets: Option<CorePackets>,
    ) -> Result<CoreProtocol, CoreProtocolError> {
        match (name, packets) {
            (by_boomerang::PROTOCOL_NAME, None) => Ok(CoreProtocol::Boomerang),
            (by_boomerang::PROTOCOL_NAME, Some(_)) => Err(CoreProtocolError::ByRange),
            (by_rsvp::PROTOCOL_NAME, Some(packets)) => Ok(CoreProtocol::Rsvp(packets)),
            (by_rsvp::PROTOCOL_NAME, None) => Err(CoreProtocolError::WithoutPackets),
            _ => Err(CoreProtocolError::UnknownName),
        }
    }

    /// Returns the packets of a session of the core; `None` if the ranges of the aggregates tell the packets apart.
    pub fn packets(self) -> Option<CorePackets> {
        match self {
            CoreProtocol::Boomerang => None,
            CoreProtocol::Rsvp(packets) => Some(packets),
        }
    }

    /// Returns the DSCP by which the core tells the packets apart; `None` if it does not.
    pub(crate) fn dscp(self) -> Option<u8> {
        match self.packets()? {
            CorePackets::Dscp(dscp) => Some(dscp),
            CorePackets::Tunnel(_) => None,
        }
    }

    /// Returns the name of the protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CoreProtocol::Boomerang => by_boomerang::PROTOCOL_NAME,
            CoreProtocol::Rsvp(_) => by_rsvp::PROTOCOL_NAME,
        }
    }

    /// Returns whether the protocol answers each request, a refused one and a release, too. RSVP tells only the receiver of
    /// a refusal.
    pub(crate) fn answers_all(self) -> bool {
        self == CoreProtocol::Boomerang
    }

    /// Returns the commands to reserve the aggregate of this number to the far edge `to`, for destinations in `range`.
    pub(crate) fn reserve(
        self,
        number: u32,
        to: IpAddr,
        range: Prefix,
        rate: Rate,
    ) -> Vec<Command> {
        match self {
            CoreProtocol::Boomerang => vec![by_boomerang::reserve(number, to, range, rate)],
            CoreProtocol::Rsvp(packets) => by_rsvp::reserve(number, to, packets, rate).into(),
        }
    }

    /// Returns the command to change the rate of an aggregate.
    pub(crate) fn modify(self, number: u32, to: IpAddr, rate: Rate) -> Command {
        match self {
            CoreProtocol::Boomerang => by_boomerang::modify(number, rate),
            CoreProtocol::Rsvp(packets) => by_rsvp::modify(number, to, packets, rate),
        }
    }

    /// Returns the command to release an aggregate.
    pub(crate) fn release(self, number: u32) -> Command {
        match self {
            CoreProtocol::Boomerang => by_boomerang::release(number),
            CoreProtocol::Rsvp(_) => by_rsvp::release(number),
        }
    }
}

/// Returns an event of an aggregate's reservation, with the number of the aggregate if the application is one. `None` for
/// other events.
pub(crate) fn event_of_aggregate(event: &Event) -> Option<(usize, CoreEvent)> {
    match event {
        Event::Boomerang(event) => by_boomerang::event_of_aggregate(event),
        Event::Rsvp(event) => by_rsvp::event_of_aggregate(event),
        _ => None,
    }
}
