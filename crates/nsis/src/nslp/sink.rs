//! The receiver of the effects of applications.

use earmark_core::admission::ClaimId;
use earmark_core::{Effects, FilterChange, Flow, Installation};

use crate::api::Event;

/// Receives all effects of applications except requests to GIST: [`Effects`] of any type of event.
pub trait Sink {
    /// [`Effects::install`].
    fn install(&mut self, installation: Installation);
    /// [`Effects::add_flow`].
    fn add_flow(&mut self, claim: ClaimId, flow: Flow);
    /// [`Effects::remove_flow`].
    fn remove_flow(&mut self, claim: ClaimId, flow: Flow);
    /// [`Effects::remove`].
    fn remove(&mut self, claim: ClaimId);
    /// [`Effects::filter`].
    fn filter(&mut self, change: FilterChange);
    /// [`Effects::notify`].
    fn notify(&mut self, event: Event);
}

impl<E: From<Event>> Sink for Effects<E> {
    fn install(&mut self, installation: Installation) {
        self.install(installation);
    }

    fn add_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.add_flow(claim, flow);
    }

    fn remove_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.remove_flow(claim, flow);
    }

    fn remove(&mut self, claim: ClaimId) {
        self.remove(claim);
    }

    fn filter(&mut self, change: FilterChange) {
        self.filter(change);
    }

    fn notify(&mut self, event: Event) {
        self.notify(event);
    }
}
