//! What the kernel does by itself for the engine of a protocol.

use earmark_core::admission::LinkStatus;
use earmark_core::{Datagram, InterfaceId, Rate, Time};
use earmark_linux::{Offload, ShareChange};
use earmark_node::{Command, EngineSlots, Event, Node};

/// State of an engine's sessions in the kernel. Each call gets the kernel's maps.
pub trait KernelOffload {
    /// Carries out an instruction of the engine
    /// ([`Protocol::is_instruction`](crate::protocol::Protocol::is_instruction)). Returns the answer to a query, if the
    /// event is one.
    fn carry_out(&mut self, path: &mut Offload, now: Time, event: &Event) -> Option<Command>;

    /// Converts a notification that the kernel has handled a message to a command for the engine.
    fn settled(&mut self, datagram: &Datagram<'_>, done: ShareChange) -> Command;

    /// Has the engine get the next message of each session, because routes or interfaces may have changed.
    fn suspend(&mut self, path: &Offload);

    /// Withdraws the delegated bandwidth of links. Returns, for each link, the rate that the kernel may have granted already.
    fn take_back(&mut self, path: &mut Offload) -> Vec<(InterfaceId, Rate)>;

    /// Delegates bandwidth of links to the kernel. Returns the delegated rate of each link.
    fn delegate(
        &mut self,
        path: &mut Offload,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)>;

    /// Time by which the kernel's notifications must be read; `None` if no bandwidth is delegated.
    fn next_look(&self) -> Option<Time>;

    /// Forgets an interface that has gone.
    fn forget(&mut self, path: &mut Offload, interface: InterfaceId);

    /// Returns commands that bring the engine's counters, and the lifetimes of its sessions in these slots, up to date.
    fn catch_up(
        &mut self,
        path: &Offload,
        now: Time,
        node: &Node,
        slots: &EngineSlots,
    ) -> Vec<Command>;
}
