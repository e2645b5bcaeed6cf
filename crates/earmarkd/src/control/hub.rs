//! All clients of the control socket, and the applications that the daemon runs for them.
//!
//! The hub owns the clients' file descriptors only and never blocks; the event loop tells it which clients are readable or
//! writable. All state of a client is bounded: clients, octets of a line, octets queued for sending, applications. A watcher
//! that reads too slowly gets an error and is disconnected, so that it does not slow the daemon down.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use earmark_core::Time;
use earmark_node::outcome::application_of;
use earmark_node::{Command, Event, Input, Node, outcome};
use serde_json::json;
use tracing::info;

use super::audit::TARGET as AUDIT;
use super::change::{PendingChange, Requested};
use super::clients::{ClientId, Clients};
use super::connection::Connection;
use super::counters::ControlCounters;
use super::event_log::log_event;
use super::events::to_client;
use super::roles::Roles;
use crate::config::Control;
use crate::describe;
use crate::driver::{Driver, Kernel};
use crate::log::Log;
use crate::log::kind::CONTROL_REQUEST;
use crate::metrics::Statistics;
use crate::protocol::Consequence;
use crate::protocols;
use crate::running_config::RunningConfig;
use earmark_control::{ApplicationId, ApplicationRow, Problem, ProblemCode, Response, SenderName};

/// Most applications at a time.
pub(crate) const MAX_APPLICATIONS: usize = 65_536;
/// Octets of events that may be queued for a watcher.
const MAX_UNREAD: usize = 1024 * 1024;
/// Time that a client has to read the remaining output before its connection is closed.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// All clients of the control socket, with their applications and traces.
#[derive(Debug, Default)]
pub struct Hub {
    pub(crate) node: String,
    pub(super) clients: Clients,
    /// Changes of the clients after which none was finished.
    swept: u64,
    pub(crate) applications: BTreeMap<ApplicationId, Application>,
    pub(super) last_client: u64,
    /// Client whose listing was continued last.
    pub(super) last_listing: ClientId,
    /// Owners of the traces in progress.
    pub(crate) traces: BTreeMap<ApplicationId, ClientId>,
    pub(crate) last_application: u64,
    /// Refused changes that the daemon has to undo.
    pub(super) refused_changes: Vec<(ApplicationId, Vec<Command>)>,
    pub(crate) counters: ControlCounters,
    /// What is counted for the metrics.
    pub(crate) statistics: Statistics,
    pub(super) roles: Roles,
    /// Time without a request after which a connection is closed that has no application, trace or watch.
    pub(super) idle_timeout: Duration,
    /// Log whose levels clients change, with a line for events that an operator wants to know.
    pub(crate) log: Log,
    /// The configuration, which clients change.
    pub(crate) config: RunningConfig,
}

/// An application, opened by `send`, `listen` or `reserve`.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) row: ApplicationRow,
    /// The sender, if events may concern the application without naming it.
    pub(crate) sender: Option<SenderName>,
    /// Client with whose connection the application ends.
    pub(crate) owner: Option<ClientId>,
    /// Client that receives the application's events.
    pub(crate) follower: Option<ClientId>,
    /// The request that opened the application, with its changes.
    pub(super) requested: Requested,
    /// A change without an outcome so far.
    pub(super) change: Option<Box<PendingChange>>,
    /// Time of the request, until its first outcome.
    pub(super) awaits_outcome_since: Option<Time>,
}

impl Hub {
    /// Creates a hub without clients for the node `node`.
    pub fn new(node: impl Into<String>) -> Hub {
        let idle_timeout = Control::new("").idle_timeout;
        Hub { node: node.into(), idle_timeout, ..Hub::default() }
    }

    /// Returns the hub with these roles of users and this timeout of idle connections.
    #[must_use]
    pub fn with(self, roles: Roles, idle_timeout: Duration) -> Hub {
        Hub { roles, idle_timeout, ..self }
    }

    /// Returns the hub with this log.
    #[must_use]
    pub fn with_log(self, log: Log) -> Hub {
        Hub { log, ..self }
    }

    /// Returns the hub with this configuration.
    #[must_use]
    pub fn with_config(self, config: RunningConfig) -> Hub {
        Hub { config, ..self }
    }

    /// Returns the configuration.
    pub fn config(&mut self) -> &mut RunningConfig {
        &mut self.config
    }

    /// Distributes the driver's events to watchers and followers. Must be called after every input.
    pub fn publish<K: Kernel>(&mut self, now: Time, driver: &mut Driver<K>) {
        for event in driver.take_events() {
            self.publish_one(now, &event, driver.node());
        }
        self.undo_refused_changes(now, driver);
    }

    /// Removes finished connections and those whose deadline has passed. Must be called by [`Hub::next_deadline`].
    pub fn sweep<K: Kernel>(&mut self, now: Time, driver: &mut Driver<K>) {
        if self.swept == self.clients.changes() && self.first_deadline().is_none_or(|at| at > now) {
            return;
        }
        self.close_idle(now);
        let done: Vec<ClientId> =
            self.clients.iter().filter(|(_, c)| c.is_done(now)).map(|(&id, _)| id).collect();
        for id in done {
            self.disconnect(id, now, driver);
        }
        self.swept = self.clients.changes();
    }

    /// Tells every client that the daemon stops.
    pub fn stop(&mut self) {
        let problem = Problem::new(
            ProblemCode::Stopping,
            "the daemon stops",
            "start it again with `earmarkd --config FILE`",
        );
        for client in self.clients.values_mut() {
            say(client, &Response::Error(problem.clone()));
            // A client that does not read now sees the end of the connection.
            let _ = client.flush();
        }
    }

