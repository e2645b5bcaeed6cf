//! Notify and NOTIFY_REQUEST (RFC 3473 sections 4.2 and 4.3), and REC_PROXY_CONTROL (RFC 5946 section 4.2): layouts of
//! the RFCs' figures in both directions, and malformed ones.

use std::net::IpAddr;

use earmark_testkit::messages::hex;
use earmark_testkit::messages::rsvp::{octets, sample, seal};
use earmark_wire::EmitError;
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::ErrorKind as E;
use earmark_wire::rsvp::*;

const ERROR: &str = "000c 0601 0a000302 00 01 0002";
const SESSION: &str = "000c 0101 0a000909 11 00 138c";
const TEMPLATE: &str = "000c 0b01 0a000001 0000 0fa0";
const TSPEC: &str =
    "0024 0c02 00000007 01000006 7f000005 48742400 453b8000 7f800000 00000064 000005dc";
const FLOWSPEC: &str =
    "0024 0902 00000007 05000006 7f000005 48742400 453b8000 7f800000 00000064 000005dc";
const FILTER: &str = "000c 0a01 0a000001 0000 0fa0";
const OTHER_FILTER: &str = "000c 0a01 0a000002 0000 0fa0";

fn wire(objects: &str) -> Vec<u8> {
    let mut wire = vec![0x10, 21, 0, 0, 64, 0, 0, 0];
    wire.extend(hex(objects));
    seal(&mut wire);
    wire
}

