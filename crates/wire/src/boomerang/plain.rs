//! The plain message, which nearly all are: one flow of IPv4, two rates, no flags, no options, in an ICMP message of 72 octets.
//!
//! All its fields stand at fixed places, so that a few comparisons of whole words tell one, and its checksum is that of nine
//! words. Whatever is not of that form is read by [`Echo`](crate::icmp::Echo) and [`View`], which also say what is
//! wrong with it.

use super::at;
use super::iana::{AddressFamily, MAGIC, MessageType, QosFormat, VERSION};
use super::keys::Family;
use super::message::Rates;
use super::view::View;
use crate::checksum;
use crate::icmp::{Ends, HEADER, Kind};

/// A plain message whose form and checksum have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Which half of the ping it is.
    pub kind: Kind,
    message: &'a [u8; LEN],
}

/// Octets of classifier and mask.
const KEYS: usize = Family::V4.keys_len();
/// Where the rates stand; offsets in this file count from the ICMP header, so HEADER is added to those of others.
const RATES: usize = HEADER + at::CLASSIFIER + 2 * KEYS;
/// Octets of the whole ICMP message.
const LEN: usize = RATES + 8;
/// The octets from TYPE on, as far as they are the same in all plain messages: type, format, flags and version.
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
/// Which of their bits are the same: not the refresh interval, and not what is padding.
const HEAD_MASK: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0xff, 0, 0];
/// The mask of one flow, [`Shape::exact`](super::Shape::exact): addresses, ports and protocol.
const ONE_FLOW: [u64; 2] = [u64::MAX, u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0])];

impl<'a> Plain<'a> {
    /// Reads an ICMP message between two IPv4 addresses; `None` where it is no plain one, or anything is wrong with it.
    #[inline]
    pub fn read(message: &'a [u8]) -> Option<Plain<'a>> {
        let message: &[u8; LEN] = message.try_into().ok()?;
        let (words, _) = message.as_chunks::<8>();
        let &[[code, 0, ..], [m0, m1, m2, m3, ..], head, _, _, _, k0, k1, _] = words else {
            return None;
        };
        let kind = if code == Ends::V4.code(Kind::Request) {
            Kind::Request
        } else if code == Ends::V4.code(Kind::Reply) {
            Kind::Reply
        } else {
            return None;
        };
        let head = u64::from_ne_bytes(head) & u64::from_ne_bytes(HEAD_MASK);
        let plain = u32::from_be_bytes([m0, m1, m2, m3]) == MAGIC
            && head == u64::from_ne_bytes(HEAD)
            && [k0, k1].map(u64::from_ne_bytes) == ONE_FLOW
            && checksum::sum_of_words(words) == 0xffff;
        plain.then_some(Plain { kind, message })
    }

    /// The same message, looked at as others are.
    #[inline]
    pub fn view(&self) -> View<'a> {
        let (_, octets) = self.message.split_at(HEADER);
        View { octets, family: Family::V4, is_vector: false, options: LEN - HEADER }
    }

    #[inline]
    fn chunk<const N: usize>(&self, at: usize) -> [u8; N] {
        self.message.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Seconds until the next message is promised.
    #[inline]
    pub fn refresh_interval(&self) -> u8 {
        self.message[HEADER + at::REFRESH]
    }

    /// The classifier under the mask, in words. They are in the byte order of the machine: to compare, not to count with.
    #[inline]
    pub fn flow(&self) -> [u64; 2] {
        let [first, second] = [0, 8].map(|at| self.chunk(HEADER + at::CLASSIFIER + at));
        [u64::from_ne_bytes(first), u64::from_ne_bytes(second) & ONE_FLOW[1]]
    }

    /// What is asked for.
    #[inline]
    pub fn rates(&self) -> Rates {
        Rates::from_octets(self.chunk(RATES))
    }
}
