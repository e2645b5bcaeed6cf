//! Table 9 of the Budapest paper: steps of messages whose time grows with the number of sessions, and their slopes.

use super::counterparts::{COUNTERPARTS, Counterpart};
use super::load::{Costs, KindCosts};
use super::measurements::Measurements;
use super::regression::slope_over;
use crate::bench::router::Protocol;
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{Cell, Estimate, Section, Table};
use crate::paper_reproduction::steps::{Steps, step_name};

/// Key of the published table.
pub(super) const TABLE_9: &str = "budapest.table9_session_load";
/// Possible end of the paper's range, which the paper does not state.
pub(super) const FEW: u32 = 10_000;
/// Factor from microseconds a session to nanoseconds a thousand sessions.
const NS_A_THOUSAND: f64 = 1e6;

/// Adds the comparison with the published table, and every step of every message.
pub(super) fn report(section: &mut Section, all: &Measurements) {
    section.heading("Steps whose time depends on the number of sessions");
    let table = slopes(section, all);
    section.table(table);
    section.text(
        "ISI RSVP went through lists when path and reservation state came and went, so that each of these steps took a fifth of a \
         microsecond longer for each session. Here every look-up is by hash and every list is that of one session: no step touches \
         the state of other sessions. What slope is left is the caches': among few sessions all state is in the first or second \
         level, among many it comes from memory, which costs so much and no more. That is why the slope is steeper up to 10 000 \
         sessions than over all of them, and why its interval tells more of how far a straight line is from the truth than of \
         noise. Steps are marked in visits of their own, so that no whole message is timed with its marks; what marks take is taken off.",
    );
    if let Some(table) = every_step(all) {
        section.table(table);
    }
    section.text(
        "The paper divides steps into those whose time depends on the number of sessions and the others. Here a step depends on it if \
         its intervals with few and with many sessions do not overlap, and it takes at least a tenth longer: these are the steps that \
         first access the state of a session, or a table entry that has left the caches.",
    );
}

/// Returns the cost of a kind of message in each router of a protocol, with its number of sessions.
fn of_kind<'a>(
    all: &'a Measurements,
    protocol: Protocol,
    name: &'a str,
) -> impl Iterator<Item = (&'a Costs, &'a KindCosts)> {
    let loads = all.loads.iter().filter(move |load| load.protocol == protocol);
    loads.filter_map(move |load| {
        Some((load, load.kinds.iter().find(|kind| kind.message.name == name)?))
    })
}

/// Returns the slope of the time of a message, or of some of its steps, per session, up to a number of sessions.
fn slope_of(
    all: &Measurements,
    protocol: Protocol,
    name: &str,
    steps: Option<Steps>,
    most: u32,
) -> Option<Estimate> {
    let values = of_kind(all, protocol, name).filter(|(load, _)| load.sessions <= most);
    slope_over(values.filter_map(|(load, kind)| {
        let times = steps.map_or(Some(kind.times.as_slice()), |steps| kind.steps.of(steps))?;
        Some((load.resident(&kind.message), times))
    }))
}

/// Returns the slopes beside those of the paper.
fn slopes(section: &mut Section, all: &Measurements) -> Table {
    let mhz = Environment::of_this_machine().mhz;
    let then = published::number("budapest.cpu_mhz");
    let mut table = Table::new(
        "sessions-table9",
        "What a thousand resident sessions add to a step (Table 9)",
        &[
            "step",
            "message",
            "ns a thousand sessions",
            "up to 10 000 sessions",
            "published ns",
            "cycles a thousand sessions",
            "published cycles",
            "the whole message, ns",
        ],
    );
    for &Counterpart { key, words, message, steps } in &COUNTERPARTS {
        let slope = |steps, most| slope_of(all, Protocol::Rsvp, message, steps, most);
        let steps = Some(Steps::of(steps));
        let Some(value) = slope(steps, u32::MAX) else { continue };
        let key = format!("{TABLE_9}.{key}");
        let published = published::number(&key);
        table.row([
            words.into(),
            message.into(),
            value.times(NS_A_THOUSAND).into(),
            slope(steps, FEW).map(|slope| slope.times(NS_A_THOUSAND)).into(),
            published.map(|us| us * NS_A_THOUSAND).into(),
            mhz.map(|mhz| value.times(1e3 * mhz)).into(),
            published.zip(then).map(|(us, mhz)| us * 1e3 * mhz).into(),
            slope(None, u32::MAX).map(|slope| slope.times(NS_A_THOUSAND)).into(),
        ]);
        let note = format!("slope of the step in {message}, without the kernel's traffic control");
        section.entries(key, "us per session", [value], &*note);
    }
    table
}

/// Returns every step of every message, with few and with many sessions; `None` if there was only one number of
/// sessions.
fn every_step(all: &Measurements) -> Option<Table> {
    let sessions = || all.loads.iter().map(|load| load.sessions);
    let many = sessions().max()?;
    // The state of a single session stays in the first-level cache.
    let few = sessions().filter(|&sessions| sessions > 1).min()?;
    if few == many {
        return None;
    }
    let columns = [
        "protocol".to_owned(),
        "message".to_owned(),
        "step".to_owned(),
        format!("{few} sessions, us"),
        format!("{many} sessions, us"),
        "ns a thousand sessions".to_owned(),
        "depends on it".to_owned(),
    ];
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = "Every step of every message, among few sessions and among many";
    let mut table = Table::new("sessions-steps", title, &columns);
    for protocol in Protocol::RESERVING {
        for message in protocol.messages_of_both_ends() {
            let at = |sessions| {
                let mut of_kind = of_kind(all, protocol, message.name);
                of_kind.find(|(load, _)| load.sessions == sessions).map(|(_, kind)| kind)
            };
            let (Some(at_few), Some(at_many)) = (at(few), at(many)) else { continue };
            let order = at_many.steps.order().iter();
            let steps = order.map(|&step| (step_name(step), Some(Steps::of(&[step]))));
            for (name, steps) in steps.chain([("all of it".to_owned(), None)]) {
                let estimate = |kind: &KindCosts| match steps {
                    Some(steps) => kind.steps.estimate(steps),
                    None => Estimate::over_time(&kind.times),
                };
                let (among_few, among_many) = (estimate(at_few), estimate(at_many));
                let slope = slope_of(all, protocol, message.name, steps, u32::MAX);
                let depends = among_few.as_ref().zip(among_many.as_ref());
                let depends = depends.map(|(few, many)| is_slower(few, many));
                table.row([
                    protocol.name().into(),
                    message.name.into(),
                    name.into(),
                    among_few.into(),
                    among_many.into(),
                    slope.map(|slope| slope.times(NS_A_THOUSAND)).into(),
                    depends
                        .map_or(Cell::Nothing, |depends| if depends { "yes" } else { "no" }.into()),
                ]);
            }
        }
    }
    Some(table)
}

/// Returns whether times with many sessions are longer: the intervals do not overlap, and the difference is at least
/// a tenth.
fn is_slower(few: &Estimate, many: &Estimate) -> bool {
    many.low > few.high && many.median > 1.1 * few.median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_steps_differ_clearly_and_by_a_tenth() {
        let between = |low, median, high| Estimate::between(low, median, high, 8);
        let few = between(9.0, 10.0, 11.0);
        assert!(is_slower(&few, &between(11.5, 12.0, 13.0)));
        assert!(!is_slower(&few, &between(10.5, 12.0, 13.0)), "the intervals overlap");
        assert!(!is_slower(&between(9.9, 10.0, 10.1), &between(10.4, 10.5, 10.6)), "a twentieth");
    }
}
