//! RSVP: sample messages of every type, style and address family, and any message.

mod any_message;

pub use any_message::{adspec, object, parts};

use std::net::IpAddr;

use earmark_wire::intserv::{Adspec, FlowSpec, Rspec, SenderTspec};
use earmark_wire::rsvp::*;

use super::intserv::{BUCKET, HOP};
use super::packets::{DESTINATION, SOURCE};

/// Owned parts of any message; [`Parts::message`] borrows a message from them.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Type of the message.
    pub kind: MessageType,
    /// Flags of the header.
    pub flags: u8,
    /// Send_TTL.
    pub send_ttl: u8,
    /// INTEGRITY.
    pub integrity: Option<OwnedIntegrity>,
    /// MESSAGE_ID_ACK and MESSAGE_ID_NACK.
    pub acknowledgements: Vec<Acknowledgement>,
    /// MESSAGE_ID.
    pub message_id: Option<MessageId>,
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP.
    pub hop: RsvpHop,
    /// TIME_VALUES.
    pub refresh_ms: u32,
    /// ERROR_SPEC.
    pub error: ErrorSpec,
    /// RESV_CONFIRM.
    pub confirm: Option<IpAddr>,
    /// SCOPE.
    pub scope: Option<Vec<IpAddr>>,
    /// Objects that are forwarded as they are, whole.
    pub carried: Vec<u8>,
    /// SENDER_TEMPLATE; the first of the filters if absent.
    pub template: Option<SenderTemplate>,
    /// SENDER_TSPEC.
    pub tspec: Option<SenderTspec>,
    /// Body of ADSPEC.
    pub adspec: Option<Vec<u8>>,
    /// STYLE.
    pub style: Style,
    /// FLOWSPEC of a shared style.
    pub flowspec: Option<FlowSpec>,
    /// Flow descriptors of fixed filter.
    pub fixed: Vec<FixedFilterFlow>,
    /// Filters of a shared style.
    pub filters: Vec<FilterSpec>,
}

/// An [`Integrity`] with an owned digest.
#[derive(Clone, Debug)]
pub struct OwnedIntegrity {
    /// Flags.
    pub flags: u8,
    /// Key identifier.
    pub key_id: u64,
    /// Sequence number.
    pub sequence: u64,
    /// Keyed message digest.
    pub digest: Vec<u8>,
}

impl OwnedIntegrity {
    /// Returns the object.
    pub fn borrow(&self) -> Integrity<'_> {
        let OwnedIntegrity { flags, key_id, sequence, digest } = self;
        Integrity { flags: *flags, key_id: *key_id, sequence: *sequence, digest }
    }
}

impl Parts {
    /// Returns the message.
    pub fn message(&self) -> Message<'_> {
        let (session, hop, error, refresh_ms) =
            (self.session, self.hop, self.error, self.refresh_ms);
        let carried = Carried::Objects(&self.carried);
        let scope = self.scope.as_deref().map(List::Items);
        let template = self.template.unwrap_or(self.filters[0]);
        let flows = match self.style {
            Style::Wildcard => FlowDescriptors::Wildcard(self.flowspec),
            Style::FixedFilter => FlowDescriptors::FixedFilter(List::Items(&self.fixed)),
            Style::SharedExplicit => {
                FlowDescriptors::SharedExplicit(self.flowspec, List::Items(&self.filters))
            }
        };
        let tspec = self.tspec;
        let body = match self.kind {
            MessageType::Path => {
                let sender = SenderDescriptor {
                    template,
                    tspec: tspec.unwrap_or_default(),
                    adspec: self.adspec.as_deref(),
                };
                Body::Path(Path { session, hop, refresh_ms, carried, sender })
            }
            MessageType::Resv => {
                let confirm = self.confirm;
                Body::Resv(Resv { session, hop, refresh_ms, confirm, scope, carried, flows })
            }
            MessageType::PathErr => {
                let sender = self.template.map(|template| (template, tspec));
                Body::PathErr(PathErr { session, error, carried, sender })
            }
            MessageType::ResvErr => {
                Body::ResvErr(ResvErr { session, hop, error, scope, carried, flows })
            }
            MessageType::PathTear => {
                Body::PathTear(PathTear { session, hop, carried, template, tspec })
            }
            MessageType::ResvTear => {
                Body::ResvTear(ResvTear { session, hop, scope, carried, flows })
            }
            _ => {
                let confirm = self.confirm.unwrap_or(hop.address);
                Body::ResvConf(ResvConf { session, error, confirm, carried, flows })
            }
        };
        Message {
            flags: self.flags,
            send_ttl: self.send_ttl,
            integrity: self.integrity.as_ref().map(OwnedIntegrity::borrow),
            acknowledgements: List::Items(&self.acknowledgements),
            message_id: self.message_id,
            body,
        }
    }
}

