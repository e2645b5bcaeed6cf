//! ADSPECs of received Path messages.

use alloc::sync::Arc;

use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::ErrorCode;
use earmark_wire::rsvp::iana::TrafficControlError;

use super::PathFault;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::offer::Offer;
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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use earmark_wire::intserv::{ControlledLoad, General, Guaranteed, GuaranteedTerms};

    use super::*;

    fn body(adspec: &Adspec<'_>) -> alloc::vec::Vec<u8> {
        let mut body = vec![0; adspec.buffer_len()];
        let length = adspec.emit(&mut body).expect("it has room");
        body.truncate(length);
        body
    }

    /// A break bit ends what the application may count on (RFC 2210 section 3.3): that of a service the service, the global
    /// one, or a hop without RSVP, all values.
    #[test]
    fn break_bits_reach_the_application() {
        let terms = Some(GuaranteedTerms { c_total: 3, d_total: 5, c_sum: 0, d_sum: 0 });
        for [global, guaranteed, controlled_load] in
            [[false; 3], [true, false, false], [false, true, false], [false, false, true]]
        {
            let usual = Adspec::for_sender();
            let adspec = Adspec {
                general: General { break_bit: global, ..usual.general },
                guaranteed: Some(Guaranteed {
                    break_bit: guaranteed,
                    terms,
                    ..Guaranteed::default()
                }),
                controlled_load: Some(ControlledLoad {
                    break_bit: controlled_load,
                    ..ControlledLoad::default()
                }),
                ..usual
            };
            let body = body(&adspec);
            for flags in [0, Psb::NON_RSVP, Psb::E_POLICE, Psb::NON_RSVP | Psb::E_POLICE] {
                let offer = offer(&body, flags).expect("an offer");
                assert_eq!(offer.broken, global || flags & Psb::NON_RSVP != 0);
                assert_eq!(offer.guaranteed, (!guaranteed).then_some((3, 5)));
                assert_eq!(offer.controlled_load, !controlled_load);
            }
        }
    }
}
