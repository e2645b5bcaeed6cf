//! Context of handling one input.

use earmark_core::{Context, Effects, Time};

/// Context of one input: time, host view, and effects.
pub(crate) struct HandlerContext<'t, 'c, E> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut Effects<E>,
}
