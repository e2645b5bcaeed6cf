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
use crate::nslp::{HandlerContext, Received};

/// Maximum packet size if the outgoing link of the flow is unknown, octets.
const ETHERNET_MTU: u32 = 1_500;

impl QosNslp {
    /// Returns the QSPEC of a message if a TMOD in it lacks the maximum packet size, and the settings accept that.
    #[inline]
    pub(super) fn incomplete_qspec<'a>(&self, message: &Message<'a>) -> Option<&'a [u8]> {
        let qspec = match message {
            Message::Reserve(reserve) => reserve.qspec?,
            Message::Query(query) => query.qspec,
            Message::Response(response) => response.qspec?,
            Message::Notify(notify) => notify.qspec?,
        };
        (lacks_packet_size(qspec) && !self.config.strict).then_some(qspec)
    }

    /// Returns the octets of a message with a complete QSPEC: packets are as large as the outgoing link of the flow permits.
    /// `None` if the QSPEC is malformed in other ways, too.
    #[cold]
    pub(super) fn complete_qspec(
        &self,
        cx: &mut HandlerContext<'_, '_>,
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
            Message::Reserve(reserve) => {
                Message::Reserve(Reserve { qspec: Some(qspec), ..*reserve })
            }
            Message::Query(query) => Message::Query(Query { qspec, ..*query }),
            Message::Response(response) => {
                Message::Response(Response { qspec: Some(qspec), ..*response })
            }
            Message::Notify(notify) => Message::Notify(Notify { qspec: Some(qspec), ..*notify }),
        };
        let mut octets = vec![0; complete.buffer_len()];
        let length = complete.emit(&mut octets).ok()?;
        octets.truncate(length);
        if let Some(peer) = received.origin.peer {
            cx.count_tolerated(peer, Tolerated::TmodLength);
        }
        Some(octets)
    }
}