/// Message types of RFC 2205.
pub const KINDS: [MessageType; 7] = [
    MessageType::Path,
    MessageType::Resv,
    MessageType::PathErr,
    MessageType::ResvErr,
    MessageType::PathTear,
    MessageType::ResvTear,
    MessageType::ResvConf,
];

/// Reservation styles.
pub const STYLES: [Style; 3] = [Style::Wildcard, Style::FixedFilter, Style::SharedExplicit];

/// Returns whether messages of a type have flow descriptors.
pub fn has_flows(kind: MessageType) -> bool {
    use MessageType::*;
    matches!(kind, Resv | ResvErr | ResvTear | ResvConf)
}

/// Emits the message into a buffer with other contents.
///
/// # Panics
/// The message cannot be emitted.
pub fn octets(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut buffer), Ok(buffer.len()));
    buffer
}

/// Updates length and checksum after manual changes.
///
/// # Panics
/// The message is longer than its length field can say.
pub fn seal(message: &mut [u8]) {
    let length = u16::try_from(message.len()).expect("test messages are short");
    message[6..8].copy_from_slice(&length.to_be_bytes());
    message[2..4].fill(0);
    let check = earmark_wire::checksum::checksum(message);
    message[2..4].copy_from_slice(&check.to_be_bytes());
}

/// Returns a common message of the type, with the values that the other tools must show.
pub fn sample(kind: MessageType, style: Style, ipv6: bool) -> Parts {
    let address = |v4: &str, v6: &str| -> IpAddr {
        let text = if ipv6 { v6 } else { v4 };
        text.parse().expect("an address")
    };
    let source =
        |v4, v6, port| FilterSpec { source: address(v4, v6), selector: SourceSelector::Port(port) };
    let first = source("10.0.1.1", "2001:db8:1::1", 5000);
    let second = source("10.0.1.2", "2001:db8:1::2", 5001);
    let guaranteed = FlowSpec::Guaranteed(BUCKET, Rspec { rate: 300_000.0, slack_us: 20 });
    let load = FlowSpec::ControlledLoad(BUCKET);
    let adspec = Adspec::for_sender().advertise(&HOP);
    let mut body = vec![0xa5; adspec.buffer_len()];
    adspec.emit(&mut body).expect("the buffer fits");
    let code = match kind {
        MessageType::ResvConf => ErrorCode::Confirmation,
        _ => ErrorCode::AdmissionControlFailure,
    };
    let value = if kind == MessageType::ResvConf { 0 } else { 2 };
    let fixed = if kind == MessageType::ResvErr { 1 } else { 2 };
    Parts {
        kind,
        flags: 0,
        send_ttl: 63,
        integrity: None,
        acknowledgements: Vec::new(),
        message_id: None,
        session: Session {
            destination: address("10.0.9.9", "2001:db8:9::9"),
            protocol: 17,
            flags: 0,
            port: 6000,
        },
        hop: RsvpHop { address: address("10.0.2.1", "2001:db8:2::1"), lih: 7 },
        refresh_ms: 30_000,
        error: ErrorSpec { node: address("10.0.3.3", "2001:db8:3::3"), flags: 0, code, value },
        confirm: Some(address("10.0.9.9", "2001:db8:9::9")),
        scope: (style == Style::Wildcard && kind != MessageType::ResvTear)
            .then(|| vec![first.source, second.source]),
        carried: Vec::new(),
        template: Some(first),
        tspec: Some(BUCKET),
        adspec: Some(body),
        style,
        flowspec: Some(load),
        fixed: [(load, first), (guaranteed, second)][..fixed]
            .iter()
            .map(|(flowspec, filter)| FixedFilterFlow {
                flowspec: Some(*flowspec),
                filter: *filter,
            })
            .collect(),
        filters: vec![first, second],
    }
}

