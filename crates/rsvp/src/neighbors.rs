//! What neighbours are to each other: which of them may change which state, signatures, limits, refresh reduction with
//! Hello, and how messages reach them. Nothing here knows sessions or reservations but by their indexes.

pub(crate) mod address;
pub(crate) mod graceful_restart;
pub mod integrity;
pub mod limits;
pub(crate) mod origin;
pub(crate) mod outgoing;
pub(crate) mod refresh_reduction;
