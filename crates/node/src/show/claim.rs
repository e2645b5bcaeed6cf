//! The reservation of one claim, found by who owns it: no session is walked.

use earmark_core::Time;
use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::listing::ReservationRow;

use crate::node::Node;

impl Node {
    /// The reservation that a claim belongs to, as [`Node::reservation_rows`] shows it but without its queue. Of several
    /// reservations that share the claim, the first. `None` of a claim that is gone.
    pub fn reservation_of(&self, claim: ClaimId, now: Time) -> Option<ReservationRow> {
        let owner = self.ledger.owner(claim)?;
        match owner.protocol {
            Protocol::Rsvp => {
                let reservation = self.rsvp.reservation_of(claim, owner)?;
                Some(self.reservation_row(&reservation, now))
            }
            Protocol::Boomerang => {
                let (session, direction, half) = self.boomerang.reservation_of(claim, owner)?;
                Some(self.boomerang_direction(&session.selector, direction, half, now))
            }
            Protocol::Yessir => {
                let (session, leg) = self.yessir.reservation_of(claim, owner)?;
                let leg = session.legs.get(leg)?;
                Some(self.yessir_leg(&session, leg, claim, now))
            }
            Protocol::Nsis => {
                let session = self.nsis.qos().reservation_of(claim, owner)?;
                self.nsis_reservation(&session, claim, now)
            }
        }
    }
}