/// Owned parts of a DREQ or DREP; [`DiagnosisParts::diagnosis`] borrows from them.
#[derive(Debug)]
pub struct DiagnosisParts {
    whole: Diagnosis<'static>,
    nodes: Vec<IpAddr>,
    responses: Vec<DiagResponse<'static>>,
}

impl DiagnosisParts {
    /// Returns the body of the message.
    pub fn diagnosis(&self) -> Diagnosis<'_> {
        Diagnosis {
            route: Some(Route { pointer: 2, nodes: List::Items(&self.nodes) }),
            responses: List::Items(&self.responses),
            ..self.whole
        }
    }

    /// Returns the responses of the two nodes.
    pub fn responses(&self) -> &[DiagResponse<'static>] {
        &self.responses
    }
}

/// Returns a DREQ that two nodes have answered.
pub fn diagnosis_parts(ipv6: bool) -> DiagnosisParts {
    const SELECT: [Selected; 3] = [
        Selected { class_num: 12, c_type: 0 },
        Selected { class_num: 9, c_type: 1 },
        Selected { class_num: 8, c_type: 0 },
    ];
    let Parts { session, hop, filters, .. } = sample(MessageType::Resv, Style::FixedFilter, ipv6);
    let address = |network: u8, host: u8| -> IpAddr {
        match ipv6 {
            true => format!("2001:db8:{network}::{host}").parse().expect("an address"),
            false => [10, 0, network, host].into(),
        }
    };
    let response = DiagResponse {
        arrival: 0x0001_8000,
        incoming: address(3, 1),
        outgoing: address(2, 1),
        previous_hop: address(1, 1),
        ip_hops: 1,
        merged: true,
        error: 0,
        refresh_multiple: 3,
        refresh_s: 30,
        objects: &[0, 8, 8, 1, 0, 0, 0, 0x0a],
    };
    let requester = FilterSpec { source: address(4, 4), selector: SourceSelector::Port(8080) };
    let diagnostic = Diagnostic {
        max_hops: 16,
        hop_count: 2,
        more_fragments: false,
        request_id: 99,
        path_mtu: 1500,
        fragment_offset: 0,
        last_hop: address(9, 9),
        sender: filters[0],
        requester,
    };
    DiagnosisParts {
        whole: Diagnosis {
            session,
            hop,
            diagnostic,
            select: Some(List::Items(&SELECT)),
            route: None,
            responses: List::EMPTY,
            carried: Carried::NONE,
        },
        nodes: vec![address(9, 9), address(3, 1)],
        responses: vec![response; 2],
    }
}

