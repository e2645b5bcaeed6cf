//! The same messages to a node whose kernel does what it can, and to one whose daemon does everything: what they have
//! reserved, what they answer and what is left of each link is the same, however the messages follow each other.
//!
//! The daemons are models: the rules for one pass of a message, without time. The kernel is the real one. Its packets come
//! through the loopback interface of a namespace with two more, one a direction.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use earmark_core::InterfaceId;
use earmark_linux::netns::Namespace;
use earmark_linux::{
    FastKey, FastPath, FastSession, Incoming, Settled, Share, SignallingSocket, link,
};
use earmark_wire::ipv4;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::packets::icmp_checksum;
use crate::support::namespace;

const INITIATORS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 1, 3)];
const FAR_END: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
const LONGEST_INTERVAL: u8 = 30;
/// What can be reserved on each link.
const CAPACITY: u64 = 10;

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Message(Message),
    /// The daemon looks what there is.
    Look,
    RoutesChanged,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    is_reply: bool,
    initiator: usize,
    flow: u8,
    rates: [u32; 2],
    interval: u8,
    is_nack: bool,
}

const FLOWS: u8 = 6;

/// What becomes of a message: whether it is refused; what else is changed in it follows from that.
type Answer = bool;

impl Message {
    const NOTHING: Message = Message {
        is_reply: false,
        initiator: 0,
        flow: 0,
        rates: [0, 0],
        interval: 0,
        is_nack: false,
    };

    /// As it arrived.
    fn read(incoming: &Incoming<'_>) -> Message {
        let (datagram, octets) = (&incoming.datagram, incoming.datagram.payload);
        let is_reply = octets[0] == 0;
        let initiator = if is_reply { datagram.destination } else { datagram.source };
        let initiator = INITIATORS.iter().position(|&known| initiator == known);
        let rate = |at: usize| u32::from_be_bytes(std::array::from_fn(|n| octets[at + n]));
        Message {
            is_reply,
            initiator: initiator.expect("one of them"),
            flow: octets[41],
            rates: [rate(64), rate(68)],
            interval: octets[20],
            is_nack: octets[18] != 0,
        }
    }

    fn key(&self) -> FastKey {
        let (mut classifier, mut mask) = ([0; 16], [0xff; 16]);
        classifier[..4].copy_from_slice(&INITIATORS[0].octets());
        classifier[4..8].copy_from_slice(&FAR_END.octets());
        classifier[8..13].copy_from_slice(&[0, self.flow, 0, 1, 17]);
        mask[13..].fill(0);
        FastKey { classifier, mask }
    }

