//! For applications that speak RTCP themselves: the APP packet to append to their compounds, and the answers that come
//! back. Nothing here needs an engine.

use alloc::vec;
use alloc::vec::Vec;

use earmark_wire::EmitError;
use earmark_wire::rtcp;
use earmark_wire::yessir::{
    Auth, Command, Failures, Flowspec, Generic, LinkInfo, Message, ParseError, Report, Style,
};

use crate::api::{Answer, Stream};
use crate::auth::Key;

/// What an application asks for in its own sender reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// Reserve, only ask, or give back.
    pub command: Command,
    /// SSRC of the sender report, and of the stream.
    pub ssrc: u32,
    /// How much. [`Flowspec::Measured`] goes by the counts of the reports themselves.
    pub flowspec: Flowspec,
    /// With whom bandwidth is shared.
    pub style: Style,
    /// Time between two reports, seconds; state on the way ends after three to four of them without another.
    pub interval: u16,
    /// Any number; answers carry it, so that they can be told apart.
    pub reservation: u32,
    /// Reports use the ports of the data (rtcp-mux, RFC 5761).
    pub multiplexed: bool,
    /// TTL that the reports are sent with; 0 where the application does not know. Routers without YESSIR are found by it.
    pub send_ttl: u8,
}

/// The APP packet that asks for it: to be put behind the source description of a compound, whose first packet is a sender
/// report of the same SSRC. Send the compound with router alert (value 0), or have the routers look at all of UDP.
///
/// With a key it is signed; `stream` is then the stream as routers see it, and the sequence number larger each time.
///
/// ```
/// use earmark_wire::yessir::{Command, Flowspec, Style};
/// use earmark_yessir::library::{Ask, app_packet, read_answer};
///
/// let ask = Ask {
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
/// None that an application can bring about; the packet is of a size that always fits.
pub fn app_packet(ask: &Ask, sign: Option<(&Key, &Stream, u64)>) -> Result<Vec<u8>, EmitError> {
    let Ask { ssrc, command, style, interval, reservation, multiplexed, .. } = *ask;
    let auth = sign.map(|(key, _, sequence)| Auth { key: key.id, sequence, digest: [0; 16] });
    let mut message = Message {
        ssrc,
        generic: Generic { command, style, interval, reservation, multiplexed },
        flowspec: Some(ask.flowspec),
        link_info: Some(LinkInfo::unknown(ask.send_ttl)),
        failures: Failures::default(),
        auth,
        others: &[],
    };
    let mut packet = vec![0; message.buffer_len()];
    message.emit(&mut packet)?;
    if let (Some(auth), Some((key, stream, sequence))) = (&mut message.auth, sign) {
        let data = packet.get(rtcp::HEADER + 8..).unwrap_or_default();
        auth.digest = key.digest(stream, ssrc, data, sequence);
        message.emit(&mut packet)?;
    }
    Ok(packet)
}

/// What a compound that came in answers to the request with this number; `None` where it is about something else.
///
/// # Errors
/// The compound is none, or its YESSIR packet makes no sense.
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
