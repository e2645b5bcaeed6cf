//! The published studies of signalling overhead, done again on this machine with the engines and the daemon of this project, in one
//! report that lays both side by side.
//!
//! Each part is a module, and gives a [`Chapter`]: words, tables, figures, and values under the keys of the published ones. Parts that are
//! done are put aside ([`store`]), so that a report that was interrupted goes on where it ended.
//!
//! - [`messages`](mod@messages): what messages cost a router, step by step and from interface to interface (Budapest).
//! - [`loads`](mod@loads): the same while other packets, or many messages, pass (Budapest).
//! - [`architecture`]: what reservations ask of a processor and its caches (the paper of Delft).
//! - [`passage`]: one router with a daemon between two hosts, for parts that need one.
//! - [`retry`](mod@retry): how refused reservations are retried (the papers of Pan and Schulzrinne); in full it is a study of its own.
//! - [`sessions`](mod@sessions): what each resident session adds to messages, look-ups and timers (Budapest paper, section 6.3), beside
//!   the structures of earlier implementations ([`baselines`](mod@baselines)).
//! - [`yessir`](mod@yessir): a new flow of YESSIR, step by step (Tables 2 and 3 of Pan and Schulzrinne).
//! - [`gist`](mod@gist): octets, processor, memory and time of GIST (the paper of Fu and others).
//! - [`rounds`](mod@rounds): how parts measure again and again, as another report would.
//! - [`scale`](mod@scale): the largest bursts and rates of one router, protocol by protocol.
//! - [`environment`]: the machine, and how quiet it was.
//! - [`chapter`], [`published`], [`results`], [`page`], [`figure`]: what a part gives, and how it is shown.

mod architecture;
mod baselines;
pub mod chapter;
pub mod environment;
pub mod figure;
mod gist;
mod loads;
mod marks;
mod messages;
pub mod page;
pub mod passage;
pub mod published;
pub mod results;
mod retry;
mod rounds;
mod scale;
mod sessions;
mod steps;
pub mod store;
mod yessir;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::Supervision;
use crate::testbed;
use chapter::{Chapter, Estimate};
use environment::{Environment, Noise};
use rounds::{InRounds, Spread};
use store::Store;

/// What a part is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// Whether all parts together shall take no more than five minutes.
    pub quick: bool,
    /// Why there can be no network namespaces here, where that is so: then a part leaves out what needs them, and says so.
    pub obstacle: Option<String>,
}

/// A part of the report.
pub struct Part {
    /// Its name, for `--only` and for files.
    pub name: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// The first words of the keys of its published figures.
    pub keys: &'static [&'static str],
    measure: Measure,
}

