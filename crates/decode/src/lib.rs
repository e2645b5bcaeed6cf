//! Decoder of capture files: prints every message of RSVP, Boomerang, YESSIR and GIST in a pcap or pcapng file, as one line
//! of JSON or a few lines of text.
//!
//! Messages of Boomerang are echoes of ICMP and ICMPv6 whose data begin with MAGIC. Messages of YESSIR are RTCP reports with
//! an APP packet of its name, on any port. Messages of GIST are datagrams of its port that begin with the magic number; their
//! QoS NSLP or Ping NSLP data are decoded too. Frames are counted from 1 as in other tools, including frames without
//! signalling. A malformed message is shown as far as its objects can be parsed, with the error and its offset. A fragment is
//! reported as such and not reassembled, because half a message could only be guessed at.

#![forbid(unsafe_code)]

use std::io::{self, Cursor, Read, Write};
use std::net::IpAddr;

use earmark_wire::{icmp, ipv4, ipv6, udp};
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use serde_json::{Map, Value, json};

mod boomerang;
mod gist;
mod link;
mod nslp;
mod objects;
mod rsvp;
mod text;
mod yessir;

/// IP protocol number of RSVP.
const RSVP: u8 = 46;
/// Initial size of the read buffer, octets; it grows for longer blocks.
const BUFFER: usize = 1 << 16;
/// Longest accepted block, octets: far more than a capture of jumbo frames needs, and less than a corrupt length.
const MAX_BLOCK: usize = 1 << 24;

/// Output format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line for each message and an indented line for each object.
    Text,
    /// One JSON object on one line for each message.
    Json,
}

/// Counts of a capture file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All frames.
    pub frames: u64,
    /// Frames with a message, or with a fragment of an RSVP message.
    pub messages: u64,
    /// Messages that could not be parsed.
    pub malformed: u64,
    /// Frames of an unsupported link type, which were skipped.
    pub unknown_link_type: u64,
}

