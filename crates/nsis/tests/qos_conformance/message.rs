//! Conversion between messages of QoS NSLP and lines of a story.

use std::net::IpAddr;

use earmark_wire::qos_nslp::iana::BindingCode;
use earmark_wire::qos_nslp::{
    Answers, BoundSessionId, BoundSessions, ErrorSource, Extra, GenericFlags, InfoSpec, Message,
    MessageBinding, MessageId, Notify, Outcome, PacketClassifier, Query, Reserve, Response, Rsn,
    RsnList, Summary,
};

use crate::names::Names;
use crate::qspec;
use earmark_testkit::conformance::words::{Fault, Seconds, Words};

/// Classifier fields of the MRI, by name.
const FIELDS: [(&str, u8); 8] = [
    ("source", PacketClassifier::SOURCE_ADDRESS),
    ("destination", PacketClassifier::DESTINATION_ADDRESS),
    ("protocol", PacketClassifier::PROTOCOL),
    ("dscp", PacketClassifier::DSCP),
    ("flow-label", PacketClassifier::FLOW_LABEL),
    ("spi", PacketClassifier::SPI),
    ("source-port", PacketClassifier::SOURCE_PORT),
    ("destination-port", PacketClassifier::DESTINATION_PORT),
];

/// Binding codes, by name.
const BINDINGS: [(&str, BindingCode); 5] = [
    ("tunnel", BindingCode::Tunnel),
    ("bidirectional", BindingCode::Bidirectional),
    ("aggregate", BindingCode::Aggregate),
    ("dependent", BindingCode::Dependent),
    ("preempted", BindingCode::Preempted),
];

/// Returns the name of a message, its flags, and its objects, one line each.
pub(crate) fn show(octets: &[u8], names: &mut Names) -> (String, String, Vec<String>) {
    let message = match Message::parse(octets) {
        Ok(message) => message,
        Err(error) => return ("MESSAGE".into(), format!(" ({error})"), Vec::new()),
    };
    let name = message.message_type().name().to_string();
    let mut lines = Vec::new();
    let flags = match &message {
        Message::Reserve(reserve) => {
            reserve_lines(reserve, names, &mut lines);
            flags_text(reserve.flags, &[(reserve.tear, " tear"), (reserve.replace, " replace")])
        }
        Message::Query(query) => {
            lines.extend(query.rii.map(|rii| format!("RII {}", names.of_rii(rii))));
            lines.extend(query.bound.iter().map(|bound| bound_text(bound, names)));
            lines.extend(query.classifier.map(classifier_text));
            lines.extend(query.info.as_ref().map(info_text));
            lines.extend(qspec::show(query.qspec));
            lines.extend(query.second_qspec.into_iter().flat_map(qspec::show));
            flags_text(query.flags, &[(query.reserve_init, " reserve-init")])
        }
        Message::Response(response) => {
            lines.extend(response.answers.map(|answers| match answers {
                Answers::Rii(rii) => format!("RII {}", names.of_rii(rii)),
                Answers::Rsn(rsn) => rsn_text(rsn, names),
            }));
            lines.push(info_text(&response.info));
            lines.extend(response.summary.iter().flat_map(|summary| summary_lines(summary, names)));
            lines.extend(response.qspec.into_iter().flat_map(qspec::show));
            flags_text(response.flags, &[])
        }
        Message::Notify(notify) => {
            lines.push(info_text(&notify.info));
            lines.extend(notify.qspec.into_iter().flat_map(qspec::show));
            flags_text(notify.flags, &[])
        }
    };
    (name, flags, lines)
}

fn reserve_lines(reserve: &Reserve<'_>, names: &mut Names, lines: &mut Vec<String>) {
    lines.push(rsn_text(reserve.rsn, names));
    lines.extend(reserve.rii.map(|rii| format!("RII {}", names.of_rii(rii))));
    let period = reserve.refresh_period.map(|ms| f64::from(ms) / 1_000.0);
    lines.extend(period.map(|seconds| format!("REFRESH-PERIOD {seconds}s")));
    lines.extend(reserve.bound.iter().map(|bound| bound_text(bound, names)));
    lines.extend(reserve.summary.iter().flat_map(|summary| summary_lines(summary, names)));
    lines.extend(reserve.binding.map(|binding| {
        let (name, MessageId { bidirectional, id }) = match binding {
            MessageBinding::Id(id) => ("MSG-ID", id),
            MessageBinding::Bound(id) => ("BOUND-MSG-ID", id),
        };
        let both = if bidirectional { " bidirectional" } else { "" };
        format!("{name} {}{both}", names.of_long('m', id))
    }));
    lines.extend(reserve.info.as_ref().map(info_text));
    lines.extend(reserve.classifier.map(classifier_text));
    lines.extend(reserve.qspec.into_iter().flat_map(qspec::show));
}

