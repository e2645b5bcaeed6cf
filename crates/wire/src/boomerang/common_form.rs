//! Fast parsing of the common form of a message: a single flow of IPv4, two rates, no flags, no options, in an ICMP
//! message of 72 octets.
//!
//! All fields have fixed offsets, so that a few comparisons of whole words recognize the form, and the checksum covers
//! nine words. [`Echo`](crate::icmp::Echo) and [`View`] parse all other messages and report their errors.

use super::iana::{AddressFamily, MAGIC, MessageType, QosFormat, VERSION};
use super::keys::Family;
use super::message::Rates;
use super::offset;
use super::view::View;
use crate::checksum;
use crate::icmp::{HEADER, Kind, PseudoHeader};

/// A message of the common form. Form and checksum have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonForm<'a> {
    /// Echo request or echo reply.
    pub kind: Kind,
    message: &'a [u8; LEN],
}

/// Length of a classifier, and of a mask, octets.
const KEYS: usize = Family::V4.keys_len();
/// Offset of the rates. Offsets in this file count from the ICMP header: HEADER is added to those of other files.
const RATES: usize = HEADER + offset::CLASSIFIER + 2 * KEYS;
/// Length of the whole ICMP message, octets.
const LEN: usize = RATES + 8;
/// The eight octets from TYPE on as all messages of this form have them: type, format, flags and version.
const HEAD: [u8; 8] = [
    MessageType::Reservation.code(),
    QosFormat::Bitrate.code() | AddressFamily::Ipv4.code(),
    0,
    0,
    0,
    VERSION,
    0,
    0,
];
/// Bits of [`HEAD`] that are compared; the refresh interval and padding are not.
const HEAD_MASK: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0xff, 0, 0];
/// Mask of a single flow, [`Shape::exact`](super::Shape::exact): addresses, ports and protocol.
const ONE_FLOW: [u64; 2] = [u64::MAX, u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0])];

impl<'a> CommonForm<'a> {
    /// Reads an ICMP message between two IPv4 addresses. Returns `None` if it has another form, or any fault.
    #[inline]
    pub fn read(message: &'a [u8]) -> Option<CommonForm<'a>> {
        let message: &[u8; LEN] = message.try_into().ok()?;
        let (words, _) = message.as_chunks::<8>();
        let &[[code, 0, ..], [m0, m1, m2, m3, ..], head, _, _, _, k0, k1, _] = words else {
            return None;
        };
        let kind = if code == PseudoHeader::V4.code(Kind::Request) {
            Kind::Request
        } else if code == PseudoHeader::V4.code(Kind::Reply) {
            Kind::Reply
        } else {
            return None;
        };
        let head = u64::from_ne_bytes(head) & u64::from_ne_bytes(HEAD_MASK);
        let plain = u32::from_be_bytes([m0, m1, m2, m3]) == MAGIC
            && head == u64::from_ne_bytes(HEAD)
            && [k0, k1].map(u64::from_ne_bytes) == ONE_FLOW
            && checksum::sum_of_words(words) == 0xffff;
        plain.then_some(CommonForm { kind, message })
    }

    /// Returns the general view of the message.
    #[inline]
    pub fn view(&self) -> View<'a> {
        let (_, octets) = self.message.split_at(HEADER);
        View { octets, family: Family::V4, is_vector: false, options: LEN - HEADER }
    }

    #[inline]
    fn chunk<const N: usize>(&self, at: usize) -> [u8; N] {
        self.message.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Refresh interval, seconds.
    #[inline]
    pub fn refresh_interval(&self) -> u8 {
        self.message[HEADER + offset::REFRESH]
    }

    /// Returns the classifier under the mask as machine words. Their byte order is that of the machine: they can be
    /// compared only.
    #[inline]
    pub fn flow(&self) -> [u64; 2] {
        let [first, second] = [0, 8].map(|at| self.chunk(HEADER + offset::CLASSIFIER + at));
        [u64::from_ne_bytes(first), u64::from_ne_bytes(second) & ONE_FLOW[1]]
    }

    /// Requested rates.
    #[inline]
    pub fn rates(&self) -> Rates {
        Rates::from_octets(self.chunk(RATES))
    }
}
