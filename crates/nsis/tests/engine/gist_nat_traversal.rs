//! Translators of others that take part in GIST: NAT-Traversal objects in Queries, Responses and Errors (RFC 5971 section
//! 7.2.3).

use std::net::IpAddr;
use std::time::Duration;

use earmark_nsis::gist::DropReason;
use earmark_nsis::gist::machine::State;
use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::iana::subcode::object_type::UNTRANSLATED;
use earmark_wire::gist::{
    Body, Error, ErrorCode, ErrorData, Message, MessageType, Mode, Mri, NatTraversal,
    NetworkLayerInformation, ObjectType, Opaque, Profile, Profiles, ProtocolOptions,
    ProtocolOptionsList, Query, Response, Stack, StackConfiguration, Translated,
};
use earmark_wire::nsis::objects;

use crate::common::application::{Handle, TEST};
use crate::common::forged::message;
use crate::common::{Network, Packet, address, flow, forged, line, session, states};

const SECOND: Duration = Duration::from_secs(1);
/// Octets of the common header.
const HEADER: usize = 8;
const NLI: u16 = ObjectType::NetworkLayerInformation.code();
const STACK_CONFIGURATION: u16 = ObjectType::StackConfigurationData.code();
const OPAQUE: Opaque<'static> = Opaque::new(&[b"of the translator"]);

/// The flow as the host behind the translator names it.
fn inside() -> Mri {
    flow(address("192.168.7.7"), address("10.0.0.2"))
}

fn translated_by(original: Mri, translated: &[u16]) -> NatTraversal<'_> {
    NatTraversal { original, translated: Translated::Items(translated), opaque: OPAQUE }
}

fn nli(host: &str) -> NetworkLayerInformation<'static> {
    forged::nli(b"host", host)
}