/// Why a file could not be read to its end. The messages before that point were printed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The start of the file could not be read.
    #[error("the capture file cannot be read")]
    Start(#[source] io::Error),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file is not a capture file.
    #[error("neither a pcap nor a pcapng file")]
    NotACapture,
    /// The file ends in the middle of a block.
    #[error("the capture file is truncated after frame {0}")]
    Truncated(u64),
    /// A block is larger than any frame can be.
    #[error("invalid block length after frame {0} of the capture file")]
    BlockTooLong(u64),
    /// A block cannot be parsed.
    #[error("the capture file is damaged after frame {0}")]
    Damaged(u64),
    /// Reading the file failed.
    #[error("the capture file could not be read after frame {0}")]
    Read(u64),
    /// Writing the output failed.
    #[error("the output could not be written")]
    Write(#[from] io::Error),
}

/// Reads a pcap or pcapng file and prints every message in it.
///
/// Supported link types are Ethernet (with VLAN tags), Linux cooked v1 and v2, raw IP, null and loopback. A JSON object is
/// `{"frame":1,"protocol":"rsvp","source":"...","destination":"...","message_type":1,"message":"Path","objects":[...]}`.
/// A Bundle has `"messages"` instead of objects, each like a line without the addresses. A malformed message also has an
/// `"error":{"kind","offset","text"}`, whose offset counts from the start of the message: RSVP's header, Boomerang's MAGIC,
/// YESSIR's report, or GIST's common header. Each object has its name as `"class"`.
///
/// # Errors
/// The causes are listed at [`DecodeError`]; a malformed message is not an error.
pub fn decode(
    mut reader: impl Read + Send,
    out: &mut dyn Write,
    format: Format,
) -> Result<Summary, DecodeError> {
    let mut summary = Summary::default();
    // The library detects the format from the first read, and a read from a pipe may return little.
    let mut start = Vec::new();
    let size = (&mut reader).take(BUFFER as u64).read_to_end(&mut start);
    if size.map_err(DecodeError::Start)? == 0 {
        return Err(DecodeError::Empty);
    }
    let reader = Cursor::new(start).chain(reader);
    let mut blocks = create_reader(BUFFER, reader).map_err(|_| DecodeError::NotACapture)?;
    let mut link_types = LinkTypes::default();
    let mut capacity = BUFFER;
    loop {
        let consumed = match blocks.next() {
            Ok((length, block)) => {
                if let Some((link_type, frame)) = link_types.frame(&block) {
                    summary.frames += 1;
                    show_frame(link_type, frame, &mut summary, out, format)?;
                }
                length
            }
            Err(PcapError::Eof) => return Ok(summary),
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => {
                more(blocks.as_mut(), &mut capacity, summary.frames)?;
                continue;
            }
            Err(error) => return Err(failure(&error, summary.frames)),
        };
        blocks.consume(consumed);
    }
}

/// Reads more input, after growing the buffer if a block is longer than any before it.
fn more(
    blocks: &mut dyn PcapReaderIterator,
    capacity: &mut usize,
    frames: u64,
) -> Result<(), DecodeError> {
    blocks.refill().map_err(|error| failure(&error, frames))?;
    if blocks.data().len() >= *capacity {
        *capacity *= 2;
        if *capacity > MAX_BLOCK || !blocks.grow(*capacity) {
            return Err(DecodeError::BlockTooLong(frames));
        }
    }
    Ok(())
}

fn failure(error: &PcapError<&[u8]>, frames: u64) -> DecodeError {
    match error {
        PcapError::UnexpectedEof | PcapError::Incomplete(_) | PcapError::Eof => {
            DecodeError::Truncated(frames)
        }
        PcapError::BufferTooSmall => DecodeError::BlockTooLong(frames),
        PcapError::ReadError => DecodeError::Read(frames),
        PcapError::HeaderNotRecognized | PcapError::NomError(..) | PcapError::OwnedNomError(..) => {
            DecodeError::Damaged(frames)
        }
    }
}

/// Link types that the file has declared so far, by interface.
#[derive(Default)]
struct LinkTypes(Vec<Linktype>);

impl LinkTypes {
    /// The frame in a block and its link type; `None` if the block is not a frame.
    fn frame<'b>(&mut self, block: &'b PcapBlockOwned<'_>) -> Option<(Option<Linktype>, &'b [u8])> {
        let (interface, frame) = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.0 = vec![header.network];
                return None;
            }
            PcapBlockOwned::Legacy(frame) => (0, frame.data),
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.0.clear();
                return None;
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.0.push(interface.linktype);
                return None;
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                (packet.if_id as usize, packet.packet_data())
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => (0, packet.packet_data()),
            PcapBlockOwned::NG(_) => return None,
        };
        Some((self.0.get(interface).copied(), frame))
    }
}

/// Prints the message in a frame, if there is one.
fn show_frame(
    link_type: Option<Linktype>,
    frame: &[u8],
    summary: &mut Summary,
    out: &mut dyn Write,
    format: Format,
) -> io::Result<()> {
    let packet = match link::packet(link_type, frame) {
        Ok(Some(packet)) => packet,
        Ok(None) => return Ok(()),
        Err(link::UnknownLinkType) => {
            summary.unknown_link_type += 1;
            return Ok(());
        }
    };
    let Some(finding) = Finding::of(packet) else {
        return Ok(());
    };
    summary.messages += 1;
    let shown = finding.show(summary.frames);
    if is_malformed(&shown) {
        summary.malformed += 1;
    }
    match format {
        Format::Json => writeln!(out, "{}", Value::Object(shown)),
        Format::Text => text::write(&shown, out),
    }
}

/// Whether a message, or the application's message in one of its objects, is malformed. An `"error"` that is only the name of
/// an error does not count, because it is a value of an object.
fn is_malformed(shown: &Map<String, Value>) -> bool {
    let objects = shown.get("objects").and_then(Value::as_array);
    shown.contains_key("error")
        || objects
            .into_iter()
            .flatten()
            .any(|object| object.get("error").is_some_and(Value::is_object))
}

/// Result of parsing an IP packet.
enum Finding<'a> {
    /// A message, well-formed or malformed.
    Message { source: IpAddr, destination: IpAddr, message: Found<'a> },
    /// A fragment of an RSVP message.
    Fragment { source: IpAddr, destination: IpAddr, offset: Option<usize> },
    /// The IP header before an RSVP message is malformed, or the frame was not captured completely.
    BadHeader(String),
}

