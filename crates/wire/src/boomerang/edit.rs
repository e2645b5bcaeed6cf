//! Changing a message where it stands, checksum included.

use super::at;
use super::iana::flag;
use super::keys::Family;
use super::message::Rates;
use super::options::OptionItem;
use super::participation::Participation;
use super::view::View;
use crate::icmp::{self, Ends, HEADER};
use crate::writer::EmitError;

/// A whole ICMP message with a reservation in it that a node may change: NACK, refresh_int, key, what is asked for, and who takes part.
/// Every change keeps the checksum as right, or as wrong, as it was (RFC 1624).
#[derive(Debug)]
pub struct Editor<'m> {
    /// From the ICMP header on.
    message: &'m mut [u8],
    /// Where the QoS part begins, octets from MAGIC.
    qos: usize,
}

impl<'m> Editor<'m> {
    /// To change the message that `view` was made of, of which `message` is a copy with its ICMP header.
    #[inline]
    pub fn new(message: &'m mut [u8], view: &View<'_>) -> Editor<'m> {
        Editor { message, qos: view.qos_at() }
    }

    /// Overwrites octets. The offset, from MAGIC, and the length are even.
    #[inline]
    fn put<const N: usize>(&mut self, at: usize, new: [u8; N]) {
        let Some(slot) =
            self.message.get_mut(HEADER + at..).and_then(|rest| rest.first_chunk_mut())
        else {
            return;
        };
        let old: [u8; N] = core::mem::replace(slot, new);
        icmp::amend(self.message, &old, &new);
    }

    fn octets<const N: usize>(&self, at: usize) -> [u8; N] {
        self.message
            .get(HEADER + at..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .unwrap_or([0; N])
    }

    /// Says that something was refused.
    pub fn set_nack(&mut self) {
        let flags = u16::from_be_bytes(self.octets(at::FLAGS)) | flag::NACK;
        self.put(at::FLAGS, flags.to_be_bytes());
    }

    /// Shortens the refresh interval to `seconds`, if it is longer.
    pub fn lower_refresh_interval(&mut self, seconds: u8) {
        let [now, version] = self.octets(at::REFRESH);
        if now > seconds {
            self.put(at::REFRESH, [seconds, version]);
        }
    }

    /// Changes the key.
    pub fn set_key(&mut self, key: u64) {
        self.put(at::KEY, key.to_be_bytes());
    }

    /// Changes the two rates of a message that asks for bitrates.
    pub fn set_rates(&mut self, rates: Rates) {
        self.put(self.qos, rates.to_octets());
    }

    /// Writes the participation record anew that begins at `at`, octets from MAGIC.
    pub fn set_participation(&mut self, at: usize, record: &Participation) {
        let family = Family::of(record.initiator);
        let mut octets = [0; Participation::buffer_len(Family::V6)];
        if OptionItem::Participation(*record).emit(family, &mut octets).is_err() {
            return;
        }
        let (words, _) = octets.as_chunks::<4>();
        let length = Participation::buffer_len(family) / 4;
        for (number, word) in words.iter().take(length).enumerate() {
            self.put(at + 4 * number, *word);
        }
    }

    /// Takes a pair out of a list of downgrades.
    pub fn zero_element(&mut self, number: usize) {
        self.put(self.qos + 4 + 8 * number, [0; 8]);
    }
}

/// Appends an option to the ICMP message at the start of `buffer`, which is `length` octets long, and gives its new
/// length. `ends` are those of the message. Whatever else was wrong with its checksum stays wrong.
///
/// # Errors
/// The buffer is too short, or the option is of another family.
pub fn append(
    buffer: &mut [u8],
    length: usize,
    ends: Ends,
    option: &OptionItem<'_>,
    family: super::Family,
) -> Result<usize, EmitError> {
    let room = buffer.get_mut(length..).ok_or(EmitError::BufferTooShort)?;
    if !length.is_multiple_of(2) {
        // The sum of what follows would be out of step. No message without unknown options has an odd length.
        return Err(EmitError::Contradiction);
    }
    let added = option.emit(family, room)?;
    let (message, option) = buffer.split_at_mut(length);
    let Some(option) = option.get(..added) else { return Err(EmitError::BufferTooShort) };
    icmp::amend(message, &[], option);
    if let Ends::V6(..) = ends {
        // The length stands in the pseudo-header.
        let [old, new] = [length as u32, (length + added) as u32].map(u32::to_be_bytes);
        icmp::amend(message, &old, &new);
    }
    Ok(length + added)
}
