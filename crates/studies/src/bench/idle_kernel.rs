//! A kernel that does no work, below the driver of a daemon: what remains is the daemon's own.

use std::io;
use std::net::IpAddr;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, Installation, InterfaceId, Outgoing, Time};
use earmark_node::TrafficRow;
use earmarkd::driver::{Arrival, Kernel, SendFailure, TrafficControlFailure};

use super::router;

/// A kernel that does no work.
#[derive(Default)]
pub(super) struct Idle {
    /// Messages that arrive, one in each batch, the last one first.
    pub(super) arrivals: Vec<router::Arrival>,
}

impl Kernel for Idle {
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize> {
        let Some(arrival) = self.arrivals.pop() else { return Ok(0) };
        each(Arrival::Message(arrival.protocol(), arrival.datagram()));
        Ok(1)
    }
    fn send<'a>(
        &mut self,
        _messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        _failed: &mut dyn FnMut(&Outgoing, SendFailure),
    ) {
    }
    fn install(
        &mut self,
        _now: Time,
        _protocol: Option<Protocol>,
        _installation: &Installation,
    ) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn add_flow(&mut self, _claim: ClaimId, _flow: Flow) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn remove_flow(&mut self, _claim: ClaimId, _flow: Flow) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn drop_adopted(
        &mut self,
        _interface: InterfaceId,
        _flow: Flow,
        _protocol: Option<Protocol>,
    ) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn remove(&mut self, _claim: ClaimId) -> Result<(), TrafficControlFailure> {
        Ok(())
    }
    fn traffic(&mut self, _claim: ClaimId) -> Option<TrafficRow> {
        None
    }
    fn join(&mut self, _group: IpAddr) {}
    fn leave(&mut self, _group: IpAddr) {}
    fn can_signal(&self, _destination: IpAddr) -> bool {
        true
    }
    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
}