/// A message of one of the protocols.
enum Found<'a> {
    Rsvp(&'a [u8]),
    /// The ICMP or ICMPv6 message.
    Boomerang(&'a [u8]),
    Yessir(udp::Packet<'a>),
    /// The UDP packet, and the message behind the magic number.
    Gist(udp::Packet<'a>, &'a [u8]),
}

impl<'a> Finding<'a> {
    /// Parses an IP packet; `None` without signalling. Any ICMP message or UDP packet may carry Boomerang or YESSIR, so that only
    /// whole messages of them are recognized.
    fn of(packet: link::Packet<'a>) -> Option<Finding<'a>> {
        let (protocol, source, destination, fragment, payload) = match packet {
            link::Packet::V4(octets) => match ipv4::Packet::parse(octets) {
                Ok(packet) => {
                    let offset = packet.is_fragment().then(|| Some(packet.fragment_offset()));
                    let (source, destination) = (packet.source(), packet.destination());
                    let payload = packet.payload();
                    (packet.protocol(), source.into(), destination.into(), offset, payload)
                }
                // The protocol field is readable even if the rest of the header is malformed.
                Err(error) => {
                    let is_rsvp = octets.get(9) == Some(&RSVP);
                    return is_rsvp.then(|| Finding::BadHeader(error.to_string()));
                }
            },
            link::Packet::V6(octets) => match ipv6::Packet::parse(octets) {
                Ok(packet) => {
                    let offset = packet.is_fragment().then_some(None);
                    let (source, destination) = (packet.source.into(), packet.destination.into());
                    (packet.protocol(), source, destination, offset, packet.payload)
                }
                Err(error) => {
                    let is_rsvp = octets.get(6) == Some(&RSVP);
                    return is_rsvp.then(|| Finding::BadHeader(error.to_string()));
                }
            },
        };
        let message = match (protocol, fragment) {
            (RSVP, Some(offset)) => return Some(Finding::Fragment { source, destination, offset }),
            (_, Some(_)) => return None,
            (RSVP, None) => Found::Rsvp(payload),
            (icmp::PROTOCOL_V4 | icmp::PROTOCOL_V6, None) if boomerang::is_message(payload) => {
                Found::Boomerang(payload)
            }
            (udp::PROTOCOL, None) => match gist::message(payload) {
                Some((packet, message)) => Found::Gist(packet, message),
                None => Found::Yessir(yessir::message(payload)?),
            },
            _ => return None,
        };
        Some(Finding::Message { source, destination, message })
    }

    /// Converts the message to a JSON object.
    fn show(&self, frame: u64) -> Map<String, Value> {
        let mut shown = Map::new();
        shown.insert("frame".into(), frame.into());
        let protocol = match self {
            Finding::Message { message: Found::Boomerang(_), .. } => "boomerang",
            Finding::Message { message: Found::Yessir(_), .. } => "yessir",
            Finding::Message { message: Found::Gist(..), .. } => "gist",
            _ => "rsvp",
        };
        shown.insert("protocol".into(), protocol.into());
        match self {
            Finding::Message { source, destination, message } => {
                shown.insert("source".into(), source.to_string().into());
                shown.insert("destination".into(), destination.to_string().into());
                match message {
                    Found::Rsvp(octets) => rsvp::show(octets, &mut shown),
                    Found::Boomerang(octets) => {
                        boomerang::show(octets, *source, *destination, &mut shown);
                    }
                    Found::Yessir(packet) => yessir::show(packet, &mut shown),
                    Found::Gist(packet, message) => gist::show(packet, message, &mut shown),
                }
            }
            Finding::Fragment { source, destination, offset } => {
                shown.insert("source".into(), source.to_string().into());
                shown.insert("destination".into(), destination.to_string().into());
                let text = "a fragment of an IP packet; fragments are not reassembled";
                let error = json!({"kind": "fragment", "offset": offset, "text": text});
                shown.insert("error".into(), error);
            }
            Finding::BadHeader(text) => {
                let error = json!({"kind": "ip_header", "offset": null, "text": text});
                shown.insert("error".into(), error);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests;
