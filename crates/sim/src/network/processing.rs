//! Turns of the daemons that have a processor: they wait for it, and take time on it.

use alloc::boxed::Box;

use earmark_core::Effects;
use earmark_node::{Event, Input};

use super::{Network, Scheduled};
use crate::NodeId;
use crate::log::{LogEvent, Loss};
use crate::processor::{CostModel, Processor, ProcessorUse, ReceiveBuffer, Turn, WaitingInput};

impl Network {
    /// Gives a node a processor: from now on the turns of its daemon take the times of a cost model, one after the
    /// other, and each of its sockets has such a receive buffer. The processor stays if the daemon dies.
    pub fn set_processor(
        &mut self,
        node: NodeId,
        costs: Box<dyn CostModel>,
        buffer: ReceiveBuffer,
    ) {
        self.hosts[node.0].processor = Some(Box::new(Processor::new(costs, buffer)));
    }

    /// Returns the use of a node's processor; `None` if it has none, and acts at once.
    pub fn processor_use(&self, node: NodeId) -> Option<ProcessorUse> {
        Some(self.hosts[node.0].processor.as_ref()?.usage)
    }

    /// Makes an input of a daemon wait for its processor.
    pub(crate) fn queue_input(&mut self, node: NodeId, input: Input<'_>) {
        let Some(processor) = &mut self.hosts[node.0].processor else { return };
        if !processor.push(WaitingInput::new(input)) {
            return self.note(node, LogEvent::Lost(Loss::BufferFull));
        }
        self.begin_turns(node);
    }

    /// Ends a turn of a daemon that has taken time: its effects happen now.
    pub(crate) fn end_turn(&mut self, node: NodeId, daemon: u64, effects: &Effects<Event>) {
        if self.hosts[node.0].processor.as_ref().is_none_or(|known| known.daemon != daemon) {
            return; // that daemon is dead
        }
        self.complete_turn(node, effects);
        self.begin_turns(node);
    }

    fn complete_turn(&mut self, node: NodeId, effects: &Effects<Event>) {
        self.carry_out(node, effects);
        if let Some(processor) = &mut self.hosts[node.0].processor {
            processor.is_busy = false;
        }
    }

    /// Begins the turns of a node until one takes time.
    fn begin_turns(&mut self, node: NodeId) {
        loop {
            let host = &mut self.hosts[node.0];
            let (Some(processor), Some(engines)) = (&mut host.processor, &mut host.node) else {
                return;
            };
            if processor.is_busy {
                return;
            }
            let Some(waiting) = processor.pop() else { return };
            let mut effects = Effects::new();
            engines.handle(self.now, waiting.input(), &mut effects);
            engines.bundle(&mut effects);
            let cost = waiting.cause().map(|cause| {
                processor.usage.turns += 1;
                processor.costs.cost(&Turn {
                    now: self.now,
                    cause,
                    effects: &effects,
                    node: engines,
                })
            });
            let cost = cost.unwrap_or_default();
            processor.usage.busy += cost;
            // Inputs that follow from the effects wait until these have happened.
            processor.is_busy = true;
            let daemon = processor.daemon;
            self.note_attempts(node);
            if !cost.is_zero() {
                let end = Scheduled::EndTurn(node, daemon, Box::new(effects));
                return self.enter(self.now + cost, end);
            }
            self.complete_turn(node, &effects);
        }
    }
}
