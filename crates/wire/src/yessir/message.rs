//! The message: an APP packet of fragments in a compound with a report.

use super::error::{ErrorKind, ParseError};
use super::fragment::{self, Auth, FailureNote, Flowspec, Generic, HEADER, LinkInfo, OctetRate};
use super::iana::{Command, FragmentType, Style};
use crate::rtcp::{self, Application, Frame, Goodbye, PacketType, SenderInfo, SenderReport};
use crate::serialize::objects;
use crate::writer::{EmitError, Writer};

/// Name of the APP packet.
pub const NAME: [u8; 4] = *b"YSSR";
/// Subtype of the APP packet: version of the encoding.
pub const VERSION: u8 = 1;

/// A YESSIR message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// SSRC of the report.
    pub ssrc: u32,
    /// GENERIC fragment: the request.
    pub generic: Generic,
    /// Flowspec; the measured rate applies if there is none.
    pub flowspec: Option<Flowspec>,
    /// LINK_INFO, if the sender requests properties of the path.
    pub link_info: Option<LinkInfo>,
    /// Entries of FAILURE.
    pub failures: Failures<'a>,
    /// AUTH, if present.
    pub auth: Option<Auth>,
    /// TOKEN: a token that proves the name of the user, 1 to 65 528 octets.
    pub token: Option<&'a [u8]>,
    /// Unknown fragments, as whole fragments; known ones among them are skipped.
    pub others: &'a [u8],
}

serialize_as!(Message<'_>, |it| {
    let (mut intserv, mut codec, mut class, mut measured) = (None, None, None, None);
    match it.flowspec {
        Some(Flowspec::Intserv(flowspec)) => intserv = Some(flowspec),
        Some(Flowspec::Codec { payload_type, frames }) => {
            codec = Some(map! { "payload_type": payload_type, "frames": frames });
        }
        Some(Flowspec::Class { dscp, rate }) => class = Some(map! { "dscp": dscp, "rate": rate }),
        Some(Flowspec::Measured { window, headroom }) => {
            measured = Some(map! { "window": window, "headroom": headroom });
        }
        None => {}
    }
    map! {
        "GENERIC": it.generic,
        "FLOWSPEC_INTSERV": intserv,
        "FLOWSPEC_CODEC": codec,
        "FLOWSPEC_CLASS": class,
        "FLOWSPEC_MEASURED": measured,
        "LINK_INFO": it.link_info,
        "FAILURE": objects(it.failures.iter()),
        "AUTH": it.auth.map(|auth| map! { "key": auth.key, "sequence": auth.sequence }),
        "TOKEN"?: it.token.map(|token| map! { "octets": token.len() }),
    }
});

impl PartialEq for Message<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.ssrc == other.ssrc
            && self.generic == other.generic
            && self.flowspec == other.flowspec
            && self.link_info == other.link_info
            && self.failures == other.failures
            && self.auth == other.auth
            && self.token == other.token
            && unknown(self.others).eq(unknown(other.others))
    }
}

/// Entries of FAILURE as on the wire; at most 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures<'a> {
    octets: &'a [u8],
    count: u8,
}

impl<'a> Failures<'a> {
    /// Creates the list of consecutive notes in `octets`, as [`FailureNote::to_octets`] writes them. `None` if there is
    /// anything else, or more than a fragment can hold.
    pub fn of(octets: &'a [u8]) -> Option<Failures<'a>> {
        let (mut rest, mut count) = (octets, 0_u8);
        while !rest.is_empty() {
            (_, rest) = FailureNote::split(rest)?;
            count = count.checked_add(1)?;
        }
        Some(Failures { octets, count })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the entries, the first failure first.
    pub fn iter(&self) -> impl Iterator<Item = FailureNote> + Clone + use<'a> {
        let mut rest = self.octets;
        core::iter::from_fn(move || {
            let (note, behind) = FailureNote::split(rest)?;
            rest = behind;
            Some(note)
        })
    }
}

/// Offsets in a message at which routers edit, octets from the start of the compound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditOffsets {
    /// Offset of the APP packet.
    pub(super) app: usize,
    /// End of the APP packet's data, without padding.
    pub(super) end: usize,
    /// Offset of LINK_INFO.
    pub(super) link_info: Option<usize>,
    /// Offset of FAILURE.
    pub(super) failure: Option<usize>,
}

