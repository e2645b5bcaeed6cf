//! Messages whose QSPEC has a TMOD without the maximum packet size (see [`Tolerated::TmodLength`]). The node completes the
//! QSPEC before anything else reads it, so that it sends complete ones only.

use alloc::vec;
use alloc::vec::Vec;

use earmark_wire::gist::Mri;
use earmark_wire::qos_nslp::{Message, Notify, Query, Reserve, Response};
use earmark_wire::qspec::{completed_len, emit_with_packet_size, lacks_packet_size};

use super::QosNslp;
use super::flow::outgoing_interface;
use crate::Tolerated;
use crate::nslp::{HandlerContext, Nslp, Received};

/// Maximum packet size if the outgoing link of the flow is unknown, octets.
const ETHERNET_MTU: u32 = 1_500;

impl QosNslp {
    /// Handles a message whose QSPEC lacks the maximum packet size in a TMOD, if the settings accept that; returns whether it
    /// is such a message.
    #[inline]
    pub(super) fn completes(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &Received<'_>,
        message: &Message<'_>,
        qspec: Option<&[u8]>,
    ) -> bool {
        qspec.is_some_and(|qspec| {
            lacks_packet_size(qspec)
                && !self.config.strict
                && self.receive_incomplete(cx, received, message, qspec)
        })
    }

    /// Handles a message with a complete QSPEC in place of its own: packets are as large as the outgoing link of the flow
    /// permits. Returns `false` if the QSPEC is malformed in other ways, too.
    #[cold]
    #[inline(never)]
    fn receive_incomplete(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &Received<'_>,
        message: &Message<'_>,
        qspec: &[u8],
    ) -> bool {
        let Some(data) = complete(cx, received, message, qspec) else { return false };
        if let Some(peer) = received.origin.peer {
            cx.count_tolerated(peer, Tolerated::TmodLength);
        }
        self.receive(cx, &Received { data: &data, ..*received });
        true
    }
}

/// Returns the octets of a message with a complete QSPEC.
fn complete(
    cx: &HandlerContext<'_, '_>,
    received: &Received<'_>,
    message: &Message<'_>,
    qspec: &[u8],
) -> Option<Vec<u8>> {
    let link = match &received.mri {
        Mri::PathCoupled(mri) => outgoing_interface(cx, mri).ok().flatten(),
        Mri::LooseEnd(_) => None,
    };
    let link = link.and_then(|link| cx.context.interfaces.by_id(link));
    let size = link.map_or(ETHERNET_MTU, |link| link.mtu);
    let mut room = vec![0; completed_len(qspec.len())];
    let length = emit_with_packet_size(qspec, size, &mut room).ok()?;
    let qspec = room.get(..length)?;
    let complete = match message {
        Message::Reserve(reserve) => Message::Reserve(Reserve { qspec: Some(qspec), ..*reserve }),
        Message::Query(query) => Message::Query(Query { qspec, ..*query }),
        Message::Response(response) => {
            Message::Response(Response { qspec: Some(qspec), ..*response })
        }
        Message::Notify(notify) => Message::Notify(Notify { qspec: Some(qspec), ..*notify }),
    };
    let mut octets = vec![0; complete.buffer_len()];
    let length = complete.emit(&mut octets).ok()?;
    octets.truncate(length);
    Some(octets)
}
