//! Stories of QoS NSLP: the inputs and effects of a node.
//!
//! `conformance/qos-nslp/README.md` has the grammar.

use earmark_core::admission::PreemptionPolicy;
use earmark_core::random::RandomStreams;
use earmark_core::{Effect, Flow, HostEvent, Rate, Time};
use earmark_nsis::nslp::{AssociationId, Channel, SendFailure};
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
use crate::nslp_story::{Arrival, FromGist, Sent, Shown, call, explicit_peer};
use crate::settings::Settings;
use crate::{message, show};

/// A node with QoS NSLP.
pub(crate) struct Player {
    qos: QosNslp,
    tables: Tables,
    names: Names,
    /// Last message of the node, which GIST may return as undeliverable.
    sent: Option<Sent>,
    shown: Shown,
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
        Ok(Player { qos, tables, names, sent: None, shown: Shown::default() })
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
        let (name, mut arrival) =
            Arrival::read(&mut words, &self.tables, &self.names.long, routing)?;
        let level: Option<u16> = words.maybe("level")?;
        if words.flag("reliable") {
            arrival.channel = Channel::Association { id: AssociationId(1), secured: false };
        }
        let data = message::compose(name, &mut words, body, &self.names)?;
        words.end()?;
        Ok(self.call(now, level, |qos, cx| qos.receive(cx, &arrival.received(&data))))
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
                let listen = Listen { most, reverse, ..Listen::default() };
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
        let says = FromGist::read(&mut words, &self.names.long, routing)?;
        words.end()?;
        Ok(match says {
            FromGist::FindsNobody => {
                let Sent { nslpid, message, data } = self.sent.take().ok_or("nothing was sent")?;
                let level = Some(nslpid - NSLPID);
                let failure = SendFailure::NoNextNode;
                self.call(now, level, |qos, cx| qos.undelivered(cx, &message, &data, failure))
            }
            FromGist::Notification(notification) => {
                self.call(now, None, |qos, cx| qos.notify(cx, &notification))
            }
        })
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
        let nslpid = level.map_or(self.qos.id(), |level| NSLPID + level);
        let (effects, messages) = call(&mut self.qos, &mut self.tables, (now, nslpid), act);
        let mut lines = Vec::new();
        for effect in effects.iter() {
            lines.extend(match effect {
                Effect::Notify(Event::Qos(event)) => show::event(event, &mut self.names),
                other => self.tables.reservation(other),
            });
        }
        for sent in messages {
            lines.push(self.sends(&sent));
            self.sent = Some(sent);
        }
        lines
    }

    /// Returns the line of a sent message; repeated contents are abbreviated.
    fn sends(&mut self, sent: &Sent) -> String {
        let (name, flags, lines) = message::show(&sent.data, &mut self.names);
        let message = &sent.message;
        let Mri::PathCoupled(mri) = message.mri else { return format!("send {name} nowhere") };
        let session = self.names.of_long('s', message.session.0);
        let to = explicit_peer(message);
        let level = match sent.nslpid - NSLPID {
            0 => String::new(),
            level => format!(" level={level}"),
        };
        let head = format!("send {name} {} session={session}{to}{level}{flags}", way_text(&mri));
        self.shown.text(head, &lines)
    }
}

/// Takes the routing of a message.
fn routing(words: &mut Words<'_>) -> Result<Mri, Fault> {
    way(words).map(Mri::PathCoupled)
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
