//! Stories of GIST: the inputs and effects of a node, with an application that follows the story.
//!
//! `conformance/nsis/README.md` has the grammar.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use earmark_core::random::RandomStreams;
use earmark_core::{
    CloseReason, ConnectionId, Datagram, Effect, Effects, Engine, Input, StreamEvent, Time,
    Transport,
};
use earmark_nsis::nslp::{Attributes, MessageHandle, SendMessage, Validity};
use earmark_nsis::{Command, Event, Nsis, PORT};
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::{Fault, Seconds, Words};
use earmark_testkit::conformance::{Lines, Protocol};
use earmark_wire::gist::{Message, Mode, datagram, emit_magic};
use earmark_wire::udp;

use crate::application::{Application, State};
use crate::message::{self, Cookies, compose, data, direction, flow, session};
use crate::settings::Settings;
use crate::task::Task;

/// A node with GIST and an application.
pub(crate) struct Player {
    engine: Nsis,
    tables: Tables,
    app: Rc<RefCell<State>>,
    cookies: Cookies,
    /// Last message of the node, to which errors refer.
    sent: Vec<u8>,
    /// Routing state as last shown.
    shown: Vec<String>,
}

impl Protocol for Player {
    const FOLDER: &'static str = "nsis";
    type Settings = Settings;

    fn new(topology: Topology<Settings>) -> Result<Player, Fault> {
        let mut engine = Nsis::new(topology.settings.config(), &RandomStreams::new(topology.seed));
        let app = Rc::new(RefCell::new(State::default()));
        engine.add(Box::new(Application(app.clone())));
        Ok(Player {
            engine,
            tables: Tables::new(topology.links),
            app,
            cookies: Cookies::default(),
            sent: Vec::new(),
            shown: Vec::new(),
        })
    }

    fn step(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        match words.next("what happens")? {
            "in" => self.arrive(now, words, body),
            "app" => self.application(now, words),
            "stream" => self.stream(now, words, body),
            "host" => {
                let event = self.tables.change(words)?;
                let mut lines = self.handle(now, Input::Host(event));
                // GIST looks at the routes of its state a moment later.
                while self.next_deadline().is_some_and(|at| at <= now) {
                    let when = Player::when(now);
                    lines.extend(self.expire(now).iter().map(|line| when.clone() + line));
                }
                Ok(lines)
            }
            other => Err(format!("`{other}`: say `at`, `in`, `app`, `stream` or `host`")),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.engine.next_deadline().map(|(at, _)| at)
    }

    fn expire(&mut self, now: Time) -> Vec<String> {
        self.handle(now, Input::Expire)
    }
}

impl Player {
    fn arrive(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        let interface = self.tables.links.id(words.next("an interface")?)?;
        let name = words.next("a message")?;
        words.next("from")?;
        let source = words.value("a source")?;
        words.next("to")?;
        let destination = words.value("a destination")?;
        let ttl = words.maybe("ttl")?.unwrap_or(64);
        let router_alert = words.flag("alert");
        let message = compose(name, words, body, &self.cookies, &self.sent)?;
        let mut payload = vec![0; udp::HEADER + 4 + message.len()];
        let room = emit_magic(&mut payload[udp::HEADER..]).map_err(|error| error.to_string())?;
        room.copy_from_slice(&message);
        let header = udp::Repr { source, destination, source_port: PORT, destination_port: PORT };
        header.emit(&mut payload).map_err(|error| error.to_string())?;
        Ok(self.handle(
            now,
            Input::Datagram(Datagram {
                interface,
                source,
                destination,
                ttl,
                router_alert,
                encapsulated: false,
                payload: &payload,
            }),
        ))
    }

    fn application(&mut self, now: Time, mut words: Words<'_>) -> Lines {
        let task = match words.next("what it does")? {
            "passes" => {
                self.app.borrow_mut().pass = true;
                return Ok(Vec::new());
            }
            "sends" => {
                let mri = flow(direction(words.next("a direction")?)?);
                let attributes =
                    Attributes { reliable: words.flag("reliable"), secure: words.flag("secure") };
                let message = SendMessage {
                    handle: Some(MessageHandle(words.maybe("message")?.unwrap_or(1))),
                    session: session(words.key("session")?),
                    mri,
                    to: None,
                    attributes,
                    timeout: std::time::Duration::from_secs(60),
                    hops: None,
                };
                Task::Send(message, data(words.next("data")?))
            }
            "wants" => {
                let Seconds(lifetime) = words.value("a lifetime")?;
                let mri = flow(direction(words.next("a direction")?)?);
                Task::Lifetime(mri, session(words.key("session")?), lifetime)
            }
            "doubts" => {
                let mri = flow(direction(words.next("a direction")?)?);
                let bad = words.flag("bad");
                let status = if bad { Validity::Bad } else { Validity::Tentative };
                Task::Invalidate(mri, status, words.flag("urgent"))
            }
            other => return Err(format!("an application does not `{other}`")),
        };
        words.end()?;
        self.app.borrow_mut().tasks.push_back(task);
        Ok(self.handle(now, Input::Expire))
    }

