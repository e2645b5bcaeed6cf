//! Traces: this node sends DREQs and combines the DREPs (RFC 2745 section 6).
//!
//! A trace first requests the whole path. DREPs return hop by hop, which works behind firewalls and with message
//! integrity between neighbours; if none arrives, the next DREQ requests a direct one. If that fails too, a node on the
//! path is silent, and further DREQs with one hop more each time find it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::Time;
use earmark_wire::rsvp::{
    Body, Carried, Diagnosis, Diagnostic, FilterSpec, List, Route, RsvpHop, SenderTemplate,
    Session, SourceSelector,
};

use super::pending_trace::{Part, PendingTrace, Trace};
use super::receive::own_address_towards;
use super::{TraceEnd, TraceHop};
use crate::api::{Application, Event, Rejection};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::address::is_unicast;
use crate::neighbors::outgoing::to_neighbor;
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::state::{Index, Timer, TimerKind, key};

/// Limit of concurrent traces.
const TRACES: usize = 64;
/// Timeouts of the first, second and third DREQ.
const WAITS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(1), Duration::from_secs(2)];
/// Timeout of each DREQ that searches for a silent node, and their number.
const SEARCH_WAIT: Duration = Duration::from_secs(1);
const SEARCH_ATTEMPTS: u8 = 2;
/// Maximum duration of a trace.
const LONGEST: Duration = Duration::from_secs(600);
/// Path MTU of a DREQ when it leaves this node, before links on the path reduce it: that of Ethernet.
const PATH_MTU: u16 = 1_452;

impl Rsvp {
    /// Returns the senders of a session that this node knows.
    pub fn senders_of(&self, session: &Session) -> impl Iterator<Item = SenderTemplate> {
        let index = self.store.find_session(&key(*session));
        index
            .into_iter()
            .flat_map(|index| self.store.senders_of(index))
            .map(|psb| self.store.psb(psb).template)
    }

