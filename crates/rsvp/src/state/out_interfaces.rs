//! The outgoing interfaces of a sender's data.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::{InterfaceId, Time};

/// OutInterface_list: one interface for unicast data, any number for multicast data, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutInterfaces {
    None,
    One(InterfaceId),
    /// Boxed as a whole, because few senders have more than one.
    Many(Box<Branches>),
}

/// Outgoing interfaces of multicast data, each with the period of its own Path refreshes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branches {
    pub(crate) interfaces: Vec<InterfaceId>,
    /// Time of the next Path refresh on each interface.
    pub(crate) refresh_at: Vec<Time>,
}

impl OutInterfaces {
    /// Collects `interfaces`, which must be in ascending order.
    pub(crate) fn of(mut interfaces: impl Iterator<Item = InterfaceId>) -> OutInterfaces {
        let Some(first) = interfaces.next() else { return OutInterfaces::None };
        let Some(second) = interfaces.next() else { return OutInterfaces::One(first) };
        let interfaces: Vec<_> = [first, second].into_iter().chain(interfaces).collect();
        let refresh_at = alloc::vec![Time::MAX; interfaces.len()];
        OutInterfaces::Many(Box::new(Branches { interfaces, refresh_at }))
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[InterfaceId] {
        match self {
            OutInterfaces::None => &[],
            OutInterfaces::One(interface) => core::slice::from_ref(interface),
            OutInterfaces::Many(branches) => &branches.interfaces,
        }
    }

    #[inline]
    pub(crate) fn contains(&self, interface: InterfaceId) -> bool {
        match self {
            OutInterfaces::None => false,
            OutInterfaces::One(only) => *only == interface,
            OutInterfaces::Many(branches) => branches.interfaces.binary_search(&interface).is_ok(),
        }
    }
}
