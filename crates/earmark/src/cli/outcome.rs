//! Outcome of a request, with one wording, one JSON form and one set of exit statuses for all protocols.
//!
//! A reservation that covers less of the path than requested is released again unless `--partial` is given: after an exit
//! status other than 0 nothing is left behind.

use std::time::{Duration, Instant};

use earmark_core::amounts::show_duration;
use earmark_core::outcome::{Kind, Outcome as Reach};
use serde_json::{Value, json};

use super::reservations::follow;
use super::{Failure, Outcome, Output};
use crate::client::{Client, ClientError};
use crate::control::protocol::{Notice, Opened, ProblemCode};

/// An application whose outcome is awaited. Until the outcome is good, the application is tied to the connection, so that
/// nothing is left behind however this command ends.
pub(super) struct Wait<'a> {
    pub(super) client: &'a mut Client,
    pub(super) opened: Opened,
    /// Remaining time to wait.
    pub(super) timeout: Duration,
    /// Whether the application ends with this command.
    pub(super) hold: bool,
    /// Whether a part of the path is enough.
    pub(super) partial: bool,
    pub(super) out: &'a mut Output,
}

/// A granted reservation.
pub(super) struct Granted<'t> {
    /// Rate and destination, such as `2 Mbit/s to 10.0.2.2:5001`.
    pub(super) what: &'t str,
    pub(super) reach: Reach,
    /// Further members of the JSON object.
    pub(super) more: Value,
}

/// A refusal.
pub(super) struct Refusal<'t> {
    pub(super) why: &'t str,
    /// Advice; empty if none is known.
    pub(super) hint: &'t str,
    pub(super) reach: Reach,
    /// Further members of the JSON object.
    pub(super) more: Value,
}

impl Wait<'_> {
    /// Waits for the next event; `None` on timeout.
    pub(super) fn next(&mut self) -> Result<Option<Notice>, Failure> {
        let begun = Instant::now();
        let notice = self.client.next_event(Some(begun + self.timeout))?;
        self.timeout = self.timeout.saturating_sub(begun.elapsed());
        Ok(notice)
    }

    /// Reports a reservation. Keeps it if it reaches as far as requested, and releases it otherwise.
    pub(super) fn reserved(
        mut self,
        notice: &Notice,
        granted: Granted<'_>,
    ) -> Result<Outcome, Failure> {
        let Granted { what, reach, more } = granted;
        let (application, setup) = (self.opened.application, self.since(notice));
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
    pub(super) fn offered(self, granted: Granted<'_>) -> Result<Outcome, Failure> {
        let Granted { what, reach, more } = granted;
        let mut json = json!({ "outcome": reach, "role": self.opened.role });
        extend(&mut json, more);
        self.out.line(&format!("{what}\n  {reach}"), &json)?;
        Ok(self.status(reach.kind))
    }

    pub(super) fn refused(
        mut self,
        notice: &Notice,
        refusal: Refusal<'_>,
    ) -> Result<Outcome, Failure> {
        let after = self.since(notice);
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
    pub(super) fn timed_out(
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

    pub(super) fn since(&self, notice: &Notice) -> Duration {
        Duration::try_from_secs_f64(notice.at_s - self.opened.at_s).unwrap_or_default()
    }

    /// Releases the application, unless the node has done so already.
    pub(super) fn release(&mut self) -> Result<(), Failure> {
        match self.client.release(self.opened.application) {
            Err(ClientError::Refused(problem))
                if problem.code == ProblemCode::NoSuchApplication =>
            {
                Ok(())
            }
            outcome => Ok(outcome.map(drop)?),
        }
    }
}

/// The reach that an event reports; unverified if the daemon reports none.
pub(super) fn reach_of(notice: &Notice) -> Reach {
    notice.outcome.as_deref().cloned().unwrap_or(Reach::of(Kind::Unverified))
}

/// Advice about a reservation that reaches less far than requested.
fn hint(reach: &Reach) -> &'static str {
    match reach.kind {
        _ if reach.translation.is_some() => {
            "signal on one side of the translator, or exempt the protocol and the flow from translation; --partial keeps \
             what there is"
        }
        Kind::OnlyHere => {
            "run a daemon on the routers of the path; --partial keeps what this node alone reserves"
        }
        _ => "run a daemon on the hops that take no part; --partial keeps what there is",
    }
}

pub(super) fn extend(json: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (json, more) {
        all.extend(more);
    }
}
