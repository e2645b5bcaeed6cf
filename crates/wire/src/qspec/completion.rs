//! TMODs of four words, without the maximum packet size, as early implementations send them. RFC 5975 section 5.2.1 demands
//! five, and [`Qspec::parse`](super::Qspec::parse) refuses four; the other sub-parameters are unambiguous.

use super::HEADER;
use super::iana::ParameterId;
use super::value::TMOD;
use crate::nsis::object::{Object, WORD, objects};
use crate::writer::{EmitError, Writer};

/// Length field of a header: words, twelve bits.
const MAXIMUM_WORDS: usize = 0x0fff;

/// Returns whether a TMOD of a QSPEC lacks the maximum packet size.
#[inline]
pub fn lacks_packet_size(octets: &[u8]) -> bool {
    let objects_at = octets.get(HEADER..).unwrap_or_default();
    objects(objects_at, HEADER)
        .map_while(Result::ok)
        .any(|object| objects(object.value(), 0).map_while(Result::ok).any(|one| is_short(&one)))
}

#[inline]
fn is_short(parameter: &Object<'_>) -> bool {
    let id = parameter.object_type();
    (id == ParameterId::Tmod1.code() || id == ParameterId::Tmod2.code())
        && parameter.value().len() == TMOD - WORD
}

/// Largest length of what [`emit_with_packet_size`] writes for a QSPEC of this length, octets: the shortest TMOD without a
/// maximum packet size has five words with its header.
pub const fn completed_len(length: usize) -> usize {
    length + length / 5
}

/// Writes the QSPEC to the start of `buffer`, with a maximum packet size in each TMOD that lacks it: `max_packet_size`, or the
/// minimum policed unit if that is larger. Returns the length.
///
/// # Errors
/// The buffer is too short; the QSPEC has an Initiator QSPEC behind it or broken frames, or would be too long.
pub fn emit_with_packet_size(
    octets: &[u8],
    max_packet_size: u32,
    buffer: &mut [u8],
) -> Result<usize, EmitError> {
    let broken = EmitError::Contradiction;
    let (&[h0, h1, h2, h3], body) = octets.split_first_chunk::<HEADER>().ok_or(broken)?;
    let length = usize::from(u16::from_be_bytes([h2, h3])) & MAXIMUM_WORDS;
    if length * WORD != body.len() {
        return Err(broken);
    }
    let mut writer = Writer::new(buffer);
    writer.put([h0, h1, h2, h3])?;
    for object in objects(body, HEADER) {
        let object = object.map_err(|_| broken)?;
        let at = writer.written().len();
        writer.put_slice(object.octets().get(..HEADER).ok_or(broken)?)?;
        for parameter in objects(object.value(), 0) {
            let parameter = parameter.map_err(|_| broken)?;
            let parameter_at = writer.written().len();
            writer.put_slice(parameter.octets())?;
            if is_short(&parameter) {
                let unit = parameter.value().last_chunk().ok_or(broken)?;
                let unit = u32::from_be_bytes(*unit);
                writer.put(max_packet_size.max(unit).to_be_bytes())?;
                set_length(&mut writer, parameter_at)?;
            }
        }
        set_length(&mut writer, at)?;
    }
    set_length(&mut writer, 0)?;
    Ok(writer.written().len())
}

/// Sets the length of a header to the words behind it, and keeps the four bits before the length.
fn set_length(writer: &mut Writer<'_>, at: usize) -> Result<(), EmitError> {
    let words = (writer.written().len() - at - HEADER) / WORD;
    if words > MAXIMUM_WORDS {
        return Err(EmitError::TooLong);
    }
    let before = writer.written().get(at + 2).copied().unwrap_or_default();
    writer.patch(at + 2, [before & 0xf0 | (words >> 8) as u8, words as u8])
}