    fn packet(&self) -> Vec<u8> {
        let mut ends = [INITIATORS[self.initiator], FAR_END];
        let mut octets = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
        if self.is_reply {
            octets[0] = 0;
            ends.reverse();
        }
        octets.extend([0x47, 0x11, 0x47, 0x11, 0, 0, 0, 7, 0x10, 0x12, 0x00, 0x00]);
        if self.is_nack {
            octets[18] = 0x80;
        }
        octets.extend([self.interval, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        octets.extend(self.key().classifier);
        octets.extend(self.key().mask);
        self.rates.iter().for_each(|rate| octets.extend(rate.to_be_bytes()));
        let [source, destination] = ends;
        let sum = icmp_checksum(&octets, source.into(), destination.into());
        octets[2..4].copy_from_slice(&sum);
        let header = ipv4::Repr {
            tos: 0,
            identification: 0,
            dont_fragment: false,
            ttl: 64,
            protocol: 1,
            source,
            destination,
            router_alert: None,
            payload_len: octets.len(),
        };
        let mut packet = vec![0; header.header_len()];
        header.emit(&mut packet).expect("fits");
        packet.extend(octets);
        packet
    }
}

/// A daemon: sessions with what they have in each direction, in a ledger of two links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Daemon {
    sessions: BTreeMap<FastKey, Session>,
    held: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    initiator: usize,
    interval: u8,
    rates: [u32; 2],
}

impl Daemon {
    /// The rules for one pass of a message.
    fn treat(&mut self, message: &Message) -> Answer {
        let key = message.key();
        let known = self.sessions.get(&key).copied();
        if message.rates == [0, 0] {
            if let Some(session) = known.filter(|s| s.initiator == message.initiator) {
                self.sessions.remove(&key);
                for (held, rate) in self.held.iter_mut().zip(session.rates) {
                    *held -= u64::from(rate);
                }
            }
            return known.is_some_and(|s| s.initiator != message.initiator);
        }
        if known.is_some_and(|session| session.initiator != message.initiator) {
            return true;
        }
        if message.is_nack {
            return false;
        }
        let link = usize::from(message.is_reply);
        let mut session =
            known.unwrap_or(Session { initiator: message.initiator, interval: 0, rates: [0, 0] });
        let (old, new) = (u64::from(session.rates[link]), u64::from(message.rates[link]));
        if self.held[link] - old + new > CAPACITY {
            return true;
        }
        self.held[link] = self.held[link] - old + new;
        session.rates[link] = message.rates[link];
        session.interval = message.interval.min(LONGEST_INTERVAL);
        match session.rates {
            [0, 0] => self.sessions.remove(&key),
            _ => self.sessions.insert(key, session),
        };
        false
    }
}

/// A daemon with the kernel before it.
struct Pair {
    socket: SignallingSocket,
    /// Outward, and back.
    links: [InterfaceId; 2],
    daemon: Daemon,
    /// How many messages the kernel left to the daemon, and how many sessions it set up and released.
    taken: u32,
    settled: [u32; 2],
}

impl Pair {
    fn fast_path(&mut self) -> &mut FastPath {
        self.socket.fast_path_mut().expect("BPF")
    }

    /// Reads what waits: does with each copy what it would have done with the message, and gives how many others there
    /// were.
    fn look(&mut self) -> usize {
        let (mut copies, mut others) = (Vec::new(), 0);
        let mut each = |m: Incoming<'_>| match m.settled {
            Some(settled) => copies.push((settled, Message::read(&m))),
            None => others += 1,
        };
        while self.socket.receive(&mut each).expect("received") > 0 {}
        for (settled, message) in copies {
            let mut expected = self.daemon.held;
            assert!(!self.daemon.treat(&message), "the kernel has not given away too much");
            let number = |share: Share| self.links.iter().position(|&l| l == share.interface);
            match settled {
                Settled::Reserved(share) => {
                    self.settled[0] += 1;
                    expected[number(share).expect("a link")] += u64::from(share.rate);
                }
                Settled::Released(shares) => {
                    self.settled[1] += 1;
                    for share in shares.into_iter().filter(|share| share.rate > 0) {
                        expected[number(share).expect("a link")] -= u64::from(share.rate);
                    }
                }
            }
            assert_eq!(self.daemon.held, expected, "{settled:?}");
        }
        for (link, held) in self.links.into_iter().zip(self.daemon.held) {
            let share = self.fast_path().share(link).expect("an answer");
            assert_eq!(share, CAPACITY - held, "all that is left is lent");
        }
        others
    }

    /// Lends the kernel all that is left, or nothing.
    fn lend(&mut self, something: bool) {
        for (link, held) in self.links.into_iter().zip(self.daemon.held) {
            let left = if something { CAPACITY - held } else { 0 };
            assert_eq!(self.fast_path().lend(link, left).expect("lent"), left);
        }
    }

    fn treat(&mut self, message: &Message) -> Answer {
        if self.fast_path().time(&message.packet(), 1).is_ok() {
            return false;
        }
        // It is the daemon's, after all that came before it; and so is what was lent.
        self.taken += 1;
        assert_eq!(self.look(), 1, "{message:?}");
        self.lend(false);
        let answer = self.daemon.treat(message);
        self.enter(&message.key());
        self.lend(true);
        answer
    }

    /// Shows the kernel a session as it is now.
    fn enter(&mut self, key: &FastKey) {
        let Some(session) = self.daemon.sessions.get(key).copied() else {
            self.fast_path().remove(key).expect("an answer");
            return;
        };
        let links = self.links;
        let share = |link: usize| {
            let (interface, rate) = (links[link], session.rates[link]);
            (rate > 0).then_some(Share { interface, rate })
        };
        let entry = FastSession {
            initiator: INITIATORS[session.initiator],
            interval: session.interval,
            forward: share(0),
            reverse: share(1),
        };
        self.fast_path().set(key, &entry).expect("entered");
    }

