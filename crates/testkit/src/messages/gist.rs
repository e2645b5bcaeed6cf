//! GIST: any message.

use std::net::IpAddr;

use earmark_wire::gist::iana::NSLP_DATA_CONTINUATION;
use earmark_wire::gist::*;
use earmark_wire::udp;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::packets::{DESTINATION, SOURCE};
use super::qos_nslp::valid_reserve;
use super::words;

/// Owned parts of messages, which borrow from them.
#[derive(Clone, Debug)]
pub struct Kit {
    header: (u8, u16, bool),
    kind: u8,
    flags: (bool, bool),
    mri: Mri,
    session: [u8; 16],
    nli: (Vec<u8>, u8, IpAddr, u32),
    has: [bool; 6],
    cookies: [Vec<[u8; 4]>; 2],
    nslp_data: Vec<[u8; 4]>,
    profiles: Vec<Vec<u8>>,
    ports: Vec<[u8; 2]>,
    hold_time: u32,
    translated: Vec<u16>,
    opaque: Vec<Vec<u8>>,
    error: (u8, u16, u8, [u8; 8]),
    object: Vec<[u8; 4]>,
    comment: Option<String>,
    extensions: Vec<(u16, Vec<[u8; 4]>)>,
    hello: u32,
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ]
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Downstream), Just(Direction::Upstream)]
}

fn path_coupled() -> impl Strategy<Value = Mri> {
    let fields = (of(any::<u8>()), of(0..64_u8), of(0..0x10_0000_u32), of(any::<u32>()));
    let ports = (of(any::<u16>()), of(any::<u16>()));
    (addresses(), any::<[u8; 2]>(), fields, ports, direction()).prop_map(
        |((source, destination), prefixes, fields, ports, direction)| {
            let (protocol, ds_field, flow_label, spi) = fields;
            let bits = if source.is_ipv4() { 32 } else { 128 };
            let with_protocol = protocol.is_some();
            let spi = spi.filter(|_| with_protocol);
            let port = |port: Option<u16>| port.filter(|_| with_protocol && spi.is_none());
            Mri::PathCoupled(PathCoupled {
                source,
                destination,
                source_prefix: prefixes[0] % (bits + 1),
                destination_prefix: prefixes[1] % (bits + 1),
                protocol,
                ds_field,
                flow_label: flow_label.filter(|_| source.is_ipv6()),
                spi,
                source_port: port(ports.0),
                destination_port: port(ports.1),
                direction,
            })
        },
    )
}

fn mri() -> impl Strategy<Value = Mri> {
    let loose = (addresses(), direction()).prop_map(|((source, destination), direction)| {
        Mri::LooseEnd(LooseEnd { source, destination, direction })
    });
    prop_oneof![3 => path_coupled(), 1 => loose]
}

/// Generates messages of every type.
pub fn kit() -> impl Strategy<Value = Kit> {
    let nli = (vec(any::<u8>(), 0..40), any::<u8>(), addresses(), 1..=u32::MAX)
        .prop_map(|(identity, ttl, (address, _), validity)| (identity, ttl, address, validity));
    let front = (any::<(u8, u16, bool)>(), 0..6_u8, any::<(bool, bool)>(), mri());
    let lists = (
        any::<[bool; 6]>(),
        [words(0..6), words(0..6)],
        words(0..20),
        vec(vec(1..5_u8, 1..6), 1..5),
        vec(any::<[u8; 2]>(), 5),
        1..=u32::MAX,
    );
    let nat = (vec(any::<u16>(), 0..5), vec(vec(any::<u8>(), 0..9), 0..4));
    let error = (any::<(u8, u16, u8, [u8; 8])>(), words(0..20), of("[^\0]{0,9}"));
    let is_unknown = |code: &u16| *code != NSLP_DATA_CONTINUATION;
    let unknown_type = (11..0x1000_u16).prop_filter("the type is in use", is_unknown);
    let extensions = vec((unknown_type, words(0..3)), 0..3);
    (front, any::<[u8; 16]>(), nli, lists, nat, error, extensions, any::<u32>()).prop_map(
        |(front, session, nli, lists, (translated, opaque), error, extensions, hello)| Kit {
            header: front.0,
            kind: front.1,
            flags: front.2,
            mri: front.3,
            session,
            nli,
            has: lists.0,
            cookies: lists.1,
            nslp_data: lists.2,
            profiles: lists.3,
            ports: lists.4,
            hold_time: lists.5,
            translated,
            opaque,
            error: error.0,
            object: error.1,
            comment: error.2,
            extensions,
            hello,
        },
    )
}

