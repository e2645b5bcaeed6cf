//! Stories: inputs to a node, line by line, and after each line its effects.
//!
//! `conformance/qos-nslp/README.md` has the grammar. Playing a story returns its text with the actual effects; a case
//! passes if the text is unchanged.

use std::collections::BTreeMap;

use earmark_core::admission::{ClaimId, Ledger, LinkCapacity, PreemptionPolicy, Service};
use earmark_core::random::RandomStreams;
use earmark_core::{Context, Effect, Effects, Flow, HostEvent, Interfaces, Rate, RouteTable, Time};
use earmark_nsis::nslp::{
    Attributes, NetworkNotification, Notification, PeerHandle, Received, Request as Asked,
    Requests, SendFailure, SendMessage, Validity,
};
use earmark_nsis::qos::{
    Application, Command, Listen, OnRefusal, QosNslp, Request, ReservationRequest, Scope,
};
use earmark_nsis::{Event, HandlerContext, Nslp};
use earmark_wire::gist::Mri;
use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::{BindingCode, NSLPID};
use earmark_wire::qspec::{Phb, PhbField};

use crate::names::{self, Names, way, way_text};
use crate::story_effects::replace_effects;
use crate::topology::{Topology, route};
use crate::words::{Fault, Seconds, Words};
use crate::{message, show};

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
    qos: QosNslp,
    interfaces: Interfaces,
    routes: RouteTable,
    ledger: Ledger,
    now: Time,
    names: Names,
    /// Claims in the order of creation.
    claims: BTreeMap<ClaimId, usize>,
    /// Last message of the node, which GIST may return as undeliverable.
    sent: Option<(u16, SendMessage, Vec<u8>)>,
    /// Messages already shown in full, by their first line.
    shown: BTreeMap<String, Vec<String>>,
}

