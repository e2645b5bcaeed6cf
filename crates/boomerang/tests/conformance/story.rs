//! Stories of Boomerang: the inputs and effects of a node.

use std::net::IpAddr;

use earmark_boomerang::{
    Application, Boomerang, Command, Config, OnRefusal, Request, RequestedRates, Selector,
};
use earmark_core::random::RandomStreams;
use earmark_core::{Datagram, Effect, Engine, Flow, Input, Rate, Time};
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::{self, Fault, Words};
use earmark_testkit::conformance::{IpHeader, Protocol};
use earmark_wire::boomerang::{Rates, Shape};
use earmark_wire::icmp::{self, HEADER, Kind, PseudoHeader};
use serde::Deserialize;

use crate::common::{Message, classifier};
use crate::show;

/// Transaction id of the messages that a story invents.
const TRANSACTION: u32 = 77;
const NACK: u16 = 1;
const NO_ECHO: u16 = 2;
const PORT: u16 = 5_000;

/// Contents of `topology.toml` besides interfaces and routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Settings that differ from the defaults.
    #[serde(default)]
    boomerang: Config,
}

/// A node with Boomerang.
pub(crate) struct Player {
    engine: Boomerang,
    tables: Tables,
    /// Last message that the node sent, with its ends, which a far end may bounce.
    sent: Option<(IpAddr, IpAddr, Vec<u8>)>,
}

impl Protocol for Player {
    const FOLDER: &'static str = "boomerang";
    const CITATION: &'static str = "Source: ";
    type Settings = Settings;

    fn new(topology: Topology<Settings>) -> Result<Player, Fault> {
        let random = RandomStreams::new(topology.seed);
        let engine = Boomerang::new(topology.settings.boomerang, &random);
        Ok(Player { engine, tables: Tables::new(topology.links), sent: None })
    }

    fn step(
        &mut self,
        now: Time,
        mut words: Words<'_>,
        body: &[&str],
    ) -> Result<Vec<String>, Fault> {
        match words.next("what happens")? {
            "in" => self.arrive(now, words, body),
            "do" => {
                let command = command(words)?;
                Ok(self.handle(now, Input::Command(command), &[]))
            }
            "host" => {
                let event = self.tables.change(words)?;
                Ok(self.handle(now, Input::Host(event), &[]))
            }
            other => Err(format!("`{other}`: say `at`, `wait`, `in`, `do` or `host`")),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.engine.next_deadline().map(|(at, _)| at)
    }

    fn expire(&mut self, now: Time) -> Vec<String> {
        self.handle(now, Input::Expire, &[])
    }

    fn when(_: Time) -> String {
        String::new()
    }
}

impl Player {
    /// Receives `in eth1 echo from A to B ...`, or `in eth2 bounced ...`: the reply to the node's last message.
    fn arrive(
        &mut self,
        now: Time,
        mut words: Words<'_>,
        body: &[&str],
    ) -> Result<Vec<String>, Fault> {
        let interface = self.tables.links.id(words.next("an interface")?)?;
        let kind = words.next("echo, reply or bounced")?;
        let wrong_checksum = words.flag("wrong-checksum");
        let (header, mut payload) = if kind == "bounced" {
            let (source, destination, octets) = self.sent.clone().ok_or("nothing was sent")?;
            let mut message = Message::parse(&octets, source, destination).back();
            edit(&mut message, &mut words)?;
            let ttl = words.maybe("ttl")?.unwrap_or(63);
            let (source, destination) = (destination, source);
            let header = IpHeader { source, destination, ttl, router_alert: false };
            (header, message.octets(source, destination))
        } else {
            let header = IpHeader::read(&mut words)?;
            let kind = match kind {
                "echo" => Kind::Request,
                "reply" => Kind::Reply,
                other => return Err(format!("`{other}` is no message")),
            };
            let payload = match words.flag("octets") {
                true => octets(header, kind, &body.concat())?,
                false => message(header, kind, &mut words)?,
            };
            (header, payload)
        };
        words.end()?;
        if wrong_checksum {
            payload[3] ^= 1;
        }
        let datagram = Datagram {
            interface,
            source: header.source,
            destination: header.destination,
            ttl: header.ttl,
            router_alert: header.router_alert,
            encapsulated: false,
            payload: &payload,
        };
        Ok(self.handle(now, Input::Datagram(datagram), &payload))
    }

    /// Handles an input; returns first the reservations, then the messages, then the events.
    fn handle(&mut self, now: Time, input: Input<'_, Command>, came: &[u8]) -> Vec<String> {
        let effects = self.tables.handle(&mut self.engine, now, input);
        let (mut lines, mut messages, mut events) = (Vec::new(), Vec::new(), Vec::new());
        // What is given back has its line, and its number, first.
        let gives_back = |effect: &Effect<_>| matches!(effect, Effect::Remove(_));
        for effect in effects.iter().filter(|effect| gives_back(effect)) {
            lines.extend(self.tables.reservation(effect));
        }
        for effect in effects.iter().filter(|effect| !gives_back(effect)) {
            match effect {
                Effect::Send(how, range) => {
                    let octets = effects.octets(range);
                    messages.push(show::message(&self.tables, how, octets, came));
                    self.sent = Some((how.source, how.destination, octets.to_vec()));
                }
                Effect::Notify(event) => events.extend(show::event(event)),
                other => lines.extend(self.tables.reservation(other)),
            }
        }
        lines.extend(messages);
        lines.extend(events);
        lines
    }
}

/// Takes `2000000/64000`, or several pairs with commas between them.
fn rates(text: &str) -> Result<Vec<Rates>, Fault> {
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("`{text}`: {error}"));
    let pairs = text.split(',').map(|pair| {
        let (forward, reverse) = pair.split_once('/').ok_or("rates look like 2000000/64000")?;
        Ok(Rates { forward: number(forward)?, reverse: number(reverse)? })
    });
    pairs.collect()
}

