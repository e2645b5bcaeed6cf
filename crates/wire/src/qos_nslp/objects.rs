//! Values of the QoS NSLP objects, except INFO-SPEC (RFC 5974 section 5.1.3).

use core::fmt;

use serde::{Deserialize, Serialize};

use super::iana::{BindingCode, ObjectType};
use crate::nsis::SessionId;
use crate::nsis::object::objects;
use crate::serialize::Sequence;

/// RSN, the reservation sequence number: version of the state that a RESERVE refers to (RFC 5974 section 5.1.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rsn {
    /// Sequence number of the state, in serial number arithmetic (RFC 1982).
    pub number: u32,
    /// Epoch, which changes with a restart.
    pub epoch: u32,
}

impl Rsn {
    pub(super) fn parse(value: &[u8]) -> Option<Rsn> {
        let &[n0, n1, n2, n3, e0, e1, e2, e3] = <&[u8; 8]>::try_from(value).ok()?;
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        Some(Rsn { number, epoch: u32::from_be_bytes([e0, e1, e2, e3]) })
    }

    pub(super) fn to_octets(self) -> [u8; 8] {
        let ([n0, n1, n2, n3], [e0, e1, e2, e3]) =
            (self.number.to_be_bytes(), self.epoch.to_be_bytes());
        [n0, n1, n2, n3, e0, e1, e2, e3]
    }
}

/// BOUND-SESSION-ID: another session to which this session is bound (RFC 5974 section 5.1.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoundSessionId {
    /// Reason for the binding.
    pub binding: BindingCode,
    /// Identifier of the other session.
    pub session: SessionId,
}

/// Length of the values of BOUND-SESSION-ID, MSG-ID and BOUND-MSG-ID, a word and an identifier; octets.
const WORD_AND_ID: usize = 20;

impl BoundSessionId {
    pub(super) fn parse(value: &[u8]) -> Option<BoundSessionId> {
        let (binding, session) = word_and_id(value)?;
        Some(BoundSessionId {
            binding: BindingCode::from_code(binding),
            session: SessionId(session),
        })
    }

    pub(super) fn to_octets(self) -> [u8; WORD_AND_ID] {
        from_word_and_id(self.binding.code(), self.session.0)
    }
}

/// Splits a value into the last octet of the word and the identifier behind it.
fn word_and_id(value: &[u8]) -> Option<(u8, [u8; 16])> {
    let value = <&[u8; WORD_AND_ID]>::try_from(value).ok()?;
    let (&[_, _, _, code], name) = value.split_first_chunk()?;
    Some((code, *name.first_chunk()?))
}

fn from_word_and_id(code: u8, name: [u8; 16]) -> [u8; WORD_AND_ID] {
    let mut octets = [0; WORD_AND_ID];
    octets[3] = code;
    octets[4..].copy_from_slice(&name);
    octets
}

/// Sessions to which a session is bound; there may be several.
#[derive(Clone, Copy)]
pub enum BoundSessions<'a> {
    /// All objects of a received message, checked; iteration selects the bound sessions.
    Wire(&'a [u8]),
    /// Sessions to be emitted.
    Items(&'a [BoundSessionId]),
}

impl<'a> BoundSessions<'a> {
    /// No bound sessions.
    pub const NONE: BoundSessions<'a> = BoundSessions::Items(&[]);

    /// Whether there are no bound sessions.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self {
            BoundSessions::Wire(_) => self.iter().next().is_none(),
            BoundSessions::Items(items) => items.is_empty(),
        }
    }

    /// Iterates over the bound sessions.
    pub fn iter(self) -> impl Iterator<Item = BoundSessionId> + Clone + 'a {
        let (wire, items): (&[u8], &[BoundSessionId]) = match self {
            BoundSessions::Wire(wire) => (wire, &[]),
            BoundSessions::Items(items) => (&[], items),
        };
        objects(wire, 0)
            .map_while(Result::ok)
            .filter(|object| object.object_type() == ObjectType::BoundSessionId.code())
            .filter_map(|object| BoundSessionId::parse(object.value()))
            .chain(items.iter().copied())
    }
}

