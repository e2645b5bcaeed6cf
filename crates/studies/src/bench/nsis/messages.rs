//! Encoded NSIS messages of hosts without a node: a session of QoS NSLP in datagrams of GIST.

use std::net::IpAddr;
use std::time::Duration;

use earmark_wire::gist::{
    Body, Continuation, Data, Direction, Extensions, MAGIC_LEN, Message as Gist, Mode, Mri,
    NetworkLayerInformation, PathCoupled, SessionId, datagram, emit_magic,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::qos_nslp::iana::{NSLPID, Success};
use earmark_wire::qos_nslp::{
    Answers, BoundSessions, Extra, GenericFlags, InfoSpec, Message as QosNslp, Outcome, Reserve,
    Response, Rsn,
};
use earmark_wire::qspec::iana::MessageSequence;
use earmark_wire::qspec::{Parameter, Procedure, QosObject, Qspec, Value};
use earmark_wire::udp;

/// Purpose of a RESERVE; two messages of one session differ in nothing else.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) enum Purpose {
    /// Sets up a session, requests this rate in octets a second (TMOD-1), and requests a RESPONSE with this number
    /// (RII).
    SetUp(f32, u32),
    /// Refreshes the session.
    Refresh,
    /// Tears down the session.
    Tear,
}

/// Returns the SESSION-ID for a number: looks random, and is different for each number.
pub(in crate::bench) fn session(number: u64) -> SessionId {
    let name = u128::from(number) + 1;
    SessionId(name.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes())
}

/// A flow of UDP from a host and port to another.
pub(in crate::bench) fn flow(
    (source, destination): (IpAddr, IpAddr),
    [source_port, destination_port]: [u16; 2],
    direction: Direction,
) -> Mri {
    Mri::PathCoupled(PathCoupled {
        source,
        destination,
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(udp::PROTOCOL),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(source_port),
        destination_port: Some(destination_port),
        direction,
    })
}

/// A RESERVE.
pub(in crate::bench) fn reserve(purpose: Purpose, refresh_period: Option<Duration>) -> Vec<u8> {
    let (wanted, rii) = match purpose {
        Purpose::SetUp(rate, rii) => (Some(qspec(rate)), Some(rii)),
        Purpose::Refresh | Purpose::Tear => (None, None),
    };
    octets(&QosNslp::Reserve(Reserve {
        flags: GenericFlags::default(),
        tear: matches!(purpose, Purpose::Tear),
        replace: true,
        rsn: Rsn { number: 0, epoch: 4_711 },
        rii,
        refresh_period: refresh_period.map(|period| period.as_millis() as u32),
        bound: BoundSessions::NONE,
        summary: None,
        binding: None,
        info: None,
        classifier: None,
        qspec: wanted.as_deref(),
        extra: Extra::NONE,
    }))
}

fn qspec(rate: f32) -> Vec<u8> {
    let bucket = TokenBucket {
        rate,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 100,
        max_packet_size: 1_500,
    };
    let desired = [Parameter::mandatory(Value::Tmod1(bucket))];
    let procedure = Procedure { sequence: MessageSequence::TwoWay, combination: 0 };
    let qspec = Qspec { desired: Some(QosObject::new(&desired)), ..Qspec::new(procedure) };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).expect("the buffer is long enough");
    octets
}

/// Encodes the RESPONSE that reports success, to the RESERVE with this RII.
pub(in crate::bench) fn response(rii: u32) -> Vec<u8> {
    octets(&QosNslp::Response(Response {
        flags: GenericFlags::default(),
        answers: Some(Answers::Rii(rii)),
        info: InfoSpec::new(Outcome::Success(Success::Reservation)),
        summary: None,
        qspec: None,
        extra: Extra::NONE,
    }))
}

fn octets(message: &QosNslp<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("the buffer is long enough");
    octets
}

/// A message of QoS NSLP along existing routing state.
pub(in crate::bench) fn data<'a>(
    mri: Mri,
    session: SessionId,
    nli: NetworkLayerInformation<'a>,
    nslp_data: &'a [u8],
) -> Body<'a> {
    Body::Data(Data {
        nat_traversal: None,
        mri,
        session,
        nli: Some(nli),
        nslp_data,
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    })
}

/// Encodes a message for QoS NSLP with the UDP header of its datagram into `octets`, and replaces their content.
pub(in crate::bench) fn write(
    addresses: (IpAddr, IpAddr),
    hops: u8,
    source_is_peer: bool,
    body: Body<'_>,
    octets: &mut Vec<u8>,
) {
    write_for(NSLPID, addresses, hops, source_is_peer, body, octets);
}

/// Encodes a message like [`write`], for an application.
pub(in crate::bench) fn write_for(
    nslpid: u16,
    (source, destination): (IpAddr, IpAddr),
    hops: u8,
    source_is_peer: bool,
    body: Body<'_>,
    octets: &mut Vec<u8>,
) {
    let extensions = Extensions::NONE;
    let message = Gist { hops, nslpid, source_is_peer, body, extensions };
    octets.clear();
    octets.resize(udp::HEADER + MAGIC_LEN + message.buffer_len(), 0);
    let room = emit_magic(&mut octets[udp::HEADER..]).expect("the buffer is long enough");
    message.emit(room).expect("the buffer is long enough");
    let port = earmark_nsis::PORT;
    udp::Repr { source, destination, source_port: port, destination_port: port }
        .emit(octets)
        .expect("the buffer is long enough");
}

/// Returns the body of a datagram; `None` if it is not a message of GIST.
pub(in crate::bench) fn body(octets: &[u8]) -> Option<Body<'_>> {
    let octets = datagram(octets.get(udp::HEADER..)?)?;
    Gist::parse(octets, Mode::D).ok().map(|message| message.body)
}
