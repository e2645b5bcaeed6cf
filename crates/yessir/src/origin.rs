//! Origin of a message, and the state that it may touch.
//!
//! A stream belongs to its first reporter: the source address, which is part of the stream, the SSRC, and the interface
//! that its reports arrive through. A report of another origin changes and releases nothing until the state has expired.
//! Behind an access interface are only the sources that the routes or the settings place there, so nobody there can
//! report for a sender elsewhere.

mod identity;

use earmark_core::{Context, Datagram, InterfaceId};

use crate::api::Event;
use crate::counters::DropReason;
use crate::instance::{HandlerContext, Yessir};
use crate::state::Session;

pub(crate) use self::identity::{OWN, Origin};

impl Session {
    /// Returns the origin that owns the stream.
    pub(crate) fn origin(&self) -> Origin {
        Origin { ssrc: self.ssrc, arrival: self.arrival }
    }

    /// Checks whether a report may touch the stream. A stream that was reserved by signed reports needs signed ones.
    #[inline]
    pub(crate) fn may_touch(
        &self,
        context: &Context<'_>,
        origin: Origin,
        is_signed: bool,
    ) -> Result<(), DropReason> {
        self.origin().admits(context, origin, self.stream.source)?;
        let needs_signature = self.extra.as_ref().is_some_and(|extra| extra.sequence.is_some());
        match needs_signature && !is_signed {
            true => Err(DropReason::MissingAuth),
            false => Ok(()),
        }
    }
}

impl Yessir {
    /// Checks whether the source of a message is behind the access interface that it arrived through; counts it
    /// otherwise.
    #[cold]
    pub(crate) fn checks_source<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) -> bool {
        let interfaces = cx.context.interfaces;
        let is_behind = cx.context.is_behind(datagram.source, datagram.interface)
            && !interfaces.is_local(datagram.source);
        if !is_behind {
            self.ignore(cx, datagram, DropReason::SourceNotBehind);
        }
        is_behind
    }
}

/// Returns the interface whose senders share limits: an access interface, because whoever is behind it chooses among its
/// addresses; otherwise [`OWN`], and limits count each address.
#[inline]
pub(crate) fn limited_port(context: &Context<'_>, arrival: InterfaceId) -> InterfaceId {
    match context.interfaces.by_id(arrival) {
        Some(interface) if !interface.is_core() => arrival,
        _ => OWN,
    }
}