impl PartialEq for BoundSessions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for BoundSessions<'_> {}

impl fmt::Debug for BoundSessions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Packet classifier: the fields of the message routing information that identify the packets of the flow (RFC 5974
/// section 5.1.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PacketClassifier(pub u8);

impl PacketClassifier {
    /// X: source address and prefix.
    pub const SOURCE_ADDRESS: u8 = 1 << 7;
    /// Y: destination address and prefix.
    pub const DESTINATION_ADDRESS: u8 = 1 << 6;
    /// P: protocol.
    pub const PROTOCOL: u8 = 1 << 5;
    /// T: DiffServ code point.
    pub const DSCP: u8 = 1 << 4;
    /// F: flow label.
    pub const FLOW_LABEL: u8 = 1 << 3;
    /// S: security parameters index.
    pub const SPI: u8 = 1 << 2;
    /// A: source port.
    pub const SOURCE_PORT: u8 = 1 << 1;
    /// B: destination port.
    pub const DESTINATION_PORT: u8 = 1 << 0;

    /// Whether all of these fields count.
    #[inline]
    pub const fn has(self, fields: u8) -> bool {
        self.0 & fields == fields
    }

    pub(super) fn parse(value: &[u8]) -> Option<PacketClassifier> {
        let &[flags, ..] = <&[u8; 4]>::try_from(value).ok()?;
        Some(PacketClassifier(flags))
    }
}

/// Message identifier, on which another message can depend (RFC 5974 section 5.1.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageId {
    /// D: whether the dependency of the two messages is bidirectional.
    pub bidirectional: bool,
    /// Random identifier.
    pub id: [u8; 16],
}

impl MessageId {
    pub(super) fn parse(value: &[u8]) -> Option<MessageId> {
        let (code, id) = word_and_id(value)?;
        Some(MessageId { bidirectional: code & 1 != 0, id })
    }

    pub(super) fn to_octets(self) -> [u8; WORD_AND_ID] {
        from_word_and_id(u8::from(self.bidirectional), self.id)
    }
}

/// Binding of a message to another (RFC 5974 section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MessageBinding {
    /// MSG-ID: identifier of this message.
    Id(MessageId),
    /// BOUND-MSG-ID: identifier of the message on which this one depends.
    Bound(MessageId),
}

/// Sequence numbers, one for each session, in the order of the sessions (RFC 5974 section 5.1.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RsnList<'a> {
    /// Epoch of the peer that assigns the numbers.
    pub epoch: u32,
    /// Sequence numbers as on the wire; see [`numbers`](RsnList::numbers).
    pub wire: &'a [[u8; 4]],
}

impl<'a> RsnList<'a> {
    /// Iterates over the sequence numbers.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = u32> + Clone + 'a {
        self.wire.iter().map(|octets| u32::from_be_bytes(*octets))
    }

    pub(super) fn parse(value: &'a [u8]) -> Option<RsnList<'a>> {
        let (epoch, numbers) = value.split_first_chunk()?;
        let (wire, []) = numbers.as_chunks() else { return None };
        Some(RsnList { epoch: u32::from_be_bytes(*epoch), wire })
    }
}

/// Other sessions that a message applies to: SESSION-ID-LIST and RSN-LIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary<'a> {
    /// Session identifiers as on the wire; see [`ids`](Summary::ids).
    pub sessions: &'a [[u8; SessionId::LEN]],
    /// Sequence numbers, one for each session.
    pub rsns: Option<RsnList<'a>>,
}

impl<'a> Summary<'a> {
    /// Iterates over the session identifiers.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = SessionId> + Clone + 'a {
        self.sessions.iter().map(|octets| SessionId(*octets))
    }
}

serialize_as!(Summary<'_>, |it| map! {
    "sessions": Sequence(it.ids()),
    "rsns": it.rsns.as_ref().map(|list| Sequence(list.numbers())),
    "epoch": it.rsns.map(|list| list.epoch),
});