/// The parts of a compound packet that concern routers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report<'a> {
    /// SSRC of the reporting source.
    pub ssrc: u32,
    /// Sender information, if the report is a sender report.
    pub sender: Option<SenderInfo>,
    /// Whether the source leaves.
    pub goodbye: bool,
    /// YESSIR message, and the offsets for edits.
    pub message: Option<(Message<'a>, EditOffsets)>,
}

impl<'a> Report<'a> {
    /// Parses a compound packet as far as it concerns routers. Source descriptions and other APP packets are not
    /// parsed.
    ///
    /// # Errors
    /// The first fault found.
    #[inline]
    pub fn parse(compound: &'a [u8]) -> Result<Report<'a>, ParseError> {
        let mut report = Report { ssrc: 0, sender: None, goodbye: false, message: None };
        for frame in rtcp::frames(compound) {
            let frame = frame?;
            match frame.packet_type {
                PacketType::SenderReport if frame.offset == 0 => {
                    let packet = SenderReport::parse(&frame)?;
                    report.ssrc = packet.ssrc;
                    report.sender = Some(packet.sender);
                }
                PacketType::ReceiverReport if frame.offset == 0 => {
                    let packet = rtcp::Packet::parse(&frame)?;
                    if let rtcp::Packet::ReceiverReport(packet) = packet {
                        report.ssrc = packet.ssrc;
                    }
                }
                PacketType::Goodbye => {
                    let leaving = Goodbye::parse(&frame)?;
                    report.goodbye |= leaving.sources.contains(&report.ssrc.to_be_bytes());
                }
                PacketType::Application => report.application(&frame)?,
                _ => {}
            }
        }
        Ok(report)
    }

    #[inline]
    fn application(&mut self, frame: &Frame<'a>) -> Result<(), ParseError> {
        let application = Application::parse(frame)?;
        if application.name != NAME {
            return Ok(());
        }
        let error = |kind, at| Err(ParseError { kind, fragment: None, offset: frame.offset + at });
        if self.message.is_some() {
            return error(ErrorKind::SecondMessage, 8);
        }
        if application.subtype != VERSION {
            return error(ErrorKind::Version, 0);
        }
        if application.ssrc != self.ssrc {
            return error(ErrorKind::Source, 4);
        }
        // The message is large and is therefore constructed at its final place.
        let (message, offsets) =
            self.message.insert((Message::empty(self.ssrc), EditOffsets::default()));
        message.read(frame, &application, offsets)
    }
}

/// Whether a compound has a YESSIR message, well formed or not: one of the packets that its length fields delimit is an
/// APP packet with our name. Interception uses this rule, and so does the forwarding of intercepted packets.
pub fn has_message(compound: &[u8]) -> bool {
    let mut rest = compound;
    while let Some(&[_, packet_type, l0, l1]) = rest.first_chunk::<4>() {
        let name = rest.get(8..12);
        if PacketType::from_code(packet_type) == PacketType::Application && name == Some(&NAME) {
            return true;
        }
        let length = 4 * (usize::from(u16::from_be_bytes([l0, l1])) + 1);
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

/// A fragment as received.
#[derive(Clone, Copy)]
struct Raw<'a> {
    offset: usize,
    fragment_type: FragmentType,
    flags: u8,
    body: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Raw<'a> {
    #[inline]
    fn error(&self, kind: ErrorKind, at: usize) -> ParseError {
        let fragment = Some(self.fragment_type);
        ParseError { kind, fragment, offset: self.offset + at }
    }

    /// Returns the body, if its length fits the type.
    #[inline]
    fn fixed_body<const N: usize>(&self) -> Result<&'a [u8; N], ParseError> {
        self.body.try_into().map_err(|_| self.error(ErrorKind::FragmentLength, 2))
    }
}

/// Returns the fragment at `at` in the data of an APP packet.
#[inline]
fn fragment_at(data: &[u8], at: usize, offset: usize) -> Result<Raw<'_>, ParseError> {
    let error = |fragment| ParseError {
        kind: ErrorKind::FragmentLength,
        fragment,
        offset: offset + at + 2,
    };
    let rest = data.get(at..).unwrap_or_default();
    let Some(&[number, flags, l0, l1]) = rest.first_chunk::<HEADER>() else {
        return Err(error(None));
    };
    let fragment_type = FragmentType::from_code(number);
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    let whole = rest.get(..length).filter(|whole| whole.len() >= HEADER && length % 4 == 0);
    let whole = whole.ok_or(error(Some(fragment_type)))?;
    Ok(Raw { offset: offset + at, fragment_type, flags, body: &whole[HEADER..], whole })
}

