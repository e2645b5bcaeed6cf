//! Notifications of errors that this node detects, combined and sent.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Outgoing;
use earmark_wire::intserv::SenderTspec;
use earmark_wire::rsvp::{
    Body, Carried, ErrorSpec, FixedFilterFlow, FlowDescriptors, List, Notify, NotifySession,
    NotifySubject, SenderTemplate, Session,
};

use super::Pending;
use crate::context::HandlerContext;
use crate::instance::{PROTOCOL, Rsvp};
use crate::neighbors::address::is_neighbor;

/// TTL of Notify messages, which pass many nodes.
const TTL: u8 = 64;

/// Limit of the notify session list of one message, octets; it fits into a packet with all headers.
const MAX_SESSIONS: usize = 1_000;

impl Rsvp {
    /// Notifies the node that a Path asks to notify of an error about its sender (upstream notification). Returns whether it
    /// may be notified.
    pub(crate) fn notify_upstream<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        path: Carried<'_>,
        previous_hop: Option<IpAddr>,
        error: ErrorSpec,
        session: Session,
        (template, tspec): (SenderTemplate, Option<SenderTspec>),
    ) -> bool {
        let node = self
            .node_to_notify(cx, path, |node| node == template.source || previous_hop == Some(node));
        let Some(node) = node else { return false };
        let subject = NotifySubject::Sender(template, tspec);
        self.queue(node, error, &NotifySession { session, carried: Carried::NONE, subject });
        true
    }

    /// Notifies the node that a Resv asks to notify of an error about its flows (downstream notification). `carried` are the
    /// objects of the ResvErr.
    pub(crate) fn notify_downstream<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        resv: Carried<'_>,
        next_hop: IpAddr,
        error: ErrorSpec,
        (session, carried): (Session, Carried<'_>),
        flows: &FlowDescriptors<'_>,
    ) {
        if !self.config.notify.enabled {
            return;
        }
        let shared: Vec<FixedFilterFlow>;
        let subject = match *flows {
            FlowDescriptors::Wildcard(Some(flowspec)) => NotifySubject::Wildcard(flowspec),
            FlowDescriptors::FixedFilter(flows) => NotifySubject::Flows(flows),
            FlowDescriptors::SharedExplicit(flowspec, filters) => {
                let flow = |filter| FixedFilterFlow { flowspec, filter };
                shared = filters.iter().map(flow).collect();
                NotifySubject::Flows(List::Items(&shared))
            }
            FlowDescriptors::Wildcard(None) => return,
        };
        let node = self.node_to_notify(cx, resv, |node| {
            let is_sender = || match subject {
                NotifySubject::Flows(flows) => flows.iter().any(|flow| flow.filter.source == node),
                _ => self.is_source(&session, node),
            };
            node == next_hop || node == session.destination || is_sender()
        });
        let Some(node) = node else { return };
        self.queue(node, error, &NotifySession { session, carried, subject });
    }

    /// Returns whether an address is that of a sender of a session.
    fn is_source(&self, session: &Session, node: IpAddr) -> bool {
        let session = self.store.find_session(session);
        let mut senders = session.into_iter().flat_map(|session| self.store.senders_of(session));
        senders.any(|sender| self.store.psb(sender).template.source == node)
    }

    /// Returns the node that the objects of a message ask to notify, if it may be: a party of the flow, or a configured node.
    fn node_to_notify<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        carried: Carried<'_>,
        is_party: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let settings = &self.config.notify;
        if !settings.enabled {
            return None;
        }
        let node = carried.notify_request().filter(|&node| is_neighbor(cx.context, node))?;
        (is_party(node) || settings.names(node)).then_some(node)
    }

    /// Adds an entry to the Notify for a node with an error, or to a new one.
    fn queue(&mut self, node: IpAddr, error: ErrorSpec, session: &NotifySession<'_>) {
        let length = session.buffer_len();
        let pending = &mut self.notifications.pending;
        let is_same = |pending: &&mut Pending| {
            (pending.node, pending.error) == (node, error)
                && pending.sessions.len() + length <= MAX_SESSIONS
        };
        let known = pending.iter_mut().rev().find(is_same);
        let sessions = match known {
            Some(known) => &mut known.sessions,
            None => &mut pending.push_mut(Pending { node, error, sessions: Vec::new() }).sessions,
        };
        let start = sessions.len();
        sessions.resize(start + length, 0);
        if session.emit(&mut sessions[start..]).is_err() {
            sessions.truncate(start); // a flow without flowspec, of which nothing can be said
        }
    }

    /// Sends the notifications of the current input.
    #[cold]
    pub(crate) fn send_notifications<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for Pending { node, error, sessions } in core::mem::take(&mut self.notifications.pending) {
            if sessions.is_empty() {
                continue;
            }
            let hop = cx.context.routes.lookup(node);
            let interface = hop.and_then(|hop| cx.context.interfaces.by_id(hop.interface));
            let own = interface.and_then(|interface| interface.address_like(node));
            let hash = self.throttles.hash_of(node);
            let rate = self.config.notify.per_second;
            let Some(own) = own.filter(|_| self.notifications.throttle.admits(cx.now, hash, rate))
            else {
                self.counters.suppressed_notifications += 1;
                continue;
            };
            let body = Body::Notify(Notify { error, sessions: List::Wire(&sessions) });
            let how = Outgoing::new(PROTOCOL, own, node, TTL);
            let timers = &mut self.store.timers;
            self.refresh_reduction.send_far(timers, &mut self.counters, cx, how, &body);
        }
    }
}
