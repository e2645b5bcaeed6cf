//! Test bench for one engine: a router between two links (or a host at the end of one), virtual time, and decoded
//! messages.
//!
//! ```text
//!   10.0.1.1 ----- eth1: 10.0.1.2 [ engine ] 10.0.2.1 :eth2 ----- 10.0.2.2 ... 10.0.9.9
//!   IN                              eth3: 10.0.3.1                           FEN
//! ```
#![allow(dead_code, unreachable_pub)]

use std::net::IpAddr;

use earmark_boomerang::{
    Application, Boomerang, Command, Config, Event, Request, RequestedRates, Selector, credential,
};
use earmark_core::keys::Directions;
use earmark_core::random::RandomStreams;
use earmark_core::{
    Datagram, Engine, Flow, Hop, HostEvent, Input, InterfaceId, Outgoing, Rate, Route, Time,
};
use earmark_testkit::bench;
pub use earmark_testkit::bench::{ip, prefix};
use earmark_wire::boomerang::{
    Flags, Keys, OptionItem, Options, Qos, Rates, Reservation, Shape, Vector,
};
use earmark_wire::icmp::{self, Echo, HEADER, Kind, PseudoHeader};

pub const NEAR: &str = "10.0.1.1";
pub const FAR: &str = "10.0.9.9";
pub const ETH1: InterfaceId = InterfaceId(1);
pub const ETH2: InterfaceId = InterfaceId(2);
pub const ETH3: InterfaceId = InterfaceId(3);
pub const APP: Application = Application(7);

pub const fn kbit(forward: u32, reverse: u32) -> Rates {
    Rates { forward: forward * 1_000, reverse: reverse * 1_000 }
}

/// A decoded message that owns its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub kind: Kind,
    pub sequence: u16,
    pub transaction_id: u32,
    pub flags: u16,
    pub interval: u8,
    pub key: u64,
    pub classifier: Keys,
    pub mask: Shape,
    /// One pair for bitrates, several for downgrades.
    pub rates: Vec<Rates>,
    pub options: Vec<OptionItem<'static>>,
}

pub fn classifier(source: &str, destination: &str, port: u16) -> Keys {
    Keys {
        source: ip(source),
        destination: ip(destination),
        source_port: port,
        destination_port: 5_000,
        protocol: 17,
        tos: 0,
        flags: 0,
    }
}

/// Returns the message that the node at [`NEAR`] sends to the one at [`FAR`] about the flow of a port.
pub fn message(port: u16, rates: Rates) -> Message {
    Message {
        kind: Kind::Request,
        sequence: 0,
        transaction_id: 77,
        flags: 0,
        interval: 30,
        key: 1,
        classifier: classifier(NEAR, FAR, port),
        mask: Shape {
            source: 32,
            destination: 32,
            source_port: true,
            destination_port: true,
            protocol: true,
            tos: false,
        },
        rates: vec![rates],
        options: Vec::new(),
    }
}

impl Message {
    pub fn is_nack(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Returns the message on its way back.
    pub fn back(&self) -> Message {
        Message { kind: Kind::Reply, ..self.clone() }
    }

    pub fn reservation(&self) -> Reservation<'_> {
        Reservation {
            transaction_id: self.transaction_id,
            flags: Flags(self.flags),
            refresh_interval: self.interval,
            key: self.key,
            classifier: self.classifier,
            mask: self.mask,
            qos: match &self.rates[..] {
                [rates] => Qos::Bitrate(*rates),
                several => Qos::Downgrade { policy: 0, vector: Vector::Items(several) },
            },
            options: Options::Items(&self.options),
        }
    }

    pub fn octets(&self, source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let reservation = self.reservation();
        let mut octets = vec![0; HEADER + reservation.buffer_len()];
        reservation.emit(&mut octets[HEADER..]).expect("it fits");
        let ends = PseudoHeader::of(source, destination).expect("of one family");
        icmp::seal(&mut octets, ends, self.kind, self.transaction_id as u16, self.sequence)
            .expect("it fits");
        octets
    }

