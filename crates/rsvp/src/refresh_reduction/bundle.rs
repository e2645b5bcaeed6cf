//! A Bundle in the making: several messages to one neighbour that leave in one datagram (RFC 2961 section 3).
//!
//! It is a last step over the effects of one input, or of a batch of inputs that were treated one after the other. Which
//! messages may travel together, and to whom, the engine has said with each ([`Outgoing::neighbor`]); here they are
//! brought together as far as a packet of the link holds them. What finds no company leaves as it is, so the step can be
//! left out.
//!
//! - A message only ever waits for those behind it: its Bundle leaves in the place of its last one. So what follows from a
//!   change of traffic control is not sent before it.
//! - Messages to a neighbour keep their order. One that has to go by itself the same way closes the Bundle.
//! - All messages of a Bundle have its TTL. The neighbour counts on from there, just as if each had come alone, so none
//!   goes round for ever where routes do.
//! - Each message has its own INTEGRITY already, where there is any (RFC 2961 section 3.4).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Effect, Effects, Neighbor, Outgoing};
use earmark_wire::rsvp::Bundle;

/// Bundles that may still grow, at most; where there are more neighbours, the oldest one leaves as it is.
const MOST_OPEN: usize = 16;

/// Stands for "in no Bundle".
const ALONE: u32 = u32::MAX;

/// Makes Bundles. Keep and reuse it: in steady state nothing is allocated.
#[derive(Debug, Default)]
pub struct Bundler {
    /// By number of effect, the Bundle that it shall be part of.
    places: Vec<u32>,
    /// Those of this step are the first `planned`; behind them is room of earlier steps.
    bundles: Vec<Planned>,
    planned: usize,
    /// Those that may still grow, the oldest first.
    open: Vec<u32>,
}

/// How Bundles to a neighbour leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Our own address there.
    pub source: IpAddr,
    /// Flags of the common header, 4 bits.
    pub flags: u8,
    /// Largest IP packet, octets.
    pub mtu: u32,
}

/// What was brought together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bundled {
    /// Bundles.
    pub bundles: u64,
    /// Messages in them.
    pub messages: u64,
}

#[derive(Debug)]
struct Planned {
    neighbor: Neighbor,
    envelope: Envelope,
    /// As its messages would have left; the destination of one that passes the neighbour is still its own.
    how: Outgoing,
    count: u32,
    /// Number of the effect that is its last message.
    last: usize,
    /// Length so far, its header included.
    length: usize,
    /// The Bundle, while it is written.
    octets: Vec<u8>,
}

impl Bundler {
    /// Brings together the messages among effects that may travel together. `envelope` says how Bundles to a neighbour
    /// leave; where it has no answer there are none.
    pub fn bundle<E>(
        &mut self,
        out: &mut Effects<E>,
        envelope: impl Fn(Neighbor) -> Option<Envelope>,
    ) -> Bundled {
        self.places.clear();
        self.open.clear();
        self.planned = 0;
        for (number, effect) in out.iter().enumerate() {
            let place = match effect {
                Effect::Send(how, range) => self.plan(number, how, range.len(), &envelope),
                _ => ALONE,
            };
            self.places.push(place);
        }
        let worthwhile = self.bundles[..self.planned].iter().filter(|bundle| bundle.count > 1);
        let bundled = worthwhile.fold(Bundled::default(), |sum, bundle| Bundled {
            bundles: sum.bundles + 1,
            messages: sum.messages + u64::from(bundle.count),
        });
        if bundled.bundles > 0 {
            let Bundler { places, bundles, .. } = self;
            out.rewrite_messages(0, |number, how, message, octets| {
                let bundle = bundles.get_mut(places[number] as usize);
                let Some(bundle) = bundle.filter(|bundle| bundle.count > 1) else {
                    octets.extend_from_slice(message);
                    return true;
                };
                bundle.take(message);
                number == bundle.last && bundle.leave(how, octets)
            });
        }
        bundled
    }

