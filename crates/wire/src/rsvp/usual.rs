//! The shape that nearly every Path has, recognized by the object headers at their places: IPv4, objects in the order that
//! RFC 2205 section 3.1.3 recommends, nothing carried, nothing in front but maybe a MESSAGE_ID, and the ADSPEC, if there is one, of its own usual
//! shape.
//!
//! Of all messages refreshed Paths and Resvs are the bulk, and Paths are the dearer ones. Whatever is not quite like this,
//! or is wrong, goes the long way, which is also the one to say what is wrong.

use core::net::{IpAddr, Ipv4Addr};

use super::message::{Body, Carried, Path, SenderDescriptor};
use super::objects::{FilterSpec, RsvpHop, Session, SourceSelector};
use super::reduction::MessageId;
use crate::intserv::{Adspec, SenderTspec};

const MESSAGE_ID: u32 = 0x000c_1701;
const SESSION: u32 = 0x000c_0101;
const RSVP_HOP: u32 = 0x000c_0301;
const TIME_VALUES: u32 = 0x0008_0501;
const SENDER_TEMPLATE: u32 = 0x000c_0b01;
const SENDER_TSPEC: u32 = 0x0024_0c02;
/// Class and C-Type of ADSPEC.
const ADSPEC: u32 = 0x0d02;

/// The MESSAGE_ID that `objects`, which are everything behind the common header, begin with, and what is behind it.
#[inline]
pub(super) fn message_id(objects: &[u8]) -> (Option<MessageId>, &[u8]) {
    match objects.split_first_chunk::<12>() {
        Some(([h0, h1, h2, h3, flags, e0, e1, e2, i0, i1, i2, i3], behind))
            if u32::from_be_bytes([*h0, *h1, *h2, *h3]) == MESSAGE_ID =>
        {
            let epoch = u32::from_be_bytes([0, *e0, *e1, *e2]);
            let id = u32::from_be_bytes([*i0, *i1, *i2, *i3]);
            (Some(MessageId { flags: *flags, epoch, id }), behind)
        }
        _ => (None, objects),
    }
}

/// The body of the Path in `objects`, with nothing in front of it, if it is of the usual shape.
#[inline]
pub(super) fn path(objects: &[u8]) -> Option<Body<'_>> {
    let (words, _) = objects.as_chunks::<4>();
    let (words, _) = words.split_first_chunk::<12>()?;
    let word = |place: usize| u32::from_be_bytes(words[place]);
    let headers = (word(0) ^ SESSION)
        | (word(3) ^ RSVP_HOP)
        | (word(6) ^ TIME_VALUES)
        | (word(8) ^ SENDER_TEMPLATE)
        | (word(11) ^ SENDER_TSPEC);
    if headers != 0 {
        return None;
    }
    let address = |place: usize| Ipv4Addr::from(words[place]);
    let [protocol, flags, p0, p1] = words[2];
    let port = u16::from_be_bytes([p0, p1]);
    let (destination, hop, source) = (address(1), address(4), address(9));
    let [_, _, s0, s1] = words[10];
    let source_port = u16::from_be_bytes([s0, s1]);
    let wrong = destination.is_unspecified()
        || source.is_unspecified()
        || hop.is_unspecified()
        || hop.is_multicast()
        || protocol == 0
        || (port == 0 && source_port != 0);
    if wrong {
        return None;
    }
    let (tspec, rest) = objects.get(4 * 12..)?.split_at_checked(SenderTspec::BODY_LEN)?;
    let tspec = SenderTspec::parse(tspec).ok()?;
    let template =
        FilterSpec { source: IpAddr::V4(source), selector: SourceSelector::Port(source_port) };
    Some(Body::Path(Path {
        session: Session { destination: IpAddr::V4(destination), protocol, flags, port },
        hop: RsvpHop { address: IpAddr::V4(hop), lih: word(5) },
        refresh_ms: word(7),
        carried: Carried::NONE,
        sender: SenderDescriptor { template, tspec, adspec: adspec(rest)? },
    }))
}

/// The body of the ADSPEC that is all of `rest`, or `Some(None)` if there is no more.
#[inline]
fn adspec(rest: &[u8]) -> Option<Option<&[u8]>> {
    let Some((header, body)) = rest.split_first_chunk::<4>() else {
        return rest.is_empty().then_some(None);
    };
    let header = u32::from_be_bytes(*header);
    let fits = header & 0xffff == ADSPEC && (header >> 16) as usize == rest.len();
    (fits && Adspec::check(body).is_ok()).then_some(Some(body))
}
