//! Outcome of a request, with one wording, one JSON form and one set of exit statuses for all protocols.
//!
//! A reservation that covers less of the path than requested is released again unless `--partial` is given: after an exit
//! status other than 0 nothing is left behind.

use std::time::{Duration, Instant};

use earmark_control::command::{Failure, Output};
use earmark_control::{ApplicationId, Client, ClientError, Event, Opened, ProblemCode};
use earmark_core::amounts::show_duration;
use earmark_core::outcome::{Kind, Outcome as Reach};
use serde_json::{Value, json};

use super::arguments::reservation::Reservation;
use super::outcome::Outcome;
use super::reservations::follow;

/// An application whose outcome is awaited. Until the outcome is good, the application is tied to the connection, so that
/// nothing is left behind however this command ends.
pub(crate) struct Wait<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) opened: Opened,
    /// Time to wait.
    pub(crate) timeout: Duration,
    /// Whether the application ends with this command.
    pub(crate) hold: bool,
    /// Whether a part of the path is enough.
    pub(crate) partial: bool,
    pub(crate) out: &'a mut Output,
}

/// A granted reservation.
pub(crate) struct Granted {
    /// Rate and destination, such as `2 Mbit/s to 10.0.2.2:5001`.
    pub(crate) what: String,
    pub(crate) reach: Reach,
    /// Further members of the JSON object.
    pub(crate) more: Value,
}

/// A refusal.
pub(crate) struct Refusal {
    pub(crate) why: String,
    /// Advice; empty if none is known.
    pub(crate) hint: String,
    pub(crate) reach: Reach,
    /// Further members of the JSON object.
    pub(crate) more: Value,
}

/// Meaning of an event for a request whose outcome is awaited.
pub(crate) enum Verdict {
    /// The reservation stands.
    Reserved(Granted),
    /// A query, which reserves nothing, has found bandwidth.
    Offered(Granted),
    /// The request was refused.
    Refused(Refusal),
    /// This node cannot carry out the request; the reason.
    Impossible(String),
    /// No answer has arrived in time: what is missing, and advice.
    TimedOut(&'static str, &'static str),
    /// The outcome is still open.
    Open,
}

/// A request of one protocol whose outcome is awaited.
pub(crate) trait Awaited {
    /// Returns the meaning of an event.
    fn verdict(&mut self, event: &Event) -> Verdict;

    /// Finds out how far a reservation reaches if its messages leave that open.
    fn verify(&self, _client: &mut Client, reach: Reach) -> Result<Reach, Failure> {
        Ok(reach)
    }

    /// Returns what is missing when time is up, and advice.
    fn timeout_advice(&self) -> (&'static str, &'static str);
}