/// Iterates over the unknown fragments among whole fragments.
fn unknown(octets: &[u8]) -> impl Iterator<Item = &[u8]> {
    whole(octets)
        .filter(|raw| matches!(raw.fragment_type, FragmentType::Unknown(_)))
        .map(|raw| raw.whole)
}

fn whole(octets: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let raw = fragment_at(octets, at, 0).ok()?;
        at += raw.whole.len();
        Some(raw)
    })
}

/// Iterates over the fragments of a message's data that no router edits, GENERIC and FLOWSPEC. AUTH covers them.
pub fn covered(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let last = FragmentType::FlowspecMeasured.code();
    whole(data).filter(move |raw| raw.fragment_type.code() <= last).map(|raw| raw.whole)
}

impl<'a> Message<'a> {
    /// Creates a message without fragments.
    #[inline]
    fn empty(ssrc: u32) -> Message<'a> {
        Message {
            ssrc,
            generic: Generic {
                command: Command::Release,
                style: Style::Individual,
                interval: 0,
                reservation: 0,
                multiplexed: false,
            },
            flowspec: None,
            link_info: None,
            failures: Failures::default(),
            auth: None,
            token: None,
            others: &[],
        }
    }

    /// Parses the fragments of an APP packet.
    #[inline]
    fn read(
        &mut self,
        frame: &Frame<'a>,
        application: &Application<'a>,
        offsets: &mut EditOffsets,
    ) -> Result<(), ParseError> {
        let data = application.data;
        let start = frame.offset + rtcp::HEADER + 8;
        (offsets.app, offsets.end) = (frame.offset, start + data.len());
        let mut seen = 0_u16;
        let mut at = 0;
        while at < data.len() {
            let raw = fragment_at(data, at, start)?;
            at += raw.whole.len();
            let bit = unique_bit(raw.fragment_type);
            if seen & bit != 0 {
                return Err(raw.error(ErrorKind::DuplicateFragment, 0));
            }
            seen |= bit;
            match raw.fragment_type {
                FragmentType::Generic => self.generic = read_generic(&raw)?,
                FragmentType::LinkInfo => {
                    offsets.link_info = Some(raw.offset);
                    self.link_info = Some(LinkInfo::read(raw.flags, *raw.fixed_body()?));
                }
                FragmentType::Failure => {
                    offsets.failure = Some(raw.offset);
                    self.failures = read_failures(&raw)?;
                }
                FragmentType::Auth => self.auth = Some(Auth::read(raw.fixed_body()?)),
                FragmentType::Token => self.token = Some(read_token(&raw)?),
                FragmentType::Unknown(_) => self.others = data,
                _ => self.flowspec = Some(read_flowspec(&raw)?),
            }
        }
        if seen & unique_bit(FragmentType::Generic) == 0 {
            let (kind, fragment) = (ErrorKind::MissingGeneric, Some(FragmentType::Generic));
            return Err(ParseError { kind, fragment, offset: offsets.end });
        }
        Ok(())
    }

    /// Length of the APP packet, octets.
    pub fn buffer_len(&self) -> usize {
        let flowspec = self.flowspec.map_or(0, |flowspec| match flowspec {
            Flowspec::Intserv(_) => HEADER + fragment::INTSERV,
            Flowspec::Codec { .. } | Flowspec::Measured { .. } => HEADER + 4,
            Flowspec::Class { .. } => HEADER + 8,
        });
        let link_info = self.link_info.map_or(0, |_| LinkInfo::LEN);
        let failures = self.failures.octets.len();
        let failures = if failures == 0 { 0 } else { HEADER + 4 + failures };
        let auth = self.auth.map_or(0, |_| Auth::LEN);
        let token = self.token.map_or(0, |token| HEADER + token.len().next_multiple_of(4));
        let others: usize = unknown(self.others).map(<[u8]>::len).sum();
        rtcp::HEADER + 8 + Generic::LEN + flowspec + link_info + failures + auth + token + others
    }

    /// Writes the APP packet; returns its length in octets.
    ///
    /// # Errors
    /// The buffer is too short, or the contents are too long for a packet.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let length = self.buffer_len();
        let words = u16::try_from(length / 4 - 1).map_err(|_| EmitError::TooLong)?;
        let mut writer = Writer::new(buffer);
        let [l0, l1] = words.to_be_bytes();
        writer.put([0x80 | VERSION, PacketType::Application.code(), l0, l1])?;
        writer.put(self.ssrc.to_be_bytes())?;
        writer.put(NAME)?;
        put(&mut writer, FragmentType::Generic, self.generic.flags(), &self.generic.body())?;
        if let Some(flowspec) = &self.flowspec {
            put_flowspec(&mut writer, flowspec)?;
        }
        if let Some(info) = &self.link_info {
            put(&mut writer, FragmentType::LinkInfo, info.send_ttl, &info.body())?;
        }
        if !self.failures.is_empty() {
            let octets = self.failures.octets;
            put_header(&mut writer, FragmentType::Failure, 0, 4 + octets.len())?;
            writer.put([self.failures.count, 0, 0, 0])?;
            writer.put_slice(octets)?;
        }
        if let Some(auth) = &self.auth {
            put(&mut writer, FragmentType::Auth, 0, &auth.body())?;
        }
        if let Some(token) = self.token {
            let padded = token.len().next_multiple_of(4);
            let padding = padded - token.len();
            if token.is_empty() {
                return Err(EmitError::Contradiction);
            }
            put_header(&mut writer, FragmentType::Token, padding as u8, padded)?; // at most three
            writer.put_slice(token)?;
            writer.put_slice(&[0; 3][..padding])?;
        }
        for other in unknown(self.others) {
            writer.put_slice(other)?;
        }
        Ok(writer.written().len())
    }
}

