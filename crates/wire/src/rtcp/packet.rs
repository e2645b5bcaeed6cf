//! The packets of RFC 3550 as values. Lists stay on the wire and are parsed during iteration.

use super::error::{ErrorKind, ParseError};
use super::frame::{Frame, Frames, HEADER, frames};
use super::iana::{ItemType, PacketType};
use crate::writer::{EmitError, Writer};

/// Length of a report block, octets.
const BLOCK: usize = 24;
/// Length of a buffer for a chunk with a canonical name of any length, octets.
pub const CNAME_LEN: usize = 4 + 2 + 255 + 4;
/// Maximum of the five-bit count field.
const MAX_COUNT: usize = 31;

/// One packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// SR (RFC 3550 section 6.4.1).
    SenderReport(SenderReport<'a>),
    /// RR (section 6.4.2).
    ReceiverReport(ReceiverReport<'a>),
    /// SDES (section 6.5).
    SourceDescription(Chunks<'a>),
    /// BYE (section 6.6).
    Goodbye(Goodbye<'a>),
    /// APP (section 6.7).
    Application(Application<'a>),
    /// A packet of another type.
    Unknown {
        /// Packet type.
        packet_type: u8,
        /// Count, below 32.
        count: u8,
        /// Octets behind the header.
        body: &'a [u8],
    },
}

/// Sender information of a sender report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// NTP timestamp: seconds since 1900 in the high 32 bits, fractions of a second in the low ones; not necessarily
    /// wall-clock time.
    pub ntp: u64,
    /// RTP timestamp of the same instant, in units of the media clock.
    pub rtp_timestamp: u32,
    /// Data packets sent since the beginning.
    pub packets: u32,
    /// Payload octets sent since the beginning, without headers and padding.
    pub octets: u32,
}

/// SR: sender report, with reception reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport<'a> {
    /// SSRC of the reporting source.
    pub ssrc: u32,
    /// Sender information.
    pub sender: SenderInfo,
    /// Report blocks about received streams.
    pub blocks: &'a [[u8; BLOCK]],
    /// Profile-specific extensions, whole words.
    pub extension: &'a [u8],
}

/// RR: reception reports of a participant that sends no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverReport<'a> {
    /// SSRC of the reporting participant.
    pub ssrc: u32,
    /// Report blocks about received streams.
    pub blocks: &'a [[u8; BLOCK]],
    /// Profile-specific extensions, whole words.
    pub extension: &'a [u8],
}

/// A report block: reception statistics of one source (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// SSRC of the source.
    pub ssrc: u32,
    /// Fraction of the packets lost since the last report, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost since the beginning; 24 bits, negative if there were duplicates.
    pub lost: i32,
    /// Extended highest sequence number received: count of cycles in the high half.
    pub highest_sequence: u32,
    /// Interarrival jitter, units of the media clock.
    pub jitter: u32,
    /// Middle 32 bits of the NTP timestamp of the last SR.
    pub last_sr: u32,
    /// Delay since that SR, 65 536ths of a second.
    pub delay_since_last_sr: u32,
}

impl ReportBlock {
    /// Parses a report block.
    pub fn from_octets(octets: &[u8; BLOCK]) -> ReportBlock {
        let (words, _) = octets.as_chunks::<4>();
        let word = |i: usize| u32::from_be_bytes(words.get(i).copied().unwrap_or_default());
        let losses = word(1);
        ReportBlock {
            ssrc: word(0),
            fraction_lost: (losses >> 24) as u8,
            lost: (losses << 8) as i32 >> 8, // 24 bits with sign
            highest_sequence: word(2),
            jitter: word(3),
            last_sr: word(4),
            delay_since_last_sr: word(5),
        }
    }

    /// Returns the octets of the block. The low 24 bits of `lost` are written.
    pub fn to_octets(&self) -> [u8; BLOCK] {
        let losses = u32::from(self.fraction_lost) << 24 | self.lost as u32 & 0x00ff_ffff;
        let words = [
            self.ssrc,
            losses,
            self.highest_sequence,
            self.jitter,
            self.last_sr,
            self.delay_since_last_sr,
        ];
        let mut octets = [0; BLOCK];
        for (target, word) in octets.as_chunks_mut().0.iter_mut().zip(words) {
            *target = word.to_be_bytes();
        }
        octets
    }
}

