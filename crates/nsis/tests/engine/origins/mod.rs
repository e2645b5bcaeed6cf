//! A reservation over three nodes, and strangers who send messages about it to the middle one.
#![allow(dead_code, unreachable_pub)] // each test uses a part

mod cases;
mod strangers;

#[path = "../../common/qos_messages.rs"]
mod qos_messages;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::LinkCapacity;
use earmark_core::{ConnectionId, Flow, Interface, InterfaceId, Rate, Transport, Trust};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{Application, Command, Request, RequestedQos};
use earmark_nsis::{Config, Event, gist, qos};
use earmark_testkit::messages::qos_nslp::RESERVE;
use earmark_wire::gist::{
    Body, Continuation, Data, Direction, Error, ErrorCode, ErrorData, Extensions, Message, Mode,
    Mri, NetworkLayerInformation, SessionId,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::qos_nslp::iana::{NSLPID, TransientFailure};
use earmark_wire::qos_nslp::{
    self, Answers, Extra, GenericFlags, InfoSpec, Notify, Outcome, Reserve, Response, Rsn,
};

use crate::common::{Network, address, forged, line_of};

pub use cases::{Kind, Origin, Protection};

/// The node that receives all messages.
pub const VICTIM: usize = 1;
/// Interfaces of the victim.
pub const PREVIOUS: u32 = 1;
pub const NEXT: u32 = 2;
pub const PORT_OF_STRANGERS: u32 = 3;
pub const OTHER_CORE: u32 = 4;

pub const SESSION: SessionId = SessionId([7; 16]);
/// Another session of the same node.
const IN_THE_CLEAR: SessionId = SessionId([8; 16]);
const TLS_PORT: u16 = 4_270;

pub struct Scene {
    pub network: Network,
    protection: Protection,
    six: bool,
    /// The other associations with the peers, by the interface that leads to them.
    other: BTreeMap<u32, ConnectionId>,
    /// Number of associations that were opened.
    opened: u8,
    /// Octets that were written before the message.
    written: usize,
}

impl Scene {
    /// Creates the network and the reservation.
    pub fn new(protection: Protection, six: bool) -> Scene {
        Scene::with(protection, six, |_| {})
    }

    /// Creates the network and the reservation, with other settings of the victim.
    pub fn with(protection: Protection, six: bool, change: impl Fn(&mut Config)) -> Scene {
        let mut configs = [1, 2, 3].map(|number| config(protection, number));
        change(&mut configs[VICTIM]);
        let (mut network, _) = line_of(&configs);
        let victim = &mut network.nodes[VICTIM];
        for (id, trust) in [(PREVIOUS, Trust::ACCESS), (NEXT, Trust::CORE)] {
            let mut link = victim.interfaces.by_id(InterfaceId(id)).expect("a link").clone();
            link.trust = trust;
            victim.interfaces.set(link);
        }
        for (id, own, trust) in [
            (PORT_OF_STRANGERS, ["10.0.77.1", "fd00:77::1"], Trust::ACCESS),
            (OTHER_CORE, ["10.0.78.1", "fd00:78::1"], Trust::CORE),
        ] {
            victim.interfaces.set(Interface {
                id: InterfaceId(id),
                name: format!("eth{id}"),
                addresses: own.map(address).to_vec(),
                mtu: 1_500,
                up: true,
                bandwidth: Rate::from_mbps(10),
                reservable: Rate::from_mbps(8),
                largest: None,
                overhead: 0,
                latency_us: 10,
                trust,
            });
        }
        for prefix in ["10.0.77.0/24", "fd00:77::/64"] {
            network.set_route(VICTIM, prefix, PORT_OF_STRANGERS, None);
        }
        for node in &mut network.nodes {
            for link in node.interfaces.iter() {
                let (bandwidth, reservable, mtu) = (link.bandwidth, link.reservable, link.mtu);
                node.ledger.set_link(link.id, LinkCapacity { bandwidth, reservable, mtu });
            }
        }
        let mut scene =
            Scene { network, protection, six, other: BTreeMap::new(), opened: 0, written: 0 };
        let attributes = match protection {
            Protection::Clear => Attributes::default(),
            Protection::Tcp => Attributes { reliable: true, secure: false },
            Protection::Tls => Attributes { reliable: true, secure: true },
        };
        scene.reserve(Application(1), SESSION, attributes, 6_000);
        assert_eq!(scene.session_counts(), [1, 1, 1], "{protection:?}");
        scene
    }

    pub fn reserve(
        &mut self,
        application: Application,
        session: SessionId,
        attributes: Attributes,
        source_port: u16,
    ) {
        let command = self.reservation(application, session, attributes, source_port);
        self.network.command(0, command);
        self.network.run(Duration::from_secs(1));
    }

    /// Returns the command of the first node to reserve 2 Mbit/s.
    pub fn reservation(
        &self,
        application: Application,
        session: SessionId,
        attributes: Attributes,
        source_port: u16,
    ) -> earmark_nsis::Command {
        let flow = Flow {
            destination: self.end(),
            source: Some(self.peer(PREVIOUS)),
            protocol: 17,
            destination_port: 5_000,
            source_port,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        let request = Request {
            session: Some(session),
            attributes: Some(attributes),
            ..Request::new(flow, RequestedQos::of(Rate::from_mbps(2)))
        };
        earmark_nsis::Command::Qos(Command::Reserve { application, request })
    }

    pub fn reserve_in_the_clear(&mut self) {
        self.reserve(Application(2), IN_THE_CLEAR, Attributes::default(), 6_001);
        assert_eq!(self.session_counts(), [2, 2, 2]);
    }

    /// Tears the session down at its initiator.
    pub fn release(&mut self) {
        let command = Command::Release { application: Application(1) };
        self.network.command(0, earmark_nsis::Command::Qos(command));
        self.network.run(Duration::from_secs(1));
    }

    fn end(&self) -> IpAddr {
        self.peer(NEXT)
    }

    /// Returns the address of the node behind an interface of the victim.
    fn peer(&self, side: u32) -> IpAddr {
        address(match (side, self.six) {
            (PREVIOUS, false) => "10.0.0.1",
            (NEXT, false) => "10.0.1.2",
            (_, false) => "10.0.77.9",
            (PREVIOUS, true) => "fd00:0::1",
            (NEXT, true) => "fd00:1::2",
            (_, true) => "fd00:77::9",
        })
    }

    /// Returns the address of the victim on an interface.
    fn own(&self, side: u32) -> IpAddr {
        let link = self.network.nodes[VICTIM].interfaces.by_id(InterfaceId(side));
        link.and_then(|link| link.address_like(self.end())).expect("an address")
    }

    fn nli(&self, side: u32) -> NetworkLayerInformation<'static> {
        NetworkLayerInformation {
            peer_identity: match side {
                PREVIOUS => &[10, 9, 0, 1],
                NEXT => &[10, 9, 0, 3],
                _ => b"evil",
            },
            ip_ttl: 64,
            interface_address: self.peer(side),
            routing_state_validity: 30_000,
        }
    }

    /// Returns the MRI of the session, in the direction of messages from the previous node.
    fn mri(&self) -> Mri {
        let session = self.network.engine(0).qos().session(SESSION).expect("a session");
        Mri::PathCoupled(session.mri)
    }

    /// Returns the QoS NSLP message of a kind, as the peer would write it.
    pub fn message(&self, kind: Kind) -> Vec<u8> {
        let rsn_of =
            |node: usize| self.network.engine(node).qos().session(SESSION).expect("a session").rsn;
        let rsn = rsn_of(VICTIM);
        let failure = Outcome::TransientFailure(TransientFailure::ReservationFailure);
        let (flags, extra) = (GenericFlags::default(), Extra::NONE);
        let qspec = qspec_of(125_000.0);
        let message = match kind {
            Kind::Refresh => qos_nslp::Message::Reserve(reserve(rsn)),
            Kind::Tear => qos_nslp::Message::Reserve(Reserve { tear: true, ..reserve(rsn) }),
            Kind::Change => {
                let rsn = Rsn { number: rsn.number + 1, ..rsn };
                qos_nslp::Message::Reserve(Reserve { qspec: Some(&qspec), ..reserve(rsn) })
            }
            Kind::Notify => {
                let info = InfoSpec::new(failure);
                qos_nslp::Message::Notify(Notify { flags, info, qspec: None, extra })
            }
            Kind::Response => qos_nslp::Message::Response(Response {
                flags,
                answers: Some(Answers::Rsn(rsn_of(2))),
                info: InfoSpec::new(failure),
                summary: None,
                qspec: None,
                extra,
            }),
            Kind::LostState => return Vec::new(),
        };
        written(&message)
    }

    /// Opens the association that an origin needs.
    pub fn prepare(&mut self, origin: Origin) {
        let transport = match origin {
            Origin::OtherTcp | Origin::OtherTcpExplicit => Transport::Tcp,
            Origin::OtherTls | Origin::OtherTlsExplicit => Transport::Tls,
            _ => return self.settle(),
        };
        for side in [PREVIOUS, NEXT] {
            let connection = self.open_association(side, transport);
            self.other.insert(side, connection);
        }
        self.settle();
    }

    /// Lets time pass, so that a refresh has a visible effect.
    fn settle(&mut self) {
        self.network.run(Duration::from_millis(100));
        self.written = self.network.written.len();
        self.network.nodes[VICTIM].events.clear();
    }

    /// Delivers a message.
    pub fn deliver(&mut self, kind: Kind, origin: Origin, payload: &[u8]) {
        use Origin::*;
        let side = kind.side();
        let own = match self.protection {
            Protection::Clear => None,
            _ => Some(self.association_with(side)),
        };
        let other = self.other.get(&side).copied();
        let (over, source, through) = match origin {
            Own | OwnExplicit => (own, side, side),
            OtherTcp | OtherTcpExplicit | OtherTls | OtherTlsExplicit => (other, side, side),
            Spoofed | SpoofedExplicit | Forwarded | ForwardedExplicit => (None, side, side),
            OtherPort | OtherPortExplicit => (None, side, PORT_OF_STRANGERS),
            StrangerExplicit => (None, PORT_OF_STRANGERS, PORT_OF_STRANGERS),
        };
        let nli = over.is_none().then(|| self.nli(side));
        let mri = if side == PREVIOUS { self.mri() } else { self.mri().inverted() };
        let data = Data {
            nat_traversal: None,
            mri,
            session: SESSION,
            nli,
            nslp_data: payload,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: origin.is_explicit(),
        };
        // The message of the victim that an Error is about.
        let about = forged::octets(&of(Body::Data(Data {
            mri: mri.inverted(),
            nslp_data: b"data",
            nli: over.is_none().then(|| self.nli(side)),
            ..data
        })));
        let mode = if over.is_some() { Mode::C } else { Mode::D };
        let error = ErrorData::error_data_about(&about, mode, ErrorCode::NoRoutingState, 0);
        let message = match kind {
            Kind::LostState => {
                let error = Error { nat_traversal: None, nli, error: error.expect("an error") };
                Message { nslpid: 0, ..of(Body::Error(error)) }
            }
            _ => of(Body::Data(data)),
        };
        match over {
            Some(connection) => {
                let octets = forged::octets(&message);
                self.network.write(VICTIM, connection, &octets);
            }
            None => {
                let is_forwarded = matches!(origin, Forwarded | ForwardedExplicit);
                let ttl = if is_forwarded { 254 } else { 255 };
                let packet = forged::packet(self.peer(source), self.own(side), ttl, &message);
                self.network.inject(VICTIM, through, packet);
            }
        }
        self.network.run(Duration::from_millis(50));
    }

    /// Returns the connection of the session with a peer.
    fn association_with(&self, side: u32) -> ConnectionId {
        let mri = if side == PREVIOUS { self.mri().inverted() } else { self.mri() };
        let mut states = self.network.engine(VICTIM).gist().routing_states(0);
        let found = states.find(|(_, view)| view.session == SESSION && view.mri == mri);
        found.and_then(|(_, view)| view.association).expect("an association")
    }

    /// Returns everything that a message about the session may change.
    pub fn state(&self) -> String {
        let states: Vec<_> =
            self.network.engine(VICTIM).gist().routing_states(0).map(|(_, view)| view).collect();
        let links: Vec<_> = self.network.nodes[VICTIM].ledger.links().collect();
        format!("{:#?}\n{states:#?}\n{links:?}", self.sessions())
    }

    /// Returns the sessions of all nodes.
    pub fn sessions(&self) -> String {
        let sessions = |node: usize| {
            let qos = self.network.engine(node).qos();
            qos.sessions().collect::<Vec<_>>()
        };
        format!("{:#?}", [0, 1, 2].map(sessions))
    }

    /// Returns the session at the victim.
    pub fn session(&self) -> String {
        format!("{:?}", self.network.engine(VICTIM).qos().session(SESSION))
    }

    pub fn session_counts(&self) -> [usize; 3] {
        [0, 1, 2].map(|node| self.network.engine(node).qos().session_count())
    }

    /// Returns the number of reservations that the victim has refused.
    pub fn refused(&self) -> u64 {
        self.network.engine(VICTIM).qos().counters().refused
    }

    /// Returns the reasons for which the victim has dropped messages, each as often as it did.
    pub fn drops(&self) -> Vec<&'static str> {
        let engine = self.network.engine(VICTIM);
        let gist = engine.gist().counters().ignored.iter().map(|(it, &n)| (it.name(), n));
        let qos = engine.qos().counters().dropped.iter().map(|(it, &n)| (it.name(), n));
        gist.chain(qos).flat_map(|(name, n)| std::iter::repeat_n(name, n as usize)).collect()
    }

    /// Returns the reasons since an earlier call.
    pub fn drops_since(&self, before: &[&'static str]) -> Vec<&'static str> {
        let mut new = self.drops();
        for old in before {
            let place = new.iter().position(|name| name == old).expect("counters only grow");
            new.remove(place);
        }
        new
    }

    /// Returns whether the victim has reported a drop with this reason.
    pub fn has_event(&self, reason: &str) -> bool {
        self.network.nodes[VICTIM].events.iter().any(|(_, event)| match event {
            Event::Gist(gist::Event::Ignored { reason: it, .. }) => it.name() == reason,
            Event::Qos(qos::Event::Dropped { reason: it, .. }) => it.name() == reason,
            _ => false,
        })
    }

    /// Returns whether the victim has answered by the Error "Incorrectly Delivered Message".
    pub fn incorrectly_delivered(&self) -> bool {
        self.network.written[self.written..].iter().any(|(_, node, _, octets)| {
            let message = Message::parse(octets, Mode::C).expect("a message");
            let Body::Error(error) = message.body else { return false };
            *node == VICTIM && error.error.code == ErrorCode::IncorrectlyDelivered
        })
    }
}

fn config(protection: Protection, number: u8) -> Config {
    let mut config = Config::default();
    config.gist.identity = Some(IpAddr::from([10, 9, 0, number]));
    if protection == Protection::Tls {
        config.gist.associations.tls_port = Some(TLS_PORT);
    }
    config
}

fn of(body: Body<'_>) -> Message<'_> {
    let (hops, nslpid, source_is_peer) = (10, NSLPID, true);
    Message { hops, nslpid, source_is_peer, body, extensions: Extensions::NONE }
}

/// Returns a RESERVE without optional objects.
fn reserve(rsn: Rsn) -> Reserve<'static> {
    Reserve { replace: true, rsn, ..RESERVE }
}

/// Returns a QSPEC for a rate in octets per second.
fn qspec_of(rate: f32) -> Vec<u8> {
    qos_messages::qspec(TokenBucket {
        rate,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    })
}

fn written(message: &qos_nslp::Message<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("a message");
    octets
}

/// Returns the MRI of a UDP flow, downstream.
fn flow(source: IpAddr, destination: IpAddr) -> Mri {
    let mri = crate::common::flow(source, destination);
    assert_eq!(mri.direction(), Direction::Downstream);
    mri
}
