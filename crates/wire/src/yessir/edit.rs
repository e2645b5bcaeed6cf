//! The edits of a router in a message that it forwards.
//!
//! LINK_INFO is changed in place. A failure note is appended to the existing ones, or becomes a FAILURE fragment of its
//! own behind all fragments; the packet grows, and with it the lengths of fragment, APP packet and UDP. The UDP
//! checksum is updated incrementally (RFC 1624), so that the cost does not depend on the packet's length, and earlier
//! damage remains detectable.

use core::net::IpAddr;

use super::fragment::{FailureNote, HEADER, LinkInfo};
use super::iana::FragmentType;
use super::message::EditOffsets;
use crate::checksum::IncrementalUpdate;
use crate::udp;
use crate::writer::EmitError;

/// Changes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edit {
    /// Replacement of an existing LINK_INFO; none is added.
    pub link_info: Option<LinkInfo>,
    /// Additional failure note.
    pub note: Option<FailureNote>,
}

/// Length of a FAILURE fragment without notes, header and count; octets.
const EMPTY: usize = HEADER + 4;

impl Edit {
    /// Growth of the packet, octets.
    pub fn growth(&self, offsets: &EditOffsets) -> usize {
        let Some(note) = &self.note else { return 0 };
        let (_, length) = note.to_octets();
        length + if offsets.failure.is_some() { 0 } else { EMPTY }
    }

    /// Writes the edited UDP packet `packet`, of which `offsets` was read, into `target`, which is longer than `packet`
    /// by [`growth`](Edit::growth).
    ///
    /// # Errors
    /// `target` has another length, a length field cannot hold the new length, or there are 255 notes already.
    #[inline]
    pub fn write(
        &self,
        packet: &[u8],
        offsets: &EditOffsets,
        target: &mut [u8],
    ) -> Result<(), EmitError> {
        if target.len() != packet.len() + self.growth(offsets) {
            return Err(EmitError::BufferTooShort);
        }
        let Some(note) = &self.note else {
            target.copy_from_slice(packet);
            return match (&self.link_info, offsets.link_info) {
                (Some(info), Some(at)) => update_link_info(target, at, |_| *info),
                _ => Ok(()),
            };
        };
        let mut editor = Editor { target, difference: IncrementalUpdate::default() };
        editor.insert(packet, offsets, note)?;
        if let (Some(info), Some(at)) = (&self.link_info, offsets.link_info) {
            // Senders of other programs may write FAILURE in front of LINK_INFO; its offset then grows.
            let moved = offsets.failure.is_some_and(|failure| failure < at);
            let moved = if moved { self.growth(offsets) } else { 0 };
            editor.put(udp::HEADER + at + moved + HEADER, info.body())?;
        }
        editor.finish()
    }
}

/// Overwrites LINK_INFO in a UDP packet in place: at [`EditOffsets::link_info`] of the compound.
///
/// # Errors
/// The packet ends within LINK_INFO.
#[inline]
pub fn update_link_info(
    packet: &mut [u8],
    at: usize,
    change: impl FnOnce(&LinkInfo) -> LinkInfo,
) -> Result<(), EmitError> {
    let at = udp::HEADER + at;
    let place = packet.get(at..).and_then(<[u8]>::first_chunk::<{ LinkInfo::LEN }>);
    let &[_, send_ttl, _, _, ref body @ ..] = place.ok_or(EmitError::Contradiction)?;
    let info = change(&LinkInfo::read(send_ttl, *body));
    let mut editor = Editor { target: packet, difference: IncrementalUpdate::default() };
    editor.put(at + HEADER, info.body())?;
    editor.finish()
}

struct Editor<'t> {
    target: &'t mut [u8],
    difference: IncrementalUpdate,
}

