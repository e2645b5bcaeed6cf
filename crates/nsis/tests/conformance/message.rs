//! Conversion between messages of GIST and lines of a story.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::{
    Body, Confirm, Continuation, Data, Direction, Error, ErrorCode, ErrorData, Extensions, Hello,
    Infos, Message, MessageType, Mri, NetworkLayerInformation, PathCoupled, Profile, Profiles,
    ProtocolOptions, ProtocolOptionsList, Query, ResponderPart, Response, Returned, SessionId,
    Stack, StackConfiguration,
};

use crate::application::NSLPID;
use earmark_testkit::conformance::words::{Fault, Seconds, Words};

/// Cookies, by their names in stories.
#[derive(Debug, Default)]
pub(crate) struct Cookies(BTreeMap<String, Vec<u8>>);

impl Cookies {
    /// Returns the name of a cookie; creates one for a new cookie.
    fn name(&mut self, kind: char, cookie: &[u8]) -> String {
        if let Some((name, _)) = self.0.iter().find(|(_, known)| *known == cookie) {
            return name.clone();
        }
        let count = self.0.keys().filter(|name| name.starts_with(kind)).count();
        let name = format!("{kind}{}", count + 1);
        self.0.insert(name.clone(), cookie.to_vec());
        name
    }

    /// Returns the cookie of a name, or the octets of a quoted string.
    fn get(&self, name: &str) -> Result<Vec<u8>, Fault> {
        match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(own) => Ok(own.as_bytes().to_vec()),
            None => self.0.get(name).cloned().ok_or_else(|| format!("no cookie `{name}` was seen")),
        }
    }
}

/// Returns the flow of all stories: from 10.0.1.9 to 10.0.9.9.
pub(crate) fn flow(direction: Direction) -> Mri {
    let flow = udp_flow(([10, 0, 1, 9], 5_000), ([10, 0, 9, 9], 6_000));
    Mri::PathCoupled(PathCoupled { direction, ..flow })
}

pub(crate) fn mri_text(mri: &Mri) -> &'static str {
    match mri.direction() {
        Direction::Downstream => "down",
        Direction::Upstream => "up",
    }
}

pub(crate) fn direction(text: &str) -> Result<Direction, Fault> {
    match text {
        "down" => Ok(Direction::Downstream),
        "up" => Ok(Direction::Upstream),
        other => Err(format!("`{other}`: say `down` or `up`")),
    }
}

/// Returns data in the form of stories: without padding.
pub(crate) fn text(data: &[u8]) -> String {
    match data.len() {
        0 => "without data".into(),
        1..=64 => format!("{:?}", String::from_utf8_lossy(data).trim_end_matches('.')),
        octets => format!("{octets} octets"),
    }
}

/// Returns the octets of data of a story, padded with dots to whole words.
pub(crate) fn data(text: &str) -> Vec<u8> {
    let mut octets = text.trim_matches('"').as_bytes().to_vec();
    octets.resize(octets.len().next_multiple_of(4), b'.');
    octets
}

pub(crate) fn session(number: u8) -> SessionId {
    let mut id = [0; 16];
    id[15] = number;
    SessionId(id)
}

/// Returns the name of a message and its objects, one line each.
pub(crate) fn show(message: &Message<'_>, cookies: &mut Cookies) -> (String, Vec<String>) {
    let mut name = message.body.message_type().name().to_string();
    let mut lines = Vec::new();
    let mut about = |mri: &Mri, session: SessionId| {
        lines.push(format!("{} session={}", mri_text(mri), session.0[15]));
    };
    match &message.body {
        Body::Query(body) => {
            about(&body.mri, body.session);
            lines.push(nli(&body.nli));
            lines.push(format!("QUERY-COOKIE {}", cookies.name('q', body.query_cookie)));
            lines.extend(body.stack.iter().map(stack));
            lines.extend(body.nslp_data.map(|data| format!("DATA {}", text(data))));
        }
        Body::Response(body) => {
            about(&body.mri, body.session);
            lines.push(nli(&body.nli));
            lines.push(format!("QUERY-COOKIE {}", cookies.name('q', body.query_cookie)));
            if let Some(part) = &body.responder {
                lines.push(format!("RESPONDER-COOKIE {}", cookies.name('r', part.cookie)));
                lines.extend(part.stack.iter().map(stack));
            }
            if body.confirm_requested {
                name += " confirm";
            }
            lines.extend(body.nslp_data.map(|data| format!("DATA {}", text(data))));
        }
        Body::Confirm(body) => {
            about(&body.mri, body.session);
            lines.push(nli(&body.nli));
            if let Some(returned) = &body.returned {
                lines.push(format!("RESPONDER-COOKIE {}", cookies.name('r', returned.cookie)));
                lines.extend(returned.proposal.map(|proposal| {
                    let hold = returned.configuration.map(|it| it.hold_time);
                    format!("STACK {}{}", profiles(proposal, None), hold_text(hold))
                }));
            }
            lines.extend(body.nslp_data.map(|data| format!("DATA {}", text(data))));
        }
        Body::Data(body) => {
            about(&body.mri, body.session);
            lines.extend(body.nli.iter().map(nli));
            lines.push(format!("DATA {}", text(body.nslp_data)));
        }
        Body::Error(body) => {
            let error = &body.error;
            let (code, subcode) = (error.code.name(), error.subcode);
            let of = error.original_header().map_or("?", |header| header.message_type.name());
            lines.extend(body.nli.iter().map(nli));
            lines.push(format!("ERROR {code}, {subcode}, of a {of}"));
        }
        Body::Hello(body) => {
            let reply = if body.reply_requested { " reply" } else { "" };
            lines.push(format!("HELLO-ID {}{reply}", body.id));
        }
    }
    if message.source_is_peer && message.body.message_type() == MessageType::Query {
        name += " S";
    }
    (name, lines)
}

