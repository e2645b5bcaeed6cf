//! The Linux kernel behind the driver's effects: the signalling socket and traffic control together.

use std::collections::BTreeSet;
use std::io;

use earmark_core::admission::ClaimId;
use earmark_core::{Datagram, Flow, Installation, InterfaceId, Outgoing, Rate};
use earmark_linux::{Adopted, LinkPlan, RsvpSocket, TcError, TrafficControl};

use crate::config::InterfaceConfig;
use crate::driver::{Kernel, SendFailure, TrafficControlFailure};

/// See the module's text.
pub(crate) struct System {
    pub(crate) socket: RsvpSocket,
    pub(crate) traffic_control: TrafficControl,
    /// Interfaces whose queues are ours.
    planned: BTreeSet<InterfaceId>,
    /// Interfaces that take part and whose queues the daemon must leave alone (`traffic_control = false`).
    hands_off: BTreeSet<InterfaceId>,
    /// Claims on those; traffic control never hears of them.
    accounted: BTreeSet<ClaimId>,
}

impl System {
    pub(crate) fn new(
        socket: RsvpSocket,
        traffic_control: TrafficControl,
        planned: BTreeSet<InterfaceId>,
        hands_off: BTreeSet<InterfaceId>,
    ) -> System {
        System { socket, traffic_control, planned, hands_off, accounted: BTreeSet::new() }
    }

    /// Whether the interface's queues have been taken over, or deliberately not.
    pub(crate) fn knows(&self, interface: InterfaceId) -> bool {
        self.planned.contains(&interface) || self.hands_off.contains(&interface)
    }

    /// Takes over the queues of an interface, unless its settings say not to.
    pub(crate) fn take_over(
        &mut self,
        interface: InterfaceId,
        config: &InterfaceConfig,
    ) -> Result<Vec<Adopted>, TcError> {
        if !config.traffic_control {
            self.hands_off.insert(interface);
            return Ok(Vec::new());
        }
        let adopted = self.traffic_control.add_link(&plan(interface, config))?;
        self.planned.insert(interface);
        Ok(adopted)
    }

    /// Forgets an interface that has gone.
    pub(crate) fn forget(&mut self, interface: InterfaceId) {
        if self.planned.remove(&interface) {
            self.traffic_control.forget_link(interface);
        }
        self.hands_off.remove(&interface);
    }
}

impl Kernel for System {
    fn receive(&mut self, each: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        self.socket.receive(each)
    }

    fn send(&mut self, how: &Outgoing, octets: &[u8]) -> Result<(), SendFailure> {
        self.socket.send(how, octets).map_err(|error| SendFailure(with_cause(&error)))
    }

    fn install(&mut self, installation: &Installation) -> Result<(), TrafficControlFailure> {
        if self.hands_off.contains(&installation.interface) {
            self.accounted.insert(installation.claim);
            return Ok(());
        }
        self.traffic_control.install(installation).map_err(failure)
    }

    fn add_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure> {
        if self.accounted.contains(&claim) {
            return Ok(());
        }
        self.traffic_control.add_flow(claim, flow).map_err(failure)
    }

    fn remove_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure> {
        if self.accounted.contains(&claim) {
            return Ok(());
        }
        self.traffic_control.remove_flow(claim, flow).map_err(failure)
    }

    fn drop_adopted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
    ) -> Result<(), TrafficControlFailure> {
        self.traffic_control.drop_adopted(interface, flow).map_err(failure)
    }

    fn remove(&mut self, claim: ClaimId) -> Result<(), TrafficControlFailure> {
        if self.accounted.remove(&claim) {
            return Ok(());
        }
        self.traffic_control.remove(claim).map_err(failure)
    }
}

/// The plan of one interface's traffic control.
pub(crate) fn plan(interface: InterfaceId, config: &InterfaceConfig) -> LinkPlan {
    LinkPlan {
        pool: config.classes,
        pool_limit: config.classes.max(LinkPlan::new(interface, Rate::ZERO, Rate::ZERO).pool_limit),
        best_effort_queue: config.queue_packets,
        ..LinkPlan::new(interface, config.bandwidth, config.reservable)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failure(error: TcError) -> TrafficControlFailure {
    TrafficControlFailure { errno: error.errno(), text: with_cause(&error) }
}

/// An error and what caused it, in one line.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
