//! ADSPECs of received Path messages.

use alloc::sync::Arc;

use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::ErrorCode;
use earmark_wire::rsvp::iana::TrafficControlError;

use super::PathFault;
use crate::api::Offer;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::state::{Peer, Psb};
use crate::tolerated::Tolerated;

impl Rsvp {
    /// Refuses an ADSPEC whose services are not ordered, if deviations are not tolerated.
    #[inline]
    pub(super) fn check_adspec(&self, adspec: Option<&[u8]>) -> Result<(), PathFault> {
        match self.config.strict && adspec.is_some_and(|body| !Adspec::is_ordered(body)) {
            true => Err(bad_adspec()),
            false => Ok(()),
        }
    }

    /// Returns the ADSPEC to store for a sender. A neighbour that sends unordered ones is counted and remembered.
    #[inline]
    pub(super) fn keep_adspec(&mut self, hop: Peer, body: Option<&[u8]>) -> Option<Arc<[u8]>> {
        let body = body?;
        if let Some(known) = self.store.known_adspec(hop, body) {
            return Some(known);
        }
        if !Adspec::is_ordered(body)
            && let Some(deviations) = self.store.deviations_mut(hop)
            && deviations.insert(Tolerated::AdspecOrder)
        {
            self.counters.tolerated[Tolerated::AdspecOrder as usize] += 1;
        }
        Some(self.store.keep_adspec(hop, body))
    }
}

fn bad_adspec() -> PathFault {
    let value = TrafficControlError::BadAdspec.code();
    PathFault::Report(DropReason::Refused, ErrorCode::TrafficControlError, value)
}

/// Converts an ADSPEC for the receiver's application.
pub(super) fn offer(body: &[u8], flags: u8) -> Option<Offer> {
    let adspec = Adspec::parse(body).ok()?;
    Some(Offer::of(&adspec, flags & Psb::NON_RSVP != 0))
}
