//! Reservations of aggregates in a core, by the protocol that the settings name.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Prefix, Rate};
use serde::{Deserialize, Serialize};

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
    /// RSVP: a session for the packets with a DSCP (RFC 3175), from 1 to 63.
    Rsvp {
        /// DSCP of the packets.
        dscp: u8,
    },
}

impl CoreProtocol {
    /// Names of the protocols: first the one without DSCP.
    pub const NAMES: [&str; 2] = [by_boomerang::PROTOCOL_NAME, by_rsvp::PROTOCOL_NAME];

    /// Returns the protocol with this name; RSVP for packets with `dscp`.
    pub fn named(name: &str, dscp: u8) -> Option<CoreProtocol> {
        match name {
            by_boomerang::PROTOCOL_NAME => Some(CoreProtocol::Boomerang),
            by_rsvp::PROTOCOL_NAME => Some(CoreProtocol::Rsvp { dscp }),
            _ => None,
        }
    }

    /// Returns whether the nodes of the core process messages of the flows unless these are hidden.
    pub fn needs_hiding(self) -> bool {
        matches!(self, CoreProtocol::Rsvp { .. })
    }

    /// Returns the DSCP by which the core tells the packets apart; `None` if it does not.
    pub(crate) fn dscp(self) -> Option<u8> {
        match self {
            CoreProtocol::Boomerang => None,
            CoreProtocol::Rsvp { dscp } => Some(dscp),
        }
    }

    /// Returns the name of the protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CoreProtocol::Boomerang => by_boomerang::PROTOCOL_NAME,
            CoreProtocol::Rsvp { .. } => by_rsvp::PROTOCOL_NAME,
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
            CoreProtocol::Rsvp { dscp } => by_rsvp::reserve(number, to, dscp, rate).into(),
        }
    }

    /// Returns the command to change the rate of an aggregate.
    pub(crate) fn modify(self, number: u32, to: IpAddr, rate: Rate) -> Command {
        match self {
            CoreProtocol::Boomerang => by_boomerang::modify(number, rate),
            CoreProtocol::Rsvp { .. } => by_rsvp::modify(number, to, rate),
        }
    }

    /// Returns the command to release an aggregate.
    pub(crate) fn release(self, number: u32) -> Command {
        match self {
            CoreProtocol::Boomerang => by_boomerang::release(number),
            CoreProtocol::Rsvp { .. } => by_rsvp::release(number),
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
