//! Handling of requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use earmark_boomerang as boomerang;
use earmark_core::Time;
use earmark_core::outcome::Outcome;
use earmark_node::outcome::application_of;
use earmark_node::{Command, Event, Input};
use earmark_nsis::{self as nsis, ping, qos};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{SenderTemplate, Session, Style};
use earmark_yessir as yessir;
use serde::Serialize;
use serde_json::Value;
use tracing::info;

use super::checks::{check_senders, session, template, tspec};
use super::hub::{Application, ClientId, Hub, MOST_APPLICATIONS};
use crate::describe;
use crate::driver::{Driver, Kernel};
use earmark_control::{
    ApplicationRow, Ask, DEFAULT_ROWS, Identity, Keep, Listen, Listing, Opened, Problem,
    ProblemCode, Release, Released, Request, Role, Rows, Send, SenderName, Show, Signalling,
    StyleName, VERSION, Versions, Watching,
};

/// Context of a request: the client, the time, and the parts of the daemon that the request may concern.
pub(super) struct Desk<'a, K> {
    pub(super) hub: &'a mut Hub,
    pub(super) driver: &'a mut Driver<K>,
    pub(super) client: ClientId,
    pub(super) now: Time,
}

/// Relation of an application to the connection that opens it.
#[derive(Clone, Copy)]
pub(super) struct Tie {
    pub(super) hold: bool,
    pub(super) follow: bool,
}

/// End of a flow that an application is, with its filter.
#[derive(Clone, Copy)]
enum End<'a> {
    Sender(SenderTemplate),
    Receiver(StyleName, &'a [SenderName]),
}

impl End<'_> {
    fn style(&self) -> Option<StyleName> {
        match *self {
            End::Sender(_) => None,
            End::Receiver(style, _) => Some(style),
        }
    }

    fn senders(&self) -> Vec<SenderName> {
        match self {
            End::Sender(template) if template.source.is_unspecified() => Vec::new(),
            End::Sender(template) => vec![template.into()],
            End::Receiver(_, senders) => senders.to_vec(),
        }
    }
}

