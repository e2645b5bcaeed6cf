//! In-place edits of a Boomerang message, with the checksum of the ping around it.

use super::iana::flag;
use super::keys::Family;
use super::message::Rates;
use super::offset;
use super::options::OptionItem;
use super::participation::Participation;
use super::view::View;
use crate::icmp::{self, HEADER, PseudoHeader};
use crate::writer::EmitError;

/// A mutable ICMP message with a reservation in it. A node may change NACK, refresh_int, key, the QoS part and the
/// participation record. Every change updates the checksum incrementally (RFC 1624), so that a wrong checksum stays
/// wrong.
#[derive(Debug)]
pub struct Editor<'m> {
    /// The message from the ICMP header on.
    message: &'m mut [u8],
    /// Offset of the QoS part, octets from MAGIC.
    qos: usize,
}

impl<'m> Editor<'m> {
    /// Creates the editor of `message`, the copy with its ICMP header of the message that `view` was parsed from.
    #[inline]
    pub fn new(message: &'m mut [u8], view: &View<'_>) -> Editor<'m> {
        Editor { message, qos: view.qos_at() }
    }

    /// Overwrites octets. Offset, from MAGIC, and length are even.
    #[inline]
    fn put<const N: usize>(&mut self, at: usize, new: [u8; N]) {
        let Some(slot) =
            self.message.get_mut(HEADER + at..).and_then(|rest| rest.first_chunk_mut())
        else {
            return;
        };
        let old: [u8; N] = core::mem::replace(slot, new);
        icmp::update_checksum(self.message, &old, &new);
    }

    fn octets<const N: usize>(&self, at: usize) -> [u8; N] {
        self.message
            .get(HEADER + at..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .unwrap_or([0; N])
    }

    /// Sets the NACK flag.
    pub fn set_nack(&mut self) {
        let flags = u16::from_be_bytes(self.octets(offset::FLAGS)) | flag::NACK;
        self.put(offset::FLAGS, flags.to_be_bytes());
    }

    /// Lowers the refresh interval to `seconds`, if it is longer.
    pub fn lower_refresh_interval(&mut self, seconds: u8) {
        let [now, version] = self.octets(offset::REFRESH);
        if now > seconds {
            self.put(offset::REFRESH, [seconds, version]);
        }
    }

    /// Overwrites the key.
    pub fn set_key(&mut self, key: u64) {
        self.put(offset::KEY, key.to_be_bytes());
    }

    /// Overwrites the two rates of a message with the bitrate QoS format.
    pub fn set_rates(&mut self, rates: Rates) {
        self.put(self.qos, rates.to_octets());
    }

    /// Overwrites the participation record at offset `at`, octets from MAGIC.
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

    /// Sets the pair with this index in a downgrade vector to zero.
    pub fn zero_element(&mut self, number: usize) {
        self.put(self.qos + 4 + 8 * number, [0; 8]);
    }
}

/// Appends an option to the ICMP message in the first `length` octets of `buffer`; returns the new length.
/// `pseudo_header` is that of the message. The checksum is updated incrementally, so that a wrong one stays wrong.
///
/// # Errors
/// The buffer is too short, or the option is of another family.
pub fn append(
    buffer: &mut [u8],
    length: usize,
    pseudo_header: PseudoHeader,
    option: &OptionItem<'_>,
    family: super::Family,
) -> Result<usize, EmitError> {
    let room = buffer.get_mut(length..).ok_or(EmitError::BufferTooShort)?;
    if !length.is_multiple_of(2) {
        // Behind an odd length the option would be out of step with the checksum's words. Only messages with unknown
        // options have an odd length.
        return Err(EmitError::Contradiction);
    }
    let added = option.emit(family, room)?;
    let (message, option) = buffer.split_at_mut(length);
    let Some(option) = option.get(..added) else { return Err(EmitError::BufferTooShort) };
    icmp::update_checksum(message, &[], option);
    if let PseudoHeader::V6(..) = pseudo_header {
        // The pseudo-header contains the length.
        let [old, new] = [length as u32, (length + added) as u32].map(u32::to_be_bytes);
        icmp::update_checksum(message, &old, &new);
    }
    Ok(length + added)
}
