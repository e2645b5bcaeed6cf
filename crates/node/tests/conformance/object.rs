//! Text form of objects.
//!
//! Reading builds the octets here, by the figures of RFC 2205 appendix A, so that a case is independent of the code
//! under test; only the bodies of RFC 2210 come from the library. Writing uses the library's view. An object whose text
//! does not give the same octets is shown by its numbers: `class=200 c-type=1 01020304`.

use std::net::IpAddr;

use earmark_wire::intserv::{
    Adspec, ControlledLoad, FlowSpec, General, Guaranteed, GuaranteedTerms, Overrides, Parameters,
    Rspec, TokenBucket,
};
use earmark_wire::rsvp::{
    Challenge, DecodedObject, ErrorCode, ErrorSpec, FilterSpec, Object, ObjectClass, Session,
    SourceSelector, Style,
};

use crate::diagnostics;
use crate::refresh_reduction;
use earmark_testkit::conformance::words::{Fault, Seconds, Words, octets};

/// Logical interface handles, shown as the names of their interfaces because they are random.
pub(crate) type Handles = [(String, u32)];

/// Reads an object's octets from its line.
pub(crate) fn read(line: &str, handles: &Handles) -> Result<Vec<u8>, Fault> {
    let mut words = Words::of(line);
    if let Some(class) = words.maybe::<u8>("class")? {
        let c_type = words.key("c-type")?;
        let body = if words.is_empty() { Vec::new() } else { octets(words.next("body")?)? };
        words.end()?;
        return frame(class, c_type, &body);
    }
    let name = words.next("class")?;
    let class = class_named(name).ok_or_else(|| format!("no object is called {name}"))?;
    let (c_type, body) = body(class, &mut words, handles).map_err(|e| format!("{name}: {e}"))?;
    words.end()?;
    frame(class.code(), c_type, &body)
}

/// Returns the class with a name such as `SESSION`.
pub(crate) fn class_named(name: &str) -> Option<ObjectClass> {
    (0..=u8::MAX)
        .map(ObjectClass::from_code)
        .find(|class| class.name() == name && !matches!(class, ObjectClass::Unknown(_)))
}

pub(crate) fn frame(class: u8, c_type: u8, body: &[u8]) -> Result<Vec<u8>, Fault> {
    let length = u16::try_from(body.len() + 4).map_err(|_| "the object is too long")?;
    Ok([&length.to_be_bytes()[..], &[class, c_type], body].concat())
}

fn body(
    class: ObjectClass,
    words: &mut Words<'_>,
    handles: &Handles,
) -> Result<(u8, Vec<u8>), Fault> {
    Ok(match class {
        ObjectClass::Session => {
            let session = session(words)?;
            let [p0, p1] = session.port.to_be_bytes();
            let (family, body) =
                addressed(session.destination, &[session.protocol, session.flags, p0, p1]);
            let beyond_plain = match (session.is_aggregate(), session.has_gpi()) {
                (true, _) => 8,
                (_, true) => 2,
                _ => 0,
            };
            (family + beyond_plain, body)
        }
        ObjectClass::RsvpHop => {
            let address = words.value("hop address")?;
            let lih: String = words.key("lih")?;
            let lih = match handles.iter().find(|(name, _)| *name == lih) {
                Some((_, lih)) => *lih,
                None => lih.parse().map_err(|error| format!("lih={lih}: {error}"))?,
            };
            addressed(address, &lih.to_be_bytes())
        }
        ObjectClass::TimeValues => {
            let Seconds(refresh) = words.key("R")?;
            let millis = u32::try_from(refresh.as_millis()).map_err(|_| "R is too long")?;
            (1, millis.to_be_bytes().to_vec())
        }
        ObjectClass::ErrorSpec => {
            let address = words.value("error node")?;
            let mut flags = 0;
            for (name, bit) in
                [("InPlace", ErrorSpec::IN_PLACE), ("NotGuilty", ErrorSpec::NOT_GUILTY)]
            {
                flags |= if words.flag(name) { bit } else { 0 };
            }
            let [v0, v1] = words.key::<u16>("value")?.to_be_bytes();
            addressed(address, &[flags, words.key("code")?, v0, v1])
        }
        ObjectClass::Scope => scope(words)?,
        ObjectClass::Style => {
            let style = style(words.next("style")?)?;
            (1, u32::from(style.option_vector()).to_be_bytes().to_vec())
        }
        ObjectClass::FlowSpec => {
            let flowspec = flowspec(words)?;
            let mut body = vec![0; flowspec.buffer_len()];
            flowspec.emit(&mut body).map_err(|error| error.to_string())?;
            (2, body)
        }
        ObjectClass::FilterSpec | ObjectClass::SenderTemplate => template(filter(words)?),
        ObjectClass::SenderTspec => {
            let mut body = vec![0; TokenBucket::BODY_LEN];
            bucket(words)?.emit(&mut body).map_err(|error| error.to_string())?;
            (2, body)
        }
        ObjectClass::Adspec => (2, adspec(words)?),
        ObjectClass::Hello
        | ObjectClass::RestartCap
        | ObjectClass::Capability
        | ObjectClass::MessageId
        | ObjectClass::MessageIdAck
        | ObjectClass::MessageIdList => refresh_reduction::read(class, words)?,
        ObjectClass::ResvConfirm => addressed(words.value("receiver")?, &[]),
        ObjectClass::NotifyRequest => addressed(words.value("node")?, &[]),
        ObjectClass::Challenge => {
            let (key, cookie) = (words.key::<u64>("key")?, words.key::<u64>("cookie")?);
            (1, [&[0; 2], &key.to_be_bytes()[2..], &cookie.to_be_bytes()].concat())
        }
        ObjectClass::Diagnostic
        | ObjectClass::DiagSelect
        | ObjectClass::Route
        | ObjectClass::DiagResponse => diagnostics::read(class, words, handles)?,
        _ => return Err("write it as class=... c-type=... and octets".into()),
    })
}

