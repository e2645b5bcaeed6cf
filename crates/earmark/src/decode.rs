//! Capture files read as signalling: every message of RSVP, Boomerang, YESSIR and GIST in a pcap or pcapng file, one line of JSON or
//! a few of text each.
//!
//! Messages of Boomerang are echoes of ICMP and ICMPv6 whose data begin with MAGIC, those of YESSIR reports of RTCP with an
//! APP packet of its name, whatever the ports; those of GIST datagrams of its port that begin with the magic number, with what
//! they carry of QoS NSLP and Ping NSLP. Frames are counted from 1 as other tools count them, all others included. A message that does not parse is
//! shown as far as its objects can be read, with what is wrong and where. A fragment is reported as such: putting
//! packets together again is not this tool's task, and guessing at half a message would mislead.

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
mod rsvp;
mod text;
mod yessir;

/// IP protocol number of RSVP.
const RSVP: u8 = 46;
/// Room for what is read at once, octets; grows for blocks that are longer.
const BUFFER: usize = 1 << 16;
/// Longest block that is read, octets. A capture of jumbo frames stays far below, a length field gone wild does not.
const MAX_BLOCK: usize = 1 << 24;

/// How messages are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for the message and an indented one for each object.
    Text,
    /// One object on one line for each message.
    Json,
}

/// What was in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All frames.
    pub frames: u64,
    /// Frames that held a message, or a part of one of RSVP.
    pub messages: u64,
    /// Those of them that could not be read as one.
    pub malformed: u64,
    /// Frames whose link type is not known here, and which were not looked into.
    pub unknown_link_type: u64,
}

/// Why a file could not be read to its end. Everything before that point has been printed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The file could not even be begun.
    #[error("the capture file cannot be read")]
    Start(#[source] io::Error),
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// The file is something else.
    #[error("this is neither a pcap nor a pcapng file")]
    NotACapture,
    /// The file ends in the middle of a block.
    #[error("the capture file is cut off after frame {0}")]
    Truncated(u64),
    /// A block is larger than any frame can be.
    #[error("the block after frame {0} of the capture file is too long to be real")]
    BlockTooLong(u64),
    /// A block cannot be understood.
    #[error("the capture file is damaged after frame {0}")]
    Damaged(u64),
    /// The file could not be read.
    #[error("the capture file could not be read after frame {0}")]
    Read(u64),
    /// The output could not be written.
    #[error("the output could not be written")]
    Write(#[from] io::Error),
}

/// Reads a pcap or pcapng file and prints every message in it.
///
/// Link types: Ethernet (with VLAN tags), Linux cooked v1 and v2, raw IP, null and loopback. One JSON object looks like
/// `{"frame":1,"protocol":"rsvp","source":"...","destination":"...","message_type":1,"message":"Path","objects":[...]}`;
/// a Bundle has `"messages"` instead of objects, each like a line without its addresses; a message that is malformed has an
/// `"error":{"kind","offset","text"}` as well, whose offset counts from the start of the message: of RSVP's header, of
/// Boomerang's MAGIC, of YESSIR's report, of GIST's common header. Each object has its name as `"class"`.
///
/// # Errors
/// See [`DecodeError`]; what one message is like is never an error.
pub fn decode(
    mut reader: impl Read + Send,
    out: &mut dyn Write,
    format: Format,
) -> Result<Summary, DecodeError> {
    let mut summary = Summary::default();
    // The library recognizes a file by what its first read gives, and a pipe may give little.
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

/// Reads on, after making room for a block that is longer than any before it.
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

/// The link types that the file has named so far, by interface.
#[derive(Default)]
struct LinkTypes(Vec<Linktype>);

impl LinkTypes {
    /// The frame in a block and its link type, or `None` if the block is no frame.
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

/// Whether something is wrong with a message, or with the one that it carries, which is one of its objects. What is an error
/// by name only is what an object tells.
fn is_malformed(shown: &Map<String, Value>) -> bool {
    let objects = shown.get("objects").and_then(Value::as_array);
    shown.contains_key("error")
        || objects
            .into_iter()
            .flatten()
            .any(|object| object.get("error").is_some_and(Value::is_object))
}

/// What an IP packet turned out to be.
enum Finding<'a> {
    /// A message, good or bad.
    Message { source: IpAddr, destination: IpAddr, message: Found<'a> },
    /// A part of an RSVP message.
    Fragment { source: IpAddr, destination: IpAddr, offset: Option<usize> },
    /// The IP header in front of an RSVP message is broken, or the frame was not captured whole.
    BadHeader(String),
}

/// A message of one of the protocols.
enum Found<'a> {
    Rsvp(&'a [u8]),
    /// In ICMP or ICMPv6.
    Boomerang(&'a [u8]),
    Yessir(udp::Packet<'a>),
    /// The packet, and the message behind the magic number.
    Gist(udp::Packet<'a>, &'a [u8]),
}

impl<'a> Finding<'a> {
    /// `None` if it is no signalling. What Boomerang and YESSIR ride in may be anything, so that only a whole message is
    /// known to be theirs.
    fn of(packet: link::Packet<'a>) -> Option<Finding<'a>> {
        let (protocol, source, destination, fragment, payload) = match packet {
            link::Packet::V4(octets) => match ipv4::Packet::parse(octets) {
                Ok(packet) => {
                    let offset = packet.is_fragment().then(|| Some(packet.fragment_offset()));
                    let (source, destination) = (packet.source(), packet.destination());
                    let payload = packet.payload();
                    (packet.protocol(), source.into(), destination.into(), offset, payload)
                }
                // Where the protocol stands does not hang on the rest of the header.
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

    /// The message as a JSON object.
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
                let text = "a fragment of an IP packet; fragments are not put together";
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
