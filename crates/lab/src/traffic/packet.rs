//! Payload of a measured packet: a mark, the stream, the number and the departure time; the rest is padding.
//!
//! | octets | what |
//! |---|---|
//! | 0-3 | `EMRK` |
//! | 4-7 | stream, which distinguishes sources |
//! | 8-15 | number within the stream, from 0 |
//! | 16-23 | nanoseconds of the monotonic clock |
//!
//! Numbers are big-endian.

use earmark_core::Time;

/// Octets of an IPv4 header without options and a UDP header.
pub const HEADER_V4: u32 = 28;
/// Octets of an IPv6 header and a UDP header.
pub const HEADER_V6: u32 = 48;
/// Octets of the shortest payload.
pub const MIN_PAYLOAD: u32 = 24;

const MARK: [u8; 4] = *b"EMRK";

/// Label in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) stream: u32,
    pub(super) sequence: u64,
    pub(super) sent: Time,
}

impl Label {
    /// Writes the label to the front of a payload of at least [`MIN_PAYLOAD`] octets.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let mut label = [0; MIN_PAYLOAD as usize];
        label[..4].copy_from_slice(&MARK);
        label[4..8].copy_from_slice(&self.stream.to_be_bytes());
        label[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        label[16..].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        payload[..label.len()].copy_from_slice(&label);
    }

    /// Parses the label; `None` if the payload has none.
    pub(super) fn read(payload: &[u8]) -> Option<Label> {
        let (mark, rest) = payload.split_first_chunk::<4>()?;
        let (stream, rest) = rest.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _) = rest.split_first_chunk::<8>()?;
        (*mark == MARK).then(|| Label {
            stream: u32::from_be_bytes(*stream),
            sequence: u64::from_be_bytes(*sequence),
            sent: Time::from_nanos(u64::from_be_bytes(*sent)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_read_back_and_other_payload_is_refused() {
        let label = Label { stream: 7, sequence: 1 << 40, sent: Time::from_millis(123) };
        let mut payload = [0xff; 30];
        label.write(&mut payload);
        assert_eq!(Label::read(&payload), Some(label));
        assert_eq!(Label::read(&payload[..24]), Some(label));
        assert_eq!(Label::read(&payload[..23]), None);
        payload[0] = b'e';
        assert_eq!(Label::read(&payload), None);
    }
}