fn flags_text(flags: GenericFlags, others: &[(bool, &str)]) -> String {
    let GenericFlags { scoping, proxy, ack_req, breaks } = flags;
    let generic =
        [(scoping, " scoping"), (proxy, " proxy"), (ack_req, " ack-req"), (breaks, " break")];
    others.iter().chain(&generic).filter(|(set, _)| *set).map(|(_, name)| *name).collect()
}

fn rsn_text(rsn: Rsn, names: &mut Names) -> String {
    format!("RSN {} epoch={}", rsn.number, names.of_epoch(rsn.epoch))
}

fn bound_text(bound: BoundSessionId, names: &mut Names) -> String {
    let BoundSessionId { binding, session } = bound;
    let name = BINDINGS.iter().find(|(_, code)| *code == binding).map_or("?", |(name, _)| name);
    format!("BOUND-SESSION-ID {} {name}", names.of_long('s', session.0))
}

fn summary_lines(summary: &Summary<'_>, names: &mut Names) -> Vec<String> {
    let sessions: Vec<String> = summary.sessions.iter().map(|id| names.of_long('s', *id)).collect();
    let mut lines = vec![format!("SESSION-ID-LIST {}", sessions.join(" "))];
    lines.extend(summary.rsns.map(|rsns| {
        let numbers: Vec<String> = rsns.numbers().map(|number| number.to_string()).collect();
        format!("RSN-LIST {} epoch={}", numbers.join(" "), names.of_epoch(rsns.epoch))
    }));
    lines
}

fn info_text(info: &InfoSpec<'_>) -> String {
    let InfoSpec { outcome, source, .. } = info;
    let (class, code) = (outcome.class().code(), outcome.code());
    let from = match source {
        None => String::new(),
        Some(ErrorSource::Ipv4(address)) => format!(" from={address}"),
        Some(ErrorSource::Ipv6(address)) => format!(" from={address}"),
        Some(ErrorSource::Fqdn(name)) => format!(" by={name}"),
        Some(ErrorSource::Unknown { code, .. }) => format!(" source-type={code}"),
    };
    format!("INFO-SPEC {class} {code}{from} ({})", outcome.name())
}

fn classifier_text(classifier: PacketClassifier) -> String {
    let fields = FIELDS.iter().filter(|(_, field)| classifier.has(*field));
    let names: String = fields.map(|(name, _)| format!(" {name}")).collect();
    format!("PACKET-CLASSIFIER{names}")
}

/// Objects of a message of a story.
#[derive(Debug, Default)]
struct Parts {
    rsn: Option<Rsn>,
    rii: Option<u32>,
    refresh_period: Option<u32>,
    bound: Vec<BoundSessionId>,
    sessions: Vec<[u8; 16]>,
    numbers: Option<(u32, Vec<[u8; 4]>)>,
    binding: Option<MessageBinding>,
    info: Option<(Outcome, Option<IpAddr>)>,
    classifier: Option<PacketClassifier>,
    qspec: Option<qspec::Draft>,
}

impl Parts {
    fn read(lines: &[&str], names: &Names) -> Result<Parts, Fault> {
        let mut parts = Parts::default();
        for line in lines {
            let mut words = Words::of(line);
            let object = words.next("an object")?;
            let in_qspec = match &mut parts.qspec {
                Some(qspec) => qspec.take(object, &mut words)?,
                None => false,
            };
            if !in_qspec {
                parts.take(object, &mut words, names)?;
            }
            words.end().map_err(|fault| format!("{line}: {fault}"))?;
        }
        Ok(parts)
    }

