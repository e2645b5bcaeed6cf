//! Objects of refresh reduction (RFC 2961): message identifiers, acknowledgements, and lists of identifiers that
//! replace refreshes.
//!
//! An identifier is an epoch, which a node chooses when it starts, and a number that the node increments. Identifiers
//! are unique per node: the address of the node is part of the identifier's context but not of the object (section
//! 4.5).

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::decode::take_address;
use super::error::{ErrorKind, ParseError};
use super::frame::{OBJECT_HEADER, RawObject, next_object};
use super::iana::{ObjectClass, c_type};
use super::list::{Item, List, sealed::Sealed};

/// MESSAGE_ID (class 23, C-Type 1; RFC 2961 section 4.2): identifier of the message that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId {
    /// Flag bits; [`MessageId::ACK_DESIRED`] is the only one defined.
    pub flags: u8,
    /// Epoch, which changes when the numbers restart, 24 bits; higher bits are not written.
    pub epoch: u32,
    /// Message_Identifier, incremented by the sender.
    pub id: u32,
}

impl MessageId {
    /// Flag ACK_Desired: the sender requests an acknowledgement.
    pub const ACK_DESIRED: u8 = 0x01;

    /// Length of the object, octets.
    pub(super) const OBJECT_LEN: usize = OBJECT_HEADER + 8;
}

/// Kind of acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AcknowledgementKind {
    /// MESSAGE_ID_ACK (C-Type 1): the message was received.
    Ack,
    /// MESSAGE_ID_NACK (C-Type 2): no state matches an identifier listed in an Srefresh.
    Nack,
}

/// MESSAGE_ID_ACK or MESSAGE_ID_NACK (class 24; RFC 2961 section 4.3). No flags are defined: they are ignored and
/// written as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// Kind: ACK or NACK.
    pub kind: AcknowledgementKind,
    /// Epoch of the message, 24 bits; higher bits are not written.
    pub epoch: u32,
    /// Message_Identifier of the message.
    pub id: u32,
}

/// Srefresh: refreshes the state of all listed message identifiers (RFC 2961 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Srefresh<'a> {
    /// Lists, at least one. Either all or none are [`RefreshIds::Sources`].
    pub lists: List<'a, RefreshList<'a>>,
}

/// An object of class 25 (RFC 2961 section 5.1): message identifiers of one epoch. No flags are defined: they are
/// ignored and written as zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefreshList<'a> {
    /// Epoch of all identifiers, 24 bits; higher bits are not written.
    pub epoch: u32,
    /// Identifiers, at least one.
    pub ids: RefreshIds<'a>,
}

/// Message identifiers of a [`RefreshList`], with the addresses that the kind of state requires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RefreshIds<'a> {
    /// MESSAGE_ID LIST (C-Type 1): Path state of unicast sessions, and any Resv state.
    Messages(List<'a, u32>),
    /// MESSAGE_ID SRC_LIST (C-Types 2 and 3): Path state of the multicast session that the message is addressed to.
    Sources(List<'a, SourceRefresh>),
    /// MESSAGE_ID MCAST_LIST (C-Types 4 and 5): Path state of multicast sessions, refreshed at one neighbor.
    Multicast(List<'a, MulticastRefresh>),
}

/// An item of a MESSAGE_ID SRC_LIST. All items of a list have the same address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceRefresh {
    /// Message_Identifier.
    pub id: u32,
    /// Address of the sender.
    pub source: IpAddr,
}

/// An item of a MESSAGE_ID MCAST_LIST. Both addresses, and all items of a list, have the same address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MulticastRefresh {
    /// Message_Identifier.
    pub id: u32,
    /// Address of the sender.
    pub source: IpAddr,
    /// Destination address of the session.
    pub destination: IpAddr,
}

/// Returns flags, epoch and number: the body of classes 23 and 24.
#[inline]
fn flags_epoch_id(object: &RawObject<'_>) -> Result<(u8, u32, u32), ParseError> {
    match <[u8; 8]>::try_from(object.body()) {
        Ok([flags, e0, e1, e2, i0, i1, i2, i3]) => {
            let epoch = u32::from_be_bytes([0, e0, e1, e2]);
            Ok((flags, epoch, u32::from_be_bytes([i0, i1, i2, i3])))
        }
        Err(_) => Err(object.error(ErrorKind::ObjectSize)),
    }
}

#[inline]
pub(super) fn message_id(object: &RawObject<'_>) -> Result<MessageId, ParseError> {
    if object.c_type() != c_type::MESSAGE_ID {
        return Err(object.error(ErrorKind::UnknownCType));
    }
    let (flags, epoch, id) = flags_epoch_id(object)?;
    Ok(MessageId { flags, epoch, id })
}