    /// As if nothing had ever happened.
    fn forget(&mut self) {
        self.look();
        for flow in 0..FLOWS {
            let key = Message { flow, ..Message::NOTHING }.key();
            self.fast_path().remove(&key).expect("an answer");
        }
        self.daemon = Daemon::default();
        self.lend(true);
    }
}

/// A router between 10.77.1.0/24 and 10.77.2.0/24.
fn router(namespace: &Namespace) -> Pair {
    let links = [("out", "10.77.2.2"), ("back", "10.77.1.2")].map(|(name, address)| {
        let other = format!("{name}-other");
        let pair = link::create_veth(namespace, name, namespace, &other);
        let address = address.parse().expect("an address");
        link::add_address(namespace, name, address, 24).expect("added");
        for name in [name, &other] {
            link::set_up(namespace, name, true).expect("up");
        }
        pair.expect("a veth pair").0
    });
    link::sysctl(namespace, "net.ipv4.ip_forward", "1").expect("forwarding");
    let socket = namespace.run_in(SignallingSocket::open).expect("inside").expect("the sockets");
    let mut pair = Pair { socket, links, daemon: Daemon::default(), taken: 0, settled: [0, 0] };
    pair.fast_path().set_longest_interval(Some(LONGEST_INTERVAL)).expect("set");
    pair.lend(true);
    pair
}

/// Mostly a flow's own initiating node with its usual rates, or with none.
fn any_message() -> impl Strategy<Value = Message> {
    let flow_and_rates = (0..FLOWS).prop_flat_map(|flow| {
        let usual = [u32::from(flow % 4) + 1, u32::from(flow / 2) + 1];
        let rates = prop_oneof![9 => Just(usual), 4 => Just([0, 0]), 1 => [0..5_u32, 0..5_u32]];
        (Just(flow), rates)
    });
    let initiator = prop_oneof![30 => Just(0_usize), 1 => Just(1)];
    let interval = prop_oneof![30 => Just(30), 1 => Just(20), 1 => Just(40)];
    let flags = prop::bool::weighted(0.02);
    (any::<bool>(), initiator, flow_and_rates, interval, flags).prop_map(
        |(is_reply, initiator, (flow, rates), interval, is_nack)| Message {
            is_reply,
            initiator,
            flow,
            rates,
            interval,
            is_nack,
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        40 => any_message().prop_map(Event::Message),
        4 => Just(Event::Look),
        1 => Just(Event::RoutesChanged),
    ]
}

pub(crate) fn agree() {
    let namespace = namespace();
    let pair = router(&namespace);
    // Programs run in the namespace of whoever runs them.
    namespace.run_in(|| compare(pair)).expect("inside");
}

fn compare(pair: Pair) {
    let pair = RefCell::new(pair);
    let all = Cell::new(0);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) };
    let outcome =
        TestRunner::new(config).run(&prop::collection::vec(any_event(), 1..60), |events| {
            let mut pair = pair.borrow_mut();
            pair.forget();
            let mut alone = Daemon::default();
            for event in events {
                match event {
                    Event::Message(message) => {
                        let answers = (alone.treat(&message), pair.treat(&message));
                        prop_assert_eq!(answers.0, answers.1, "{:?}", message);
                        all.set(all.get() + 1);
                    }
                    Event::Look => prop_assert_eq!(pair.look(), 0),
                    Event::RoutesChanged => pair.fast_path().suspend_all().expect("suspended"),
                }
            }
            prop_assert_eq!(pair.look(), 0);
            prop_assert_eq!(&alone, &pair.daemon);
            Ok(())
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let pair = pair.into_inner();
    let (all, taken, [reserved, released]) = (all.get(), pair.taken, pair.settled);
    let both =
        format!("{all} messages: {taken} the daemon's, {reserved} set-ups, {released} releases");
    assert!(taken > all / 10 && taken < all / 2, "{both}");
    assert!(reserved > all / 20 && released > all / 20, "{both}");
}
