//! RSVP proxies: this node acts for hosts without RSVP (RFC 5945, RFC 5946).
//!
//! A *receiver proxy* reserves the last link for a sender whose receiver does not send Resv messages. Path messages
//! trigger it, and the reservation follows the path state: it changes and ends with it. A refused reservation is
//! retried with each refresh of the Path. The sender, which would otherwise wait in vain, gets a PathErr about a
//! failure (RFC 5946 section 3.1).
//!
//! A *sender proxy* sends Path messages for a host that only sends data. It starts when there is a route to the
//! destination.
//!
//! Path messages continue past a receiver proxy, unless its settings end them. The first Resv of a node behind it takes
//! the place of the proxy for that flow (`discovery`), and a sender may ask for a proxy, or for none (`control`).

mod control;
mod discovery;
mod settings;

use alloc::vec::Vec;

use earmark_core::{Context, InterfaceId, Time};
use earmark_wire::intserv::{Adspec, FlowSpec, TokenBucket};
use earmark_wire::rsvp::iana::ReceiverProxyControl;
use earmark_wire::rsvp::{Body, Carried, ErrorCode, ErrorSpec, PathErr, Style};

use crate::api::{Application, Change, Event};
use crate::context::HandlerContext;
use crate::instance::{ERROR_HOPS, Rsvp};
use crate::offer::Offer;
use crate::rules::fault::ResvFault;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::notify::notify_request;
use crate::rules::request::Request;
use crate::state::store::ExistingRequest;
use crate::state::{Extra, Holder, Index, NONE, Origin};

pub(crate) use self::settings::sender_proxy;
pub use self::settings::{ReceiverProxy, SenderNotification, SenderProxy, Settings};
pub use crate::state::applications::PROXY;