impl<'a> Wait<'a> {
    /// Creates a wait for the outcome of `earmark reserve`.
    pub(crate) fn new(
        client: &'a mut Client,
        opened: Opened,
        options: &Reservation,
        out: &'a mut Output,
    ) -> Wait<'a> {
        let Reservation { timeout, partial, .. } = *options;
        Wait { client, opened, timeout, hold: options.traffic.hold, partial, out }
    }

    /// Waits for the outcome and reports it.
    pub(crate) fn run(mut self, mut awaited: impl Awaited) -> Result<Outcome, Failure> {
        let (within, begun) = (self.timeout, Instant::now());
        let mut known = Reach::default();
        while let Some(event) = self.client.next_event(Some(begun + within))? {
            match awaited.verdict(&event) {
                Verdict::Reserved(granted) => {
                    let reach = awaited.verify(self.client, granted.reach)?;
                    return self.reserved(&event, Granted { reach, ..granted });
                }
                Verdict::Offered(granted) => return self.offered(granted),
                Verdict::Refused(refusal) => return self.refused(&event, refusal),
                Verdict::Impossible(reason) => {
                    self.release()?;
                    return Err(Failure::new("rejected", reason, ""));
                }
                Verdict::TimedOut(why, hint) => {
                    return self.timed_out(&known, begun.elapsed(), why, hint);
                }
                Verdict::Open => {
                    let translated = event.outcome.filter(|reach| reach.translation.is_some());
                    known = translated.map_or(known, |reach| *reach);
                }
            }
        }
        let (why, hint) = awaited.timeout_advice();
        self.timed_out(&known, within, why, hint)
    }

    /// Reports a reservation. Keeps it if it reaches as far as requested, and releases it otherwise.
    fn reserved(mut self, event: &Event, granted: Granted) -> Result<Outcome, Failure> {
        let Granted { what, reach, more } = granted;
        let (application, setup) = (self.opened.application, event.since(self.opened.at_s));
        let status = self.status(reach.kind);
        let kept = status == Outcome::Done;
        if !kept {
            self.release()?;
        } else if !self.hold {
            self.client.keep(application)?;
        }
        let mut json = json!({
            "outcome": reach,
            "application": kept.then_some(application),
            "role": self.opened.role,
            "setup_ms": setup.as_secs_f64() * 1e3,
        });
        extend(&mut json, more);
        let time = show_duration(setup);
        let text = if kept {
            let end = match self.hold {
                true => "it ends with this command".to_owned(),
                false => format!("`earmark release {application}` ends it"),
            };
            format!("reserved {what} in {time}; {end}\n  {reach}")
        } else {
            let hint = hint(&reach);
            extend(&mut json, json!({ "hint": hint }));
            format!(
                "not reserved on the whole path, and released: {what}\n  {reach}\n  help: {hint}"
            )
        };
        self.out.line(&text, &json)?;
        if kept && self.hold { follow(self.client, self.out) } else { Ok(status) }
    }

    /// Reports what a query, which reserves nothing, has found available.
    fn offered(self, granted: Granted) -> Result<Outcome, Failure> {
        let Granted { what, reach, more } = granted;
        let mut json = json!({ "outcome": reach, "role": self.opened.role });
        extend(&mut json, more);
        self.out.line(&format!("{what}\n  {reach}"), &json)?;
        Ok(self.status(reach.kind))
    }

    fn refused(mut self, event: &Event, refusal: Refusal) -> Result<Outcome, Failure> {
        let after = event.since(self.opened.at_s);
        self.release()?;
        let Refusal { why, hint, reach, more } = refusal;
        let mut json = json!({
            "outcome": Reach { kind: Kind::Refused, ..reach },
            "role": self.opened.role,
            "reason": why,
            "hint": hint,
            "after_ms": after.as_secs_f64() * 1e3,
        });
        extend(&mut json, more);
        let help = if hint.is_empty() { String::new() } else { format!("\n  help: {hint}") };
        self.out.line(&format!("refused after {}: {why}{help}", show_duration(after)), &json)?;
        Ok(Outcome::Refused)
    }

    /// Reports a timeout; `reach` is the last known one.
    fn timed_out(
        mut self,
        reach: &Reach,
        within: Duration,
        why: &str,
        hint: &str,
    ) -> Result<Outcome, Failure> {
        self.release()?;
        let translation = reach.translation;
        let outcome = Reach { translation, ..Reach::of(Kind::Unanswered) };
        let (why, hint) = match translation {
            Some(translation) => (
                translation.to_string(),
                "signal on one side of the translator, or exempt the protocol and the flow from translation",
            ),
            None => (why.to_owned(), hint),
        };
        let json = json!({
            "outcome": outcome,
            "role": self.opened.role,
            "reason": why,
            "hint": hint,
        });
        let time = show_duration(within);
        self.out.line(&format!("no answer within {time}: {why}\n  help: {hint}"), &json)?;
        Ok(Outcome::TimedOut)
    }

    /// The exit status of a reservation that reaches this far.
    fn status(&self, kind: Kind) -> Outcome {
        match kind {
            _ if self.partial && kind.is_reserved() => Outcome::Done,
            Kind::Whole | Kind::Unverified => Outcome::Done,
            Kind::Part => Outcome::Part,
            Kind::OnlyHere => Outcome::OnlyHere,
            Kind::Refused | Kind::Ended => Outcome::Refused,
            Kind::Pending | Kind::Unanswered => Outcome::TimedOut,
        }
    }

    fn release(&mut self) -> Result<(), Failure> {
        release(self.client, self.opened.application)
    }
}

/// Releases an application, unless the node has done so already.
pub(crate) fn release(client: &mut Client, application: ApplicationId) -> Result<(), Failure> {
    match client.release(application) {
        Err(ClientError::Refused(problem)) if problem.code == ProblemCode::NoSuchApplication => {
            Ok(())
        }
        outcome => Ok(outcome.map(drop)?),
    }
}

/// Returns the next event of a protocol about an application; `None` after the deadline, or if the daemon stops.
pub(crate) fn next_event(
    client: &mut Client,
    protocol: &str,
    application: ApplicationId,
    deadline: Option<Instant>,
) -> Result<Option<Event>, Failure> {
    while let Some(event) = client.next_event(deadline)? {
        if event.protocol == protocol && event.application == Some(application) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// The reach that an event reports; unverified if the daemon reports none.
pub(crate) fn reach_of(event: &Event) -> Reach {
    event.outcome.as_deref().cloned().unwrap_or(Reach::of(Kind::Unverified))
}

/// Advice about a reservation that reaches less far than requested.
fn hint(reach: &Reach) -> &'static str {
    match reach.kind {
        _ if reach.translation.is_some() => {
            "signal on one side of the translator, or exempt the protocol and the flow from translation; --partial keeps \
             the reservation"
        }
        Kind::OnlyHere => {
            "run a daemon on the routers of the path; --partial keeps the reservation of this node"
        }
        _ => "run a daemon on the hops that take no part; --partial keeps the reservation",
    }
}

fn extend(json: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (json, more) {
        all.extend(more);
    }
}
