//! Stories of a protocol whose engine needs only datagrams: the inputs and effects of a node with this engine.

use earmark_core::random::RandomStreams;
use earmark_core::{Datagram, Effect, Engine, Input, Outgoing, Time};
use serde::de::DeserializeOwned;

use super::tables::Tables;
use super::topology::Topology;
use super::words::{Fault, Words};
use super::{IpHeader, Lines, Protocol};

/// A protocol on datagrams: what its lines mean, and how its effects are written.
pub trait Datagrams: Sized {
    /// Folder of the cases, below `conformance/`.
    const FOLDER: &'static str;
    /// Position in a message of an octet of its checksum, which `wrong-checksum` changes.
    const CHECKSUM: usize;
    /// Contents of `topology.toml` besides what every protocol has.
    type Settings: DeserializeOwned;
    /// Engine of the protocol.
    type Engine: Engine;

    /// Creates the engine under test.
    fn new(
        settings: Self::Settings,
        random: &RandomStreams,
        tables: &mut Tables,
    ) -> (Self::Engine, Self);

    /// Returns the message of the line `in eth1 ...`, of which the remaining words begin with the kind of message.
    ///
    /// # Errors
    /// What is wrong in the line.
    fn compose(&self, words: &mut Words<'_>, body: &[&str]) -> Result<(IpHeader, Vec<u8>), Fault>;

    /// Returns the command of the line `do ...`.
    ///
    /// # Errors
    /// What is wrong in the line.
    fn command(words: Words<'_>) -> Result<<Self::Engine as Engine>::Command, Fault>;

    /// Returns the text of a message that is sent because of the message `came`, if any.
    fn sent(&mut self, tables: &Tables, how: &Outgoing, octets: &[u8], came: &[u8]) -> String;

    /// Returns the text of an event; `None` if stories leave it out.
    fn event(event: &<Self::Engine as Engine>::Event) -> Option<String>;
}

/// A node with the engine of a protocol.
#[derive(Debug)]
pub struct Player<P: Datagrams> {
    engine: P::Engine,
    tables: Tables,
    protocol: P,
}

impl<P: Datagrams> Protocol for Player<P> {
    const FOLDER: &'static str = P::FOLDER;
    const CITATION: &'static str = "Source: ";
    type Settings = P::Settings;

    fn new(topology: Topology<P::Settings>) -> Result<Player<P>, Fault> {
        let random = RandomStreams::new(topology.seed);
        let mut tables = Tables::new(topology.links);
        let (engine, protocol) = P::new(topology.settings, &random, &mut tables);
        Ok(Player { engine, tables, protocol })
    }

    fn step(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        match words.next("what happens")? {
            "in" => self.arrive(now, words, body),
            "do" => Ok(self.handle(now, Input::Command(P::command(words)?), &[])),
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

impl<P: Datagrams> Player<P> {
    fn arrive(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        let interface = self.tables.links.id(words.next("an interface")?)?;
        let wrong_checksum = words.flag("wrong-checksum");
        let (header, mut payload) = self.protocol.compose(&mut words, body)?;
        words.end()?;
        if wrong_checksum {
            payload[P::CHECKSUM] ^= 1;
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
    fn handle(
        &mut self,
        now: Time,
        input: Input<'_, <P::Engine as Engine>::Command>,
        came: &[u8],
    ) -> Vec<String> {
        let effects = self.tables.handle(&mut self.engine, now, input);
        let (mut lines, mut messages, mut events) = (Vec::new(), Vec::new(), Vec::new());
        // What is given back has its line, and its number, first.
        let gives_back = |effect: &Effect<_>| matches!(effect, Effect::Remove(..));
        for effect in effects.iter().filter(|effect| gives_back(effect)) {
            lines.extend(self.tables.reservation(effect));
        }
        for effect in effects.iter().filter(|effect| !gives_back(effect)) {
            match effect {
                Effect::Send(how, range) => {
                    let octets = effects.octets(range);
                    messages.push(self.protocol.sent(&self.tables, how, octets, came));
                }
                Effect::Notify(event) => events.extend(P::event(event)),
                other => lines.extend(self.tables.reservation(other)),
            }
        }
        lines.extend(messages);
        lines.extend(events);
        lines
    }
}
