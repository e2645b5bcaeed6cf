//! DREPs on their way back: along the recorded ROUTE to the LAST-HOP and from there to the requester, or to the
//! requester directly (RFC 2745 section 4.2).

use alloc::vec;
use core::net::IpAddr;

use earmark_core::Outgoing;
use earmark_wire::rsvp::encapsulation::FROM_OTHERS;
use earmark_wire::rsvp::{Body, Diagnosis, Message, MessageType, Route, RsvpHop, SourceSelector};
use earmark_wire::udp;

use super::receive::own_address_towards;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::{NEIGHBOR_TTL, Rsvp};
use crate::neighbors::address::is_neighbor;
use crate::neighbors::outgoing::to_neighbor;
use crate::neighbors::refresh_reduction::OutgoingMessage;

/// IP protocol number of UDP.
const UDP: u8 = 17;

impl Rsvp {
    /// Sends a DREP, or a fragment of one, from this node towards the requester. Its ROUTE, if any, ends with the node
    /// before this one.
    pub(super) fn return_drep<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        drep: &Diagnosis<'_>,
    ) {
        let last = drep.route.and_then(|route| route.nodes.iter().last());
        // Without a route back, or to the node that the DREQ names, the DREP is lost (section 4.4).
        let _ = match (drep.route, last) {
            (Some(route), Some(target)) if is_neighbor(cx.context, target) => {
                let pointer = u8::try_from(route.nodes.len() - 1).unwrap_or(u8::MAX);
                let route = Some(Route { pointer, ..route });
                self.send_drep(cx, &Diagnosis { route, ..*drep }, target)
            }
            _ => self.deliver_to_requester(cx, drep),
        };
    }

    /// Forwards a DREP of another node by one hop.
    pub(super) fn forward_drep<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        drep: &Diagnosis<'_>,
    ) -> Result<(), DropReason> {
        let diagnostic = &drep.diagnostic;
        let is_local = |address: IpAddr| cx.context.interfaces.is_local(address);
        let (last_hop, requester) =
            (is_local(diagnostic.last_hop), is_local(diagnostic.requester.source));
        match drep.route {
            Some(route) if !last_hop && !requester && route.pointer > 0 => {
                let pointer = route.pointer - 1;
                let target = route.nodes.iter().nth(usize::from(pointer));
                let target = target.ok_or(DropReason::Malformed)?;
                if !is_neighbor(cx.context, target) {
                    return Err(DropReason::BadHop);
                }
                let route = Some(Route { pointer, ..route });
                self.send_drep(cx, &Diagnosis { route, ..*drep }, target)
            }
            None if !last_hop && !requester => Err(DropReason::NotForUs),
            _ => self.deliver_to_requester(cx, drep),
        }
    }

    fn send_drep<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        drep: &Diagnosis<'_>,
        target: IpAddr,
    ) -> Result<(), DropReason> {
        let own = own_address_towards(cx.context, target).ok_or(DropReason::NoRoute)?;
        // The receiver takes this address for the sending system (RFC 2747 section 4).
        let hop = RsvpHop { address: own, ..drep.hop };
        let drep = Body::Drep(Diagnosis { hop, ..*drep });
        let outgoing_message = OutgoingMessage::new(to_neighbor(own, target));
        self.refresh_reduction.send(&mut self.counters, cx.out, outgoing_message, &drep);
        Ok(())
    }

    /// Delivers a DREP to the requester: to this node itself; as an RSVP message to an RSVP node; else inside UDP (RFC
    /// 2745 section 6).
    fn deliver_to_requester<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        drep: &Diagnosis<'_>,
    ) -> Result<(), DropReason> {
        let requester = drep.diagnostic.requester;
        let own = own_address_towards(cx.context, requester.source).ok_or(DropReason::NoRoute)?;
        match requester.selector {
            SourceSelector::Port(0)
            | SourceSelector::FlowLabel(_)
            | SourceSelector::Spi(_)
            | SourceSelector::Aggregator => {
                if cx.context.interfaces.is_local(requester.source) {
                    return self.receive_trace_drep(cx, drep);
                }
                self.send_drep(cx, drep, requester.source)
            }
            SourceSelector::Port(port) => {
                self.send_inside_udp(cx, drep, own, port);
                Ok(())
            }
        }
    }

    fn send_inside_udp<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        drep: &Diagnosis<'_>,
        source: IpAddr,
        port: u16,
    ) {
        let destination = drep.diagnostic.requester.source;
        let message = Message::new(NEIGHBOR_TTL, Body::Drep(*drep));
        let mut packet = vec![0; udp::HEADER + message.buffer_len()];
        let repr =
            udp::Repr { source, destination, source_port: FROM_OTHERS, destination_port: port };
        if message.emit(&mut packet[udp::HEADER..]).is_err() || repr.emit(&mut packet).is_err() {
            return; // longer than a datagram
        }
        if let Some(integrity) = &mut self.integrity {
            // A node that is not a neighbour could not verify INTEGRITY, and the digest would have to cover UDP.
            integrity.skip_signing(cx.out.len());
        }
        self.counters.send(MessageType::Drep);
        let how = Outgoing { protocol: UDP, ..to_neighbor(source, destination) };
        cx.out.send(how, packet.len()).copy_from_slice(&packet);
    }
}
