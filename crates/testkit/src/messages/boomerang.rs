//! Boomerang: any message.

use std::net::IpAddr;

use earmark_wire::boomerang::*;
use earmark_wire::udp;
use proptest::prelude::*;

use super::packets::{DESTINATION, SOURCE};

/// Any valid message of one family, as owned parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Transaction id, flags, refresh interval and key.
    pub head: (u32, u16, u8, u64),
    /// Classifier.
    pub classifier: Keys,
    /// Mask.
    pub mask: Shape,
    /// Policy of a list of downgrades; a bitrate message if absent.
    pub list: Option<u16>,
    /// The list, or first the bitrates.
    pub rates: Vec<Rates>,
    /// Options: kind, octets, a word, and the rest of an unknown one.
    pub options: Vec<(u8, [u8; 16], u32, Vec<u8>)>,
}

fn address(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::V4 => any::<std::net::Ipv4Addr>().prop_map(IpAddr::from).boxed(),
        Family::V6 => any::<std::net::Ipv6Addr>().prop_map(IpAddr::from).boxed(),
    }
}

fn any_keys(family: Family) -> impl Strategy<Value = Keys> {
    let numbers = (any::<[u16; 3]>(), any::<[u8; 2]>());
    (address(family), address(family), numbers).prop_map(
        |(source, destination, ([source_port, destination_port, flags], [protocol, tos]))| Keys {
            source,
            destination,
            source_port,
            destination_port,
            protocol,
            tos,
            flags,
        },
    )
}

fn any_shape(family: Family) -> impl Strategy<Value = Shape> {
    let bits = 8 * family.address_len() as u8;
    (0..=bits, 0..=bits, any::<[bool; 4]>()).prop_map(
        |(source, destination, [protocol, source_port, destination_port, tos])| Shape {
            source,
            destination,
            source_port: source_port && protocol,
            destination_port: destination_port && protocol,
            protocol,
            tos,
        },
    )
}

/// Generates messages of both families.
pub fn parts() -> impl Strategy<Value = Parts> {
    prop_oneof![Just(Family::V4), Just(Family::V6)].prop_flat_map(|family| {
        let pair = any::<(u32, u32)>().prop_map(|(forward, reverse)| Rates { forward, reverse });
        let rest = proptest::collection::vec(any::<u8>(), 0..9);
        let option = (0..5_u8, any::<[u8; 16]>(), any::<u32>(), rest);
        (
            any::<(u32, u16, u8, u64)>(),
            any_keys(family),
            any_shape(family),
            any::<Option<u16>>(),
            proptest::collection::vec(pair, 1..20),
            proptest::collection::vec(option, 0..4),
        )
            .prop_map(|(head, classifier, mask, list, rates, options)| Parts {
                head,
                classifier,
                mask,
                list,
                rates,
                options,
            })
    })
}

impl Parts {
    /// Returns the options.
    pub fn options(&self) -> Vec<OptionItem<'_>> {
        let last = self.options.len().saturating_sub(1);
        let numbered = self.options.iter().enumerate();
        let items = numbered.filter_map(|(number, (kind, octets, word, rest))| {
            let (user, credential) = octets.split_at(8);
            let flags = OptionFlags(*word as u16);
            Some(match kind {
                0 => OptionItem::UserId(UserId {
                    flags,
                    user: user.try_into().expect("eight"),
                    credential: credential.try_into().expect("eight"),
                }),
                1 => OptionItem::Aggregation(Aggregation {
                    flags,
                    node: self.classifier.source,
                    transaction_id: *word,
                    classifier: self.classifier,
                    mask: Keys { flags: 7, ..self.classifier },
                    rate: word.rotate_left(7),
                }),
                2 => OptionItem::Participation(Participation {
                    flags,
                    forward: PassCount { nodes: octets[0], gaps: octets[1] },
                    reverse: PassCount { nodes: octets[2], gaps: octets[3] },
                    ..Participation::new(self.classifier.source, octets[4])
                }),
                3 => OptionItem::Token(octets),
                _ if number == last => OptionItem::Unknown { code: 5 + *word as u16 % 100, rest },
                _ => return None,
            })
        });
        items.collect()
    }

    /// Returns the message with these options.
    pub fn message<'a>(&'a self, options: &'a [OptionItem<'a>]) -> Reservation<'a> {
        let (transaction_id, flags, refresh_interval, key) = self.head;
        Reservation {
            transaction_id,
            flags: Flags(flags),
            refresh_interval,
            key,
            classifier: self.classifier,
            mask: self.mask,
            qos: match self.list {
                None => Qos::Bitrate(self.rates[0]),
                Some(policy) => Qos::Downgrade { policy, vector: Vector::Items(&self.rates) },
            },
            options: Options::Items(options),
        }
    }
}

/// Returns a Boomerang message, from MAGIC on: a list of downgrades, and a user id.
///
/// # Panics
/// Never: the message is complete.
pub fn valid(family: Family) -> Vec<u8> {
    let (source, destination): (IpAddr, IpAddr) = match family {
        Family::V4 => (SOURCE.into(), DESTINATION.into()),
        Family::V6 => ([1; 16].into(), [2; 16].into()),
    };
    let classifier = Keys {
        source,
        destination,
        source_port: 1,
        destination_port: 2,
        protocol: udp::PROTOCOL,
        tos: 0,
        flags: 0,
    };
    let user = UserId { flags: OptionFlags(0), user: *b"somebody", credential: [7; 8] };
    let vector = [Rates { forward: 3, reverse: 2 }; 2];
    let message = Reservation {
        transaction_id: 1,
        flags: Flags(0),
        refresh_interval: 30,
        key: 1,
        classifier,
        mask: Shape::exact(family),
        qos: Qos::Downgrade { policy: 1, vector: Vector::Items(&vector) },
        options: Options::Items(&[OptionItem::UserId(user)]),
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}