impl Editor<'_> {
    /// Copies the packet with an inserted note, and updates the lengths.
    #[cold]
    fn insert(
        &mut self,
        packet: &[u8],
        offsets: &EditOffsets,
        note: &FailureNote,
    ) -> Result<(), EmitError> {
        let (octets, length) = note.to_octets();
        let mut inserted = [0; EMPTY + FailureNote::MAX_LEN];
        let (at, inserted) = match offsets.failure {
            Some(failure) => {
                let failure = udp::HEADER + failure;
                let old = read_u16(packet, failure + 2)?;
                (failure + usize::from(old), &mut inserted[..length])
            }
            None => (udp::HEADER + offsets.end, &mut inserted[..EMPTY + length]),
        };
        let head = inserted.len() - length;
        inserted[head..].copy_from_slice(&octets[..length]);
        if offsets.failure.is_none() {
            let whole = inserted.len() as u8; // at most 32
            inserted[..EMPTY].copy_from_slice(&[
                FragmentType::Failure.code(),
                0,
                0,
                whole,
                1,
                0,
                0,
                0,
            ]);
        }
        let (before, behind) = packet.split_at_checked(at).ok_or(EmitError::Contradiction)?;
        let (head, rest) = self.target.split_at_mut(at);
        head.copy_from_slice(before);
        let (middle, back) = rest.split_at_mut(inserted.len());
        middle.copy_from_slice(inserted);
        back.copy_from_slice(behind);
        self.difference.replace(&[], inserted);
        let growth = u16::try_from(inserted.len()).map_err(|_| EmitError::TooLong)?;
        if let Some(failure) = offsets.failure {
            let failure = udp::HEADER + failure;
            self.add(failure + 2, growth)?;
            let [count, reserved] = read_u16(self.target, failure + HEADER)?.to_be_bytes();
            let count = count.checked_add(1).ok_or(EmitError::TooLong)?;
            self.put(failure + HEADER, [count, reserved])?;
        }
        self.add(udp::HEADER + offsets.app + 2, growth / 4)?;
        // The length is in the header and in the pseudo-header.
        self.add(4, growth)?;
        self.difference.replace(&[], &growth.to_be_bytes());
        Ok(())
    }

    /// Overwrites octets; `at` is even.
    #[inline]
    fn put<const N: usize>(&mut self, at: usize, new: [u8; N]) -> Result<(), EmitError> {
        let place = self.target.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>);
        let place = place.ok_or(EmitError::Contradiction)?;
        self.difference.replace(place, &new);
        *place = new;
        Ok(())
    }

    /// Adds to a length field.
    fn add(&mut self, at: usize, more: u16) -> Result<(), EmitError> {
        let length = read_u16(self.target, at)?.checked_add(more).ok_or(EmitError::TooLong)?;
        self.put(at, length.to_be_bytes())
    }

    /// Updates the checksum, if there is one.
    #[inline]
    fn finish(self) -> Result<(), EmitError> {
        let header = self.target.first_chunk_mut::<{ udp::HEADER }>();
        let [.., c0, c1] = header.ok_or(EmitError::Contradiction)?;
        let old = u16::from_be_bytes([*c0, *c1]);
        if old != 0 {
            // Zero would mean that there is no checksum; all ones is the same number.
            let new = match self.difference.apply(old) {
                0 => u16::MAX,
                new => new,
            };
            [*c0, *c1] = new.to_be_bytes();
        }
        Ok(())
    }
}

#[inline]
fn read_u16(octets: &[u8], at: usize) -> Result<u16, EmitError> {
    let field = octets.get(at..).and_then(<[u8]>::first_chunk).ok_or(EmitError::Contradiction)?;
    Ok(u16::from_be_bytes(*field))
}

/// Computes the checksum of a UDP packet that its sender left to checksum offload, when no such hardware follows.
///
/// # Errors
/// The packet is shorter than a header, or the addresses are of different families.
pub fn fill_partial_checksum(
    packet: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), EmitError> {
    let (source_port, destination_port) = (read_u16(packet, 0)?, read_u16(packet, 2)?);
    udp::Repr { source, destination, source_port, destination_port }.emit(packet)
}