/// Parts shared by several message types, borrowed from a kit.
struct Common<'a> {
    nat_traversal: Option<NatTraversal<'a>>,
    mri: Mri,
    session: SessionId,
    nli: NetworkLayerInformation<'a>,
    query_cookie: &'a [u8],
    cookie: &'a [u8],
    stack: Option<Stack<'a>>,
    nslp_data: Option<&'a [u8]>,
    infos: &'a [Info<'a>],
}

impl Kit {
    /// Returns the body of the kit, and a mode in which the message may travel.
    fn body<'a>(&'a self, common: &Common<'a>) -> (Body<'a>, Mode) {
        let Common { nat_traversal, mri, session, nli, query_cookie, cookie, .. } = *common;
        let Common { stack, nslp_data, infos, .. } = *common;
        let (first, second) = self.flags;
        let mode = if self.has[5] { Mode::C } else { Mode::D };
        let body = match self.kind {
            0 => Body::Query(Query {
                nat_traversal,
                mri,
                session,
                nli,
                query_cookie,
                stack,
                nslp_data,
            }),
            1 => Body::Response(Response {
                nat_traversal,
                mri,
                session,
                nli,
                query_cookie,
                responder: self.has[3].then_some(ResponderPart { cookie, stack }),
                confirm_requested: first || self.has[3],
                nslp_data,
            }),
            2 => Body::Confirm(Confirm {
                mri,
                session,
                nli,
                returned: self.has[3].then_some(Returned {
                    cookie,
                    proposal: stack.map(|stack| stack.proposal),
                    configuration: stack.map(|stack| stack.configuration).filter(|_| self.has[4]),
                }),
                nslp_data,
            }),
            3 => Body::Data(Data {
                nat_traversal,
                mri,
                session,
                nli: (mode == Mode::D).then_some(nli),
                nslp_data: self.nslp_data.as_flattened(),
                continuation: Continuation::NONE,
                context_free: first && mode == Mode::D,
                explicitly_routed: second,
            }),
            4 => Body::Error(Error {
                nat_traversal,
                nli: (mode == Mode::D || self.has[1]).then_some(nli),
                error: self.error(mri, infos),
            }),
            _ => Body::Hello(Hello { id: self.hello, reply_requested: first && self.hello != 0 }),
        };
        let mode = match self.kind {
            0 => Mode::D,
            1..=4 => mode,
            _ => Mode::C,
        };
        (body, mode)
    }

    fn error<'a>(&'a self, mri: Mri, infos: &'a [Info<'a>]) -> ErrorData<'a> {
        let (first, second) = self.flags;
        ErrorData {
            class: ErrorClass::from_code(self.error.0),
            code: ErrorCode::from_code(self.error.1),
            subcode: self.error.2,
            d_mode: first,
            q_mode: first && second,
            original: self.error.3,
            session: self.has[2].then_some(SessionId(self.session)),
            mri: self.has[3].then_some(mri),
            infos: if self.has[4] { Infos::Items(infos) } else { Infos::NONE },
            comment: self.comment.as_deref(),
        }
    }
}

