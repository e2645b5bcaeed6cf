//! Changes of reservations: the changed request of an application, and the way back if the change is refused.

use earmark_control::{
    ApplicationId, ChangeRequest, Changed, ListenRequest, Problem, ReservationRequest,
};
use earmark_core::outcome::{Kind, Outcome};
use earmark_core::{Rate, Time};
use earmark_node::outcome::outcome_of;
use earmark_node::{Command, Event, Input};
use serde_json::Value;

use super::clients::ClientId;
use super::hub::{Application, Hub};
use super::requests::{RequestHandler, no_such_application, value};
use crate::driver::{Driver, Kernel};
use crate::protocol::{Detail, Host, Opening, Protocol, rejected};
use crate::protocols;

/// The request that opened an application.
#[derive(Clone, Debug)]
pub(super) enum Requested {
    /// A request to reserve.
    Reserve(Box<ReservationRequest>),
    /// A request to listen.
    Listen(Box<ListenRequest>),
    /// A request that cannot be changed.
    Other,
}

/// A change without an outcome so far.
#[derive(Debug)]
pub(super) struct PendingChange {
    /// Outcome before the change.
    before: Outcome,
    /// The request before the change.
    requested: Requested,
    /// Commands that undo the change.
    undo: Vec<Command>,
    /// Client that receives the application's events until the outcome, and with whose connection the change ends.
    follower: Option<ClientId>,
}

impl Requested {
    fn rate(&self) -> Option<Rate> {
        match self {
            Requested::Reserve(request) => request.rate_bps,
            Requested::Listen(request) => request.rate_bps,
            Requested::Other => None,
        }
    }

    /// Returns the changed request.
    ///
    /// # Errors
    /// The request has no such parameter.
    fn changed(
        &self,
        protocol: &dyn Protocol,
        change: &ChangeRequest,
    ) -> Result<Requested, Problem> {
        let ChangeRequest { rate_bps, burst_octets, peak_bps, token, options, .. } = change;
        check_changeable(change, protocol)?;
        let mut requested = self.clone();
        let (identity, own, rate) = match &mut requested {
            Requested::Reserve(request) if request.query => return Err(unchangeable("a query")),
            Requested::Reserve(request) => {
                request.burst_octets = burst_octets.unwrap_or(request.burst_octets);
                request.peak_bps = peak_bps.or(request.peak_bps);
                (&mut request.identity, &mut request.options, &mut request.rate_bps)
            }
            Requested::Listen(_) if burst_octets.is_some() || peak_bps.is_some() => {
                return Err(rejected(
                    "a receiver that listens has no bucket depth and no peak rate".to_owned(),
                    "change only its rate; the rest is what senders announce",
                ));
            }
            Requested::Listen(request) => {
                (&mut request.identity, &mut request.options, &mut request.rate_bps)
            }
            Requested::Other => return Err(unchangeable("an application without a reservation")),
        };
        if let Some(new) = *rate_bps {
            *rate = Some(new);
            protocol.set_rate(own, new);
        }
        own.extend(options.clone());
        identity.token = token.clone().or(identity.token.take());
        Ok(requested)
    }

    /// Returns the commands that make this the request of an application.
    fn commands(
        &self,
        number: ApplicationId,
        protocol: &dyn Protocol,
        host: &dyn Host,
    ) -> Result<Vec<Command>, Problem> {
        let Opening { commands, .. } = match self {
            Requested::Reserve(request) => protocol.change((**request).clone(), host)?,
            Requested::Listen(request) => protocol.change_listener((**request).clone(), host)?,
            Requested::Other => return Ok(Vec::new()),
        };
        Ok(commands(number))
    }
}

/// Checks that the protocol changes what a request sets beside its rates.
fn check_changeable(change: &ChangeRequest, protocol: &dyn Protocol) -> Result<(), Problem> {
    let Some(known) = protocol.changeable_options() else { return Ok(()) };
    let other = change.options.keys().map(String::as_str).find(|option| !known.contains(option));
    let what = match other {
        Some(option) => format!("option {option:?}"),
        None if change.token.is_some() => "token".to_owned(),
        None => return Ok(()),
    };
    Err(rejected(
        format!("the {what} of a reservation by {} cannot be changed", protocol.name()),
        "release it, and reserve again",
    ))
}

fn unchangeable(what: &str) -> Problem {
    rejected(
        format!("{what} cannot be changed"),
        "`earmark show applications` lists what reserves or listens",
    )
}

