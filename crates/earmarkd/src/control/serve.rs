//! Requests of clients: lines are read, carried out and answered, as long as the client reads the answers.

use earmark_control::{ApplicationId, ApplicationRow, Problem, ProblemCode, Request, Response};
use earmark_core::Time;
use serde_json::{Value, json};
use tracing::debug;

use super::audit::Entry;
use super::clients::ClientId;
use super::connection::Line;
use super::counters::counters;
use super::hub::{Hub, say};
use super::listing::OwnRows;
use super::requests::RequestHandler;
use crate::driver::{Driver, Kernel};

impl Hub {
    /// Reads the requests of a client and carries them out.
    pub fn readable<K: Kernel>(&mut self, id: ClientId, now: Time, driver: &mut Driver<K>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        match client.fill() {
            Ok(()) => self.attend(id, now, driver),
            Err(error) => {
                debug!(?id, %error, "client lost");
                self.disconnect(id, now, driver);
            }
        }
    }

    /// Sends queued output to a client, and carries out requests that had to wait for that.
    pub fn writable<K: Kernel>(&mut self, id: ClientId, now: Time, driver: &mut Driver<K>) {
        self.attend(id, now, driver);
    }

    /// Carries out the requests of a client as long as it reads the answers.
    pub(super) fn attend<K: Kernel>(&mut self, id: ClientId, now: Time, driver: &mut Driver<K>) {
        loop {
            let Some(client) = self.clients.get_mut(&id) else {
                return;
            };
            let waiting = client.waiting();
            if let Err(error) = client.flush() {
                debug!(?id, %error, "client lost");
                return self.disconnect(id, now, driver);
            }
            if client.waiting() < waiting {
                client.active_at = now;
            }
            let Some(line) = client.next_line() else {
                break;
            };
            let answer = self.answer(id, line, now, driver);
            if self.clients.get(&id).is_some_and(|client| client.listing.is_some()) {
                break;
            }
            let response = match answer {
                Ok(value) => {
                    self.counters.requests += 1;
                    Response::Ok(value)
                }
                Err(problem) => {
                    self.counters.errors += 1;
                    Response::Error(problem)
                }
            };
            if let Some(client) = self.clients.get_mut(&id) {
                say(client, &response);
            }
            self.publish(now, driver);
        }
        if self.clients.get(&id).is_some_and(|client| client.is_done(now)) {
            self.disconnect(id, now, driver);
        }
    }

    fn answer<K: Kernel>(
        &mut self,
        id: ClientId,
        line: Line,
        now: Time,
        driver: &mut Driver<K>,
    ) -> Result<Value, Problem> {
        let Line::Text(text) = line else {
            return Err(Problem::new(
                ProblemCode::LineTooLong,
                "the line is longer than 65536 octets and was skipped",
                "one request is one line of JSON",
            ));
        };
        let request: Request = serde_json::from_slice(&text).map_err(|error| {
            Problem::new(
                ProblemCode::BadRequest,
                format!("invalid request: {error}"),
                r#"one JSON object a line, such as {"show":{"what":"links"}}; see docs/control-protocol.md"#,
            )
        })?;
        let Some(client) = self.clients.get_mut(&id) else {
            return Err(Problem::new(ProblemCode::BadRequest, "the client is gone", ""));
        };
        client.active_at = now;
        let (role, peer, is_page) = (client.role, client.peer.clone(), client.is_page);
        let entry = Entry::of(&request, self);
        let outcome = match self.roles.check(role, &peer, &request) {
            Ok(()) => RequestHandler { hub: self, driver, client: id, now }.carry_out(request),
            Err(problem) => Err(problem),
        };
        if let Some(entry) = entry {
            entry.log(&peer, is_page, &outcome);
        }
        outcome
    }

    /// Examines one slice of the listing of one client, the clients in turn.
    pub fn continue_listings<K: Kernel>(&mut self, now: Time, driver: &mut Driver<K>) {
        if !self.has_listings() {
            return;
        }
        let ids = self.clients.iter().filter(|(_, client)| client.can_list()).map(|(&id, _)| id);
        let (first, next) = ids.fold((None, None), |(first, next), id| {
            let next = next.or((id > self.last_listing).then_some(id));
            (first.or(Some(id)), next)
        });
        let Some(id) = next.or(first) else { return };
        self.last_listing = id;
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(mut listing) = client.listing.take() else { return };
        client.active_at = now;
        let answer = listing.advance(now, self, driver);
        self.publish(now, driver);
        let Some(client) = self.clients.get_mut(&id) else { return };
        match answer {
            Some(line) => {
                client.say_long(line);
                self.counters.requests += 1;
                self.attend(id, now, driver);
            }
            None => client.listing = Some(listing),
        }
    }

    /// Whether [`Hub::continue_listings`] has something to do.
    pub fn has_listings(&self) -> bool {
        self.clients.can_list(self.idle_timeout)
    }
}

impl OwnRows for Hub {
    fn applications(&self, from: ApplicationId) -> impl Iterator<Item = &ApplicationRow> {
        self.applications.range(from..).map(|(_, known)| &known.row)
    }

    fn counters<K: Kernel>(&self, driver: &Driver<K>) -> Value {
        json!(counters(driver, self.counters, self.log.counters()))
    }
}
