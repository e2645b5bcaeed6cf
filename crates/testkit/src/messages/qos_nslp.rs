//! QoS NSLP: any message.

use earmark_wire::nsis::Treatment;
use earmark_wire::qos_nslp::iana::MessageType;
use earmark_wire::qos_nslp::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{qspec, words};

/// Emits a message into a buffer with other contents.
///
/// # Panics
/// The message cannot be emitted.
pub fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut buffer), Ok(buffer.len()), "{message:?}");
    buffer
}

/// A RESERVE with an RSN and nothing else.
pub const RESERVE: Reserve<'static> = Reserve {
    flags: GenericFlags { scoping: false, proxy: false, ack_req: false, breaks: false },
    tear: false,
    replace: false,
    rsn: Rsn { number: 0, epoch: 0 },
    rii: None,
    refresh_period: None,
    bound: BoundSessions::NONE,
    summary: None,
    binding: None,
    info: None,
    classifier: None,
    qspec: None,
    extra: Extra::NONE,
};

/// Sessions, and an epoch with as many sequence numbers.
type OwnedSummary = (Vec<[u8; 16]>, Option<(u32, Vec<[u8; 4]>)>);

/// A message with owned parts.
#[derive(Clone, Debug)]
pub struct Owned {
    message_type: u8,
    flags: (bool, bool, bool, bool),
    specific: (bool, bool),
    rsn: Option<(u32, u32)>,
    rii: Option<u32>,
    refresh_period: Option<u32>,
    bound: Vec<(u8, [u8; 16])>,
    summary: Option<OwnedSummary>,
    binding: Option<(bool, bool, [u8; 16])>,
    info: Option<OwnedInfo>,
    classifier: Option<u8>,
    qspecs: (Vec<[u8; 4]>, Option<Vec<[u8; 4]>>),
    extra: Vec<(bool, u16, Vec<[u8; 4]>)>,
}

#[derive(Clone, Debug)]
struct OwnedInfo {
    codes: (u8, u8),
    source: Option<OwnedSource>,
    details: Vec<[u8; 4]>,
}

#[derive(Clone, Debug)]
enum OwnedSource {
    Ipv4([u8; 4]),
    Ipv6([u8; 16]),
    Fqdn(String),
    Unknown(u8, Vec<[u8; 4]>),
}

impl OwnedInfo {
    fn value(&self) -> InfoSpec<'_> {
        InfoSpec {
            outcome: Outcome::from_codes(self.codes.0, self.codes.1),
            source: self.source.as_ref().map(|source| match source {
                OwnedSource::Ipv4(address) => ErrorSource::Ipv4((*address).into()),
                OwnedSource::Ipv6(address) => ErrorSource::Ipv6((*address).into()),
                OwnedSource::Fqdn(name) => ErrorSource::Fqdn(name),
                OwnedSource::Unknown(code, words) => {
                    ErrorSource::Unknown { code: *code, octets: words.as_flattened() }
                }
            }),
            details: self.details.as_flattened(),
        }
    }
}