    /// The Bundle that a message goes into: the one that is open for its neighbour, if it fits, or else a new one.
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
            return ALONE;
        };
        let is_its = |&open: &u32| bundles[open as usize].neighbor == neighbor;
        if let Some(at) = self.open.iter().position(is_its) {
            let open = self.open[at];
            if bundles[open as usize].grow(number, how, length) {
                return open;
            }
            self.open.remove(at);
        }
        let Some(envelope) = envelope(neighbor) else { return ALONE };
        if self.open.len() == MOST_OPEN {
            self.open.remove(0);
        }
        let place = self.planned as u32; // there are fewer than effects
        let (how, last, length) = (*how, number, Bundle::HEADER_LEN + length);
        let mut planned =
            Planned { neighbor, envelope, how, count: 1, last, length, octets: Vec::new() };
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
    /// Makes room for one more message; `false` where it does not fit.
    fn grow(&mut self, number: usize, how: &Outgoing, length: usize) -> bool {
        let fits = how.ttl == self.how.ttl && self.length + length <= self.envelope.longest();
        if fits {
            // A message that follows the data knows through which interface; for others the routes decide.
            self.how.interface = self.how.interface.or(how.interface);
            self.count += 1;
            self.last = number;
            self.length += length;
        }
        fits
    }

    /// Whether a message that goes by itself would overtake what is waiting here.
    fn is_overtaken_by(&self, how: &Outgoing) -> bool {
        let same_way = how.interface == Some(self.neighbor.interface);
        // Who listens to UDP is somebody else.
        !how.encapsulated && (same_way || how.destination == self.neighbor.address)
    }

    fn take(&mut self, message: &[u8]) {
        if self.octets.is_empty() {
            self.octets.reserve(self.length);
            self.octets.resize(Bundle::HEADER_LEN, 0);
        }
        self.octets.extend_from_slice(message);
    }

    /// Writes the whole Bundle, and how it leaves. It is never too long, so it always does.
    fn leave(&mut self, how: &mut Outgoing, octets: &mut Vec<u8>) -> bool {
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

    /// The longest Bundle, octets: one packet of the link, and no longer than its own length field can say.
    fn longest(&self) -> usize {
        let header = if self.source.is_ipv4() { Self::IPV4_HEADER } else { Self::IPV6_HEADER };
        (self.mtu as usize).min(usize::from(u16::MAX)).saturating_sub(header)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use earmark_core::InterfaceId;
    use earmark_core::admission::ClaimId;
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

    /// How a Path leaves that `neighbor` takes up.
    fn past(neighbor: Option<Neighbor>) -> Outgoing {
        Outgoing {
            protocol: 46,
            interface: Some(ETH1),
            source: address(100),
            destination: address(200),
            ttl: 62,
            router_alert: true,
            encapsulated: false,
            neighbor,
            next_hop: None,
        }
    }

    /// A message that can be told from others by its length, 8 octets and 12 for each unit.
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
        Some(Envelope { source: address(1), flags: 1, mtu: 500 })
    }

    /// What leaves: to whom, and the units of its message, or of each message of a Bundle.
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
    fn messages_to_a_neighbor_are_brought_together_in_their_order() {
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
            assert_eq!(out.iter().last(), Some(&Effect::Remove(claim)));
        }
    }

    #[test]
    fn who_is_alone_leaves_as_it_is() {
        let mut out = Effects::<u8>::new();
        message(&mut out, past(Some(neighbor(2))), 1);
        message(&mut out, past(None), 2);
        message(&mut out, past(Some(neighbor(3))), 3);
        let before = out.clone();
        assert_eq!(Bundler::default().bundle(&mut out, envelope), Bundled::default());
        assert!(out.iter().eq(before.iter()));
        assert_eq!(leaving(&out), leaving(&before));
    }

    /// 480 octets hold a header and three messages of 152 octets; a longer one has to go by itself, in its order.
    #[test]
    fn a_bundle_is_no_longer_than_a_packet() {
        let mut out = Effects::new();
        for units in [12, 12, 12, 12, 1, 38, 39, 40, 2, 3] {
            message(&mut out, past(Some(neighbor(2))), units);
        }
        Bundler::default().bundle(&mut out, envelope);
        let sent: Vec<_> = leaving(&out).into_iter().map(|(_, units)| units).collect();
        let expected: [&[usize]; 6] = [&[12, 12, 12], &[12, 1], &[38], &[39], &[40], &[2, 3]];
        assert_eq!(sent, expected);
    }

    /// What has another TTL, or goes the same way by itself, stays between those before and behind it.
    #[test]
    fn nobody_overtakes() {
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

    /// Where nobody understands a Bundle any more, none is made; and many neighbours cost no more than a few.
    #[test]
    fn bundles_need_an_envelope_and_are_few_at_a_time() {
        let mut out = Effects::<u8>::new();
        for _ in 0..2 {
            message(&mut out, past(Some(neighbor(2))), 1);
        }
        assert_eq!(Bundler::default().bundle(&mut out, |_| None), Bundled::default());
        out.clear();
        for last in (0..=MOST_OPEN as u8).chain(0..=MOST_OPEN as u8) {
            message(&mut out, past(Some(neighbor(last))), usize::from(last) + 1);
        }
        let mut bundler = Bundler::default();
        assert_eq!(bundler.bundle(&mut out, envelope), Bundled::default(), "one too many");
        message(&mut out, past(Some(neighbor(MOST_OPEN as u8))), 1);
        assert_eq!(bundler.bundle(&mut out, envelope), Bundled { bundles: 1, messages: 2 });
    }
}