impl<K: Kernel> Desk<'_, K> {
    /// Carries out `request` and returns its answer.
    pub(super) fn carry_out(&mut self, request: Request) -> Result<Value, Problem> {
        match request {
            Request::Show(request) => Ok(self.show(&request)),
            Request::Watch(_) => {
                self.hub.watch(self.client);
                Ok(value(Watching { node: self.hub.node.clone() }))
            }
            Request::Keep(request) => self.keep(request),
            Request::Release(request) => self.release(request),
            Request::Send(request) => self.send(&request),
            Request::Listen(request) => self.listen(&request),
            Request::Reserve(request) if self.driver.is_local(request.to.ip()) => {
                let Send { to, ip_protocol, rate_bps, identity, hold, follow, .. } = request;
                let (ask, confirm) = (Ask::Rate(rate_bps), true);
                let default = Listen::new(to);
                self.listen(&Listen {
                    ip_protocol,
                    ask,
                    confirm,
                    identity,
                    hold,
                    follow,
                    ..default
                })
            }
            Request::Reserve(request) => self.send(&request),
            Request::Loop(request) => self.loop_round(request),
            Request::Attach(request) => self.attach(request),
            Request::Answer(request) => self.answer_streams(&request),
            Request::Ping(request) => self.ping(&request),
            Request::Establish(request) => self.establish(&request),
            Request::Expect(request) => self.expect(&request),
            Request::Statistics(request) => self.statistics(request),
            Request::Trace(request) => self.trace(&request),
            Request::Path(request) => self.path(&request),
            Request::Version(_) => Ok(value(Versions {
                protocol: VERSION,
                earmark: env!("CARGO_PKG_VERSION").to_owned(),
            })),
        }
    }

    fn show(&mut self, request: &Show) -> Value {
        let limit = request.limit.unwrap_or(DEFAULT_ROWS);
        let now = self.now;
        self.driver.catch_up(
            now,
            match request.what {
                Listing::Sessions | Listing::Reservations => limit,
                _ => 0,
            },
        );
        match request.what {
            Listing::Sessions => rows(self.driver.node().session_rows(now), limit),
            Listing::Reservations => rows(self.driver.reservation_rows(now), limit),
            Listing::Links => rows(self.driver.link_rows(), limit),
            Listing::Neighbors => rows(self.driver.node().neighbor_rows(now), limit),
            Listing::Aggregates => rows(self.driver.node().aggregate_rows(), limit),
            Listing::Associations => rows(self.driver.node().association_rows(now), limit),
            Listing::RoutingState => rows(self.driver.node().routing_state_rows(now), limit),
            Listing::Applications => {
                rows(self.hub.applications.values().map(|application| &application.row), limit)
            }
            Listing::Counters => rows([self.counters()], limit),
        }
    }

    /// Returns all counters by part of the daemon.
    fn counters(&self) -> BTreeMap<&'static str, Value> {
        let mut parts = by_protocol(self.driver.node().counters());
        let mut kernel = BTreeMap::<_, BTreeMap<_, u64>>::new();
        for (part, name, count) in self.driver.kernel_ref().counters() {
            kernel.entry(part).or_default().insert(name, count);
        }
        parts.extend(kernel.into_iter().map(|(part, counts)| (part, value(counts))));
        parts.insert("driver", value(self.driver.counters()));
        parts.insert("control", value(self.hub.counters));
        parts
    }

    fn release(&mut self, request: Release) -> Result<Value, Problem> {
        let applications: Vec<u64> = match request {
            Release::All {} => self.hub.applications.keys().copied().collect(),
            Release::Application(number) if self.hub.applications.contains_key(&number) => {
                vec![number]
            }
            Release::Application(number) => return Err(no_such_application(number)),
        };
        for &number in &applications {
            self.hub.release(number, self.now, self.driver);
        }
        Ok(value(Released { applications }))
    }

    fn keep(&mut self, request: Keep) -> Result<Value, Problem> {
        let number = request.application;
        let known = self.hub.applications.get_mut(&number);
        let application = known.ok_or_else(|| no_such_application(number))?;
        application.owner = None;
        application.row.held = false;
        Ok(value(Keep { application: number }))
    }

    fn send(&mut self, request: &Send) -> Result<Value, Problem> {
        let session = self.session(request.to, request.ip_protocol)?;
        let template = template(request)?;
        let tspec = tspec(request)?;
        let tie = Tie { hold: request.hold, follow: request.follow };
        let ttl = request.ttl;
        let end = End::Sender(template);
        self.open(session, end, tie, &request.identity, |application| {
            vec![
                Command::Rsvp(rsvp::Command::Session { application, session }),
                Command::Rsvp(rsvp::Command::Sender { application, template, tspec, ttl }),
            ]
        })
    }

    fn listen(&mut self, request: &Listen) -> Result<Value, Problem> {
        let session = self.session(request.on, request.ip_protocol)?;
        let destination = session.destination;
        if !destination.is_multicast() && !self.driver.is_local(destination) {
            return Err(rejected(
                format!("{destination} is none of this host's addresses, so nothing arrives there"),
                "listen on an address of this host (`ip address` lists them), or run this on the receiver",
            ));
        }
        check_senders(request)?;
        let tie = Tie { hold: request.hold, follow: request.follow };
        let &Listen { ask, style, confirm, ref senders, .. } = request;
        let end = End::Receiver(style, senders);
        self.open(session, end, tie, &request.identity, |application| {
            let (ask, style, senders) = (requested(ask), style_of(style), senders.clone());
            let all = earmark_node::Listen::new(application, session);
            vec![Command::Listen(earmark_node::Listen { ask, confirm, style, senders, ..all })]
        })
    }

    pub(super) fn session(
        &self,
        destination: SocketAddr,
        ip_protocol: u8,
    ) -> Result<Session, Problem> {
        let session = session(destination, ip_protocol)?;
        if !self.driver.kernel_ref().can_signal(session.destination) {
            return Err(rejected(
                format!(
                    "nothing can be reserved for {}: this host does without IPv6",
                    session.destination
                ),
                "use the receiver's IPv4 address",
            ));
        }
        Ok(session)
    }

    /// Assigns a number to an application, has the node carry out its commands, and records it unless the node rejects one.
    fn open(
        &mut self,
        session: Session,
        end: End<'_>,
        tie: Tie,
        identity: &Identity,
        commands: impl FnOnce(rsvp::Application) -> Vec<Command>,
    ) -> Result<Value, Problem> {
        let (role, template) = match end {
            End::Sender(template) => (Role::Sender, Some(template)),
            End::Receiver(..) => (Role::Receiver, None),
        };
        let row = ApplicationRow {
            application: 0, // the number is assigned by `enter`
            protocol: Signalling::Rsvp,
            role,
            destination: session.destination,
            destination_port: session.port,
            ip_protocol: session.protocol,
            style: end.style(),
            senders: end.senders(),
            held: tie.hold,
            outcome: Outcome::default(),
            last: None,
        };
        self.enter(row, template, tie, |number| {
            let application = rsvp::Application(number);
            let identity = (!identity.is_empty()).then(|| {
                let Identity { user, application: name, priority } = identity.clone();
                let identity = rsvp::policy::Identity { user, application: name, priority };
                Command::Rsvp(rsvp::Command::Identity { application, identity })
            });
            identity.into_iter().chain(commands(application)).collect()
        })
    }

    /// Assigns a number to an application, has the node carry out the commands for that number, and records the application
    /// unless the node rejects a command.
    pub(super) fn enter(
        &mut self,
        row: ApplicationRow,
        template: Option<SenderTemplate>,
        tie: Tie,
        commands: impl FnOnce(u64) -> Vec<Command>,
    ) -> Result<Value, Problem> {
        let Desk { hub, driver, client, now } = self;
        if hub.applications.len() >= MOST_APPLICATIONS {
            return Err(Problem::new(
                ProblemCode::Limit,
                format!(
                    "{MOST_APPLICATIONS} applications are open, which is the most there can be"
                ),
                "`earmark show applications` lists them, `earmark release` ends them",
            ));
        }
        // Earlier events must not be taken for the outcome of the commands.
        hub.publish(*now, driver);
        hub.last_application += 1;
        let number = hub.last_application;
        let row = ApplicationRow { application: number, ..row };
        let (role, protocol) = (row.role, row.protocol);
        let (destination, port) = (row.destination, row.destination_port);
        let owner = tie.hold.then_some(*client);
        let follower = tie.follow.then_some(*client);
        hub.applications.insert(number, Application { row, template, owner, follower });
        for command in commands(number) {
            driver.handle(*now, Input::Command(command));
            let events = driver.take_events();
            if let Some(problem) = events.iter().find_map(|event| refusal(event, number)) {
                hub.release(number, *now, driver);
                return Err(problem);
            }
            for event in &events {
                hub.publish_one(*now, event, driver.node());
            }
        }
        info!(application = number, ?protocol, ?role, %destination, port, "opened");
        Ok(value(Opened { application: number, role, at_s: now.as_secs_f64() }))
    }
}

