//! Decoder of capture files: prints every signalling message in a pcap or pcapng file, as one line of JSON or a few lines of
//! text.
//!
//! The protocols are in the module `protocols`. Frames are counted from 1 as in other tools, including frames without
//! signalling. A fragment is reported as such and not reassembled, because half a message could only be guessed at.
//!
//! A malformed message is shown with its error, as the strict parser of the protocol finds it, and with all that its octets
//! tell: the objects as far as their lengths lead, of each object the fields that are there, the other octets as
//! hexadecimal digits, and a remark that names the object, its offset, and the expected and the found length.

#![forbid(unsafe_code)]

use std::io::{self, Cursor, Read, Write};
use std::net::IpAddr;

use earmark_wire::{ipv4, ipv6};
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use serde_json::{Map, Value, json};

mod fields;
mod link;
mod objects;
mod protocol;
mod protocols;
mod text;

use protocol::{IpPacket, Protocol};
use protocols::PROTOCOLS;

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
    /// Frames with a message, or with a fragment of one.
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
/// `{"frame":1,"protocol":"...","source":"...","destination":"...","message_type":1,"message":"Path","objects":[...]}`.
/// A Bundle has `"messages"` instead of objects, each like a line without the addresses. A malformed message also has an
/// `"error":{"kind","offset","text"}`, whose offset counts from the start of the message: its common header, report or
/// magic number. Each object has its name as `"class"`. A malformed one has `"malformed":[{"object","offset","text"}]`, with
/// `"expected"` and `"found"` if it is the length, and `"rest"` with the octets that belong to no field; `"warnings"` are of
/// the same form, about values that are allowed but probably not meant.
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
    let title = finding.protocol.title;
    let shown = finding.show(summary.frames);
    if is_malformed(&shown) {
        summary.malformed += 1;
    }
    match format {
        Format::Json => writeln!(out, "{}", Value::Object(shown)),
        Format::Text => text::write(title, &shown, out),
    }
}

/// Whether a message, or one of its objects, is malformed.
fn is_malformed(shown: &Map<String, Value>) -> bool {
    let objects = shown.get("objects").and_then(Value::as_array);
    shown.contains_key("error") || objects.into_iter().flatten().any(objects::is_malformed)
}

/// Signalling in an IP packet.
struct Finding {
    protocol: &'static Protocol,
    content: Content,
}

/// Result of parsing an IP packet.
enum Content {
    /// Fields of a message, well-formed or malformed.
    Message { source: IpAddr, destination: IpAddr, fields: Map<String, Value> },
    /// A fragment of a message.
    Fragment { source: IpAddr, destination: IpAddr, offset: Option<usize> },
    /// The IP header before a message is malformed, or the frame was not captured completely.
    BadHeader(String),
}

impl Finding {
    /// Parses an IP packet; `None` without signalling. Any ICMP message or UDP packet may carry a message, so that only whole
    /// messages inside them are recognized.
    fn of(packet: link::Packet<'_>) -> Option<Finding> {
        let (packet, fragment) = match packet {
            link::Packet::V4(octets) => match ipv4::Packet::parse(octets) {
                Ok(packet) => {
                    let offset = packet.is_fragment().then(|| Some(packet.fragment_offset()));
                    let (source, destination) =
                        (packet.source().into(), packet.destination().into());
                    let (ip_protocol, payload) = (packet.protocol(), packet.payload());
                    (IpPacket { ip_protocol, source, destination, payload }, offset)
                }
                Err(error) => {
                    let of_beginning = link::beginning(packet).and_then(|beginning| {
                        Finding::of_beginning(link::Packet::V4(&beginning), &error)
                    });
                    // The protocol field is readable even if the rest of the header is malformed.
                    return of_beginning.or_else(|| Finding::bad_header(octets.get(9), &error));
                }
            },
            link::Packet::V6(octets) => match ipv6::Packet::parse(octets) {
                Ok(packet) => {
                    let offset = packet.is_fragment().then_some(None);
                    let (source, destination) = (packet.source.into(), packet.destination.into());
                    let (ip_protocol, payload) = (packet.protocol(), packet.payload);
                    (IpPacket { ip_protocol, source, destination, payload }, offset)
                }
                Err(error) => {
                    let of_beginning = link::beginning(packet).and_then(|beginning| {
                        Finding::of_beginning(link::Packet::V6(&beginning), &error)
                    });
                    return of_beginning.or_else(|| Finding::bad_header(octets.get(6), &error));
                }
            },
        };
        let IpPacket { ip_protocol, source, destination, .. } = packet;
        if let Some(offset) = fragment {
            let protocol = protocol_of(ip_protocol)?;
            return Some(Finding {
                protocol,
                content: Content::Fragment { source, destination, offset },
            });
        }
        PROTOCOLS.iter().find_map(|protocol| {
            let fields = (protocol.decode)(&packet)?;
            Some(Finding { protocol, content: Content::Message { source, destination, fields } })
        })
    }

    /// Parses the beginning of a packet, of which `error` tells that not all was captured.
    fn of_beginning(beginning: link::Packet<'_>, error: &impl ToString) -> Option<Finding> {
        let mut finding = Finding::of(beginning)?;
        if let Content::Message { fields, .. } = &mut finding.content {
            let error = json!({"kind": "ip_header", "offset": null, "text": error.to_string()});
            fields.insert("error".into(), error);
        }
        Some(finding)
    }

    /// Returns the finding for a malformed IP header; `None` if the packet need not be a message.
    fn bad_header(ip_protocol: Option<&u8>, error: &impl ToString) -> Option<Finding> {
        let protocol = protocol_of(*ip_protocol?)?;
        Some(Finding { protocol, content: Content::BadHeader(error.to_string()) })
    }

    /// Converts the finding to a JSON object.
    fn show(self, frame: u64) -> Map<String, Value> {
        let mut shown = Map::new();
        shown.insert("frame".into(), frame.into());
        shown.insert("protocol".into(), self.protocol.name.into());
        match &self.content {
            Content::Message { source, destination, .. }
            | Content::Fragment { source, destination, .. } => {
                shown.insert("source".into(), source.to_string().into());
                shown.insert("destination".into(), destination.to_string().into());
            }
            Content::BadHeader(_) => {}
        }
        match self.content {
            Content::Message { fields, .. } => shown.extend(fields),
            Content::Fragment { offset, .. } => {
                let text = "a fragment of an IP packet; fragments are not reassembled";
                let error = json!({"kind": "fragment", "offset": offset, "text": text});
                shown.insert("error".into(), error);
            }
            Content::BadHeader(text) => {
                let error = json!({"kind": "ip_header", "offset": null, "text": text});
                shown.insert("error".into(), error);
            }
        }
        shown
    }
}

/// Returns the protocol whose messages all packets of an IP protocol are.
fn protocol_of(ip_protocol: u8) -> Option<&'static Protocol> {
    PROTOCOLS.into_iter().find(|protocol| protocol.ip_protocol == Some(ip_protocol))
}

#[cfg(test)]
mod tests;