impl Rsvp {
    /// Updates the receiver proxy's reservations for a sender, and removes those that no longer match.
    #[inline]
    pub(crate) fn update_receiver_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if !self.config.proxies.receivers.is_empty() {
            self.update_proxy_reservations(cx, index);
        }
    }

    /// Updates the receiver proxy's reservations for a sender after the settings have changed.
    pub(crate) fn recheck_receiver_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.update_proxy_reservations(cx, index);
        // Which of these Paths went on before is not known here, and an unknown PathTear does no harm.
        self.tear_ended_paths(cx, index, &[]);
        if !self.config.proxies.receivers.is_empty()
            && self.store.psb(index).path_message_id != NONE
        {
            // Refused reservations are retried with each refresh of the Path, so it must be refreshed by messages.
            self.path_refresh(cx, index);
        }
    }

    #[cold]
    fn update_proxy_reservations<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let interfaces: Vec<InterfaceId> = self.store.psb(index).outgoing.as_slice().to_vec();
        let notify = self.notify_request_of_proxy(cx, index);
        let carried = Carried::Objects(&notify);
        for outgoing in interfaces {
            let proxy = self.receiver_proxy(cx.context, index, outgoing);
            let proxy = proxy.map(|(proxy, flowspec)| (proxy.sinks_path, flowspec));
            let sinks_path = proxy.is_some_and(|(sinks_path, _)| sinks_path);
            if !sinks_path && self.is_discovered(index, outgoing) {
                continue;
            }
            let wanted = proxy.and_then(|(_, flowspec)| {
                self.flowspec_within_mtu(cx.context, index, outgoing, flowspec)
            });
            let origin = Origin::Local(PROXY);
            let known = self.store.find_request(Holder::Sender(index), Some(outgoing), origin);
            let rsb = known.rsb;
            let is_same = |rsb: Index, flowspec: &FlowSpec| {
                let rsb = self.store.rsb(rsb);
                rsb.flowspec == *flowspec && rsb.carries(carried)
            };
            match (wanted, rsb) {
                (None, None) => {}
                (None, Some(rsb)) => {
                    self.drop_reservation(cx, rsb, Change::Torn, Carried::NONE);
                }
                (Some(flowspec), Some(rsb)) if is_same(rsb, &flowspec) => {}
                (Some(flowspec), _) => {
                    let request = (flowspec, carried);
                    let done = self.reserve_as_proxy(cx, index, outgoing, request, known);
                    if let Err(fault) = done {
                        let in_place = rsb.is_some();
                        self.report_proxy_failure(cx, index, &ResvFault { in_place, ..fault });
                    }
                }
            }
        }
    }

    /// Returns a flowspec without packets that are too large for the path of a sender or for its outgoing interface; `None`
    /// without such an interface.
    fn flowspec_within_mtu(
        &self,
        context: &Context<'_>,
        index: Index,
        outgoing: InterfaceId,
        flowspec: FlowSpec,
    ) -> Option<FlowSpec> {
        let interface = context.interfaces.by_id(outgoing)?;
        let psb = self.store.psb(index);
        let adspec = psb.adspec.as_deref().and_then(|body| Adspec::parse(body).ok());
        let path_mtu =
            adspec.map_or(u32::MAX, |adspec| Offer::of(&adspec, false).controlled_load_mtu);
        // RFC 2210 section 2.3.2.
        let mtu = path_mtu.min(interface.mtu).max(1);
        Some(match flowspec {
            FlowSpec::ControlledLoad(bucket) => FlowSpec::ControlledLoad(TokenBucket {
                max_packet_size: bucket.max_packet_size.min(mtu),
                min_policed_unit: bucket.min_policed_unit.min(mtu),
                ..bucket
            }),
            guaranteed @ FlowSpec::Guaranteed(..) => guaranteed,
        })
    }

    /// Returns the receiver proxy for a sender on an outgoing interface, and the flowspec that it requests.
    fn receiver_proxy(
        &self,
        context: &Context<'_>,
        index: Index,
        outgoing: InterfaceId,
    ) -> Option<(&ReceiverProxy, FlowSpec)> {
        let interface = context.interfaces.by_id(outgoing)?;
        let (psb, session) = (self.store.psb(index), self.store.session_of(index));
        let control = self.proxy_control(index);
        if control == Some(ReceiverProxyControl::NotNeeded) {
            return None;
        }
        let is_needed = control == Some(ReceiverProxyControl::Needed);
        let mut proxies = self.config.proxies.receivers.iter();
        proxies.find_map(|proxy| {
            let flowspec =
                proxy.flowspec_for(&interface.name, &session, &psb.template, &psb.tspec)?;
            (is_needed || !proxy.on_request).then_some((proxy, flowspec))
        })
    }

    /// Returns whether Path messages of a sender end at a receiver proxy of this node.
    #[inline]
    pub(crate) fn sinks_path(
        &self,
        context: &Context<'_>,
        index: Index,
        outgoing: InterfaceId,
    ) -> bool {
        !self.config.proxies.receivers.is_empty() && self.is_path_end(context, index, outgoing)
    }

    #[cold]
    fn is_path_end(&self, context: &Context<'_>, index: Index, outgoing: InterfaceId) -> bool {
        let proxy = self.receiver_proxy(context, index, outgoing);
        proxy.is_some_and(|(proxy, _)| proxy.sinks_path)
    }

    /// Returns the outgoing interfaces of a sender where its Path messages end at a receiver proxy.
    #[inline]
    pub(crate) fn ended_paths(&self, context: &Context<'_>, index: Index) -> Vec<InterfaceId> {
        if self.config.proxies.receivers.is_empty() {
            return Vec::new();
        }
        let interfaces = self.store.psb(index).outgoing.as_slice().iter().copied();
        interfaces.filter(|&outgoing| self.is_path_end(context, index, outgoing)).collect()
    }

    /// Sends a PathTear where Path messages of a sender end at a receiver proxy since a change, in contrast to `before`.
    pub(crate) fn tear_ended_paths<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        before: &[InterfaceId],
    ) {
        for outgoing in self.ended_paths(cx.context, index) {
            if !before.contains(&outgoing) {
                self.scratch.clear();
                self.send_path_tear_of(cx, index, outgoing);
            }
        }
    }

    fn reserve_as_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
        (flowspec, carried): (FlowSpec, Carried<'_>),
        known: ExistingRequest,
    ) -> Result<Index, ResvFault> {
        self.check_style(self.store.psb(index).session, Style::FixedFilter)?;
        let request = Request {
            origin: Origin::Local(PROXY),
            outgoing: Some(outgoing),
            flowspec,
            extra: Extra::carrying(carried),
            confirm: None,
            expires_at: Time::MAX,
        };
        self.reserve(cx, Holder::Sender(index), known, request)
    }

    /// Reports a local failure of a receiver proxy's reservation to the sender.
    pub(crate) fn report_proxy_failure<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        fault: &ResvFault,
    ) {
        let node = self.store.psb(index).template.source;
        let error = sender_error(&fault.spec(node));
        let is_notified = self.notify_sender_of_proxy(cx, index, &error);
        self.send_proxy_path_err(cx, index, &error, is_notified);
    }

    /// Reports a ResvErr that concerns a receiver proxy to the sender.
    pub(crate) fn report_proxy_error<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        error: &ErrorSpec,
    ) {
        let (session, template) = (self.store.session_of(index), self.store.psb(index).template);
        let is_notified = self.was_passed_on(cx.now, session, template, error)
            || match self.notification(cx, index) {
                Some(SenderNotification::DirectOnly) => true,
                _ => self.notify_sender_of_proxy(cx, index, error),
            };
        self.send_proxy_path_err(cx, index, &sender_error(error), is_notified);
    }

    /// Returns the receiver proxy of a sender, on the first of its outgoing interfaces that has one.
    fn first_receiver_proxy<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
    ) -> Option<&ReceiverProxy> {
        let outgoing = self.store.psb(index).outgoing.as_slice();
        let (proxy, _) =
            outgoing.iter().find_map(|&id| self.receiver_proxy(cx.context, index, id))?;
        Some(proxy)
    }

    /// Returns how the sender of a proxied flow is notified, if its Path asks for that.
    fn notification<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
    ) -> Option<SenderNotification> {
        let path = Carried::Objects(self.store.psb(index).carried.octets());
        if !self.config.notify.enabled || path.notify_request().is_none() {
            return None;
        }
        self.first_receiver_proxy(cx, index)?.notify
    }

    /// Sends a Notify about a failure to the sender of a proxied flow (RFC 5946 section 3.2). Returns whether it is notified.
    pub(crate) fn notify_sender_of_proxy<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
        error: &ErrorSpec,
    ) -> bool {
        if self.notification(cx, index).is_none() {
            return false;
        }
        let psb = self.store.psb(index);
        let Some((incoming, hop)) = self.store.neighbor_of(psb.hop) else { return false };
        let Some((node, _)) = self.message_to(cx, incoming, hop.address) else { return false };
        let error = ErrorSpec { node, ..sender_error(error) };
        let (path, sender) = (psb.carried.clone(), (psb.template, Some(psb.tspec)));
        let (path, session) = (Carried::Objects(path.octets()), self.store.session_of(index));
        self.notify_upstream(cx, path, Some(hop.address), error, session, sender)
    }

    /// Returns the NOTIFY_REQUEST for the Resv of a proxy: with the address in the Path of the sender, or with an own one.
    fn notify_request_of_proxy<E>(&self, cx: &HandlerContext<'_, '_, E>, index: Index) -> Vec<u8> {
        let Some(notification) = self.notification(cx, index) else { return Vec::new() };
        let psb = self.store.psb(index);
        let node = match notification {
            SenderNotification::Direct | SenderNotification::DirectOnly => {
                Carried::Objects(psb.carried.octets()).notify_request()
            }
            SenderNotification::Indirect => self
                .store
                .neighbor_of(psb.hop)
                .and_then(|(incoming, hop)| self.message_to(cx, incoming, hop.address))
                .map(|(own, _)| own),
        };
        node.map_or_else(Vec::new, notify_request)
    }

    /// Sends a PathErr towards the sender (RFC 5946 sections 3.1.1 and 3.1.2), unless a Notify is enough.
    fn send_proxy_path_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        error: &ErrorSpec,
        is_notified: bool,
    ) {
        let psb = self.store.psb(index);
        let (template, tspec) = (psb.template, psb.tspec);
        let session = self.store.session_of(index);
        match self.store.origin(psb.hop) {
            Origin::Local(application) => {
                let error = ErrorSpec { node: template.source, ..*error };
                cx.out.notify(Event::PathError {
                    application,
                    session,
                    error,
                    template,
                    explanation: None,
                });
            }
            Origin::Neighbor(incoming, hop) => {
                let Some((node, message)) = self.message_to(cx, incoming, hop.address) else {
                    return;
                };
                let proxy = self.first_receiver_proxy(cx, index);
                let is_silent = is_notified && proxy.is_some_and(|proxy| proxy.notify_only);
                let flags = error.flags | self.remove_failed_path(cx, index, error.flags);
                if is_silent {
                    return;
                }
                let error = ErrorSpec { node, flags, ..*error };
                let sender = Some((template, Some(tspec)));
                let body = PathErr { session, error, carried: Carried::NONE, sender };
                self.send_once(cx, message.with_send_ttl(ERROR_HOPS), &Body::PathErr(body));
            }
        }
    }

    /// Removes the path state of a sender whose reservation has failed, if the settings of its proxy say so: it expires at
    /// once. Returns the flag for the PathErr. The state stays if a reservation is still in place, or if the data have
    /// other branches.
    fn remove_failed_path<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
        flags: u8,
    ) -> u8 {
        let &[outgoing] = self.store.psb(index).outgoing.as_slice() else { return 0 };
        let proxy = self.receiver_proxy(cx.context, index, outgoing);
        let is_removed = flags & ErrorSpec::IN_PLACE == 0
            && proxy.is_some_and(|(proxy, _)| proxy.path_state_removed);
        if !is_removed {
            return 0;
        }
        self.store.psb_mut(index).expires_at = cx.now;
        self.rearm_sender(index);
        ErrorSpec::PATH_STATE_REMOVED
    }

    /// Returns whether an application is a sender proxy.
    pub(crate) fn is_sender_proxy(&self, application: Application) -> bool {
        let senders = self.sender_proxies.len() as u64;
        (PROXY.0 - senders..PROXY.0).contains(&application.0)
    }

    /// Starts the sender proxies whose destinations are reachable now.
    pub(crate) fn start_proxies<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for place in 0..self.sender_proxies.len() {
            let Some(proxy) = self.sender_proxies[place] else { continue };
            let application = sender_proxy(place);
            if self.applications.open.contains_key(&application) {
                continue;
            }
            let (session, template) = (proxy.session, proxy.template);
            let next_hops =
                NextHops::of_sender(cx.context, &SenderData::new(session, template, None));
            if matches!(next_hops, NextHops::Out(_) | NextHops::Branches(_)) {
                self.start_proxy(cx, application, &proxy);
            }
        }
    }
}

/// Returns the error for the sender. Failures that the sender cannot correct become "unrecoverable receiver proxy error" with
/// the code as value (RFC 5946 section 3.1.2).
fn sender_error(error: &ErrorSpec) -> ErrorSpec {
    let (code, value) = match error.code {
        code @ (ErrorCode::AdmissionControlFailure
        | ErrorCode::PolicyControlFailure
        | ErrorCode::ReceiverProxyError) => (code, error.value),
        other => (ErrorCode::ReceiverProxyError, 0x0100 | u16::from(other.code())),
    };
    ErrorSpec { code, value, flags: error.flags & ErrorSpec::IN_PLACE, ..*error }
}
