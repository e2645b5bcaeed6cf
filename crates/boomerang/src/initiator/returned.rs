//! A message that has come back to its initiating node.

use alloc::boxed::Box;

use earmark_core::Datagram;
use earmark_core::outcome::Outcome;
use earmark_wire::boomerang::{QosView, Rates, View};

use crate::api::{Event, OnRefusal};
use crate::context::HandlerContext;
use crate::instance::Boomerang;
use crate::loops::{Loop, Phase};
use crate::participation::reach;
use crate::state::Index;

impl Boomerang {
    pub(super) fn process_reply<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        datagram: &Datagram<'_>,
        view: &View<'_>,
    ) {
        let state = self.loops.get_mut(index);
        state.last_reply_at = cx.now;
        if core::mem::take(&mut state.lost) {
            // The application was notified of the loss, so it is notified of its end, too.
            state.granted = None;
        }
        state.attempts = 0;
        state.nonces.clear();
        let wanted_by_nodes = view.refresh_interval().max(1);
        state.interval = state.requested_interval.min(wanted_by_nodes);
        let application = state.application;
        let returned = match view.qos() {
            QosView::Bitrate(rates) => (0, rates),
            QosView::Downgrade(vector) => {
                let pairs = vector.iter().map(|octets| Rates::from_octets(*octets));
                let first = pairs.enumerate().find(|(_, pair)| *pair != Rates::ZERO);
                first.unwrap_or((0, Rates::ZERO))
            }
        };
        let record = view.options().participation().filter(|_| state.has_record);
        let reach = record.map(|(_, record)| {
            state.has_record = false;
            reach(&record, returned.1, state.destination, datagram.ttl)
        });
        match state.phase {
            Phase::Release => {
                self.remove_loop(index);
                cx.out.notify(Event::Released { application });
            }
            Phase::Query => {
                self.remove_loop(index);
                let reach = Box::new(Outcome { offer: true, ..reach.unwrap_or_default() });
                cx.out.notify(Event::Offered { application, offer: returned.1, reach });
            }
            Phase::Reserve if view.flags().is_nack() || returned.1 == Rates::ZERO => {
                self.refused(cx, index, returned.1);
            }
            Phase::Reserve if view.key() > 1 && view.key() != state.key => {
                // Reserved but locked: the locking node expects the key.
                state.key = view.key();
                self.send_request(cx, index);
            }
            Phase::Reserve => {
                self.granted(cx, index, returned);
                if let Some(reach) = reach {
                    let reach = Box::new(reach);
                    cx.out.notify(Event::Reached { application, reach });
                }
            }
        }
    }

    /// Handles the grant of the pair of rates with this number by all nodes.
    fn granted<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        (number, rates): (usize, Rates),
    ) {
        let state = self.loops.get_mut(index);
        let was_refused = core::mem::take(&mut state.is_refused);
        let before = state.granted.replace(rates).filter(|_| !was_refused);
        let (application, interval) = (state.application, state.interval);
        match before {
            Some(before) if before == rates => {}
            Some(_) => cx.out.notify(Event::Changed { application, rates }),
            None => {
                state.repeated = false;
                let confirmed = true;
                cx.out.notify(Event::Established { application, rates, interval, confirmed });
            }
        }
        let is_news = before != Some(rates) && state.counts_nodes;
        state.has_record |= is_news;
        if number > 0 && number < state.requested.len() {
            // Nodes before the one that refused the better pairs still hold them; they are updated at once.
            state.requested.drain(..number);
            return self.send_request(cx, index);
        }
        if is_news {
            // The count of nodes is a separate request: the first message asks as little as possible.
            return self.send_request(cx, index);
        }
        self.arm_loop(cx.now, index);
    }

    /// Handles a refusal.
    fn refused<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        offer: Rates,
    ) {
        let state = self.loops.get_mut(index);
        let reaction = state.reaction(offer);
        let wanted = state.requested.first().copied().unwrap_or_default();
        let application = state.application;
        cx.out.notify(Event::Refused { application, offer, reaction });
        let back_to = state.granted.filter(|granted| *granted != wanted);
        if !is_useful(wanted, offer) {
            // A node that has lost its state locks again, until the key has no room for another prime. Without the key the
            // other nodes let the session expire, and it is set up anew.
            state.key = 1;
        }
        // The other reactions are requests of this node, whose grants say nothing new.
        state.is_refused = reaction == OnRefusal::Retry;
        match (reaction, back_to) {
            (OnRefusal::Retry, _) => self.arm_loop(cx.now, index),
            (OnRefusal::TakeOffer, _) => {
                state.requested = [lesser(wanted, offer)].into();
                state.is_vector = false;
                self.send_request(cx, index);
            }
            // The previous grant was not refused; nodes that granted the change release it.
            (OnRefusal::Release, Some(granted)) => {
                state.requested = [granted].into();
                state.is_vector = false;
                self.send_request(cx, index);
            }
            (OnRefusal::Release, None) => self.begin_release(cx, index),
        }
    }
}

impl Loop {
    /// Returns the reaction to an offer. An offer of zero in a requested direction cannot be taken; an offer of
    /// everything requested can only be requested again.
    fn reaction(&self, offer: Rates) -> OnRefusal {
        let wanted = self.requested.first().copied().unwrap_or_default();
        match self.on_refusal {
            OnRefusal::TakeOffer if !is_useful(wanted, offer) || offer == Rates::ZERO => {
                OnRefusal::Release
            }
            OnRefusal::TakeOffer if lesser(wanted, offer) == wanted => OnRefusal::Retry,
            reaction => reaction,
        }
    }
}

/// Returns whether something is offered in each direction in which something is requested.
fn is_useful(wanted: Rates, offer: Rates) -> bool {
    let is_enough = |wanted: u32, offer: u32| wanted == 0 || offer > 0;
    is_enough(wanted.forward, offer.forward) && is_enough(wanted.reverse, offer.reverse)
}

fn lesser(a: Rates, b: Rates) -> Rates {
    Rates { forward: a.forward.min(b.forward), reverse: a.reverse.min(b.reverse) }
}