/// The chunks of an SDES packet, as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunks<'a> {
    count: u8,
    octets: &'a [u8],
}

/// Source description of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// SSRC of the source.
    pub ssrc: u32,
    items: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// Writes one chunk with the canonical name of a source into `room`.
    ///
    /// # Errors
    /// The name is longer than 255 octets.
    pub fn cname<'r>(
        ssrc: u32,
        name: &[u8],
        room: &'r mut [u8; CNAME_LEN],
    ) -> Result<Chunks<'r>, EmitError> {
        let length = u8::try_from(name.len()).map_err(|_| EmitError::TooLong)?;
        let mut writer = Writer::new(room);
        writer.put(ssrc.to_be_bytes())?;
        writer.put([ItemType::CanonicalName.code(), length])?;
        writer.put_slice(name)?;
        writer.put([0])?; // ends the items
        let end = writer.written().len().next_multiple_of(4);
        while writer.written().len() < end {
            writer.put([0])?;
        }
        Ok(Chunks { count: 1, octets: &room[..end] })
    }

    /// Iterates over the chunks.
    pub fn iter(&self) -> impl Iterator<Item = Chunk<'a>> {
        let mut rest = self.octets;
        (0..self.count).map_while(move |_| {
            let (ssrc, behind) = rest.split_first_chunk()?;
            let length = items_len(behind)?;
            rest = behind.get((4 + length + 1).next_multiple_of(4) - 4..).unwrap_or_default();
            Some(Chunk { ssrc: u32::from_be_bytes(*ssrc), items: &behind[..length] })
        })
    }

    /// Checks the chunks, so that [`iter`](Chunks::iter) cannot fail.
    fn parse(frame: &Frame<'a>) -> Result<Chunks<'a>, ParseError> {
        let mut at = 0;
        for _ in 0..frame.count {
            let behind = frame.body.get(at + 4..).ok_or(frame.error(ErrorKind::Count, at))?;
            let length = items_len(behind).ok_or(frame.error(ErrorKind::Item, at + 4))?;
            at += (4 + length + 1).next_multiple_of(4);
        }
        let octets = frame.body.get(..at).ok_or(frame.error(ErrorKind::Item, at))?;
        Ok(Chunks { count: frame.count, octets })
    }
}

/// Length of the items in front of the terminating one, octets; `None` without a terminating one.
fn items_len(octets: &[u8]) -> Option<usize> {
    let mut at = 0;
    while *octets.get(at)? != 0 {
        at += 2 + usize::from(*octets.get(at + 1)?);
    }
    Some(at)
}

impl<'a> Chunk<'a> {
    /// Iterates over the items: type and text.
    pub fn items(&self) -> impl Iterator<Item = (ItemType, &'a [u8])> {
        let mut rest = self.items;
        core::iter::from_fn(move || {
            let (&[kind, length], behind) = rest.split_first_chunk::<2>()?;
            let (text, behind) = behind.split_at_checked(usize::from(length))?;
            rest = behind;
            Some((ItemType::from_code(kind), text))
        })
    }
}

/// BYE: sources that leave the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goodbye<'a> {
    /// SSRCs of the sources.
    pub sources: &'a [[u8; 4]],
    /// Reason for leaving, if present.
    pub reason: Option<&'a [u8]>,
}

/// APP: an application-defined packet, unparsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a> {
    /// Subtype, below 32, defined by the application.
    pub subtype: u8,
    /// SSRC of the sender.
    pub ssrc: u32,
    /// Name of the application, four ASCII letters.
    pub name: [u8; 4],
    /// Application-dependent data, whole words.
    pub data: &'a [u8],
}

/// A compound packet with checked packets.
#[derive(Clone, Debug)]
pub struct Compound<'a> {
    frames: Frames<'a>,
}

impl<'a> Compound<'a> {
    /// Checks a whole compound packet.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(octets: &'a [u8]) -> Result<Compound<'a>, ParseError> {
        for frame in frames(octets) {
            Packet::parse(&frame?)?;
        }
        Ok(Compound { frames: frames(octets) })
    }

    /// Iterates over the packets.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'a>> {
        self.frames.clone().flatten().filter_map(|frame| Packet::parse(&frame).ok())
    }
}

