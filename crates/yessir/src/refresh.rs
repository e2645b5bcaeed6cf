//! Refreshes: messages that repeat the last one, of a stream that is fully reserved.
//!
//! Nearly all messages are refreshes. They are recognised by a fingerprint of their octets (see [`CommonForm`]), so that
//! neither their request nor their route is worked out again. All others are processed in full, with the same result.

use core::hint::cold_path;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Datagram, Interface, Outgoing};
use earmark_wire::udp::{self, Checksum};
use earmark_wire::yessir::{CommonForm, update_link_info};

use crate::api::Event;
use crate::forward::link_info_after_hop;
use crate::instance::{HandlerContext, Hint, PROTOCOL, Yessir, stream_of};
use crate::state::{Index, NONE};

impl Yessir {
    /// Handles a message if it is a refresh; otherwise returns `false` and leaves its intermediate results in `hint`.
    #[inline]
    pub(crate) fn handle_refresh<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        usual: &CommonForm<'_>,
        hint: &mut Hint,
    ) -> bool {
        let found = self.find_refreshed_session(cx.context, datagram, packet, usual, hint);
        let Some((index, interface)) = found else {
            // Few messages take this path, but without a hint the compiler considers the code behind so many
            // conditions rare.
            cold_path();
            return false;
        };
        let session = self.store.session_mut(index);
        session.expires_at = cx.now.after_millis(session.lifetime_ms.into());
        self.counters.active += 1;
        self.counters.refreshed += 1;
        self.counters.forwarded += 1;
        mark(Checkpoint::Refresh);
        let next_hop = hint.stream.and_then(|stream| {
            cx.context.next_hop(datagram.destination, interface.id, || {
                (stream.flow(), Some(datagram.interface))
            })
        });
        let how =
            Outgoing { interface: Some(interface.id), next_hop, ..datagram.forwarded(PROTOCOL) };
        let target = cx.out.send_copy(how, packet.octets());
        if let Some(at) = usual.edit_offsets().link_info() {
            let updated_link_info =
                |info: &_| link_info_after_hop(info, datagram.ttl, cx.context, interface);
            let done = update_link_info(target, at, updated_link_info);
            debug_assert!(done.is_ok(), "its place was read of this packet");
        }
        mark(Checkpoint::Forward);
        true
    }

    /// Returns the session that a message refreshes without any other effect, and the outgoing interface.
    #[inline]
    fn find_refreshed_session<'c>(
        &self,
        context: &Context<'c>,
        datagram: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        usual: &CommonForm<'_>,
        hint: &mut Hint,
    ) -> Option<(Index, &'c Interface)> {
        hint.fingerprint = usual.fingerprint();
        if datagram.ttl <= 1 || self.auth.is_required {
            return None;
        }
        mark(Checkpoint::Parse);
        let (source, destination) = (datagram.source, datagram.destination);
        let stream = stream_of(source, destination, packet, usual.multiplexed()).ok()?;
        let stream = hint.stream.insert(stream);
        let found = self.store.look_up(stream);
        hint.found = Some(found);
        let index = found.ok()?;
        mark(Checkpoint::FindSession);
        let session = self.store.session(index);
        let same = !usual.goodbye()
            && session.fingerprint == hint.fingerprint
            && session.ssrc == usual.ssrc
            && session.arrival == datagram.interface
            && session.routes_version == self.routes_version
            && session.pool == NONE;
        let leg = self.store.legs.get(session.legs as usize).filter(|_| same)?;
        let has_all = leg.full && !leg.failed && leg.next == NONE;
        let came_by = context.interfaces.by_id(datagram.interface)?;
        let interface = context.interfaces.by_id(leg.interface)?;
        if !has_all || !came_by.takes_part() || destination.is_multicast() {
            return None;
        }
        let checksum = packet.verify(source, destination);
        matches!(checksum, Checksum::Valid | Checksum::Absent).then_some((index, interface))
    }
}
