//! The applications of this host: senders that are announced, and receivers that answer.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::Flowspec;
use slab::Slab;

use crate::api::{Answer, Application, Attachment, Event, Rejection, Stream};
use crate::instance::{HandlerContext, Yessir};
use crate::state::Index;

/// All applications. They are few beside the streams that pass, and this host's own, so ordered maps serve.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) senders: Slab<Sender>,
    pub(crate) listeners: Slab<Listener>,
    pub(crate) by_application: BTreeMap<Application, Role>,
    /// Senders by the address and port that their reports come from, which is where answers go.
    pub(crate) by_port: BTreeMap<(IpAddr, u16), Index>,
    /// Listeners by port of the data and address; unspecified for any.
    pub(crate) listening: BTreeMap<(u16, IpAddr), Index>,
}

/// What an application is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Sender(Index),
    Listener(Index),
}

/// A stream of this host that is announced.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) application: Application,
    pub(crate) attachment: Attachment,
    /// With the addresses that were picked.
    pub(crate) stream: Stream,
    pub(crate) ssrc: u32,
    pub(crate) sent: SenderInfo,
    pub(crate) timer: Option<TimerId>,
    /// Of the last signed report.
    pub(crate) sequence: u64,
    /// What receivers answered last.
    pub(crate) answers: BTreeMap<IpAddr, Answer>,
}

/// Somebody who answers.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) application: Application,
    pub(crate) destination: IpAddr,
    pub(crate) port: u16,
    pub(crate) cname: String,
    pub(crate) ssrc: u32,
    /// Fires when the first of those heard may have ended.
    pub(crate) timer: Option<TimerId>,
    pub(crate) heard: BTreeMap<Stream, Heard>,
}

/// What a listener knows of a stream.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) flowspec: Option<Flowspec>,
    pub(crate) answer: Answer,
    pub(crate) expires_at: Time,
}

impl Roles {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_application.is_empty()
    }
}

impl Yessir {
    /// An application ends what it does.
    pub(crate) fn leave<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
    ) -> Result<(), Rejection> {
        let role = self.roles.by_application.remove(&application);
        match role.ok_or(Rejection::NoApplication)? {
            Role::Sender(sender) => self.detach(cx, sender),
            Role::Listener(listener) => self.stop_listening(listener),
        }
        Ok(())
    }
}
