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
//! Path messages continue past a receiver proxy: an RSVP node behind it can reserve more, and its request is merged.

mod settings;

use alloc::vec::Vec;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{Adspec, FlowSpec, TokenBucket};
use earmark_wire::rsvp::{Body, Carried, ErrorCode, ErrorSpec, PathErr, Style};

use crate::api::{Application, Change, Event, Offer};
use crate::context::HandlerContext;
use crate::instance::{ERROR_HOPS, Rsvp};
use crate::rules::fault::ResvFault;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::request::Request;
use crate::state::store::ExistingRequest;
use crate::state::{Holder, Index, NONE, Origin};

pub(crate) use self::settings::sender_proxy;
pub use self::settings::{ReceiverProxy, SenderProxy, Settings};
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
        for outgoing in interfaces {
            let wanted = self.proxy_flowspec(cx, index, outgoing);
            let origin = Origin::Local(PROXY);
            let known = self.store.find_request(Holder::Sender(index), Some(outgoing), origin);
            let rsb = known.rsb;
            match (wanted, rsb) {
                (None, None) => {}
                (None, Some(rsb)) => {
                    self.drop_reservation(cx, rsb, Change::Torn, Carried::NONE);
                }
                (Some(flowspec), Some(rsb)) if self.store.rsb(rsb).flowspec == flowspec => {}
                (Some(flowspec), _) => {
                    let done = self.reserve_as_proxy(cx, index, outgoing, flowspec, known);
                    if let Err(fault) = done {
                        let in_place = rsb.is_some();
                        self.report_proxy_failure(cx, index, &ResvFault { in_place, ..fault });
                    }
                }
            }
        }
    }

    fn proxy_flowspec<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
    ) -> Option<FlowSpec> {
        let interface = cx.context.interfaces.by_id(outgoing)?;
        let (psb, session) = (self.store.psb(index), self.store.session_of(index));
        let flowspec = self.config.proxies.receivers.iter().find_map(|proxy| {
            proxy.flowspec_for(&interface.name, &session, &psb.template, &psb.tspec)
        })?;
        let adspec = psb.adspec.as_deref().and_then(|body| Adspec::parse(body).ok());
        let path_mtu =
            adspec.map_or(u32::MAX, |adspec| Offer::of(&adspec, false).controlled_load_mtu);
        // No packets larger than the MTU of the path and of the link (RFC 2210 section 2.3.2).
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

    fn reserve_as_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
        flowspec: FlowSpec,
        known: ExistingRequest,
    ) -> Result<Index, ResvFault> {
        self.check_style(self.store.psb(index).session, Style::FixedFilter)?;
        let request = Request {
            origin: Origin::Local(PROXY),
            outgoing: Some(outgoing),
            flowspec,
            extra: None,
            confirm: None,
            expires_at: Time::MAX,
        };
        self.reserve(cx, Holder::Sender(index), known, request)
    }

    /// Sends a PathErr for a local failure of a receiver proxy's reservation.
    pub(crate) fn report_proxy_failure<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        fault: &ResvFault,
    ) {
        let flags = if fault.in_place { ErrorSpec::IN_PLACE } else { 0 };
        self.send_proxy_path_err(cx, index, fault.code, fault.value, flags);
    }

    /// Sends a PathErr towards the sender for a ResvErr, or a local failure, that concerns a receiver proxy (RFC 5946
    /// sections 3.1.1 and 3.1.2). Failures that the sender cannot correct become "unrecoverable receiver proxy error"
    /// with the code as value.
    pub(crate) fn send_proxy_path_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        code: ErrorCode,
        value: u16,
        flags: u8,
    ) {
        let (code, value) = match code {
            ErrorCode::AdmissionControlFailure | ErrorCode::PolicyControlFailure => (code, value),
            other => (ErrorCode::ReceiverProxyError, 0x0100 | u16::from(other.code())),
        };
        let flags = flags & ErrorSpec::IN_PLACE;
        let psb = self.store.psb(index);
        let (template, tspec) = (psb.template, psb.tspec);
        let session = self.store.session_of(index);
        match self.store.origin(psb.hop) {
            Origin::Local(application) => {
                let error = ErrorSpec { node: template.source, flags, code, value };
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
                let error = ErrorSpec { node, flags, code, value };
                let sender = Some((template, Some(tspec)));
                let body = PathErr { session, error, carried: Carried::NONE, sender };
                self.send_once(cx, message.with_send_ttl(ERROR_HOPS), &Body::PathErr(body));
            }
        }
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
                NextHops::of_sender(cx.context, &SenderData { session, template, incoming: None });
            if matches!(next_hops, NextHops::Out(_) | NextHops::Branches(_)) {
                self.start_proxy(cx, application, &proxy);
            }
        }
    }
}
