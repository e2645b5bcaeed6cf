//! A node with its effects, its recording and the counters of its driver.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Effects, InterfaceId, Rate, Time};
use earmark_node::{Event, HostUpdate, Input, Node};
use serde::Serialize;
use tracing::error;

use crate::log::kind;
use crate::record::Recorder;

/// Most answers of the kernel in one line of a recording.
const ANSWERS_PER_LINE: usize = 256;

/// Counters of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriverCounters {
    /// Messages received.
    pub received: u64,
    /// Messages passed to the kernel.
    pub sent: u64,
    /// Messages that the kernel failed to send.
    pub send_failed: u64,
    /// Reservations installed or changed in traffic control.
    pub installed: u64,
    /// Reservations removed from traffic control.
    pub removed: u64,
    /// Flows added to or removed from installed reservations.
    pub flow_changes: u64,
    /// Operations that traffic control refused.
    pub refused: u64,
    /// Times that due timers were served.
    pub expirations: u64,
    /// Changes of interfaces and routes.
    pub host_changes: u64,
    /// Events reported to watchers and applications.
    pub events: u64,
}

/// The node with its effects and recorder, separate from the kernel so that the kernel can pass datagrams to it.
pub(super) struct RecordedNode {
    pub(super) node: Node,
    pub(super) effects: Effects<Event>,
    pub(super) recorder: Option<Recorder>,
    pub(super) counters: DriverCounters,
}

impl RecordedNode {
    pub(super) fn take(&mut self, now: Time, input: Input<'_>) {
        match &input {
            Input::Datagram(..) | Input::Stream(_) => self.counters.received += 1,
            Input::Expire => self.counters.expirations += 1,
            Input::Host(HostUpdate::Delegated { .. } | HostUpdate::Measured { .. }) => {}
            Input::Host(_) => self.counters.host_changes += 1,
            Input::Command(_) => {}
        }
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.record(now, &input)
        {
            // A full disk must not stop the daemon. A shortened recording is useful, one with gaps is not.
            error!(kind = kind::RECORDING_FAILED.name, %error, "recording stops here");
            self.recorder = None;
        }
        let is_message = matches!(input, Input::Datagram(..));
        if is_message {
            mark(Checkpoint::Begin);
        }
        self.node.handle(now, input, &mut self.effects);
        if is_message {
            mark(Checkpoint::End);
        }
        self.record_answers(now);
    }

    /// Records the kernel's answers about flows during an input, after that input, which may have been the last.
    fn record_answers(&mut self, now: Time) {
        let Some(recorder) = &mut self.recorder else { return };
        let answers = self.node.take_flow_answers();
        for some in answers.chunks(ANSWERS_PER_LINE) {
            let input = Input::Host(HostUpdate::FlowAnswers(some.to_vec()));
            if let Err(error) = recorder.record(now, &input) {
                error!(kind = kind::RECORDING_FAILED.name, %error, "recording stops here");
                self.recorder = None;
                return;
            }
        }
    }

    /// Reports the bandwidth of a link that is delegated to the kernel to the node, if it has changed.
    pub(super) fn note_delegation(&mut self, now: Time, interface: InterfaceId, rate: Rate) {
        if self.node.ledger().rate_set_aside(interface) != rate {
            self.take(now, Input::Host(HostUpdate::Delegated { interface, rate }));
        }
    }
}
