//! One instance of NSIS: GIST, and the applications on it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::random::RandomStreams;
use earmark_core::{Connect, ConnectionId, Context, Effects, Outgoing, Time};

use crate::api::Event;
use crate::config::Config;
use crate::gist::Gist;
use crate::nslp::{HandlerContext, Nslp, Requests, Sink};
use crate::ping::PingNslp;
use crate::qos::QosNslp;

/// NSIS on one node.
#[derive(Debug)]
pub struct Nsis {
    pub(crate) gist: Gist,
    pub(crate) applications: Applications,
    /// Requests of applications since the last round.
    pub(crate) requests: Requests,
    /// Requests of the round that is being executed.
    pub(crate) round: Requests,
}

impl Nsis {
    /// Creates an engine without state. Each part draws from streams of `random` whose names begin with the name of the
    /// part.
    pub fn new(config: Config, random: &RandomStreams) -> Nsis {
        Nsis {
            gist: Gist::new(config.gist, random),
            applications: Applications {
                qos: QosNslp::new(config.qos, random),
                ping: PingNslp::new(config.ping, random),
                others: Vec::new(),
            },
            requests: Requests::default(),
            round: Requests::default(),
        }
    }

    /// Adds an application. An application whose NSLPID is taken is never called.
    pub fn add(&mut self, application: Box<dyn Nslp>) {
        self.applications.others.push(application);
    }

    /// Returns GIST, read-only.
    pub fn gist(&self) -> &Gist {
        &self.gist
    }

    /// Returns QoS NSLP, read-only.
    pub fn qos(&self) -> &QosNslp {
        &self.applications.qos
    }

    /// Returns Ping NSLP, read-only.
    pub fn ping(&self) -> &PingNslp {
        &self.applications.ping
    }
}

/// The signalling applications of a node.
#[derive(Debug)]
pub(crate) struct Applications {
    pub(crate) qos: QosNslp,
    pub(crate) ping: PingNslp,
    /// Applications added by the user of this crate.
    pub(crate) others: Vec<Box<dyn Nslp>>,
}

impl Applications {
    /// Returns the application that serves this NSLPID.
    fn by_id(&mut self, nslpid: u16) -> Option<&mut (dyn Nslp + 'static)> {
        if self.qos.serves(nslpid) {
            return Some(&mut self.qos);
        }
        if self.ping.serves(nslpid) {
            return Some(&mut self.ping);
        }
        self.others.iter_mut().map(|other| &mut **other).find(|other| other.serves(nslpid))
    }

    /// Returns all applications, in a fixed order; few.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut (dyn Nslp + 'static)> {
        let own: [&mut dyn Nslp; 2] = [&mut self.qos, &mut self.ping];
        own.into_iter().chain(self.others.iter_mut().map(|other| &mut **other))
    }

    /// Returns the earliest deadline of all applications.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let own: [&dyn Nslp; 2] = [&self.qos, &self.ping];
        let others = self.others.iter().map(|other| &**other);
        own.into_iter().chain(others).filter_map(Nslp::next_deadline).min()
    }
}

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

    /// Returns whether an application serves this NSLPID.
    pub(crate) fn is_served(&mut self, nslpid: u16) -> bool {
        self.applications.by_id(nslpid).is_some()
    }
}
