//! Stories of Boomerang: the messages and commands of a node.

use std::net::IpAddr;

use earmark_boomerang::{
    Application, Boomerang, Command, Config, Event, OnRefusal, Request, RequestedRates, Selector,
};
use earmark_core::random::RandomStreams;
use earmark_core::{Flow, Outgoing, Rate};
use earmark_testkit::conformance::IpHeader;
use earmark_testkit::conformance::datagrams::Datagrams;
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::words::{self, Fault, Words};
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

/// What a story has to know about the node.
#[derive(Debug)]
pub(crate) struct Story {
    /// Last message that the node sent, with its ends, which a far end may bounce.
    sent: Option<(IpAddr, IpAddr, Vec<u8>)>,
}

impl Datagrams for Story {
    const FOLDER: &'static str = "boomerang";
    const CHECKSUM: usize = 3;
    type Settings = Settings;
    type Engine = Boomerang;

    fn new(settings: Settings, random: &RandomStreams, _: &mut Tables) -> (Boomerang, Story) {
        (Boomerang::new(settings.boomerang, random), Story { sent: None })
    }

    /// Reads `echo from A to B ...`, or `bounced ...`: the reply to the node's last message.
    fn compose(&self, words: &mut Words<'_>, body: &[&str]) -> Result<(IpHeader, Vec<u8>), Fault> {
        let kind = match words.next("echo, reply or bounced")? {
            "echo" => Kind::Request,
            "reply" => Kind::Reply,
            "bounced" => return self.bounced(words),
            other => return Err(format!("`{other}` is no message")),
        };
        let header = IpHeader::read(words)?;
        let payload = match words.flag("octets") {
            true => octets(header, kind, &body.concat())?,
            false => message(header, kind, words)?,
        };
        Ok((header, payload))
    }

    fn command(words: Words<'_>) -> Result<Command, Fault> {
        command(words)
    }

    fn sent(&mut self, tables: &Tables, how: &Outgoing, octets: &[u8], came: &[u8]) -> String {
        self.sent = Some((how.source, how.destination, octets.to_vec()));
        show::message(tables, how, octets, came)
    }

    fn event(event: &Event) -> Option<String> {
        show::event(event)
    }
}

impl Story {
    fn bounced(&self, words: &mut Words<'_>) -> Result<(IpHeader, Vec<u8>), Fault> {
        let (source, destination, octets) = self.sent.clone().ok_or("nothing was sent")?;
        let mut message = Message::parse(&octets, source, destination).back();
        edit(&mut message, words)?;
        let ttl = words.maybe("ttl")?.unwrap_or(63);
        let (source, destination) = (destination, source);
        let header = IpHeader { source, destination, ttl, router_alert: false };
        Ok((header, message.octets(source, destination)))
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
                spi: 0,
                destination_open: 0,
                source_open: 0,
                dscp: 0,
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