impl Owned {
    /// Calls `then` with the message.
    pub fn with<R>(&self, then: impl FnOnce(&Message<'_>) -> R) -> R {
        let bound: Vec<BoundSessionId> = self
            .bound
            .iter()
            .map(|(code, session)| BoundSessionId {
                binding: (*code).into(),
                session: SessionId(*session),
            })
            .collect();
        let extra: Vec<ExtraObject<'_>> = self
            .extra
            .iter()
            .map(|(refresh, object_type, words)| ExtraObject {
                treatment: if *refresh { Treatment::Refresh } else { Treatment::Forward },
                object_type: *object_type,
                value: words.as_flattened(),
            })
            .collect();
        let (scoping, proxy, ack_req, breaks) = self.flags;
        let flags = GenericFlags { scoping, proxy, ack_req, breaks };
        let summary = self.summary.as_ref().map(|(sessions, rsns)| Summary {
            sessions,
            rsns: rsns.as_ref().map(|(epoch, wire)| RsnList { epoch: *epoch, wire }),
        });
        let rsn = self.rsn.map(|(number, epoch)| Rsn { number, epoch });
        let info = self.info.as_ref().map(OwnedInfo::value);
        let qspec = self.qspecs.0.as_flattened();
        let some_qspec = self.qspecs.1.as_ref().map(|_| qspec);
        let bound = BoundSessions::Items(&bound);
        let extra = Extra::Items(&extra);
        let default = InfoSpec::new(Outcome::QosModelError(1));
        then(&match MessageType::from_code(self.message_type) {
            MessageType::Reserve => Message::Reserve(Reserve {
                flags: GenericFlags { ack_req: ack_req && self.rii.is_none(), ..flags },
                tear: self.specific.0,
                replace: self.specific.1,
                rsn: rsn.unwrap_or_default(),
                rii: self.rii,
                refresh_period: self.refresh_period,
                bound,
                summary,
                binding: self.binding.map(|(is_id, bidirectional, id)| {
                    let id = MessageId { bidirectional, id };
                    if is_id { MessageBinding::Id(id) } else { MessageBinding::Bound(id) }
                }),
                info,
                classifier: some_qspec.and(self.classifier).map(PacketClassifier),
                qspec: some_qspec,
                extra,
            }),
            MessageType::Query => Message::Query(Query {
                flags,
                reserve_init: self.specific.0 || self.rii.is_none(),
                rii: self.rii,
                bound,
                classifier: self.classifier.map(PacketClassifier),
                info,
                qspec,
                second_qspec: self.qspecs.1.as_ref().map(|words| words.as_flattened()),
                extra,
            }),
            MessageType::Response => Message::Response(Response {
                flags: GenericFlags { ack_req: false, ..flags },
                answers: self.rii.map(Answers::Rii).or(rsn.map(Answers::Rsn)),
                info: info.unwrap_or(default),
                summary,
                qspec: some_qspec,
                extra,
            }),
            _ => Message::Notify(Notify {
                flags: GenericFlags { ack_req: false, ..flags },
                info: info.unwrap_or(default),
                qspec: some_qspec,
                extra,
            }),
        })
    }
}

fn info() -> impl Strategy<Value = OwnedInfo> {
    let source = prop_oneof![
        any::<[u8; 4]>().prop_map(OwnedSource::Ipv4),
        any::<[u8; 16]>().prop_map(OwnedSource::Ipv6),
        "[a-zäß.]{1,40}".prop_map(OwnedSource::Fqdn),
        (4_u8..16, words(0..4)).prop_map(|(code, words)| OwnedSource::Unknown(code, words)),
    ];
    ((0_u8..16, any::<u8>()), option::of(source), words(0..4))
        .prop_map(|(codes, source, details)| OwnedInfo { codes, source, details })
}

fn summary() -> impl Strategy<Value = OwnedSummary> {
    (vec((any::<[u8; 16]>(), any::<[u8; 4]>()), 0..4), option::of(any::<u32>())).prop_map(
        |(pairs, epoch)| {
            let (sessions, numbers): (Vec<[u8; 16]>, Vec<[u8; 4]>) = pairs.into_iter().unzip();
            (sessions, epoch.map(|epoch| (epoch, numbers)))
        },
    )
}

/// Generates messages of every type.
pub fn owned() -> impl Strategy<Value = Owned> {
    let flags = (
        1_u8..=4,
        any::<(bool, bool, bool, bool)>(),
        any::<(bool, bool)>(),
        any::<Option<(u32, u32)>>(),
        any::<Option<u32>>(),
        any::<Option<u32>>(),
    );
    let objects = (
        vec(any::<(u8, [u8; 16])>(), 0..3),
        option::of(summary()),
        any::<Option<(bool, bool, [u8; 16])>>(),
        option::of(info()),
        any::<Option<u8>>(),
        (words(1..6), option::of(words(1..6))),
        vec((any::<bool>(), 12_u16..4_096, words(0..3)), 0..3),
    );
    (flags, objects).prop_map(|(flags, objects)| {
        let (message_type, flags, specific, rsn, rii, refresh_period) = flags;
        let (bound, summary, binding, info, classifier, qspecs, extra) = objects;
        Owned {
            message_type,
            flags,
            specific,
            rsn,
            rii,
            refresh_period,
            bound,
            summary,
            binding,
            info,
            classifier,
            qspecs,
            extra,
        }
    })
}

/// Returns a RESERVE of QoS NSLP with [`qspec::valid`].
pub fn valid_reserve() -> Vec<u8> {
    let qspec = qspec::valid();
    emit(&Message::Reserve(Reserve {
        flags: GenericFlags::default(),
        tear: false,
        replace: true,
        rsn: Rsn { number: 1, epoch: 2 },
        rii: Some(3),
        refresh_period: Some(30_000),
        bound: BoundSessions::NONE,
        summary: None,
        binding: None,
        info: None,
        classifier: Some(PacketClassifier(0xe3)),
        qspec: Some(&qspec),
        extra: Extra::NONE,
    }))
}