/// Converts the policy of a receiver.
fn requested(ask: Ask) -> earmark_node::Ask {
    match ask {
        Ask::ControlledLoad => earmark_node::Ask::ControlledLoad,
        Ask::Rate(rate) => earmark_node::Ask::Rate(rate),
        Ask::Delay(delay) => earmark_node::Ask::Delay(delay),
    }
}

/// Converts a reservation style.
fn style_of(name: StyleName) -> Style {
    match name {
        StyleName::Ff => Style::FixedFilter,
        StyleName::Se => Style::SharedExplicit,
        StyleName::Wf => Style::Wildcard,
    }
}

fn rows<T: Serialize>(all: impl IntoIterator<Item = T>, limit: usize) -> Value {
    let mut all = all.into_iter();
    let rows: Vec<T> = all.by_ref().take(limit).collect();
    value(Rows { rows, more: all.next().is_some() })
}

/// Counters of a node by protocol, then by direction or another group, then by name.
fn by_protocol(
    counters: impl Iterator<Item = (&'static str, &'static str, &'static str, u64)>,
) -> BTreeMap<&'static str, Value> {
    let mut protocols = BTreeMap::<_, BTreeMap<_, BTreeMap<_, u64>>>::new();
    for (protocol, group, name, count) in counters {
        protocols.entry(protocol).or_default().entry(group).or_default().insert(name, count);
    }
    protocols.into_iter().map(|(protocol, groups)| (protocol, value(groups))).collect()
}

