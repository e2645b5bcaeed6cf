//! Steps of both nodes: messages and other inputs between them, at random or as found earlier.

use std::net::Ipv4Addr;

use earmark_wire::boomerang::{Flags, Keys, Options, Qos, Rates, Reservation, Shape, Vector};
use earmark_wire::icmp::{self, HEADER, Kind, PseudoHeader};
use proptest::prelude::*;

use super::{CAPACITY, FAR_END};

const INITIATORS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 1, 3)];
const FLOWS: u16 = 6;

/// A step of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Message(Message),
    /// The daemon reads the kernel's notifications.
    Look,
    /// A listing is requested.
    Listing,
    RoutesChange,
    /// Another protocol takes this rate of a link, or releases it.
    Others(usize, Option<u64>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    is_reply: bool,
    initiator: usize,
    flow: u16,
    rates: Rates,
    interval: u8,
    key: u64,
    is_nack: bool,
    /// A variation of the message.
    kind: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    /// The source port is not matched.
    Wide,
    /// A list with one more pair of rates.
    List,
    /// The reservation is for code points other than zero.
    OddTos,
    /// The checksum is wrong.
    Broken,
}

impl Message {
    fn new(is_reply: bool, initiator: usize, flow: u16, [forward, reverse]: [u32; 2]) -> Message {
        Message {
            is_reply,
            initiator,
            flow,
            rates: Rates { forward, reverse },
            interval: 30,
            key: 1,
            is_nack: false,
            kind: Form::Plain,
        }
    }

    pub(super) fn ends(&self) -> (Ipv4Addr, Ipv4Addr) {
        match (INITIATORS[self.initiator], self.is_reply) {
            (initiator, false) => (initiator, FAR_END),
            (initiator, true) => (FAR_END, initiator),
        }
    }

    /// Builds the ICMP message.
    pub(super) fn octets(&self) -> Vec<u8> {
        let list = [self.rates, Rates { forward: 1, reverse: 1 }];
        let is_wide = self.kind == Form::Wide;
        let reservation = Reservation {
            transaction_id: 7,
            flags: Flags(u16::from(self.is_nack)),
            refresh_interval: self.interval,
            key: self.key,
            classifier: Keys {
                source: INITIATORS[0].into(),
                destination: FAR_END.into(),
                source_port: if is_wide { 0 } else { self.flow },
                destination_port: 5_000 + self.flow,
                protocol: 17,
                tos: if self.kind == Form::OddTos { 9 } else { 0 },
                flags: 0,
            },
            mask: Shape {
                source: 32,
                destination: 32,
                source_port: !is_wide,
                destination_port: true,
                protocol: true,
                tos: false,
            },
            qos: match self.kind {
                Form::List => Qos::Downgrade { policy: 0, vector: Vector::Items(&list) },
                _ => Qos::Bitrate(self.rates),
            },
            options: Options::Items(&[]),
        };
        let mut octets = vec![0; HEADER + reservation.buffer_len()];
        reservation.emit(&mut octets[HEADER..]).expect("it fits");
        let (source, destination) = self.ends();
        let ends = PseudoHeader::of(source.into(), destination.into()).expect("of one family");
        let kind = if self.is_reply { Kind::Reply } else { Kind::Request };
        icmp::seal(&mut octets, ends, kind, 0x1234, 1).expect("it fits");
        if self.kind == Form::Broken {
            octets[2] ^= 1;
        }
        octets
    }
}

/// A random message, mostly from the flow's own initiator with its usual rates or with none.
fn any_message() -> impl Strategy<Value = Message> {
    let flow_and_rates = (1..=FLOWS).prop_flat_map(|flow| {
        let usual = [u32::from(flow % 4) + 1, u32::from(flow / 2)];
        let rates = prop_oneof![9 => Just(usual), 4 => Just([0, 0]), 1 => [0..5_u32, 0..5_u32]];
        (Just(flow), rates)
    });
    let initiator = prop_oneof![10 => Just(0_usize), 1 => Just(1)];
    let interval = prop_oneof![30 => Just(30_u8), 1 => Just(20), 1 => Just(40)];
    let key = prop_oneof![40 => Just(1_u64), 1 => Just(6), 1 => Just(0)];
    let kind = prop_oneof![
        40 => Just(Form::Plain),
        1 => Just(Form::Wide),
        1 => Just(Form::List),
        1 => Just(Form::OddTos),
        1 => Just(Form::Broken),
    ];
    let flags = prop::bool::weighted(0.02);
    (any::<bool>(), initiator, flow_and_rates, interval, key, flags, kind).prop_map(
        |(is_reply, initiator, (flow, [forward, reverse]), interval, key, is_nack, kind)| Message {
            is_reply,
            initiator,
            flow,
            rates: Rates { forward, reverse },
            interval,
            key,
            is_nack,
            kind,
        },
    )
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let part = prop::option::weighted(0.6, 1..CAPACITY);
    prop_oneof![
        60 => any_message().prop_map(Step::Message),
        4 => Just(Step::Look),
        1 => Just(Step::Listing),
        1 => Just(Step::RoutesChange),
        2 => (0..2_usize, part).prop_map(|(link, rate)| Step::Others(link, rate)),
    ]
}

/// Sequences for which the two nodes once differed, with the cause. In both, the kernel set up again what it had released
/// before the daemon had read about that.
pub(super) fn found() -> [(&'static str, Vec<Step>); 2] {
    let [out, back] = [false, true].map(|is_reply| {
        move |initiator, flow, rates| Step::Message(Message::new(is_reply, initiator, flow, rates))
    });
    let strangers = out(1, 2, [1, 0]);
    [
        (
            "a stranger was granted a session that was there",
            vec![
                strangers,
                out(0, 1, [2, 0]),
                out(0, 1, [0, 0]),
                out(0, 1, [2, 0]),
                Step::Look,
                out(1, 1, [2, 0]),
            ],
        ),
        (
            "half a session was not released",
            vec![
                out(0, 1, [2, 0]),
                back(0, 1, [0, 1]),
                out(0, 1, [0, 0]),
                back(0, 1, [0, 1]),
                Step::Look,
                out(0, 1, [2, 0]),
                back(0, 1, [2, 0]),
            ],
        ),
    ]
}
