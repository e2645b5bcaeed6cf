//! Faults of a link, which affect signalling.
//!
//! Data is exempt, because its losses measure the reservations. Each direction of each link has a random stream of its
//! own, so that more faults on one link change nothing elsewhere except by the lost messages.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::random::Stream;

use crate::distributions::happens;
use crate::packet::{Body, Packet};

/// Faults of the signalling messages on a link. The default is a link without faults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of the messages that are lost, 0 to 1, each independently of the others.
    pub loss: f64,
    /// Share of the messages that are duplicated, 0 to 1.
    pub duplication: f64,
    /// Share of the messages in which one bit is flipped, 0 to 1. At most once per message, however many links it
    /// crosses unread: the checksums of the protocols detect any one such bit, but not any two.
    pub corruption: f64,
    /// Largest additional delay; each copy has its own, uniformly distributed, so that messages overtake one another.
    pub jitter: Duration,
}

impl Faults {
    /// Whether the faults can affect a packet.
    pub(crate) fn affects(&self, packet: &Packet) -> bool {
        matches!(packet.body, Body::Signalling(_)) && *self != Faults::default()
    }

    /// Returns the copies of a packet that arrive, each with its additional delay.
    pub(crate) fn apply(&self, random: &mut Stream, packet: &Packet) -> Vec<(Duration, Packet)> {
        let copies = match (happens(random, self.loss), happens(random, self.duplication)) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        (0..copies)
            .map(|_| {
                let mut copy = packet.clone();
                if happens(random, self.corruption) && !copy.damaged {
                    flip_bit(random, &mut copy);
                }
                (random.uniform(Duration::ZERO, self.jitter), copy)
            })
            .collect()
    }
}

fn flip_bit(random: &mut Stream, packet: &mut Packet) {
    let Body::Signalling(octets) = &mut packet.body else {
        return;
    };
    let drawn = random.next_u64();
    let place = usize::try_from(drawn >> 3).unwrap_or(usize::MAX).checked_rem(octets.len());
    if let Some(octet) = place.and_then(|place| octets.get_mut(place)) {
        *octet ^= 1 << (drawn & 7);
        packet.damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use earmark_core::random::RandomStreams;

    use super::*;
    use crate::packet::UDP;

    fn message() -> Packet {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Packet {
            source: address,
            destination: address,
            protocol: UDP,
            dscp: 0,
            ttl: 1,
            router_alert: false,
            from_daemon: true,
            length: 120,
            damaged: false,
            body: Body::Signalling(Vec::from([0; 100])),
        }
    }

    /// Of 10 000 messages, by a quarter, a tenth and a fifth; standard deviations are 43, 26 and 37.
    #[test]
    fn fault_rates_equal_the_settings() {
        let faults = Faults {
            loss: 0.25,
            duplication: 0.1,
            corruption: 0.2,
            jitter: Duration::from_millis(5),
        };
        let mut random = RandomStreams::new(1).stream("faults");
        let arrived: Vec<_> = (0..10_000).map(|_| faults.apply(&mut random, &message())).collect();
        let lost = arrived.iter().filter(|copies| copies.is_empty()).count();
        let twice = arrived.iter().filter(|copies| copies.len() == 2).count();
        assert!((2_300..2_700).contains(&lost), "{lost}");
        assert!((600..900).contains(&twice), "a tenth of those that arrive: {twice}");
        let copies: Vec<_> = arrived.iter().flatten().collect();
        let bits = |packet: &Packet| match &packet.body {
            Body::Signalling(octets) => octets.iter().map(|octet| octet.count_ones()).sum(),
            Body::Data { .. } => 0,
        };
        let damaged = copies.iter().filter(|(_, packet)| bits(packet) == 1).count();
        assert_eq!(copies.iter().filter(|(_, packet)| packet.damaged).count(), damaged);
        let again = copies.iter().flat_map(|(_, packet)| faults.apply(&mut random, packet));
        assert!(again.into_iter().all(|(_, packet)| bits(&packet) <= 1), "once at most");
        assert!(copies.iter().all(|(_, packet)| bits(packet) <= 1), "one bit at most");
        let share = damaged as f64 / copies.len() as f64;
        assert!((0.18..0.22).contains(&share), "{share}");
        assert!(copies.iter().all(|(delay, _)| *delay <= faults.jitter));
        assert!(copies.iter().any(|(delay, _)| *delay > faults.jitter / 2));
    }

    #[test]
    fn data_and_links_without_faults_are_unaffected() {
        let all = Faults { loss: 1.0, ..Faults::default() };
        let mut random = RandomStreams::new(1).stream("faults");
        assert!(all.affects(&message()));
        assert!(all.apply(&mut random, &message()).is_empty());
        let body = Body::Data { source_port: 1, destination_port: 1, stream: 0, sequence: 0 };
        assert!(!all.affects(&Packet { body, ..message() }));
        assert!(!Faults::default().affects(&message()));
    }
}
