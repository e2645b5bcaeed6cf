//! Writer for the classic pcap file format: a header, then each packet after its time and length.
//!
//! The format is that of draft-ietf-opsawg-pcap, with microseconds and in big-endian order; readers detect both from
//! the magic number at the start.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

/// Magic number of a file with microseconds; its octet order is that of all numbers.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Version 2.4, as two half-words.
const VERSION: u32 = 2 << 16 | 4;
/// Limit at which packets may be truncated, octets; at least this many octets are kept.
const SNAP_LENGTH: u32 = 1 << 18;

/// First header of a packet (registry of link types at tcpdump.org).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header (LINKTYPE_ETHERNET).
    Ethernet,
    /// An IPv4 or IPv6 header (LINKTYPE_RAW).
    RawIp,
}

impl LinkType {
    const fn code(self) -> u32 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::RawIp => 101,
        }
    }
}

/// Writer of one pcap file.
#[derive(Debug)]
pub struct PcapWriter<W> {
    out: W,
    packets: u64,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// A failed write, here as in all calls.
    pub fn new(mut out: W, link_type: LinkType) -> io::Result<PcapWriter<W>> {
        for word in [MAGIC, VERSION, 0, 0, SNAP_LENGTH, link_type.code()] {
            out.write_all(&word.to_be_bytes())?;
        }
        Ok(PcapWriter { out, packets: 0 })
    }

    /// Adds a packet, with its time since 1970.
    ///
    /// # Errors
    /// `InvalidInput` if the packet is longer than 2^18 octets.
    pub fn packet(&mut self, at: Duration, octets: &[u8]) -> io::Result<()> {
        let length = u32::try_from(octets.len()).ok().filter(|&length| length <= SNAP_LENGTH);
        let length = length.ok_or(ErrorKind::InvalidInput)?;
        // The format's seconds end in 2106.
        let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        for word in [seconds, at.subsec_micros(), length, length] {
            self.out.write_all(&word.to_be_bytes())?;
        }
        self.out.write_all(octets)?;
        self.packets += 1;
        Ok(())
    }

    /// Ends the file; returns the number of packets in it.
    ///
    /// # Errors
    /// The buffered rest cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected octets follow the drawing in the format's description.
    #[test]
    fn a_file_is_laid_out_as_described() {
        let mut file = Vec::new();
        let mut pcap = PcapWriter::new(&mut file, LinkType::RawIp).unwrap();
        pcap.packet(Duration::new(0x0102, 3_004_000), &[0xaa, 0xbb, 0xcc]).unwrap();
        let too_long = vec![0; (1 << 18) + 1];
        assert_eq!(
            pcap.packet(Duration::ZERO, &too_long).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(pcap.finish().unwrap(), 1);
        let header = [0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0];
        assert_eq!(file[..20], header);
        assert_eq!(file[20..24], [0, 0, 0, 101]);
        assert_eq!(file[24..32], [0, 0, 1, 2, 0, 0, 0x0b, 0xbc]);
        assert_eq!(file[32..], [0, 0, 0, 3, 0, 0, 0, 3, 0xaa, 0xbb, 0xcc]);
    }
}
