//! Forwarding of a message: all objects are kept, known or not, except those that the sender marked to be dropped.

use super::emit::put_words;
use super::grammar::Mode;
use super::header::{HEADER, at};
use super::iana::{MAGIC, ObjectType};
use super::message::Message;
use crate::nsis::{Treatment, WORD, objects};
use crate::writer::{EmitError, Writer};

/// Reasons why a message is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// The message is malformed.
    #[error(transparent)]
    Parse(#[from] super::ParseError),
    /// The hop count permits no further node: Hop Limit Exceeded (RFC 5971 A.4.4.2).
    #[error("GIST, octet 1: hop count exhausted")]
    HopLimit,
    /// The buffer is too short.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// Writes a D-mode message that is for another node to the start of `buffer`, in the form in which it is forwarded, and
/// returns its length, which is at most that of `octets` and of the magic number in front.
///
/// Every object keeps its octets, reserved bits included. Unknown objects that are marked to be ignored are left out
/// (RFC 5971 A.2.1), and the hop count decreases by one.
///
/// # Errors
/// The message is malformed, its hop count is below 2, or the buffer is too short.
pub fn forward(octets: &[u8], buffer: &mut [u8]) -> Result<usize, ForwardError> {
    write(octets, None, buffer)
}

/// Works as [`forward`] and replaces NSLP-Data by `data`, which are whole words: an application that does not answer a
/// Query may change the data for the next node (RFC 5971 section 4.3.2). The message may grow by the length of `data`
/// and four octets.
///
/// # Errors
/// The errors of [`forward`]; the data are too long, or not whole words.
pub fn forward_with_data(
    octets: &[u8],
    data: &[u8],
    buffer: &mut [u8],
) -> Result<usize, ForwardError> {
    write(octets, Some(data), buffer)
}

fn write(octets: &[u8], data: Option<&[u8]>, buffer: &mut [u8]) -> Result<usize, ForwardError> {
    let message = Message::parse(octets, Mode::D)?;
    if message.hops < 2 {
        return Err(ForwardError::HopLimit);
    }
    let mut writer = Writer::new(buffer);
    writer.put(MAGIC.to_be_bytes())?;
    let start = writer.written().len();
    let (header, body) = octets.split_at_checked(HEADER).unwrap_or_default();
    writer.put_slice(header)?;
    let mut data = data;
    for object in objects(body, HEADER).map_while(Result::ok) {
        let object_type = ObjectType::from_code(object.object_type());
        let unknown = matches!(object_type, ObjectType::Unknown(_));
        // In a Query, NSLP-Data are the last of the known objects.
        if object_type == ObjectType::NslpData
            && let Some(data) = data.take()
        {
            put_words(&mut writer, Treatment::Mandatory, ObjectType::NslpData.code(), data)?;
        } else if !(unknown && object.treatment() == Treatment::Ignore) {
            writer.put_slice(object.octets())?;
        }
    }
    if let Some(data) = data {
        put_words(&mut writer, Treatment::Mandatory, ObjectType::NslpData.code(), data)?;
    }
    let len = writer.written().len();
    let words = (len - start - HEADER) / WORD;
    let words = u16::try_from(words).map_err(|_| EmitError::TooLong)?;
    writer.patch(start + at::HOPS, [message.hops - 1])?;
    writer.patch(start + at::LENGTH, words.to_be_bytes())?;
    Ok(len)
}
