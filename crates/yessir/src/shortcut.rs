//! The shortcut: a message that says what it said before, of a stream that has all it asks for.
//!
//! That is what nearly all messages are. It is recognised by its octets (see [`Usual`]), so that neither what it asks for
//! nor its way is worked out again. Whatever is not as usual takes the long way, which comes to the same.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, Interface, Outgoing};
use earmark_wire::udp::{self, Checksum};
use earmark_wire::yessir::{Usual, amend};

use crate::api::Event;
use crate::forward::a_hop_further;
use crate::instance::{Hint, PROTOCOL, Turn, Yessir, stream_of};
use crate::state::NONE;

impl Yessir {
    /// Treats a message that says nothing new; `false` where it is not known to be one, and what was found out so far.
    #[inline]
    pub(crate) fn refreshed<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        packet: &udp::Packet<'_>,
        usual: &Usual<'_>,
        hint: &mut Hint,
    ) -> bool {
        hint.said = usual.fingerprint();
        if datagram.ttl <= 1 || !self.config.auth.required_on.is_empty() {
            return false;
        }
        mark(Checkpoint::Parse);
        let (source, destination) = (datagram.source, datagram.destination);
        let Ok(stream) = stream_of(source, destination, packet, usual.multiplexed()) else {
            return false;
        };
        let found = self.store.look_up(&stream);
        hint.found = Some(found);
        let Ok(index) = found else { return false };
        mark(Checkpoint::FindSession);
        let session = &mut self.store.sessions[index as usize];
        let same = !usual.goodbye()
            && session.said == hint.said
            && session.ssrc == usual.ssrc
            && session.routes_version == self.routes_version
            && session.pool == NONE;
        let Some(leg) = self.store.legs.get(session.legs as usize).filter(|_| same) else {
            return false;
        };
        let interfaces = turn.context.interfaces;
        let has_all = leg.full && !leg.failed && leg.next == NONE;
        let takes_part = interfaces.by_id(datagram.interface).is_some_and(Interface::takes_part);
        let Some(interface) = interfaces.by_id(leg.interface).filter(|_| has_all && takes_part)
        else {
            return false;
        };
        let checksum = packet.verify(source, destination);
        if destination.is_multicast() || !matches!(checksum, Checksum::Right | Checksum::Absent) {
            return false;
        }
        session.expires_at = turn.now.after_millis(session.lifetime_ms.into());
        self.counters.active += 1;
        self.counters.refreshed += 1;
        self.counters.forwarded += 1;
        mark(Checkpoint::Refresh);
        let how = Outgoing {
            protocol: PROTOCOL,
            interface: Some(interface.id),
            source,
            destination,
            ttl: datagram.ttl - 1,
            router_alert: datagram.router_alert,
            encapsulated: false,
            neighbor: None,
        };
        let target = turn.out.send_copy(how, packet.octets());
        if let Some(info) = usual.link_info() {
            let info = a_hop_further(&info, datagram.ttl, turn.context, interface);
            let done = amend(target, usual.places(), &info);
            debug_assert!(done.is_ok(), "its place was read of this packet");
        }
        mark(Checkpoint::Forward);
        true
    }
}
