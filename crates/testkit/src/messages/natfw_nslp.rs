//! NATFW NSLP: valid samples, and any message.

use earmark_wire::natfw_nslp::iana::{ErrorClass, Informational, MessageType, ObjectType, Success};
use earmark_wire::natfw_nslp::*;
use earmark_wire::nsis::Treatment;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::packets::SOURCE;
use super::words;

/// Emits a message into a buffer with other contents.
///
/// # Panics
/// The message cannot be emitted.
pub fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut buffer), Ok(buffer.len()), "{message:?}");
    buffer
}

/// A CREATE that allows its flow, without optional objects.
pub const CREATE: Create<'static> = Create {
    proxy: ProxyMode::Off,
    lifetime: 300,
    extended_flow: ExtendedFlow { action: RuleAction::Allow, next_port: false },
    msn: 1,
    nonce: None,
    icmp_types: None,
    extra: Extra::NONE,
};

/// An EXTERNAL for UDP to port 5004 from any sender, without optional objects.
pub const EXTERNAL: External<'static> = External {
    proxy: CREATE.proxy,
    lifetime: CREATE.lifetime,
    msn: CREATE.msn,
    extended_flow: CREATE.extended_flow,
    data_terminal: DataTerminal {
        sender: std::net::Ipv4Addr::UNSPECIFIED,
        sender_prefix: 0,
        transport: TransportSelector::Ports { protocol: 17, destination: 5_004, source: 0 },
    },
    nonce: None,
    icmp_types: None,
    external_binding: None,
    extra: Extra::NONE,
};

/// A successful RESPONSE to [`CREATE`].
pub const RESPONSE: Response<'static> = Response {
    lifetime: Some(CREATE.lifetime),
    msn: CREATE.msn,
    info: Info::new(Outcome::Success(Success::Processed)),
    external_address: None,
    external_binding: None,
    extra: Extra::NONE,
};

/// A NOTIFY of a possible route change.
pub const NOTIFY: Notify<'static> = Notify {
    msn: None,
    info: Info::new(Outcome::Informational(Informational::RouteChange)),
    extra: Extra::NONE,
};

/// Returns a message of each type, the first ones with all optional objects.
pub fn valid() -> [Vec<u8>; 4] {
    let nonce = Some(Nonce(7));
    let binding = Some(ExternalBinding { port: 4_000, wire: &[[192, 0, 2, 1], [192, 0, 2, 2]] });
    let address = Some(ExternalAddress { address: [198, 51, 100, 7].into(), port: 4_000 });
    let data_terminal =
        DataTerminal { sender: SOURCE, sender_prefix: 32, ..EXTERNAL.data_terminal };
    let (proxy, icmp_types) = (ProxyMode::EdgeAndOnward, Some(&[8, 0, 11, 12][..]));
    let external = External { proxy, data_terminal, nonce, icmp_types, ..EXTERNAL };
    [
        emit(&Message::Create(Create { proxy, nonce, icmp_types, ..CREATE })),
        emit(&Message::External(External { external_binding: binding, ..external })),
        emit(&Message::Response(Response {
            external_address: address,
            external_binding: binding,
            ..RESPONSE
        })),
        emit(&Message::Notify(NOTIFY)),
    ]
}

/// Port and addresses.
type OwnedBinding = (u16, Vec<[u8; 4]>);

/// A message with owned parts.
#[derive(Clone, Debug)]
pub struct Owned {
    message_type: u8,
    proxy: u8,
    lifetime: Option<u32>,
    msn: Option<u32>,
    rule: (bool, bool),
    data_terminal: ([u8; 4], u8, u8, u8, u32),
    nonce: Option<u32>,
    icmp_types: Option<Vec<u8>>,
    info: (u8, u8, u16),
    external_address: Option<(u16, [u8; 4])>,
    external_binding: Option<OwnedBinding>,
    extra: Vec<(u8, u16, Vec<[u8; 4]>)>,
}