fn nli(nli: &NetworkLayerInformation<'_>) -> String {
    let identity: String = nli.peer_identity.iter().fold(String::new(), |mut text, octet| {
        write!(text, "{octet:02x}").expect("room");
        text
    });
    let validity = f64::from(nli.routing_state_validity) / 1_000.0;
    format!("NLI {identity} {} ttl={} validity={validity}s", nli.interface_address, nli.ip_ttl)
}

fn stack(stack: &Stack<'_>) -> String {
    let hold = Some(stack.configuration.hold_time);
    format!("STACK {}{}", profiles(stack.proposal, Some(&stack.configuration)), hold_text(hold))
}

fn hold_text(hold: Option<u32>) -> String {
    hold.map(|hold| format!(" hold={}s", hold / 1_000)).unwrap_or_default()
}

fn profiles(profiles: Profiles<'_>, configuration: Option<&StackConfiguration<'_>>) -> String {
    let names = (1..).zip(profiles.iter()).map(|(number, Profile(layers))| {
        let name = if layers == [2, 1] { "tls" } else { "tcp" };
        let mut options = configuration.into_iter().flat_map(|it| it.options.iter());
        let port = options.find(|option| option.profile == number).and_then(|o| o.tcp_port());
        port.map_or_else(|| name.to_string(), |port| format!("{name}:{port}"))
    });
    names.collect::<Vec<String>>().join(" ")
}

/// Objects of a message of a story.
#[derive(Debug, Default)]
struct Parts {
    direction: Option<Direction>,
    session: u8,
    nli: Option<(Vec<u8>, IpAddr, u8, u32)>,
    query_cookie: Vec<u8>,
    responder_cookie: Option<Vec<u8>>,
    profiles: Vec<(&'static [u8], Option<u16>)>,
    hold: Option<u32>,
    data: Option<Vec<u8>>,
    error: Option<(ErrorCode, u8)>,
}

impl Parts {
    fn read(lines: &[&str], cookies: &Cookies) -> Result<Parts, Fault> {
        let mut parts = Parts::default();
        for line in lines {
            let mut words = Words::of(line);
            match words.next("an object")? {
                "NLI" => {
                    let identity = words.next("a Peer-Identity")?.as_bytes().to_vec();
                    let address = words.value("an address")?;
                    let ttl = words.maybe("ttl")?.unwrap_or(0);
                    let validity = words.maybe("validity")?;
                    let Seconds(validity) = validity.ok_or("validity=... is missing")?;
                    parts.nli = Some((identity, address, ttl, validity.as_millis() as u32));
                }
                "QUERY-COOKIE" => parts.query_cookie = cookies.get(words.next("a cookie")?)?,
                "RESPONDER-COOKIE" => {
                    parts.responder_cookie = Some(cookies.get(words.next("a cookie")?)?);
                }
                "STACK" => {
                    let hold: Option<Seconds> = words.maybe("hold")?;
                    parts.hold = hold.map(|Seconds(hold)| hold.as_millis() as u32);
                    while !words.is_empty() {
                        let word = words.next("a profile")?;
                        let (name, port) = word.split_once(':').unwrap_or((word, ""));
                        let layers: &[u8] = if name == "tls" { &[2, 1] } else { &[1] };
                        parts.profiles.push((layers, port.parse().ok()));
                    }
                }
                "DATA" => parts.data = Some(data(words.next("data")?)),
                "ERROR" => {
                    let code: u16 = words.value("a code")?;
                    parts.error = Some((ErrorCode::from_code(code), words.value("a subcode")?));
                }
                way => {
                    parts.direction = Some(direction(way)?);
                    parts.session = words.key("session")?;
                }
            }
            words.end()?;
        }
        Ok(parts)
    }
}

/// Returns the octets of a message of a story: its name with flags, and its objects. An error refers to `original`.
pub(crate) fn compose(
    name: &str,
    mut words: Words<'_>,
    lines: &[&str],
    cookies: &Cookies,
    original: &[u8],
) -> Result<Vec<u8>, Fault> {
    let parts = Parts::read(lines, cookies)?;
    let ports: Vec<[u8; 2]> =
        parts.profiles.iter().map(|(_, port)| port.unwrap_or(0).to_be_bytes()).collect();
    let layers: Vec<Profile<'_>> =
        parts.profiles.iter().map(|(layers, _)| Profile(layers)).collect();
    let offers: Vec<ProtocolOptions<'_>> = (1..)
        .zip(&ports)
        .map(|(number, port)| match name {
            "Query" => ProtocolOptions::tcp_query(number),
            _ => ProtocolOptions::tcp_response(number, port),
        })
        .collect();
    let configuration = StackConfiguration {
        hold_time: parts.hold.unwrap_or(30_000),
        options: ProtocolOptionsList::new(if name == "Confirm" { &[] } else { &offers }),
    };
    let stack = Stack { proposal: Profiles::new(&layers), configuration };
    let stack = (!layers.is_empty()).then_some(stack);
    let body = parts.body(name, &mut words, stack, original)?;
    let hops = words.maybe("hops")?.unwrap_or(60);
    let source_is_peer = !matches!(body, Body::Query(_)) || words.flag("S");
    words.end()?;
    let nslpid = if matches!(body, Body::Error(_) | Body::Hello(_)) { 0 } else { NSLPID };
    let message = Message { hops, nslpid, source_is_peer, body, extensions: Extensions::NONE };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).map_err(|error| error.to_string())?;
    Ok(octets)
}

