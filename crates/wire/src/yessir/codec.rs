//! Bandwidth of streams in the fixed payload formats of RFC 3551.

use crate::rtcp::RTP_HEADER;
use crate::udp;

/// A stream of packets of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStream {
    /// Length of an IP packet, octets.
    pub packet: u32,
    /// Time from one packet to the next, microseconds.
    pub interval_us: u32,
}

impl PacketStream {
    /// Rate in bits per second, rounded up.
    pub const fn bits_per_second(&self) -> u64 {
        (self.packet as u64 * 8 * 1_000_000).div_ceil(self.interval_us as u64)
    }
}

/// A frame of a payload format, and the octets in front of the frames of a packet.
struct Format {
    frame: u32,
    frame_us: u32,
    head: u32,
}

/// Returns the stream of a static payload type (RFC 3551 section 6) with `frames` frames in each packet, with IP, UDP
/// and RTP headers; 0 frames count as 1. A frame of a codec without frames (PCMU, PCMA, L16, G722, DVI4) is 20 ms long,
/// the packet that section 4.2 recommends.
///
/// `None` for dynamic and unassigned types, and for those that do not determine the rate: MPA, QCELP, CN and all video.
pub fn packet_stream(payload_type: u8, frames: u8, ipv6: bool) -> Option<PacketStream> {
    let Format { frame, frame_us, head } = format(payload_type)?;
    let frames = u32::from(frames.max(1));
    let ip = if ipv6 { 40 } else { 20 };
    let headers = ip + (udp::HEADER + RTP_HEADER) as u32;
    let packet = headers + head + frame * frames;
    (packet <= u32::from(u16::MAX))
        .then_some(PacketStream { packet, interval_us: frame_us * frames })
}

/// Returns the format of a payload type: RFC 3551 table 4, and table 1 and the named sections for frames.
fn format(payload_type: u8) -> Option<Format> {
    const TWENTY_MS: u32 = 20_000;
    let sampled = |rate: u32, bits: u32, channels: u32, head: u32| Format {
        // Rates that are no multiple of 50 Hz (11025, 22050, 44100) have packets of whole samples on average.
        frame: (rate * channels * bits).div_ceil(8 * 50),
        frame_us: TWENTY_MS,
        head,
    };
    let framed = |frame, frame_us| Format { frame, frame_us, head: 0 };
    Some(match payload_type {
        0 | 8 => sampled(8_000, 8, 1, 0), // PCMU, PCMA (4.5.14)
        3 => framed(33, TWENTY_MS),       // GSM (4.5.8)
        4 => framed(24, 30_000),          // G723 at 6.3 kbit/s (4.5.3)
        5 => sampled(8_000, 4, 1, 4),     // DVI4 (4.5.1)
        6 => sampled(16_000, 4, 1, 4),
        7 => framed(14, TWENTY_MS),      // LPC (4.5.12)
        9 => sampled(8_000, 8, 1, 0),    // G722: 64 kbit/s at any clock rate (4.5.2)
        10 => sampled(44_100, 16, 2, 0), // L16 (4.5.11)
        11 => sampled(44_100, 16, 1, 0),
        15 => framed(5, 2_500), // G728 (4.5.5)
        16 => sampled(11_025, 4, 1, 4),
        17 => sampled(22_050, 4, 1, 4),
        18 => framed(10, 10_000), // G729 (4.5.6)
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: 160 octets of speech and 40 of headers, 50 times a second; and so on.
    #[test]
    fn rates_are_those_of_whole_packets() {
        for (payload_type, frames, ipv6, packet, bits_per_second) in [
            (0, 0, false, 200, 80_000),
            (0, 1, true, 220, 88_000),
            (8, 3, false, 520, 69_334),
            (3, 1, false, 73, 29_200),
            (4, 1, false, 64, 17_067),
            (5, 1, false, 124, 49_600),
            (9, 1, false, 200, 80_000),
            (10, 1, false, 3_568, 1_427_200),
            (15, 8, false, 80, 32_000),
            (16, 1, false, 155, 62_000),
            (18, 2, false, 60, 24_000),
        ] {
            let stream = packet_stream(payload_type, frames, ipv6).expect("it has a rate");
            assert_eq!((stream.packet, stream.bits_per_second()), (packet, bits_per_second));
        }
    }

    #[test]
    fn payload_types_without_rate_have_no_stream() {
        for payload_type in [1, 12, 13, 14, 26, 31, 33, 72, 96, 127, 255] {
            assert_eq!(packet_stream(payload_type, 1, false), None);
        }
        assert_eq!(packet_stream(10, 255, false), None, "larger than a packet can be");
    }
}
