//! Identifiers of the parts of a network.

use serde::Serialize;

/// A node of the network that returned this ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NodeId(pub(crate) usize);

/// A stream of the network that returned this ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) usize);

/// A fluid stream of the network that returned this ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FluidId(pub(crate) u32);
