//! Bundle messages: several messages to one neighbour in one datagram (RFC 2961 section 3).
//!
//! Bundling is a last step over the effects of one input, or of a batch of inputs that were handled one after the
//! other. The engine marks each message that may be bundled with its neighbour ([`Outgoing::neighbor`]); this module
//! combines marked messages up to the MTU of the link. A single message is not bundled, and the step can be omitted.
//!
//! - A Bundle is sent at the position of its last message, so a message only waits for messages behind it. A message
//!   that follows from a change of traffic control is therefore not sent before the change.
//! - Messages to one neighbour keep their order. A message that cannot be bundled but takes the same path closes the
//!   Bundle.
//! - All messages of a Bundle have the TTL of the Bundle. The neighbour decrements that TTL as for single messages, so
//!   messages cannot circulate forever in a routing loop.
//! - Each message has its own INTEGRITY object, if there is any (RFC 2961 section 3.4).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Effect, Effects, Neighbor, Outgoing};
use earmark_wire::rsvp::{Bundle, Message, MessageId};

/// Limit of Bundles that may still grow. With more neighbours the oldest Bundle is closed.
const MAX_OPEN: usize = 16;

/// Marks a message that is in no Bundle.
const NOT_BUNDLED: u32 = u32::MAX;

/// Builder of Bundle messages. Keep and reuse it: in steady state nothing is allocated.
#[derive(Debug, Default)]
pub struct Bundler {
    /// Index of the Bundle for each effect, by effect number.
    bundle_of_effect: Vec<u32>,
    /// Bundles of this step in the first `planned` items; the rest are buffers of earlier steps.
    bundles: Vec<Planned>,
    planned: usize,
    /// Bundles that may still grow, the oldest first.
    open: Vec<u32>,
}

/// Header fields and MTU for Bundles to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Source address: the local address on the link.
    pub source: IpAddr,
    /// Flags of the common header, 4 bits.
    pub flags: u8,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// Whether no Bundle was sent to the neighbour before.
    pub is_first: bool,
}

/// Counts of bundled messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bundled {
    /// Bundles sent.
    pub bundles: u64,
    /// Messages in these Bundles.
    pub messages: u64,
}

#[derive(Debug)]
struct Planned {
    neighbor: Neighbor,
    envelope: Envelope,
    /// Header of its messages. A message that the neighbour forwards keeps its own destination until the Bundle is
    /// written.
    how: Outgoing,
    count: u32,
    /// Number of the effect with the last message.
    last: usize,
    /// Length so far, its header included.
    length: usize,
    /// Buffer of the Bundle while it is written.
    octets: Vec<u8>,
    /// Message_Identifier of a message in it that the neighbour is to acknowledge, if this is its first Bundle.
    first_id: Option<u32>,
}

impl Bundler {
    /// Bundles the messages among the effects that are marked for a common neighbour. `envelope` returns the header of
    /// Bundles to a neighbour, or `None` if the neighbour gets no Bundles.
    pub fn bundle<E>(
        &mut self,
        out: &mut Effects<E>,
        envelope: impl Fn(Neighbor) -> Option<Envelope>,
    ) -> Bundled {
        self.bundle_of_effect.clear();
        self.open.clear();
        self.planned = 0;
        for (number, effect) in out.iter().enumerate() {
            let place = match effect {
                Effect::Send(how, range) => self.plan(number, how, range.len(), &envelope),
                _ => NOT_BUNDLED,
            };
            self.bundle_of_effect.push(place);
        }
        let worthwhile = self.bundles[..self.planned].iter().filter(|bundle| bundle.count > 1);
        let bundled = worthwhile.fold(Bundled::default(), |sum, bundle| Bundled {
            bundles: sum.bundles + 1,
            messages: sum.messages + u64::from(bundle.count),
        });
        if bundled.bundles > 0 {
            let Bundler { bundle_of_effect, bundles, .. } = self;
            out.rewrite_messages(0, |number, how, message, octets| {
                let bundle = bundles.get_mut(bundle_of_effect[number] as usize);
                let Some(bundle) = bundle.filter(|bundle| bundle.count > 1) else {
                    octets.extend_from_slice(message);
                    return true;
                };
                bundle.append(message);
                number == bundle.last && bundle.write(how, octets)
            });
        }
        bundled
    }

