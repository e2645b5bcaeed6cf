//! The interface where a request enters a node.

use earmark_core::{Context, InterfaceId};

/// Interface where a request enters this node.
#[derive(Clone, Copy, Debug)]
pub struct Entrance<'a> {
    /// The interface.
    pub interface: InterfaceId,
    /// Name of the interface.
    pub name: &'a str,
    /// Whether only routers of the same administration are behind the interface.
    pub is_core: bool,
}

impl<'a> Entrance<'a> {
    /// Describes an interface of the node.
    pub fn of(context: &'a Context<'_>, interface: InterfaceId) -> Entrance<'a> {
        let name = context.interfaces.by_id(interface).map_or("", |found| &found.name);
        Entrance { interface, name, is_core: context.is_core(interface) }
    }
}