/// Takes the words that set fields of a message.
fn edit(message: &mut Message, words: &mut Words<'_>) -> Result<(), Fault> {
    if let Some(text) = words.text("rates") {
        message.rates = rates(text)?;
    }
    for (name, flag) in [("nack", NACK), ("no-echo", NO_ECHO)] {
        message.flags |= if words.flag(name) { flag } else { 0 };
    }
    message.interval = words.maybe("interval")?.unwrap_or(message.interval);
    message.key = words.maybe("key")?.unwrap_or(message.key);
    Ok(())
}

/// Returns a message about the flow from port `flow` of the initiating node to port 5000 of the far end.
fn message(header: IpHeader, kind: Kind, words: &mut Words<'_>) -> Result<Vec<u8>, Fault> {
    let (near, far) = match kind {
        Kind::Request => (header.source, header.destination),
        Kind::Reply => (header.destination, header.source),
    };
    let bits = if near.is_ipv4() { 32 } else { 128 };
    let mut message = Message {
        kind,
        sequence: 0,
        transaction_id: words.maybe("id")?.unwrap_or(TRANSACTION),
        flags: 0,
        interval: 30,
        key: 1,
        classifier: classifier(&near.to_string(), &far.to_string(), 4_000),
        mask: Shape {
            source: bits,
            destination: bits,
            source_port: true,
            destination_port: true,
            protocol: true,
            tos: false,
        },
        rates: Vec::new(),
        options: Vec::new(),
    };
    message.classifier.source_port = words.maybe("flow")?.unwrap_or(4_000);
    if let Some(text) = words.text("mask") {
        let (source, destination) = text.split_once('/').ok_or("a mask looks like 24/32")?;
        let length = |text: &str| text.parse::<u8>().map_err(|error| format!("`{text}`: {error}"));
        (message.mask.source, message.mask.destination) = (length(source)?, length(destination)?);
        (message.mask.source_port, message.mask.destination_port) = (false, false);
    }
    edit(&mut message, words)?;
    if message.rates.is_empty() {
        return Err("rates=... is missing".into());
    }
    Ok(message.octets(header.source, header.destination))
}

/// Returns a ping with these octets.
fn octets(header: IpHeader, kind: Kind, text: &str) -> Result<Vec<u8>, Fault> {
    let data = words::octets(&text.replace(' ', ""))?;
    let mut octets = [&[0; HEADER][..], &data].concat();
    let ends = PseudoHeader::of(header.source, header.destination).ok_or("of two families")?;
    icmp::seal(&mut octets, ends, kind, TRANSACTION as u16, 0)
        .map_err(|error| error.to_string())?;
    Ok(octets)
}

/// Reads a command of application 1: `reserve rates=2000000/64000`, for the flow from its port 4000.
fn command(mut words: Words<'_>) -> Result<Command, Fault> {
    let application = Application(1);
    let rates = |words: &mut Words<'_>| -> Result<Vec<RequestedRates>, Fault> {
        let rates = rates(words.text("rates").ok_or("rates=... is missing")?)?;
        let pair = |rates: &Rates| RequestedRates {
            forward: Rate::from_bps(rates.forward.into()),
            reverse: Rate::from_bps(rates.reverse.into()),
        };
        Ok(rates.iter().map(pair).collect())
    };
    let command = match words.next("a command")? {
        what @ ("reserve" | "query") => {
            let destination = words.after("to")?.unwrap_or(IpAddr::from([10, 0, 9, 9]));
            let flow = Flow {
                destination,
                source: Some(IpAddr::from([0, 0, 0, 0])),
                protocol: 17,
                destination_port: PORT,
                source_port: 4_000,
                flow_label: 0,
                destination_open: 0,
                source_open: 0,
            };
            let rates = rates(&mut words)?;
            let mut request = Request::new(destination, Selector::of_flow(&flow), rates[0]);
            request.rates = rates;
            request.interval = words.maybe("interval")?;
            request.on_refusal = match words.text("on-refusal") {
                None | Some("retry") => OnRefusal::Retry,
                Some("take") => OnRefusal::TakeOffer,
                Some("release") => OnRefusal::Release,
                Some(other) => return Err(format!("nobody can `{other}`")),
            };
            match what {
                "reserve" => Command::Reserve { application, request },
                _ => Command::Query { application, request },
            }
        }
        "modify" => Command::Modify { application, rates: rates(&mut words)? },
        "release" => Command::Release { application },
        other => return Err(format!("`{other}` is no command")),
    };
    words.end()?;
    Ok(command)
}
