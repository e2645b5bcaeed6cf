//! Processing of a DREQ at one node: it adds a DIAG_RESPONSE, and forwards or returns the message (RFC 2745 section
//! 4.1, whose steps the numbers name).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_wire::rsvp::{Body, DiagResponse, Diagnosis, List, Message, Route, RsvpHop};

use super::receive::is_fresh;
use super::response::OutgoingLink;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::{NEIGHBOR_TTL, Rsvp};
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::rules::next_hops::NextHops;
use crate::state::{Index, Origin, key};

/// Octets for the headers of IP and UDP, so that an answer fits into one packet.
const HEADERS_V4: u32 = 28;
const HEADERS_V6: u32 = 48;

/// Next hop of a DREQ towards the sender.
#[derive(Clone, Copy, Debug)]
struct Upstream {
    /// Local address on that link.
    own: IpAddr,
    /// Previous hop of the sender, with its LIH.
    hop: RsvpHop,
    interface: earmark_core::InterfaceId,
    /// Maximum message length, octets.
    mtu: u16,
}

impl Rsvp {
    /// Handles a DREQ at this node; `ip_hops` is the number of IP hops from the node before.
    pub(super) fn handle_dreq<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        dreq: &Diagnosis<'_>,
        ip_hops: u8,
    ) {
        let session = key(dreq.session);
        let mut request = dreq.diagnostic;
        let sender = self.store.find_sender(&session, &request.sender);
        let out = self.out_of(cx, dreq, sender);
        request.hop_count = request.hop_count.saturating_add(1); // 3
        let upstream = sender
            .and_then(|psb| self.upstream_of(cx, psb))
            .filter(|_| !cx.context.interfaces.is_local(request.sender.source))
            .filter(|_| request.max_hops == 0 || request.hop_count < request.max_hops)
            .filter(|_| request.hop_count < u8::MAX);
        if let Some(upstream) = upstream {
            request.path_mtu = request.path_mtu.min(upstream.mtu); // 6
        }
        let mut responses: Vec<DiagResponse<'_>> = dreq.responses.iter().collect();
        let mut nodes: Option<Vec<IpAddr>> = dreq.route.map(|route| route.nodes.iter().collect());
        let address = if session.destination.is_ipv4() { 4 } else { 16 };
        let collected: usize = responses.iter().map(DiagResponse::object_len).sum();
        let whole = Message::new(NEIGHBOR_TTL, Body::Dreq(*dreq)).buffer_len();
        let path_mtu = usize::from(request.path_mtu);
        let room = path_mtu.saturating_sub(whole - collected + address);
        let objects = self.response_objects(dreq, sender, out, room);
        let mut response = self.response(cx, dreq, sender, out, ip_hops); // 1, 2, 4, 5
        response.objects = &objects;
        let added = response.object_len() + if nodes.is_some() { address } else { 0 };
        if whole + added > path_mtu {
            response.error |= DiagResponse::PACKET_TOO_BIG; // 7
            if !responses.is_empty() {
                let mut part = Diagnosis { diagnostic: request, ..*dreq };
                part.diagnostic.more_fragments = true;
                self.return_drep(cx, &part); // SD1, SD2
                let collected = u16::try_from(collected).unwrap_or(u16::MAX);
                request.fragment_offset = request.fragment_offset.saturating_add(collected);
                responses.clear();
            }
            if let Some(nodes) = &mut nodes
                && whole - collected + added > path_mtu
            {
                response.error |= DiagResponse::ROUTE_TOO_BIG; // SD4
                nodes.clear();
            }
        }
        responses.push(response);
        if let (Some(nodes), Some(upstream)) = (&mut nodes, upstream) {
            nodes.push(upstream.own);
        }
        let mut forwarded = Diagnosis {
            diagnostic: request,
            route: nodes.as_deref().map(|nodes| Route {
                pointer: u8::try_from(nodes.len()).unwrap_or(u8::MAX),
                nodes: List::Items(nodes),
            }),
            responses: List::Items(&responses),
            ..*dreq
        };
        let Some(Upstream { own, hop, interface, .. }) = upstream else {
            forwarded.diagnostic.more_fragments = false;
            return self.return_drep(cx, &forwarded); // 10
        };
        forwarded.hop = RsvpHop { address: own, lih: hop.lih };
        let how = self.to_neighbor(interface, own, hop.address);
        let outgoing_message = OutgoingMessage::new(how);
        self.refresh_reduction.send(
            &mut self.counters,
            cx.out,
            outgoing_message,
            &Body::Dreq(forwarded),
        ); // 9
    }

    /// Returns the previous hop of a sender; `None` if the sender is on this host, or its previous hop is unreachable.
    fn upstream_of<E>(&self, cx: &HandlerContext<'_, '_, E>, psb: Index) -> Option<Upstream> {
        let Origin::Neighbor(interface, hop) = self.store.origin(self.store.psb(psb).hop) else {
            return None;
        };
        let link = cx.context.interfaces.by_id(interface)?;
        let own = link.address_like(hop.address)?;
        let headers = if own.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        let mtu = u16::try_from(link.mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        Some(Upstream { own, hop, interface, mtu })
    }

    /// Returns the outgoing interface that a DREQ is about: at the LAST-HOP that of the data, further upstream the one
    /// that the DREQ was received through.
    fn out_of<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        dreq: &Diagnosis<'_>,
        sender: Option<Index>,
    ) -> OutgoingLink {
        if !is_fresh(dreq) {
            let through = self.interface_of_lih(cx, dreq.hop.lih);
            return through.map_or(OutgoingLink::Unknown, OutgoingLink::Through);
        }
        let Some(psb) = sender else {
            let destination = dreq.session.destination;
            return match (destination.is_multicast(), NextHops::of(cx.context, destination)) {
                (false, NextHops::Out(interface)) => OutgoingLink::Through(interface),
                (false, NextHops::Here) => OutgoingLink::Here,
                _ => OutgoingLink::Unknown,
            };
        };
        let outs = || {
            let psb = self.store.psb(psb);
            let through = psb.outgoing.as_slice().iter().copied().map(OutgoingLink::Through);
            through.chain(psb.is_here().then_some(OutgoingLink::Here))
        };
        let reserved = outs().find(|&out| self.reservation(psb, out).is_some());
        reserved.or_else(|| outs().next()).unwrap_or(OutgoingLink::Unknown)
    }
}
