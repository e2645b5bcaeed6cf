//! Stories of RSVP: the inputs and effects of a node.
//!
//! `conformance/README.md` has the grammar.

use std::collections::HashMap;

use earmark_core::admission::ClaimId;
use earmark_core::{Datagram, Effects, Interface, Time};
use earmark_node::{Ask, Command, HostUpdate, Input, Listen, Node};
use earmark_rsvp as rsvp;
use earmark_rsvp::{Application, ReserveRequest};
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::{self, Fault, Seconds, Words};
use earmark_testkit::conformance::{Lines, Protocol};
use earmark_wire::rsvp::Style;

use crate::message::{self, Draft};
use crate::object;
use crate::settings::{self, Settings};
use crate::show::Names;
use crate::signing::Signature;

/// A node, and the messages of the story so far.
pub(crate) struct Player {
    topology: Topology<Settings>,
    handles: Vec<(String, u32)>,
    node: Node,
    messages: HashMap<String, Draft>,
    sent: HashMap<String, Vec<String>>,
}

impl Protocol for Player {
    const FOLDER: &'static str = "rsvp";
    type Settings = Settings;

    fn new(topology: Topology<Settings>) -> Result<Player, Fault> {
        let mut node = Node::new(settings::config(&topology)?);
        let mut effects = Effects::new();
        for update in settings::updates(&topology) {
            node.handle(Time::ZERO, Input::Host(update), &mut effects);
        }
        let handles = settings::handles(&topology)?;
        let (messages, sent) = (HashMap::new(), HashMap::new());
        Ok(Player { topology, handles, node, messages, sent })
    }

    fn step(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        match words.next("what happens")? {
            "in" => self.receive(now, words, body),
            "do" => {
                let line = [&[&words.text_of_all()[..]], body].concat().join(" ");
                let command = command(Words::of(&line))?;
                Ok(self.handle(now, Input::Command(command)))
            }
            "host" => {
                let update = self.update(words)?;
                Ok(self.handle(now, Input::Host(update)))
            }
            other => Err(format!("`{other}`: say `at`, `in`, `do` or `host`")),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.node.next_deadline()
    }

    fn expire(&mut self, now: Time) -> Vec<String> {
        self.handle(now, Input::Expire)
    }

    fn when(at: Time) -> String {
        let millis = at.as_nanos() / 1_000_000;
        format!("{}.{:03}s ", millis / 1_000, millis % 1_000)
    }
}

impl Player {
    fn handle(&mut self, now: Time, input: Input<'_>) -> Vec<String> {
        let mut effects = Effects::new();
        let before = self.malformed();
        self.node.handle(now, input, &mut effects);
        self.node.bundle(&mut effects);
        let keys = &self.topology.settings.keys;
        let (links, handles, sent) = (&self.topology.links, &self.handles, &mut self.sent);
        let mut lines = Names { links, keys, handles, sent }.show(&effects);
        let news = self.malformed().into_iter().filter(|count| !before.contains(count));
        lines.extend(news.map(|(name, _)| format!("count malformed {name}")));
        lines
    }

    /// Returns the counts of malformed messages so far: a message must be dropped for the right reason.
    fn malformed(&self) -> Vec<(&'static str, u64)> {
        let counters = self.node.counters().filter(|(_, group, ..)| *group == "malformed");
        counters.map(|(.., name, count)| (name, count)).collect()
    }

    /// Receives `in eth1 Path from ...`, `in eth1 again Path ...`, `in eth1 octets from ...`.
    fn receive(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        let interface = self.topology.links.id(words.next("interface")?)?;
        let name: Option<String> = words.after("as")?;
        let signature = Signature::read(&mut words, &self.topology.settings.keys)?;
        let (draft, octets) = if words.flag("octets") {
            (message::read_header(&mut words)?, words::octets(&body.concat().replace(' ', ""))?)
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
        Ok(self.handle(now, Input::Datagram(rsvp::PROTOCOL, datagram)))
    }

    /// Reads a change of the host.
    fn update(&self, mut words: Words<'_>) -> Result<HostUpdate, Fault> {
        let links = &self.topology.links;
        let update = match words.next("change")? {
            "route" => HostUpdate::Route(links.read_route(&mut words)?),
            "no-route" => HostUpdate::RouteGone(links.read_route(&mut words)?),
            "branches" => HostUpdate::MulticastRoute(links.read_branches(&mut words)?),
            "no-branches" => {
                let group = words.value("group")?;
                HostUpdate::MulticastRouteGone { source: words.after("from")?, group }
            }
            "interface" => {
                let name = words.next("interface")?;
                let interface = links.interface(name)?.clone();
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
