//! `earmark change`: another rate for a reservation that stands.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::text::with_port;
use earmark_control::{ApplicationId, ChangeRequest, Changed, Client, Event};
use earmark_core::Rate;
use earmark_core::amounts::{parse_duration, parse_octets, show_duration};
use earmark_core::outcome::{Kind, Outcome as Reach};
use serde_json::json;

use super::outcome::{Outcome, wrong_usage};
use super::token::read_token;
use crate::protocols;

/// Returns the help of `earmark change`.
fn change_help() -> String {
    format!("{EXAMPLES}\n\n{}\n\n{END}", protocols::CHANGE_NOTE)
}

const EXAMPLES: &str = "\
Examples:
  earmark change 7 --rate 4Mbit
  earmark change 7 --rate 4Mbit --burst 20kB --timeout 30s
  earmark change 7 --rate 500kbit      # less is granted as well, and the rest is free for others";

const END: &str = "\
If the path refuses, or nobody answers in time, the earlier reservation stays.
Exit status: 0 changed, 3 refused, 4 nobody answered in time (3 and 4: the earlier reservation stays).";

/// Change the rate of a reservation without a gap, and wait for the outcome.
#[derive(Args, Debug)]
#[command(after_help = change_help())]
pub(crate) struct ChangeOptions {
    /// Application that reserves; `earmark show applications` lists them.
    #[arg(value_name = "ID")]
    application: u64,
    /// New token rate: 64kbit, 2Mbit, 1.5Gbit.
    #[arg(long)]
    rate: Option<Rate>,
    /// New bucket depth, the largest burst: 1500, 20kB, 1MB.
    #[arg(long, value_name = "OCTETS", value_parser = parse_octets)]
    burst: Option<u32>,
    /// New peak rate.
    #[arg(long, value_name = "RATE")]
    peak: Option<Rate>,
    /// New rate of the way back, of a reservation for both directions.
    #[arg(long, value_name = "RATE", requires = "rate")]
    reverse: Option<Rate>,
    /// Prove the name of the user by the token in this file.
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Timeout of the outcome: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    timeout: Duration,
}

/// Refuses arguments that change nothing.
pub(super) fn check(options: &ChangeOptions) -> Result<(), Failure> {
    if options.rate.is_none() && options.burst.is_none() && options.peak.is_none() {
        return Err(wrong_usage("nothing to change: give --rate, --burst or --peak"));
    }
    Ok(())
}

pub(super) fn change(
    client: &mut Client,
    options: &ChangeOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let ChangeOptions { application, rate, burst, peak, reverse, timeout, .. } = *options;
    let token = options.token.as_ref().map(|file| read_token(file)).transpose()?;
    let both = rate.zip(reverse).map(|(forward, reverse)| protocols::both_rates(forward, reverse));
    let changed = client.change(ChangeRequest {
        rate_bps: rate,
        burst_octets: burst,
        peak_bps: peak,
        token: token.map(|token| token.to_string()),
        follow: true,
        options: both.unwrap_or_default(),
        ..ChangeRequest::new(ApplicationId(application))
    })?;
    let begun = Instant::now();
    let report = Report { options, changed: &changed };
    if !changed.before.outcome.kind.is_reserved() {
        return report.requested(out);
    }
    while let Some(event) = client.next_event(Some(begun + timeout))? {
        if protocols::is_preliminary(&event, changed.before.destination) {
            continue;
        }
        let Some(reach) = event.outcome.as_deref() else { continue };
        if reach.after_refused_change(&changed.before.outcome).is_some() {
            return report.refused(&event, reach, out);
        }
        match reach.kind {
            Kind::Pending => {}
            Kind::Unanswered => break,
            Kind::Ended | Kind::Refused => return report.ended(&event, reach, out),
            _ => {
                let before = &changed.before;
                let reach = protocols::verify_change(client, before, &event, reach.clone())?;
                return report.changed(&event, &reach, out);
            }
        }
    }
    report.unanswered(begun.elapsed(), out)
}

/// What is printed about a change.
struct Report<'a> {
    options: &'a ChangeOptions,
    changed: &'a Changed,
}

impl Report<'_> {
    /// Rate and destination, such as `4 Mbit/s to 10.0.2.2:5001`.
    fn what(&self, rate: Option<Rate>) -> String {
        let before = &self.changed.before;
        let to = with_port(before.destination, before.destination_port);
        rate.map_or(format!("the reservation to {to}"), |rate| format!("{rate} to {to}"))
    }

    fn stays(&self) -> String {
        format!("{} stays reserved", self.what(self.changed.rate_bps))
    }

    /// Prints the outcome.
    fn line(
        &self,
        text: &str,
        outcome: &Reach,
        rate: Option<Rate>,
        after: Option<Duration>,
        reason: Option<&str>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let json = json!({
            "application": self.options.application,
            "outcome": outcome,
            "rate_bps": rate,
            "after_ms": after.map(|after| after.as_secs_f64() * 1e3),
            "reason": reason,
        });
        out.line(text, &json)
    }

    /// Reports a change of a request that had reserved nothing.
    fn requested(&self, out: &mut Output) -> Result<Outcome, Failure> {
        let rate = self.options.rate.or(self.changed.rate_bps);
        let text = format!(
            "application {} requests {} now; nothing was reserved before",
            self.options.application,
            self.what(rate)
        );
        self.line(&text, &Reach::of(Kind::Pending), rate, None, None, out)?;
        Ok(Outcome::Done)
    }

    fn changed(&self, event: &Event, reach: &Reach, out: &mut Output) -> Result<Outcome, Failure> {
        let wanted = self.options.rate.or(self.changed.rate_bps);
        let rate = protocols::granted_rate(event).or(wanted);
        let after = event.since(self.changed.at_s);
        let text = format!("changed to {} in {}\n  {reach}", self.what(rate), show_duration(after));
        self.line(&text, reach, rate, Some(after), None, out)?;
        Ok(Outcome::Done)
    }

    fn refused(&self, event: &Event, reach: &Reach, out: &mut Output) -> Result<Outcome, Failure> {
        let after = event.since(self.changed.at_s);
        let help = match reach.available_bps {
            Some(available) if available > Rate::ZERO => {
                format!("{available} is available there")
            }
            _ => "release other reservations, or request less".to_owned(),
        };
        let text = format!(
            "refused after {}: {}\n  {}\n  help: {help}",
            show_duration(after),
            event.text,
            self.stays()
        );
        let reach = reach.after_refused_change(&self.changed.before.outcome);
        let reach = reach.unwrap_or_default();
        self.line(&text, &reach, self.changed.rate_bps, Some(after), Some(&event.text), out)?;
        Ok(Outcome::Refused)
    }

    /// Reports that the whole reservation has ended while the change was under way.
    fn ended(&self, event: &Event, reach: &Reach, out: &mut Output) -> Result<Outcome, Failure> {
        let after = event.since(self.changed.at_s);
        let text = format!("the reservation ended after {}: {}", show_duration(after), event.text);
        self.line(&text, reach, None, Some(after), Some(&event.text), out)?;
        Ok(Outcome::Refused)
    }

    fn unanswered(&self, within: Duration, out: &mut Output) -> Result<Outcome, Failure> {
        let time = show_duration(within);
        let why = "the change was not confirmed";
        let text = format!(
            "no answer within {time}: {why}\n  {}\n  help: {}",
            self.stays(),
            protocols::unconfirmed_change_help(&self.changed.before)
        );
        let before = &self.changed.before.outcome;
        self.line(&text, before, self.changed.rate_bps, Some(within), Some(why), out)?;
        Ok(Outcome::TimedOut)
    }
}