#[inline]
pub(super) fn acknowledgement(object: &RawObject<'_>) -> Result<Acknowledgement, ParseError> {
    let kind = match object.c_type() {
        c_type::MESSAGE_ID_ACK => AcknowledgementKind::Ack,
        c_type::MESSAGE_ID_NACK => AcknowledgementKind::Nack,
        _ => return Err(object.error(ErrorKind::UnknownCType)),
    };
    let (_, epoch, id) = flags_epoch_id(object)?;
    Ok(Acknowledgement { kind, epoch, id })
}

/// Length of an identifier of the list with its addresses, octets.
#[inline]
fn item_len(c_type: u8) -> Option<usize> {
    Some(match c_type {
        c_type::MESSAGE_ID_LIST => 4,
        c_type::SRC_LIST_IPV4 => 4 + 4,
        c_type::SRC_LIST_IPV6 => 4 + 16,
        c_type::MCAST_LIST_IPV4 => 4 + 2 * 4,
        c_type::MCAST_LIST_IPV6 => 4 + 2 * 16,
        _ => return None,
    })
}

/// Parses a list of identifiers. Only its length must be checked: whole items. The items are not read.
#[inline]
pub(super) fn refresh_list<'a>(object: &RawObject<'a>) -> Result<RefreshList<'a>, ParseError> {
    let c_type = object.c_type();
    let item_len = item_len(c_type).ok_or_else(|| object.error(ErrorKind::UnknownCType))?;
    let ids = object.body().split_first_chunk::<4>();
    let Some(([_, e0, e1, e2], ids)) =
        ids.filter(|(_, ids)| !ids.is_empty() && ids.len().is_multiple_of(item_len))
    else {
        return Err(object.error(ErrorKind::ObjectSize));
    };
    let ids = match c_type {
        c_type::MESSAGE_ID_LIST => RefreshIds::Messages(List::Wire(ids)),
        c_type::SRC_LIST_IPV4 | c_type::SRC_LIST_IPV6 => {
            RefreshIds::Sources(List::Wire(object.bytes))
        }
        _ => RefreshIds::Multicast(List::Wire(object.bytes)),
    };
    Ok(RefreshList { epoch: u32::from_be_bytes([0, *e0, *e1, *e2]), ids })
}

impl Sealed for Acknowledgement {}

/// Wire format: objects of class 24, with ignored objects between them.
impl<'a> Item<'a> for Acknowledgement {
    type State = ();

    #[inline]
    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<Acknowledgement> {
        loop {
            let object = next_object(rest)?;
            if object.class_num() == ObjectClass::MessageIdAck.code() {
                return acknowledgement(&object).ok();
            }
        }
    }
}

impl Sealed for RefreshList<'_> {}

/// Wire format: all objects of an Srefresh.
impl<'a> Item<'a> for RefreshList<'a> {
    type State = ();

    #[inline]
    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<RefreshList<'a>> {
        loop {
            let object = next_object(rest)?;
            if object.class_num() == ObjectClass::MessageIdList.code() {
                return refresh_list(&object).ok();
            }
        }
    }
}

impl Sealed for u32 {}

/// Wire format: the numbers only.
impl<'a> Item<'a> for u32 {
    type State = ();

    #[inline]
    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<u32> {
        take(rest).map(u32::from_be_bytes)
    }
}

impl Sealed for SourceRefresh {}

/// Wire format: the object with its header. The state is its C-Type.
impl<'a> Item<'a> for SourceRefresh {
    type State = u8;

    #[inline]
    fn next(rest: &mut &'a [u8], state: &mut u8) -> Option<SourceRefresh> {
        let ipv4 = family(rest, state, c_type::SRC_LIST_IPV4, c_type::SRC_LIST_IPV6)?;
        let id = u32::from_be_bytes(take(rest)?);
        Some(SourceRefresh { id, source: take_address(rest, ipv4)? })
    }
}

impl Sealed for MulticastRefresh {}

/// Wire format: the object with its header. The state is its C-Type.
impl<'a> Item<'a> for MulticastRefresh {
    type State = u8;

    #[inline]
    fn next(rest: &mut &'a [u8], state: &mut u8) -> Option<MulticastRefresh> {
        let ipv4 = family(rest, state, c_type::MCAST_LIST_IPV4, c_type::MCAST_LIST_IPV6)?;
        let id = u32::from_be_bytes(take(rest)?);
        let (source, destination) = (take_address(rest, ipv4)?, take_address(rest, ipv4)?);
        Some(MulticastRefresh { id, source, destination })
    }
}

/// Returns whether the addresses of a list are IPv4. The header, which has the C-Type, is removed at the first call.
#[inline]
fn family(rest: &mut &[u8], state: &mut u8, ipv4: u8, ipv6: u8) -> Option<bool> {
    if *state == 0 {
        let [_, _, _, c_type, _, _, _, _] = take(rest)?;
        *state = c_type;
    }
    (*state == ipv4 || *state == ipv6).then_some(*state == ipv4)
}

#[inline]
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (octets, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*octets)
}
