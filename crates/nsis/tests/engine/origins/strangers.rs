//! Whole exchanges: handshakes, and messages in them.
#![allow(dead_code, unreachable_pub)] // each test uses a part

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{ConnectionId, Outgoing, Transport};
use earmark_wire::gist::iana::ProtocolId;
use earmark_wire::gist::{
    Body, Confirm, Continuation, Data, Error, ErrorCode, ErrorData, Message, MessageType, Mode,
    Mri, NetworkLayerInformation, PathCoupled, Profile, Profiles, ProtocolOptions,
    ProtocolOptionsList, Query, Returned, SessionId, Stack, StackConfiguration,
};
use earmark_wire::qos_nslp::iana::TransientFailure;
use earmark_wire::qos_nslp::{
    self, Extra, GenericFlags, InfoSpec, Notify, Outcome, PacketClassifier, Reserve, Rsn, RsnList,
    Summary,
};

use super::{
    IN_THE_CLEAR, Kind, NEXT, Origin, PORT_OF_STRANGERS, PREVIOUS, Protection, SESSION, Scene,
    VICTIM, flow, of, qspec_of, reserve, written,
};
use crate::common::{Packet, forged};

const TLS: [u8; 2] = [ProtocolId::Tls.code(), ProtocolId::ForwardsTcp.code()];
const TCP: [u8; 1] = [ProtocolId::ForwardsTcp.code()];
const OF_STRANGER: SessionId = SessionId([9; 16]);

/// A handshake: its session, flow, and sender.
#[derive(Clone, Copy)]
struct Handshake {
    session: SessionId,
    mri: Mri,
    nli: NetworkLayerInformation<'static>,
    /// Interface through which it arrives.
    through: u32,
}

