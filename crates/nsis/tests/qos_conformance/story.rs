//! Stories of QoS NSLP: the inputs and effects of a node.
//!
//! `conformance/qos-nslp/README.md` has the grammar.

use std::collections::BTreeMap;

use earmark_core::admission::PreemptionPolicy;
use earmark_core::random::RandomStreams;
use earmark_core::{Effect, Effects, Flow, HostEvent, Rate, Time};
use earmark_nsis::nslp::{
    AssociationId, Channel, NetworkNotification, Notification, Origin, PeerHandle, Received,
    Request as GistRequest, Requests, SendFailure, SendMessage, Validity,
};
use earmark_nsis::qos::{
    Application, Command, Listen, OnRefusal, QosNslp, Request, RequestedQos, Scope,
};
use earmark_nsis::{Event, HandlerContext, Nslp};
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::{Fault, Words};
use earmark_testkit::conformance::{Lines, Protocol};
use earmark_wire::gist::Mri;
use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::{BindingCode, NSLPID};
use earmark_wire::qspec::{Phb, PhbField};

use crate::names::{self, Names, way, way_text};
use crate::settings::Settings;
use crate::{message, show};

/// A node with QoS NSLP.
pub(crate) struct Player {
    qos: QosNslp,
    tables: Tables,
    names: Names,
    /// Last message of the node, which GIST may return as undeliverable.
    sent: Option<(u16, SendMessage, Vec<u8>)>,
    /// Messages already shown in full, by their first line.
    shown: BTreeMap<String, Vec<String>>,
}

impl Protocol for Player {
    const FOLDER: &'static str = "qos-nslp";
    type Settings = Settings;

    fn new(topology: Topology<Settings>) -> Result<Player, Fault> {
        let settings = &topology.settings;
        let qos = QosNslp::new(settings.config().qos, &RandomStreams::new(topology.seed));
        let preemption = settings.preemption.then_some(PreemptionPolicy { partial: false });
        let mut tables = Tables::new(topology.links);
        tables.ledger.set_preemption(preemption);
        let names = Names::default();
        Ok(Player { qos, tables, names, sent: None, shown: BTreeMap::new() })
    }

    fn step(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        match words.next("what happens")? {
            "in" => self.arrive(now, words, body),
            "do" => self.application(now, words),
            "gist" => self.gist(now, words),
            "host" => {
                let event = self.tables.change(words)?;
                Ok(self.call(now, None, |qos, cx| qos.host_changes(cx, &event)))
            }
            other => Err(format!("`{other}`: say `at`, `in`, `do`, `gist` or `host`")),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.qos.next_deadline()
    }

    fn expire(&mut self, now: Time) -> Vec<String> {
        self.call(now, None, Nslp::expire)
    }
}

impl Player {
    fn arrive(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        let interface = self.tables.links.id(words.next("an interface")?)?;
        let peer = peer(words.next("a peer")?)?;
        let name = words.next("a message")?;
        let mri = way(&mut words)?;
        let session = self.names.session(words.text("session").ok_or("session=... is missing")?)?;
        let ip_distance = Some(words.maybe("distance")?.unwrap_or(1));
        let level: Option<u16> = words.maybe("level")?;
        let channel = match words.flag("reliable") {
            true => Channel::Association { id: AssociationId(1), secured: false },
            false => Origin::datagram(None, interface).channel,
        };
        let explicitly_routed = words.flag("by-name");
        let data = message::compose(name, &mut words, body, &self.names)?;
        words.end()?;
        let received = Received {
            data: &data,
            session,
            mri: Mri::PathCoupled(mri),
            upstream: None,
            origin: Origin { peer: Some(peer), channel },
            explicitly_routed,
            ip_distance,
            hops: 10,
            interface,
        };
        Ok(self.call(now, level, |qos, cx| qos.receive(cx, &received)))
    }

    fn application(&mut self, now: Time, mut words: Words<'_>) -> Lines {
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
            "modify" => Command::Modify { application, qos: requested_qos(&mut words)? },
            "release" => Command::Release { application },
            "listen" => {
                let rate = |text: Option<&str>| text.map(rate).transpose();
                let reverse = rate(words.text("reverse"))?.map(RequestedQos::of);
                let most = rate(words.text("most"))?;
                let (destination, protocol, port) = (None, None, None);
                let token = None;
                let listen = Listen { destination, protocol, port, most, reverse, token };
                Command::Listen { application, listen }
            }
            other => return Err(format!("an application does not `{other}`")),
        };
        words.end()?;
        Ok(self.call(now, None, |qos, cx| qos.command(cx, command)))
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
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        let mut request = Request::new(flow, requested_qos(words)?);
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

    fn gist(&mut self, now: Time, mut words: Words<'_>) -> Lines {
        let what = words.next("what it says")?;
        if what == "finds-nobody" {
            words.end()?;
            let (nslpid, sent, data) = self.sent.take().ok_or("nothing was sent")?;
            let level = Some(nslpid - NSLPID);
            let failure = SendFailure::NoNextNode;
            return Ok(self.call(now, level, |qos, cx| qos.undelivered(cx, &sent, &data, failure)));
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
        Ok(self.call(now, None, |qos, cx| qos.notify(cx, &notification)))
    }

    /// Calls the application, and returns the effects, including those of preempted claims.
    fn call(
        &mut self,
        now: Time,
        level: Option<u16>,
        act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>),
    ) -> Vec<String> {
        let mut lines = self.call_once(now, level, act);
        while let Some(displaced) = self.tables.ledger.next_displaced() {
            let event = HostEvent::Displaced(displaced);
            lines.extend(self.call_once(now, None, |qos, cx| qos.host_changes(cx, &event)));
        }
        lines
    }

    fn call_once(
        &mut self,
        now: Time,
        level: Option<u16>,
        act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>),
    ) -> Vec<String> {
        let mut effects = Effects::<Event>::new();
        let mut requests = Requests::default();
        let nslpid = level.map_or(self.qos.id(), |level| NSLPID + level);
        let mut context = self.tables.context();
        let mut cx = HandlerContext::new(now, &mut context, &mut effects, nslpid, &mut requests);
        act(&mut self.qos, &mut cx);
        let mut lines = Vec::new();
        for effect in effects.iter() {
            lines.extend(match effect {
                Effect::Notify(Event::Qos(event)) => show::event(event, &mut self.names),
                other => self.tables.reservation(other),
            });
        }
        for (nslpid, request) in requests.iter() {
            let GistRequest::Send(message, range) = request else { continue };
            let data = requests.octets(range).to_vec();
            lines.push(self.sends(*nslpid, message, &data));
            self.sent = Some((*nslpid, *message, data));
        }
        lines
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

fn requested_qos(words: &mut Words<'_>) -> Result<RequestedQos, Fault> {
    let mut qos = RequestedQos::of(rate(words.text("rate").ok_or("rate=... is missing")?)?);
    qos.minimum = words.text("at-least").map(rate).transpose()?;
    if let Some(dscp) = words.maybe("phb")? {
        qos.phb = Some(PhbField::from(Phb::Standard { dscp, is_set: false }));
    }
    if let Some(preemption) = words.maybe("priority")? {
        qos.priority =
            Some(earmark_core::admission::Priority::new(preemption, words.key("defending")?));
    }
    Ok(qos)
}