impl Parts {
    fn nli(&self) -> Option<NetworkLayerInformation<'_>> {
        let (identity, address, ttl, validity) = self.nli.as_ref()?;
        Some(NetworkLayerInformation {
            peer_identity: identity,
            ip_ttl: *ttl,
            interface_address: *address,
            routing_state_validity: (*validity).max(1),
        })
    }

    /// Creates the body of a message with this name; `stack` is its stack proposal.
    fn body<'a>(
        &'a self,
        name: &str,
        words: &mut Words<'_>,
        stack: Option<Stack<'a>>,
        original: &'a [u8],
    ) -> Result<Body<'a>, Fault> {
        let nli = self.nli();
        let needed = || nli.ok_or_else(|| "NLI is missing".to_string());
        let mri = || self.direction.map(flow).ok_or_else(|| "the direction is missing".to_string());
        let (session, data) = (session(self.session), self.data.as_deref());
        Ok(match name {
            "Query" => Body::Query(Query {
                nat_traversal: None,
                mri: mri()?,
                session,
                nli: needed()?,
                query_cookie: &self.query_cookie,
                stack,
                nslp_data: data,
            }),
            "Response" => {
                let cookie = self.responder_cookie.as_deref();
                Body::Response(Response {
                    nat_traversal: None,
                    mri: mri()?,
                    session,
                    nli: needed()?,
                    query_cookie: &self.query_cookie,
                    responder: cookie.map(|cookie| ResponderPart { cookie, stack }),
                    confirm_requested: words.flag("confirm") || cookie.is_some(),
                    nslp_data: data,
                })
            }
            "Confirm" => Body::Confirm(Confirm {
                mri: mri()?,
                session,
                nli: needed()?,
                returned: self.responder_cookie.as_deref().map(|cookie| Returned {
                    cookie,
                    proposal: stack.map(|stack| stack.proposal),
                    configuration: self.hold.and(stack).map(|stack| stack.configuration),
                }),
                nslp_data: data,
            }),
            "Data" => Body::Data(Data {
                nat_traversal: None,
                mri: mri()?,
                session,
                nli,
                nslp_data: data.unwrap_or_default(),
                continuation: Continuation::NONE,
                context_free: false,
                explicitly_routed: false,
            }),
            "Error" => {
                let (code, subcode) = self.error.ok_or("ERROR is missing")?;
                let mode = earmark_wire::gist::Mode::D;
                let error = ErrorData::error_data_about(original, mode, code, subcode);
                let error = error.ok_or("there is nothing that the error could be about")?;
                let error = ErrorData { infos: Infos::NONE, ..error };
                Body::Error(Error { nat_traversal: None, nli, error })
            }
            "MA-Hello" => Body::Hello(Hello { id: 0, reply_requested: false }),
            other => return Err(format!("there is no message `{other}`")),
        })
    }
}
