//! Text form of effects. Every effect of a node has one, and different effects have different ones.

use std::collections::HashMap;
use std::fmt::Write as _;

use earmark_core::admission::{ClaimId, Demand, Service};
use earmark_core::{Connect, Effect, Effects, Flow, Installation, Outgoing};
use earmark_node::Event;
use earmark_testkit::conformance::topology::Links;
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{ErrorSpec, FilterSpec, Session};
use serde_json::Value;

use crate::message;
use crate::object::{self, Handles};
use crate::signing::{self, SharedKey};

/// Names of interfaces and handles, for the text form of effects.
pub(crate) struct Names<'t> {
    pub(crate) links: &'t Links,
    pub(crate) keys: &'t [SharedKey],
    pub(crate) handles: &'t Handles,
    /// Objects of the last message sent with a given first line.
    pub(crate) sent: &'t mut HashMap<String, Vec<String>>,
}

impl Names<'_> {
    /// Returns the text of each effect, in order.
    pub(crate) fn show(&mut self, effects: &Effects<Event>) -> Vec<String> {
        effects.iter().map(|effect| self.effect(effect, effects)).collect()
    }

    fn effect(&mut self, effect: &Effect<Event>, effects: &Effects<Event>) -> String {
        match effect {
            Effect::Send(how, range) => {
                let (line, objects) = self.sent(how, effects.octets(range));
                if self.sent.get(&line) == Some(&objects) {
                    return line + ", as before";
                }
                let text = [&[line.clone()][..], &objects].concat().join("\n     ");
                self.sent.insert(line, objects);
                text
            }
            Effect::Connect(connect) => {
                let &Connect { connection, source, destination, transport } = connect;
                let id = connection.0;
                format!("connect {id} from {source} to {destination} by {transport:?}")
            }
            Effect::Write(connection, range) => {
                format!("write to {} {:02x?}", connection.0, effects.octets(range))
            }
            Effect::Close(connection) => format!("close {}", connection.0),
            Effect::Install(installation) => self.installed(installation),
            Effect::AddFlow(claim, flow) => {
                format!("add {} to {}", flow_text(flow), claim_text(*claim))
            }
            Effect::RemoveFlow(claim, flow) => {
                format!("take {} from {}", flow_text(flow), claim_text(*claim))
            }
            Effect::Remove(claim, _) => format!("remove {}", claim_text(*claim)),
            Effect::Filter(change) => format!("filter {change:?}"),
            Effect::Notify(event) => format!("tell {}", self.event(event)),
        }
    }

    fn sent(&self, how: &Outgoing, octets: &[u8]) -> (String, Vec<String>) {
        let &Outgoing { protocol, interface, source, destination, ttl, .. } = how;
        let (head, mut objects) = message::show(octets, ttl, self.handles);
        if let (Some(signature), Some(first)) =
            (signing::show(octets, self.keys), objects.first_mut())
        {
            *first = signature;
        }
        let way = match interface {
            Some(interface) => format!(" {}", self.links.name(interface)),
            None => String::new(),
        };
        let mut line = format!("send{way} {head} from {source} to {destination} ttl={ttl}");
        for (said, word) in [
            (how.router_alert, " alert"),
            (how.encapsulated, " udp"),
            (protocol != earmark_rsvp::PROTOCOL, " by another protocol"),
        ] {
            line += if said { word } else { "" };
        }
        (line, objects)
    }

    fn installed(&self, installation: &Installation) -> String {
        let Installation { claim, interface, flow, demand } = installation;
        let Demand { service, rate, burst, max_packet, .. } = demand;
        let service = match service {
            Service::ControlledLoad => "controlled-load",
            Service::Guaranteed => "guaranteed",
        };
        let (claim, interface) = (claim_text(*claim), self.links.name(*interface));
        let (flow, rate) = (flow_text(flow), rate.as_bps());
        format!(
            "install {claim} on {interface} for {flow}: {service} {rate}bit/s burst={burst} \
             packets={max_packet}"
        )
    }

    /// Returns the event's name and its fields as `key=value`, in parentheses if they contain blanks.
    fn event(&self, event: &Event) -> String {
        let value = serde_json::to_value(event).unwrap_or_default();
        let fields = value.as_object().cloned().unwrap_or_default();
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = if text("event").is_empty() { text("protocol") } else { text("event") };
        let mut line = name.to_string();
        for (key, value) in
            fields.iter().filter(|(key, _)| !["event", "protocol"].contains(&key.as_str()))
        {
            let _ = write!(line, " {key}={}", self.value(key, value));
        }
        line
    }

    fn value(&self, key: &str, value: &Value) -> String {
        if key == "interface" {
            let id = serde_json::from_value(value.clone());
            return id.map_or_else(|_| value.to_string(), |id| self.links.name(id));
        }
        // The reach of a reservation is not a rule of the RFC: its kind is sufficient here.
        if key == "reach" && value.is_object() {
            return value["kind"].as_str().unwrap_or_default().to_owned();
        }
        match value {
            Value::Null => "none".into(),
            Value::String(text) if text.contains(' ') => format!("({text})"),
            Value::String(text) => text.clone(),
            Value::Array(values) => {
                let values: Vec<_> = values.iter().map(|value| self.value("", value)).collect();
                format!("[{}]", values.join(" "))
            }
            Value::Object(fields) => match known(value) {
                Some(text) => format!("({text})"),
                None => {
                    let field = |(key, value): (&String, &Value)| {
                        format!("{key}={}", self.value(key, value))
                    };
                    format!("({})", fields.iter().map(field).collect::<Vec<_>>().join(" "))
                }
            },
            other => other.to_string(),
        }
    }
}

/// Returns the text of values that have their own form in stories.
fn known(value: &Value) -> Option<String> {
    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
        serde_json::from_value(value.clone()).ok()
    }
    None.or_else(|| read::<Session>(value).map(|session| object::session_text(&session)))
        .or_else(|| read::<FilterSpec>(value).map(|filter| object::filter_text(&filter)))
        .or_else(|| read::<FlowSpec>(value).map(|flowspec| object::flowspec_text(&flowspec)))
        .or_else(|| read::<TokenBucket>(value).map(|bucket| object::bucket_text(&bucket)))
        .or_else(|| read::<ErrorSpec>(value).map(|error| object::error_text(&error)))
}

fn claim_text(claim: ClaimId) -> String {
    format!("claim {}.{}", claim.slot, claim.generation)
}

fn flow_text(flow: &Flow) -> String {
    if flow.dscp != 0 {
        return format!("dscp {} -> {}", flow.dscp, flow.destinations());
    }
    let source = flow.source.map_or_else(|| "anybody".to_string(), |source| source.to_string());
    let selector = match (flow.flow_label, flow.spi) {
        (0, 0) => format!("port {}", flow.source_port),
        (0, spi) => format!("spi {spi}"),
        (label, _) => format!("label {label}"),
    };
    format!(
        "protocol {} {source} {selector} -> {} port {}",
        flow.protocol, flow.destination, flow.destination_port
    )
}

pub(crate) fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