/// Returns C-Type and body of an object that begins with an address.
pub(crate) fn addressed(address: IpAddr, rest: &[u8]) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (1, [&address.octets()[..], rest].concat()),
        IpAddr::V6(address) => (2, [&address.octets()[..], rest].concat()),
    }
}

pub(crate) fn template(filter: FilterSpec) -> (u8, Vec<u8>) {
    match filter.selector {
        SourceSelector::Port(port) => {
            let [p0, p1] = port.to_be_bytes();
            addressed(filter.source, &[0, 0, p0, p1])
        }
        SourceSelector::FlowLabel(label) => {
            let (_, body) = addressed(filter.source, &label.to_be_bytes());
            (3, body)
        }
        SourceSelector::Spi(spi) => {
            let (family, body) = addressed(filter.source, &spi.to_be_bytes());
            (family + 3, body)
        }
        SourceSelector::Aggregator => {
            let (family, body) = addressed(filter.source, &[]);
            (family + 8, body)
        }
    }
}

fn scope(words: &mut Words<'_>) -> Result<(u8, Vec<u8>), Fault> {
    let (mut c_type, mut body) = (1, Vec::new());
    while !words.is_empty() {
        let (family, octets) = addressed(words.value("sender address")?, &[]);
        c_type = family;
        body.extend(octets);
    }
    Ok((c_type, body))
}

/// Reads `10.0.9.9 udp 5004`, or `10.0.9.9 dscp 46` of an aggregate.
pub(crate) fn session(words: &mut Words<'_>) -> Result<Session, Fault> {
    let flags = if words.flag("E_Police") { Session::E_POLICE } else { 0 };
    let destination = words.value("destination")?;
    let protocol = match words.next("protocol")? {
        "tcp" => 6,
        "udp" => 17,
        "esp" => 50,
        "ah" => 51,
        "dscp" => 0,
        number => number.parse().map_err(|error| format!("protocol {number}: {error}"))?,
    };
    Ok(Session { destination, protocol, flags, port: words.value("destination port")? })
}

/// Reads `10.0.0.1 port=4000`, a filter with `label=...` or `spi=...`, or an address alone.
pub(crate) fn filter(words: &mut Words<'_>) -> Result<FilterSpec, Fault> {
    let source = words.value("source")?;
    let selector = match (words.maybe("label")?, words.maybe("spi")?) {
        (Some(label), _) => SourceSelector::FlowLabel(label),
        (None, Some(spi)) => SourceSelector::Spi(spi),
        (None, None) => match words.maybe("port")? {
            Some(port) => SourceSelector::Port(port),
            None => SourceSelector::Aggregator,
        },
    };
    Ok(FilterSpec { source, selector })
}

