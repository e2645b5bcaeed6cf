//! Stories of NATFW NSLP: the inputs and effects of a node.
//!
//! `conformance/natfw-nslp/README.md` has the grammar.

use std::num::ParseIntError;

use earmark_core::random::RandomStreams;
use earmark_core::{FilterAction, FilterEvent, HostEvent, Time};
use earmark_nsis::natfw::{Application, Command, Config, ExposeRequest, NatfwNslp, OpenRequest};
use earmark_nsis::nslp::{AssociationId, Channel, SendFailure};
use earmark_nsis::{HandlerContext, Nslp};
use earmark_testkit::conformance::tables::Tables;
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::{Fault, Seconds, Words};
use earmark_testkit::conformance::{Lines, Protocol};
use earmark_wire::natfw_nslp::ProxyMode;
use earmark_wire::natfw_nslp::iana::NSLPID;

use crate::names::{Addresses, Names, UDP, protocol, routing, routing_text};
use crate::nslp_story::{Arrival, FromGist, Sent, Shown, call, explicit_peer};
use crate::settings::Settings;
use crate::{message, show};

/// A node with NATFW NSLP.
pub(crate) struct Player {
    natfw: NatfwNslp,
    tables: Tables,
    names: Names,
    /// Last message of the node, which GIST may return as undeliverable.
    sent: Option<Sent>,
    shown: Shown,
}

impl Protocol for Player {
    const FOLDER: &'static str = "natfw-nslp";
    type Settings = Settings;

    fn new(topology: Topology<Settings>) -> Result<Player, Fault> {
        let config = Config { enabled: true, ..topology.settings.config().natfw };
        Ok(Player {
            natfw: NatfwNslp::new(config, &RandomStreams::new(topology.seed)),
            tables: Tables::new(topology.links),
            names: Names::default(),
            sent: None,
            shown: Shown::default(),
        })
    }

    fn step(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        match words.next("what happens")? {
            "in" => self.arrive(now, words, body),
            "do" => self.application(now, words),
            "gist" => self.gist(now, words),
            "filter" => self.filter(now, words),
            "host" => {
                let event = self.tables.change(words)?;
                self.call(now, |natfw, cx| natfw.host_changes(cx, &event))
            }
            other => Err(format!("`{other}`: say `at`, `in`, `do`, `gist`, `filter` or `host`")),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.natfw.next_deadline()
    }

    fn expire(&mut self, now: Time) -> Vec<String> {
        self.call(now, Nslp::expire).unwrap_or_else(|fault| vec![fault])
    }
}

impl Player {
    fn arrive(&mut self, now: Time, mut words: Words<'_>, body: &[&str]) -> Lines {
        let (name, mut arrival) =
            Arrival::read(&mut words, &self.tables, &self.names.sessions, routing)?;
        if !words.flag("datagram") {
            let id = AssociationId(arrival.peer.slot);
            arrival.channel = Channel::Association { id, secured: words.flag("secured") };
        }
        let known = (arrival.session, &self.names);
        let data = message::compose(name, &mut words, body, known)?;
        words.end()?;
        self.call(now, |natfw, cx| natfw.receive(cx, &arrival.received(&data)))
    }

    fn application(&mut self, now: Time, mut words: Words<'_>) -> Lines {
        let what = words.next("what it does")?;
        let application = Application(words.maybe("application")?.unwrap_or(1));
        let command = match what {
            "open" => Command::Open { application, request: open_request(&mut words)? },
            "expose" => Command::Expose { application, request: expose_request(&mut words)? },
            "release" => Command::Release { application },
            other => return Err(format!("an application does not `{other}`")),
        };
        words.end()?;
        self.call(now, |natfw, cx| natfw.command(cx, command))
    }

