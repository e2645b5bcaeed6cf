//! Steps of Tables 3 to 8 in a daemon that has the kernel's routes and its traffic control, as the published ones had.

use anyhow::{Context, Result};
use earmark_core::checkpoint::Checkpoint as C;

use crate::bench::router::Protocol;
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{Axis, Cell, Figure, Kind, Point, Section, Series, Table};
use crate::paper_reproduction::steps::{Steps, Times};

/// Key of a step that is part of another one here.
const FIND_BEFORE_TEAR: &str = "table6_rsvp_path_tear_steps.find_session";

/// A published step, and our steps that do the same work.
struct Counterpart {
    key: &'static str,
    /// Further published step that the same of our steps does.
    and: Option<&'static str>,
    protocol: Protocol,
    message: &'static str,
    steps: &'static [C],
    /// Difference, if any.
    note: Option<&'static str>,
}

const fn one(
    key: &'static str,
    protocol: Protocol,
    message: &'static str,
    steps: &'static [C],
) -> Counterpart {
    Counterpart { key, and: None, protocol, message, steps, note: None }
}

impl Counterpart {
    const fn but(self, note: &'static str) -> Counterpart {
        Counterpart { note: Some(note), ..self }
    }

    const fn and(self, key: &'static str) -> Counterpart {
        Counterpart { and: Some(key), ..self }
    }

    /// Returns the table and the name of the step.
    fn table_and_step(&self) -> (&'static str, String) {
        let (table, step) = self.key.split_once('.').unwrap_or(("", self.key));
        (table, step.replace('_', " "))
    }
}

const PATH: &str = "Path, new";
const RESV: &str = "Resv, new";
const OUT: &str = "set-up, out";
const RELEASE: &str = "release, out";
const SENT: &str = "with sending the message";
const CONTROLLED: &str = "with the kernel's traffic control";

/// Mapping of the steps.
const COUNTERPARTS: [Counterpart; 21] = {
    use Protocol::{Boomerang, Rsvp};
    [
        one("table3_rsvp_path_steps.find_session", Rsvp, PATH, &[C::FindSession]),
        one("table3_rsvp_path_steps.create_session", Rsvp, PATH, &[C::CreateSession]),
        one("table3_rsvp_path_steps.search_psb", Rsvp, PATH, &[C::SearchPsb]),
        one("table3_rsvp_path_steps.create_psb", Rsvp, PATH, &[C::CreatePsb]),
        one("table3_rsvp_path_steps.route_computation", Rsvp, PATH, &[C::Route])
            .but("looks into the daemon's copy of the kernel's routes; ISI RSVP asked the kernel"),
        one("table3_rsvp_path_steps.path_refresh", Rsvp, PATH, &[C::PathRefresh, C::HandOut])
            .but(SENT),
        one("table4_rsvp_resv_steps.find_session", Rsvp, RESV, &[C::FindSession])
            .but("finds session and sender in one look"),
        one("table4_rsvp_resv_steps.check_styles", Rsvp, RESV, &[C::CheckStyles]),
        one("table4_rsvp_resv_steps.reservation_management", Rsvp, RESV, RESERVE).but(CONTROLLED),
        one("table4_rsvp_resv_steps.reservation_refresh", Rsvp, RESV, &[C::ResvRefresh, C::HandOut])
            .but(SENT),
        one("table5_boomerang_steps.find_session", Boomerang, OUT, &[C::FindSession]),
        one("table5_boomerang_steps.create_session", Boomerang, OUT, &[C::CreateSession]),
        one("table5_boomerang_steps.reservation_management", Boomerang, OUT, BY_ROUTE)
            .but("with the kernel's traffic control, and with the look for the route, which their firewall knew"),
        one("table6_rsvp_path_tear_steps.search_psb", Rsvp, "PathTear", &[C::SearchPsb])
            .and(FIND_BEFORE_TEAR)
            .but("finds session and sender in one look: beside the sum of both published steps"),
        one("table6_rsvp_path_tear_steps.tear_psb_and_path_refresh", Rsvp, "PathTear", TEAR_PSB)
            .but(SENT),
        one("table7_rsvp_resv_tear_steps.find_session_and_rsb", Rsvp, "ResvTear", &[C::FindRsb]),
        one("table7_rsvp_resv_tear_steps.reservation_tear", Rsvp, "ResvTear", TEAR_RSB)
            .but(CONTROLLED),
        one(
            "table7_rsvp_resv_tear_steps.reservation_refresh",
            Rsvp,
            "ResvTear",
            &[C::ResvRefresh, C::HandOut],
        )
        .but(SENT),
        one("table8_boomerang_tear_steps.find_session", Boomerang, RELEASE, &[C::FindSession]),
        one("table8_boomerang_tear_steps.reservation_management", Boomerang, RELEASE, BACK)
            .but("both directions at once, with the kernel's traffic control"),
        one("table8_boomerang_tear_steps.tear_session", Boomerang, RELEASE, &[C::TearSession]),
    ]
};
const RESERVE: &[C] = &[C::FindRsb, C::Admission, C::ReservationManagement, C::TrafficControl];
const BY_ROUTE: &[C] = &[C::Route, C::Admission, C::ReservationManagement, C::TrafficControl];
const TEAR_PSB: &[C] = &[C::PathRefresh, C::TearPsb, C::HandOut];
const TEAR_RSB: &[C] = &[C::TearRsb, C::TrafficControl];
const BACK: &[C] = &[C::ReservationManagement, C::TrafficControl];