pub(super) fn no_such_application(number: u64) -> Problem {
    Problem::new(
        ProblemCode::NoSuchApplication,
        format!("there is no application {number}"),
        "`earmark show applications` lists them",
    )
}

pub(super) fn rejection(event: &Event, number: u64) -> Option<rsvp::Rejection> {
    match event {
        Event::Rsvp(rsvp::Event::Rejected { reason, .. })
            if application_of(event) == Some(number) =>
        {
            Some(*reason)
        }
        _ => None,
    }
}

/// The rejection that an event of any protocol reports for an application.
fn refusal(event: &Event, number: u64) -> Option<Problem> {
    if application_of(event) != Some(number) {
        return None;
    }
    match event {
        Event::Rsvp(rsvp::Event::Rejected { reason, .. }) => {
            Some(rejected(reason.to_string(), hint_for(*reason)))
        }
        Event::Boomerang(boomerang::Event::Rejected { reason, .. }) => {
            let (what, hint) = describe::boomerang_rejection(*reason);
            Some(rejected(what.to_owned(), hint))
        }
        Event::Yessir(yessir::Event::Rejected { reason, .. }) => {
            Some(rejected(reason.to_string(), describe::yessir_hint(*reason)))
        }
        Event::Nsis(nsis::Event::Qos(qos::Event::Rejected { reason, .. })) => {
            let (what, hint) = describe::qos_rejection(*reason);
            Some(rejected(what.to_owned(), hint))
        }
        Event::Nsis(nsis::Event::Ping(ping::Event::Rejected { reason, .. })) => {
            Some(rejected(reason.to_string(), describe::ping_hint(*reason)))
        }
        _ => None,
    }
}

fn hint_for(reason: rsvp::Rejection) -> &'static str {
    use rsvp::Rejection::*;
    match reason {
        NoRoute => {
            "is the outgoing interface up, and in the daemon's configuration? `earmark show links` lists those that are"
        }
        NotOurAddress => "leave --from out, or give an address of this host",
        Ports => "all senders of one destination name their port (--from ADDR:PORT), or none does",
        Specification(_) => {
            "rates and sizes must be positive, and a reserved rate at least the token rate"
        }
        SenderTaken => {
            "give this one another --from port, or release the other (`earmark show applications`)"
        }
        Conflict => {
            "release the other one first (`earmark show applications`), or ask for the same service"
        }
        Style => {
            "release the reservations in the other style first, or ask in theirs (`earmark show reservations`)"
        }
        Limit => "release what is not needed, or raise the limits",
        Identity => "for example --user alice@example.org or --application \"APP=voice, VER=1\"",
        BadSession => "give a destination address and a protocol such as udp",
        SeveralSenders => "name one of them as `from`",
        SessionOpen | NoSession | NoSuchSender => "this is a defect of earmark's; please report it",
    }
}

pub(super) fn rejected(message: String, hint: &str) -> Problem {
    Problem::new(ProblemCode::Rejected, message, hint)
}

/// Converts an answer to JSON, which cannot fail for our own answers.
pub(super) fn value(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