impl<'a> Packet<'a> {
    /// Parses a frame.
    ///
    /// # Errors
    /// The body does not fit type and count.
    #[inline]
    pub fn parse(frame: &Frame<'a>) -> Result<Packet<'a>, ParseError> {
        let Frame { count, body, .. } = *frame;
        Ok(match frame.packet_type {
            PacketType::SenderReport => Packet::SenderReport(SenderReport::parse(frame)?),
            PacketType::ReceiverReport => {
                let (ssrc, behind) =
                    body.split_first_chunk().ok_or(frame.error(ErrorKind::Length, 0))?;
                let (blocks, extension) = split_blocks(frame, behind)?;
                let ssrc = u32::from_be_bytes(*ssrc);
                Packet::ReceiverReport(ReceiverReport { ssrc, blocks, extension })
            }
            PacketType::SourceDescription => Packet::SourceDescription(Chunks::parse(frame)?),
            PacketType::Goodbye => Packet::Goodbye(Goodbye::parse(frame)?),
            PacketType::Application => Packet::Application(Application::parse(frame)?),
            PacketType::Unknown(packet_type) => Packet::Unknown { packet_type, count, body },
        })
    }

    /// Length of the packet, octets.
    pub fn buffer_len(&self) -> usize {
        HEADER
            + match self {
                Packet::SenderReport(report) => {
                    24 + report.blocks.len() * BLOCK + report.extension.len()
                }
                Packet::ReceiverReport(report) => {
                    4 + report.blocks.len() * BLOCK + report.extension.len()
                }
                Packet::SourceDescription(chunks) => chunks.octets.len(),
                Packet::Goodbye(goodbye) => {
                    let reason =
                        goodbye.reason.map_or(0, |text| (1 + text.len()).next_multiple_of(4));
                    goodbye.sources.len() * 4 + reason
                }
                Packet::Application(application) => 8 + application.data.len(),
                Packet::Unknown { body, .. } => body.len(),
            }
    }

    /// Writes the packet; returns its length in octets.
    ///
    /// # Errors
    /// The buffer is too short; the contents exceed count or length, or are not whole words.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        let length = self.buffer_len();
        if !length.is_multiple_of(4) {
            return Err(EmitError::Contradiction);
        }
        let words = u16::try_from(length / 4 - 1).map_err(|_| EmitError::TooLong)?;
        let (packet_type, count) = self.kind();
        if count > MAX_COUNT {
            return Err(EmitError::TooLong);
        }
        let [l0, l1] = words.to_be_bytes();
        writer.put([0x80 | count as u8, packet_type.code(), l0, l1])?;
        self.put_body(&mut writer)?;
        Ok(writer.written().len())
    }

    fn kind(&self) -> (PacketType, usize) {
        match self {
            Packet::SenderReport(report) => (PacketType::SenderReport, report.blocks.len()),
            Packet::ReceiverReport(report) => (PacketType::ReceiverReport, report.blocks.len()),
            Packet::SourceDescription(chunks) => {
                (PacketType::SourceDescription, usize::from(chunks.count))
            }
            Packet::Goodbye(goodbye) => (PacketType::Goodbye, goodbye.sources.len()),
            Packet::Application(application) => {
                (PacketType::Application, usize::from(application.subtype))
            }
            Packet::Unknown { packet_type, count, .. } => {
                (PacketType::from_code(*packet_type), usize::from(*count))
            }
        }
    }

    fn put_body(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        match self {
            Packet::SenderReport(report) => {
                let sender = &report.sender;
                writer.put(report.ssrc.to_be_bytes())?;
                writer.put(sender.ntp.to_be_bytes())?;
                for word in [sender.rtp_timestamp, sender.packets, sender.octets] {
                    writer.put(word.to_be_bytes())?;
                }
                writer.put_slice(report.blocks.as_flattened())?;
                writer.put_slice(report.extension)
            }
            Packet::ReceiverReport(report) => {
                writer.put(report.ssrc.to_be_bytes())?;
                writer.put_slice(report.blocks.as_flattened())?;
                writer.put_slice(report.extension)
            }
            Packet::SourceDescription(chunks) => writer.put_slice(chunks.octets),
            Packet::Goodbye(goodbye) => goodbye.put(writer),
            Packet::Application(application) => {
                writer.put(application.ssrc.to_be_bytes())?;
                writer.put(application.name)?;
                writer.put_slice(application.data)
            }
            Packet::Unknown { body, .. } => writer.put_slice(body),
        }
    }
}

