//! An application that records its calls, and executes the tasks of a test.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use earmark_core::Time;
use earmark_nsis::nslp::{
    Attributes, HandlerContext, MessageHandle, NetworkNotification, Notification, Nslp, PeerHandle,
    Peering, Received, SendFailure, SendMessage,
};
use earmark_wire::gist::{Mri, SessionId};

pub(crate) use super::task::Task;

/// NSLPID of the application: one for experiments.
pub const TEST: u16 = 32_767;

/// Calls that the application has received.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
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
    MayPeer {
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

/// Calls and tasks of the application.
#[derive(Debug, Default)]
pub struct State {
    pub calls: Vec<(Time, Call)>,
    pub tasks: VecDeque<Task>,
    /// Whether Queries are forwarded.
    pub pass: bool,
    /// Data for forwarded Queries, or for the Response.
    pub answer: Vec<u8>,
    /// Whether received messages are returned in the opposite direction.
    pub echo: bool,
}

/// The handle of a test to its application.
#[derive(Clone, Debug, Default)]
pub struct Handle(pub Rc<RefCell<State>>);

impl Handle {
    /// Creates the application for a node.
    pub fn application(&self) -> Box<dyn Nslp> {
        Box::new(Application { id: TEST, state: self.clone() })
    }

    /// Creates the application for a node, with another NSLPID.
    pub fn application_as(&self, id: u16) -> Box<dyn Nslp> {
        Box::new(Application { id, state: self.clone() })
    }

    /// Sends a message when the time advances.
    pub fn send(&self, mri: Mri, session: SessionId, data: &[u8]) {
        self.send_with(mri, session, data, Attributes::default());
    }

    pub fn send_with(&self, mri: Mri, session: SessionId, data: &[u8], attributes: Attributes) {
        self.task(Task::Send(SendMessage { attributes, ..message(mri, session) }, data.to_vec()));
    }

    pub fn task(&self, task: Task) {
        self.0.borrow_mut().tasks.push_back(task);
    }

    /// Returns the calls since the last time.
    pub fn calls(&self) -> Vec<Call> {
        self.0.borrow_mut().calls.drain(..).map(|(_, calls)| calls).collect()
    }

    /// Returns the data received since the last time, and drops the other calls.
    pub fn received(&self) -> Vec<Vec<u8>> {
        let data = |calls| match calls {
            Call::Received { data, .. } => Some(data),
            _ => None,
        };
        self.calls().into_iter().filter_map(data).collect()
    }

    /// Returns the failures since the last time, and drops the other calls.
    pub fn failures(&self) -> Vec<SendFailure> {
        let failure = |calls| match calls {
            Call::Failed { failure, .. } => Some(failure),
            _ => None,
        };
        self.calls().into_iter().filter_map(failure).collect()
    }
}

/// Returns a message with a handle, and a timeout of ten seconds.
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
    fn record(&self, cx: &HandlerContext<'_, '_>, calls: Call) {
        self.state.0.borrow_mut().calls.push((cx.now, calls));
    }
}

impl Nslp for Application {
    fn id(&self) -> u16 {
        self.id
    }

    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        answer: &mut Vec<u8>,
    ) -> Peering {
        let &Received { data, session, hops, ip_distance, .. } = query;
        self.record(cx, Call::MayPeer { data: data.to_vec(), session, hops, ip_distance });
        let state = self.state.0.borrow();
        answer.extend_from_slice(&state.answer);
        if state.pass { Peering::Pass } else { Peering::Accept }
    }

    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        let &Received { session, mri, origin, explicitly_routed, .. } = message;
        let (peer, attributes) = (origin.peer, message.attributes());
        let (ip_distance, hops) = (message.ip_distance, message.hops);
        let data = message.data.to_vec();
        if self.state.0.borrow().echo {
            let back = self::message(mri.inverted(), session);
            cx.send(back, data.len()).copy_from_slice(&data);
        }
        self.record(
            cx,
            Call::Received {
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
        cx: &mut HandlerContext<'_, '_>,
        handle: MessageHandle,
        failure: SendFailure,
    ) {
        self.record(cx, Call::Failed { handle, failure });
    }

    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification) {
        let &NetworkNotification { mri, session, what } = notification;
        self.record(cx, Call::Notified { session, mri, what });
    }

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        let tasks = std::mem::take(&mut self.state.0.borrow_mut().tasks);
        tasks.into_iter().for_each(|task| task.perform(cx));
    }

    fn next_deadline(&self) -> Option<Time> {
        (!self.state.0.borrow().tasks.is_empty()).then_some(Time::ZERO)
    }
}