impl Scene {
    /// Returns the stack proposal of the victim.
    fn profiles(&self) -> Vec<Profile<'static>> {
        match self.protection {
            Protection::Tls => vec![Profile(&TLS), Profile(&TCP)],
            _ => vec![Profile(&TCP)],
        }
    }

    /// Sends a Query; returns the cookie of the Response, if there is one.
    fn query(&mut self, handshake: &Handshake, has_stack: bool) -> Option<Vec<u8>> {
        let Handshake { session, mri, nli, through } = *handshake;
        let profiles = self.profiles();
        let options = [ProtocolOptions::tcp_query(0)];
        let configuration =
            StackConfiguration { hold_time: 30_000, options: ProtocolOptionsList::new(&options) };
        let proposal = Profiles::new(&profiles);
        let query = of(Body::Query(Query {
            nat_traversal: None,
            mri,
            session,
            nli,
            query_cookie: b"cookiecookie",
            stack: has_stack.then_some(Stack { proposal, configuration }),
            nslp_data: None,
        }));
        let (source, destination) = mri.addresses();
        let is_down = mri.direction() == earmark_wire::gist::Direction::Downstream;
        // Downstream it looks like a packet of the flow, upstream it names its sender.
        let query = Message { source_is_peer: !is_down, ..query };
        let (from, to) =
            if is_down { (source, destination) } else { (nli.interface_address, source) };
        let (sent, wrote) = (self.network.seen.len(), self.network.written.len());
        self.network.inject(VICTIM, through, forged::packet(from, to, 255, &query));
        let cookie = |message: Message<'_>| match message.body {
            Body::Response(response) => response.responder.map(|it| it.cookie.to_vec()),
            _ => None,
        };
        let datagrams = self.network.seen[sent..].iter();
        let in_datagram = datagrams.filter_map(|seen| seen.packet.message()).find_map(cookie);
        let octets = self.network.written[wrote..].iter().map(|(.., octets)| octets);
        let in_stream =
            octets.filter_map(|octets| Message::parse(octets, Mode::C).ok()).find_map(cookie);
        in_datagram.or(in_stream)
    }

    /// Completes a handshake in the clear, with data in its Confirm.
    fn confirm(&mut self, handshake: &Handshake, data: Option<&[u8]>) {
        let Some(cookie) = self.query(handshake, false) else { return };
        let Handshake { session, mri, nli, through } = *handshake;
        let confirm = of(Body::Confirm(Confirm {
            mri,
            session,
            nli,
            returned: Some(Returned { cookie: &cookie, proposal: None, configuration: None }),
            nslp_data: data,
        }));
        let packet = forged::packet(nli.interface_address, self.own(through), 255, &confirm);
        self.network.inject(VICTIM, through, packet);
        self.network.run(Duration::from_millis(50));
    }

    /// Opens an association of a peer with the victim, by the handshake of a session of its own.
    pub(super) fn open_association(&mut self, side: u32, transport: Transport) -> ConnectionId {
        let other = if side == PREVIOUS { NEXT } else { PREVIOUS };
        self.opened += 1;
        let handshake = Handshake {
            session: SessionId([90 + self.opened; 16]),
            mri: flow(self.peer(side), self.peer(other)),
            nli: self.nli(side),
            through: side,
        };
        let connection = self.network.open(VICTIM, &self.peer(side).to_string(), transport);
        let cookie = self.query(&handshake, true).expect("a Response");
        let profiles = self.profiles();
        let options = ProtocolOptionsList::NONE;
        let confirm = of(Body::Confirm(Confirm {
            mri: handshake.mri,
            session: handshake.session,
            nli: handshake.nli,
            returned: Some(Returned {
                cookie: &cookie,
                proposal: Some(Profiles::new(&profiles)),
                configuration: Some(StackConfiguration { hold_time: 30_000, options }),
            }),
            nslp_data: None,
        }));
        self.network.write(VICTIM, connection, &forged::octets(&confirm));
        let mut views = self.network.engine(VICTIM).gist().associations();
        let view = views.find(|view| view.connection == connection).expect("an association");
        let peer = view.peer.as_ref().expect("the association of a peer");
        assert_eq!((peer.address, view.stage), (self.peer(side), "open"));
        connection
    }

    /// Lets a stranger, which can be reached at its address, ask for the flow of the session.
    pub fn handshake_of_stranger(&mut self, through: u32) {
        let address: IpAddr = match (through, self.six) {
            (PREVIOUS, false) => [10, 0, 0, 66].into(),
            (PREVIOUS, true) => crate::common::address("fd00:0::66"),
            _ => self.peer(PORT_OF_STRANGERS),
        };
        let nli =
            NetworkLayerInformation { interface_address: address, ..self.nli(PORT_OF_STRANGERS) };
        let handshake = Handshake { session: SESSION, mri: self.mri(), nli, through };
        self.confirm(&handshake, None);
    }

    /// Lets a stranger reserve for a flow of its own with the identifier of the session.
    pub fn reserve_of_stranger(&mut self) {
        let qspec = qspec_of(125_000.0);
        let rsn = Rsn { number: 0, epoch: 666 };
        let message = Reserve { qspec: Some(&qspec), rii: Some(9), ..reserve(rsn) };
        let data = written(&qos_nslp::Message::Reserve(message));
        let mri = flow(self.peer(PORT_OF_STRANGERS), self.end());
        self.confirm(&self.handshake_of_port(mri), Some(&data));
    }

    /// Lets a stranger reserve for a flow between it and the end of the session, or the other way if `upstream`; `ranges`
    /// has the prefix lengths of its own address and of the other one.
    pub fn reserve_for_range(
        &mut self,
        upstream: bool,
        ranges: (u8, u8),
        classifier: Option<PacketClassifier>,
    ) {
        let qspec = qspec_of(125_000.0);
        let rsn = Rsn { number: 0, epoch: 666 };
        let message = Reserve { qspec: Some(&qspec), classifier, ..reserve(rsn) };
        let data = written(&qos_nslp::Message::Reserve(message));
        let (own, other) = (self.peer(PORT_OF_STRANGERS), self.end());
        let (ends, prefixes) = match upstream {
            true => ((self.peer(PREVIOUS), own), (ranges.1, ranges.0)),
            false => ((own, other), ranges),
        };
        let Mri::PathCoupled(mri) = flow(ends.0, ends.1) else { unreachable!("a flow") };
        let (source_prefix, destination_prefix) = prefixes;
        let mri = Mri::PathCoupled(PathCoupled {
            source_prefix,
            destination_prefix,
            source_port: None,
            ..mri
        });
        let mri = if upstream { mri.inverted() } else { mri };
        let handshake = Handshake { session: OF_STRANGER, ..self.handshake_of_port(mri) };
        self.confirm(&handshake, Some(&data));
    }

    /// Lets a stranger become the next node of a flow to it with the identifier of the session, and report a loss.
    pub fn notify_of_stranger(&mut self) {
        let failure = TransientFailure::ReservationFailure;
        let data = written(&qos_nslp::Message::Notify(Notify {
            flags: GenericFlags::default(),
            info: InfoSpec::new(Outcome::TransientFailure(failure)),
            qspec: None,
            extra: Extra::NONE,
        }));
        let mri = flow(self.peer(PREVIOUS), self.peer(PORT_OF_STRANGERS)).inverted();
        self.confirm(&self.handshake_of_port(mri), Some(&data));
    }

    /// Lets a node with another address behind the port of strangers reserve little for a flow of its own.
    pub fn reserve_of_host(&mut self, host: u8, session: u8) {
        let address = IpAddr::from([10, 0, 77, host]);
        let rsn = Rsn { number: 0, epoch: 666 };
        let qspec = qspec_of(1_000.0);
        let message = Reserve { qspec: Some(&qspec), ..reserve(rsn) };
        let data = written(&qos_nslp::Message::Reserve(message));
        self.confirm_of_host(host, session, flow(address, self.end()), Some(&data));
    }

    /// Lets such a node ask for the resources of a flow of its own.
    pub fn ask_of_host(&mut self, host: u8, session: u8) {
        let address = IpAddr::from([10, 0, 77, host]);
        let qspec = qspec_of(1_000.0);
        let message = qos_nslp::Message::Query(qos_nslp::Query {
            flags: GenericFlags::default(),
            reserve_init: false,
            rii: Some(9),
            bound: qos_nslp::BoundSessions::NONE,
            classifier: None,
            info: None,
            qspec: &qspec,
            second_qspec: None,
            extra: Extra::NONE,
        });
        let data = written(&message);
        self.confirm_of_host(host, session, flow(address, self.end()), Some(&data));
    }

    /// Sends a Query for an application that the victim does not serve through the port of strangers.
    pub fn query_of_unserved_application(&mut self, session: u8) {
        let mri = flow(self.peer(PORT_OF_STRANGERS), self.end());
        let query = of(Body::Query(Query {
            nat_traversal: None,
            mri,
            session: SessionId([session; 16]),
            nli: self.nli(PORT_OF_STRANGERS),
            query_cookie: b"cookiecookie",
            stack: None,
            nslp_data: None,
        }));
        let query = Message { nslpid: 4_444, source_is_peer: false, ..query };
        let (source, destination) = mri.addresses();
        let packet = forged::packet(source, destination, 255, &query);
        self.network.inject(VICTIM, PORT_OF_STRANGERS, packet);
    }

    /// Sends a datagram to port 270 of another node, which this router sees only because it has router alert.
    pub fn datagram_for_another_node(&mut self, session: u8) {
        let data = of(Body::Data(Data {
            nat_traversal: None,
            mri: flow(self.peer(PORT_OF_STRANGERS), self.end()),
            session: SessionId([session; 16]),
            nli: Some(self.nli(PORT_OF_STRANGERS)),
            nslp_data: b"data",
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        }));
        let packet = forged::packet(self.peer(PORT_OF_STRANGERS), self.end(), 255, &data);
        self.network.inject(VICTIM, PORT_OF_STRANGERS, packet);
    }

    /// Completes the handshake of such a node.
    pub fn confirm_of_host(&mut self, host: u8, session: u8, mri: Mri, data: Option<&[u8]>) {
        let nli = NetworkLayerInformation {
            interface_address: [10, 0, 77, host].into(),
            ..self.nli(PORT_OF_STRANGERS)
        };
        let session = SessionId([session; 16]);
        self.confirm(&Handshake { session, mri, nli, through: PORT_OF_STRANGERS }, data);
    }

    /// Delivers the Response of the next node about the session again, through any interface of the victim and with any
    /// TTL.
    pub fn replay_response(&mut self, through: u32, ttl: u8) {
        let is_response = |packet: &Packet| match packet.message().map(|message| message.body) {
            Some(Body::Response(response)) => response.session == SESSION,
            _ => false,
        };
        let to_victim = self.own(NEXT);
        let seen = self.network.seen.iter().map(|seen| &seen.packet);
        let mut responses = seen.filter(|packet| packet.how.destination == to_victim);
        let response = responses.find(|packet| is_response(packet)).expect("a Response").clone();
        let response = Packet { how: Outgoing { ttl, ..response.how }, ..response };
        self.network.inject(VICTIM, through, response);
        self.network.run(Duration::from_millis(50));
    }

    /// Sends a Query through the port of strangers that names the previous node as its sender.
    pub fn query_of_port(&mut self, session: u8) {
        let mri = flow(self.peer(PORT_OF_STRANGERS), self.end());
        let (session, through) = (SessionId([session; 16]), PORT_OF_STRANGERS);
        self.query(&Handshake { session, mri, nli: self.nli(PREVIOUS), through }, false);
    }

    /// Sends Data for an unknown session that names the previous node as its sender.
    pub fn data_of_unknown_session(&mut self, through: u32) {
        let data = of(Body::Data(Data {
            nat_traversal: None,
            mri: self.mri(),
            session: SessionId([99; 16]),
            nli: Some(self.nli(PREVIOUS)),
            nslp_data: b"data",
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        }));
        let packet = forged::packet(self.peer(through), self.own(PREVIOUS), 255, &data);
        self.network.inject(VICTIM, through, packet);
    }

    /// Refreshes the session with a refresh period in milliseconds.
    pub fn refresh_with_period(&mut self, period: u32) {
        let rsn = self.network.engine(VICTIM).qos().session(SESSION).expect("a session").rsn;
        let refresh = Reserve { refresh_period: Some(period), ..reserve(rsn) };
        let payload = written(&qos_nslp::Message::Reserve(refresh));
        self.deliver(Kind::Refresh, Origin::Own, &payload);
    }

    fn handshake_of_port(&self, mri: Mri) -> Handshake {
        let nli = self.nli(PORT_OF_STRANGERS);
        Handshake { session: SESSION, mri, nli, through: PORT_OF_STRANGERS }
    }

    /// Delivers a RESERVE about the session in the clear whose summary lists the secured one.
    pub fn summary(&mut self, tear: bool) {
        let rsn_of =
            |session| self.network.engine(VICTIM).qos().session(session).expect("a session").rsn;
        let (rsn, other) = (rsn_of(IN_THE_CLEAR), rsn_of(SESSION));
        let numbers = [other.number.to_be_bytes()];
        let rsns = Some(RsnList { epoch: other.epoch, wire: &numbers });
        let summary = Some(Summary { sessions: &[SESSION.0], rsns });
        let payload =
            written(&qos_nslp::Message::Reserve(Reserve { tear, summary, ..reserve(rsn) }));
        let session = self.network.engine(0).qos().session(IN_THE_CLEAR).expect("a session");
        let data = of(Body::Data(Data {
            nat_traversal: None,
            mri: Mri::PathCoupled(session.mri),
            session: IN_THE_CLEAR,
            nli: Some(self.nli(PREVIOUS)),
            nslp_data: &payload,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        }));
        let packet = forged::packet(self.peer(PREVIOUS), self.own(PREVIOUS), 255, &data);
        self.network.run(Duration::from_millis(100));
        self.network.inject(VICTIM, PREVIOUS, packet);
        self.network.run(Duration::from_millis(50));
        let left = self.network.engine(VICTIM).qos().session(IN_THE_CLEAR);
        assert_eq!(left.is_none(), tear, "its own session is refreshed, or torn down");
    }

    /// Returns when the routing state towards the previous node ends without a refresh.
    pub fn expiry(&self) -> earmark_core::Time {
        let mri = self.mri().inverted();
        let mut states = self.network.engine(VICTIM).gist().routing_states(0);
        let found = states.find(|(_, view)| view.session == SESSION && view.mri == mri);
        found.and_then(|(_, view)| view.expires_at).expect("a routing state")
    }

    /// Delivers a refreshing Query in the name of the previous node, with a routing state validity in milliseconds.
    pub fn query_with_validity(&mut self, validity: u32) {
        let nli =
            NetworkLayerInformation { routing_state_validity: validity, ..self.nli(PREVIOUS) };
        let (mri, through) = (self.mri(), PREVIOUS);
        let handshake = Handshake { session: SESSION, mri, nli, through };
        let has_stack = self.protection != Protection::Clear;
        self.query(&handshake, has_stack);
    }

    /// Loses the Responses of the next node, until a refreshing Query of the victim is unanswered.
    pub fn lose_responses(&mut self) {
        self.network.loss = Some(Box::new(|seen, _| {
            seen.node == 2 && seen.message_type() == Some(MessageType::Response)
        }));
        let before = self.network.sent(VICTIM, MessageType::Query).len();
        for _ in 0..100 {
            self.network.run(Duration::from_millis(300));
            if self.network.sent(VICTIM, MessageType::Query).len() > before {
                return;
            }
        }
        panic!("no Query");
    }

    /// Delivers the Error "Endpoint Found" about the last Query of the victim.
    pub fn endpoint_found(&mut self, through: u32) {
        let queries = self.network.sent(VICTIM, MessageType::Query);
        let query = queries.last().expect("a Query").packet.octets[12..].to_vec();
        let error = ErrorData::error_data_about(&query, Mode::D, ErrorCode::EndpointFound, 0);
        let error =
            Error { nat_traversal: None, nli: Some(self.nli(through)), error: error.expect("one") };
        let message = Message { nslpid: 0, ..of(Body::Error(error)) };
        let packet = forged::packet(self.peer(through), self.own(NEXT), 255, &message);
        self.network.inject(VICTIM, through, packet);
    }

    /// Returns whether the victim takes itself for the last node.
    pub fn is_last(&self) -> bool {
        let session = self.network.engine(VICTIM).qos().session(SESSION);
        session.is_some_and(|session| session.role == "qnr")
    }
}