/// How a part is measured.
#[derive(Clone, Copy)]
enum Measure {
    /// All of it when its turn comes.
    AtOnce(fn(&Order, &Supervision<'_>) -> Result<Chapter>),
    /// In rounds that lie between the other parts.
    InRounds(fn(&Order) -> Box<dyn InRounds>),
}

/// All of them, in the order of the page.
pub const PARTS: &[Part] = &[
    Part {
        name: "messages",
        title: "What a message costs a router",
        keys: &[
            "budapest.table1_isi_rsvp",
            "budapest.table2_boomerang",
            "budapest.table3_rsvp_path_steps",
            "budapest.table4_rsvp_resv_steps",
            "budapest.table5_boomerang_steps",
            "budapest.table6_rsvp_path_tear_steps",
            "budapest.table7_rsvp_resv_tear_steps",
            "budapest.table8_boomerang_tear_steps",
        ],
        measure: Measure::AtOnce(messages::measure),
    },
    Part {
        name: "loads",
        title: "Messages under load",
        // What was published of it are drawings without numbers.
        keys: &[],
        measure: Measure::AtOnce(loads::measure),
    },
    Part {
        name: "sessions",
        title: "Resident sessions",
        keys: &["budapest.table9_session_load"],
        measure: Measure::AtOnce(sessions::measure),
    },
    Part {
        name: "yessir",
        title: "A reservation in one pass: YESSIR",
        keys: &["pan.table2_flow_build", "pan.table3_yessir"],
        measure: Measure::InRounds(yessir::rounds),
    },
    Part {
        name: "architecture",
        title: "What reservations ask of a processor",
        keys: &["delft"],
        measure: Measure::AtOnce(architecture::measure),
    },
    Part { name: "gist", title: "GIST", keys: &["gist"], measure: Measure::AtOnce(gist::measure) },
    Part {
        name: "scale",
        title: "How much signalling a router takes",
        keys: &[],
        measure: Measure::AtOnce(scale::measure),
    },
    Part {
        name: "retry",
        title: "Retrying refused reservations",
        keys: &["pan.regular_load", "pan.high_load"],
        measure: Measure::AtOnce(retry::measure),
    },
];

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Less of everything.
    pub quick: bool,
    /// Only these parts; all where there are none.
    pub only: Vec<String>,
    /// Whether parts that are done are done again.
    pub fresh: bool,
    /// `results.json` of an earlier report that this one is held against.
    pub against: Option<PathBuf>,
    /// Where it goes.
    pub out: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The page.
    pub page: PathBuf,
    /// Parts that broke off, and why.
    pub broken: Vec<(&'static str, String)>,
}

/// Measures what is not done yet, and writes the report.
///
/// # Errors
/// It was interrupted, or a file cannot be written; all parts that were done until then are put aside.
pub fn report(plan: &Plan, supervision: &Supervision<'_>) -> Result<Outcome> {
    let against = plan.against.as_deref().map(read_results).transpose()?;
    let mut environment = Environment::of_this_machine();
    environment.before = Some(Noise::measure());
    let order = Order { quick: plan.quick, obstacle: testbed::obstacle() };
    let store = Store::open(&plan.out, plan.quick, order.obstacle.is_none(), &environment)?;
    let mut known = Vec::new();
    for part in PARTS {
        let is_asked_for = plan.only.is_empty() || plan.only.iter().any(|name| name == part.name);
        let again = is_asked_for && plan.fresh;
        let done = if again { None } else { store.load(part.name)? };
        let unasked = (!is_asked_for).then(|| lacking(part, "it was not asked for"));
        known.push((part, done.or(unasked)));
    }
    let mut measured = measure(&known, &order, &store, supervision)?.into_iter();
    let (mut chapters, mut broken) = (Vec::new(), Vec::new());
    for (part, chapter) in known {
        let chapter = match chapter {
            Some(chapter) => chapter,
            None => measured.next().context("a part was not measured")?.unwrap_or_else(|error| {
                let why = format!("{error:#}");
                let chapter = lacking(part, &format!("it broke off: {why}"));
                broken.push((part.name, why));
                chapter
            }),
        };
        chapters.push((part, chapter));
    }
    environment.after = Some(Noise::measure());
    let page = write(plan, &order, &environment, &chapters, against.as_deref())?;
    Ok(Outcome { page, broken })
}

/// Measures the parts that have no chapter, and puts them aside; gives them in their order, or what they broke off for.
fn measure(
    parts: &[(&Part, Option<Chapter>)],
    order: &Order,
    store: &Store,
    supervision: &Supervision<'_>,
) -> Result<Vec<Result<Chapter>>> {
    let missing = || parts.iter().filter(|(_, chapter)| chapter.is_none()).map(|(part, _)| *part);
    let mut spread: Vec<Option<Spread>> = missing()
        .map(|part| match part.measure {
            Measure::AtOnce(_) => None,
            Measure::InRounds(begin) => Some(Spread::new(part.name, begin(order))),
        })
        .collect();
    let stops = spread.iter().filter(|rounds| rounds.is_none()).count() + 1;
    let keep = |part: &Part, measured: Result<Chapter>| -> Result<Result<Chapter>> {
        supervision.go_on()?;
        if let Ok(chapter) = &measured {
            store.save(part.name, chapter)?;
        }
        Ok(measured)
    };
    let mut at_once = Vec::new();
    for part in missing() {
        let Measure::AtOnce(measure) = part.measure else { continue };
        for rounds in spread.iter_mut().flatten() {
            rounds.stop(at_once.len(), stops, supervision);
        }
        supervision.go_on()?;
        at_once.push(keep(part, measure(order, supervision))?);
    }
    let mut at_once = at_once.into_iter();
    let mut all = Vec::new();
    for (part, rounds) in missing().zip(spread) {
        all.push(match rounds {
            None => at_once.next().context("a part was not measured")?,
            Some(mut rounds) => {
                rounds.stop(stops - 1, stops, supervision);
                keep(part, rounds.tell())?
            }
        });
    }
    Ok(all)
}

/// Of a part that was not measured.
fn lacking(part: &Part, reason: &str) -> Chapter {
    let mut chapter = Chapter::default();
    for key in part.keys {
        chapter.leave_out(*key, reason);
    }
    chapter
}

fn read_results(file: &Path) -> Result<Vec<(String, Estimate)>> {
    let cannot = || format!("cannot read {}", file.display());
    let text = fs::read_to_string(file).with_context(cannot)?;
    let all: Value = serde_json::from_str(&text).with_context(cannot)?;
    Ok(results::values(&all))
}

fn write(
    plan: &Plan,
    order: &Order,
    environment: &Environment,
    chapters: &[(&Part, Chapter)],
    against: Option<&[(String, Estimate)]>,
) -> Result<PathBuf> {
    let all = results::results(chapters.iter().map(|(_, chapter)| chapter), environment);
    let mut here = environment.chapter();
    if let Some(earlier) = against {
        here.text(agreement(earlier, &results::values(&all)));
    }
    let mut first = vec![
        "What five papers measured of reservation protocols between 2000 and 2009, measured again on this machine, with the engines and \
         the daemon of Earmark. Behind each value stands the interval that holds the true one in 95 of 100 cases; published values \
         come from the machines of their time, and cycles (microseconds by MHz) are the one comparison that crosses machines."
            .to_owned(),
    ];
    if plan.quick {
        first.push(
            "This is the quick report: fewer repetitions, and fewer points in each figure."
                .to_owned(),
        );
    }
    if let Some(obstacle) = &order.obstacle {
        first.push(format!(
            "What needs network namespaces was left out: {obstacle}. As root the same command measures it."
        ));
    }
    let warning = environment.is_noisy().then_some(
        "This machine was too noisy while it measured for small differences to mean anything: see the last chapter.",
    );
    let mut titled: Vec<page::Titled<'_>> =
        chapters.iter().map(|(part, chapter)| (part.name, part.title, chapter)).collect();
    titled.push(("environment", "The machine", &here));
    let text = page::page("The overhead of reservation protocols", &first, warning, &titled);
    let put = |name: &str, text: &str| -> Result<PathBuf> {
        let file = plan.out.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    };
    for (_, _, chapter) in &titled {
        for table in chapter.tables() {
            put(&format!("{}.csv", table.name), &page::csv(table)?)?;
        }
    }
    put("results.json", &serde_json::to_string_pretty(&all)?)?;
    put("index.html", &text)
}

/// How many medians lie within the intervals of an earlier report.
fn agreement(earlier: &[(String, Estimate)], now: &[(String, Estimate)]) -> String {
    let pairs = now.iter().filter_map(|(key, now)| {
        let (_, before) = earlier.iter().find(|(other, _)| other == key)?;
        Some((key, before, now))
    });
    let (mut all, mut outside) = (0, Vec::new());
    for (key, before, now) in pairs {
        all += 1;
        if !(before.low..=before.high).contains(&now.median) {
            outside.push(key.as_str());
        }
    }
    let within = all - outside.len();
    let share = 100.0 * within as f64 / (all as f64).max(1.0);
    let verdict = match share {
        share if share >= 90.0 => "",
        _ => " That is less than 90 %: this machine is too noisy, or something has changed.",
    };
    let outside = match outside.as_slice() {
        [] => String::new(),
        keys => format!(" Outside: {}.", keys.join(", ")),
    };
    format!(
        "Of {all} values {within} ({share:.0} %) lie within the intervals of the earlier report.{verdict}{outside}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names_of_their_own_and_keys_that_are_published() {
        for (place, part) in PARTS.iter().enumerate() {
            assert!(PARTS[..place].iter().all(|other| other.name != part.name));
            for key in part.keys {
                let mut keys = published::measurements().map(|(key, _)| key);
                assert!(keys.any(|found| published::is_under(found, key)), "{key}");
            }
        }
    }

    /// What is no report, or none of ours, is told by the name of its file, or has nothing to be held against.
    #[test]
    fn rubbish_is_no_earlier_report() {
        let file =
            std::env::temp_dir().join(format!("earmark-earlier-{}.json", std::process::id()));
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            read_results(&file).map_err(|error| format!("{error:#}"))
        };
        for rubbish in ["", "{\"pan\":", "\u{0}\u{1}"] {
            let error = read(rubbish).unwrap_err();
            assert!(error.contains("cannot read") && error.contains("earmark-earlier-"), "{error}");
        }
        for other in ["[]", "7", r#"{"a":{"value":"x","interval":[],"repetitions":-1}}"#] {
            assert_eq!(read(other).unwrap(), []);
        }
        fs::remove_file(&file).unwrap();
        assert!(read_results(&file).is_err(), "it is not there");
    }

    #[test]
    fn reports_are_held_against_each_other() {
        let value = |median: f64| Estimate {
            median,
            low: median - 1.0,
            high: median + 1.0,
            repetitions: 9,
        };
        let of = |values: &[(&str, f64)]| -> Vec<(String, Estimate)> {
            values.iter().map(|(key, median)| ((*key).to_owned(), value(*median))).collect()
        };
        let earlier = of(&[("a", 1.0), ("b", 2.0), ("gone", 3.0)]);
        let same = agreement(&earlier, &of(&[("a", 1.5), ("b", 1.5)]));
        assert_eq!(same, "Of 2 values 2 (100 %) lie within the intervals of the earlier report.");
        let other = agreement(&earlier, &of(&[("a", 1.5), ("b", 9.0), ("new", 1.0)]));
        assert!(other.contains("Of 2 values 1 (50 %)") && other.contains("Outside: b."), "{other}");
    }
}
