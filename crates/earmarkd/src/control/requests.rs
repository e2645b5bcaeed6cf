//! Handling of requests.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use earmark_boomerang as boomerang;
use earmark_core::Time;
use earmark_core::outcome::Outcome;
use earmark_node::outcome::application_of;
use earmark_node::{Command, Event, Input};
use earmark_nsis::{self as nsis, ping, qos};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{SenderTemplate, Session};
use earmark_yessir as yessir;
use serde::Serialize;
use serde_json::Value;
use tracing::info;

use super::hub::{Application, ClientId, Hub, MAX_APPLICATIONS};
use crate::driver::{Driver, Kernel};
use crate::protocols;
use crate::protocols::rsvp::checks::session;
use earmark_control::{
    ApplicationRow, Ask, DEFAULT_ROWS, Keep, Listen, Listing, Opened, Problem, ProblemCode,
    Release, Released, Request, Role, Rows, Send, SenderName, Show, Signalling, VERSION, Versions,
    Watching,
};

/// Context of a request: the client, the time, and the parts of the daemon that the request may concern.
pub(crate) struct RequestHandler<'a, K> {
    pub(crate) hub: &'a mut Hub,
    pub(crate) driver: &'a mut Driver<K>,
    pub(crate) client: ClientId,
    pub(crate) now: Time,
}

/// Relation of an application to the connection that opens it.
#[derive(Clone, Copy)]
pub(crate) struct Lifetime {
    pub(crate) hold: bool,
    pub(crate) follow: bool,
}

impl<K: Kernel> RequestHandler<'_, K> {
    /// Carries out `request` and returns its answer.
    pub(crate) fn carry_out(&mut self, request: Request) -> Result<Value, Problem> {
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

    pub(crate) fn row(
        &self,
        protocol: Signalling,
        role: Role,
        destination: SocketAddr,
        ip_protocol: u8,
    ) -> ApplicationRow {
        ApplicationRow {
            application: 0, // the number is assigned by `enter`
            protocol,
            role,
            destination: destination.ip(),
            destination_port: destination.port(),
            ip_protocol,
            style: None,
            senders: Vec::new(),
            held: false,
            outcome: Outcome::default(),
            last: None,
        }
    }

    pub(crate) fn session(
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

    /// Assigns a number to an application, has the node carry out the commands for that number, and records the application
    /// unless the node rejects a command.
    pub(crate) fn enter(
        &mut self,
        row: ApplicationRow,
        template: Option<SenderTemplate>,
        lifetime: Lifetime,
        commands: impl FnOnce(u64) -> Vec<Command>,
    ) -> Result<Value, Problem> {
        let RequestHandler { hub, driver, client, now } = self;
        if hub.applications.len() >= MAX_APPLICATIONS {
            return Err(Problem::new(
                ProblemCode::Limit,
                format!("{MAX_APPLICATIONS} applications are open, which is the most there can be"),
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
        let owner = lifetime.hold.then_some(*client);
        let follower = lifetime.follow.then_some(*client);
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

/// The source of a flow to `to`; its address may be chosen by the node.
pub(crate) fn source(from: Option<SocketAddr>, to: SocketAddr) -> Result<SocketAddr, Problem> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = from.unwrap_or(SocketAddr::new(any, 0));
    if from.ip().is_unspecified() {
        return Ok(SocketAddr::new(any, from.port()));
    }
    if from.is_ipv4() != to.is_ipv4() {
        return Err(rejected(
            format!("{} and {} are of different IP versions", from.ip(), to.ip()),
            "both IPv4 or both IPv6",
        ));
    }
    Ok(from)
}

/// Name of a sender; empty if the node chooses its address.
pub(crate) fn named(from: SocketAddr) -> Vec<SenderName> {
    let name = SenderName { address: from.ip(), port: from.port(), flow_label: None };
    if from.ip().is_unspecified() { Vec::new() } else { vec![name] }
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

pub(crate) fn no_such_application(number: u64) -> Problem {
    Problem::new(
        ProblemCode::NoSuchApplication,
        format!("there is no application {number}"),
        "`earmark show applications` lists them",
    )
}

/// The rejection that an event of any protocol reports for an application.
fn refusal(event: &Event, number: u64) -> Option<Problem> {
    if application_of(event) != Some(number) {
        return None;
    }
    match event {
        Event::Rsvp(rsvp::Event::Rejected { reason, .. }) => {
            Some(rejected(reason.to_string(), protocols::rsvp::describe::hint(*reason)))
        }
        Event::Boomerang(boomerang::Event::Rejected { reason, .. }) => {
            let (what, hint) = protocols::boomerang::describe::rejection(*reason);
            Some(rejected(what.to_owned(), hint))
        }
        Event::Yessir(yessir::Event::Rejected { reason, .. }) => {
            Some(rejected(reason.to_string(), protocols::yessir::describe::hint(*reason)))
        }
        Event::Nsis(nsis::Event::Qos(qos::Event::Rejected { reason, .. })) => {
            let (what, hint) = protocols::nsis::describe::qos_rejection(*reason);
            Some(rejected(what.to_owned(), hint))
        }
        Event::Nsis(nsis::Event::Ping(ping::Event::Rejected { reason, .. })) => {
            Some(rejected(reason.to_string(), protocols::nsis::describe::ping_hint(*reason)))
        }
        _ => None,
    }
}

pub(crate) fn rejected(message: String, hint: &str) -> Problem {
    Problem::new(ProblemCode::Rejected, message, hint)
}

/// Converts an answer to JSON, which cannot fail for our own answers.
pub(crate) fn value(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