    /// Returns the neighbours that got their first Bundle in this step, each with the Message_Identifier of a message in it.
    pub(super) fn first_bundles(&self) -> impl Iterator<Item = (Neighbor, u32)> {
        let bundles = &self.bundles[..self.planned];
        bundles.iter().filter_map(|bundle| Some((bundle.neighbor, bundle.first_id?)))
    }

    /// Returns the Bundle for a message: the open one for its neighbour if the message fits, else a new one.
    fn plan(
        &mut self,
        number: usize,
        how: &Outgoing,
        length: usize,
        envelope: &impl Fn(Neighbor) -> Option<Envelope>,
    ) -> u32 {
        let bundles = &mut self.bundles[..self.planned];
        let Some(neighbor) = how.neighbor else {
            self.open.retain(|&open| !bundles[open as usize].is_overtaken_by(how));
            return NOT_BUNDLED;
        };
        let is_its = |&open: &u32| bundles[open as usize].neighbor == neighbor;
        if let Some(at) = self.open.iter().position(is_its) {
            let open = self.open[at];
            if bundles[open as usize].grow(number, how, length) {
                return open;
            }
            self.open.remove(at);
        }
        let Some(envelope) = envelope(neighbor) else { return NOT_BUNDLED };
        if self.open.len() == MAX_OPEN {
            self.open.remove(0);
        }
        let place = self.planned as u32; // fewer than effects
        let (how, last, length) = (*how, number, Bundle::HEADER_LEN + length);
        let mut planned = Planned {
            neighbor,
            envelope,
            how,
            count: 1,
            last,
            length,
            octets: Vec::new(),
            first_id: None,
        };
        match self.bundles.get_mut(self.planned) {
            Some(room) => {
                planned.octets = core::mem::take(&mut room.octets);
                planned.octets.clear();
                *room = planned;
            }
            None => self.bundles.push(planned),
        }
        self.planned += 1;
        self.open.push(place);
        place
    }
}

impl Planned {
    /// Reserves space for one more message; returns `false` if it does not fit.
    fn grow(&mut self, number: usize, how: &Outgoing, length: usize) -> bool {
        let fits = how.ttl == self.how.ttl && self.length + length <= self.envelope.max_length();
        if fits {
            // Messages that follow the data have an outgoing interface; for others the routes decide.
            self.how.interface = self.how.interface.or(how.interface);
            self.count += 1;
            self.last = number;
            self.length += length;
        }
        fits
    }

    /// Returns whether a single message would overtake the messages in this Bundle.
    fn is_overtaken_by(&self, how: &Outgoing) -> bool {
        let same_way = how.interface == Some(self.neighbor.interface);
        // A UDP-encapsulated message has other receivers.
        !how.encapsulated && (same_way || how.destination == self.neighbor.address)
    }

    fn append(&mut self, message: &[u8]) {
        if self.octets.is_empty() {
            self.octets.reserve(self.length);
            self.octets.resize(Bundle::HEADER_LEN, 0);
        }
        self.octets.extend_from_slice(message);
        if self.envelope.is_first && self.first_id.is_none() {
            let id = Message::parse(message).ok().and_then(|message| message.message_id);
            let id = id.filter(|id| id.flags & MessageId::ACK_DESIRED != 0);
            self.first_id = id.map(|id| id.id);
        }
    }

