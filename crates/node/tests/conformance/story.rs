//! Stories: inputs of a node, line by line, each followed by the node's effects.
//!
//! `conformance/README.md` has the grammar. Playing a story returns its text with the actual effects; a case passes if
//! the text is unchanged.

use std::collections::HashMap;

use earmark_core::admission::ClaimId;
use earmark_core::{Datagram, Effects, Interface, MulticastRoute, Time};
use earmark_node::{Ask, Command, HostUpdate, Input, Listen, Node};
use earmark_rsvp as rsvp;
use earmark_rsvp::{Application, ReserveRequest};
use earmark_wire::rsvp::Style;

use crate::message::{self, Draft};
use crate::object;
use crate::show::Names;
use crate::signing::Signature;
use crate::topology::{Topology, route};
use crate::words::{Fault, Seconds, Words};

/// Plays a story; returns its text with the actual effects.
///
/// # Errors
/// The number of the line that cannot be read, and the reason.
pub(crate) fn play(topology: &Topology, story: &str) -> Result<String, Fault> {
    let mut player = Player::new(topology)?;
    let mut text = String::new();
    for entry in entries(story) {
        match entry {
            Entry::Prose(line) => text = text + line + "\n",
            Entry::Step { number, lines } => {
                text.extend(lines.iter().flat_map(|line| [line, "\n"]));
                let effects = player.step(&lines);
                text += &effects.map_err(|fault| format!("line {number}: {fault}"))?;
            }
        }
    }
    Ok(text)
}

enum Entry<'s> {
    /// A remark, or an empty line.
    Prose(&'s str),
    /// An input: a line, and the indented lines below it.
    Step { number: usize, lines: Vec<&'s str> },
}

/// Returns all entries without the effects.
fn entries(story: &str) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut in_effect = false;
    for (number, line) in (1..).zip(story.lines()) {
        let indented = line.starts_with(' ');
        if line.starts_with("=>") {
            in_effect = true;
        } else if indented
            && !in_effect
            && let Some(Entry::Step { lines, .. }) = entries.last_mut()
        {
            lines.push(line);
        } else if !indented {
            in_effect = false;
            entries.push(match line {
                line if line.is_empty() || line.starts_with('#') => Entry::Prose(line),
                line => Entry::Step { number, lines: vec![line] },
            });
        }
    }
    entries
}

/// A node with its time, and the messages of the story so far.
struct Player<'t> {
    topology: &'t Topology,
    handles: Vec<(String, u32)>,
    node: Node,
    now: Time,
    messages: HashMap<String, Draft>,
    sent: HashMap<String, Vec<String>>,
}

impl<'t> Player<'t> {
    fn new(topology: &'t Topology) -> Result<Player<'t>, Fault> {
        let mut node = Node::new(topology.config());
        let mut effects = Effects::new();
        for update in topology.updates()? {
            node.handle(Time::ZERO, Input::Host(update), &mut effects);
        }
        let handles = topology.handles();
        let (messages, sent) = (HashMap::new(), HashMap::new());
        Ok(Player { topology, handles, node, now: Time::ZERO, messages, sent })
    }

    /// Performs the input of the lines; returns the effects.
    fn step(&mut self, lines: &[&str]) -> Result<String, Fault> {
        let (head, body) = lines.split_first().ok_or("an empty step")?;
        let body: Vec<&str> = body.iter().map(|line| line.trim()).collect();
        let mut words = Words::of(head);
        let text = match words.next("what happens")? {
            "at" => {
                let Seconds(at) = words.value("time")?;
                words.end()?;
                self.advance_to(Time::ZERO + at)?
            }
            "in" => self.receive(words, &body)?,
            "do" => {
                let line = [&[*head], &body[..]].concat().join(" ");
                let mut words = Words::of(&line);
                words.next("do")?;
                let command = command(words)?;
                self.handle(Input::Command(command), "")
            }
            "host" => {
                let update = self.update(words)?;
                self.handle(Input::Host(update), "")
            }
            other => return Err(format!("`{other}`: say `at`, `in`, `do` or `host`")),
        };
        Ok(if text.is_empty() { "=> nothing\n".into() } else { text })
    }

    fn handle(&mut self, input: Input<'_>, when: &str) -> String {
        let mut effects = Effects::new();
        let before = self.malformed();
        self.node.handle(self.now, input, &mut effects);
        self.node.bundle(&mut effects);
        let (topology, handles, sent) = (self.topology, &self.handles, &mut self.sent);
        let text = Names { topology, handles, sent }.show(&effects, when);
        let news = self.malformed().into_iter().filter(|count| !before.contains(count));
        news.fold(text, |text, (name, _)| text + "=> count malformed " + name + "\n")
    }

    /// Returns the counts of malformed messages so far: a message must be dropped for the right reason.
    fn malformed(&self) -> Vec<(&'static str, u64)> {
        let counters = self.node.counters().filter(|(_, group, ..)| *group == "malformed");
        counters.map(|(.., name, count)| (name, count)).collect()
    }

    /// Advances the time, timer by timer.
    fn advance_to(&mut self, end: Time) -> Result<String, Fault> {
        if end < self.now {
            return Err("time does not go back".into());
        }
        let mut text = String::new();
        while let Some(at) = self.node.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            let millis = self.now.as_nanos() / 1_000_000;
            let when = format!("{}.{:03}s ", millis / 1_000, millis % 1_000);
            text += &self.handle(Input::Expire, &when);
        }
        self.now = end;
        Ok(text)
    }