    pub fn parse(octets: &[u8], source: IpAddr, destination: IpAddr) -> Message {
        let ends = PseudoHeader::of(source, destination).expect("of one family");
        let echo = Echo::parse(octets, ends).expect("an echo with a right checksum");
        let read = Reservation::parse(echo.data).expect("a reservation");
        assert_eq!(echo.identifier, read.transaction_id as u16);
        let own = |item: OptionItem<'_>| match item {
            OptionItem::UserId(id) => OptionItem::UserId(id),
            OptionItem::Aggregation(option) => OptionItem::Aggregation(option),
            OptionItem::Participation(record) => OptionItem::Participation(record),
            OptionItem::Token(token) => OptionItem::Token(token.to_vec().leak()),
            OptionItem::Unknown { code, rest } => {
                OptionItem::Unknown { code, rest: rest.to_vec().leak() }
            }
        };
        Message {
            kind: echo.kind,
            sequence: echo.sequence,
            transaction_id: read.transaction_id,
            flags: read.flags.0,
            interval: read.refresh_interval,
            key: read.key,
            classifier: read.classifier,
            mask: read.mask,
            rates: match read.qos {
                Qos::Bitrate(rates) => vec![rates],
                Qos::Downgrade { vector, .. } => vector.iter().collect(),
            },
            options: read.options.iter().map(own).collect(),
        }
    }
}

earmark_testkit::bench_of!(Boomerang);

/// An effect of one input.
pub type Outcome = bench::Outcome<Event>;

/// Creates a router with links of 10 Mbit/s, of which 7.5 Mbit/s can be reserved.
pub fn router() -> Bench {
    with_config(Config::default())
}

pub fn with_config(config: Config) -> Bench {
    let engine = Boomerang::new(config, &RandomStreams::new(7));
    let mut bench = Bench(bench::Bench::new(engine, Time::from_secs(1_000)));
    bench.add_interface(ETH1, &["10.0.1.2", "2001:db8:1::2"]);
    bench.add_interface(ETH2, &["10.0.2.1", "2001:db8:2::1"]);
    bench.add_interface(ETH3, &["10.0.3.1", "2001:db8:3::1"]);
    for (prefix, interface, gateway) in [
        ("10.0.1.0/24", ETH1, None),
        ("10.0.2.0/24", ETH2, None),
        ("10.0.3.0/24", ETH3, None),
        ("10.0.9.0/24", ETH2, Some("10.0.2.2")),
        ("2001:db8:1::/64", ETH1, None),
        ("2001:db8:9::/64", ETH2, Some("2001:db8:2::2")),
    ] {
        bench.add_route(prefix, interface, gateway);
    }
    bench
}

impl Bench {
    pub fn add_interface(&mut self, id: InterfaceId, addresses: &[&str]) {
        let bandwidth = Rate::from_mbps(10);
        self.set_link(id, addresses, bandwidth, bandwidth.share(0.75));
    }

    /// Moves the route to [`FAR`] to eth3.
    pub fn move_route(&mut self) -> Vec<Outcome> {
        let far = prefix("10.0.9.0/24");
        let hop = Hop { interface: ETH2, gateway: Some(ip("10.0.2.2")), source: None };
        assert!(self.routes.remove(&Route { prefix: far, metric: 0, hop }));
        self.add_route("10.0.9.0/24", ETH3, Some("10.0.3.2"));
        self.handle(Input::Host(HostEvent::RouteChanged(far)))
    }

    pub fn reserve(&mut self, request: Request) -> Vec<Outcome> {
        self.command(Command::Reserve { application: APP, request })
    }

    /// Passes a message from one end to the other: requests arrive through eth1, replies through eth2.
    pub fn passes(&mut self, message: &Message) -> Vec<Outcome> {
        let (near, far) = match message.classifier.source {
            IpAddr::V4(_) => (ip(NEAR), ip(FAR)),
            IpAddr::V6(_) => (ip("2001:db8:1::1"), ip("2001:db8:9::9")),
        };
        match message.kind {
            Kind::Request => self.arrives(ETH1, near, far, message),
            Kind::Reply => self.arrives(ETH2, far, near, message),
        }
    }