/// Returns messages of every type newer than RFC 2205, and one with all leading objects.
pub fn extensions(ipv6: bool) -> Vec<Vec<u8>> {
    let integrity = Integrity {
        flags: Integrity::HANDSHAKE,
        key_id: 0x0102_0304_0506,
        sequence: 7,
        digest: &[0xdd; 16],
    };
    let acknowledgements = [
        Acknowledgement { kind: AcknowledgementKind::Ack, epoch: 0xab_cdef, id: 1 },
        Acknowledgement { kind: AcknowledgementKind::Nack, epoch: 0xab_cdef, id: 2 },
    ];
    let message_id = MessageId { flags: MessageId::ACK_DESIRED, epoch: 0xab_cdef, id: 9 };
    let path = sample(MessageType::Path, Style::Wildcard, ipv6);
    let signed = Message {
        flags: Message::REFRESH_REDUCTION,
        integrity: Some(integrity),
        acknowledgements: List::Items(&acknowledgements),
        message_id: Some(message_id),
        ..path.message()
    };
    let (source, destination) = (path.hop.address, path.session.destination);
    let sources = [SourceRefresh { id: 5, source }];
    let multicast = [MulticastRefresh { id: 6, source, destination }];
    let list = |names| [RefreshList { epoch: 0xab_cdef, ids: names }];
    let plain = list(RefreshIds::Messages(List::Items(&[5, 6, 7])));
    let sources = list(RefreshIds::Sources(List::Items(&sources)));
    let multicast = list(RefreshIds::Multicast(List::Items(&multicast)));
    let srefresh = |lists| Message::new(63, Body::Srefresh(Srefresh { lists: List::Items(lists) }));
    let hello = |kind| Hello { kind, source_instance: 0x11, destination_instance: 0x22 };
    let restarted = HelloMessage {
        restart_cap: Some(RestartCap { restart_ms: 30_000, recovery_ms: 60_000 }),
        capability: Some(Capability { flags: Capability::RECOVERY_PATH_DESIRED }),
        ..hello(HelloKind::Request).into()
    };
    let Body::Path(announced) = path.message().body else { panic!("a Path") };
    let recovery_path = Message { body: Body::RecoveryPath(announced), ..path.message() };
    let challenge = Challenge { key_id: 0x0102_0304_0506, cookie: 0x0102_0304_0506_0708 };
    let diagnosis = diagnosis_parts(ipv6);
    let ack =
        Message { acknowledgements: List::Items(&acknowledgements), ..Message::new(63, Body::Ack) };
    let response = Message {
        integrity: Some(integrity),
        ..Message::new(63, Body::IntegrityResponse(challenge))
    };
    let pair = [octets(&signed), octets(&ack)].concat();
    let bundle = Bundle::new(&pair).expect("two messages");
    let template = path.template.expect("a Path has a template");
    let flow = |rate| FixedFilterFlow {
        flowspec: Some(FlowSpec::ControlledLoad(SenderTspec { rate, ..BUCKET })),
        filter: template,
    };
    let (distinct, shared) = ([flow(1e5), flow(2e5)], [flow(1e5), flow(1e5)]);
    let notify_sessions = notify_sessions(&path, &[&distinct, &shared]);
    let error = path.error;
    let notify = |sessions| {
        Message::new(63, Body::Notify(Notify { error, sessions: List::Items(sessions) }))
    };
    let reliable = Message { message_id: Some(message_id), ..notify(&notify_sessions[..1]) };
    [
        signed,
        ack,
        srefresh(&plain),
        srefresh(&sources),
        srefresh(&multicast),
        Message::new(63, Body::Hello(hello(HelloKind::Request).into())),
        Message::new(63, Body::Hello(hello(HelloKind::Ack).into())),
        Message::new(63, Body::Hello(restarted)),
        recovery_path,
        Message::new(63, Body::IntegrityChallenge(challenge)),
        response,
        Message::new(63, Body::Dreq(diagnosis.diagnosis())),
        Message::new(63, Body::Drep(diagnosis.diagnosis())),
        Message::new(63, Body::Bundle(bundle)),
        reliable,
        notify(&notify_sessions),
    ]
    .iter()
    .map(octets)
    .collect()
}

/// Returns one notify session of each form: of a sender, of these flows, and of a wildcard reservation.
fn notify_sessions<'f>(path: &Parts, flows: &[&'f [FixedFilterFlow]]) -> Vec<NotifySession<'f>> {
    let (session, carried) = (path.session, Carried::NONE);
    let sender = path.template.map(|template| NotifySubject::Sender(template, path.tspec));
    let flows = flows.iter().map(|flows| NotifySubject::Flows(List::Items(flows)));
    let wildcard = NotifySubject::Wildcard(FlowSpec::ControlledLoad(BUCKET));
    let subjects = sender.into_iter().chain(flows).chain([wildcard]);
    subjects.map(|subject| NotifySession { session, carried, subject }).collect()
}

/// Returns a Path of RSVP from [`SOURCE`] for UDP packets to port 4000 of [`DESTINATION`].
pub fn valid_path() -> Vec<u8> {
    let mut parts = sample(MessageType::Path, Style::FixedFilter, false);
    parts.session.destination = DESTINATION.into();
    parts.session.port = 4_000;
    parts.hop.address = SOURCE.into();
    if let Some(template) = &mut parts.template {
        template.source = SOURCE.into();
    }
    octets(&parts.message())
}
