//! The catalogue of attacks: what an attacker on a customer's port sends who has seen all signalling of a reservation.
//!
//! [`common`] has the attacks that are the same for all protocols, and
//! [`ScenarioProtocol::forgeries`](crate::ScenarioProtocol::forgeries) those of one protocol.

mod packet;

use std::net::IpAddr;

use earmark_core::random::{RandomStreams, Stream};

pub use self::packet::Packet;

/// What the attacker can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// Sends with its own address.
    OwnAddress,
    /// Writes any address into its packets.
    AnyAddress,
}

impl Power {
    /// Returns a description for tables.
    pub const fn describe(self) -> &'static str {
        match self {
            Power::OwnAddress => "own address",
            Power::AnyAddress => "any address",
        }
    }
}

/// An attack: packets that are sent from a customer's port.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The name, in the words of the protocol.
    pub name: String,
    /// What the attacker needs to be able to do.
    pub power: Power,
    /// The packets of one round; rounds are repeated.
    pub packets: Vec<Packet>,
}

impl Attack {
    /// Creates an attack.
    pub fn new(name: &str, power: Power, packets: Vec<Packet>) -> Attack {
        Attack { name: name.to_owned(), power, packets }
    }
}

/// Number of packets of an attack with random changes.
const RANDOM_PACKETS: usize = 400;

/// Returns the attacks that need no knowledge of the protocol. `seen` is not empty.
pub fn common(seen: &[Packet], attacker: IpAddr, seed: u64) -> Vec<Attack> {
    let mut random = RandomStreams::new(seed).stream("attack");
    let own = |packet: &Packet| {
        let mut packet = Packet { source: attacker, ..packet.clone() };
        packet.seal();
        packet
    };
    let mut sample = |change: fn(&mut Packet, &mut Stream)| -> Vec<Packet> {
        let mut change_one = || {
            let mut packet = seen[pick(&mut random, seen.len())].clone();
            change(&mut packet, &mut random);
            packet.seal();
            packet
        };
        (0..RANDOM_PACKETS).map(|_| change_one()).collect()
    };
    vec![
        Attack::new("all messages replayed", Power::AnyAddress, seen.to_vec()),
        Attack::new("all messages replayed", Power::OwnAddress, seen.iter().map(own).collect()),
        Attack::new("messages with random changes", Power::AnyAddress, sample(mutate)),
        Attack::new("truncated messages", Power::AnyAddress, sample(truncate)),
    ]
}

fn pick(random: &mut Stream, count: usize) -> usize {
    (random.next_u64() % count.max(1) as u64) as usize
}

/// Changes one to four octets.
fn mutate(packet: &mut Packet, random: &mut Stream) {
    for _ in 0..=pick(random, 4) {
        let place = pick(random, packet.payload.len());
        if let Some(octet) = packet.payload.get_mut(place) {
            *octet = random.next_u64() as u8;
        }
    }
}

/// Removes the end.
fn truncate(packet: &mut Packet, random: &mut Stream) {
    let length = pick(random, packet.payload.len());
    packet.payload.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed gives the same packets each time, and no attack is empty or equal to what was seen.
    #[test]
    fn attacks_are_repeatable_and_change_something() {
        let seen = vec![Packet {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 9, 9].into(),
            protocol: 46,
            ttl: 63,
            router_alert: Some(0),
            payload: (0..64).collect(),
        }];
        let attacks = common(&seen, [10, 0, 3, 2].into(), 7);
        let again = common(&seen, [10, 0, 3, 2].into(), 7);
        assert_eq!(attacks.len(), 4);
        for (attack, again) in attacks.iter().zip(&again) {
            assert!(!attack.packets.is_empty(), "{}", attack.name);
            assert_eq!(attack.packets, again.packets, "{}", attack.name);
        }
        assert!(attacks[1..].iter().all(|attack| attack.packets.iter().any(|p| *p != seen[0])));
    }
}
