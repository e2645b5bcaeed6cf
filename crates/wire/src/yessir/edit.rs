//! The editor: what a router writes into a message that it sends on, and nothing else.
//!
//! LINK_INFO is changed where it stands. A note of failure is put behind those that are there, or into a FAILURE of its
//! own behind all fragments; then the packet grows, and the lengths of fragment, APP packet and UDP with it. The UDP
//! checksum follows by difference (RFC 1624), so that it costs the same for long packets, and damage done elsewhere on
//! the way stays visible.

use core::net::IpAddr;

use super::fragment::{FailureNote, HEADER, LinkInfo};
use super::iana::FragmentType;
use super::message::Places;
use crate::checksum::Difference;
use crate::udp;
use crate::writer::EmitError;

/// What is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edit {
    /// In the place of the LINK_INFO that is there; where there is none, none is made.
    pub link_info: Option<LinkInfo>,
    /// In addition to the notes that are there.
    pub note: Option<FailureNote>,
}

/// Header and count of a FAILURE without notes, octets.
const EMPTY: usize = HEADER + 4;

impl Edit {
    /// By how many octets the packet grows.
    pub fn growth(&self, places: &Places) -> usize {
        let Some(note) = &self.note else { return 0 };
        let (_, length) = note.to_octets();
        length + if places.failure.is_some() { 0 } else { EMPTY }
    }

    /// Writes the UDP packet `packet`, of which `places` was read, edited into `target`, which is as long as `packet`
    /// and the [`growth`](Edit::growth).
    ///
    /// # Errors
    /// `target` has another length, a length field cannot say the new length, or there are 255 notes already.
    #[inline]
    pub fn write(
        &self,
        packet: &[u8],
        places: &Places,
        target: &mut [u8],
    ) -> Result<(), EmitError> {
        if target.len() != packet.len() + self.growth(places) {
            return Err(EmitError::BufferTooShort);
        }
        let Some(note) = &self.note else {
            target.copy_from_slice(packet);
            return match (&self.link_info, places.link_info) {
                (Some(info), Some(at)) => amend(target, at, |_| *info),
                _ => Ok(()),
            };
        };
        let mut editor = Editor { target, difference: Difference::default() };
        editor.insert(packet, places, note)?;
        if let (Some(info), Some(at)) = (&self.link_info, places.link_info) {
            // A note never stands in front of it, unless it was put there by somebody who writes in another order.
            let moved = places.failure.is_some_and(|failure| failure < at);
            let moved = if moved { self.growth(places) } else { 0 };
            editor.put(udp::HEADER + at + moved + HEADER, info.body())?;
        }
        editor.finish()
    }
}

/// Changes LINK_INFO in a UDP packet where it stands: at [`Places::link_info`] of the compound.
///
/// # Errors
/// The packet ends before it does.
#[inline]
pub fn amend(
    packet: &mut [u8],
    at: usize,
    change: impl FnOnce(&LinkInfo) -> LinkInfo,
) -> Result<(), EmitError> {
    let at = udp::HEADER + at;
    let place = packet.get(at..).and_then(<[u8]>::first_chunk::<{ LinkInfo::LEN }>);
    let &[_, send_ttl, _, _, ref body @ ..] = place.ok_or(EmitError::Contradiction)?;
    let info = change(&LinkInfo::read(send_ttl, *body));
    let mut editor = Editor { target: packet, difference: Difference::default() };
    editor.put(at + HEADER, info.body())?;
    editor.finish()
}

struct Editor<'t> {
    target: &'t mut [u8],
    difference: Difference,
}

impl Editor<'_> {
    /// Copies the packet with a note at its place, and puts the lengths right.
    #[cold]
    fn insert(
        &mut self,
        packet: &[u8],
        places: &Places,
        note: &FailureNote,
    ) -> Result<(), EmitError> {
        let (octets, length) = note.to_octets();
        let mut inserted = [0; EMPTY + FailureNote::MOST];
        let (at, inserted) = match places.failure {
            Some(failure) => {
                let failure = udp::HEADER + failure;
                let old = read_u16(packet, failure + 2)?;
                (failure + usize::from(old), &mut inserted[..length])
            }
            None => (udp::HEADER + places.end, &mut inserted[..EMPTY + length]),
        };
        let head = inserted.len() - length;
        inserted[head..].copy_from_slice(&octets[..length]);
        if places.failure.is_none() {
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
        let (front, rest) = self.target.split_at_mut(at);
        front.copy_from_slice(before);
        let (middle, back) = rest.split_at_mut(inserted.len());
        middle.copy_from_slice(inserted);
        back.copy_from_slice(behind);
        self.difference.replace(&[], inserted);
        let growth = u16::try_from(inserted.len()).map_err(|_| EmitError::TooLong)?;
        if let Some(failure) = places.failure {
            let failure = udp::HEADER + failure;
            self.add(failure + 2, growth)?;
            let [count, reserved] = read_u16(self.target, failure + HEADER)?.to_be_bytes();
            let count = count.checked_add(1).ok_or(EmitError::TooLong)?;
            self.put(failure + HEADER, [count, reserved])?;
        }
        self.add(udp::HEADER + places.app + 2, growth / 4)?;
        // Once in the header, once in the pseudo-header.
        self.add(4, growth)?;
        self.difference.replace(&[], &growth.to_be_bytes());
        Ok(())
    }

    /// Replaces octets; `at` is even.
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

    /// Puts the checksum right, where there is one.
    #[inline]
    fn finish(self) -> Result<(), EmitError> {
        let header = self.target.first_chunk_mut::<{ udp::HEADER }>();
        let [.., c0, c1] = header.ok_or(EmitError::Contradiction)?;
        let old = u16::from_be_bytes([*c0, *c1]);
        if old != 0 {
            // Zero would say that there is no checksum; all ones is the same number and does not.
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

/// Computes the checksum of a UDP packet that its sender left to hardware which it will not meet any more.
///
/// # Errors
/// The packet is shorter than a header, or the addresses are of two families.
pub fn complete_checksum(
    packet: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), EmitError> {
    let (source_port, destination_port) = (read_u16(packet, 0)?, read_u16(packet, 2)?);
    udp::Repr { source, destination, source_port, destination_port }.emit(packet)
}