    /// Writes the Bundle and its header. The length was checked before, so this does not fail.
    fn write(&mut self, how: &mut Outgoing, octets: &mut Vec<u8>) -> bool {
        let Envelope { source, flags, .. } = self.envelope;
        let sealed = Bundle::seal(&mut self.octets, flags, self.how.ttl).is_ok();
        *how = Outgoing {
            source,
            destination: self.neighbor.address,
            router_alert: false,
            neighbor: None,
            next_hop: None,
            ..self.how
        };
        octets.extend_from_slice(&self.octets);
        sealed
    }
}

impl Envelope {
    /// Length of an IP header without options, octets.
    const IPV4_HEADER: usize = 20;
    const IPV6_HEADER: usize = 40;

    /// Maximum length of a Bundle, octets: limited by the MTU and by the 16-bit length field.
    fn max_length(&self) -> usize {
        let header = if self.source.is_ipv4() { Self::IPV4_HEADER } else { Self::IPV6_HEADER };
        (self.mtu as usize).min(usize::from(u16::MAX)).saturating_sub(header)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use earmark_core::admission::ClaimId;
    use earmark_core::{EndReason, InterfaceId};
    use earmark_wire::rsvp::{Body, Message};

    use super::*;

    const ETH1: InterfaceId = InterfaceId(1);
    const ETH2: InterfaceId = InterfaceId(2);

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn neighbor(last: u8) -> Neighbor {
        Neighbor { interface: ETH1, address: address(last) }
    }

    /// Header of a Path that `neighbor` forwards.
    fn past(neighbor: Option<Neighbor>) -> Outgoing {
        Outgoing {
            interface: Some(ETH1),
            router_alert: true,
            neighbor,
            ..Outgoing::new(46, address(100), address(200), 62)
        }
    }

    /// A message recognizable by its length: 8 octets plus 12 for each unit.
    fn message(out: &mut Effects<u8>, how: Outgoing, units: usize) {
        let acknowledgements = alloc::vec![
            earmark_wire::rsvp::Acknowledgement {
                kind: earmark_wire::rsvp::AcknowledgementKind::Ack,
                epoch: 1,
                id: 1,
            };
            units
        ];
        let acknowledgements = earmark_wire::rsvp::List::Items(&acknowledgements);
        let message = Message { acknowledgements, ..Message::new(how.ttl, Body::Ack) };
        let length = message.emit(out.send(how, 8 + units * 12)).expect("it fits");
        assert_eq!(length, 8 + units * 12);
    }

    fn envelope(_: Neighbor) -> Option<Envelope> {
        Some(Envelope { source: address(1), flags: 1, mtu: 500, is_first: false })
    }

    /// Sent messages: destination, and the units of the message or of each message in a Bundle.
    fn leaving(out: &Effects<u8>) -> Vec<(IpAddr, Vec<usize>)> {
        let units = |octets: &[u8]| (octets.len() - 8) / 12;
        let sent = out.iter().filter_map(|effect| match effect {
            Effect::Send(how, range) => Some((how, out.octets(range))),
            _ => None,
        });
        sent.map(|(how, octets)| {
            let message = Message::parse(octets).expect("it can be read");
            let units = match message.body {
                Body::Bundle(bundle) => {
                    assert!(octets.len() <= 480 && bundle.iter().count() > 1);
                    assert_eq!((how.source, how.interface), (address(1), Some(ETH1)));
                    assert_eq!((message.send_ttl, message.flags), (how.ttl, 1));
                    assert!(!how.router_alert);
                    bundle.iter().map(units).collect()
                }
                _ => alloc::vec![units(octets)],
            };
            (how.destination, units)
        })
        .collect()
    }

    #[test]
    fn messages_to_neighbor_are_bundled_in_order() {
        let mut out = Effects::new();
        let mut bundler = Bundler::default();
        let claim = ClaimId { slot: 1, generation: 0 };
        for _ in 0..2 {
            out.clear();
            for (last, units) in [(2, 1), (3, 2), (2, 3), (4, 4), (3, 5), (2, 6)] {
                message(&mut out, past(Some(neighbor(last))), units);
            }
            out.remove(claim);
            let bundled = bundler.bundle(&mut out, envelope);
            assert_eq!(bundled, Bundled { bundles: 2, messages: 5 });
            let expected = [
                (address(200), alloc::vec![4]),
                (address(3), alloc::vec![2, 5]),
                (address(2), alloc::vec![1, 3, 6]),
            ];
            assert_eq!(leaving(&out), expected);
            assert_eq!(out.iter().last(), Some(&Effect::Remove(claim, EndReason::Released)));
        }
    }

    #[test]
    fn single_message_is_not_bundled() {
        let mut out = Effects::<u8>::new();
        message(&mut out, past(Some(neighbor(2))), 1);
        message(&mut out, past(None), 2);
        message(&mut out, past(Some(neighbor(3))), 3);
        let before = out.clone();
        assert_eq!(Bundler::default().bundle(&mut out, envelope), Bundled::default());
        assert!(out.iter().eq(before.iter()));
        assert_eq!(leaving(&out), leaving(&before));
    }

    /// 480 octets hold a header and three messages of 152 octets; a longer message is sent separately, in order.
    #[test]
    fn bundle_is_limited_to_mtu() {
        let mut out = Effects::new();
        for units in [12, 12, 12, 12, 1, 38, 39, 40, 2, 3] {
            message(&mut out, past(Some(neighbor(2))), units);
        }
        Bundler::default().bundle(&mut out, envelope);
        let sent: Vec<_> = leaving(&out).into_iter().map(|(_, units)| units).collect();
        let expected: [&[usize]; 6] = [&[12, 12, 12], &[12, 1], &[38], &[39], &[40], &[2, 3]];
        assert_eq!(sent, expected);
    }

    /// A message with another TTL, or sent separately by the same path, keeps its position.
    #[test]
    fn unbundled_message_keeps_its_position() {
        let together = past(Some(neighbor(2)));
        let to_it = Outgoing { interface: None, destination: address(2), ..past(None) };
        let elsewhere = Outgoing { interface: Some(ETH2), ..past(None) };
        let in_udp = Outgoing { encapsulated: true, ..past(None) };
        let less = Outgoing { ttl: 61, ..together };
        for (between, stays_there) in
            [(past(None), true), (to_it, true), (less, true), (elsewhere, false), (in_udp, false)]
        {
            let mut out = Effects::new();
            for (how, units) in
                [(together, 1), (together, 2), (between, 3), (together, 4), (together, 5)]
            {
                message(&mut out, how, units);
            }
            Bundler::default().bundle(&mut out, envelope);
            let sent: Vec<_> = leaving(&out).into_iter().map(|(_, units)| units).collect();
            let apart: &[&[usize]] = &[&[1, 2], &[3], &[4, 5]];
            let joined: &[&[usize]] = &[&[3], &[1, 2, 4, 5]];
            assert_eq!(sent, if stays_there { apart } else { joined }, "{between:?}");
        }
    }

    /// A neighbour without envelope gets no Bundle, and the number of open Bundles is limited.
    #[test]
    fn bundles_need_envelope_and_are_limited() {
        let mut out = Effects::<u8>::new();
        for _ in 0..2 {
            message(&mut out, past(Some(neighbor(2))), 1);
        }
        assert_eq!(Bundler::default().bundle(&mut out, |_| None), Bundled::default());
        out.clear();
        for last in (0..=MAX_OPEN as u8).chain(0..=MAX_OPEN as u8) {
            message(&mut out, past(Some(neighbor(last))), usize::from(last) + 1);
        }
        let mut bundler = Bundler::default();
        assert_eq!(bundler.bundle(&mut out, envelope), Bundled::default(), "one too many");
        message(&mut out, past(Some(neighbor(MAX_OPEN as u8))), 1);
        assert_eq!(bundler.bundle(&mut out, envelope), Bundled { bundles: 1, messages: 2 });
    }
}
