//! In-place edits of a message by the nodes on the path.

use super::error::ParseError;
use super::message::{NodeRecord, Ping, Version};
use crate::writer::{EmitError, Writer};

/// Increments the hop count, at most to 255.
///
/// # Errors
/// The message is malformed; see [`Ping::parse`].
pub fn count_hop(message: &mut [u8]) -> Result<(), ParseError> {
    Ping::parse(message)?;
    if let Some(hops) = message.get_mut(1) {
        *hops = hops.saturating_add(1);
    }
    Ok(())
}

/// Appends the record of a node to the message in the first `length` octets of `buffer`; returns the new length. If the
/// length field or the buffer is too small for the record, the message stays unchanged.
///
/// # Errors
/// The message is malformed; see [`Ping::parse`].
pub fn append(buffer: &mut [u8], length: usize, visit: &NodeRecord) -> Result<usize, ParseError> {
    let ping = Ping::parse(buffer.get(..length).unwrap_or_default())?;
    let (version, count) = (ping.version, ping.objects.len());
    let (from, to) = (ping.buffer_len(), ping.appended_len());
    if from == to {
        return Ok(length);
    }
    let Some((head, room)) = buffer.get_mut(..to).and_then(|b| b.split_at_mut_checked(from)) else {
        return Ok(length);
    };
    let (list, _) = head.get(version.header()..).unwrap_or_default().as_chunks();
    let mut writer = Writer::new(room);
    let written: Result<(), EmitError> =
        list.iter().take(count).try_for_each(|object| visit.write(&mut writer, *object));
    if written.is_err() {
        return Ok(length);
    }
    let [.., high, low] = to.to_be_bytes();
    match (version, head) {
        (Version::V1, [_, _, length, ..]) => *length = low,
        (Version::V2, [_, _, l0, l1, ..]) => [*l0, *l1] = [high, low],
        _ => {}
    }
    Ok(to)
}
