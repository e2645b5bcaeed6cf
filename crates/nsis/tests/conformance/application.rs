//! The application of a story: executes its tasks, and records its calls.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use earmark_core::Time;
use earmark_nsis::nslp::{
    HandlerContext, MessageHandle, NetworkNotification, Notification, Nslp, Peering, Received,
    SendFailure,
};
use earmark_wire::gist::SessionId;

use crate::message::{mri_text, text};
use crate::task::Task;

/// NSLPID of the application, one for experiments.
pub(crate) const NSLPID: u16 = 32_767;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) tasks: VecDeque<Task>,
    /// Recorded calls, as lines of a story.
    pub(crate) recorded: Vec<String>,
    /// Whether Queries are forwarded.
    pub(crate) pass: bool,
}

#[derive(Debug)]
pub(crate) struct Application(pub(crate) Rc<RefCell<State>>);

impl Application {
    fn record(&self, line: String) {
        self.0.borrow_mut().recorded.push(line);
    }
}

fn session(session: SessionId) -> u8 {
    session.0[15]
}

impl Nslp for Application {
    fn id(&self) -> u16 {
        NSLPID
    }

    fn may_peer(
        &mut self,
        _: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        _: &mut Vec<u8>,
    ) -> Peering {
        let pass = self.0.borrow().pass;
        let data = text(query.data);
        self.record(format!("app asked session={} {data}", session(query.session)));
        if pass { Peering::Pass } else { Peering::Accept }
    }

    fn receive(&mut self, _: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        let how = match (message.attributes().reliable, message.attributes().secure) {
            (_, true) => " secure",
            (true, false) => " reliable",
            (false, false) => "",
        };
        let number = session(message.session);
        let (mri, data) = (mri_text(&message.mri), text(message.data));
        self.record(format!("app receives session={number} {mri} {data}{how}"));
    }

    fn status(
        &mut self,
        _: &mut HandlerContext<'_, '_>,
        handle: MessageHandle,
        failure: SendFailure,
    ) {
        self.record(format!("app is told that message {} failed: {failure}", handle.0));
    }

    fn notify(&mut self, _: &mut HandlerContext<'_, '_>, notification: &NetworkNotification) {
        let what = match notification.what {
            Notification::LastNode => "this is the last node".to_string(),
            Notification::RoutingStatusChange { status, peer } => {
                let status = format!("{status:?}").to_lowercase();
                let peer = peer.map(|peer| format!(", peer {}", peer.slot)).unwrap_or_default();
                format!("the state is {status}{peer}")
            }
            Notification::RouteDeletion(peer) => format!("peer {} is off the path", peer.slot),
            Notification::CommunicationFailure(peer) => {
                format!("peer {} is not to be reached", peer.slot)
            }
        };
        let (number, mri) = (session(notification.session), mri_text(&notification.mri));
        self.record(format!("app notices session={number} {mri}: {what}"));
    }

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        let tasks = std::mem::take(&mut self.0.borrow_mut().tasks);
        tasks.into_iter().for_each(|task| task.perform(cx));
    }

    fn next_deadline(&self) -> Option<Time> {
        (!self.0.borrow().tasks.is_empty()).then_some(Time::ZERO)
    }
}
