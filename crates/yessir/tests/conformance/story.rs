//! Stories of YESSIR: the inputs and effects of a node.

use std::net::IpAddr;

use earmark_core::admission::RetryPolicy;
use earmark_core::random::RandomStreams;
use earmark_core::{Datagram, Effect, Engine, Input, Time};
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::{Fault, Words};
use earmark_testkit::conformance::{IpHeader, Protocol};
use earmark_wire::yessir::Style;
use earmark_yessir::{Application, Attachment, Command, Config, Stream, Yessir};
use serde::Deserialize;

use crate::{report, show};

/// Contents of `topology.toml` besides interfaces and routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Settings that differ from the defaults.
    #[serde(default)]
    yessir: Config,
    /// Policy of the queue of refused requests.
    #[serde(default)]
    retry: RetryPolicy,
}

/// A node with YESSIR.
pub(crate) struct Player {
    engine: Yessir,
    tables: Tables,
    /// Reservation id of the last report of the node itself.
    sent: u32,
}

impl Protocol for Player {
    const FOLDER: &'static str = "yessir";
    const CITATION: &'static str = "Source: ";
    type Settings = Settings;

    fn new(topology: Topology<Settings>) -> Result<Player, Fault> {
        let Settings { yessir, retry } = topology.settings;
        let engine = Yessir::new(yessir, &RandomStreams::new(topology.seed));
        let mut tables = Tables::new(topology.links);
        tables.ledger.set_retry_policy(retry);
        Ok(Player { engine, tables, sent: 0 })
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
    fn arrive(
        &mut self,
        now: Time,
        mut words: Words<'_>,
        body: &[&str],
    ) -> Result<Vec<String>, Fault> {
        let interface = self.tables.links.id(words.next("an interface")?)?;
        let kind = words.next("report or answer")?;
        let header = IpHeader::read(&mut words)?;
        let wrong_checksum = words.flag("wrong-checksum");
        let mut payload = report::compose(kind, header, &mut words, body, self.sent)?;
        words.end()?;
        if wrong_checksum {
            payload[7] ^= 1;
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
                    self.sent = report::reservation(octets).unwrap_or(self.sent);
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

/// Reads a command of application 1: `attach FLOWSPEC`, `listen` or `release`.
fn command(mut words: Words<'_>) -> Result<Command, Fault> {
    let application = Application(1);
    let anywhere = IpAddr::from([0, 0, 0, 0]);
    let command = match words.next("a command")? {
        "attach" => Command::Attach {
            application,
            attachment: Attachment {
                stream: Stream {
                    source: anywhere,
                    destination: IpAddr::from([10, 0, 9, 9]),
                    source_port: 4_000,
                    destination_port: 5_000,
                },
                ssrc: Some(7),
                cname: "sender@here".into(),
                multiplexed: false,
                passive: words.flag("passive"),
                interval: words.maybe("interval")?.unwrap_or(0),
                flowspec: report::flowspec(&mut words)?,
                style: Style::Individual,
                ttl: 64,
                key: None,
            },
        },
        "listen" => Command::Listen {
            application,
            destination: anywhere,
            port: 5_000,
            cname: "receiver@here".into(),
        },
        "release" => Command::Release { application },
        other => return Err(format!("`{other}` is no command")),
    };
    words.end()?;
    Ok(command)
}
