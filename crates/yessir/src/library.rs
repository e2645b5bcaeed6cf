//! Functions for applications with RTCP of their own: the APP packet to append to their compounds, and the answers
//! that come back. Needs no engine.

use alloc::vec;
use alloc::vec::Vec;

use earmark_wire::EmitError;
use earmark_wire::rtcp::{self, SenderInfo};
use earmark_wire::yessir::{
    Auth, Command, Failures, Flowspec, Generic, LinkInfo, Message, ParseError, Report, Style,
};

use crate::api::{Answer, Stream};
use crate::auth::{Covered, Key};

/// Request of an application in its own sender reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppRequest {
    /// Reserve, query, or release.
    pub command: Command,
    /// SSRC of the sender report, and of the stream.
    pub ssrc: u32,
    /// Requested bandwidth. [`Flowspec::Measured`] uses the counts of the reports themselves.
    pub flowspec: Flowspec,
    /// Individual style, or shared with the other senders of the session.
    pub style: Style,
    /// Time between two reports, seconds; state along the path ends after three to four missing ones.
    pub interval: u16,
    /// Any number; answers return it, so that they can be told apart.
    pub reservation: u32,
    /// Whether reports use the ports of the data (rtcp-mux, RFC 5761).
    pub multiplexed: bool,
    /// TTL of the reports; 0 if unknown. Needed to detect routers without YESSIR.
    pub send_ttl: u8,
}

/// How a packet is signed, and what its compound contains beside it.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// The key.
    pub key: &'a Key,
    /// The stream as routers see it.
    pub stream: &'a Stream,
    /// Sequence number.
    pub sequence: u64,
    /// Counts of the sender report in the compound.
    pub sender: SenderInfo,
    /// Whether the compound ends with a BYE.
    pub goodbye: bool,
}

/// Returns the APP packet for a request: to be placed after the source description of a compound whose first packet
/// is a sender report of the same SSRC. Send the compound with router alert (value 0), or have the routers intercept
/// all of UDP.
///
/// With `sign` the packet is signed. The sequence number grows with each message of this host, whatever its stream, also over
/// restarts: begin with seconds of a real clock, times 2^32.
///
/// ```
/// use earmark_wire::yessir::{Command, Flowspec, Style};
/// use earmark_yessir::library::{AppRequest, app_packet, read_answer};
///
/// let ask = AppRequest {
///     command: Command::Active,
///     ssrc: 0x1234_5678,
///     flowspec: Flowspec::Codec { payload_type: 0, frames: 1 },
///     style: Style::Individual,
///     interval: 5,
///     reservation: 1,
///     multiplexed: false,
///     send_ttl: 64,
/// };
/// let packet = app_packet(&ask, None)?;
/// assert_eq!(&packet[8..12], b"YSSR");
///
/// // Later, with each compound that comes back from the receiver:
/// # let mut compound = vec![0x80, 201, 0, 1, 0x12, 0x34, 0x56, 0x78];
/// # compound.extend(&packet);
/// if let Some(answer) = read_answer(&compound, ask.reservation)? {
///     match answer.failures.first() {
///         None => println!("reserved all the way"),
///         Some(note) => println!("{} has not reserved: {:?}", note.node, note.reason),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// None with values that an application can give; the packet is of a size that always fits.
pub fn app_packet(ask: &AppRequest, sign: Option<&Signing<'_>>) -> Result<Vec<u8>, EmitError> {
    let AppRequest { ssrc, command, style, interval, reservation, multiplexed, .. } = *ask;
    let auth = sign.map(|sign| Auth { key: sign.key.id, sequence: sign.sequence, digest: [0; 16] });
    let mut message = Message {
        ssrc,
        generic: Generic { command, style, interval, reservation, multiplexed },
        flowspec: Some(ask.flowspec),
        link_info: Some(LinkInfo::unknown(ask.send_ttl)),
        failures: Failures::default(),
        auth,
        token: None,
        others: &[],
    };
    let mut packet = vec![0; message.buffer_len()];
    message.emit(&mut packet)?;
    if let (Some(auth), Some(sign)) = (&mut message.auth, sign) {
        let &Signing { key, stream, sequence, sender, goodbye } = sign;
        let data = packet.get(rtcp::HEADER + 8..).unwrap_or_default();
        auth.digest = key.digest(&Covered { stream, ssrc, sender, goodbye, data }, sequence);
        message.emit(&mut packet)?;
    }
    Ok(packet)
}

/// Returns the answer in a received compound to the request with this number; `None` if it is about something else.
///
/// # Errors
/// The compound is malformed, or its YESSIR packet is.
pub fn read_answer(compound: &[u8], reservation: u32) -> Result<Option<Answer>, ParseError> {
    let report = Report::parse(compound)?;
    let answer = report.message.filter(|(message, _)| {
        report.sender.is_none() && message.generic.reservation == reservation
    });
    Ok(answer.map(|(message, _)| Answer {
        path: message.link_info,
        failures: message.failures.iter().collect(),
    }))
}