impl<'t> Player<'t> {
    fn new(topology: &'t Topology) -> Result<Player<'t>, Fault> {
        let interfaces = topology.interfaces()?;
        let mut ledger = Ledger::new();
        ledger.set_preemption(topology.preemption.then_some(PreemptionPolicy { partial: false }));
        for link in interfaces.iter() {
            let (bandwidth, reservable) = (link.bandwidth, link.reservable);
            ledger.set_link(link.id, LinkCapacity { bandwidth, reservable, mtu: link.mtu });
        }
        Ok(Player {
            topology,
            qos: QosNslp::new(topology.config().qos, &RandomStreams::new(topology.seed)),
            interfaces,
            routes: topology.routes()?,
            ledger,
            now: Time::ZERO,
            names: Names::default(),
            claims: BTreeMap::new(),
            sent: None,
            shown: BTreeMap::new(),
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
            "do" => self.application(words),
            "gist" => self.gist(words),
            "host" => self.host(words),
            other => Err(format!("`{other}`: say `at`, `in`, `do`, `gist` or `host`")),
        }
    }

    /// Advances the time, timer by timer.
    fn advance(&mut self, end: Time) -> String {
        let mut text = String::new();
        while let Some(at) = self.qos.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let when = format!("at {}s ", (self.now.as_secs_f64() * 1_000.0).round() / 1_000.0);
            text += &self.call(&when, None, Nslp::expire);
        }
        self.now = end;
        text
    }

    fn arrive(&mut self, mut words: Words<'_>, body: &[&str]) -> Result<String, Fault> {
        let interface = self.topology.interface(words.next("an interface")?)?;
        let peer = peer(words.next("a peer")?)?;
        let name = words.next("a message")?;
        let mri = way(&mut words)?;
        let session = self.names.session(words.text("session").ok_or("session=... is missing")?)?;
        let ip_distance = Some(words.maybe("distance")?.unwrap_or(1));
        let level: Option<u16> = words.maybe("level")?;
        let attributes = Attributes { reliable: words.flag("reliable"), secure: false };
        let explicitly_routed = words.flag("by-name");
        let data = message::compose(name, &mut words, body, &self.names)?;
        words.end()?;
        let received = Received {
            data: &data,
            session,
            mri: Mri::PathCoupled(mri),
            peer: Some(peer),
            attributes,
            explicitly_routed,
            ip_distance,
            hops: 10,
            interface,
        };
        Ok(self.call("", level, |qos, cx| qos.receive(cx, &received)))
    }

    fn application(&mut self, mut words: Words<'_>) -> Result<String, Fault> {
        let what = words.next("what it does")?;
        let application = Application(words.maybe("application")?.unwrap_or(1));
        let command = match what {
            "reserve" | "query" | "invite" => {
                let request = self.request(&mut words)?;
                match what {
                    "reserve" => Command::Reserve { application, request },
                    "query" => Command::Query { application, request },
                    _ => Command::Invite { application, request },
                }
            }
            "modify" => Command::Modify { application, wish: wish(&mut words)? },
            "release" => Command::Release { application },
            "listen" => {
                let rate = |text: Option<&str>| text.map(rate).transpose();
                let reverse = rate(words.text("reverse"))?.map(ReservationRequest::of);
                let most = rate(words.text("most"))?;
                let (destination, protocol, port) = (None, None, None);
                let listen = Listen { destination, protocol, port, most, reverse };
                Command::Listen { application, listen }
            }
            other => return Err(format!("an application does not `{other}`")),
        };
        words.end()?;
        Ok(self.call("", None, |qos, cx| qos.command(cx, command)))
    }

    fn request(&self, words: &mut Words<'_>) -> Result<Request, Fault> {
        let mri = if words.flag("back") { names::flow_back() } else { names::flow() };
        let flow = Flow {
            destination: mri.destination,
            source: Some(mri.source),
            protocol: 17,
            destination_port: mri.destination_port.unwrap_or_default(),
            source_port: mri.source_port.unwrap_or_default(),
            flow_label: 0,
            destination_open: 0,
            source_open: 0,
        };
        let mut request = Request::new(flow, wish(words)?);
        request.session = words.text("session").map(|name| self.names.session(name)).transpose()?;
        if let Some(session) = words.text("bound-both-ways") {
            let (binding, session) = (BindingCode::Bidirectional, self.names.session(session)?);
            request.bound.push(BoundSessionId { binding, session });
        }
        request.scope = match words.text("scope") {
            None => Scope::Path,
            Some("proxy") => Scope::Proxy,
            Some("next") => Scope::NextHop,
            Some(other) => return Err(format!("there is no scope `{other}`")),
        };
        if words.flag("retry") {
            request.on_refusal = OnRefusal::Retry;
        }
        Ok(request)
    }

    fn gist(&mut self, mut words: Words<'_>) -> Result<String, Fault> {
        let what = words.next("what it says")?;
        if what == "finds-nobody" {
            words.end()?;
            let (nslpid, sent, data) = self.sent.take().ok_or("nothing was sent")?;
            let level = Some(nslpid - NSLPID);
            let failure = SendFailure::NoNextNode;
            return Ok(self.call("", level, |qos, cx| qos.undelivered(cx, &sent, &data, failure)));
        }
        let what = match what {
            "next" => {
                let peer = Some(peer(words.next("a peer")?)?);
                Notification::RoutingStatusChange { status: Validity::Good, peer }
            }
            "last" => Notification::LastNode,
            other => return Err(format!("GIST does not say `{other}`")),
        };
        let mri = Mri::PathCoupled(way(&mut words)?);
        let session = self.names.session(words.text("session").ok_or("session=... is missing")?)?;
        words.end()?;
        let notification = NetworkNotification { mri, session, what };
        Ok(self.call("", None, |qos, cx| qos.notify(cx, &notification)))
    }

    fn host(&mut self, mut words: Words<'_>) -> Result<String, Fault> {
        match words.next("a change")? {
            "route" => {
                let to = words.next("a prefix")?;
                words.next("on")?;
                let interface = self.topology.interface(words.next("an interface")?)?;
                words.next("via")?;
                let new = route(to, interface, Some(words.value("an address")?))?;
                words.end()?;
                let old = self.routes.iter().find(|old| old.prefix == new.prefix).copied();
                if let Some(old) = old {
                    self.routes.remove(&old);
                }
                self.routes.insert(new);
                let event = HostEvent::RouteChanged(new.prefix);
                Ok(self.call("", None, |qos, cx| qos.host_changes(cx, &event)))
            }
            other => Err(format!("the host has no `{other}`")),
        }
    }

    /// Calls the application, and returns the effects, including those of preempted claims.
    fn call(
        &mut self,
        when: &str,
        level: Option<u16>,
        act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>),
    ) -> String {
        let mut text = self.call_once(when, level, act);
        while let Some(displaced) = self.ledger.next_displaced() {
            let event = HostEvent::Displaced(displaced);
            text += &self.call_once(when, None, |qos, cx| qos.host_changes(cx, &event));
        }
        text
    }

