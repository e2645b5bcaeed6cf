//! The context of one input: what the handlers of GIST need besides its state, and the receiver of all effects.

use earmark_core::{Connect, ConnectionId, Context, Effects, Outgoing, Time};

use crate::api::Event;
use crate::applications::Applications;
use crate::nslp::{HandlerContext, Nslp, Requests, Sink};

/// Receives the effects of one input: those of applications, and the packets and connections of GIST.
pub(crate) trait Output: Sink {
    /// [`Effects::send`].
    fn send(&mut self, how: Outgoing, length: usize) -> &mut [u8];
    /// [`Effects::send_copy`].
    fn send_copy(&mut self, how: Outgoing, octets: &[u8]) -> &mut [u8];
    /// [`Effects::take_back`].
    fn take_back(&mut self);
    /// [`Effects::connect`].
    fn connect(&mut self, connect: Connect);
    /// [`Effects::write`].
    fn write(&mut self, connection: ConnectionId, length: usize) -> &mut [u8];
    /// [`Effects::close`].
    fn close(&mut self, connection: ConnectionId);
}

impl<E: From<Event>> Output for Effects<E> {
    fn send(&mut self, how: Outgoing, length: usize) -> &mut [u8] {
        self.send(how, length)
    }

    fn send_copy(&mut self, how: Outgoing, octets: &[u8]) -> &mut [u8] {
        self.send_copy(how, octets)
    }

    fn take_back(&mut self) {
        self.discard_last();
    }

    fn connect(&mut self, connect: Connect) {
        self.connect(connect);
    }

    fn write(&mut self, connection: ConnectionId, length: usize) -> &mut [u8] {
        self.write(connection, length)
    }

    fn close(&mut self, connection: ConnectionId) {
        self.close(connection);
    }
}

/// The context of one input: the time, the node, the applications, and the receiver of the effects.
pub(crate) struct InputContext<'t, 'c> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut dyn Output,
    pub(crate) applications: &'t mut Applications,
    pub(crate) requests: &'t mut Requests,
}

impl<'c> InputContext<'_, 'c> {
    /// Calls the application that serves this NSLPID; `None` if there is none.
    pub(crate) fn call<R>(
        &mut self,
        nslpid: u16,
        call: impl FnOnce(&mut dyn Nslp, &mut HandlerContext<'_, 'c>) -> R,
    ) -> Option<R> {
        let application = self.applications.by_id(nslpid)?;
        let mut cx = HandlerContext {
            now: self.now,
            context: self.context,
            out: self.out,
            nslpid,
            requests: self.requests,
        };
        Some(call(application, &mut cx))
    }

    /// Calls every application.
    pub(crate) fn call_all(
        &mut self,
        mut call: impl FnMut(&mut dyn Nslp, &mut HandlerContext<'_, 'c>),
    ) {
        for application in self.applications.iter_mut() {
            let mut cx = HandlerContext {
                now: self.now,
                context: self.context,
                out: self.out,
                nslpid: application.id(),
                requests: self.requests,
            };
            call(application, &mut cx);
        }
    }

    /// Reports an event of GIST.
    pub(crate) fn report(&mut self, event: impl Into<Event>) {
        self.out.notify(event.into());
    }

    /// Returns whether an application serves this NSLPID.
    pub(crate) fn is_served(&mut self, nslpid: u16) -> bool {
        self.applications.by_id(nslpid).is_some()
    }
}