    /// Starts a trace, which ends with [`Event::Traced`].
    pub(crate) fn trace<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        trace: &Trace,
    ) -> Result<(), Rejection> {
        let session = key(trace.session);
        if !session.is_valid() {
            return Err(Rejection::BadSession);
        }
        let sender = match trace.sender {
            Some(sender) => sender,
            None => {
                let mut senders = self.senders_of(&session);
                let first = senders.next().ok_or(Rejection::NoSuchSender)?;
                if senders.next().is_some() {
                    return Err(Rejection::SeveralSenders);
                }
                first
            }
        };
        let multicast = session.destination.is_multicast();
        let last_hop = trace.last_hop.or((!multicast).then_some(session.destination));
        let local_address = own_address_towards(cx.context, last_hop.unwrap_or(sender.source));
        let local_address = local_address.ok_or(Rejection::NoRoute)?;
        let last_hop = last_hop.unwrap_or(local_address);
        let alike = local_address.is_ipv4() == session.destination.is_ipv4()
            && local_address.is_ipv4() == sender.source.is_ipv4();
        if !alike || !is_unicast(last_hop) || !is_unicast(sender.source) {
            return Err(Rejection::BadSession);
        }
        let tracing = &mut self.diagnostics.tracing;
        if tracing.len() >= TRACES || tracing.iter().any(|(_, t)| t.application == application) {
            return Err(Rejection::Limit);
        }
        let index = tracing.insert(PendingTrace {
            application,
            session,
            sender,
            last_hop,
            local_address,
            max_hops: trace.max_hops,
            ends_at: cx.now + trace.patience.min(LONGEST),
            request_id: 0,
            attempt: 0,
            reach: 0,
            parts: BTreeMap::new(),
            known: Vec::new(),
            timer: None,
        });
        self.send_dreq(cx, index as Index);
        Ok(())
    }

    /// Sends the current DREQ.
    fn send_dreq<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let Some(tracing) = self.diagnostics.tracing.get_mut(index as usize) else { return };
        let request_id = self.diagnostics.ids.next_u64() as u32;
        tracing.request_id = request_id;
        tracing.attempt += 1;
        tracing.parts.clear();
        let &mut PendingTrace {
            application,
            session,
            sender,
            last_hop,
            local_address,
            reach,
            attempt,
            ..
        } = tracing;
        let max_hops = if reach == 0 { tracing.max_hops } else { reach };
        cx.out.notify(Event::Tracing {
            application,
            last_hop,
            known: tracing.known.len(),
            attempt,
            reach,
        });
        let wait = match reach {
            0 => WAITS[usize::from(attempt - 1).min(WAITS.len() - 1)],
            _ => SEARCH_WAIT,
        };
        self.wait(cx.now, index, wait);
        let by_route = attempt % 2 == 1;
        let dreq = Diagnosis {
            session,
            hop: RsvpHop { address: local_address, lih: 0 },
            diagnostic: Diagnostic {
                max_hops,
                hop_count: 0,
                more_fragments: false,
                request_id,
                path_mtu: PATH_MTU,
                fragment_offset: 0,
                last_hop,
                sender,
                requester: FilterSpec { source: local_address, selector: SourceSelector::Port(0) },
            },
            select: None,
            route: by_route.then_some(Route { pointer: 0, nodes: List::EMPTY }),
            responses: List::EMPTY,
            carried: Carried::Objects(&[]),
        };
        if cx.context.interfaces.is_local(last_hop) {
            self.handle_dreq(cx, &dreq, 0);
        } else {
            let outgoing_message = OutgoingMessage::new(to_neighbor(local_address, last_hop));
            self.refresh_reduction.send(
                &mut self.counters,
                cx.out,
                outgoing_message,
                &Body::Dreq(dreq),
            );
        }
    }

    /// Handles a DREP, or a fragment of one, for a trace of this node.
    pub(super) fn receive_trace_drep<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        answer: &Diagnosis<'_>,
    ) -> Result<(), DropReason> {
        let diagnostic = &answer.diagnostic;
        let mut all = self.diagnostics.tracing.iter_mut();
        let found = all.find(|(_, tracing)| {
            tracing.request_id == diagnostic.request_id
                && tracing.session == key(answer.session)
                && tracing.sender == diagnostic.sender
        });
        let Some((index, tracing)) = found else { return Err(DropReason::NotForUs) };
        let octets: usize = answer.responses.iter().map(|response| response.object_len()).sum();
        let part = Part {
            hops: answer.responses.iter().map(|response| TraceHop::of(&response)).collect(),
            octets: u16::try_from(octets).unwrap_or(u16::MAX),
            last: !diagnostic.more_fragments,
        };
        // A valid DREP has at most one fragment for each node.
        if tracing.parts.len() < usize::from(u8::MAX) {
            tracing.parts.insert(diagnostic.fragment_offset, part);
        }
        let index = index as Index;
        match tracing.received_hops() {
            (hops, true) => self.continue_trace(cx, index, hops),
            (_, false) => self.wait(cx.now, index, SEARCH_WAIT),
        }
        Ok(())
    }

    /// Handles a complete DREP: the end of the trace, or one step of a search.
    fn continue_trace<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        hops: Vec<TraceHop>,
    ) {
        let Some(tracing) = self.diagnostics.tracing.get_mut(index as usize) else { return };
        match tracing.end(&hops) {
            Some(end) => self.end_trace(cx, index, hops, end),
            None if hops.is_empty() => {
                self.end_trace(cx, index, hops, TraceEnd::GaveUp);
            }
            None => {
                tracing.known = hops;
                tracing.reach = tracing.reach.saturating_add(1);
                tracing.attempt = 0;
                self.send_dreq(cx, index);
            }
        }
    }

    /// Handles the timeout of a DREQ.
    pub(crate) fn trace_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let Some(tracing) = self.diagnostics.tracing.get_mut(index as usize) else { return };
        tracing.timer = None;
        let (received, _) = tracing.received_hops();
        if cx.now < tracing.ends_at {
            if tracing.reach == 0 && usize::from(tracing.attempt) >= WAITS.len() {
                (tracing.reach, tracing.attempt) = (1, 0);
                return self.send_dreq(cx, index);
            }
            if tracing.reach == 0 || tracing.attempt < SEARCH_ATTEMPTS {
                return self.send_dreq(cx, index);
            }
        }
        if received.len() > tracing.known.len() {
            return self.end_trace(cx, index, received, TraceEnd::Incomplete);
        }
        let known = core::mem::take(&mut tracing.known);
        let node = known.last().and_then(|hop| hop.previous_hop).unwrap_or(tracing.last_hop);
        self.end_trace(cx, index, known, TraceEnd::Silent { node });
    }

    fn end_trace<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        hops: Vec<TraceHop>,
        end: TraceEnd,
    ) {
        let tracing = self.diagnostics.tracing.remove(index as usize);
        if let Some(timer) = tracing.timer {
            self.store.timers.cancel(timer);
        }
        let PendingTrace { application, session, sender, last_hop, .. } = tracing;
        cx.out.notify(Event::Traced { application, session, sender, last_hop, hops, end });
    }

    /// Arms the timer of a trace.
    fn wait(&mut self, now: Time, index: Index, wait: Duration) {
        let Some(tracing) = self.diagnostics.tracing.get_mut(index as usize) else { return };
        let at = (now + wait).min(tracing.ends_at);
        match tracing.timer {
            Some(timer) => {
                self.store.timers.rearm(timer, at);
            }
            None => {
                let timer = Timer { kind: TimerKind::Trace, block: index };
                tracing.timer = Some(self.store.timers.arm(at, timer));
            }
        }
    }
}
