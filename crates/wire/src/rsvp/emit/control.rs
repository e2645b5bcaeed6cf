//! Emission of the leading objects and of the messages between neighbors.

use core::net::IpAddr;

use crate::rsvp::frame::OBJECT_HEADER;
use crate::rsvp::iana::{ObjectClass, c_type};
use crate::rsvp::integrity::Challenge;
use crate::rsvp::list::{Item, List};
use crate::rsvp::message::{Body, Message};
use crate::rsvp::object_writer::{put_address, put_header, put_integrity};
use crate::rsvp::refresh_reduction::*;
use crate::writer::{EmitError, Writer};

impl Message<'_> {
    /// Length of INTEGRITY, acknowledgements and MESSAGE_ID, octets.
    #[inline]
    pub(super) fn leading_objects_len(&self) -> usize {
        self.integrity.map_or(0, |integrity| integrity.object_len())
            + self.acknowledgements.len() * MessageId::OBJECT_LEN
            + self.message_id.map_or(0, |_| MessageId::OBJECT_LEN)
    }

    /// Writes INTEGRITY, acknowledgements and MESSAGE_ID.
    #[inline]
    pub(super) fn put_leading_objects(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        if let Some(integrity) = &self.integrity {
            put_integrity(w, integrity)?;
        }
        for acknowledgement in self.acknowledgements {
            put_acknowledgement(w, &acknowledgement)?;
        }
        self.message_id.as_ref().map_or(Ok(()), |id| put_message_id(w, id))
    }

    /// Whether leading objects and body are consistent. Receivers would refuse the message otherwise.
    #[inline]
    pub(super) fn is_consistent(&self) -> bool {
        match self.body {
            Body::Bundle(_) => self.leading_objects_len() == 0,
            Body::Ack => self.message_id.is_none() && !self.acknowledgements.is_empty(),
            Body::IntegrityChallenge(_) => self.integrity.is_none(),
            Body::IntegrityResponse(_) => self.integrity.is_some(),
            _ => true,
        }
    }
}

#[inline]
pub(super) fn put_message_id(w: &mut Writer<'_>, id: &MessageId) -> Result<(), EmitError> {
    put_epoch_and_id(w, ObjectClass::MessageId, c_type::MESSAGE_ID, id.flags, id.epoch, id.id)
}

#[inline]
pub(super) fn put_acknowledgement(
    w: &mut Writer<'_>,
    acknowledgement: &Acknowledgement,
) -> Result<(), EmitError> {
    let Acknowledgement { kind, epoch, id } = *acknowledgement;
    let c_type = match kind {
        AcknowledgementKind::Ack => c_type::MESSAGE_ID_ACK,
        AcknowledgementKind::Nack => c_type::MESSAGE_ID_NACK,
    };
    put_epoch_and_id(w, ObjectClass::MessageIdAck, c_type, 0, epoch, id)
}

/// Writes MESSAGE_ID, MESSAGE_ID_ACK or MESSAGE_ID_NACK.
#[inline]
fn put_epoch_and_id(
    w: &mut Writer<'_>,
    class: ObjectClass,
    c_type: u8,
    flags: u8,
    epoch: u32,
    id: u32,
) -> Result<(), EmitError> {
    put_header(w, class, c_type, 8)?;
    put_epoch(w, flags, epoch)?;
    w.put(id.to_be_bytes())
}

#[inline]
fn put_epoch(w: &mut Writer<'_>, flags: u8, epoch: u32) -> Result<(), EmitError> {
    let [_, e0, e1, e2] = epoch.to_be_bytes();
    w.put([flags, e0, e1, e2])
}

pub(super) fn put_challenge(w: &mut Writer<'_>, challenge: &Challenge) -> Result<(), EmitError> {
    put_header(w, ObjectClass::Challenge, c_type::CHALLENGE, 16)?;
    w.put(challenge.octets())
}

impl Srefresh<'_> {
    pub(super) fn objects_len(&self) -> usize {
        self.lists.iter().map(|list| list.object_len()).sum()
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let sources = |list: RefreshList<'_>| matches!(list.ids, RefreshIds::Sources(_));
        let mut lists = self.lists.iter();
        let first = lists.next().ok_or(EmitError::Contradiction)?;
        if lists.any(|list| sources(list) != sources(first)) {
            return Err(EmitError::Contradiction);
        }
        self.lists.iter().try_for_each(|list| list.put(w))
    }
}

impl RefreshList<'_> {
    /// Length of the object, octets.
    pub fn object_len(&self) -> usize {
        let address = if self.is_ipv4() { 4 } else { 16 };
        OBJECT_HEADER
            + 4
            + match self.ids {
                RefreshIds::Messages(ids) => len(ids, 4),
                RefreshIds::Sources(items) => len(items, 4 + address),
                RefreshIds::Multicast(items) => len(items, 4 + 2 * address),
            }
    }

    /// Whether the addresses are IPv4, by the first one.
    fn is_ipv4(&self) -> bool {
        match self.ids {
            RefreshIds::Messages(_) => true,
            RefreshIds::Sources(items) => {
                items.iter().next().is_none_or(|item| item.source.is_ipv4())
            }
            RefreshIds::Multicast(items) => {
                items.iter().next().is_none_or(|item| item.source.is_ipv4())
            }
        }
    }

    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        let ipv4 = self.is_ipv4();
        let c_type = match (&self.ids, ipv4) {
            (RefreshIds::Messages(_), _) => c_type::MESSAGE_ID_LIST,
            (RefreshIds::Sources(_), true) => c_type::SRC_LIST_IPV4,
            (RefreshIds::Sources(_), false) => c_type::SRC_LIST_IPV6,
            (RefreshIds::Multicast(_), true) => c_type::MCAST_LIST_IPV4,
            (RefreshIds::Multicast(_), false) => c_type::MCAST_LIST_IPV6,
        };
        let body = self.object_len() - OBJECT_HEADER;
        if body == 4 {
            return Err(EmitError::Contradiction);
        }
        put_header(w, ObjectClass::MessageIdList, c_type, body)?;
        put_epoch(w, 0, self.epoch)?;
        match self.ids {
            RefreshIds::Messages(List::Wire(octets)) => w.put_slice(octets),
            RefreshIds::Messages(ids) => ids.iter().try_for_each(|id| w.put(id.to_be_bytes())),
            RefreshIds::Sources(items) => items.iter().try_for_each(|item| {
                w.put(item.id.to_be_bytes())?;
                put_of_family(w, item.source, ipv4)
            }),
            RefreshIds::Multicast(items) => items.iter().try_for_each(|item| {
                w.put(item.id.to_be_bytes())?;
                put_of_family(w, item.source, ipv4)?;
                put_of_family(w, item.destination, ipv4)
            }),
        }
    }
}

pub(super) fn put_refresh_list(
    w: &mut Writer<'_>,
    list: &RefreshList<'_>,
) -> Result<(), EmitError> {
    list.put(w)
}

/// Length of a list of items of `item` octets each, octets.
fn len<'a, T: Item<'a>>(list: List<'a, T>, item: usize) -> usize {
    list.len() * item
}

fn put_of_family(w: &mut Writer<'_>, address: IpAddr, ipv4: bool) -> Result<(), EmitError> {
    if address.is_ipv4() == ipv4 { put_address(w, address) } else { Err(EmitError::Contradiction) }
}
