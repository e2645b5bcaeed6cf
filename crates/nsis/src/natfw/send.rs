//! Transmission of messages.

use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::natfw_nslp::{
    Create, External, ExternalAddress, ExternalBinding, Extra, Info, Message, Notify, Outcome,
    Response,
};

use super::counters::DropReason;
use super::flow::{receiver_port, with_receiver_port};
use super::instance::NatfwNslp;
use super::received::Request;
use super::state::{Flags, Index, Kind};
use crate::nslp::{Attributes, HandlerContext, PeerHandle, Received, SendMessage};

/// Session, flow, and next node of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addressing {
    pub(super) session: SessionId,
    pub(super) mri: Mri,
    pub(super) to: Option<PeerHandle>,
    pub(super) attributes: Attributes,
    /// GIST hop count of a message that is forwarded.
    pub(super) hops: Option<u8>,
}

/// What an EXTERNAL is answered with, beside its outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses<'a> {
    pub(super) external: Option<ExternalAddress>,
    pub(super) bindings: Option<ExternalBinding<'a>>,
}

impl NatfwNslp {
    /// Addresses the node towards the responder of a session.
    pub(super) fn towards_responder(&self, index: Index) -> Addressing {
        let session = self.store.session(index);
        let (mri, attributes) = (session.far, session.attributes);
        Addressing { session: session.id, mri, to: None, attributes, hops: None }
    }

    /// Addresses the node towards the initiator of a session.
    pub(super) fn towards_initiator(&self, index: Index) -> Addressing {
        let session = self.store.session(index);
        let (mri, attributes) = (session.near.inverted(), session.attributes);
        Addressing { session: session.id, mri, to: None, attributes, hops: None }
    }

    /// Addresses the sender of a request.
    pub(super) fn back_to(&self, message: &Received<'_>, peer: PeerHandle) -> Addressing {
        let known = self.store.find(message.session);
        let is_peer = known.is_none_or(|index| self.store.session(index).back == Some(peer));
        Addressing {
            session: message.session,
            mri: message.mri.inverted(),
            to: Some(peer).filter(|_| !is_peer || message.explicitly_routed),
            attributes: message.attributes(),
            hops: None,
        }
    }

    /// Answers a request, positively or not.
    pub(super) fn answer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
        (lifetime, outcome): (Option<u32>, Outcome),
        addresses: Addresses<'_>,
    ) {
        let response = Response {
            lifetime,
            msn: request.msn,
            info: Info::new(outcome),
            external_address: addresses.external,
            external_binding: addresses.bindings,
            extra: Extra::NONE,
        };
        self.send(cx, self.back_to(request.message, request.peer), &Message::Response(response));
    }

    /// Sends the request of a session to the next node: that of this node, or a received one.
    pub(super) fn send_request(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        (lifetime, hops): (u32, Option<u8>),
        received: Option<&Request<'_>>,
    ) {
        let session = self.store.session(index);
        let extra = session.extra.as_deref();
        let (msn, extended_flow) = (session.msn, session.extended_flow);
        let nonce = extra.and_then(|extra| extra.nonce);
        let proxy = extra.map(|extra| extra.proxy).unwrap_or_default();
        let icmp_types = Some(session.icmp_types()).filter(|types| !types.is_empty());
        let objects = match (received, extra) {
            (Some(request), _) => request.extra,
            (None, Some(extra)) => Extra::wire(&extra.auth),
            (None, None) => Extra::NONE,
        };
        let addressing = Addressing { hops, ..self.towards_responder(index) };
        let bindings = received.and_then(|request| request.external_binding);
        // Each translator that is not the edge appends its address (section 3.7.2).
        let mut wire = alloc::vec::Vec::new();
        let message = match session.kind {
            Kind::Create => Message::Create(Create {
                proxy,
                lifetime,
                extended_flow,
                msn,
                nonce,
                icmp_types,
                extra: objects,
            }),
            Kind::External => {
                let Some(terminal) = extra.and_then(|extra| extra.terminal) else { return };
                let external = session.binding.map(|binding| self.bindings.get(binding).external);
                let port = external.map_or(receiver_port(&terminal), |external| external.port);
                let external_binding = match (bindings, external) {
                    (Some(before), Some(external)) => {
                        wire.extend_from_slice(before.wire);
                        if let core::net::IpAddr::V4(address) = external.address {
                            wire.push(address.octets());
                        }
                        Some(ExternalBinding { port: external.port, wire: &wire })
                    }
                    (before, _) => before,
                };
                Message::External(External {
                    proxy,
                    lifetime,
                    msn,
                    extended_flow,
                    data_terminal: with_receiver_port(&terminal, port),
                    nonce,
                    icmp_types,
                    external_binding: match (received, session.flags.has(Flags::PASSES)) {
                        // An application asks for the addresses of all translators.
                        (None, false) => Some(ExternalBinding { port: 0, wire: &[] }),
                        _ => external_binding,
                    },
                    extra: objects,
                })
            }
        };
        write(cx, &mut self.counters, self.config.give_up, addressing, &message);
    }

    /// Reports an event to a node of a session.
    pub(super) fn send_notify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        addressing: Addressing,
        info: Info,
        extra: Extra<'_>,
    ) {
        // "NATFW nodes MUST only accept NOTIFY messages through already established NTLP messaging associations" (section
        // 3.7.5).
        if addressing.attributes.reliable {
            let notify = Notify { msn: None, info, extra };
            self.send(cx, addressing, &Message::Notify(notify));
        }
    }

    /// Sends a message.
    pub(super) fn send(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        addressing: Addressing,
        message: &Message<'_>,
    ) {
        write(cx, &mut self.counters, self.config.give_up, addressing, message);
    }
}

/// Writes a message, and counts it, or the reason why it is not sent.
fn write(
    cx: &mut HandlerContext<'_, '_>,
    counters: &mut super::Counters,
    timeout: core::time::Duration,
    addressing: Addressing,
    message: &Message<'_>,
) {
    let Addressing { session, mri, to, attributes, hops } = addressing;
    if hops == Some(0) {
        return counters.drop(DropReason::HopLimit);
    }
    let send = SendMessage { handle: None, session, mri, to, attributes, timeout, hops };
    let room = cx.send(send, message.buffer_len());
    if message.emit(room).is_ok() {
        counters.sent += 1;
    } else {
        counters.drop(DropReason::TooLong);
        cx.take_back();
    }
}