/// Calls `check` with the message of `kit` and a mode in which it may travel.
pub fn with_message(kit: &Kit, check: impl FnOnce(&Message<'_>, Mode)) {
    let profiles: Vec<_> = kit.profiles.iter().map(|layers| Profile(layers)).collect();
    // Options for each profile with TCP, and options for all profiles.
    let options: Vec<_> = (1..)
        .zip(&profiles)
        .zip(&kit.ports)
        .filter(|((_, profile), _)| profile.contains(ProtocolId::ForwardsTcp))
        .map(|((number, _), port)| ProtocolOptions::tcp_response(number, port))
        .collect();
    let configuration = StackConfiguration {
        hold_time: kit.hold_time,
        options: ProtocolOptionsList::new(&options),
    };
    let stack = Stack { proposal: Profiles::new(&profiles), configuration };
    let opaque: Vec<_> = kit.opaque.iter().map(Vec::as_slice).collect();
    let extensions: Vec<_> = kit
        .extensions
        .iter()
        .map(|(object_type, value)| Extension {
            object_type: *object_type,
            value: value.as_flattened(),
        })
        .collect();
    let infos = [
        Info::MessageLength(kit.error.1),
        Info::Mtu(kit.error.1),
        Info::ObjectType(kit.error.1),
        Info::ObjectValue { offset: kit.error.1, object: kit.object.as_flattened() },
        Info::Unknown { info_type: 5, value: kit.object.as_flattened() },
    ];
    let (identity, ip_ttl, interface_address, validity) = &kit.nli;
    let nli = NetworkLayerInformation {
        peer_identity: identity,
        ip_ttl: *ip_ttl,
        interface_address: *interface_address,
        routing_state_validity: *validity,
    };
    let nat_traversal = kit.has[0].then_some(NatTraversal {
        original: kit.mri.inverted(),
        translated: Translated::Items(&kit.translated),
        opaque: Opaque::new(&opaque),
    });
    let mri = match kit.mri {
        Mri::LooseEnd(loose) if kit.kind == 0 || kit.kind == 3 => {
            Mri::LooseEnd(LooseEnd { direction: Direction::Downstream, ..loose })
        }
        other => other,
    };
    let [query_cookie, cookie] = [&kit.cookies[0], &kit.cookies[1]].map(|it| it.as_flattened());
    let common = Common {
        nat_traversal,
        mri,
        session: SessionId(kit.session),
        nli,
        query_cookie,
        cookie,
        stack: kit.has[2].then_some(stack),
        nslp_data: kit.has[1].then_some(kit.nslp_data.as_flattened()),
        infos: &infos,
    };
    let (body, mode) = kit.body(&common);
    let (hops, nslpid, source_is_peer) = kit.header;
    let extensions = Extensions::Items(&extensions);
    check(&Message { hops, nslpid, source_is_peer, body, extensions }, mode);
}

/// Returns the routing information of a UDP flow between two ports of hosts, downstream.
pub fn udp_flow(
    (source, source_port): (impl Into<IpAddr>, u16),
    (destination, destination_port): (impl Into<IpAddr>, u16),
) -> PathCoupled {
    let (source, destination) = (source.into(), destination.into());
    let bits = if source.is_ipv4() { 32 } else { 128 };
    PathCoupled {
        source,
        destination,
        source_prefix: bits,
        destination_prefix: bits,
        protocol: Some(udp::PROTOCOL),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(source_port),
        destination_port: Some(destination_port),
        direction: Direction::Downstream,
    }
}

/// Returns a Query of GIST from [`SOURCE`], with a stack proposal and NSLP data.
///
/// # Panics
/// Never: the message is complete.
pub fn valid_query() -> Vec<u8> {
    let mri = Mri::PathCoupled(udp_flow((SOURCE, 1), (DESTINATION, 2)));
    let nli = NetworkLayerInformation {
        peer_identity: b"edge1",
        ip_ttl: 63,
        interface_address: SOURCE.into(),
        routing_state_validity: 30_000,
    };
    let profiles = [Profile(&[2, 1]), Profile(&[1])];
    let options = [ProtocolOptions::tcp_query(1), ProtocolOptions::tcp_query(2)];
    let stack = Stack {
        proposal: Profiles::new(&profiles),
        configuration: StackConfiguration {
            hold_time: 30_000,
            options: ProtocolOptionsList::new(&options),
        },
    };
    let data = valid_reserve();
    let body = Body::Query(Query {
        nat_traversal: None,
        mri,
        session: SessionId([7; 16]),
        nli,
        query_cookie: b"cookie!!",
        stack: Some(stack),
        nslp_data: Some(&data[..12]),
    });
    let extensions = Extensions::NONE;
    let message = Message { hops: 8, nslpid: 1, source_is_peer: true, body, extensions };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}
