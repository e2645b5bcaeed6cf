//! An application that notes what it is told, and does what a test puts before it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use earmark_core::Time;
use earmark_nsis::nslp::{
    Attributes, HandlerContext, MessageHandle, NetworkNotification, Notification, Nslp, PeerHandle,
    Peering, Received, SendFailure, SendMessage, Validity,
};
use earmark_wire::gist::{Mri, SessionId};

/// NSLPID of the application: one for experiments.
pub const TEST: u16 = 32_767;

/// What the application was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Received {
        data: Vec<u8>,
        session: SessionId,
        mri: Mri,
        peer: Option<PeerHandle>,
        attributes: Attributes,
        explicitly_routed: bool,
        ip_distance: Option<u8>,
        hops: u8,
    },
    Asked {
        data: Vec<u8>,
        session: SessionId,
        hops: u8,
        ip_distance: Option<u8>,
    },
    Failed {
        handle: MessageHandle,
        failure: SendFailure,
    },
    Notified {
        session: SessionId,
        mri: Mri,
        what: Notification,
    },
}

/// What a test wants done.
#[derive(Clone, Debug)]
pub enum Do {
    Send(SendMessage, Vec<u8>),
    Lifetime(Mri, SessionId, Duration),
    Invalidate(Mri, Validity, bool),
}

/// Both of it.
#[derive(Debug, Default)]
pub struct State {
    pub told: Vec<(Time, Told)>,
    pub tasks: VecDeque<Do>,
    /// Queries are passed on,
    pub pass: bool,
    /// with this in them; or answered with it.
    pub answer: Vec<u8>,
    /// What comes is sent back the other way.
    pub echo: bool,
}

/// The handle of a test.
#[derive(Clone, Debug, Default)]
pub struct Handle(pub Rc<RefCell<State>>);

impl Handle {
    /// The application to be added to a node.
    pub fn application(&self) -> Box<dyn Nslp> {
        Box::new(Application { id: TEST, state: self.clone() })
    }

    /// Likewise under another NSLPID.
    pub fn application_as(&self, id: u16) -> Box<dyn Nslp> {
        Box::new(Application { id, state: self.clone() })
    }

    /// Has a message sent, when time goes on.
    pub fn send(&self, mri: Mri, session: SessionId, data: &[u8]) {
        self.send_with(mri, session, data, Attributes::default());
    }

    pub fn send_with(&self, mri: Mri, session: SessionId, data: &[u8], attributes: Attributes) {
        self.task(Do::Send(SendMessage { attributes, ..message(mri, session) }, data.to_vec()));
    }

    pub fn task(&self, task: Do) {
        self.0.borrow_mut().tasks.push_back(task);
    }

    /// What was told since the last time.
    pub fn told(&self) -> Vec<Told> {
        self.0.borrow_mut().told.drain(..).map(|(_, told)| told).collect()
    }

    /// The data that were received since the last time; the rest is forgotten.
    pub fn received(&self) -> Vec<Vec<u8>> {
        let data = |told| match told {
            Told::Received { data, .. } => Some(data),
            _ => None,
        };
        self.told().into_iter().filter_map(data).collect()
    }

    /// The failures that were told since the last time; the rest is forgotten.
    pub fn failures(&self) -> Vec<SendFailure> {
        let failure = |told| match told {
            Told::Failed { failure, .. } => Some(failure),
            _ => None,
        };
        self.told().into_iter().filter_map(failure).collect()
    }
}

/// A message with a handle, which waits for ten seconds.
pub fn message(mri: Mri, session: SessionId) -> SendMessage {
    SendMessage {
        handle: Some(MessageHandle(1)),
        session,
        mri,
        to: None,
        attributes: Attributes::default(),
        timeout: Duration::from_secs(10),
        hops: None,
    }
}

#[derive(Debug)]
struct Application {
    id: u16,
    state: Handle,
}

impl Application {
    fn note(&self, turn: &HandlerContext<'_, '_>, told: Told) {
        self.state.0.borrow_mut().told.push((turn.now, told));
    }
}

impl Nslp for Application {
    fn id(&self) -> u16 {
        self.id
    }

    fn may_peer(
        &mut self,
        turn: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        answer: &mut Vec<u8>,
    ) -> Peering {
        let &Received { data, session, hops, ip_distance, .. } = query;
        self.note(turn, Told::Asked { data: data.to_vec(), session, hops, ip_distance });
        let state = self.state.0.borrow();
        answer.extend_from_slice(&state.answer);
        if state.pass { Peering::Pass } else { Peering::Accept }
    }

    fn receive(&mut self, turn: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        let &Received { session, mri, peer, attributes, explicitly_routed, .. } = message;
        let (ip_distance, hops) = (message.ip_distance, message.hops);
        let data = message.data.to_vec();
        if self.state.0.borrow().echo {
            let back = self::message(mri.inverted(), session);
            turn.send(back, data.len()).copy_from_slice(&data);
        }
        self.note(
            turn,
            Told::Received {
                data,
                session,
                mri,
                peer,
                attributes,
                explicitly_routed,
                ip_distance,
                hops,
            },
        );
    }

    fn status(
        &mut self,
        turn: &mut HandlerContext<'_, '_>,
        handle: MessageHandle,
        failure: SendFailure,
    ) {
        self.note(turn, Told::Failed { handle, failure });
    }

    fn notify(&mut self, turn: &mut HandlerContext<'_, '_>, notification: &NetworkNotification) {
        let &NetworkNotification { mri, session, what } = notification;
        self.note(turn, Told::Notified { session, mri, what });
    }

    fn expire(&mut self, turn: &mut HandlerContext<'_, '_>) {
        let tasks = std::mem::take(&mut self.state.0.borrow_mut().tasks);
        for task in tasks {
            match task {
                Do::Send(message, data) => {
                    turn.send(message, data.len()).copy_from_slice(&data);
                }
                Do::Lifetime(mri, session, lifetime) => {
                    turn.set_state_lifetime(mri, session, lifetime);
                }
                Do::Invalidate(mri, status, urgent) => {
                    turn.invalidate_routing_state(mri, status, urgent);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        (!self.state.0.borrow().tasks.is_empty()).then_some(Time::ZERO)
    }
}
