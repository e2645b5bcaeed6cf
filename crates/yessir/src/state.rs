//! State blocks.
//!
//! A stream that requests bandwidth is a [`Session`]. It owns its [`Leg`]s, one for each outgoing link: one for a
//! unicast stream, one per branch for a stream to a group. A leg holds the claim on its link, or waits for one.
//!
//! Streams of shared style have legs without claims, which only record their links. The claims are those of the legs
//! of their [`Pool`], one for each link that any of them leaves by.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Demand, Service};
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Rate, Time};
use earmark_token::HeldToken;

use crate::api::Stream;
use crate::measure::Measurement;

/// Index of a block in its slab.
pub(crate) type Index = u32;
/// No block.
pub(crate) const NONE: Index = u32::MAX;

/// The empty demand.
pub(crate) const NOTHING: Demand = Demand {
    service: Service::ControlledLoad,
    rate: Rate::ZERO,
    burst: 0,
    max_packet: 0,
    min_packet: 0,
};

/// A stream that requests bandwidth.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: Stream,
    /// First leg.
    pub(crate) legs: Index,
    /// The pool that it is a member of.
    pub(crate) pool: Index,
    /// Source of the stream.
    pub(crate) ssrc: u32,
    /// Interface that its reports arrive through; [`crate::origin::OWN`] for a stream of this host.
    pub(crate) arrival: InterfaceId,
    /// Interface whose senders share limits; see [`crate::origin::limited_port`].
    pub(crate) port: InterfaceId,
    /// Demand on each link.
    pub(crate) asked: Demand,
    /// Fingerprint of the last message: [`earmark_wire::yessir::CommonForm::fingerprint`]; 0 if a refresh cannot be
    /// recognised by it.
    pub(crate) fingerprint: u64,
    /// Lifetime after a message, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// Value of [`crate::instance::Yessir::routes_version`] when its one next hop was found.
    pub(crate) routes_version: u32,
    pub(crate) expires_at: Time,
    /// Timer that fires at `expires_at`, or earlier and is armed again.
    pub(crate) timer: Option<TimerId>,
    pub(crate) extra: Option<Box<Extra>>,
}

impl Session {
    /// Returns the token of the request.
    #[inline]
    pub(crate) fn token(&self) -> Option<&HeldToken> {
        self.extra.as_ref()?.token.as_deref()
    }

    /// Returns whether a message brings another token. A message without one changes nothing by that.
    #[inline]
    pub(crate) fn has_other_token(&self, token: Option<&[u8]>) -> bool {
        token.is_some() && !self.token().is_some_and(|held| held.is(token))
    }
}

/// Fields that most sessions do not need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Measurement of its rate from its reports.
    pub(crate) measurement: Option<Measurement>,
    /// Sequence number of the last authenticated message.
    pub(crate) sequence: Option<u64>,
    /// Whether its reports carry no YESSIR and have ports of their own. They are forwarded by the kernel, like the data, and
    /// so need a part of the reservation: downstream routers would miss them behind a full queue.
    pub(crate) has_own_report_flow: bool,
    /// Token of its request.
    pub(crate) token: Option<Box<HeldToken>>,
}

/// Senders of one RTP session that share a reservation.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) destination: IpAddr,
    pub(crate) port: u16,
    /// First leg.
    pub(crate) legs: Index,
    /// Sessions in ascending order.
    pub(crate) members: Vec<Index>,
}

/// Owner of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Session(Index),
    Pool(Index),
}

/// One outgoing link of a stream, or of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) holder: Holder,
    /// Next leg of the same holder.
    pub(crate) next: Index,
    pub(crate) interface: InterfaceId,
    /// Claim on the link, for all of the demand or a part of it.
    pub(crate) claim: Option<ClaimId>,
    /// Whether the claim covers the demand.
    pub(crate) full: bool,
    /// The counter c of the study: how often the leg entered the queue.
    pub(crate) waits: u32,
    /// Whether the leg is in the queue.
    pub(crate) waiting: bool,
    /// Whether a refusal was reported.
    pub(crate) refusal_reported: bool,
    /// Whether traffic control has failed since the last message; the next one notes it.
    pub(crate) failed: bool,
}

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A session may expire.
    Session,
    /// A report of this host's stream is due.
    Report,
    /// An announced stream may expire.
    Announcement,
    /// The first token of a stream ends.
    Token,
}

/// Payload of the timer wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) kind: TimerKind,
    /// Index of a session, or of an application.
    pub(crate) block: Index,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 40 octets for the claim, 24 for the timer and some for the index, a stream is to take at most 256.
    #[test]
    fn blocks_stay_small() {
        assert!(size_of::<Session>() <= 128, "{}", size_of::<Session>());
        assert!(size_of::<slab_entry::Entry<Session>>() <= 128);
        assert!(size_of::<Leg>() <= 40, "{}", size_of::<Leg>());
    }

    /// Layout of a slab entry: vacant or occupied.
    mod slab_entry {
        #[allow(dead_code)]
        pub(super) enum Entry<T> {
            Vacant(usize),
            Occupied(T),
        }
    }
}