    pub fn arrives(
        &mut self,
        interface: InterfaceId,
        source: IpAddr,
        destination: IpAddr,
        message: &Message,
    ) -> Vec<Outcome> {
        let octets = message.octets(source, destination);
        self.octets_arrive(interface, source, destination, &octets)
    }

    pub fn octets_arrive(
        &mut self,
        interface: InterfaceId,
        source: IpAddr,
        destination: IpAddr,
        payload: &[u8],
    ) -> Vec<Outcome> {
        self.handle(Input::Datagram(Datagram {
            interface,
            source,
            destination,
            ttl: 63,
            router_alert: true,
            encapsulated: false,
            payload,
        }))
    }

    /// Advances time until something happens.
    pub fn wait(&mut self) -> Vec<Outcome> {
        loop {
            let (at, _) = self.engine.next_deadline().expect("something is to be expected");
            let time = at - self.now;
            let outcomes = self.pass(time);
            if !outcomes.is_empty() {
                return outcomes;
            }
        }
    }

    /// Returns the reserved bandwidth of a link, kbit/s.
    pub fn held(&self, interface: InterfaceId) -> u64 {
        self.held_on(interface).as_bps() / 1_000
    }

    /// Returns the reserved bandwidth of eth1, where the reverse direction leaves, and of eth2, where the forward
    /// direction does.
    pub fn held_both(&self) -> (u64, u64) {
        (self.held(ETH2), self.held(ETH1))
    }
}

/// Returns the sent messages.
pub fn sent(outcomes: &[Outcome]) -> Vec<(Outgoing, Message)> {
    let parse = |(how, octets): (Outgoing, &[u8])| {
        (how, Message::parse(octets, how.source, how.destination))
    };
    bench::sent(outcomes).map(parse).collect()
}

/// Returns the one message that was sent.
#[track_caller]
pub fn one(outcomes: &[Outcome]) -> Message {
    let sent = sent(outcomes);
    let [(_, message)] = &sent[..] else { panic!("one message is expected: {outcomes:?}") };
    message.clone()
}

pub fn events(outcomes: &[Outcome]) -> Vec<Event> {
    let mut events = bench::events(outcomes);
    events.retain(|event| !matches!(event, Event::Reservation { .. }));
    events
}

pub fn installed(outcomes: &[Outcome]) -> Vec<(InterfaceId, u64)> {
    let installations = bench::installed(outcomes).into_iter();
    installations.map(|i| (i.interface, i.demand.rate.as_bps() / 1_000)).collect()
}

pub fn removed(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Removed(_))).count()
}

/// Returns a request of this host for the flow from its port 4000 to port 5000 of [`FAR`].
pub fn request(rates: &[Rates]) -> Request {
    request_to(ip(FAR), rates)
}

/// Returns a request of this host for the flow from its port 4000 to port 5000 of a destination.
pub fn request_to(destination: IpAddr, rates: &[Rates]) -> Request {
    let flow = Flow {
        destination,
        source: Some(ip("0.0.0.0")),
        protocol: 17,
        destination_port: 5_000,
        source_port: 4_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let pair = |rates: &Rates| RequestedRates {
        forward: Rate::from_bps(rates.forward.into()),
        reverse: Rate::from_bps(rates.reverse.into()),
    };
    let mut request = Request::new(
        destination,
        Selector::of_flow(&flow),
        rates.first().map(pair).unwrap_or_default(),
    );
    request.rates = rates.iter().map(pair).collect();
    request
}

/// Credentials that are required of requests from everywhere, by these names and secrets.
pub fn required(users: &[(&str, &str)]) -> credential::Settings {
    let key = |(id, (user, secret)): (u64, &(&str, &str))| {
        credential::Key::new(id, user, earmark_core::Secret::new(*secret))
    };
    credential::Settings {
        keys: (1..).zip(users).map(key).collect(),
        interfaces: ["eth1", "eth2", "eth3"]
            .map(|name| (name.to_owned(), Directions::Accept))
            .into(),
    }
}

pub fn user(name: &str, secret: &str) -> Option<earmark_boomerang::User> {
    let id = credential::user_id(name).expect("a short name");
    Some(earmark_boomerang::User { id, secret: earmark_core::Secret::new(secret) })
}
