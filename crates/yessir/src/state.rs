//! The state blocks.
//!
//! A stream that asks for bandwidth is a [`Session`]. It owns its [`Leg`]s, one for each link that it leaves by: one for a
//! unicast stream, one a branch for one that goes to a group. A leg holds the claim on its link, or waits for one.
//!
//! Streams that share have legs without claims, which say only where they go. The claims are those of the legs of their
//! [`Pool`], one for each link that some of them leaves by.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Demand, Service};
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Rate, Time};

use crate::api::Stream;
use crate::measure::Measurement;

/// Where a block stands in its slab.
pub(crate) type Index = u32;
/// No block.
pub(crate) const NONE: Index = u32::MAX;

/// Asks for nothing.
pub(crate) const NOTHING: Demand =
    Demand { service: Service::ControlledLoad, rate: Rate::ZERO, burst: 0, max_packet: 0 };

/// A stream that asks for bandwidth.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: Stream,
    /// First of its legs.
    pub(crate) legs: Index,
    /// The pool that it has a part in.
    pub(crate) pool: Index,
    /// Source of the stream.
    pub(crate) ssrc: u32,
    /// What is asked of each link.
    pub(crate) asked: Demand,
    /// What its sender said last: [`earmark_wire::yessir::CommonForm::fingerprint`]; 0 where that is not enough to know whether a
    /// message says something new.
    pub(crate) said: u64,
    /// How long it lives after a message, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// The state of the routes by which its one way was found; see [`crate::instance::Yessir::routes_version`].
    pub(crate) routes_version: u32,
    pub(crate) expires_at: Time,
    /// Fires at that time, or before and is armed again.
    pub(crate) timer: Option<TimerId>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// What most sessions do not need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Where its rate is taken from its reports.
    pub(crate) measurement: Option<Measurement>,
    /// Number of the last message that proved to be its sender's.
    pub(crate) sequence: Option<u64>,
    /// Its reports have no YESSIR in them. They go their own way, like the data, and so need a part of what is reserved:
    /// routers further on would miss them behind a full queue.
    pub(crate) plain: bool,
}

/// Senders of one RTP session that share what they reserve.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) destination: IpAddr,
    pub(crate) port: u16,
    /// First of its legs.
    pub(crate) legs: Index,
    /// Sessions, in order.
    pub(crate) members: Vec<Index>,
}

/// Whose a leg is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Session(Index),
    Pool(Index),
}

/// One link that a stream, or a pool, leaves by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) holder: Holder,
    /// The next one of the same holder.
    pub(crate) next: Index,
    pub(crate) interface: InterfaceId,
    /// What it holds, all of what it is asked for or some.
    pub(crate) claim: Option<ClaimId>,
    /// It holds all.
    pub(crate) full: bool,
    /// The counter c of the study: how often it was put into the line of those that wait.
    pub(crate) waits: u32,
    /// It stands in that line.
    pub(crate) waiting: bool,
    /// It was refused, and who wants to know was told.
    pub(crate) told: bool,
    /// Traffic control has failed it since the last message, which must say so.
    pub(crate) failed: bool,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A stream may end.
    Session,
    /// A stream of this host is to be announced.
    Report,
    /// A stream that somebody listens to may end.
    Announcement,
}

/// Payload of the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) kind: TimerKind,
    /// Of a session, or of an application.
    pub(crate) block: Index,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 40 octets for the claim, 24 for the timer and some for the index a stream is to take no more than 256.
    #[test]
    fn blocks_stay_small() {
        assert!(size_of::<Session>() <= 128, "{}", size_of::<Session>());
        assert!(size_of::<slab_entry::Entry<Session>>() <= 128);
        assert!(size_of::<Leg>() <= 40, "{}", size_of::<Leg>());
    }

    /// What a slab makes of a block: it is free or not.
    mod slab_entry {
        #[allow(dead_code)]
        pub(super) enum Entry<T> {
            Vacant(usize),
            Occupied(T),
        }
    }
}