    /// Every client with its descriptor, and whether the hub wants to read from it and write to it.
    pub fn interests(&self) -> impl Iterator<Item = (ClientId, BorrowedFd<'_>, bool, bool)> {
        use std::os::fd::AsFd;
        self.clients.iter().map(|(&id, c)| (id, c.as_fd(), c.wants_to_read(), c.waiting() > 0))
    }

    /// Time by which [`Hub::sweep`] and [`Hub::continue_listings`] must be called.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.has_listings() {
            return Some(Time::ZERO);
        }
        self.first_deadline()
    }

    /// Returns the time by which a connection must be closed or asked whether it is idle.
    fn first_deadline(&self) -> Option<Time> {
        self.clients.deadline(self.idle_timeout)
    }

    /// Returns the number of changes of the clients so far: [`Hub::interests`] are the same if it is the same.
    pub fn client_changes(&self) -> u64 {
        self.clients.changes()
    }

    pub(crate) fn watch(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.watching = true;
        }
    }

    pub(super) fn disconnect<K: Kernel>(
        &mut self,
        id: ClientId,
        now: Time,
        driver: &mut Driver<K>,
    ) {
        self.clients.remove(&id);
        self.traces.retain(|_, owner| *owner != id);
        let mut undone = Vec::new();
        let held: Vec<ApplicationId> = self
            .applications
            .iter_mut()
            .filter_map(|(&number, application)| {
                if application.follower == Some(id) {
                    application.follower = None;
                }
                if application.owner == Some(id) {
                    return Some(number);
                }
                undone.extend(application.undo_change_of(id).unwrap_or_default());
                None
            })
            .collect();
        for command in undone {
            driver.handle(now, Input::Command(command));
        }
        for number in held {
            info!(
                target: AUDIT,
                kind = CONTROL_REQUEST.name,
                application = %number,
                "released: its client has disconnected"
            );
            self.release(number, now, driver);
        }
    }

    /// Ends an application.
    pub(crate) fn release<K: Kernel>(
        &mut self,
        number: ApplicationId,
        now: Time,
        driver: &mut Driver<K>,
    ) {
        let known = self.applications.remove(&number);
        // A trace has no row, and ends by itself.
        let Some(protocol) = known.and_then(|known| protocols::find(&known.row.protocol)) else {
            return;
        };
        let command = protocol.release(number);
        driver.handle(now, Input::Command(command));
    }

    pub(crate) fn publish_one(&mut self, now: Time, event: &Event, node: &Node) {
        if let Some((part, kind)) = log_event(&self.log, event, node) {
            self.statistics.count_event(part, kind);
        }
        let on = || describe::interface_of(event).map(|id| node.interface_name(id));
        let words = || describe::event(event, &on().unwrap_or_default());
        let application = application_of(event).map(ApplicationId);
        let mut followers = Vec::new();
        let mut stands = None;
        if let Some(known) = application.and_then(|number| self.applications.get_mut(&number)) {
            known.row.last = Some(words());
            followers.extend(known.followers());
            stands = outcome::after(&known.row.outcome, event);
            if let Some(stands) = &stands {
                if let Some(since) = known.settle_request(event, stands.kind) {
                    self.statistics.count_outcome(&known.row.protocol, stands.kind, now - since);
                }
                known.row.outcome.clone_from(stands);
                self.refused_changes.extend(known.settle_change(event));
            }
        }
        if let Some(owner) = application.and_then(|number| self.traces.get(&number)) {
            followers.push(*owner);
        }
        if let Some(Consequence { outcome, apply }) =
            protocols::all().find_map(|protocol| protocol.consequence(event))
        {
            stands = outcome;
            for known in self.applications.values_mut() {
                if apply(&mut known.row, known.sender.as_ref(), &words) {
                    followers.extend(known.followers());
                    self.refused_changes.extend(known.settle_change(event));
                }
            }
        }
        let ends = protocols::all().any(|protocol| protocol.ends(event));
        if let Some(number) = application.filter(|_| ends) {
            self.applications.remove(&number);
            self.traces.remove(&number);
        }
        let listeners = self.clients.iter_mut().filter(|(id, client)| {
            client.closing.is_none() && (client.watching || followers.contains(id))
        });
        let mut text = None;
        for (_, client) in listeners {
            let text = text.get_or_insert_with(|| {
                let outcome = stands.take().or_else(|| outcome::outcome_of(event));
                to_line(&Response::Event(to_client(now, event, outcome, node)))
            });
            client.say(text);
            if client.waiting() > MAX_UNREAD {
                info!(
                    uid = client.peer.uid,
                    pid = client.peer.pid,
                    "a watching client does not keep up"
                );
                self.counters.dropped_watchers += 1;
                client.forget_waiting();
                client.closing = Some(now + CLOSE_TIMEOUT);
                say(
                    client,
                    &Response::Error(Problem::new(
                        ProblemCode::TooSlow,
                        "events were lost because this connection reads too slowly",
                        "watch again, and read without waiting in between",
                    )),
                );
            }
        }
    }
}

pub(super) fn say(client: &mut Connection, response: &Response) {
    client.say(&to_line(response));
}

/// Formats `response` as a line. Our own responses always serialize; otherwise the client would get the error.
fn to_line(response: &Response) -> String {
    serde_json::to_string(response)
        .unwrap_or_else(|error| json!({ "error": { "message": error.to_string() } }).to_string())
}