/// Returns the bit that marks a fragment type which may occur once. The flowspecs share one bit.
#[inline]
fn unique_bit(fragment_type: FragmentType) -> u16 {
    match fragment_type {
        FragmentType::FlowspecIntserv
        | FragmentType::FlowspecCodec
        | FragmentType::FlowspecClass
        | FragmentType::FlowspecMeasured => 1 << FragmentType::FlowspecIntserv.code(),
        FragmentType::Unknown(_) => 0,
        known => 1 << known.code(),
    }
}

/// Parses a single flowspec fragment; `None` if it is malformed.
#[inline]
pub(super) fn flowspec_of(fragment: &[u8]) -> Option<Flowspec> {
    read_flowspec(&fragment_at(fragment, 0, 0).ok()?).ok()
}

#[inline]
fn read_generic(raw: &Raw<'_>) -> Result<Generic, ParseError> {
    let generic = Generic::read(raw.flags, *raw.fixed_body()?);
    match generic.unknown() {
        Some((kind, at)) => Err(raw.error(kind, HEADER + at)),
        None => Ok(generic),
    }
}

#[inline]
fn read_flowspec(raw: &Raw<'_>) -> Result<Flowspec, ParseError> {
    Ok(match raw.fragment_type {
        FragmentType::FlowspecCodec => {
            let &[payload_type, frames, _, _] = raw.fixed_body::<4>()?;
            Flowspec::Codec { payload_type, frames }
        }
        FragmentType::FlowspecClass => {
            let &[dscp, _, _, _, r0, r1, r2, r3] = raw.fixed_body::<8>()?;
            Flowspec::Class { dscp, rate: OctetRate(f32::from_be_bytes([r0, r1, r2, r3])) }
        }
        FragmentType::FlowspecMeasured => {
            let &[w0, w1, h0, h1] = raw.fixed_body::<4>()?;
            let (window, headroom) = (u16::from_be_bytes([w0, w1]), u16::from_be_bytes([h0, h1]));
            Flowspec::Measured { window, headroom }
        }
        _ => {
            let flowspec = fragment::read_intserv(raw.fixed_body()?);
            Flowspec::Intserv(flowspec.ok_or(raw.error(ErrorKind::Service, HEADER + 20))?)
        }
    })
}