    /// Receives `in eth1 Path from ...`, `in eth1 again Path ...`, `in eth1 octets from ...`.
    fn receive(&mut self, mut words: Words<'_>, body: &[&str]) -> Result<String, Fault> {
        let interface = self.topology.id(words.next("interface")?)?;
        let name: Option<String> = words.after("as")?;
        let signature = Signature::read(&mut words, &self.topology.keys)?;
        let (draft, octets) = if words.flag("octets") {
            (
                message::read_header(&mut words)?,
                crate::words::octets(&body.concat().replace(' ', ""))?,
            )
        } else if words.flag("again") {
            let name = words.next("message")?;
            let earlier = self.messages.get(name);
            let earlier = earlier.ok_or_else(|| format!("no message {name} has come yet"))?;
            let draft = earlier.with_changes(&mut words, body, &self.handles)?;
            let octets = draft.octets()?;
            (draft, octets)
        } else {
            let kind = words.clone().next("message")?.to_string();
            let draft = message::read(&mut words, body, &self.handles)?;
            let octets = draft.octets()?;
            self.messages.insert(kind, draft.clone());
            (draft, octets)
        };
        words.end()?;
        let octets = match signature {
            Some(signature) => signature.sign(&octets)?,
            None => octets,
        };
        if let Some(name) = name {
            self.messages.insert(name, draft.clone());
        }
        let datagram = Datagram {
            interface,
            source: draft.source,
            destination: draft.destination,
            ttl: draft.ttl,
            router_alert: draft.alert,
            encapsulated: draft.encapsulated,
            payload: &octets,
        };
        Ok(self.handle(Input::Datagram(rsvp::PROTOCOL, datagram), ""))
    }

