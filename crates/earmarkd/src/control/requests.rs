//! Handling of requests.

use std::net::IpAddr;

use earmark_control::{
    ApplicationId, ApplicationRow, Keep, LogRequest, Opened, Problem, ProblemCode, Release,
    Released, Request, Show, TraceBegun, VERSION, Versions, Watching,
};
use earmark_core::Time;
use earmark_node::outcome::application_of;
use earmark_node::{Command, Event, Input, Node};
use serde::Serialize;
use serde_json::Value;
use tracing::debug;

use super::change::Requested;
use super::clients::ClientId;
use super::hub::{Application, Hub, MAX_APPLICATIONS};
use super::listing::PendingListing;
use super::path::PathLookup;
use crate::driver::{Driver, Kernel};
use crate::protocol::{
    Action, Host, Opening, Protocol, Tracing, check_listener, check_reservation, rejected,
};
use crate::protocols;

/// Context of a request: the client, the time, and the parts of the daemon that the request may concern.
pub(crate) struct RequestHandler<'a, K> {
    pub(crate) hub: &'a mut Hub,
    pub(crate) driver: &'a mut Driver<K>,
    pub(crate) client: ClientId,
    pub(crate) now: Time,
}

impl<K: Kernel> RequestHandler<'_, K> {
    /// Carries out `request` and returns its answer; that of a listing follows ([`Hub::continue_listings`]).
    pub(crate) fn carry_out(&mut self, request: Request) -> Result<Value, Problem> {
        match request {
            Request::Show(request) => self.begin_listing(&request),
            Request::Watch(_) => {
                self.hub.watch(self.client);
                Ok(value(Watching { node: self.hub.node.clone() }))
            }
            Request::Keep(request) => self.keep(request),
            Request::Release(request) => self.release(request),
            Request::Reserve(request) => {
                let protocol = protocol(&request.protocol)?;
                check_reservation(protocol, &request)?;
                let opening = protocol.reserve(request.clone(), self)?;
                self.open(opening, Requested::Reserve(Box::new(request)))
            }
            Request::Listen(request) => {
                let protocol = protocol(&request.protocol)?;
                check_listener(protocol, &request)?;
                let opening = protocol.listen(request.clone(), self)?;
                self.open(opening, Requested::Listen(Box::new(request)))
            }
            Request::Change(request) => self.change(&request),
            Request::Ping(_)
            | Request::Open(_)
            | Request::Expose(_)
            | Request::Statistics(_)
            | Request::Trace(_) => self.of_one_protocol(&request),
            Request::Path(request) => {
                let mut lookup = PathLookup { driver: self.driver, now: self.now };
                lookup.answer(&request).map(value)
            }
            Request::Log(request) => self.log(&request),
            Request::Config(request) => self.config(request).map(value),
            Request::Version(_) => Ok(value(Versions {
                protocol: VERSION,
                earmark: env!("CARGO_PKG_VERSION").to_owned(),
            })),
        }
    }

    /// Carries out a request that only one protocol has.
    fn of_one_protocol(&mut self, request: &Request) -> Result<Value, Problem> {
        let found = protocols::all()
            .find_map(|protocol| Some((protocol, protocol.request(request, self)?)));
        let Some((protocol, action)) = found else {
            let message = "invalid request: no protocol of this daemon has it";
            return Err(Problem::new(ProblemCode::BadRequest, message, ""));
        };
        match action? {
            Action::Open(opening) => self.open(opening, Requested::Other),
            Action::Trace(tracing) => self.trace(tracing),
            Action::Command(application, command, answer) => {
                let known = self.hub.applications.get(&application);
                known
                    .filter(|application| application.row.protocol == protocol.name())
                    .ok_or_else(|| no_such_application(application))?;
                self.driver.handle(self.now, Input::Command(command));
                Ok(answer)
            }
        }
    }

    fn log(&mut self, request: &LogRequest) -> Result<Value, Problem> {
        let invalid = |message: String, hint| Problem::new(ProblemCode::BadRequest, message, hint);
        if request.for_ms.is_some() && request.set.is_empty() {
            let message = "invalid request: for_ms without levels to set".to_owned();
            return Err(invalid(
                message,
                "for example {\"set\":{\"all\":\"debug\"},\"for_ms\":600000}",
            ));
        }
        let log = &self.hub.log;
        if request.changes() {
            let uid = self.hub.clients.get(&self.client).map_or(0, |client| client.peer.uid);
            log.set(request, uid).map_err(|error| {
                invalid(error.to_string(), "`earmark log show` lists the targets")
            })?;
        }
        Ok(value(log.answer()))
    }

    /// Begins a listing, whose answer follows slice by slice.
    fn begin_listing(&mut self, request: &Show) -> Result<Value, Problem> {
        let listing = PendingListing::begin(request, self.driver)?;
        if let Some(client) = self.hub.clients.get_mut(&self.client) {
            client.listing = Some(listing);
        }
        Ok(Value::Null)
    }

    fn release(&mut self, request: Release) -> Result<Value, Problem> {
        let applications: Vec<ApplicationId> = match request {
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

    /// Assigns a number to an application, has the node carry out the commands for that number, and records the application
    /// unless the node rejects a command.
    fn open(&mut self, opening: Opening, requested: Requested) -> Result<Value, Problem> {
        let Opening { row, sender, follow, commands } = opening;
        let RequestHandler { hub, driver, client, now } = self;
        if hub.applications.len() >= MAX_APPLICATIONS {
            return Err(Problem::new(
                ProblemCode::Limit,
                format!("application limit {MAX_APPLICATIONS} reached"),
                "`earmark show applications` lists them, `earmark release` ends them",
            ));
        }
        // Earlier events must not be taken for the outcome of the commands.
        hub.publish(*now, driver);
        hub.last_application += 1;
        let number = ApplicationId(hub.last_application);
        let row = ApplicationRow { application: number, ..row };
        let (role, protocol) = (row.role, row.protocol.clone());
        let (destination, port) = (row.destination, row.destination_port);
        let owner = row.held.then_some(*client);
        let follower = follow.then_some(*client);
        let change = None;
        let is_request = matches!(requested, Requested::Reserve(_));
        let awaits_outcome_since = is_request.then_some(*now);
        let application =
            Application { row, sender, owner, follower, requested, change, awaits_outcome_since };
        hub.applications.insert(number, application);
        if let Err(problem) = self.carry_out_commands(number, commands(number)) {
            self.hub.release(number, self.now, self.driver);
            return Err(problem);
        }
        let now = self.now;
        debug!(application = %number, %protocol, ?role, %destination, port, "opened");
        Ok(value(Opened { application: number, role, at_s: now.as_secs_f64() }))
    }

    /// Has the node carry out the commands of an application.
    ///
    /// # Errors
    /// The node rejects a command.
    pub(super) fn carry_out_commands(
        &mut self,
        number: ApplicationId,
        commands: Vec<Command>,
    ) -> Result<(), Problem> {
        let RequestHandler { hub, driver, now, .. } = self;
        for command in commands {
            driver.handle(*now, Input::Command(command));
            let events = driver.take_events();
            if let Some(problem) = events.iter().find_map(|event| refusal(event, number)) {
                return Err(problem);
            }
            for event in &events {
                hub.publish_one(*now, event, driver.node());
            }
        }
        Ok(())
    }

    /// Assigns a number to a trace, and has the node begin it.
    fn trace(&mut self, tracing: Tracing) -> Result<Value, Problem> {
        let Tracing { sender, command, rejection } = tracing;
        let RequestHandler { hub, driver, client, now } = self;
        // Earlier events must not be taken for the outcome of the command.
        hub.publish(*now, driver);
        hub.last_application += 1;
        let number = ApplicationId(hub.last_application);
        hub.traces.insert(number, *client);
        driver.handle(*now, Input::Command(command(number)));
        let events = driver.take_events();
        if let Some(problem) = events.iter().find_map(|event| rejection(event, number)) {
            hub.traces.remove(&number);
            return Err(problem);
        }
        for event in &events {
            hub.publish_one(*now, event, driver.node());
        }
        Ok(value(TraceBegun { trace: number, sender, at_s: now.as_secs_f64() }))
    }
}

impl<K: Kernel> Host for RequestHandler<'_, K> {
    fn is_local(&self, address: IpAddr) -> bool {
        self.driver.is_local(address)
    }

    fn can_signal(&self, destination: IpAddr) -> bool {
        self.driver.kernel_ref().can_signal(destination)
    }

    fn name(&self) -> &str {
        &self.hub.node
    }

    fn node(&self) -> &Node {
        self.driver.node()
    }
}

/// Returns a protocol by its name.
fn protocol(name: &str) -> Result<&'static dyn Protocol, Problem> {
    protocols::find(name).ok_or_else(|| {
        let names = protocols::all().map(Protocol::name).collect::<Vec<_>>().join(", ");
        Problem::new(
            ProblemCode::BadRequest,
            format!("invalid request: unknown protocol {name:?}"),
            format!("one of {names}"),
        )
    })
}

pub(super) fn no_such_application(number: ApplicationId) -> Problem {
    Problem::new(
        ProblemCode::NoSuchApplication,
        format!("unknown application {number}"),
        "`earmark show applications` lists them",
    )
}

/// Returns the rejection that an event of any protocol reports for an application.
fn refusal(event: &Event, number: ApplicationId) -> Option<Problem> {
    if application_of(event) != Some(number.0) {
        return None;
    }
    let rejection = protocols::all().find_map(|protocol| protocol.rejection(event));
    rejection.map(|(message, hint)| rejected(message, hint))
}

/// Converts an answer to JSON, which cannot fail for our own answers.
pub(crate) fn value(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
