//! Applications of this host: senders that are announced, and receivers that answer.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::Flowspec;
use slab::Slab;

use crate::api::{Answer, Application, Attachment, Stream};
use crate::origin::Origin;
use crate::state::Index;

/// All applications. They are few compared to streams in transit, and this host's own, so ordered maps serve.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) senders: Slab<Sender>,
    pub(crate) listeners: Slab<Listener>,
    pub(crate) by_application: BTreeMap<Application, Role>,
    /// Senders by the address and port that their reports leave from, where answers arrive.
    pub(crate) by_port: BTreeMap<(IpAddr, u16), Index>,
    /// Listeners by data port and address; unspecified for any.
    pub(crate) listening: BTreeMap<(u16, IpAddr), Index>,
}

/// Role of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Sender(Index),
    Listener(Index),
}

/// An announced stream of this host.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) application: Application,
    pub(crate) attachment: Attachment,
    /// The stream with the source address filled in.
    pub(crate) stream: Stream,
    pub(crate) ssrc: u32,
    pub(crate) sent: SenderInfo,
    pub(crate) timer: Option<TimerId>,
    /// Last answer of each receiver.
    pub(crate) answers: BTreeMap<IpAddr, Answer>,
}

/// An application that answers announcements.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) application: Application,
    pub(crate) destination: IpAddr,
    pub(crate) port: u16,
    pub(crate) cname: String,
    pub(crate) ssrc: u32,
    /// Timer for the first expiry of a stream.
    pub(crate) timer: Option<TimerId>,
    pub(crate) streams: BTreeMap<Stream, AnnouncedStream>,
}

/// An announced stream that a listener knows.
#[derive(Debug)]
pub(crate) struct AnnouncedStream {
    /// Origin of its first announcement.
    pub(crate) origin: Origin,
    pub(crate) flowspec: Option<Flowspec>,
    pub(crate) answer: Answer,
    pub(crate) expires_at: Time,
    /// Number of announcements since the answer has changed.
    pub(crate) unchanged: u16,
}

impl Roles {
    /// Returns whether there are no applications.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_application.is_empty()
    }
}