    fn call_once(
        &mut self,
        when: &str,
        level: Option<u16>,
        act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>),
    ) -> String {
        let mut effects = Effects::<Event>::new();
        let mut requests = Requests::default();
        let nslpid = level.map_or(self.qos.id(), |level| NSLPID + level);
        let mut context = Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        let mut cx =
            HandlerContext::new(self.now, &mut context, &mut effects, nslpid, &mut requests);
        act(&mut self.qos, &mut cx);
        let mut lines = Vec::new();
        for effect in effects.iter() {
            lines.extend(self.effect(effect));
        }
        for (nslpid, request) in requests.iter() {
            let Asked::Send(message, range) = request else { continue };
            let data = requests.octets(range).to_vec();
            lines.push(self.sends(*nslpid, message, &data));
            self.sent = Some((*nslpid, *message, data));
        }
        lines.iter().map(|line| format!("=> {when}{line}\n")).collect()
    }

    fn effect(&mut self, effect: &Effect<Event>) -> Option<String> {
        let count = self.claims.len() + 1;
        let mut claim = |claim: &ClaimId| *self.claims.entry(*claim).or_insert(count);
        match effect {
            Effect::Install(installation) => {
                let number = claim(&installation.claim);
                let link = self.topology.name(installation.interface);
                let demand = &installation.demand;
                let service = match demand.service {
                    Service::ControlledLoad => "controlled load",
                    Service::Guaranteed => "guaranteed service",
                };
                let (rate, burst) = (demand.rate, demand.burst);
                let flow = flow_text(&installation.flow);
                Some(format!(
                    "install claim {number} on {link} for {flow}: {service} {rate} b={burst}"
                ))
            }
            Effect::AddFlow(id, flow) => {
                Some(format!("add to claim {}: {}", claim(id), flow_text(flow)))
            }
            Effect::Remove(id) => {
                let number = claim(id);
                self.claims.remove(id);
                Some(format!("remove claim {number}"))
            }
            Effect::Notify(Event::Qos(event)) => show::event(event, &mut self.names),
            _ => None,
        }
    }

    /// Returns the line of a sent message; repeated contents are abbreviated.
    fn sends(&mut self, nslpid: u16, message: &SendMessage, data: &[u8]) -> String {
        let (name, flags, lines) = message::show(data, &mut self.names);
        let Mri::PathCoupled(mri) = message.mri else { return format!("send {name} nowhere") };
        let session = self.names.of_long('s', message.session.0);
        let to = message.to.map(|to| format!(" to={}", peer_name(to))).unwrap_or_default();
        let level = match nslpid - NSLPID {
            0 => String::new(),
            level => format!(" level={level}"),
        };
        let head = format!("send {name} {} session={session}{to}{level}{flags}", way_text(&mri));
        let before = self.shown.insert(head.clone(), lines.clone());
        if before.is_some_and(|before| before == lines && lines.len() > 2) {
            return format!("{head} as before");
        }
        lines.iter().fold(head, |text, line| format!("{text}\n     {line}"))
    }
}

fn flow_text(flow: &Flow) -> String {
    let mut text = flow.source.map_or_else(|| "any".into(), |source| source.to_string());
    if flow.source_port != 0 {
        text += &format!(" port {}", flow.source_port);
    }
    text += &match flow.destination_open {
        0 => format!(" to {}", flow.destination),
        _ => format!(" to {}", flow.destinations()),
    };
    if flow.destination_port != 0 {
        text += &format!(" port {}", flow.destination_port);
    }
    text
}

fn peer(name: &str) -> Result<PeerHandle, Fault> {
    match name.as_bytes() {
        [letter @ b'a'..=b'z'] => Ok(PeerHandle { slot: u32::from(letter - b'a'), generation: 0 }),
        _ => Err(format!("`{name}`: a peer is a letter")),
    }
}

fn peer_name(peer: PeerHandle) -> char {
    char::from(b'a' + peer.slot as u8)
}

fn rate(text: &str) -> Result<Rate, Fault> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

fn wish(words: &mut Words<'_>) -> Result<ReservationRequest, Fault> {
    let mut wish = ReservationRequest::of(rate(words.text("rate").ok_or("rate=... is missing")?)?);
    wish.minimum = words.text("at-least").map(rate).transpose()?;
    if let Some(dscp) = words.maybe("phb")? {
        wish.phb = Some(PhbField::from(Phb::Standard { dscp, is_set: false }));
    }
    if let Some(preemption) = words.maybe("priority")? {
        wish.priority =
            Some(earmark_core::admission::Priority::new(preemption, words.key("defending")?));
    }
    Ok(wish)
}
