//! Reports that arrive, from the lines of a story, and the lines of reports.

use earmark_testkit::conformance::IpHeader;
use earmark_testkit::conformance::words::{self, Fault, Words};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::rtcp::{
    self, Application, CNAME_LEN, Chunks, Goodbye, Packet, ReceiverReport, SenderInfo, SenderReport,
};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Command, FailureNote, FailureReason, Failures, Flowspec, Generic, LinkInfo, Message, NAME,
    OctetRate, Report, Style, VERSION,
};

/// Ports of the data; the reports have the next ones.
const PORTS: (u16, u16) = (4_000, 5_000);
const SSRC: u32 = 7;

/// Returns the UDP packet of `report from A to B ...`, or of an `answer`, with the fragments of the body. `sent` is
/// the reservation id of the node's own last report.
pub(crate) fn compose(
    kind: &str,
    header: IpHeader,
    words: &mut Words<'_>,
    body: &[&str],
    sent: u32,
) -> Result<Vec<u8>, Fault> {
    let ports = |multiplexed: bool| {
        let (source, destination) = PORTS;
        let more = u16::from(!multiplexed);
        match kind {
            "answer" => (destination + more, source + more),
            _ => (source + more, destination + more),
        }
    };
    if words.flag("octets") {
        return packet(header, ports(false), &words::octets(&body.concat().replace(' ', ""))?);
    }
    let ssrc = words.maybe("ssrc")?.unwrap_or(SSRC);
    let seconds: u64 = words.maybe("ntp")?.unwrap_or(0);
    let sender = SenderInfo {
        ntp: seconds << 32,
        rtp_timestamp: 0,
        packets: words.maybe("packets")?.unwrap_or(0),
        octets: words.maybe("octets")?.unwrap_or(0),
    };
    let mut room = [0; CNAME_LEN];
    let name = Chunks::cname(ssrc, b"somebody@somewhere", &mut room).map_err(|e| e.to_string())?;
    let report = match kind {
        "report" => {
            Packet::SenderReport(SenderReport { ssrc, sender, blocks: &[], extension: &[] })
        }
        "answer" => Packet::ReceiverReport(ReceiverReport { ssrc, blocks: &[], extension: &[] }),
        other => return Err(format!("`{other}` is no report")),
    };
    let mut packets = vec![report, Packet::SourceDescription(name)];
    let app = if body.is_empty() { Vec::new() } else { app(ssrc, body, sent)? };
    if !app.is_empty() {
        let data = &app[12..];
        packets.push(Packet::Application(Application { subtype: VERSION, ssrc, name: NAME, data }));
    }
    let sources = [ssrc.to_be_bytes()];
    if words.flag("bye") {
        packets.push(Packet::Goodbye(Goodbye { sources: &sources, reason: None }));
    }
    let mut compound = vec![0; rtcp::buffer_len(&packets)];
    rtcp::emit(&packets, &mut compound).map_err(|error| error.to_string())?;
    let multiplexed = body.iter().any(|line| line.split(' ').any(|word| word == "mux"));
    packet(header, ports(multiplexed), &compound)
}

fn packet(header: IpHeader, ports: (u16, u16), payload: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut octets = [&[0; udp::HEADER], payload].concat();
    let (source, destination) = (header.source, header.destination);
    let (source_port, destination_port) = ports;
    let header = udp::Repr { source, destination, source_port, destination_port };
    header.emit(&mut octets).map_err(|error| error.to_string())?;
    Ok(octets)
}

/// Returns the APP packet with the fragments of these lines.
fn app(ssrc: u32, body: &[&str], sent: u32) -> Result<Vec<u8>, Fault> {
    let (mut notes, mut others) = (Vec::new(), Vec::new());
    let mut generic = None;
    let (mut flowspec, mut link_info) = (None, None);
    for line in body {
        let mut words = Words::of(line);
        match words.next("a fragment")? {
            "GENERIC" => generic = Some(self::generic(&mut words, sent)?),
            "FLOWSPEC" => flowspec = Some(self::flowspec(&mut words)?),
            "LINK_INFO" => link_info = Some(self::link_info(&mut words)?),
            "FAILURE" => {
                let (octets, length) = note(&mut words)?.to_octets();
                notes.extend(&octets[..length]);
            }
            "FRAGMENT" => {
                let number: u8 = words.value("its type")?;
                let data = words::octets(words.next("its octets")?)?;
                let length = u16::try_from(4 + data.len()).map_err(|error| error.to_string())?;
                others.extend([number, 0]);
                others.extend(length.to_be_bytes());
                others.extend(data);
            }
            other => return Err(format!("`{other}` is no fragment")),
        }
        words.end()?;
    }
    let generic = generic.ok_or("GENERIC is missing")?;
    let failures = Failures::of(&notes).ok_or("the notes cannot be read")?;
    let message = Message {
        ssrc,
        generic,
        flowspec,
        link_info,
        failures,
        auth: None,
        token: None,
        others: &others,
    };
    let mut app = vec![0; message.buffer_len()];
    message.emit(&mut app).map_err(|error| error.to_string())?;
    Ok(app)
}