    fn gist(&mut self, now: Time, mut words: Words<'_>) -> Lines {
        let says = FromGist::read(&mut words, &self.names.sessions, routing)?;
        words.end()?;
        match says {
            FromGist::FindsNobody => {
                let Sent { message, data, .. } = self.sent.take().ok_or("nothing was sent")?;
                let failure = SendFailure::NoNextNode;
                self.call(now, |natfw, cx| natfw.undelivered(cx, &message, &data, failure))
            }
            FromGist::Notification(notification) => {
                self.call(now, |natfw, cx| natfw.notify(cx, &notification))
            }
        }
    }

    fn filter(&mut self, now: Time, mut words: Words<'_>) -> Lines {
        match words.next("what it does")? {
            "refuses" => {}
            other => return Err(format!("a packet filter does not `{other}`")),
        }
        let packets = show::packets(&mut words)?;
        let errno = words.key("errno")?;
        words.end()?;
        let event = HostEvent::Filter(FilterEvent::Refused { packets, errno });
        self.call(now, |natfw, cx| natfw.host_changes(cx, &event))
    }

    /// Calls the application; returns its effects, and then its messages.
    fn call(
        &mut self,
        now: Time,
        act: impl FnOnce(&mut NatfwNslp, &mut HandlerContext<'_, '_>),
    ) -> Lines {
        let (effects, messages) = call(&mut self.natfw, &mut self.tables, (now, NSLPID), act);
        let effects = effects.iter();
        let mut lines: Vec<String> =
            effects.filter_map(|effect| show::effect(effect, &mut self.names)).collect();
        for sent in messages {
            lines.push(self.sends(&sent)?);
            self.sent = Some(sent);
        }
        Ok(lines)
    }

    /// Returns the line of a sent message; repeated contents are abbreviated.
    fn sends(&mut self, sent: &Sent) -> Result<String, Fault> {
        let message = &sent.message;
        let session = self.names.of_session(message.session);
        let known = (message.session, &mut self.names);
        let (name, flags, objects) = message::show(&sent.data, known)?;
        let (routing, to) = (routing_text(&message.mri), explicit_peer(message));
        let head = format!("send {name} {routing} session={session}{to}{flags}");
        Ok(self.shown.text(head, &objects))
    }
}

fn open_request(words: &mut Words<'_>) -> Result<OpenRequest, Fault> {
    let to = Addresses::read(words, "to")?;
    let types = words.text("icmp-types").unwrap_or_default();
    let types = types.split(',').filter(|text| !text.is_empty()).map(str::parse);
    Ok(OpenRequest {
        source_port: words.maybe("from-port")?,
        destination_port: to.port,
        protocol: Some(words.text("protocol").map_or(Ok(UDP), protocol)?),
        spi: words.maybe("spi")?,
        next_port: words.flag("next-port"),
        icmp_types: types
            .collect::<Result<_, _>>()
            .map_err(|error: ParseIntError| error.to_string())?,
        proxy: proxy_mode(words),
        lifetime: lifetime(words)?,
        ..OpenRequest::new(to.address)
    })
}

fn expose_request(words: &mut Words<'_>) -> Result<ExposeRequest, Fault> {
    let from = words.text("from").map(Addresses::parse).transpose()?;
    Ok(ExposeRequest {
        from: from.map(|from| from.address),
        from_port: from.and_then(|from| from.port),
        next_port: words.flag("next-port"),
        action: if words.flag("deny") { FilterAction::Deny } else { FilterAction::Allow },
        untranslated: words.flag("untranslated"),
        proxy: proxy_mode(words),
        lifetime: lifetime(words)?,
        ..ExposeRequest::new(words.text("protocol").map_or(Ok(UDP), protocol)?, words.key("port")?)
    })
}

fn lifetime(words: &mut Words<'_>) -> Result<Option<std::time::Duration>, Fault> {
    Ok(words.maybe("lifetime")?.map(|Seconds(lifetime)| lifetime))
}

fn proxy_mode(words: &mut Words<'_>) -> ProxyMode {
    match (words.flag("proxy"), words.flag("end-to-end")) {
        (false, _) => ProxyMode::Off,
        (true, false) => ProxyMode::Edge,
        (true, true) => ProxyMode::EdgeAndOnward,
    }
}
