//! Stories: inputs to a node, line by line, and after each line its effects.
//!
//! `conformance/nsis/README.md` has the grammar. Playing a story returns its text with the actual effects; a case
//! passes if the text is unchanged.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use earmark_core::admission::Ledger;
use earmark_core::random::RandomStreams;
use earmark_core::{
    CloseReason, ConnectionId, Context, Datagram, Effect, Effects, Engine, HostEvent, Input,
    Interfaces, RouteTable, StreamEvent, Time, Transport,
};
use earmark_nsis::nslp::{Attributes, MessageHandle, SendMessage, Validity};
use earmark_nsis::{Command, Event, Nsis, PORT};
use earmark_wire::gist::{Message, Mode, datagram, emit_magic};
use earmark_wire::udp;

use crate::application::{Application, State, Task};
use crate::message::{self, Cookies, compose, data, direction, flow, session};
use crate::story_effects::replace_effects;
use crate::topology::{Topology, route};
use crate::words::{Fault, Seconds, Words};

/// Plays a story; returns its text with the actual effects.
///
/// # Errors
/// The number of the invalid line, and the reason.
pub(crate) fn play(topology: &Topology, story: &str) -> Result<String, Fault> {
    let mut player = Player::new(topology)?;
    replace_effects(story, |line, body| player.step(line, body))
}

struct Player<'t> {
    topology: &'t Topology,
    engine: Nsis,
    interfaces: Interfaces,
    routes: RouteTable,
    ledger: Ledger,
    now: Time,
    app: Rc<RefCell<State>>,
    cookies: Cookies,
    /// Last message of the node, to which errors refer.
    sent: Vec<u8>,
    /// Routing state as last shown.
    shown: Vec<String>,
}

impl<'t> Player<'t> {
    fn new(topology: &'t Topology) -> Result<Player<'t>, Fault> {
        let mut engine = Nsis::new(topology.config(), &RandomStreams::new(topology.seed));
        let app = Rc::new(RefCell::new(State::default()));
        engine.add(Box::new(Application(app.clone())));
        Ok(Player {
            topology,
            engine,
            interfaces: topology.interfaces()?,
            routes: topology.routes()?,
            ledger: Ledger::new(),
            now: Time::ZERO,
            app,
            cookies: Cookies::default(),
            sent: Vec::new(),
            shown: Vec::new(),
        })
    }

    fn step(&mut self, line: &str, body: &[&str]) -> Result<String, Fault> {
        let mut words = Words::of(line);
        match words.next("what happens")? {
            "at" => {
                let Seconds(at) = words.value("time")?;
                words.end()?;
                Ok(self.advance(Time::ZERO + at))
            }
            "in" => self.arrive(words, body),
            "app" => self.application(words),
            "stream" => self.stream(words, body),
            "host" => self.host(words),
            other => Err(format!("`{other}`: say `at`, `in`, `app`, `stream` or `host`")),
        }
    }

    /// Advances the time, timer by timer.
    fn advance(&mut self, end: Time) -> String {
        let mut text = String::new();
        while let Some((at, _)) = self.engine.next_deadline().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            let when = format!("at {}s ", (self.now.as_secs_f64() * 1_000.0).round() / 1_000.0);
            text += &self.handle(Input::Expire, &when);
        }
        self.now = end;
        text
    }

    fn arrive(&mut self, mut words: Words<'_>, body: &[&str]) -> Result<String, Fault> {
        let interface = self.topology.interface(words.next("an interface")?)?;
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
            Input::Datagram(Datagram {
                interface,
                source,
                destination,
                ttl,
                router_alert,
                encapsulated: false,
                payload: &payload,
            }),
            "",
        ))
    }

    fn application(&mut self, mut words: Words<'_>) -> Result<String, Fault> {
        let task = match words.next("what it does")? {
            "passes" => {
                self.app.borrow_mut().pass = true;
                return Ok(String::new());
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
        Ok(self.handle(Input::Expire, ""))
    }

    fn stream(&mut self, mut words: Words<'_>, body: &[&str]) -> Result<String, Fault> {
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
        Ok(self.handle(Input::Stream(event), ""))
    }

    fn host(&mut self, mut words: Words<'_>) -> Result<String, Fault> {
        match words.next("a change")? {
            "route" => {
                let to = words.next("a prefix")?;
                words.next("on")?;
                let interface = self.topology.interface(words.next("an interface")?)?;
                let via = if words.is_empty() {
                    None
                } else {
                    words.next("via")?;
                    Some(words.value("an address")?)
                };
                let new = route(to, interface, via)?;
                let old = self.routes.iter().find(|old| old.prefix == new.prefix).copied();
                if let Some(old) = old {
                    self.routes.remove(&old);
                }
                self.routes.insert(new);
                let text = self.handle(Input::Host(HostEvent::RouteChanged(new.prefix)), "");
                Ok(text + &self.advance(self.now))
            }
            other => Err(format!("the host has no `{other}`")),
        }
    }

    fn handle(&mut self, input: Input<'_, Command>, when: &str) -> String {
        let mut effects = Effects::<Event>::new();
        let mut context = Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        self.engine.handle(self.now, input, &mut context, &mut effects);
        let mut text = String::new();
        let mut tell = |line: &str| text = format!("{text}=> {when}{line}\n");
        for effect in effects.iter() {
            let lines = self.show(effect, &effects);
            lines.iter().for_each(|line| tell(line));
        }
        self.app.borrow_mut().recorded.drain(..).for_each(|line| tell(&line));
        for line in self.changes() {
            tell(&line);
        }
        text
    }

    /// Returns the lines of an effect; objects of messages have their own lines.
    fn show(&mut self, effect: &Effect<Event>, effects: &Effects<Event>) -> Vec<String> {
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
                let on = how.interface.map(|interface| self.topology.name(interface));
                let on = on.map(|name| format!("{name} ")).unwrap_or_default();
                let alert = if how.router_alert { " alert" } else { "" };
                let (source, destination, ttl) = (how.source, how.destination, how.ttl);
                let head = format!("send {on}{{}} from {source} to {destination} ttl={ttl}{alert}");
                vec![message(head, octets, Mode::D, &mut self.cookies)]
            }
            Effect::Write(ConnectionId(connection), range) => {
                self.sent = effects.octets(range).to_vec();
                let head = format!("write {connection} {{}}");
                vec![message(head, effects.octets(range), Mode::C, &mut self.cookies)]
            }
            Effect::Connect(connect) => {
                let (ConnectionId(number), to) = (connect.connection, connect.destination);
                let transport = format!("{:?}", connect.transport).to_lowercase();
                vec![format!("connect {number} {transport} from {} to {to}", connect.source)]
            }
            Effect::Close(ConnectionId(connection)) => vec![format!("close {connection}")],
            Effect::Notify(Event::Gist(earmark_nsis::gist::Event::Ignored { reason, .. })) => {
                vec![format!("ignore ({})", reason.name())]
            }
            _ => Vec::new(),
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