fn query(by: NatTraversal<'_>, mri: Mri) -> Query<'_> {
    Query { nat_traversal: Some(by), ..forged::query(mri, session(1), nli("10.0.0.1")) }
}

fn packet(source: &str, destination: IpAddr, message: &Message<'_>) -> Packet {
    forged::packet(address(source), destination, 255, message)
}

/// Delivers a Query to node 1, and returns its answer.
fn answer<'n>(network: &'n mut Network, nslpid: u16, query: Query<'_>) -> Option<Message<'n>> {
    let before = network.seen.len();
    let to = query.mri.addresses().1;
    network.inject(1, 1, packet("10.0.0.1", to, &message(nslpid, Body::Query(query))));
    network.seen.get(before)?.packet.message()
}

/// Asserts that the NAT-Traversal object of the Query is the first in the answer, as it was.
fn assert_repeated(answer: &Message<'_>, by: &NatTraversal<'_>) {
    let found = match &answer.body {
        Body::Response(response) => response.nat_traversal,
        Body::Error(error) => error.nat_traversal,
        body => panic!("{body:?}"),
    };
    assert_eq!(found.as_ref(), Some(by));
    let octets = forged::octets(answer);
    let first = objects(&octets[HEADER..], HEADER).next().expect("an object").expect("well formed");
    assert_eq!(first.object_type(), ObjectType::NatTraversal.code());
}

#[test]
fn response_has_the_local_flow_and_repeats_the_object() {
    let (mut network, _) = line(2, |_| {});
    let mri = network.flow();
    let by = translated_by(inside(), &[NLI]);
    let answer = answer(&mut network, TEST, query(by, mri)).expect("a Response");
    assert_repeated(&answer, &by);
    let Body::Response(response) = answer.body else { panic!("{answer:?}") };
    assert_eq!(response.mri, mri.inverted());
}

/// "A GIST node receiving such a message MUST verify that all mandatory objects containing addressing have been translated
/// correctly, or else reject the message."
#[test]
fn objects_that_were_not_translated_are_refused() {
    let options = [ProtocolOptions::tcp_query(0)];
    let options = ProtocolOptionsList::new(&options);
    let configuration = StackConfiguration { hold_time: 60_000, options };
    let profiles = [Profile(&[1])];
    let stack = Stack { proposal: Profiles::new(&profiles), configuration };
    for (translated, stack, is_refused) in [
        (&[][..], None, true),
        (&[STACK_CONFIGURATION], None, true),
        (&[NLI], None, false),
        (&[NLI], Some(stack), true),
        (&[NLI, STACK_CONFIGURATION], Some(stack), false),
        // The flags of an object are beside its type.
        (&[NLI | 0x8000], None, false),
    ] {
        let (mut network, _) = line(2, |_| {});
        let by = translated_by(inside(), translated);
        let query = Query { stack, ..query(by, network.flow()) };
        let answer = answer(&mut network, TEST, query).expect("an answer");
        assert_repeated(&answer, &by);
        match answer.body {
            Body::Error(error) if is_refused => {
                let error = error.error;
                assert_eq!((error.code, error.subcode), (ErrorCode::ObjectType, UNTRANSLATED));
            }
            Body::Response(_) if !is_refused => {}
            body => panic!("{translated:?} {body:?}"),
        }
        let ignored = &network.engine(1).gist().counters().ignored;
        let count = ignored.get(&DropReason::Untranslated).copied().unwrap_or(0);
        assert_eq!(count, u64::from(is_refused));
    }
}

/// "The error message MUST include the NAT-Traversal object as the first TLV after the common header, and this is also true for
/// any other error message generated as a reply."
#[test]
fn every_error_repeats_the_object() {
    let (mut network, _) = line(2, |_| {});
    let by = translated_by(inside(), &[NLI]);
    let unserved = query(by, network.flow());
    let too_wild = {
        let flow = udp_flow(([10, 0, 0, 1], 7), ([10, 0, 0, 2], 8));
        let mri =
            Mri::PathCoupled(earmark_wire::gist::PathCoupled { destination_prefix: 3, ..flow });
        query(by, mri)
    };
    for (nslpid, query) in [(TEST - 1, unserved), (TEST, too_wild)] {
        let answer = answer(&mut network, nslpid, query).expect("an Error");
        assert!(matches!(answer.body, Body::Error(_)), "{answer:?}");
        assert_repeated(&answer, &by);
    }
}

/// A node behind a translator: the flow has another MRI at the other side.
fn behind_translator() -> (Network, Vec<Handle>, Mri) {
    let (mut network, apps) = line(2, |_| {});
    network.loss = Some(Box::new(|_, _| true));
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(Duration::from_millis(10));
    assert_eq!(states(&network, 0), [State::WaitResponse]);
    (network, apps, flow(address("203.0.113.5"), address("10.0.0.2")))
}

/// "A GIST node receiving such a message (Response or Error) MUST use the MRI from the NAT-Traversal object as the key to index
/// its internal routing state." What follows has the MRI of the Querying node.
#[test]
fn response_is_about_the_original_flow() {
    for is_told in [true, false] {
        let (mut network, _, outside) = behind_translator();
        let mri = network.flow();
        let sent = network.sent(0, MessageType::Query)[0].packet.message().expect("the Query");
        let Body::Query(sent) = sent.body else { panic!("{sent:?}") };
        let cookie = sent.query_cookie.to_vec();
        let response = Response {
            nat_traversal: is_told.then(|| translated_by(mri, &[NLI])),
            mri: outside.inverted(),
            session: session(1),
            nli: nli("10.0.0.2"),
            query_cookie: &cookie,
            responder: None,
            confirm_requested: false,
            nslp_data: None,
        };
        let response = message(TEST, Body::Response(response));
        network.inject(0, 1, packet("10.0.0.2", address("10.0.0.1"), &response));
        network.run(Duration::from_millis(10));
        let expected = if is_told { State::EstablishedDownstream } else { State::WaitResponse };
        assert_eq!(states(&network, 0), [expected]);
        let data = network.sent(0, MessageType::Data);
        assert_eq!(data.len(), usize::from(is_told));
        for seen in data {
            let message = seen.packet.message().expect("Data");
            let Body::Data(data) = message.body else { panic!("{message:?}") };
            assert_eq!((data.mri, data.nslp_data), (mri, &b"one."[..]));
        }
    }
}

#[test]
fn error_is_about_the_original_flow() {
    for is_told in [true, false] {
        let (mut network, apps, outside) = behind_translator();
        let mri = network.flow();
        let sent = network.sent(0, MessageType::Query)[0].packet.message().expect("the Query");
        let Body::Query(sent) = sent.body else { panic!("{sent:?}") };
        let translated =
            forged::octets(&message(TEST, Body::Query(Query { mri: outside, ..sent })));
        let code = ErrorCode::EndpointFound;
        let error = ErrorData::error_data_about(&translated, Mode::D, code, 0).expect("an Error");
        assert_eq!(error.mri, Some(outside));
        let nat_traversal = is_told.then(|| translated_by(mri, &[NLI]));
        let error = Error { nat_traversal, nli: Some(nli("10.0.0.2")), error };
        let message = message(0, Body::Error(error));
        network.inject(0, 1, packet("10.0.0.2", address("10.0.0.1"), &message));
        network.run(SECOND / 100);
        assert_eq!(apps[0].failures().len(), usize::from(is_told));
    }
}