impl Application {
    /// Returns the clients that receive the application's events.
    pub(super) fn followers(&self) -> impl Iterator<Item = ClientId> + use<> {
        let changing = self.change.as_ref().and_then(|change| change.follower);
        self.follower.into_iter().chain(changing)
    }

    /// Ends a pending change if an event reports its outcome. After a refusal the earlier request and its outcome are
    /// restored; returns the commands for this, if the engine does not do so by itself.
    pub(super) fn settle_change(&mut self, event: &Event) -> Option<(ApplicationId, Vec<Command>)> {
        let reported = outcome_of(event).filter(|reported| reported.kind != Kind::Pending)?;
        let protocol = protocols::find(&self.row.protocol)?;
        if protocol.is_preliminary(event) {
            return None;
        }
        let PendingChange { before, requested, undo, .. } = *self.change.take()?;
        let restored = reported.after_refused_change(&before);
        let is_refused = restored.is_some();
        if !is_refused && reported.kind != Kind::Unanswered {
            return None;
        }
        self.requested = requested;
        if let Some(restored) = restored {
            self.row.outcome = restored;
        }
        let is_done = is_refused && protocol.restores_refused_change();
        (!is_done).then_some((self.row.application, undo))
    }

    /// Returns the time of the request if this event reports its first outcome, and no more exact one follows.
    pub(super) fn settle_request(&mut self, event: &Event, outcome: Kind) -> Option<Time> {
        let protocol = protocols::find(&self.row.protocol)?;
        let is_settled = outcome != Kind::Pending && !protocol.is_preliminary(event);
        self.awaits_outcome_since.take_if(|_| is_settled)
    }

    /// Undoes a change without an outcome that a client has requested; returns the commands for this.
    pub(super) fn undo_change_of(&mut self, client: ClientId) -> Option<Vec<Command>> {
        let change = self.change.take_if(|change| change.follower == Some(client))?;
        let PendingChange { before, requested, undo, .. } = *change;
        (self.requested, self.row.outcome) = (requested, before);
        Some(undo)
    }
}

impl Hub {
    /// Returns to the earlier requests of the applications whose change was refused.
    pub(super) fn undo_refused_changes<K: Kernel>(&mut self, now: Time, driver: &mut Driver<K>) {
        for (number, commands) in std::mem::take(&mut self.refused_changes) {
            if self.applications.contains_key(&number) {
                for command in commands {
                    driver.handle(now, Input::Command(command));
                }
            }
        }
    }
}

impl<K: Kernel> RequestHandler<'_, K> {
    /// Changes the request of an application.
    ///
    /// # Errors
    /// The application is unknown or has nothing to change, or the node rejects the change; then nothing has changed.
    pub(super) fn change(&mut self, change: &ChangeRequest) -> Result<Value, Problem> {
        let number = change.application;
        // Earlier events must not be taken for the outcome of the commands, and may undo an earlier change.
        self.hub.publish(self.now, self.driver);
        let known = self.hub.applications.get(&number);
        let known = known.ok_or_else(|| no_such_application(number))?;
        let protocol = protocols::find(&known.row.protocol);
        let protocol = protocol.ok_or_else(|| unchangeable("this application"))?;
        if change.token.is_some() {
            Detail::Token.check(protocol)?;
        }
        let (row, earlier) = (known.row.clone(), known.requested.clone());
        let requested = earlier.changed(protocol, change)?;
        let commands = requested.commands(number, protocol, self)?;
        let undo = earlier.commands(number, protocol, self)?;
        let follower = change.follow.then_some(self.client);
        let rate_bps = earlier.rate();
        let mut is_first = false;
        if let Some(known) = self.hub.applications.get_mut(&number) {
            known.requested = requested;
            match &mut known.change {
                // After a refusal, what was granted last stands.
                Some(pending) => pending.follower = follower,
                none if row.outcome.kind.is_reserved() => {
                    is_first = true;
                    let (before, requested) = (row.outcome.clone(), earlier.clone());
                    *none = Some(Box::new(PendingChange { before, requested, undo, follower }));
                }
                _ => {}
            }
        }
        if let Err(problem) = self.carry_out_commands(number, commands) {
            if let Some(known) = self.hub.applications.get_mut(&number) {
                known.requested = earlier;
                known.change.take_if(|_| is_first);
            }
            return Err(problem);
        }
        Ok(value(Changed { before: row, rate_bps, at_s: self.now.as_secs_f64() }))
    }
}