    fn stream(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        let connection = ConnectionId(words.value("a connection")?);
        let octets;
        let event = match words.next("what happens to it")? {
            "opens" => {
                let transport = match words.next("a transport")? {
                    "tls" => Transport::Tls,
                    _ => Transport::Tcp,
                };
                words.next("from")?;
                let local: SocketAddr = words.value("an address")?;
                words.next("to")?;
                let peer = words.value("an address")?;
                StreamEvent::Open { connection, local, peer, transport }
            }
            "ends" => StreamEvent::Closed { connection, reason: CloseReason::Ended },
            "breaks" => StreamEvent::Closed { connection, reason: CloseReason::Broken },
            "fails" => StreamEvent::Closed { connection, reason: CloseReason::Unreachable },
            "brings" => {
                let name = words.next("a message")?;
                octets = compose(name, words, body, &self.cookies, &self.sent)?;
                StreamEvent::Data { connection, octets: &octets }
            }
            other => return Err(format!("nothing `{other}` a connection")),
        };
        Ok(self.handle(now, Input::Stream(event)))
    }

    fn handle(&mut self, now: Time, input: Input<'_, Command>) -> Vec<String> {
        let effects = self.tables.handle(&mut self.engine, now, input);
        let mut lines = Vec::new();
        for effect in effects.iter() {
            lines.extend(self.show(effect, &effects));
        }
        lines.append(&mut self.app.borrow_mut().recorded);
        lines.extend(self.changes());
        lines
    }

    /// Returns the text of an effect; objects of messages have their own lines.
    fn show(&mut self, effect: &Effect<Event>, effects: &Effects<Event>) -> Option<String> {
        let message = |head: String, octets: &[u8], mode, cookies: &mut Cookies| {
            let Ok(message) = Message::parse(octets, mode) else {
                return format!("{head} octets");
            };
            let (name, lines) = message::show(&message, cookies);
            let lines: String = lines.iter().map(|line| format!("\n     {line}")).collect();
            head.replace("{}", &name) + &lines
        };
        match effect {
            Effect::Send(how, range) => {
                let packet = udp::Packet::parse(effects.octets(range)).expect("UDP");
                let checksum = packet.verify(how.source, how.destination);
                assert_eq!(checksum, udp::Checksum::Valid);
                let octets = datagram(packet.payload).unwrap_or_default();
                self.sent = octets.to_vec();
                let on = how.interface.map(|interface| self.tables.links.name(interface));
                let on = on.map(|name| format!("{name} ")).unwrap_or_default();
                let alert = if how.router_alert { " alert" } else { "" };
                let (source, destination, ttl) = (how.source, how.destination, how.ttl);
                let head = format!("send {on}{{}} from {source} to {destination} ttl={ttl}{alert}");
                Some(message(head, octets, Mode::D, &mut self.cookies))
            }
            Effect::Write(ConnectionId(connection), range) => {
                self.sent = effects.octets(range).to_vec();
                let head = format!("write {connection} {{}}");
                Some(message(head, effects.octets(range), Mode::C, &mut self.cookies))
            }
            Effect::Connect(connect) => {
                let (ConnectionId(number), to) = (connect.connection, connect.destination);
                let transport = format!("{:?}", connect.transport).to_lowercase();
                Some(format!("connect {number} {transport} from {} to {to}", connect.source))
            }
            Effect::Close(ConnectionId(connection)) => Some(format!("close {connection}")),
            Effect::Notify(Event::Gist(earmark_nsis::gist::Event::Ignored { reason, .. })) => {
                Some(format!("ignore ({})", reason.name()))
            }
            _ => None,
        }
    }

    /// Returns lines for changed routing state.
    fn changes(&mut self) -> Vec<String> {
        let states = self.engine.gist().routing_states(0).map(|(_, view)| {
            let (way, session) = (message::mri_text(&view.mri), view.session.0[15]);
            format!("state session={session} {way} is {:?}", view.state)
        });
        let states: Vec<String> = states.collect();
        let key = |line: &str| line.split(" is ").next().unwrap_or_default().to_string();
        let gone = self.shown.iter().filter(|old| !states.iter().any(|new| key(new) == key(old)));
        let mut changes: Vec<String> =
            states.iter().filter(|new| !self.shown.contains(new)).cloned().collect();
        changes.extend(gone.map(|old| format!("{} is Idle", key(old))));
        self.shown = states;
        changes
    }
}