/// Returns the groups of a message's steps that were published as one.
pub(super) fn groups(protocol: Protocol, message: &str) -> Vec<Steps> {
    COUNTERPARTS
        .iter()
        .filter(|one| one.protocol == protocol && one.message == message)
        .map(|one| Steps::of(one.steps))
        .collect()
}

/// Records in the section that no step was measured, with the reason.
pub(super) fn leave_out(section: &mut Section, reason: &str) {
    for one in &COUNTERPARTS {
        section.leave_out(format!("budapest.{}", one.key), reason);
    }
    section.leave_out(format!("budapest.{FIND_BEFORE_TEAR}"), reason);
}

/// Adds the steps beside the published ones; `times` returns those of a protocol's message in the daemon.
///
/// # Errors
/// A step did not occur.
pub(super) fn report<'t>(
    section: &mut Section,
    times: impl Fn(Protocol, &str) -> Option<&'t Times>,
) -> Result<()> {
    section.heading("Checkpoint 3: the steps of a message in the daemon");
    section.text(
        "The same messages, step by step: marks in the engines and in the daemon stamp the end of each step with the processor's own \
         counter, and what a mark takes is taken off. The daemon has what the published ones had: the kernel's routes, its traffic \
         control (classes of HTB), and sockets to send by. So a step in which the published daemon spoke with its kernel has the \
         counterpart of that here: reservation management includes the time until the kernel has acknowledged the class, and a \
         refresh the time of sending. The paper profiled the daemon of ISI (RSVP) and the kernel module of Telia (Boomerang) on a Pentium II \
         of 400 MHz; ours of Boomerang are those of the daemon, because the kernel's program has no marks.",
    );
    let mhz = Environment::of_this_machine().mhz;
    let theirs = published::number("budapest.cpu_mhz").context("the clock of the paper")?;
    let mut table = Table::new(
        "message-steps-published",
        "Steps of Tables 3 to 8, in the daemon",
        &["message", "step", "us", "published us", "cycles", "published cycles", "different here"],
    );
    let mut figures: Vec<StepFigure> = Vec::new();
    for one in &COUNTERPARTS {
        let key = format!("budapest.{}", one.key);
        let estimate = times(one.protocol, one.message)
            .and_then(|times| times.estimate(Steps::of(one.steps)))
            .with_context(|| format!("{key} was not measured"))?;
        let mut then =
            published::value(&key).with_context(|| format!("{key} was not published"))?;
        if let Some(more) = one.and.and_then(|key| published::value(&format!("budapest.{key}"))) {
            let sum = |[a, b]: [f64; 2], [c, d]: [f64; 2]| [a + c, b + d];
            then.value += more.value;
            then.interval = then.interval.zip(more.interval).map(|(one, more)| sum(one, more));
        }
        let (name, step) = one.table_and_step();
        let title = format!("{} {}", one.protocol.name(), one.message);
        let figure = match figures.iter_mut().find(|figure| figure.table == name) {
            Some(figure) => figure,
            None => {
                figures.push(StepFigure::new(name, &title));
                figures.last_mut().context("a figure was added")?
            }
        };
        let place = figure.steps.len() as f64;
        figure.ours.push(estimate.at(place));
        figure.published.push(then.at(place));
        figure.steps.push(step.clone());
        table.row([
            title.into(),
            step.into(),
            (&estimate).into(),
            then.into(),
            mhz.map(|mhz| estimate.times(mhz)).into(),
            then.times(theirs).into(),
            Cell::Text(one.note.unwrap_or_default().to_owned()),
        ]);
        section.entries(key, "us", [estimate], one.note);
    }
    figures.into_iter().for_each(|figure| section.figure(figure.draw()));
    section.table(table);
    section.leave_out(
        format!("budapest.{FIND_BEFORE_TEAR}"),
        "a sender is found by session and template in one look, which stands under search_psb",
    );
    Ok(())
}

/// Figure of one of the published tables.
struct StepFigure {
    table: &'static str,
    title: String,
    steps: Vec<String>,
    ours: Vec<Point>,
    published: Vec<Point>,
}

impl StepFigure {
    fn new(table: &'static str, message: &str) -> StepFigure {
        let number = table.trim_start_matches("table").split('_').next().unwrap_or_default();
        let title = format!("Steps of {message} (Table {number})");
        StepFigure { table, title, steps: Vec::new(), ours: Vec::new(), published: Vec::new() }
    }

    fn draw(self) -> Figure {
        let theirs = if self.table.contains("boomerang") { "Telia" } else { "ISI RSVP" };
        Figure {
            name: format!("message-{}", self.table.replace('_', "-")),
            title: self.title,
            across: Axis::named("step", &self.steps),
            up: Axis::linear("us"),
            kind: Kind::Bars,
            series: vec![
                Series::measured("Earmark, in the daemon", self.ours),
                Series::published(format!("{theirs}, 400 MHz"), self.published),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every published step is compared, or is part of one that is.
    #[test]
    fn every_published_step_has_a_counterpart() {
        for (key, _) in published::measurements() {
            let Some(rest) = key.strip_prefix("budapest.table") else { continue };
            if !rest.starts_with(['3', '4', '5', '6', '7', '8']) {
                continue;
            }
            let is_covered = COUNTERPARTS.iter().any(|one| {
                let keys = [Some(one.key), one.and];
                keys.into_iter().flatten().any(|of| key.strip_prefix("budapest.") == Some(of))
            });
            assert!(is_covered, "{key}");
        }
    }
}