fn verdict(objects: &str) -> Result<(), (ErrorKind, usize)> {
    Message::parse(&wire(objects)).map(|_| ()).map_err(|error| (error.kind, error.offset))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const BUCKET: TokenBucket = TokenBucket {
    rate: 250_000.0,
    depth: 3_000.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

fn filter(source: &str) -> FilterSpec {
    FilterSpec { source: ip(source), selector: SourceSelector::Port(4_000) }
}

fn entry(subject: NotifySubject<'_>) -> NotifySession<'_> {
    let session = Session { destination: ip("10.0.9.9"), protocol: 17, flags: 0, port: 5_004 };
    NotifySession { session, carried: Carried::NONE, subject }
}

fn message<'a>(sessions: &'a [NotifySession<'a>]) -> Message<'a> {
    let code = ErrorCode::AdmissionControlFailure;
    let error = ErrorSpec { node: ip("10.0.3.2"), flags: 0, code, value: 2 };
    Message::new(64, Body::Notify(Notify { error, sessions: List::Items(sessions) }))
}

/// Section 4.3.1: ERROR_SPEC, then sessions with a sender descriptor (upstream) or a flow descriptor list (downstream).
#[test]
fn notify_has_upstream_and_downstream_sessions() {
    let flowspec = Some(FlowSpec::ControlledLoad(BUCKET));
    let flow = |source| FixedFilterFlow { flowspec, filter: filter(source) };
    let (one, two) = ([flow("10.0.0.1")], [flow("10.0.0.1"), flow("10.0.0.2")]);
    let sender = entry(NotifySubject::Sender(filter("10.0.0.1"), Some(BUCKET)));
    let flows = |flows| entry(NotifySubject::Flows(List::Items(flows)));
    let wildcard = entry(NotifySubject::Wildcard(FlowSpec::ControlledLoad(BUCKET)));
    for (sessions, objects) in [
        (vec![sender], format!("{SESSION} {TEMPLATE} {TSPEC}")),
        (vec![flows(&one)], format!("{SESSION} {FLOWSPEC} {FILTER}")),
        (vec![flows(&two)], format!("{SESSION} {FLOWSPEC} {FILTER} {OTHER_FILTER}")),
        (vec![wildcard], format!("{SESSION} {FLOWSPEC}")),
        (
            vec![sender, flows(&one), wildcard],
            format!(
                "{SESSION} {TEMPLATE} {TSPEC} {SESSION} {FLOWSPEC} {FILTER} {SESSION} {FLOWSPEC}"
            ),
        ),
    ] {
        let wire = wire(&format!("{ERROR} {objects}"));
        assert_eq!(Message::parse(&wire), Ok(message(&sessions)), "{objects}");
        assert_eq!(octets(&message(&sessions)), wire, "{objects}");
    }
}

/// POLICY_DATA and ADMIN_STATUS belong to their session; STYLE, which other documents put there, is ignored.
#[test]
fn notify_session_has_objects_of_its_own() {
    const POLICY: &str = "0008 0e02 01020304";
    const ADMIN_STATUS: &str = "0008 c401 00000001";
    const STYLE: &str = "0008 0801 0000000a";
    let octets = wire(&format!(
        "{ERROR} {SESSION} {ADMIN_STATUS} {POLICY} {TEMPLATE} {SESSION} {STYLE} {FLOWSPEC} {FILTER}"
    ));
    let Ok(Message { body: Body::Notify(notify), .. }) = Message::parse(&octets) else {
        panic!("it is valid");
    };
    let carried: Vec<usize> =
        notify.sessions.iter().map(|session| session.carried.octets()).collect();
    assert_eq!(carried, [16, 0]);
}

#[test]
fn malformed_notify_is_refused() {
    for (objects, expected) in [
        (String::new(), (E::MissingObject, 8)),
        (ERROR.to_string(), (E::MissingObject, 20)),
        (format!("{ERROR} {SESSION}"), (E::MissingObject, 32)),
        (format!("{SESSION} {TEMPLATE} {TSPEC}"), (E::MissingObject, 68)),
        (format!("{ERROR} {ERROR} {SESSION} {TEMPLATE}"), (E::DuplicateObject, 20)),
        (format!("{ERROR} {TEMPLATE} {SESSION}"), (E::IllegalObject, 20)),
        (format!("{ERROR} {SESSION} {TEMPLATE} {TEMPLATE}"), (E::DuplicateObject, 44)),
        (format!("{ERROR} {SESSION} {TSPEC} {TEMPLATE}"), (E::IllegalObject, 32)),
        (format!("{ERROR} {SESSION} {FILTER}"), (E::FlowDescriptors, 32)),
        (format!("{ERROR} {SESSION} {FLOWSPEC} {FLOWSPEC}"), (E::FlowDescriptors, 68)),
        (format!("{ERROR} {SESSION} {FLOWSPEC} {FILTER} {FLOWSPEC}"), (E::FlowDescriptors, 116)),
        (format!("{ERROR} {SESSION} {TEMPLATE} {FLOWSPEC}"), (E::FlowDescriptors, 44)),
        (format!("{ERROR} {SESSION} 000c 0b01 00000000 0000 0fa0"), (E::ZeroAddress, 32)),
        (format!("{ERROR} {SESSION} 000c 0b04 0a000001 00000fa0"), (E::ConflictingCType, 32)),
        (format!("{ERROR} 000c 0101 0a000909 11 00 0000 {TEMPLATE}"), (E::BadSourcePort, 32)),
        (format!("{ERROR} {SESSION} 0008 6301 00000000"), (E::UnknownClass, 32)),
        (format!("{ERROR} {SESSION} {TEMPLATE} 0009 0b01"), (E::ObjectLength, 44)),
        (
            format!("{ERROR} {SESSION} {TEMPLATE} 000c 1701 01 00abcd 00000009"),
            (E::ObjectOrder, 44),
        ),
    ] {
        assert_eq!(verdict(&objects), Err(expected), "{objects}");
    }
    assert_eq!(verdict(&format!("{ERROR} {SESSION} {TEMPLATE}")), Ok(()));
    let nothing = message(&[]);
    assert_eq!(nothing.emit(&mut [0; 99]), Err(EmitError::Contradiction));
    let flows = [FixedFilterFlow { flowspec: None, filter: filter("10.0.0.1") }];
    let sessions = [entry(NotifySubject::Flows(List::Items(&flows)))];
    assert_eq!(message(&sessions).emit(&mut [0; 99]), Err(EmitError::Contradiction));
}

/// Section 4.2.1: only the first NOTIFY_REQUEST has a meaning, and others are not propagated.
#[test]
fn first_notify_request_counts() {
    const FIRST: &str = "0008 c301 0a000001";
    const SECOND: &str = "0014 c302 20010db8000000000000000000000001";
    let path = |objects: &str| {
        let mut octets = octets(&sample(MessageType::Path, Style::Wildcard, false).message());
        octets.extend(hex(objects));
        let length = u16::try_from(octets.len()).expect("it fits").to_be_bytes();
        octets[6..8].copy_from_slice(&length);
        seal(&mut octets);
        octets
    };
    for (objects, expected, carried) in [
        (FIRST.to_string(), Some("10.0.0.1"), 8),
        (SECOND.to_string(), Some("2001:db8::1"), 20),
        (format!("{FIRST} {SECOND}"), Some("10.0.0.1"), 8),
        (format!("{SECOND} {FIRST}"), Some("2001:db8::1"), 20),
        ("0008 c303 0a000001".to_string(), None, 8),
        (String::new(), None, 0),
    ] {
        let octets = path(&objects);
        let Ok(Message { body: Body::Path(path), .. }) = Message::parse(&octets) else {
            panic!("{objects} is valid");
        };
        assert_eq!(path.carried.notify_request(), expected.map(ip), "{objects}");
        assert_eq!(path.carried.octets(), carried, "{objects}");
    }
}

/// RFC 5946 figure 7: the length is always 8, the reserved bits are zero when sent and ignored when received.
#[test]
fn receiver_proxy_control_is_one_number() {
    let elements = [PolicyElement::ReceiverProxy(2)];
    let data = PolicyData { options: List::EMPTY, elements: List::Items(&elements) };
    let mut buffer = [0xff; 16];
    assert_eq!(data.emit(&mut buffer), Ok(16));
    assert_eq!(buffer.to_vec(), hex("0010 0e01 0008 0000 0008 0007 000000 02"));
    buffer[12..15].fill(0xff);
    let read = |octets: &[u8]| {
        let carried = Carried::Objects(octets);
        let element = PolicyData::parse(&carried.iter().next()?).ok()?.elements.iter().next()?;
        Some(element == PolicyElement::ReceiverProxy(2))
    };
    assert_eq!(read(&buffer), Some(true));
    let mut long = buffer.to_vec();
    long.extend([0; 4]);
    (long[1], long[9]) = (20, 12);
    assert_eq!(read(&long), None);
}