    fn take(&mut self, object: &str, words: &mut Words<'_>, names: &Names) -> Result<(), Fault> {
        match object {
            "RSN" => {
                let number = words.value("a number")?;
                let epoch = names.epoch(words.text("epoch").ok_or("epoch=... is missing")?)?;
                self.rsn = Some(Rsn { number, epoch });
            }
            "RII" => self.rii = Some(names.rii(words.next("an RII")?)?),
            "REFRESH-PERIOD" => {
                let Seconds(period) = words.value("a period")?;
                self.refresh_period = Some(period.as_millis() as u32);
            }
            "BOUND-SESSION-ID" => {
                let session = names.session(words.next("a session")?)?;
                let name = words.next("a binding")?;
                let binding = BINDINGS.iter().find(|(known, _)| *known == name);
                let (_, binding) = *binding.ok_or_else(|| format!("no binding `{name}`"))?;
                self.bound.push(BoundSessionId { binding, session });
            }
            "SESSION-ID-LIST" => {
                while !words.is_empty() {
                    self.sessions.push(names.long(words.next("a session")?)?);
                }
            }
            "RSN-LIST" => {
                let epoch = names.epoch(words.text("epoch").ok_or("epoch=... is missing")?)?;
                let mut numbers = Vec::new();
                while !words.is_empty() {
                    numbers.push(words.value::<u32>("a number")?.to_be_bytes());
                }
                self.numbers = Some((epoch, numbers));
            }
            "MSG-ID" | "BOUND-MSG-ID" => {
                let bidirectional = words.flag("bidirectional");
                let id = MessageId { bidirectional, id: names.long(words.next("a name")?)? };
                self.binding = Some(match object {
                    "MSG-ID" => MessageBinding::Id(id),
                    _ => MessageBinding::Bound(id),
                });
            }
            "INFO-SPEC" => {
                let class = words.value("a class")?;
                let outcome = Outcome::from_codes(class, words.value("a code")?);
                self.info = Some((outcome, words.maybe("from")?));
            }
            "PACKET-CLASSIFIER" => {
                let set = FIELDS.iter().filter(|(name, _)| words.flag(name));
                let fields = set.fold(0, |fields, (_, field)| fields | field);
                self.classifier = Some(PacketClassifier(fields));
            }
            "QSPEC" => self.qspec = Some(qspec::Draft::begin(words)?),
            other => return Err(format!("there is no object `{other}`")),
        }
        Ok(())
    }
}

/// Returns the octets of a message of a story: its name with flags, and its objects.
pub(crate) fn compose(
    name: &str,
    words: &mut Words<'_>,
    lines: &[&str],
    names: &Names,
) -> Result<Vec<u8>, Fault> {
    let parts = Parts::read(lines, names)?;
    let qspec = parts.qspec.as_ref().map(qspec::Draft::octets).transpose()?;
    let qspec = qspec.as_deref();
    let rsns = parts.numbers.as_ref().map(|(epoch, wire)| RsnList { epoch: *epoch, wire });
    let summary = Some(Summary { sessions: &parts.sessions, rsns });
    let summary = summary.filter(|summary| !summary.sessions.is_empty());
    let info = parts.info.map(|(outcome, source)| InfoSpec {
        source: source.map(|address| match address {
            IpAddr::V4(address) => ErrorSource::Ipv4(address),
            IpAddr::V6(address) => ErrorSource::Ipv6(address),
        }),
        ..InfoSpec::new(outcome)
    });
    let flags = GenericFlags {
        scoping: words.flag("scoping"),
        proxy: words.flag("proxy"),
        ack_req: words.flag("ack-req"),
        breaks: words.flag("break"),
    };
    let (rii, classifier, extra) = (parts.rii, parts.classifier, Extra::NONE);
    let bound = BoundSessions::Items(&parts.bound);
    let message = match name {
        "RESERVE" => Message::Reserve(Reserve {
            flags,
            tear: words.flag("tear"),
            replace: words.flag("replace"),
            rsn: parts.rsn.ok_or("RSN is missing")?,
            rii,
            refresh_period: parts.refresh_period,
            bound,
            summary,
            binding: parts.binding,
            info,
            classifier,
            qspec,
            extra,
        }),
        "QUERY" => Message::Query(Query {
            flags,
            reserve_init: words.flag("reserve-init"),
            rii,
            bound,
            classifier,
            info,
            qspec: qspec.ok_or("QSPEC is missing")?,
            second_qspec: None,
            extra,
        }),
        "RESPONSE" => Message::Response(Response {
            flags,
            answers: rii.map(Answers::Rii).or(parts.rsn.map(Answers::Rsn)),
            info: info.ok_or("INFO-SPEC is missing")?,
            summary,
            qspec,
            extra,
        }),
        "NOTIFY" => {
            let info = info.ok_or("INFO-SPEC is missing")?;
            Message::Notify(Notify { flags, info, qspec, extra })
        }
        other => return Err(format!("there is no message `{other}`")),
    };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).map_err(|error| error.to_string())?;
    Ok(octets)
}
