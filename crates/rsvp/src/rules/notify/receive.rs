//! Notify messages of other nodes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Datagram, Time};
use earmark_wire::rsvp::{
    Carried, ErrorSpec, FilterSpec, Message, MessageId, Notify, NotifySession, NotifySubject,
    SenderTemplate, Session,
};

use super::remember;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::{EFFECTS_PER_MESSAGE, Rsvp};
use crate::neighbors::address::is_neighbor;
use crate::rules::policy::stated_reason;
use crate::state::applications::PROXY;
use crate::state::{Holder, Index, Origin, Peer};

/// Time in which the ResvErr follows the Notify about the same failure.
const ERROR_FOLLOWS: Duration = Duration::from_secs(30);

impl Rsvp {
    /// Handles a Notify that is addressed to this node.
    #[cold]
    pub(crate) fn receive_notify<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        notify: &Notify<'_>,
    ) {
        let source = datagram.source;
        if !is_neighbor(cx.context, source) || !self.config.notify.names(source) {
            return self.drop(cx, datagram, DropReason::UnknownNeighbor);
        }
        self.acknowledge_far(source, message);
        if let Some(id) = message.message_id
            && self.notifications.received.contains(&(source, id.epoch, id.id))
        {
            self.answer_notify(cx, datagram, id);
            return self.drop(cx, datagram, DropReason::Repeated);
        }
        let budget = cx.out.len() + EFFECTS_PER_MESSAGE;
        let mut was_requested = false;
        for entry in notify.sessions {
            if cx.out.len() >= budget {
                break;
            }
            was_requested |= self.receive_notify_session(cx, datagram, &notify.error, &entry);
        }
        if !was_requested {
            return self.drop(cx, datagram, DropReason::NotForUs);
        }
        if let Some(id) = message.message_id {
            remember(&mut self.notifications.received, (source, id.epoch, id.id));
            self.answer_notify(cx, datagram, id);
        }
    }

    /// Acknowledges a Notify if its sender asks for that.
    fn answer_notify<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        id: MessageId,
    ) {
        if id.flags & MessageId::ACK_DESIRED != 0 && self.config.reduction.enabled {
            let (own, to) = (datagram.destination, datagram.source);
            self.refresh_reduction.send_far_ack(&mut self.counters, cx, own, to, id);
        }
    }

    /// Handles one entry. Returns whether this node has requested it.
    fn receive_notify_session<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ErrorSpec,
        entry: &NotifySession<'_>,
    ) -> bool {
        let Some(session) = self.store.find_session(&entry.session) else { return false };
        let find = |filter: &FilterSpec| self.store.find_sender(&entry.session, filter);
        let concerned: Vec<Index> = match entry.subject {
            NotifySubject::Sender(template, _) => find(&template).into_iter().collect(),
            NotifySubject::Flows(flows) => {
                flows.iter().filter_map(|flow| find(&flow.filter)).collect()
            }
            NotifySubject::Wildcard(_) => self.store.senders_of(session).collect(),
        };
        let is_downstream = !matches!(entry.subject, NotifySubject::Sender(..));
        let mut was_requested = false;
        for index in concerned {
            let psb = self.store.psb(index);
            let own = datagram.destination;
            match psb.hop {
                Peer::Local(application) if asks_for(psb.carried.octets(), own) => {
                    was_requested = true;
                    cx.out.notify(Event::Notified {
                        application,
                        session: entry.session,
                        error: *error,
                        template: psb.template,
                        notifier: datagram.source,
                        explanation: stated_reason(entry.carried).map(Box::new),
                    });
                }
                Peer::Neighbor { .. } if is_downstream && self.is_proxied(index, own) => {
                    was_requested = true;
                    self.pass_on(cx, index, error);
                }
                _ => {}
            }
        }
        was_requested
    }

    /// Returns whether a receiver proxy of this node requests notifications about a sender to this address.
    fn is_proxied(&self, index: Index, own: IpAddr) -> bool {
        let tcsbs = self.store.tcsbs_of(Holder::Sender(index));
        let mut requests = tcsbs.filter_map(|tcsb| self.store.find_rsb(tcsb, Origin::Local(PROXY)));
        requests.any(|rsb| asks_for(self.store.rsb(rsb).carried(), own))
    }

    /// Tells the sender of a proxied flow of a failure that this node was notified of.
    fn pass_on<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        error: &ErrorSpec,
    ) {
        let (session, template) = (self.store.session_of(index), self.store.psb(index).template);
        if self.was_passed_on(cx.now, session, template, error) {
            return;
        }
        let until = cx.now + ERROR_FOLLOWS;
        remember(&mut self.notifications.passed_on, (session, template, *error, until));
        self.notify_sender_of_proxy(cx, index, error);
    }

    /// Returns whether a sender was told of a failure already, because a Notify about it came before its ResvErr.
    pub(crate) fn was_passed_on(
        &self,
        now: Time,
        session: Session,
        template: SenderTemplate,
        error: &ErrorSpec,
    ) -> bool {
        self.notifications.passed_on.iter().any(|(of, sender, passed, until)| {
            (*of, *sender) == (session, template) && passed == error && now < *until
        })
    }
}

/// Returns whether objects ask to notify this address.
fn asks_for(carried: &[u8], own: IpAddr) -> bool {
    Carried::Objects(carried).notify_request() == Some(own)
}
