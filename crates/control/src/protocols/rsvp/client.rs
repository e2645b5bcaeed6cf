//! RSVP in a client.

use super::ReserveOptions;
use crate::{Client, ClientError, Opened, ReservationRequest, Role};

impl Client {
    /// Announces a sender on the daemon's host with RSVP, wherever the data goes.
    ///
    /// # Errors
    /// The connection was lost, or the daemon refused.
    pub fn sender(&mut self, request: ReservationRequest) -> Result<Opened, ClientError> {
        self.reserve(request.with(&ReserveOptions { role: Some(Role::Sender) }))
    }
}