    /// Reads a change of the host.
    fn update(&self, mut words: Words<'_>) -> Result<HostUpdate, Fault> {
        let update = match words.next("change")? {
            verb @ ("route" | "no-route") => {
                let to = words.next("prefix")?;
                let name: String = words.after("on")?.ok_or("`on` is missing")?;
                let route = route(to, self.topology.id(&name)?, words.after("via")?)?;
                if verb == "route" {
                    HostUpdate::Route(route)
                } else {
                    HostUpdate::RouteGone(route)
                }
            }
            "branches" => {
                let group = words.value("group")?;
                let source = words.after("from")?;
                let incoming: Option<String> = words.after("in")?;
                let incoming = incoming.map(|name| self.topology.id(&name)).transpose()?;
                let mut outgoing = Vec::new();
                if words.flag("out") {
                    while !words.is_empty() {
                        outgoing.push(self.topology.id(words.next("interface")?)?);
                    }
                }
                HostUpdate::MulticastRoute(MulticastRoute { source, group, incoming, outgoing })
            }
            "no-branches" => {
                let group = words.value("group")?;
                HostUpdate::MulticastRouteGone { source: words.after("from")?, group }
            }
            "interface" => {
                let name = words.next("interface")?;
                let interface = self.topology.interface(name)?;
                match words.next("up, down, gone or queues-taken")? {
                    "up" => HostUpdate::Interface(interface),
                    "down" => HostUpdate::Interface(Interface { up: false, ..interface }),
                    "gone" => HostUpdate::InterfaceGone(interface.id),
                    "queues-taken" => HostUpdate::QueuesTaken(interface.id),
                    other => return Err(format!("an interface cannot be {other}")),
                }
            }
            "refuses" => {
                let claim: String = words.after("claim")?.ok_or("`claim` is missing")?;
                let numbers = claim.split_once('.').and_then(|(slot, generation)| {
                    Some(ClaimId { slot: slot.parse().ok()?, generation: generation.parse().ok()? })
                });
                let claim = numbers.ok_or("a claim looks like 0.1")?;
                HostUpdate::TrafficControlRefused { claim, errno: words.key("errno")? }
            }
            other => return Err(format!("`{other}` is no change of the host")),
        };
        words.end()?;
        Ok(update)
    }
}

/// Reads a user's command: `application 1 session 10.0.9.9 udp 5004`.
fn command(mut words: Words<'_>) -> Result<Command, Fault> {
    let number: u64 = words.after("application")?.ok_or("`application` is missing")?;
    let application = Application(number);
    let command = match words.next("command")? {
        "session" => rsvp::Command::Session { application, session: object::session(&mut words)? },
        "sender" => rsvp::Command::Sender {
            application,
            template: object::filter(&mut words)?,
            tspec: object::bucket(&mut words)?,
            ttl: words.key("ttl")?,
        },
        "reserve" => {
            let confirm = words.flag("confirm");
            let request = reserve(&mut words)?;
            rsvp::Command::Reserve { application, request, confirm }
        }
        "release" => rsvp::Command::Release { application },
        "trace" => {
            let Seconds(patience) = words.key("patience")?;
            let (max_hops, last_hop) = (words.maybe("max")?.unwrap_or(0), words.maybe("last_hop")?);
            let session = object::session(&mut words)?;
            let sender = if words.flag("from") { Some(object::filter(&mut words)?) } else { None };
            let trace = rsvp::diagnostics::Trace { session, sender, last_hop, max_hops, patience };
            rsvp::Command::Trace { application, trace }
        }
        "listen" => {
            let confirm = words.flag("confirm");
            let session = object::session(&mut words)?;
            let ask = match words.maybe::<Seconds>("delay")? {
                Some(Seconds(delay)) => Ask::Delay(delay),
                None => Ask::ControlledLoad,
            };
            let style = match words.maybe::<String>("style")?.as_deref() {
                None | Some("FF") => Style::FixedFilter,
                Some("WF") => Style::Wildcard,
                Some("SE") => Style::SharedExplicit,
                Some(other) => return Err(format!("{other} is no style")),
            };
            words.end()?;
            let all = Listen::new(application, session);
            return Ok(Command::Listen(Listen { ask, confirm, style, ..all }));
        }
        other => return Err(format!("`{other}` is no command")),
    };
    words.end()?;
    Ok(Command::Rsvp(command))
}

fn reserve(words: &mut Words<'_>) -> Result<ReserveRequest, Fault> {
    match words.next("style")? {
        "FF" => {
            let filter = object::filter(words)?;
            Ok(ReserveRequest::FixedFilter { filter, flowspec: object::flowspec(words)? })
        }
        "WF" => Ok(ReserveRequest::Wildcard { flowspec: object::flowspec(words)? }),
        "SE" => {
            let count: usize = words.key("senders")?;
            let filters = (0..count).map(|_| object::filter(words)).collect::<Result<_, _>>()?;
            Ok(ReserveRequest::SharedExplicit { filters, flowspec: object::flowspec(words)? })
        }
        other => Err(format!("nobody can reserve in style {other}")),
    }
}