fn generic(words: &mut Words<'_>, sent: u32) -> Result<Generic, Fault> {
    let command = match words.next("a command")? {
        "active" => Command::Active,
        "passive" => Command::Passive,
        "release" => Command::Release,
        other => return Err(format!("`{other}` is no command")),
    };
    let style = match words.next("a style")? {
        "individual" => Style::Individual,
        "shared" => Style::Shared,
        other => return Err(format!("`{other}` is no style")),
    };
    let interval = words.maybe("interval")?.unwrap_or(30);
    let reservation = match words.flag("sent-id") {
        true => sent,
        false => words.maybe("id")?.unwrap_or(1),
    };
    Ok(Generic { command, style, interval, reservation, multiplexed: words.flag("mux") })
}

/// Takes `intserv r=125000 b=5000`, `codec payload-type=0 frames=1`, `class dscp=46 r=125000` or
/// `measured window=60 headroom=20`.
pub(crate) fn flowspec(words: &mut Words<'_>) -> Result<Flowspec, Fault> {
    Ok(match words.next("a form")? {
        "intserv" => {
            let bucket = TokenBucket {
                rate: words.key("r")?,
                depth: words.key("b")?,
                peak: f32::INFINITY,
                min_policed_unit: 64,
                max_packet_size: words.maybe("M")?.unwrap_or(1_000),
            };
            Flowspec::Intserv(match words.maybe("R")? {
                None => FlowSpec::ControlledLoad(bucket),
                Some(rate) => FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us: 0 }),
            })
        }
        "codec" => Flowspec::Codec {
            payload_type: words.key("payload-type")?,
            frames: words.key("frames")?,
        },
        "class" => Flowspec::Class { dscp: words.key("dscp")?, rate: OctetRate(words.key("r")?) },
        "measured" => {
            Flowspec::Measured { window: words.key("window")?, headroom: words.key("headroom")? }
        }
        other => return Err(format!("`{other}` is no flowspec")),
    })
}

fn link_info(words: &mut Words<'_>) -> Result<LinkInfo, Fault> {
    let first = LinkInfo::unknown(words.maybe("send-ttl")?.unwrap_or(0));
    Ok(LinkInfo {
        hops: words.maybe("hops")?.unwrap_or(first.hops),
        other_hops: words.flag("other-hops"),
        path_mtu: words.maybe("mtu")?.unwrap_or(first.path_mtu),
        available: words.maybe("available")?.map_or(first.available, OctetRate),
        latency_us: words.maybe("latency")?.unwrap_or(first.latency_us),
        ..first
    })
}

fn note(words: &mut Words<'_>) -> Result<FailureNote, Fault> {
    let name = words.next("a reason")?;
    let reason = (0..=u8::MAX).map(FailureReason::from_code).find(|it| format!("{it:?}") == name);
    Ok(FailureNote {
        reason: reason.ok_or_else(|| format!("`{name}` is no reason"))?,
        hop: words.key("hop")?,
        available: OctetRate(words.key("available")?),
        node: words.key("node")?,
    })
}

/// Returns the reservation id of a report in UDP.
pub(crate) fn reservation(packet: &[u8]) -> Option<u32> {
    let report = Report::parse(packet.get(udp::HEADER..)?).ok()?;
    report.message.map(|(message, _)| message.generic.reservation)
}

/// Returns the line of LINK_INFO.
pub(crate) fn link_info_text(info: &LinkInfo) -> String {
    let LinkInfo { hops, path_mtu, available, latency_us, .. } = info;
    let others = if info.other_hops { " other-hops" } else { "" };
    format!(
        "LINK_INFO hops={hops}{others} mtu={path_mtu} available={} latency={latency_us}",
        available.0
    )
}

/// Returns the line of a note.
pub(crate) fn note_text(note: &FailureNote) -> String {
    let FailureNote { reason, hop, available, node } = note;
    format!("FAILURE {reason:?} hop={hop} available={} node={node}", available.0)
}

/// Returns the lines of all fragments of a message; of GENERIC and the flowspec those words that a story sets.
pub(crate) fn fragments(message: &Message<'_>) -> Vec<String> {
    let Generic { command, style, interval, multiplexed, .. } = message.generic;
    let mux = if multiplexed { " mux" } else { "" };
    let words = format!("{command:?} {style:?}").to_lowercase();
    let mut lines = vec![format!("GENERIC {words} interval={interval}{mux}")];
    lines.extend(message.flowspec.as_ref().map(|flowspec| match flowspec {
        Flowspec::Intserv(FlowSpec::ControlledLoad(bucket)) => {
            format!("FLOWSPEC intserv r={} b={}", bucket.rate, bucket.depth)
        }
        other => format!("FLOWSPEC {other:?}"),
    }));
    lines.extend(routers_part(message));
    lines
}

/// Returns the lines of what routers edit.
pub(crate) fn routers_part(message: &Message<'_>) -> Vec<String> {
    let info = message.link_info.iter().map(link_info_text);
    info.chain(message.failures.iter().map(|note| note_text(&note))).collect()
}