pub(crate) fn style(name: &str) -> Result<Style, Fault> {
    let styles = [Style::Wildcard, Style::FixedFilter, Style::SharedExplicit];
    styles
        .into_iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| format!("no style is called {name}"))
}

/// Reads `controlled-load r=...` or `guaranteed r=... R=... S=...`.
pub(crate) fn flowspec(words: &mut Words<'_>) -> Result<FlowSpec, Fault> {
    match words.next("service")? {
        "controlled-load" => Ok(FlowSpec::ControlledLoad(bucket(words)?)),
        "guaranteed" => {
            let rspec = Rspec { rate: words.key("R")?, slack_us: words.key("S")? };
            Ok(FlowSpec::Guaranteed(bucket(words)?, rspec))
        }
        other => Err(format!("no service is called {other}")),
    }
}

/// Reads `r=250000 b=3000 p=inf m=100 M=1500`, octets and octets per second.
pub(crate) fn bucket(words: &mut Words<'_>) -> Result<TokenBucket, Fault> {
    Ok(TokenBucket {
        rate: words.key("r")?,
        depth: words.key("b")?,
        peak: words.key("p")?,
        min_policed_unit: words.key("m")?,
        max_packet_size: words.key("M")?,
    })
}

/// Reads `hops=1 bandwidth=937500 latency_us=0 mtu=1500 guaranteed Ctot=... Dtot=... Csum=... Dsum=...
/// controlled-load`, each part with `break` if its break bit is set.
fn adspec(words: &mut Words<'_>) -> Result<Vec<u8>, Fault> {
    const SERVICES: [&str; 2] = ["guaranteed", "controlled-load"];
    let (mut general, mut service) = words.until(&SERVICES);
    let (mut guaranteed, mut controlled_load) = (None, None);
    while let Some(name) = service {
        let (mut part, next) = words.until(&SERVICES);
        let (break_bit, overrides) = (part.flag("break"), Overrides::default());
        if name == "guaranteed" {
            let terms = GuaranteedTerms {
                c_total: part.key("Ctot")?,
                d_total: part.key("Dtot")?,
                c_sum: part.key("Csum")?,
                d_sum: part.key("Dsum")?,
            };
            guaranteed = Some(Guaranteed { break_bit, terms: Some(terms), overrides });
        } else {
            controlled_load = Some(ControlledLoad { break_bit, overrides });
        }
        part.end()?;
        service = next;
    }
    let adspec = Adspec {
        general: General {
            break_bit: general.flag("break"),
            hops: general.key("hops")?,
            bandwidth: general.key("bandwidth")?,
            latency_us: general.key("latency_us")?,
            mtu: general.key("mtu")?,
            extra: Parameters::default(),
        },
        guaranteed,
        controlled_load,
        ..Adspec::for_sender()
    };
    general.end()?;
    let mut body = vec![0; adspec.buffer_len()];
    adspec.emit(&mut body).map_err(|error| error.to_string())?;
    Ok(body)
}

/// Returns the line of an object.
pub(crate) fn show(object: &DecodedObject<'_>, handles: &Handles) -> String {
    let text = meaning(&object.object, handles);
    let whole = text.filter(|text| read(text, handles).is_ok_and(|o| o == object.raw.bytes));
    whole.unwrap_or_else(|| raw(object.raw.bytes))
}

/// Returns the line of an object without another text form.
pub(crate) fn raw(bytes: &[u8]) -> String {
    let (head, body) = bytes.split_at(bytes.len().min(4));
    let [_, _, class, c_type] = *head else { return crate::show::hexadecimal(bytes) };
    let line = format!("class={class} c-type={c_type} {}", crate::show::hexadecimal(body));
    line.trim_end().into()
}

