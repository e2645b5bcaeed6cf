//! Forged messages of Boomerang.

use std::net::IpAddr;

use earmark_wire::boomerang::{Flags, Qos, Rates, Reservation, iana};
use earmark_wire::icmp::{HEADER, Kind, PseudoHeader};

use crate::attack::{Attack, Packet, Power};

/// A message that was seen, with its initiating node and far end.
struct Seen<'a> {
    packet: &'a Packet,
    message: Reservation<'a>,
    initiator: IpAddr,
    far_end: IpAddr,
}

impl Seen<'_> {
    /// Returns the message with changes, of an ICMP type and between these addresses.
    fn forged(
        &self,
        kind: Kind,
        [source, destination]: [IpAddr; 2],
        change: fn(&mut Reservation<'_>),
    ) -> Option<Packet> {
        let mut message = self.message;
        change(&mut message);
        let mut payload = self.packet.payload[..HEADER].to_vec();
        payload[0] = PseudoHeader::of(source, destination)?.code(kind);
        payload.resize(HEADER + message.buffer_len(), 0);
        message.emit(&mut payload[HEADER..]).ok()?;
        let mut packet = Packet { source, destination, payload, ..self.packet.clone() };
        packet.seal();
        Some(packet)
    }
}

/// Returns forged messages by an attacker who has seen the messages of a reservation.
pub(super) fn forgeries(seen: &[Packet], attacker: IpAddr) -> Vec<Attack> {
    let seen: Vec<Seen<'_>> = seen.iter().filter_map(read).collect();
    let all = |forge: &dyn Fn(&Seen<'_>) -> Option<Packet>| seen.iter().filter_map(forge).collect();
    let reply_of = |change: fn(&mut Reservation<'_>), is_own: bool| -> Vec<Packet> {
        all(&|seen| {
            let source = if is_own { attacker } else { seen.far_end };
            seen.forged(Kind::Reply, [source, seen.initiator], change)
        })
    };
    let request_of = |change: fn(&mut Reservation<'_>), is_own: bool| -> Vec<Packet> {
        all(&|seen| {
            let source = if is_own { attacker } else { seen.initiator };
            seen.forged(Kind::Request, [source, seen.far_end], change)
        })
    };
    let (any, own) = (Power::AnyAddress, Power::OwnAddress);
    let attacks = vec![
        Attack::new("echo reply that releases", own, reply_of(release, true)),
        Attack::new("echo reply that releases", any, reply_of(release, false)),
        Attack::new("echo reply with a lower rate", own, reply_of(lower, true)),
        Attack::new("echo reply with a lower rate", any, reply_of(lower, false)),
        Attack::new("echo reply that refuses", own, reply_of(refuse, true)),
        Attack::new("echo reply that refuses", any, reply_of(refuse, false)),
        Attack::new("echo that releases", own, request_of(release, true)),
        Attack::new("echo that releases", any, request_of(release, false)),
        Attack::new("echo with a lower rate", any, request_of(lower, false)),
    ];
    attacks.into_iter().filter(|attack| !attack.packets.is_empty()).collect()
}

fn read(packet: &Packet) -> Option<Seen<'_>> {
    let header = PseudoHeader::of(packet.source, packet.destination)?;
    let data = packet.payload.get(HEADER..).filter(|_| packet.protocol == header.protocol())?;
    let message = Reservation::parse(data).ok()?;
    let (initiator, far_end) = match packet.payload[0] == header.code(Kind::Request) {
        true => (packet.source, packet.destination),
        false => (packet.destination, packet.source),
    };
    Some(Seen { packet, message, initiator, far_end })
}

fn release(message: &mut Reservation<'_>) {
    message.qos = Qos::Bitrate(Rates::ZERO);
}

fn lower(message: &mut Reservation<'_>) {
    if let Qos::Bitrate(rates) = &mut message.qos {
        rates.forward /= 10;
    }
}

fn refuse(message: &mut Reservation<'_>) {
    message.flags = Flags(message.flags.0 | iana::flag::NACK);
}
