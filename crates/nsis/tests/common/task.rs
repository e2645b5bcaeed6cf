//! Tasks of a test for its application.

use std::time::Duration;

use earmark_nsis::nslp::{HandlerContext, SendMessage, Validity};
use earmark_wire::gist::{Mri, SessionId};

/// A task for an application.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Send(SendMessage, Vec<u8>),
    Lifetime(Mri, SessionId, Duration),
    Invalidate(Mri, Validity, bool),
}

impl Task {
    pub(crate) fn perform(self, cx: &mut HandlerContext<'_, '_>) {
        match self {
            Task::Send(message, data) => cx.send(message, data.len()).copy_from_slice(&data),
            Task::Lifetime(mri, session, lifetime) => {
                cx.set_state_lifetime(mri, session, lifetime);
            }
            Task::Invalidate(mri, status, urgent) => {
                cx.invalidate_routing_state(mri, status, urgent);
            }
        }
    }
}