impl Owned {
    /// Calls `then` with the message.
    pub fn with<R>(&self, then: impl FnOnce(Message<'_>) -> R) -> R {
        let extra: Vec<ExtraObject<'_>> = self.extra.iter().map(extra_object).collect();
        let extra = Extra::Items(&extra);
        let proxy = match (self.nonce, self.proxy) {
            (None, _) | (_, 0) => ProxyMode::Off,
            (_, 1) => ProxyMode::Edge,
            _ => ProxyMode::EdgeAndOnward,
        };
        let (lifetime, msn) = (self.lifetime.unwrap_or(0), self.msn.unwrap_or(0));
        let action = if self.rule.0 { RuleAction::Allow } else { RuleAction::Deny };
        let extended_flow = ExtendedFlow { action, next_port: self.rule.1 };
        let nonce = self.nonce.map(Nonce);
        let icmp_types = self.icmp_types.as_deref();
        let external_binding = self
            .external_binding
            .as_ref()
            .map(|(port, wire)| ExternalBinding { port: *port, wire });
        let (class, code, object) = self.info;
        let object = (object != 0).then(|| ObjectType::from_code(object));
        let info = |class| Info { outcome: Outcome::from_codes(class, code), object };
        then(match MessageType::from_code(self.message_type) {
            MessageType::Create => Message::Create(Create {
                proxy,
                lifetime,
                extended_flow,
                msn,
                nonce,
                icmp_types,
                extra,
            }),
            MessageType::External => Message::External(External {
                proxy,
                lifetime,
                msn,
                extended_flow,
                data_terminal: self.data_terminal(),
                nonce,
                icmp_types,
                external_binding,
                extra,
            }),
            MessageType::Response => {
                let is_success = class == ErrorClass::Success.code();
                Message::Response(Response {
                    lifetime: self.lifetime.or(is_success.then_some(1)),
                    msn,
                    info: info(class),
                    external_address: self
                        .external_address
                        .filter(|_| is_success)
                        .map(|(port, address)| ExternalAddress { address: address.into(), port }),
                    external_binding: external_binding.filter(|_| is_success),
                    extra,
                })
            }
            _ => {
                let info = info(ErrorClass::Informational.code());
                Message::Notify(Notify { msn: self.msn, info, extra })
            }
        })
    }

    fn data_terminal(&self) -> DataTerminal {
        let (sender, sender_prefix, selector, protocol, word) = self.data_terminal;
        let ([destination, source], spi) = ([(word >> 16) as u16, word as u16], word);
        let sender = if sender_prefix == 0 { [0; 4] } else { sender }.into();
        let transport = match selector {
            0 => TransportSelector::Any,
            1 => TransportSelector::Protocol(protocol),
            2 => TransportSelector::Ports { protocol, destination, source },
            _ => TransportSelector::Spi { protocol, spi },
        };
        DataTerminal { sender, sender_prefix, transport }
    }
}

/// Returns an unknown object, or a SESSION_AUTH with some of the flags that it may have.
fn extra_object((flags, object_type, words): &(u8, u16, Vec<[u8; 4]>)) -> ExtraObject<'_> {
    let (object_type, treatment) = match flags {
        0 => (ObjectType::SessionAuth.code(), Treatment::Mandatory),
        1 => (ObjectType::SessionAuth.code(), Treatment::Forward),
        _ => (*object_type, Treatment::Forward),
    };
    ExtraObject { treatment, object_type, value: words.as_flattened() }
}

/// Generates messages of all types.
pub fn owned() -> impl Strategy<Value = Owned> {
    let number = || option::of(any::<u32>());
    let header = (1_u8..=4, 0_u8..3, number(), number(), any::<(bool, bool)>());
    let data_terminal = (any::<[u8; 4]>(), 0_u8..=32, 0_u8..4, any::<u8>(), any::<u32>());
    let lists = (number(), option::of(vec(any::<u8>(), 0..=255)));
    let class = (0_u8..16).prop_filter("for NOTIFY only", |class| *class != 1);
    let info = (class, any::<u8>(), 0_u16..0x1000);
    let addresses = (option::of(any::<(u16, [u8; 4])>()), option::of((any::<u16>(), words(0..5))));
    let extra = vec((0_u8..4, 0x7d0_u16..0x1000, words(0..3)), 0..3);
    (header, data_terminal, lists, info, addresses, extra).prop_map(
        |(header, data_terminal, lists, info, addresses, extra)| {
            let (message_type, proxy, lifetime, msn, rule) = header;
            let (nonce, icmp_types) = lists;
            let (external_address, external_binding) = addresses;
            Owned {
                message_type,
                proxy,
                lifetime,
                msn,
                rule,
                data_terminal,
                nonce,
                icmp_types,
                info,
                external_address,
                external_binding,
                extra,
            }
        },
    )
}