/// Reads a token, behind which as many octets are padding as the flags say: less than a word.
fn read_token<'a>(raw: &Raw<'a>) -> Result<&'a [u8], ParseError> {
    let padding = usize::from(raw.flags);
    let length = raw.body.len().checked_sub(padding).filter(|length| padding < 4 && *length > 0);
    let token = length.and_then(|length| raw.body.get(..length));
    token.ok_or(raw.error(ErrorKind::FragmentLength, 1))
}

fn read_failures<'a>(raw: &Raw<'a>) -> Result<Failures<'a>, ParseError> {
    let (head, octets) =
        raw.body.split_first_chunk::<4>().ok_or(raw.error(ErrorKind::FragmentLength, 2))?;
    let failures = Failures::of(octets).filter(|failures| failures.count == head[0]);
    failures.ok_or(raw.error(ErrorKind::Notes, HEADER))
}

fn put_header(
    writer: &mut Writer<'_>,
    fragment_type: FragmentType,
    flags: u8,
    body: usize,
) -> Result<(), EmitError> {
    let length = u16::try_from(HEADER + body).map_err(|_| EmitError::TooLong)?;
    let [l0, l1] = length.to_be_bytes();
    writer.put([fragment_type.code(), flags, l0, l1])
}

fn put(
    writer: &mut Writer<'_>,
    fragment_type: FragmentType,
    flags: u8,
    body: &[u8],
) -> Result<(), EmitError> {
    put_header(writer, fragment_type, flags, body.len())?;
    writer.put_slice(body)
}

fn put_flowspec(writer: &mut Writer<'_>, flowspec: &Flowspec) -> Result<(), EmitError> {
    match *flowspec {
        Flowspec::Intserv(ref flowspec) => {
            let body = fragment::intserv_body(flowspec);
            put(writer, FragmentType::FlowspecIntserv, 0, &body)
        }
        Flowspec::Codec { payload_type, frames } => {
            put(writer, FragmentType::FlowspecCodec, 0, &[payload_type, frames, 0, 0])
        }
        Flowspec::Class { dscp, rate } => {
            let [r0, r1, r2, r3] = rate.0.to_be_bytes();
            put(writer, FragmentType::FlowspecClass, 0, &[dscp, 0, 0, 0, r0, r1, r2, r3])
        }
        Flowspec::Measured { window, headroom } => {
            let ([w0, w1], [h0, h1]) = (window.to_be_bytes(), headroom.to_be_bytes());
            put(writer, FragmentType::FlowspecMeasured, 0, &[w0, w1, h0, h1])
        }
    }
}

impl EditOffsets {
    /// Offset of LINK_INFO, if present.
    #[inline]
    pub fn link_info(&self) -> Option<usize> {
        self.link_info
    }

    /// Returns the data of the APP packet in the parsed compound.
    pub fn data<'a>(&self, compound: &'a [u8]) -> &'a [u8] {
        compound.get(self.app + rtcp::HEADER + 8..self.end).unwrap_or_default()
    }
}