impl<'a> SenderReport<'a> {
    #[inline]
    pub(crate) fn parse(frame: &Frame<'a>) -> Result<SenderReport<'a>, ParseError> {
        let head = frame.body.split_first_chunk::<24>();
        let (head, behind) = head.ok_or(frame.error(ErrorKind::Length, 0))?;
        let (blocks, extension) = split_blocks(frame, behind)?;
        let (words, _) = head.as_chunks::<4>();
        let word = |i: usize| u32::from_be_bytes(words.get(i).copied().unwrap_or_default());
        let sender = SenderInfo {
            ntp: u64::from(word(1)) << 32 | u64::from(word(2)),
            rtp_timestamp: word(3),
            packets: word(4),
            octets: word(5),
        };
        Ok(SenderReport { ssrc: word(0), sender, blocks, extension })
    }
}

/// Splits a body into the report blocks that the count names and the profile-specific extensions.
#[inline]
fn split_blocks<'a>(
    frame: &Frame<'a>,
    octets: &'a [u8],
) -> Result<(&'a [[u8; BLOCK]], &'a [u8]), ParseError> {
    let split = octets.split_at_checked(usize::from(frame.count) * BLOCK);
    let (blocks, extension) = split.ok_or(frame.error(ErrorKind::Count, 0))?;
    Ok((blocks.as_chunks().0, extension))
}

impl<'a> Goodbye<'a> {
    pub(crate) fn parse(frame: &Frame<'a>) -> Result<Goodbye<'a>, ParseError> {
        let split = frame.body.split_at_checked(usize::from(frame.count) * 4);
        let (sources, behind) = split.ok_or(frame.error(ErrorKind::Count, 0))?;
        let reason = match behind.split_first() {
            None => None,
            Some((&length, text)) => {
                let text = text.get(..usize::from(length));
                Some(text.ok_or(frame.error(ErrorKind::Reason, sources.len()))?)
            }
        };
        Ok(Goodbye { sources: sources.as_chunks().0, reason })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        writer.put_slice(self.sources.as_flattened())?;
        let Some(reason) = self.reason else { return Ok(()) };
        writer.put([u8::try_from(reason.len()).map_err(|_| EmitError::TooLong)?])?;
        writer.put_slice(reason)?;
        while !writer.written().len().is_multiple_of(4) {
            writer.put([0])?;
        }
        Ok(())
    }
}

impl<'a> Application<'a> {
    #[inline]
    pub(crate) fn parse(frame: &Frame<'a>) -> Result<Application<'a>, ParseError> {
        let head = frame.body.split_first_chunk::<8>();
        let (&[s0, s1, s2, s3, name @ ..], data) =
            head.ok_or(frame.error(ErrorKind::Application, 0))?;
        let ssrc = u32::from_be_bytes([s0, s1, s2, s3]);
        Ok(Application { subtype: frame.count, ssrc, name, data })
    }
}

/// Length of a compound of these packets, octets.
pub fn buffer_len(packets: &[Packet<'_>]) -> usize {
    packets.iter().map(Packet::buffer_len).sum()
}

/// Writes a compound packet; returns its length in octets.
///
/// # Errors
/// The errors of [`Packet::emit`]; [`EmitError::Contradiction`] if the first packet is neither SR nor RR.
pub fn emit(packets: &[Packet<'_>], buffer: &mut [u8]) -> Result<usize, EmitError> {
    if !matches!(packets.first(), Some(Packet::SenderReport(_) | Packet::ReceiverReport(_))) {
        return Err(EmitError::Contradiction);
    }
    let mut at = 0;
    for packet in packets {
        at += packet.emit(buffer.get_mut(at..).unwrap_or_default())?;
    }
    Ok(at)
}