fn meaning(object: &Object<'_>, handles: &Handles) -> Option<String> {
    Some(match object {
        Object::Session(session) => format!("SESSION {}", session_text(session)),
        Object::RsvpHop(hop) => {
            let named = handles.iter().find(|(_, lih)| *lih == hop.lih);
            let lih = named.map_or_else(|| hop.lih.to_string(), |(name, _)| name.clone());
            format!("RSVP_HOP {} lih={lih}", hop.address)
        }
        Object::TimeValues(millis) => format!("TIME_VALUES R={}s", f64::from(*millis) / 1_000.0),
        Object::ErrorSpec(error) => format!("ERROR_SPEC {}", error_text(error)),
        Object::Scope(senders) => {
            senders.iter().fold("SCOPE".to_string(), |text, sender| format!("{text} {sender}"))
        }
        Object::Style(style) => format!("STYLE {}", style.name()),
        Object::FlowSpec(flowspec) => format!("FLOWSPEC {}", flowspec_text(flowspec)),
        Object::FilterSpec(filter) => format!("FILTER_SPEC {}", filter_text(filter)),
        Object::SenderTemplate(filter) => format!("SENDER_TEMPLATE {}", filter_text(filter)),
        Object::SenderTspec(bucket) => format!("SENDER_TSPEC {}", bucket_text(bucket)),
        Object::Adspec(adspec) => adspec_text(adspec)?,
        Object::Hello(_)
        | Object::RestartCap(_)
        | Object::Capability(_)
        | Object::MessageId(_)
        | Object::MessageIdAck(_)
        | Object::MessageIdList(_) => return refresh_reduction::show(object),
        Object::ResvConfirm(receiver) => format!("RESV_CONFIRM {receiver}"),
        Object::NotifyRequest(node) => format!("NOTIFY_REQUEST {node}"),
        Object::Challenge(Challenge { key_id, cookie }) => {
            format!("CHALLENGE key={key_id} cookie={cookie}")
        }
        other => return diagnostics::show(other, handles),
    })
}

pub(crate) fn session_text(session: &Session) -> String {
    let Session { destination, protocol, flags, port } = session;
    let protocol = match protocol {
        6 => "tcp".to_string(),
        17 => "udp".to_string(),
        50 => "esp".to_string(),
        51 => "ah".to_string(),
        0 => "dscp".to_string(),
        other => other.to_string(),
    };
    let police = if flags & Session::E_POLICE == 0 { "" } else { " E_Police" };
    format!("{destination} {protocol} {port}{police}")
}

pub(crate) fn filter_text(filter: &FilterSpec) -> String {
    match filter.selector {
        SourceSelector::Port(port) => format!("{} port={port}", filter.source),
        SourceSelector::FlowLabel(label) => format!("{} label={label}", filter.source),
        SourceSelector::Spi(spi) => format!("{} spi={spi}", filter.source),
        SourceSelector::Aggregator => filter.source.to_string(),
    }
}

pub(crate) fn error_text(error: &ErrorSpec) -> String {
    let ErrorSpec { node, flags, code, value } = error;
    let in_place = if flags & ErrorSpec::IN_PLACE == 0 { "" } else { " InPlace" };
    let not_guilty = if flags & ErrorSpec::NOT_GUILTY == 0 { "" } else { " NotGuilty" };
    let name = match code {
        ErrorCode::Unknown(_) => String::new(),
        code => format!(" ({})", code.name()),
    };
    format!("{node} code={} value={value}{name}{in_place}{not_guilty}", code.code())
}

pub(crate) fn bucket_text(bucket: &TokenBucket) -> String {
    let TokenBucket { rate, depth, peak, min_policed_unit, max_packet_size } = bucket;
    format!("r={rate} b={depth} p={peak} m={min_policed_unit} M={max_packet_size}")
}

pub(crate) fn flowspec_text(flowspec: &FlowSpec) -> String {
    match flowspec {
        FlowSpec::ControlledLoad(bucket) => format!("controlled-load {}", bucket_text(bucket)),
        FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us }) => {
            format!("guaranteed {} R={rate} S={slack_us}", bucket_text(bucket))
        }
    }
}

fn adspec_text(adspec: &Adspec<'_>) -> Option<String> {
    let General { break_bit, hops, bandwidth, latency_us, mtu, .. } = adspec.general;
    let breaks = |bit: bool| if bit { " break" } else { "" };
    let mut text = format!("ADSPEC hops={hops} bandwidth={bandwidth} latency_us={latency_us}");
    text += &format!(" mtu={mtu}{}", breaks(break_bit));
    if let Some(Guaranteed { break_bit, terms, .. }) = adspec.guaranteed {
        let GuaranteedTerms { c_total, d_total, c_sum, d_sum } = terms?;
        text += &format!(" guaranteed{} Ctot={c_total} Dtot={d_total}", breaks(break_bit));
        text += &format!(" Csum={c_sum} Dsum={d_sum}");
    }
    if let Some(ControlledLoad { break_bit, .. }) = adspec.controlled_load {
        text += &format!(" controlled-load{}", breaks(break_bit));
    }
    Some(text)
}
